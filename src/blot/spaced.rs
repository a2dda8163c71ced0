//! Windows with gaps: a replaced word does not count where the mask has a 0.
//!
//! `110100101` takes five of nine words. An irregular mask that is shifted by a few words has few
//! positions in common with itself, so a replaced word breaks single windows, not all of them; and
//! far fewer documents share such a window by chance than five words in a row.

use super::{append, seed, stir};
use std::ops::RangeInclusive;

/// Which tokens of a window count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    name: String,
    /// The offsets of the tokens that count.
    offsets: Vec<usize>,
}

/// The default mask.
pub const DEFAULT: &str = "110100101";
const LENGTHS: RangeInclusive<usize> = 1..=64;

impl Mask {
    /// Reads a mask, such as `1101`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_mask = text.bytes().all(|byte| matches!(byte, b'0' | b'1'))
            && text.starts_with('1')
            && text.ends_with('1');
        if !is_mask || !LENGTHS.contains(&text.len()) {
            return Err(format!(
                "'{text}' is not a mask of up to {} 0s and 1s that starts and ends with 1, such as {DEFAULT}",
                LENGTHS.end()
            ));
        }
        let offsets = text
            .bytes()
            .enumerate()
            .filter(|&(_, byte)| byte == b'1')
            .map(|(at, _)| at);
        Ok(Self {
            name: text.to_owned(),
            offsets: offsets.collect(),
        })
    }

    /// The mask as text.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of tokens from the first to the last that counts.
    pub fn length(&self) -> usize {
        self.name.len()
    }

    /// Appends a number for each window, or one for all tokens if there are fewer.
    pub fn windows(&self, hashes: &[u64], out: &mut Vec<u64>) {
        let seed = seed(&self.name);
        if !hashes.is_empty() && hashes.len() < self.length() {
            out.push(stir(
                hashes.iter().fold(seed, |sum, &hash| append(sum, hash)),
            ));
        }
        out.extend(hashes.windows(self.length()).map(|window| {
            stir(
                self.offsets
                    .iter()
                    .fold(seed, |sum, &at| append(sum, window[at])),
            )
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_in_gaps_do_not_count() {
        let of = |hashes: &[u64]| {
            let mut out = Vec::new();
            Mask::parse("1101").unwrap().windows(hashes, &mut out);
            out
        };
        assert_eq!(of(&[1, 2, 3, 4]), of(&[1, 2, 9, 4]));
        assert_ne!(of(&[1, 2, 3, 4]), of(&[1, 9, 3, 4]));
        assert_ne!(of(&[1, 2, 3, 4]), of(&[2, 1, 3, 4]));
        assert_eq!(
            [0, 1, 3, 4, 6].map(|tokens| of(&vec![1; tokens]).len()),
            [0, 1, 1, 1, 3]
        );
    }

    #[test]
    fn invalid_masks_are_refused() {
        for text in ["", "0", "01", "10", "1121", "1 1", &"1".repeat(65)] {
            assert!(Mask::parse(text).is_err(), "{text}");
        }
    }
}
