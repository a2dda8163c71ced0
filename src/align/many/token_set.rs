//! A set of tokens, by their places in the sequence of all tokens.

use crate::base::num::ToUsize;
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
    }
}
