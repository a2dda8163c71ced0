//! Cuts text of scripts written without spaces into words, by the dictionaries of ICU4X.
//!
//! From the start of a run the longest word of the dictionary is taken, then the longest one from there on. Where a
//! word starts therefore depends on the text before it only through the end of the previous word: two copies of
//! a text that are cut differently at first are cut alike from the first place where both start a word, most often
//! after one or two words. Katakana, which the dictionaries have few words of, is a word as far as it goes.

use super::chars::CharClass;
use crate::base::{
    codec::clear_buffer,
    num::{ToU32, ToUsize},
};
use crate::text::stream::{Span, Tokens};
use icu_segmenter::{WordSegmenter, WordSegmenterBorrowed, options::WordBreakInvariantOptions};
use std::sync::LazyLock;

/// The version of the dictionaries: the release of CLDR they came with. It is part of every scheme of words that they
/// cut. If the test vectors of `words.rs` fail with a newer crate, this needs a new value.
pub const DICTIONARIES: &str = "49";

static SEGMENTER: LazyLock<WordSegmenterBorrowed<'static>> =
    LazyLock::new(|| WordSegmenter::new_dictionary(WordBreakInvariantOptions::default()));

/// A run is cut when it has this many bytes; of a longer run this much is kept at a time.
const BUFFER_BYTES: usize = 1 << 14;
/// More bytes than the longest word of any dictionary has: how a word that starts this far before the end of the
/// buffer is cut does not depend on what follows the buffer.
const LOOK_AHEAD_BYTES: usize = 1 << 10;

/// A run of letters and marks of these scripts, normalized, until it is cut into tokens.
///
/// Memory: `BUFFER_BYTES` and 16 bytes per character of them, or twice the longest word if that is more.
pub struct UnspacedRun {
    /// What the dictionary is asked for. Normalized, but for vowels that the dictionaries have in one piece.
    asked: String,
    /// The normalized text, which becomes tokens.
    text: String,
    /// For each character of `asked`.
    places: Vec<AskedChar>,
    /// The run is cut when it has this many bytes.
    limit_bytes: usize,
}

/// Where a character of the run came from.
#[derive(Clone, Copy)]
struct AskedChar {
    /// Where it ends in what the dictionary is asked for.
    asked_end: u32,
    /// Where it ends in the normalized text.
    text_end: u32,
    /// Where it is in the document.
    span: Span,
    /// It combines with the character before it.
    is_mark: bool,
}

impl UnspacedRun {
    pub fn new() -> Self {
        Self {
            asked: String::new(),
            text: String::new(),
            places: Vec::new(),
            limit_bytes: BUFFER_BYTES,
        }
    }

    /// Whether a character continues the run, or starts one.
    pub fn takes(&self, class: CharClass) -> bool {
        class == CharClass::Solo || (class == CharClass::Mark && !self.places.is_empty())
    }

    /// Appends a character, and cuts the run if it is long.
    pub fn push(&mut self, c: char, class: CharClass, span: Span, out: &mut Tokens) {
        self.text.push(c);
        let vowel = match (self.asked.chars().next_back(), c) {
            (Some('\u{e4d}'), '\u{e32}') => Some('\u{e33}'),
            (Some('\u{ecd}'), '\u{eb2}') => Some('\u{eb3}'),
            _ => None,
        };
        let mut start = span.start;
        if vowel.is_some() {
            self.asked.pop();
            start = self.places.pop().map_or(start, |place| place.span.start);
        }
        self.asked.push(vowel.unwrap_or(c));
        self.places.push(AskedChar {
            asked_end: self.asked.len().to_u32(),
            text_end: self.text.len().to_u32(),
            span: Span {
                start,
                end: span.end,
            },
            is_mark: class == CharClass::Mark,
        });
        if self.asked.len() >= self.limit_bytes {
            self.cut(false, out);
        }
    }

    /// Ends the run: appends its words.
    pub fn finish(&mut self, out: &mut Tokens) {
        if !self.places.is_empty() {
            self.cut(true, out);
        }
    }

