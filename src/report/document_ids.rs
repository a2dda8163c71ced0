//! The ids of all documents of an index, in memory.

use super::Format;
use crate::{
    base::{error::Result, ids::DocNo},
    index::View,
};
use std::ops::Range;

/// The ids of all documents. Memory: their bytes, and eight bytes for each.
pub struct DocumentIds {
    /// One after the other.
    text: String,
    ends: Vec<usize>,
}

impl DocumentIds {
    /// Reads all ids.
    pub fn read(view: &View<'_>) -> Result<Self> {
        let mut ids = Self {
            text: String::new(),
            ends: Vec::with_capacity(view.documents()),
        };
        for document in DocNo::first(view.documents()) {
            ids.text.push_str(&view.id(document)?);
            ids.ends.push(ids.text.len());
        }
        Ok(ids)
    }

    /// The id of a document.
    pub fn get(&self, document: DocNo) -> &str {
        &self.text[range_of(&self.ends, document)]
    }
}

/// The ids of all documents as they are written in one format, for writers that copy them many
/// times. Memory: their bytes, and eight bytes for each.
pub struct EncodedIds {
    /// One after the other.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl EncodedIds {
    /// Reads and encodes all ids.
    pub fn read(view: &View<'_>, format: Format) -> Result<Self> {
        let mut ids = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(view.documents()),
        };
        for document in DocNo::first(view.documents()) {
            format.put_text(&view.id(document)?, &mut ids.bytes)?;
            ids.ends.push(ids.bytes.len());
        }
        Ok(ids)
    }

    /// The id of a document.
    pub fn get(&self, document: DocNo) -> &[u8] {
        &self.bytes[range_of(&self.ends, document)]
    }
}

/// Where the id of a document is, given where each of them ends.
fn range_of(ends: &[usize], document: DocNo) -> Range<usize> {
    let index = document.index();
    let start = if index == 0 { 0 } else { ends[index - 1] };
    start..ends[index]
}
