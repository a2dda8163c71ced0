//! Splits text of any language into sentences: at punctuation, at blank lines, and at line ends
//! where lines are not wrapped.

use super::word_range::WordRange;
use crate::base::num::{ToU32, ToUsize};
use crate::text::stream::Span;

/// Consecutive tokens, and the text that belongs to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sentence {
    /// Its words.
    pub words: WordRange,
    /// Bytes of the text, including the punctuation of the sentence, without surrounding white
    /// space.
    pub bytes: Span,
}

/// The fewest tokens of a sentence; shorter ones are joined to the next.
const MIN_TOKENS: usize = 3;
/// The most tokens of a sentence; text without punctuation is cut here.
const MAX_TOKENS: usize = 128;

/// The sentences of a text with these tokens.
pub fn sentences(text: &str, tokens: &[Span]) -> Vec<Sentence> {
    let Some(last) = tokens.len().checked_sub(1) else {
        return Vec::new();
    };
    let is_wrapped = is_wrapped(text);
    let mut found = Vec::new();
    let mut first = 0;
    let mut start = text.len() - text.trim_start().len();
    for at in 0..last {
        // The two tokens of ½ have the same place.
        let next = tokens[at].end.max(tokens[at + 1].start).to_usize();
        let gap = &text[tokens[at].end.to_usize()..next];
        let length = at + 1 - first;
        let cut = match boundary(gap, is_wrapped, &text[next..]) {
            Some(cut) if length >= MIN_TOKENS => cut,
            _ if length >= MAX_TOKENS => 0,
            _ => continue,
        };
        let end = tokens[at].end.to_usize() + cut;
        found.push(sentence(first..at + 1, start..end));
        first = at + 1;
        start = end + gap[cut..].len() - gap[cut..].trim_start().len();
    }
    let is_rest_short = last + 1 - first < MIN_TOKENS;
    let end = text.trim_end().len();
    match found.last_mut() {
        Some(before) if is_rest_short => {
            before.words.end = last.to_u32() + 1;
            before.bytes.end = end.to_u32();
        }
        _ => found.push(sentence(first..last + 1, start..end)),
    }
    found
}

fn sentence(tokens: std::ops::Range<usize>, bytes: std::ops::Range<usize>) -> Sentence {
    Sentence {
        words: WordRange {
            start: tokens.start.to_u32(),
            end: tokens.end.to_u32(),
        },
        bytes: Span {
            start: bytes.start.to_u32(),
            end: bytes.end.to_u32(),
        },
    }
}

/// How many bytes of the gap between two words belong to the sentence before it; `None` if the
/// sentence goes on.
fn boundary(gap: &str, is_wrapped: bool, next: &str) -> Option<usize> {
    if gap == " " {
        return None;
    }
    let mut stop = None;
    let mut line_feeds = 0;
    for (at, c) in gap.char_indices() {
        match c {
            '.' | '!' | '?' | '…' | '؟' | '۔' | '।' | '॥' => stop = Some(at + c.len_utf8()),
            // These need no space after them.
            '。' | '！' | '？' | '．' => return Some(closed(gap, at + c.len_utf8())),
            '\n' => line_feeds += 1,
            _ => {}
        }
        let is_break = line_feeds > usize::from(is_wrapped);
        if is_break {
            return Some(gap[..at].trim_end().len());
        }
        if let Some(stop) = stop.filter(|_| c.is_whitespace()) {
            let is_continued = next.chars().next().is_some_and(char::is_lowercase);
            return (!is_continued).then(|| closed(gap, stop));
        }
    }
    None
}

/// Includes closing quotes and brackets: everything up to the next white space.
fn closed(gap: &str, stop: usize) -> usize {
    gap[stop..]
        .find(char::is_whitespace)
        .map_or(stop, |more| stop + more)
}

/// Whether lines are wrapped: then many begin with a small letter, as a sentence would not.
fn is_wrapped(text: &str) -> bool {
    let (mut continued, mut lines) = (0_usize, 0_usize);
    for line in text.lines().skip(1) {
        if let Some(c) = line.chars().next().filter(|c| c.is_alphabetic()) {
            lines += 1;
            continued += usize::from(c.is_lowercase());
        }
    }
    continued * 5 > lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{
        stream::Tokens,
        token::{Rule, Tokenizer},
    };

    fn split(text: &str) -> Vec<&str> {
        let mut tokens = Tokens::new(true);
        Tokenizer::new(Rule::Word, false).tokenize(text, &mut tokens);
        let spans = tokens.spans().unwrap();
        sentences(text, spans)
            .iter()
            .map(|sentence| &text[sentence.bytes.range()])
            .collect()
    }

    #[test]
    fn by_punctuation() {
        assert_eq!(
            split("  “One two three.” Four five six! Is it? Yes it is, at 3.14 p.m. on earth. "),
            [
                "“One two three.”",
                "Four five six!",
                "Is it? Yes it is, at 3.14 p.m. on earth."
            ]
        );
        assert_eq!(
            split("我喜歡語言。他也喜歡！好吧好吧"),
            ["我喜歡語言。", "他也喜歡！", "好吧好吧"]
        );
        assert_eq!(split("सब लोग गए। वे फिर आए॥"), ["सब लोग गए।", "वे फिर आए॥"]);
    }

    #[test]
    fn by_lines_unless_they_are_wrapped() {
        assert_eq!(
            split("A short title\nAnd a second line\nThen a third one"),
            ["A short title", "And a second line", "Then a third one"]
        );
        assert_eq!(
            split(
                "These lines are\nwrapped where they\nare full. And here\nthey end.\n\nNext paragraph here"
            ),
            [
                "These lines are\nwrapped where they\nare full.",
                "And here\nthey end.",
                "Next paragraph here"
            ]
        );
    }

    #[test]
    fn short_ones_are_joined_and_long_ones_cut() {
        assert_eq!(
            split("Mr. Smith came. He left."),
            ["Mr. Smith came. He left."]
        );
        assert_eq!(split("One two three. Four."), ["One two three. Four."]);
        let long = "word ".repeat(300);
        assert_eq!(
            split(&long)
                .iter()
                .map(|sentence| sentence.split(' ').count())
                .collect::<Vec<_>>(),
            [128, 128, 44]
        );
        assert_eq!(split(""), [""; 0]);
        assert_eq!(split("½"), ["½"]);
    }
}
