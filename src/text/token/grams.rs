//! Overlapping runs of N letters; everything between letters is ignored.
//!
//! Spaces, hyphens, digits and punctuation vanish, so that split, joined and hyphenated words still agree:
//! the tokenizer for text from scanners. A text of fewer than N letters gives one token of all it has.

use super::chars::{CharClass, read_chars};
use crate::base::num::{ToU32, ToUsize};
use crate::text::stream::{Span, Tokens};

/// Appends the `length`-grams of `text`.
///
/// `char:3` of “On TV!” is `ont`, `ntv`.
pub fn tokenize(text: &str, length: usize, out: &mut Tokens) {
    let (letters, places) = letters(text);
    if places.is_empty() {
        return;
    }
    let length = length.min(places.len());
    for gram in places.windows(length) {
        let (first, last) = (&gram[0], &gram[length - 1]);
        out.push(
            &letters[first.at..last.end],
            Span {
                start: first.span.start,
                end: last.span.end,
            },
        );
    }
}

/// A letter with its marks: where it stands among the letters, and where it came from.
struct LetterPlace {
    at: usize,
    end: usize,
    span: Span,
}

fn letters(text: &str) -> (String, Vec<LetterPlace>) {
    let (mut letters, mut places) = (String::with_capacity(text.len()), Vec::<LetterPlace>::new());
    read_chars(text, 0, |c, class, start, end| {
        let at = letters.len();
        match (class, places.last_mut()) {
            (CharClass::Letter | CharClass::Solo, _) => {
                letters.push(c);
                places.push(LetterPlace {
                    at,
                    end: letters.len(),
                    span: Span {
                        start: start.to_u32(),
                        end: end.to_u32(),
                    },
                });
            }
            (CharClass::Mark, Some(last))
                if last.span.end.to_usize() == start || last.span.start.to_usize() == start =>
            {
                letters.push(c);
                (last.end, last.span.end) = (letters.len(), end.to_u32());
            }
            _ => {}
        }
        true
    });
    (letters, places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grams(text: &str, length: usize) -> Vec<(String, &str)> {
        let mut tokens = Tokens::new(true);
        tokenize(text, length, &mut tokens);
        let spans = tokens.spans().unwrap();
        tokens
            .iter()
            .zip(spans)
            .map(|(token, span)| {
                (
                    String::from_utf8(token.to_vec()).unwrap(),
                    &text[span.range()],
                )
            })
            .collect()
    }

    fn pairs<'a>(list: &[(&str, &'a str)]) -> Vec<(String, &'a str)> {
        list.iter()
            .map(|&(token, slice)| (token.to_owned(), slice))
            .collect()
    }

    #[test]
    fn everything_but_letters_vanishes() {
        assert_eq!(
            grams("On TV! 7", 3),
            pairs(&[("ont", "On T"), ("ntv", "n TV")])
        );
        assert_eq!(grams("co-\nop", 4), pairs(&[("coop", "co-\nop")]));
    }

    #[test]
    fn short_texts_give_what_they_have() {
        assert_eq!(grams("Aha", 16), pairs(&[("aha", "Aha")]));
        assert_eq!(grams("42, …", 2), []);
        assert_eq!(grams("", 1), []);
    }

    #[test]
    fn marks_stay_with_their_letter() {
        assert_eq!(grams("हिन्दी", 2), pairs(&[("हिन्", "हिन्"), ("न्दी", "न्दी")]));
        assert_eq!(
            grams("Straße", 5),
            pairs(&[("stras", "Straß"), ("trass", "traß"), ("rasse", "raße")])
        );
    }
}
