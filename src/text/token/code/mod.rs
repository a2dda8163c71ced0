//! Splits source code of any language into tokens: names, numbers, strings, operators and brackets.
//!
//! White space and comments are dropped, case is kept. The lexer does not know the language, so where two languages
//! disagree, one rule serves both: `//` starts a comment in Python too, and `#` starts one only where it is no operator
//! in C, Rust or the shell. What matters is that equal code gives equal tokens.
//!
//! ```text
//! sum += data[i];  // add       sum  +=  data  [  i  ]  ;        code
//!                               ID   +=  ID    [  ID ]  ;        code-norm
//! ```
//!
//! Linear in time for any text: the lexer visits each byte a bounded number of times, see `Lexer::unclosed`.

mod strings;
mod words;

use crate::text::stream::{Span, Tokens};
use memchr::{memchr2, memmem};
use words::{is_keyword, operator_len};

/// Appends the tokens of `text` to `out`, with the bytes of `text` they came from as their spans.
pub fn tokenize(text: &str, out: &mut Tokens) {
    run_lexer(text, false, out);
}

/// Like [`tokenize`], but names other than keywords become `ID`, numbers `NUM` and strings `STR`, so that renaming
/// variables and changing literals does not change the tokens.
pub fn tokenize_normalized(text: &str, out: &mut Tokens) {
    run_lexer(text, true, out);
}

fn run_lexer(text: &str, normalize: bool, out: &mut Tokens) {
    Lexer {
        text,
        bytes: text.as_bytes(),
        at: 0,
        line_is_blank: true,
        in_directive: false,
        lifetime_end: usize::MAX,
        unclosed: [0; 5],
        folded: String::new(),
        normalize,
        out,
    }
    .run();
}

/// What starts with a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteClass {
    Space,
    Name,
    Digit,
    Quote,
    /// Operator or bracket, or the first byte of a comment.
    Mark,
    /// The first byte of a character outside ASCII.
    Wide,
}

const fn class(byte: u8) -> ByteClass {
    match byte {
        b'\t'..=b'\r' | b' ' => ByteClass::Space,
        b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'$' => ByteClass::Name,
        b'0'..=b'9' => ByteClass::Digit,
        b'"' | b'\'' | b'`' => ByteClass::Quote,
        128.. => ByteClass::Wide,
        _ => ByteClass::Mark,
    }
}

static CLASSES: [ByteClass; 256] = {
    let mut classes = [ByteClass::Wide; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = class(byte as u8);
        byte += 1;
    }
    classes
};

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    /// The offset from which the lexer looks for the next token; always between two characters.
    at: usize,
    /// No token yet on this line.
    line_is_blank: bool,
    /// On a line that starts with a directive such as `#define`, where `#` is an operator.
    in_directive: bool,
    /// Where the last lifetime ended.
    lifetime_end: usize,
    /// For each kind of string: the offset before which no quote of that kind is closed.
    ///
    /// Without it, the line `"\"\"\"…` would take quadratic time: the first quote is not closed, so the lexer tries the
    /// next one, and so on. One failed search answers for all quotes that it passed: it treated each of them as escaped
    /// (any other would have ended it), so after each of them it continued as a search that starts there would.
    unclosed: [usize; 5],
    folded: String,
    normalize: bool,
    out: &'a mut Tokens,
}

