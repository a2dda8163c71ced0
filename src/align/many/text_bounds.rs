//! The texts in the sequence of all tokens.

use crate::base::num::{ToU32, ToUsize};
use std::ops::Range;

/// The texts in the sequence of all tokens, and the number of copies of each.
///
/// Of DNA each text is there twice: first the sequence, then, after one token that equals no other,
/// its reverse complement.
pub struct TextBounds {
    /// The first token of each strand of each text, ascending.
    starts: Vec<u64>,
    /// The number of documents with each text.
    copies: Vec<u32>,
    /// The number of strands of a text.
    strands: usize,
    /// For every 2⁹ tokens: the strand in which they begin.
    hints: Vec<u32>,
}

const HINT_BITS: u32 = 9;

impl TextBounds {
    /// `starts` ascend, the first token of all is before the first text, and the last text ends
    /// before `end`. Each text has `starts.len() / copies.len()` strands.
    pub fn new(starts: Vec<u64>, copies: Vec<u32>, end: u64) -> Self {
        let mut strand = 0;
        let hints = (0..=end >> HINT_BITS).map(|hint| {
            while starts
                .get(strand + 1)
                .is_some_and(|&start| start <= hint << HINT_BITS)
            {
                strand += 1;
            }
            strand.to_u32()
        });
        Self {
            hints: hints.collect(),
            strands: (starts.len() / copies.len().max(1)).max(1),
            starts,
            copies,
        }
    }

    fn strand_of(&self, at: u64) -> usize {
        let mut strand = self.hints[(at >> HINT_BITS).to_usize()].to_usize();
        while self
            .starts
            .get(strand + 1)
            .is_some_and(|&start| start <= at)
        {
            strand += 1;
        }
        strand
    }

    /// The text of a token.
    pub fn of(&self, at: u64) -> u32 {
        (self.strand_of(at) / self.strands).to_u32()
    }

    /// The first token of a text.
    pub fn start(&self, text: u32) -> u64 {
        self.starts[text.to_usize() * self.strands]
    }

    /// The number of documents with a text.
    pub fn copies(&self, text: u32) -> u32 {
        self.copies[text.to_usize()]
    }

    /// Whether texts have two strands.
    pub fn has_strands(&self) -> bool {
        self.strands > 1
    }

    /// Maps a range of tokens to the first strand of its text; and whether it is on the other one.
    pub fn to_first_strand(&self, range: Range<u64>) -> (Range<u64>, bool) {
        let strand = self.strand_of(range.start);
        if strand.is_multiple_of(self.strands) {
            return (range, false);
        }
        (self.opposite(range, strand), true)
    }

    /// The tokens on the other strand that face a range.
    pub fn to_opposite_strand(&self, range: Range<u64>) -> Range<u64> {
        let strand = self.strand_of(range.start);
        self.opposite(range, strand - strand % self.strands + 1)
    }

    /// The range that faces this one; `second` is the number of the second strand of the text.
    fn opposite(&self, range: Range<u64>, second: usize) -> Range<u64> {
        // Both strands have as many tokens, and one token lies between them.
        let [first, second] = [second - 1, second].map(|strand| self.starts[strand]);
        let ends = first + second + (second - 1 - first);
        ends - range.end..ends - range.start
    }

    /// The first token of each strand of each text.
    pub fn bounds(&self) -> impl Iterator<Item = u64> {
        self.starts.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strands_face_each_other() {
        // Tokens 1 to 3 and their complements 5 to 7; tokens 9 to 10 and 12 to 13.
        let texts = TextBounds::new(vec![1, 5, 9, 12], vec![1, 1], 14);
        assert_eq!(texts.to_first_strand(5..7), (2..4, true));
        assert_eq!(texts.to_first_strand(2..4), (2..4, false));
        assert_eq!(texts.to_opposite_strand(2..4), 5..7);
        assert_eq!(texts.to_opposite_strand(9..10), 13..14);
        assert_eq!([1, 7, 9, 13].map(|at| texts.of(at)), [0, 0, 1, 1]);
    }
}
