//! A set of tokens, by their places in the sequence of all tokens.

use crate::base::num::{ToU64, ToUsize};
use std::ops::Range;

/// A set of tokens: one bit per token.
pub struct TokenSet(Vec<u64>);

impl TokenSet {
    /// An empty set of tokens below `tokens`.
    pub fn new(tokens: usize) -> Self {
        Self(vec![0; tokens.div_ceil(64)])
    }

    /// Whether it has all tokens of a range.
    pub fn contains(&self, range: &Range<u64>) -> bool {
        masks(range).all(|(word, mask)| self.0[word] & mask == mask)
    }

    /// Whether it has a token of a range.
    pub fn intersects(&self, range: &Range<u64>) -> bool {
        masks(range).any(|(word, mask)| self.0[word] & mask != 0)
    }

    /// The first token of a range that it has, or that it has not.
    pub fn find(&self, range: &Range<u64>, is_in: bool) -> Option<u64> {
        let wanted = |(word, mask): (usize, u64)| {
            let bits = if is_in { self.0[word] } else { !self.0[word] } & mask;
            (bits != 0).then(|| 64 * word.to_u64() + u64::from(bits.trailing_zeros()))
        };
        masks(range).find_map(wanted)
    }

    /// Adds the tokens of a range; returns how many are new.
    pub fn insert(&mut self, range: &Range<u64>) -> u64 {
        let mut new = 0;
        for (word, mask) in masks(range) {
            new += u64::from((mask & !self.0[word]).count_ones());
            self.0[word] |= mask;
        }
        new
    }
}

/// The words that hold the bits of a range, and which bits of each.
fn masks(range: &Range<u64>) -> impl Iterator<Item = (usize, u64)> + use<> {
    let Range { start, end } = *range;
    let end = end.max(start);
    (start / 64..end.div_ceil(64)).map(move |word| {
        let from = u64::MAX << start.saturating_sub(64 * word).min(63);
        let to = u64::MAX >> (64 * (word + 1)).saturating_sub(end).min(63);
        (word.to_usize(), from & to)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_new_tokens() {
        let mut set = TokenSet::new(200);
        assert_eq!(set.insert(&(10..130)), 120);
        assert_eq!(set.insert(&(100..140)), 10);
        assert!(set.contains(&(10..140)));
        assert!(!set.contains(&(9..11)));
        assert!(!set.contains(&(139..141)));
        assert!(set.intersects(&(139..141)) && !set.intersects(&(140..200)));
        assert_eq!(set.find(&(0..200), true), Some(10));
        assert_eq!(set.find(&(70..200), false), Some(140));
        assert_eq!(set.find(&(70..140), false), None);
        assert_eq!(set.find(&(64..64), false), None);
    }
}
