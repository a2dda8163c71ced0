//! Splits source code of any language into tokens: names, numbers, strings, operators and brackets.
//!
//! White space and comments are dropped, case is kept. No language is asked for or guessed, so where two languages
//! disagree one rule serves both: `//` opens a comment in Python too, and `#` opens one only where C, Rust and the
//! shell would not have it as an operator. What matters is that equal code gives equal tokens.
//!
//! ```text
//! sum += data[i];  // add       sum  +=  data  [  i  ]  ;        code
//!                               ID   +=  ID    [  ID ]  ;        code-norm
//! ```
//!
//! Every byte is looked at a bounded number of times, whatever the text: see `Lexer::unclosed`.

mod words;

use crate::text::stream::{Span, Tokens};
use memchr::{memchr2, memmem};
use words::{is_keyword, operator_len};

/// Appends the tokens of `text` to `out`, with the bytes of `text` they came from as their spans.
pub fn tokenize(text: &str, out: &mut Tokens) {
    run_lexer(text, false, out);
}

/// As [`tokenize`], but names other than keywords become `ID`, numbers `NUM` and strings `STR`, so that renaming
/// variables and changing literals gives the same tokens.
pub fn tokenize_normalized(text: &str, out: &mut Tokens) {
    run_lexer(text, true, out);
}

fn run_lexer(text: &str, normalise: bool, out: &mut Tokens) {
    Lexer {
        text,
        bytes: text.as_bytes(),
        at: 0,
        line_is_blank: true,
        in_directive: false,
        lifetime_end: usize::MAX,
        unclosed: [0; 5],
        folded: String::new(),
        normalise,
        out,
    }
    .run();
}

/// What a byte begins.
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

