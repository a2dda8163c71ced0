//! Bases of nucleic acids: `a`, `c`, `g`, `t`, and `n` for one that is not known.
//!
//! U counts as T. Gaps, digits and white space are dropped, so that wrapped and aligned sequences agree. Blots of
//! these tokens are the same for a strand and its reverse complement, and no window contains an `n`
//! ([`crate::blot`] sees to that).

use crate::base::num::ToU32;
use crate::text::stream::{Span, Tokens};

/// Appends the bases of `text`.
pub fn tokenize(text: &str, out: &mut Tokens) {
    for (at, byte) in text.bytes().enumerate() {
        let base = match byte.to_ascii_lowercase() {
            base @ (b'a' | b'c' | b'g' | b't') => base,
            b'u' => b't',
            other if other.is_ascii_alphabetic() => b'n',
            _ => continue,
        };
        out.text.push(base);
        out.finish(Span {
            start: at.to_u32(),
            end: at.to_u32() + 1,
        });
    }
}

/// The base that faces this one on the other strand.
pub fn complement(base: &[u8]) -> &'static [u8] {
    match base {
        b"a" => b"t",
        b"c" => b"g",
        b"g" => b"c",
        b"t" => b"a",
        _ => UNKNOWN,
    }
}

/// The same for a letter of a sequence, in upper or lower case.
pub fn complement_of(letter: u8) -> u8 {
    match letter.to_ascii_lowercase() {
        b'a' => b't',
        b'c' => b'g',
        b'g' => b'c',
        b't' | b'u' => b'a',
        _ => b'n',
    }
}

/// The token of a base that is not known.
pub const UNKNOWN: &[u8] = b"n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_are_normalised() {
        let mut tokens = Tokens::new(true);
        tokenize("AC gu\n-tR*é1", &mut tokens);
        assert_eq!(
            tokens
                .iter()
                .flatten()
                .map(|&byte| byte as char)
                .collect::<String>(),
            "acgttn"
        );
        assert_eq!(tokens.spans().unwrap()[2], Span { start: 3, end: 4 });
        assert_eq!(
            tokens.iter().map(complement).collect::<Vec<_>>().concat(),
            b"tgcaan"
        );
    }
}
