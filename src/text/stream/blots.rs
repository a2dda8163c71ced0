//! The blots of one document.

use crate::base::codec::empty;

/// The blots of one document in the order of their windows.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Blots {
    pub values: Vec<u64>,
    /// The number of each window's first token.
    pub positions: Vec<u32>,
    /// How many tokens the document has.
    pub tokens: u64,
    /// How many distinct blots the document has in all, where the selection leaves out those that no other document shares.
    pub distinct: Option<u64>,
}

impl Blots {
    pub fn clear(&mut self) {
        empty(&mut self.values);
        empty(&mut self.positions);
        self.tokens = 0;
        self.distinct = None;
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub fn push(&mut self, value: u64, position: u32) {
        self.values.push(value);
        self.positions.push(position);
    }
}
