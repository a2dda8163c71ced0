//! Ids that also tell where a document is, for collections in which two documents may have one id.
//!
//! `12 9 web.jsonlhttp://a/` is the document `http://a/`, record 12 of `web.jsonl`, a name of 9 bytes.

use std::fmt::Write;

/// Where a document is, and its own id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedId<'i> {
    /// What messages call the file.
    pub file: &'i str,
    /// See [`InputDocument::record`](super::InputDocument::record).
    pub record: u64,
    /// The id that the document has of its own.
    pub id: &'i str,
}

impl<'i> PlacedId<'i> {
    /// Replaces `out` by an id that no other document of a collection has.
    pub fn write(self, out: &mut String) {
        let Self { file, record, id } = self;
        out.clear();
        let _ = write!(out, "{record} {} {file}{id}", file.len());
    }

    /// Reads what [`write`](Self::write) wrote; nothing if this is another id.
    pub fn parse(placed: &'i str) -> Option<Self> {
        let (record, rest) = placed.split_once(' ')?;
        let (length, rest) = rest.split_once(' ')?;
        let (file, id) = rest.split_at_checked(length.parse().ok()?)?;
        let record = record.parse().ok()?;
        Some(Self { file, record, id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_id_is_read_as_it_was_written(file: String, record: u64, id: String) {
            let (placed, mut written) = (PlacedId { file: &file, record, id: &id }, String::new());
            placed.write(&mut written);
            prop_assert_eq!(PlacedId::parse(&written), Some(placed));
        }
    }

    #[test]
    fn other_ids_are_not_read() {
        for id in ["", "a", "1 ", "1 2", "1 9 short", "x 1 ab", "1 1 é"] {
            assert_eq!(PlacedId::parse(id), None, "{id}");
        }
    }
}