impl<'a> Lexer<'a> {
    fn run(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            match CLASSES[usize::from(byte)] {
                ByteClass::Space => self.skip_space(),
                ByteClass::Name => self.name(),
                ByteClass::Digit => self.number(),
                ByteClass::Quote => self.quote(byte),
                ByteClass::Mark => self.mark(byte),
                ByteClass::Wide => self.wide(),
            }
        }
    }

    fn skip_space(&mut self) {
        let continued = self.at > 0 && self.bytes[self.at - 1] == b'\\';
        while let Some(&byte) = self
            .bytes
            .get(self.at)
            .filter(|&&byte| CLASSES[usize::from(byte)] == ByteClass::Space)
        {
            if byte == b'\n' || byte == b'\r' {
                self.line_is_blank = true;
                self.in_directive &= continued;
            }
            self.at += 1;
        }
    }

    fn name(&mut self) {
        let end = self.name_end(self.at);
        let name = &self.text[self.at..end];
        let keep = !self.normalize || is_keyword(name.as_bytes());
        self.emit(if keep { name } else { "ID" }, end);
    }

    /// The end of the letters, digits, `_` and `$` that start at `at`.
    fn name_end(&self, mut at: usize) -> usize {
        loop {
            while self.bytes.get(at).is_some_and(|&byte| {
                matches!(
                    CLASSES[usize::from(byte)],
                    ByteClass::Name | ByteClass::Digit
                )
            }) {
                at += 1;
            }
            match self.text[at..].chars().next() {
                Some(wide) if !wide.is_ascii() && wide.is_alphanumeric() => at += wide.len_utf8(),
                _ => return at,
            }
        }
    }

    fn number(&mut self) {
        let end = self.number_end();
        self.emit(
            if self.normalize {
                "NUM"
            } else {
                &self.text[self.at..end]
            },
            end,
        );
    }

    /// The end of the letters and digits from here, including what may join them: one decimal point before a digit, the
    /// sign of an exponent, and the quote of C++ `1'000` and Verilog `8'hff`.
    fn number_end(&self) -> usize {
        let mut end = self.at;
        let mut whole = true;
        loop {
            end = self.name_end(end);
            match (self.bytes.get(end), self.bytes.get(end + 1)) {
                (Some(b'.'), Some(b'0'..=b'9')) if whole => whole = false,
                (Some(b'+' | b'-'), Some(b'0'..=b'9'))
                    if is_exponent(&self.bytes[self.at..end]) =>
                {
                    whole = false
                }
                (Some(b'\''), Some(next)) if end > self.at && next.is_ascii_alphanumeric() => {}
                _ => return end,
            }
            end += 1;
        }
    }

    fn mark(&mut self, byte: u8) {
        let rest = &self.bytes[self.at..];
        let comment_end = match byte {
            b'/' | b'<' | b'-' => self.comment_end(rest),
            b'#' => self.hash_comment_end(),
            _ => None,
        };
        match comment_end {
            Some(end) => self.at = end,
            None if byte == b'.' && self.point_opens_number() => self.number(),
            None => {
                let end = self.at + operator_len(rest);
                self.emit(&self.text[self.at..end], end);
            }
        }
    }

    /// The end of the comment that starts here; a block that is not closed extends to the end of the text.
    fn comment_end(&self, rest: &[u8]) -> Option<usize> {
        match rest {
            [b'/', b'/', ..] => Some(self.line_end()),
            [b'/', b'*', ..] => Some(self.block_end(2, b"*/")),
            [b'<', b'!', b'-', b'-', ..] => Some(self.block_end(4, b"-->")),
            [b'-', b'-', b'\t'..=b'\r' | b' ', ..] | [b'-', b'-'] if self.line_is_blank => {
                Some(self.line_end())
            }
            _ => None,
        }
    }

    /// `#` starts a comment at the start of a line or after white space, except in the line of a preprocessor directive
    /// of C, and where it starts an attribute of Rust (`#[…]`, `#![…]`).
    fn hash_comment_end(&mut self) -> Option<usize> {
        let rest = &self.bytes[self.at + 1..];
        self.in_directive |= self.line_is_blank && is_directive(rest);
        let opens = !self.in_directive
            && self.is_after_space()
            && !matches!(rest, [b'[', ..] | [b'!', b'[', ..]);
        opens.then(|| self.line_end())
    }

    fn line_end(&self) -> usize {
        memchr2(b'\n', b'\r', &self.bytes[self.at..])
            .map_or(self.bytes.len(), |length| self.at + length)
    }

    fn block_end(&self, opener_len: usize, closer: &[u8]) -> usize {
        let start = self.at + opener_len;
        memmem::find(&self.bytes[start..], closer)
            .map_or(self.bytes.len(), |length| start + length + closer.len())
    }

    fn is_after_space(&self) -> bool {
        self.text[..self.at]
            .chars()
            .next_back()
            .is_none_or(is_space)
    }

    /// True for the point of `.5`, not for those of `tuple.0`, `f().0` and `0..9`.
    fn point_opens_number(&self) -> bool {
        let before = self
            .at
            .checked_sub(1)
            .map_or(b' ', |before| self.bytes[before]);
        let after_operand = matches!(
            CLASSES[usize::from(before)],
            ByteClass::Name | ByteClass::Digit | ByteClass::Wide | ByteClass::Quote
        );
        self.bytes.get(self.at + 1).is_some_and(u8::is_ascii_digit)
            && !after_operand
            && !matches!(before, b')' | b']' | b'}')
    }

    fn wide(&mut self) {
        let Some(wide) = self.text[self.at..].chars().next() else {
            return;
        };
        let end = self.at + wide.len_utf8();
        if is_space(wide) {
            self.at = end;
        } else if wide.is_alphabetic() {
            self.name();
        } else if wide.is_numeric() {
            self.number();
        } else {
            self.emit(&self.text[self.at..end], end);
        }
    }

    /// Emits `token` for the bytes from here to `end`, which is greater than `at`, so the lexer always advances.
    fn emit(&mut self, token: &str, end: usize) {
        self.out.push(
            token,
            Span {
                start: offset(self.at),
                end: offset(end),
            },
        );
        self.line_is_blank = false;
        self.at = end;
    }
}

/// White space, or a byte order mark.
fn is_space(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// Spans end at 4 GiB, and so do [`Tokens`].
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// True if a sign after `number` belongs to it: `1.5e`, `0x1p`, but not `0x1e` or `12pie`.
fn is_exponent(number: &[u8]) -> bool {
    match number {
        [b'0', b'x' | b'X', .., last] => matches!(last, b'p' | b'P'),
        [mantissa @ .., b'e' | b'E'] => mantissa
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'_' | b'.' | b'\'')),
        _ => false,
    }
}

/// True if the text after a `#` makes it a directive. `#import` is one only before a file name, because it is also how
/// a commented-out import of Python starts.
fn is_directive(rest: &[u8]) -> bool {
    let end = rest
        .iter()
        .take(16)
        .position(|byte| !matches!(byte, b'a'..=b'z' | b'_'))
        .unwrap_or(rest.len().min(16));
    let (word, rest) = rest.split_at(end);
    match word {
        b"define" | b"elif" | b"elifdef" | b"elifndef" | b"else" | b"embed" | b"endif"
        | b"endregion" | b"error" | b"if" => true,
        b"ifdef" | b"ifndef" | b"include" | b"include_next" | b"line" | b"pragma" | b"region"
        | b"undef" | b"warning" => true,
        b"import" => matches!(rest.trim_ascii_start(), [b'<' | b'"', ..]),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
