//! Texts whose passages are of no interest.

use super::repeat::TokenHash;
use crate::{
    base::num::{ToU64, ToUsize},
    blot,
};

/// Texts whose passages are not listed. Memory: 24 bytes per token.
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
    }

    /// Whether one of the texts contains the whole passage.
    pub fn contains(&self, passage: &[TokenHash]) -> bool {
        if self.windows.is_empty() {
            return false;
        }
        // Comparing at the window with the fewest places takes the fewest steps.
        self.rarest_window(passage).is_some_and(|(offset, places)| {
            places.iter().any(|&(_, place)| {
                let start = place.to_usize().checked_sub(offset);
                start
                    .and_then(|start| self.tokens.get(start..start + passage.len()))
                    .is_some_and(|tokens| tokens == passage)
            })
        })
    }

    /// The window of a passage with the fewest places, and its offset in the passage; `None` if a
    /// window has no place.
    fn rarest_window(&self, passage: &[TokenHash]) -> Option<(usize, &[(u64, u64)])> {
        let hashes: Vec<u64> = passage
            .iter()
            .map(|token| u64::from_le_bytes(*token))
            .collect();
        let mut rarest: Option<(usize, &[(u64, u64)])> = None;
        for (offset, window) in hash_windows(&hashes, self.min_tokens)
            .into_iter()
            .enumerate()
        {
            let first = self.windows.partition_point(|found| found.0 < window);
            let count = self.windows[first..].partition_point(|found| found.0 == window);
            if count == 0 {
                return None;
            }
            if rarest.is_none_or(|(_, places)| count < places.len()) {
                rarest = Some((offset, &self.windows[first..first + count]));
            }
        }
        rarest
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
