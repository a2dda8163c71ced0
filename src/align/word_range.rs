//! Ranges of words, which are easily mistaken for spans of bytes.

use crate::base::num::ToUsize;
use std::ops::Range;

/// Words `start..end` of a prepared text, counted from 0. The bytes of a text have
/// [`Span`](crate::text::stream::Span) for this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WordRange {
    /// The first word.
    pub start: u32,
    /// The word after the last one; not less than `start`.
    pub end: u32,
}

impl WordRange {
    /// The number of words.
    pub fn len(self) -> u32 {
        self.end - self.start
    }

    /// Whether there is no word in it.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The words as the range of a slice.
    pub fn range(self) -> Range<usize> {
        self.start.to_usize()..self.end.to_usize()
    }

    /// The word in the middle; of two, the later one.
    pub(super) fn middle(self) -> usize {
        (self.start + self.len() / 2).to_usize()
    }

    /// Whether more than half of the words are in the other range.
    pub(super) fn is_mostly_in(self, other: Self) -> bool {
        is_mostly_in(self.start..self.end, other.start..other.end)
    }
}

/// Whether more than half of a range is in another, in words or in bytes.
pub(super) fn is_mostly_in(range: Range<u32>, other: Range<u32>) -> bool {
    let common = range
        .end
        .min(other.end)
        .saturating_sub(range.start.max(other.start));
    2 * common > range.end - range.start
}