    /// Appends the words of the run: all if it `is_whole`, else those that do not depend on how it goes on.
    fn cut(&mut self, is_whole: bool, out: &mut Tokens) {
        let asked_bytes = self.asked.len();
        // The start of the next word: in what the dictionary is asked for, in the text, and its first character.
        let (mut asked, mut text, mut first) = (0, 0, 0);
        let (mut start, mut last) = (0, 0);
        for end in SEGMENTER.segment_str(&self.asked).skip(1) {
            let is_sure = start + LOOK_AHEAD_BYTES <= asked_bytes && end < asked_bytes;
            if !is_whole && !is_sure {
                break;
            }
            start = end;
            while self.places[last].asked_end.to_usize() < end {
                last += 1;
            }
            // A mark of another script, where the dictionaries change, is no word of its own.
            if self.places.get(last + 1).is_some_and(|next| next.is_mark) {
                continue;
            }
            let text_end = self.places[last].text_end.to_usize();
            out.push(
                &self.text[text..text_end],
                Span {
                    start: self.places[first].span.start,
                    end: self.places[last].span.end,
                },
            );
            (asked, text, first) = (end, text_end, last + 1);
        }
        if is_whole {
            self.clear();
        } else {
            self.remove(asked, text, first);
            // A word longer than the buffer: do not start from its beginning with every character.
            self.limit_bytes = BUFFER_BYTES.max(2 * self.asked.len());
        }
    }

    fn clear(&mut self) {
        self.asked.clear();
        self.text.clear();
        clear_buffer(&mut self.places);
        self.limit_bytes = BUFFER_BYTES;
    }

    /// Removes what became tokens.
    fn remove(&mut self, asked: usize, text: usize, chars: usize) {
        self.asked.drain(..asked);
        self.text.drain(..text);
        self.places.drain(..chars);
        for place in &mut self.places {
            place.asked_end -= asked.to_u32();
            place.text_end -= text.to_u32();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::token::class_of;
    use proptest::prelude::*;

    fn cut(text: &str, limit_bytes: usize) -> Vec<(Vec<u8>, Span)> {
        let mut tokens = Tokens::new(true);
        let mut run = UnspacedRun::new();
        run.limit_bytes = limit_bytes;
        for (at, c) in text.char_indices() {
            let end = at + c.len_utf8();
            let span = Span {
                start: at.to_u32(),
                end: end.to_u32(),
            };
            run.push(c, class_of(c), span, &mut tokens);
        }
        run.finish(&mut tokens);
        let spans = tokens.spans().unwrap();
        tokens
            .iter()
            .map(<[u8]>::to_vec)
            .zip(spans.iter().copied())
            .collect()
    }

    #[test]
    fn a_long_run_is_cut_as_in_one_piece() {
        for (text, words) in [
            ("มนุษย์ทั้งหลายเกิดมามีอิสระและน้ํา", 9),
            ("人人生而自由在尊严和权利上一律平等", 11),
            ("មនុស្សទាំងអស់កើតមកមានសេរីភាព", 5),
        ] {
            let long = text.repeat(1000);
            let whole = cut(&long, usize::MAX);
            assert_eq!(whole.len(), 1000 * words);
            assert_eq!(cut(&long, BUFFER_BYTES), whole);
        }
    }

    /// The longest word is the run itself: it must not be read again with every buffer.
    #[test]
    fn a_word_may_be_longer_than_the_buffer() {
        let long = "ア".repeat(1 << 18);
        assert_eq!(cut(&long, BUFFER_BYTES).len(), 1);
        let marks = format!("ก{}ข", "\u{e49}".repeat(1 << 16));
        assert_eq!(cut(&marks, BUFFER_BYTES), cut(&marks, usize::MAX));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]

        /// Wherever the buffer ends, words are the same.
        #[test]
        fn words_do_not_depend_on_the_buffer(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "มนุษย์", "เกิด", "น้ํา", "ก", "า", "ສິດ", "ມະນຸດ", "មនុស្ស", "\u{17d2}", "ធិ", "လူ", "တိုင်း", "尊严", "权", "人人",
                "すべ", "て", "コン", "ー", "\u{3099}",
            ]), 200..2000),
            limit_bytes in 1_usize..8192,
        ) {
            let text = pieces.concat();
            prop_assert_eq!(cut(&text, limit_bytes), cut(&text, usize::MAX));
        }
    }
}
