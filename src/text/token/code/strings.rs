//! Strings, and quotes that start none.

use super::Lexer;
use memchr::memchr2;

/// The kinds of string, as places in [`Lexer::unclosed`].
#[derive(Clone, Copy)]
enum Quotes {
    Double,
    Single,
    TripleDouble,
    TripleSingle,
    Backtick,
}

impl Lexer<'_> {
    /// Reads a string, or a quote that starts none.
    pub(super) fn quote(&mut self, quote: u8) {
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
    /// The quote is then an operator and the name a name, as if the quote were not closed on its line.
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

    /// The end of the string that starts here with `quotes`, if it is closed.
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
        if self.normalize {
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
}

/// Copies `string` with one space for each run of white space.
fn fold_space(string: &str, folded: &mut String) {
    folded.clear();
    for word in string.split_whitespace() {
        if !folded.is_empty() {
            folded.push(' ');
        }
        folded.push_str(word);
    }
}
