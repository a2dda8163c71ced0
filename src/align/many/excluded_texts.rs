//! Texts whose passages are of no interest.

use super::{repeat::TokenHash, text_bounds::TextBounds, token_set::TokenSet};
use crate::{
    base::num::{ToU64, ToUsize},
    blot,
};
use std::ops::Range;

/// Texts that are cut out of passages. Memory: 24 bytes per token.
#[derive(Default)]
pub struct ExcludedTexts {
    min_tokens: usize,
    /// All texts, each after a token that equals no other.
    tokens: Vec<TokenHash>,
    /// The hash and the first token of each window of `min_tokens` tokens, sorted.
    windows: Vec<(u64, u64)>,
}

impl ExcludedTexts {
    /// No texts yet; passages have at least `min_tokens` tokens.
    pub fn new(min_tokens: u32) -> Self {
        Self {
            min_tokens: min_tokens.to_usize(),
            ..Self::default()
        }
    }

    /// Adds tokens of texts and their windows, whose places count from the first of these tokens.
    pub fn add(&mut self, tokens: Vec<TokenHash>, windows: &[(u64, u64)]) {
        let start = self.tokens.len().to_u64();
        self.tokens.extend(tokens);
        let windows = windows.iter().map(|&(hash, place)| (hash, start + place));
        self.windows.extend(windows);
    }

    /// Makes all added texts searchable.
    pub fn sort(&mut self) {
        self.windows.sort_unstable();
        // One window of several that are equal is enough; those that only collide stay.
        let (tokens, length) = (&self.tokens, self.min_tokens);
        let window = |&(_, at): &(u64, u64)| &tokens[at.to_usize()..at.to_usize() + length];
        self.windows
            .dedup_by(|next, kept| next.0 == kept.0 && window(next) == window(kept));
    }

    /// Finds the excluded windows of all texts; `None` if there are no excluded texts.
    pub fn find_in(&self, tokens: &[TokenHash], texts: &TextBounds) -> Option<ExcludedWindows> {
        if self.windows.is_empty() {
            return None;
        }
        let mut starts = TokenSet::new(tokens.len());
        let bounds = texts.bounds().chain([tokens.len().to_u64()]);
        let bounds: Vec<usize> = bounds.map(|bound| bound.to_usize()).collect();
        let mut hashes = Vec::new();
        for text in bounds.windows(2) {
            // A token that equals no other follows each text.
            let text = text[0]..text[1].saturating_sub(1).max(text[0]);
            hashes.clear();
            hashes.extend(
                tokens[text.clone()]
                    .iter()
                    .map(|&hash| u64::from_le_bytes(hash)),
            );
            for (at, hash) in (text.start..).zip(hash_windows(&hashes, self.min_tokens)) {
                if self.contains(hash, &tokens[at..at + self.min_tokens]) {
                    let window = at.to_u64()..(at + self.min_tokens).to_u64();
                    starts.insert(&(window.start..window.start + 1));
                    if texts.has_strands() {
                        let opposite = texts.to_opposite_strand(window).start;
                        starts.insert(&(opposite..opposite + 1));
                    }
                }
            }
        }
        Some(ExcludedWindows {
            starts,
            min_tokens: self.min_tokens.to_u64(),
        })
    }

    fn contains(&self, hash: u64, window: &[TokenHash]) -> bool {
        let first = self.windows.partition_point(|known| known.0 < hash);
        self.windows[first..]
            .iter()
            .take_while(|known| known.0 == hash)
            .any(|&(_, at)| self.tokens[at.to_usize()..].starts_with(window))
    }
}

/// The windows of texts that are in excluded texts. Memory: a bit per token.
pub struct ExcludedWindows {
    /// The first tokens of the windows.
    starts: TokenSet,
    min_tokens: u64,
}

impl ExcludedWindows {
    /// The parts of a range, of `min_tokens` tokens or more, that are left without excluded windows.
    pub fn without(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut parts = Vec::new();
        let mut rest = range.start;
        let is_long = |part: &Range<u64>| part.end >= part.start + self.min_tokens;
        let windows = |from: u64| from..(range.end + 1).saturating_sub(self.min_tokens);
        while let Some(start) = self.starts.find(&windows(rest), true) {
            parts.push(rest..start);
            // The excluded text ends with the last window that overlaps the one before it.
            let mut end = start + self.min_tokens;
            while let Some(next) = self.last_start(&(start..end.min(windows(0).end)), end) {
                end = next;
            }
            rest = end;
        }
        parts.push(rest..range.end);
        parts.retain(is_long);
        parts
    }

    /// Where the last window that starts in a range ends, if that is after `end`.
    fn last_start(&self, range: &Range<u64>, end: u64) -> Option<u64> {
        let last = (range.start..range.end)
            .rev()
            .find(|&at| self.starts.contains(&(at..at + 1)))?;
        Some(last + self.min_tokens).filter(|&next| next > end)
    }

    /// Whether an excluded window lies within a range.
    pub fn is_within(&self, range: &Range<u64>) -> bool {
        let end = (range.end + 1).saturating_sub(self.min_tokens);
        self.starts.intersects(&(range.start..end))
    }
}

/// The hash of each window of `tokens` tokens.
pub fn hash_windows(hashes: &[u64], tokens: usize) -> Vec<u64> {
    let mut windows = Vec::new();
    if hashes.len() >= tokens {
        blot::ordered_windows(hashes, tokens, &mut windows);
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_long_enough() {
        let mut starts = TokenSet::new(100);
        for window in [20, 22, 25, 60] {
            starts.insert(&(window..window + 1));
        }
        let excluded = ExcludedWindows {
            starts,
            min_tokens: 4,
        };
        assert_eq!(excluded.without(0..100), [0..20, 29..60, 64..100]);
        assert_eq!(excluded.without(17..32), Vec::<Range<u64>>::new());
        assert_eq!(excluded.without(16..33), [16..20, 29..33]);
        assert_eq!(excluded.without(22..70), [29..60, 64..70]);
        assert!(excluded.is_within(&(25..29)) && !excluded.is_within(&(26..60)));
    }
}