/// The kinds of string, as places in [`Lexer::unclosed`].
#[derive(Clone, Copy)]
enum Quotes {
    Double,
    Single,
    TripleDouble,
    TripleSingle,
    Backtick,
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    /// Where the next token is looked for. Always between two characters.
    at: usize,
    /// No token yet on this line.
    line_is_blank: bool,
    /// On a line that began with `#define` or its like, where `#` is an operator.
    in_directive: bool,
    /// Where the last lifetime ended.
    lifetime_end: usize,
    /// For each kind of string the offset up to which no quote of that kind is closed.
    ///
    /// Without it the line `"\"\"\"…` costs the square of its length: the first quote is not closed, so the next one
    /// is tried, and so on. One search that failed answers for all quotes in the part it went through: it took each
    /// of them for an escaped one (any other would have closed it), so behind each of them it went on as a search
    /// that begins there does.
    unclosed: [usize; 5],
    folded: String,
    normalise: bool,
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
        let keep = !self.normalise || is_keyword(name.as_bytes());
        self.emit(if keep { name } else { "ID" }, end);
    }

    /// Where the letters, digits, `_` and `$` from `at` on end.
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
            if self.normalise {
                "NUM"
            } else {
                &self.text[self.at..end]
            },
            end,
        );
    }

    /// Letters and digits, and what may join them: one point before a digit, the sign of an exponent, and the quote of
    /// C++ `1'000` and Verilog `8'hff`.
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

    fn quote(&mut self, quote: u8) {
        let end = if self.is_lifetime(quote) {
            None
        } else {
            self.string_end(quote)
        };
        match end {
            Some(end) => self.string(end),
            None => self.emit(&self.text[self.at..self.at + 1], self.at + 1),
        }
    }

    /// True at the quote of `&'a` and `<'a`, and of `'b` where it follows a lifetime: `<'a, 'b: 'a + 'c>`.
    ///
    /// The quote is then an operator and the name a name, as they are where the quote is not closed on its line.
    fn is_lifetime(&mut self, quote: u8) -> bool {
        let opens = self.at > 0 && matches!(self.bytes[self.at - 1], b'&' | b'<')
            || matches!(
                self.bytes.get(self.lifetime_end..self.at),
                Some(b"," | b", " | b":" | b": " | b"+" | b" + ")
            );
        if quote != b'\'' || !opens {
            return false;
        }
        let end = self.name_end(self.at + 1);
        let found = end > self.at + 1 && self.bytes.get(end) != Some(&b'\'');
        if found {
            self.lifetime_end = end;
        }
        found
    }

    fn string_end(&mut self, quote: u8) -> Option<usize> {
        let triple = self.bytes[self.at..].starts_with(&[quote; 3]);
        let (long, short) = match quote {
            b'`' => return self.close(Quotes::Backtick, b"`", true),
            b'"' => (Quotes::TripleDouble, Quotes::Double),
            _ => (Quotes::TripleSingle, Quotes::Single),
        };
        let end = if triple {
            self.close(long, &[quote; 3], true)
        } else {
            None
        };
        end.or_else(|| self.close(short, &[quote], false))
    }

    /// Where the string that begins here with `quotes` ends, if it does.
    fn close(&mut self, kind: Quotes, quotes: &[u8], spans_lines: bool) -> Option<usize> {
        if self.at < self.unclosed[kind as usize] {
            return None;
        }
        let mut at = self.at + quotes.len();
        while let Some(&byte) = self.bytes.get(at) {
            match byte {
                b'\n' | b'\r' if !spans_lines => break,
                b'\\' if spans_lines || !matches!(self.bytes.get(at + 1), Some(b'\n' | b'\r')) => {
                    at += 2
                }
                _ if byte == quotes[0] && self.bytes[at..].starts_with(quotes) => {
                    return Some(at + quotes.len());
                }
                _ => at += 1,
            }
        }
        self.unclosed[kind as usize] = at;
        None
    }

    fn string(&mut self, end: usize) {
        let string = &self.text[self.at..end];
        if self.normalise {
            self.emit("STR", end);
        } else if memchr2(b'\n', b'\r', string.as_bytes()).is_none() {
            self.emit(string, end);
        } else {
            let mut folded = std::mem::take(&mut self.folded);
            fold_space(string, &mut folded);
            self.emit(&folded, end);
            self.folded = folded;
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

    /// The end of the comment that begins here; a block that is not closed runs to the end of the text.
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

    /// `#` opens a comment at the start of a line or after white space, unless it begins a directive of the C
    /// preprocessor or stands on the line of one, or begins an attribute of Rust (`#[…]`, `#![…]`).
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

    /// Emits `token` for the bytes from here to `end`, which is past `at`: so the lexer always advances.
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

/// A byte order mark is no token either.
fn is_space(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// Spans end at 4 GiB, and so do [`Tokens`].
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// True when a sign after `number` belongs to it: `1.5e`, `0x1p`, but not `0x1e` or `12pie`.
fn is_exponent(number: &[u8]) -> bool {
    match number {
        [b'0', b'x' | b'X', .., last] => matches!(last, b'p' | b'P'),
        [mantissa @ .., b'e' | b'E'] => mantissa
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'_' | b'.' | b'\'')),
        _ => false,
    }
}

/// True where the text behind a `#` makes it a directive. `#import` is one only before a file name, as Python that is
/// commented out has it too.
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

/// Copies `string` with each run of white space made one space.
fn fold_space(string: &str, folded: &mut String) {
    folded.clear();
    for word in string.split_whitespace() {
        if !folded.is_empty() {
            folded.push(' ');
        }
        folded.push_str(word);
    }
}

#[cfg(test)]
mod tests {
    use crate::base::num::ToUsize;
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    fn lex_with(text: &str, normalise: bool) -> Vec<(String, Span)> {
        let mut out = Tokens::new(true);
        run_lexer(text, normalise, &mut out);
        let tokens = out
            .iter()
            .map(|token| String::from_utf8(token.to_vec()).unwrap());
        tokens.zip(out.spans().unwrap().iter().copied()).collect()
    }

    fn lex(text: &str) -> Vec<String> {
        lex_with(text, false)
            .into_iter()
            .map(|(token, _)| token)
            .collect()
    }

    fn normal(text: &str) -> String {
        lex_with(text, true)
            .into_iter()
            .map(|(token, _)| token)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// `expected` holds the tokens with one space between any two; `␣` is a space in a token.
    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(
            lex(text),
            expected
                .split(' ')
                .map(|token| token.replace('␣', " "))
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn c() {
        let text = "#include <stdio.h>\n# gone\n#define STR(x) #x \\\n  ## x\n/* a\n * block */ int main(void) {\n\
                    \tunsigned long n = 0x1Fu, *p = &n; // gone too\n\
                    \tn <<= 2; n = p->x ? '\\'' : .5e-3f; --n;\n\tputs(\"a\\\"b\\n\");\n}";
        check(
            text,
            "# include < stdio . h > # define STR ( x ) # x \\ ## x int main ( void ) { \
             unsigned long n = 0x1Fu , * p = & n ; n <<= 2 ; n = p -> x ? '\\'' : .5e-3f ; -- n ; puts ( \"a\\\"b\\n\" ) ; }",
        );
    }

    #[test]
    fn rust() {
        let text = "#![allow(dead_code)]\n#[derive(Debug)]\nstruct Both<'a, 'b: 'a>(&'a str, &'b str);\n\
                    fn f<'a>(x: &'a str) -> Option<char> {\n'outer: for i in 0..=9 { x.0.1; }\nSome('a') }";
        check(
            text,
            "# ! [ allow ( dead_code ) ] # [ derive ( Debug ) ] \
             struct Both < ' a , ' b : ' a > ( & ' a str , & ' b str ) ; \
             fn f < ' a > ( x : & ' a str ) -> Option < char > { ' outer : for i in 0 ..= 9 { x . 0.1 ; } Some ( 'a' ) }",
        );
    }

    #[test]
    fn python() {
        let text = "#!/usr/bin/env python3\n#import os\n\u{feff}# naïve\ndef größe(x, *args):\n    \
                    '''It's\n\tof  two\r\n    lines.'''\n    return x ** 2 != 1_000 or f'{x}' # done\n";
        check(
            text,
            "def größe ( x , * args ) : '''It's␣of␣two␣lines.''' return x ** 2 != 1_000 or f '{x}'",
        );
    }

    #[test]
    fn javascript() {
        let text = "const $el = (a?.b ?? 1e6) => { /* x */ return `line ${a}\n  two` === \"it's\" && a !== .5; }\n\
                    <!-- x -->\ni++;";
        check(
            text,
            "const $el = ( a ?. b ?? 1e6 ) => { return `line␣${a}␣two` === \"it's\" && a !== .5 ; } i ++ ;",
        );
    }

    #[test]
    fn sql() {
        let text = "-- all of it\n  --\nSELECT a.id, 'it''s' FROM \"T\" a\n  -- gone\n WHERE a.n <> 1.5 AND b LIKE 'x y';";
        check(
            text,
            "SELECT a . id , 'it' 's' FROM \"T\" a WHERE a . n <> 1.5 AND b LIKE 'x␣y' ;",
        );
    }

    #[test]
    fn shell() {
        let text = "#!/bin/sh -e\nif [ $# -gt 0 ] && test \"$1\" = '--help'; then # usage\n  echo ${1#-} >>log 2>&1;;\nfi";
        check(
            text,
            "if [ $ # - gt 0 ] && test \"$1\" = '--help' ; then echo $ { 1 # - } >> log 2 > & 1 ;; fi",
        );
    }

    #[test]
    fn numbers() {
        check(
            "1_000 0b01 1.5e-3 0x1e+5 0x1p-3 1e+ 1.max 1..2 1.2.3",
            "1_000 0b01 1.5e-3 0x1e + 5 0x1p-3 1e + 1 . max 1 .. 2 1.2 . 3",
        );
        check(
            "1'000'000 8'hff f().0 a.0 (.5) x=.5 12pie-3 ٣٤",
            "1'000'000 8'hff f ( ) . 0 a . 0 ( .5 ) x = .5 12pie - 3 ٣٤",
        );
    }

    #[test]
    fn unclosed_quotes_and_comments() {
        check("a \"b\nc 'd \\\ne' `f", "a \" b c ' d \\ e ' ` f");
        check("\"\"\"a\nb", "\"\" \" a b");
        check("x < 'a' && y<'b c", "x < 'a' && y < ' b c");
        check("a /* b\nc", "a");
        check("a <!-- b\nc", "a");
        check("a /*/ b */ c", "a c");
        assert!(lex("").is_empty() && lex(" \n\u{a0}\u{feff}").is_empty());
    }

    #[test]
    fn hashes_that_are_no_comments() {
        check(
            "#import <a.h>\n#import a\nx #if 1\ny#z",
            "# import < a . h > x y # z",
        );
        check("#define A \\\n  #a\n  #b", "# define A \\ # a");
    }

    #[test]
    fn spans_are_of_the_source() {
        let span = |start, end| Span { start, end };
        let expected = [
            ("é".to_owned(), span(1, 3)),
            ("`a b`".to_owned(), span(4, 11)),
            ("→".to_owned(), span(11, 14)),
        ];
        assert_eq!(lex_with(" é `a\n \tb`→ ", false), expected);
    }

    #[test]
    fn renaming_and_other_literals_give_the_same_normal_tokens() {
        let one =
            "for (int i = 0; i < n; i++) { total += price[i] * 1.19; log(\"sum\", 'x'); } // net";
        let two = "for (int k=10;k<len;k++) {\n  Σ += kosten[k]*.5e-3; print(`so\nviel`, \"\"\"a\"\"\"); }";
        let expected =
            "for ( int ID = NUM ; ID < ID ; ID ++ ) { ID += ID [ ID ] * NUM ; ID ( STR , STR ) ; }";
        assert_eq!(
            (normal(one).as_str(), normal(two).as_str()),
            (expected, expected)
        );
        assert_eq!(
            normal("SELECT reinterpret_cast synchronizedly"),
            "SELECT reinterpret_cast ID"
        );
        assert_eq!(
            normal("fn f<'a>() -> Self { None }"),
            "fn ID < ' ID > ( ) -> Self { None }"
        );
    }

    /// Some of these take the square of their length if a failed search is made again: minutes instead of milliseconds.
    #[test]
    fn hostile_text_takes_linear_time() {
        for unit in [
            "\"\\", "'\\", "`\\", "\"\"\"\\", "'''\\`", "\"'\\", "<'a", "#import ", "1e-", "/*",
            "<!--", "--\n", "<'a,'",
        ] {
            let text = unit.repeat(1_000_000 / unit.len());
            for text in [format!("\"{text}"), format!("`{text}"), text] {
                let started = Instant::now();
                tokenize(&text, &mut Tokens::default());
                assert!(started.elapsed() < Duration::from_secs(3), "{unit}");
            }
        }
    }

    /// True when the quote at the head of `rest` is closed, found without memory of earlier searches.
    fn is_closed(rest: &str, spans_lines: bool) -> bool {
        let quote = rest.chars().next();
        let mut chars = rest.chars().skip(1).peekable();
        while let Some(c) = chars.next() {
            if Some(c) == quote {
                return true;
            }
            if matches!(c, '\n' | '\r') && !spans_lines {
                return false;
            }
            if c == '\\' && (spans_lines || !matches!(chars.peek(), Some('\n' | '\r'))) {
                chars.next();
            }
        }
        false
    }

    proptest! {
        #[test]
        fn any_text_is_lexed(text in r#"([ -~]|["'`\\ \n\ra1.#/*<-]|"""|'''|é|\PC){0,60}"#, normalise: bool) {
            let mut last = 0;
            for (token, span) in lex_with(&text, normalise) {
                prop_assert!(last <= span.start && span.start < span.end);
                last = span.end;
                let source = text.get(span.range());
                prop_assert!(source.is_some() && !token.is_empty() && !token.contains('\n'));
                let source = source.unwrap_or_default();
                if !normalise && !source.contains(['\n', '\r']) {
                    prop_assert_eq!(source, &token);
                }
                if matches!(token.as_str(), "\"" | "`") {
                    prop_assert!(!is_closed(&text[span.start.to_usize()..], token == "`"));
                }
            }
        }

        #[test]
        fn white_space_and_comments_leave_no_trace(words in prop::collection::vec("[a-z]{1,3}|[0-9]|[+(;]", 0..20)) {
            prop_assert_eq!(lex(&words.join(" /* # \" */ // '\n")), words);
        }
    }
}
