//! Documents that are to be written: rows and ids, without an allocation for each document.

use super::document_row::{DocumentRow, ROW_BYTES};
use crate::base::num::{ToU64, ToUsize};

/// Documents by rising number.
///
/// Memory: 60 bytes a document, and its id. They are three large blocks: beyond the limit of memory
/// they are in temporary files, see [`SpillingAllocator`](crate::base::files::SpillingAllocator).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentTable {
    rows: Vec<[u8; ROW_BYTES]>,
    /// All ids, one after the other.
    ids: String,
    /// Where each id ends.
    ends: Vec<u64>,
}

impl DocumentTable {
    /// Adds a document.
    pub fn push(&mut self, id: &str, row: &DocumentRow) {
        self.rows.push(row.of_id(id).to_bytes());
        self.ids.push_str(id);
        self.ends.push(self.ids.len().to_u64());
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no document.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The row at a place, which is below [`DocumentTable::len`].
    pub fn row(&self, place: usize) -> DocumentRow {
        DocumentRow::read(&self.rows[place])
    }

    /// All rows.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = DocumentRow> {
        self.rows.iter().map(|row| DocumentRow::read(row))
    }

    /// Replaces the row at a place; its id stays.
    pub(super) fn set_row(&mut self, place: usize, row: &DocumentRow) {
        self.rows[place] = row.to_bytes();
    }

    /// The id at a place.
    pub fn id(&self, place: usize) -> &str {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.ids[start.to_usize()..self.ends[place].to_usize()]
    }

    /// All ids.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|place| self.id(place))
    }

    /// All rows as in a file.
    pub(super) fn row_bytes(&self) -> &[u8] {
        self.rows.as_flattened()
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        (self.rows.capacity() * ROW_BYTES + self.ends.capacity() * size_of::<u64>()).to_u64()
            + self.ids.capacity().to_u64()
    }
}
