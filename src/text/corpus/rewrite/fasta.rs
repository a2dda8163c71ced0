//! FASTA: a record starts with a line that begins with `>`.

use super::{CopyError, CopyStart, PackedWriter, RecordCopier, RecordFates, stays_whole};
use crate::text::corpus::unpack::Input;
use std::io::{BufRead, Write};

/// Copies sequences with the line before each. What comes before the first stays.
///
/// Memory: the buffer of the input.
pub struct FastaCopier;

impl RecordCopier for FastaCopier {
    fn copy(
        &self,
        mut input: Input,
        start: CopyStart,
        fates: &mut dyn RecordFates,
        mut out: PackedWriter<'_>,
    ) -> Result<(), CopyError> {
        let (mut line, mut starts_line, mut is_kept) = (start.line, true, true);
        loop {
            let bytes = input.fill_buf();
            let bytes = bytes.map_err(|error| CopyError::reading(&error))?;
            if bytes.is_empty() {
                return out.finish().map_err(CopyError::Output);
            }
            if starts_line && bytes.starts_with(b">") {
                is_kept = stays_whole(fates.fate(line)?, "a sequence")?;
            }
            let end = memchr::memchr(b'\n', bytes);
            let part = &bytes[..end.map_or(bytes.len(), |end| end + 1)];
            if is_kept {
                out.write_all(part).map_err(CopyError::Output)?;
            }
            starts_line = end.is_some();
            line += u64::from(starts_line);
            let used = part.len();
            input.consume(used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::corpus::rewrite::tests::{Fates, copied};
    use proptest::prelude::*;

    #[test]
    fn sequences_are_not_changed() {
        let mut fates = Fates::default();
        fates.of.entry(1).or_default().note = Some("1".to_owned());
        let failed = copied(&FastaCopier, b">a\nAC\n", 9, &fates).unwrap_err();
        assert_eq!(
            failed,
            "a sequence cannot be changed, only kept or left out"
        );
    }

    proptest! {
        #[test]
        fn sequences_go_with_their_heads(file in "[>A\r\n]{0,40}", dropped in prop::collection::btree_set(1_u64..20, 0..9), piece_bytes in 1_usize..9) {
            let (mut expected, mut is_kept) = (String::new(), true);
            for (number, line) in (1_u64..).zip(file.split_inclusive('\n')) {
                if line.starts_with('>') {
                    is_kept = !dropped.contains(&number);
                }
                expected.push_str(if is_kept { line } else { "" });
            }
            let found = copied(&FastaCopier, file.as_bytes(), piece_bytes, &Fates::dropping(dropped)).unwrap();
            prop_assert_eq!(String::from_utf8(found).unwrap(), expected);
        }
    }
}
