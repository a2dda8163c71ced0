//! Lines: each line that is not blank is a token.
//!
//! White space at its ends is dropped, white space inside counts as one space, and both normal forms of a
//! letter agree. Case is kept.

use crate::base::num::ToU32;
use crate::text::stream::{Span, Tokens};
use unicode_normalization::UnicodeNormalization;

/// Appends the lines of `text`.
pub fn tokenize(text: &str, out: &mut Tokens) {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start_matches(is_space);
        let start = at + line.len() - trimmed.len();
        let trimmed = trimmed.trim_end_matches(is_space);
        at += line.len();
        if !trimmed.is_empty() {
            append_folded(trimmed, out);
            out.finish(Span {
                start: start.to_u32(),
                end: (start + trimmed.len()).to_u32(),
            });
        }
    }
}

/// A byte-order mark counts as space, too.
fn is_space(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

fn append_folded(line: &str, out: &mut Tokens) {
    for (index, piece) in line
        .split(is_space)
        .filter(|piece| !piece.is_empty())
        .enumerate()
    {
        if index > 0 {
            out.text.push(b' ');
        }
        if piece.is_ascii() {
            out.text.extend_from_slice(piece.as_bytes());
        } else {
            out.text
                .extend_from_slice(piece.nfc().collect::<String>().as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_folded() {
        let text = "\u{feff}  One\ttwo \r\n\n \t\nA\u{30a} B\nlast";
        let mut tokens = Tokens::new(true);
        tokenize(text, &mut tokens);
        assert_eq!(
            tokens
                .iter()
                .map(String::from_utf8_lossy)
                .collect::<Vec<_>>(),
            ["One two", "Å B", "last"]
        );
        let slices: Vec<_> = tokens
            .spans()
            .unwrap()
            .iter()
            .map(|span| &text[span.range()])
            .collect();
        assert_eq!(slices, ["One\ttwo", "A\u{30a} B", "last"]);
    }
}
