//! How much text a word is.
//!
//! What counts as a copy is said in words, and where a script has spaces every word counts the same. A word that a
//! dictionary cut out of a script without spaces counts by its length: Thai has words of four letters and more, and
//! Chinese words of one or two characters, so the same number of words would be a different amount of text.
//!
//! Such a word of n characters is (32·n + 48) ÷ 109 of a word. Sixteen words, the least copy with windows of eight, are
//! then 54.5, counting a character as 1 and a word as 1.5 in addition: about 40 characters in Thai (10 words), 42 in
//! Khmer and Burmese (8 words), 31 in Japanese, 29 in Chinese. `scripts/evaluate/languages` has the figures that chose it.

use crate::base::num::ToUsize;
use crate::text::{
    stream::Tokens,
    token::{CharClass, Rule, class_of},
};
use std::ops::Range;

/// The weight of a word of a script with spaces, and of any token that is no word.
pub(super) const WORD_WEIGHT: u64 = 109;
/// The weight of a character in a script without spaces.
pub(super) const CHAR_WEIGHT: u64 = 32;
/// What each word weighs there in addition.
const ADDED_WEIGHT: u64 = 48;

/// The weight of a word or a part of one, of this many characters, in a script without spaces.
pub(super) fn unspaced_weight(chars: usize) -> u64 {
    match chars as u64 {
        0 => 0,
        chars => CHAR_WEIGHT * chars + ADDED_WEIGHT,
    }
}

/// The weights of the words of a document.
#[derive(Debug, Default)]
pub(super) struct WordWeights {
    /// The weight of all words before each word, and of all; empty if all words weigh [`WORD_WEIGHT`].
    sums: Vec<u64>,
}

impl WordWeights {
    pub fn new(tokens: &Tokens, rule: Rule) -> Self {
        if rule != Rule::Words || !tokens.iter().any(is_unspaced) {
            return Self::default();
        }
        let mut sum = 0;
        let mut sums = vec![0];
        sums.extend(tokens.iter().map(|token| {
            sum += weight(token);
            sum
        }));
        Self { sums }
    }

    /// Whether all words weigh the same.
    pub fn are_equal(&self) -> bool {
        self.sums.is_empty()
    }

    /// The weight of some words.
    pub fn of(&self, words: Range<u32>) -> u64 {
        if self.are_equal() {
            WORD_WEIGHT * u64::from(words.end - words.start)
        } else {
            self.sums[words.end.to_usize()] - self.sums[words.start.to_usize()]
        }
    }

    /// The end of the window from word `at` on: of `words` words, or of fewer that are as heavy as these. Past the end
    /// of the document if there is none.
    pub fn window_end(&self, at: usize, words: usize) -> usize {
        let Some(rest) = self.sums.get(at..) else {
            return at + words;
        };
        let is_light = |&&sum: &&u64| sum < rest[0] + WORD_WEIGHT * words as u64;
        at + rest.iter().take(words).take_while(is_light).count()
    }
}

fn is_unspaced(token: &[u8]) -> bool {
    let first = token.utf8_chunks().next().map(|chunk| chunk.valid());
    let first = first.and_then(|text| text.chars().next());
    first.is_some_and(|c| class_of(c) == CharClass::Solo)
}

fn weight(token: &[u8]) -> u64 {
    if is_unspaced(token) {
        let is_start = |byte: &&u8| **byte & 0xc0 != 0x80;
        unspaced_weight(token.iter().filter(is_start).count())
    } else {
        WORD_WEIGHT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::token::Tokenizer;

    fn weights(text: &str, rule: Rule) -> WordWeights {
        let mut tokens = Tokens::default();
        Tokenizer::new(rule, false).tokenize(text, &mut tokens);
        WordWeights::new(&tokens, rule)
    }

    #[test]
    fn words_of_scripts_with_spaces_weigh_the_same() {
        for weights in [
            weights("one two three четыре", Rule::Words),
            weights("在尊严", Rule::Word),
        ] {
            assert!(weights.are_equal());
            assert_eq!((weights.of(1..3), weights.window_end(1, 8)), (218, 9));
        }
    }

    #[test]
    fn other_words_weigh_by_their_characters() {
        // One, two and three characters, and a word with spaces.
        let weights = weights("在尊严 และ word", Rule::Words);
        let all: Vec<u64> = (0..4).map(|at| weights.of(at..at + 1)).collect();
        assert_eq!(all, [80, 112, 144, 109]);
        assert_eq!(weights.of(0..4), 445);
        let ends: Vec<usize> = (0..4).map(|at| weights.window_end(at, 2)).collect();
        assert_eq!(ends, [2, 3, 4, 5]);
    }
}
