//! The ids of all documents of an index, in memory.

use super::Format;
use crate::{
    base::{error::Result, ids::DocNo},
    index::View,
};

/// Strings one after the other.
#[derive(Default)]
struct StringList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl StringList {
    /// Ends the string that was appended to `bytes`.
    fn finish_string(&mut self) {
        self.ends.push(self.bytes.len());
    }

    fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }
}

/// The ids of all documents. Memory: their bytes, and eight bytes for each.
pub struct DocumentIds(StringList);

impl DocumentIds {
    /// Reads all ids.
    pub fn read(view: &View<'_>) -> Result<Self> {
        let mut ids = StringList::default();
        for document in DocNo::first(view.documents()) {
            ids.bytes.extend_from_slice(view.id(document)?.as_bytes());
            ids.finish_string();
        }
        Ok(Self(ids))
    }

    /// The id of a document.
    pub fn get(&self, document: DocNo) -> &str {
        // Only whole ids were appended.
        std::str::from_utf8(self.0.get(document.index())).unwrap_or_default()
    }
}

/// The ids of all documents as they are written in one format, for writers that copy them many
/// times. Memory: their bytes, and eight bytes for each.
pub struct EncodedIds(StringList);

impl EncodedIds {
    /// Reads and encodes all ids.
    pub fn read(view: &View<'_>, format: Format) -> Result<Self> {
        let mut ids = StringList::default();
        for document in DocNo::first(view.documents()) {
            format.put_text(&view.id(document)?, &mut ids.bytes)?;
            ids.finish_string();
        }
        Ok(Self(ids))
    }

    /// The id of a document.
    pub fn get(&self, document: DocNo) -> &[u8] {
        self.0.get(document.index())
    }
}
