//! Windows of N content words in any order, also with one word left out, for reworded text.
//!
//! After the contextual n-grams of Torrejón, without the stop words and the stemmer, which depend
//! on the language. A word of four letters or more is a content word (in most languages shorter
//! words are articles, prepositions and pronouns), and only its first five letters count:
//! `translated` and `translation` are the same. A Hangul syllable counts as two letters; each
//! character of a script without spaces is a word.
//!
//! With N = 3, the content words a b c d … give {a b c}, {a c d}, {a b d}, {b c d}, …: three sets
//! for each word, in any order. A text of fewer than N content words has one blot of all of them,
//! or of all tokens if there are no content words.

use super::{UnitScheme, UnitWindows, append, seed, stir};
use crate::text::{
    stream::{Blots, Tokens},
    token::{CharClass, class_of},
};
use xxhash_rust::xxh3::xxh3_64;

/// The scheme.
pub static CONTEXT: UnitScheme = UnitScheme {
    name: "context",
    help: "N words of four letters or more, by their first five, in any order and with one left out, for reworded text [3]",
    default: 3,
    build: |n| Box::new(Context::new(n)),
};

/// A content word has at least this many letters.
const CONTENT_LETTERS: usize = 4;
/// Only this many letters of a word count.
const STEM_LETTERS: usize = 5;

/// The content words of a document: the position of each, and the hash of its stem.
#[derive(Debug, Clone, Default)]
pub struct Context {
    n: usize,
    words: Vec<(u32, u64)>,
}

impl Context {
    /// Windows of `n` words.
    fn new(n: u32) -> Self {
        Self {
            n: n as usize,
            ..Self::default()
        }
    }
}

impl UnitWindows for Context {
    fn blot(&mut self, tokens: &Tokens, out: &mut Blots) {
        let n = self.n;
        self.words.clear();
        self.words.extend(
            (0..)
                .zip(tokens.iter())
                .filter_map(|(position, token)| Some((position, xxh3_64(stem(token)?)))),
        );
        if self.words.is_empty() {
            self.words.extend((0..).zip(tokens.iter().map(xxh3_64)));
        }
        let Some(&(first, _)) = self.words.first() else {
            return;
        };
        let seed = append(seed("context"), n as u64);
        let sum = |words: &[(u32, u64)]| {
            words
                .iter()
                .fold(seed, |sum, &(_, hash)| sum.wrapping_add(hash))
        };
        if self.words.len() < n {
            out.push(stir(sum(&self.words)), first);
        }
        for (at, window) in self.words.windows(n).enumerate() {
            let position = window[0].0;
            let whole = sum(window);
            out.push(stir(whole), position);
            let Some(&(_, next)) = self.words.get(at + n) else {
                break;
            };
            for &(_, left_out) in &window[1..] {
                out.push(
                    stir(whole.wrapping_add(next).wrapping_sub(left_out)),
                    position,
                );
            }
        }
    }

    fn last_token(&self, tokens: &Tokens, first: usize) -> usize {
        let is_content = |&at: &usize| stem(tokens.get(at)).is_some();
        (first..tokens.len())
            .filter(is_content)
            .nth(self.n)
            .unwrap_or_else(|| tokens.len() - 1)
    }

    fn release_buffers(&mut self) {
        crate::base::codec::clear_buffer(&mut self.words);
    }

    fn boxed_clone(&self) -> Box<dyn UnitWindows> {
        Box::new(self.clone())
    }
}

/// The stem of a content word: its first letters. None for other words.
fn stem(token: &[u8]) -> Option<&[u8]> {
    if token.is_ascii() {
        return (token.len() >= CONTENT_LETTERS).then(|| &token[..token.len().min(STEM_LETTERS)]);
    }
    let mut letters = 0;
    let mut end = 0;
    for c in std::str::from_utf8(token).unwrap_or_default().chars() {
        let class = class_of(c);
        if class == CharClass::Solo {
            return Some(token);
        }
        // Combining marks belong to the last letter of the stem.
        if letters < STEM_LETTERS || class == CharClass::Mark {
            end += c.len_utf8();
        } else {
            break;
        }
        letters += if class == CharClass::Mark {
            0
        } else {
            1 + usize::from(is_syllable(c))
        };
    }
    (letters >= CONTENT_LETTERS).then(|| &token[..end])
}

/// Whether this is a Hangul syllable.
fn is_syllable(c: char) -> bool {
    matches!(c, '\u{ac00}'..='\u{d7a3}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::stream::Span;

    fn blots(words: &str, n: u32) -> Vec<(u32, u64)> {
        let mut tokens = Tokens::default();
        words
            .split_whitespace()
            .for_each(|word| tokens.push(word, Span { start: 0, end: 0 }));
        let mut out = Blots::default();
        Context::new(n).blot(&tokens, &mut out);
        out.positions.iter().copied().zip(out.values).collect()
    }

    fn share(one: &str, two: &str) -> usize {
        let two = blots(two, 3);
        blots(one, 3)
            .iter()
            .filter(|(_, blot)| two.iter().any(|(_, other)| other == blot))
            .count()
    }

    #[test]
    fn stems_of_many_scripts() {
        for (word, expected) in [
            ("the", None),
            ("over", Some("over")),
            ("translation", Some("trans")),
            ("für", None),
            ("müller", Some("mülle")),
            ("на", None),
            ("книгами", Some("книга")),
            ("漢", Some("漢")),
            ("국", None),
            ("대한민국", Some("대한민")),
            (
                "e\u{332}e\u{332}e\u{332}e\u{332}e\u{332}e",
                Some("e\u{332}e\u{332}e\u{332}e\u{332}e\u{332}"),
            ),
        ] {
            assert_eq!(stem(word.as_bytes()), expected.map(str::as_bytes), "{word}");
        }
    }

    #[test]
    fn order_endings_short_words_and_one_left_out_word_do_not_count() {
        assert_eq!(
            share("quick brown foxes", "the foxes were quick and brown"),
            1
        );
        assert_eq!(
            share("translations of older writings", "older writing translated"),
            1
        );
        assert_eq!(share("alpha bravo charlie delta", "bravo delta alpha"), 1);
        assert_eq!(
            share("alpha bravo charlie delta", "alpha other delta bravo"),
            1
        );
        assert_eq!(
            share("alpha bravo charlie delta", "alpha golf hotel bravo"),
            0
        );
    }

    #[test]
    fn all_tokens_count_if_there_are_no_content_words() {
        assert!(blots("", 3).is_empty());
        assert_eq!(blots("a b c", 3).len(), 1);
        assert_eq!(blots("a b", 3).len(), 1);
        assert_eq!(
            blots("if alpha then bravo", 3)
                .iter()
                .map(|blot| blot.0)
                .collect::<Vec<_>>(),
            [1]
        );
        assert_eq!(
            blots("alpha bravo charlie delta", 3)
                .iter()
                .map(|blot| blot.0)
                .collect::<Vec<_>>(),
            [0, 0, 0, 1]
        );
    }
}
