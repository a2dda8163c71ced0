//! The blots of one document.

use crate::base::codec::clear_buffer;
use crate::base::num::ToU32;

/// The blots of one document in the order of their windows.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Blots {
    /// The blots.
    pub values: Vec<u64>,
    /// The number of each window's first token; none where `is_counted`.
    pub positions: Vec<u32>,
    /// A window starts with each token in turn: positions are 0, 1, 2 and so on, and need no memory.
    pub is_counted: bool,
    /// How many tokens the document has.
    pub tokens: u64,
    /// How many distinct blots the document has in all, where the selection leaves out those that no other document shares.
    pub distinct: Option<u64>,
}

impl Blots {
    /// Removes all blots, and frees large buffers.
    pub fn clear(&mut self) {
        clear_buffer(&mut self.values);
        clear_buffer(&mut self.positions);
        self.is_counted = false;
        self.tokens = 0;
        self.distinct = None;
    }

    /// Bytes of memory, about.
    pub fn weight(&self) -> usize {
        size_of_val(&self.values[..]) + size_of_val(&self.positions[..])
    }

    /// The number of blots.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no blots.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether it is known where the windows are.
    pub fn has_positions(&self) -> bool {
        self.is_counted || self.positions.len() == self.values.len()
    }

    /// The number of each window's first token, where that is known.
    pub fn positions(&self) -> impl Iterator<Item = u32> + '_ {
        let counted = if self.is_counted {
            self.values.len().to_u32()
        } else {
            0
        };
        self.positions.iter().copied().chain(0..counted)
    }

    /// Appends a blot and the number of its first token.
    pub fn push(&mut self, value: u64, position: u32) {
        self.values.push(value);
        self.positions.push(position);
    }
}
