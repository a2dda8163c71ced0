//! Windows of N letters across word boundaries, for scanned text.
//!
//! A wrong letter changes only the N windows that contain it; missing or additional spaces,
//! hyphens, digits and punctuation change nothing. There are as many windows as letters, so a
//! selection such as winnowing is recommended. A letter includes its combining marks. A text of
//! fewer than N letters has one blot of all its letters, a text without letters one of its tokens.

use super::{UnitScheme, UnitWindows, append, seed, stir};
use crate::{
    base::codec::clear_buffer,
    text::{
        stream::{Blots, Tokens},
        token::{CharClass, class_of},
    },
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The scheme.
pub static LETTERS: UnitScheme = UnitScheme {
    name: "letters",
    help: "N letters in a row, whatever words they are of, for text from scanners; best with /winnow:8 [16]",
    default: 16,
    build: |n| Box::new(Letters::new(n)),
};

/// The letters of a document.
#[derive(Debug, Clone, Default)]
pub struct Letters {
    n: usize,
    text: Vec<u8>,
    /// The start of each letter in the text, and its token.
    starts: Vec<(u32, u32)>,
}

impl Letters {
    /// Windows of `n` letters.
    fn new(n: u32) -> Self {
        Self {
            n: n as usize,
            ..Self::default()
        }
    }

    /// Collects the letters of all tokens.
    fn read(&mut self, tokens: &Tokens) {
        self.text.clear();
        self.starts.clear();
        for (number, token) in (0..).zip(tokens.iter()) {
            if token.is_ascii() {
                for byte in token.iter().filter(|byte| byte.is_ascii_alphabetic()) {
                    self.starts.push((self.text.len() as u32, number));
                    self.text.push(*byte);
                }
                continue;
            }
            for c in std::str::from_utf8(token).unwrap_or_default().chars() {
                match class_of(c) {
                    CharClass::Letter | CharClass::Solo => {
                        self.starts.push((self.text.len() as u32, number))
                    }
                    CharClass::Mark if !self.starts.is_empty() => {}
                    _ => continue,
                }
                self.text
                    .extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
}

impl UnitWindows for Letters {
    fn blot(&mut self, tokens: &Tokens, out: &mut Blots) {
        let n = self.n;
        self.read(tokens);
        let seed = append(seed("letters"), n as u64);
        let Some(&(_, first)) = self.starts.first() else {
            if !tokens.is_empty() {
                out.push(
                    stir(
                        tokens
                            .iter()
                            .fold(seed, |sum, token| append(sum, xxh3_64(token))),
                    ),
                    0,
                );
            }
            return;
        };
        if self.starts.len() <= n {
            out.push(xxh3_64_with_seed(&self.text, seed), first);
            return;
        }
        self.starts.push((self.text.len() as u32, 0));
        for run in self.starts.windows(n + 1) {
            let ((start, token), (end, _)) = (run[0], run[n]);
            out.push(
                xxh3_64_with_seed(&self.text[start as usize..end as usize], seed),
                token,
            );
        }
    }

    fn last_token(&self, tokens: &Tokens, first: usize) -> usize {
        let letters_of = |token: &[u8]| {
            let is_letter = |c: &char| matches!(class_of(*c), CharClass::Letter | CharClass::Solo);
            std::str::from_utf8(token).map_or(0, |token| token.chars().filter(is_letter).count())
        };
        let mut letters = 1;
        let is_enough = |&at: &usize| {
            letters += letters_of(tokens.get(at));
            letters >= self.n
        };
        (first + 1..tokens.len())
            .find(is_enough)
            .unwrap_or_else(|| if self.n == 1 { first } else { tokens.len() - 1 })
    }

    fn release_buffers(&mut self) {
        clear_buffer(&mut self.text);
        clear_buffer(&mut self.starts);
    }

    fn boxed_clone(&self) -> Box<dyn UnitWindows> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::stream::Span;

    fn blots(words: &[&str], n: u32) -> Vec<(u32, u64)> {
        let mut tokens = Tokens::default();
        words
            .iter()
            .for_each(|word| tokens.push(word, Span { start: 0, end: 0 }));
        let mut out = Blots::default();
        Letters::new(n).blot(&tokens, &mut out);
        out.positions.iter().copied().zip(out.values).collect()
    }

    fn values(words: &[&str], n: u32) -> Vec<u64> {
        blots(words, n)
            .into_iter()
            .map(|(_, value)| value)
            .collect()
    }

    #[test]
    fn word_boundaries_do_not_count() {
        assert_eq!(values(&["on", "tv"], 3), values(&["o", "ntv"], 3));
        assert_eq!(values(&["on", "42", "tv"], 3), values(&["ontv"], 3));
        assert_eq!(values(&["ontv"], 3).len(), 2);
        assert_eq!(
            blots(&["on", "tv"], 3)
                .iter()
                .map(|blot| blot.0)
                .collect::<Vec<_>>(),
            [0, 0]
        );
        assert_eq!(
            blots(&["on", "tv", "now"], 2)
                .iter()
                .map(|blot| blot.0)
                .collect::<Vec<_>>(),
            [0, 0, 1, 1, 2, 2]
        );
        assert_eq!(values(&["e\u{332}xe\u{332}"], 3).len(), 1);
        assert_ne!(values(&["e\u{332}xe\u{332}"], 3), values(&["exe"], 3));
    }

    #[test]
    fn short_texts_give_one_blot() {
        assert!(values(&[], 3).is_empty());
        assert_eq!(
            [
                values(&["on"], 3).len(),
                values(&["one"], 3).len(),
                values(&["42", "7"], 3).len()
            ],
            [1, 1, 1]
        );
        assert_ne!(values(&["42", "7"], 3), values(&["42", "8"], 3));
    }
}
