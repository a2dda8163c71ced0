//! Web archives: a record stays or goes as a whole.

use super::{CopyError, CopyStart, PackedWriter, RecordCopier, RecordFates, stays_whole};
use crate::text::corpus::{sequence::RawWarcRecords, unpack::Input};
use std::io::Write;

/// Copies records. Those that never are documents (`warcinfo`, `request` and the like) stay. In a gzip file every record
/// is a member of its own, as programs that seek in archives expect.
///
/// Memory: the header of a record.
pub struct WarcCopier;

impl RecordCopier for WarcCopier {
    fn copy(
        &self,
        input: Input,
        _: CopyStart,
        fates: &mut dyn RecordFates,
        mut out: PackedWriter<'_>,
    ) -> Result<(), CopyError> {
        let mut records = RawWarcRecords::open(input);
        let mut is_first = true;
        while let Some((number, may_be_document)) = records.next_header()? {
            let is_kept =
                !may_be_document || stays_whole(fates.fate(number)?, "a record of a web archive")?;
            if !is_kept {
                records.pass_record::<CopyError>(&mut |_| Ok(()))?;
                continue;
            }
            if !is_first {
                out = out.end_member().map_err(CopyError::Output)?;
            }
            is_first = false;
            records.pass_record(&mut |bytes| out.write_all(bytes).map_err(CopyError::Output))?;
        }
        out.finish().map_err(CopyError::Output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::corpus::{
        Packing,
        rewrite::tests::{Fates, copied},
    };
    use proptest::prelude::*;
    use std::io::{Cursor, Read};

    const KINDS: [&str; 5] = ["warcinfo", "request", "response", "conversion", "resource"];

    fn record(kind: &str, content: &[u8], line_end: &str) -> Vec<u8> {
        let head = [
            "WARC/1.0",
            &format!("WARC-Type: {kind}"),
            &format!("Content-Length: {}", content.len()),
            "",
            "",
        ];
        [
            head.join(line_end).as_bytes(),
            content,
            line_end.as_bytes(),
            line_end.as_bytes(),
        ]
        .concat()
    }

    #[test]
    fn damage_and_changes_are_named() {
        let mut archive = record("conversion", b"text", "\r\n");
        let mut fates = Fates::default();
        fates.of.entry(1).or_default().note = Some("1".to_owned());
        assert_eq!(
            copied(&WarcCopier, &archive, 7, &fates).unwrap_err(),
            "a record of a web archive cannot be changed, only kept or left out"
        );
        archive.truncate(archive.len() - 5);
        let failed = copied(&WarcCopier, &archive, 7, &Fates::default()).unwrap_err();
        assert_eq!(
            failed,
            "byte 0: the record is truncated: it has 3 of 4 bytes"
        );
    }

    proptest! {
        #[test]
        fn every_record_that_stays_is_a_member(
            records in prop::collection::vec((0_usize..5, "[W\r\n]{0,9}", any::<bool>()), 0..9),
            dropped in prop::collection::btree_set(1_u64..10, 0..6),
            piece_bytes in 1_usize..30,
        ) {
            let records: Vec<_> = records.iter().map(|(kind, content, is_old)| (KINDS[*kind], record(KINDS[*kind], content.as_bytes(), if *is_old { "\n" } else { "\r\n" }))).collect();
            let archive: Vec<u8> = records.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
            let stays = |(number, (kind, _)): &(u64, &(&str, Vec<u8>))| matches!(*kind, "warcinfo" | "request") || !dropped.contains(number);
            let expected: Vec<_> = (1_u64..).zip(&records).filter(stays).map(|(_, (_, bytes))| bytes.clone()).collect();
            let fates = Fates::dropping(dropped.iter().copied());
            prop_assert_eq!(copied(&WarcCopier, &archive, piece_bytes, &fates).unwrap(), expected.concat());

            let mut packed = Vec::new();
            let writer = PackedWriter::new(&mut packed, Packing::Gzip).unwrap();
            WarcCopier.copy(Box::new(Cursor::new(archive)), CopyStart::default(), &mut fates.clone(), writer).unwrap();
            let (mut rest, mut members) = (&packed[..], Vec::new());
            while !rest.is_empty() {
                let mut member = Vec::new();
                flate2::bufread::GzDecoder::new(&mut rest).read_to_end(&mut member).unwrap();
                members.push(member);
            }
            // An archive without records is one empty member.
            prop_assert_eq!(members, if expected.is_empty() { vec![Vec::new()] } else { expected });
        }
    }
}
