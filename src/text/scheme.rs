//! What a stream or an index was made with.
//!
//! A scheme is written as up to four words, and two streams can be mixed only if theirs are equal:
//!
//! ```text
//! word@18.0                               tokens: the tokenizer and its version of Unicode
//! word@18.0 ordered:8:32 all              blots: windows of 8 tokens, 32 bits, every one kept
//! word+html@18.0 xor:10x2:18 winnow:4     two interleaved streams of windows of 10
//! word@18.0 minhash:256@2                 prints: 256 bits of MinHash over the tokens, version 2 of their definition
//! ```

use std::{fmt, str::FromStr};

/// The scheme of a token stream, for example `word@18.0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenScheme(pub String);

impl fmt::Display for TokenScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TokenScheme {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(format!(
                "'{text}' is not the scheme of a token stream, such as 'word@18.0'"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The scheme of a blot stream or an index, for example `word@18.0 ordered:8:32 all`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlotScheme {
    pub tokens: TokenScheme,
    /// How a window is made: `ordered:8`, `xor:10x2`.
    pub window: String,
    pub bits: u8,
    pub select: String,
}

/// The widths a blot may have.
pub const BITS: std::ops::RangeInclusive<u8> = 16..=64;

impl BlotScheme {
    /// A blot as it is written in streams, or why it is none.
    pub fn parse_blot(&self, hex: &str) -> Result<u64, String> {
        let blot = u64::from_str_radix(hex, 16)
            .ok()
            .filter(|&blot| self.bits == 64 || blot >> self.bits == 0);
        blot.ok_or_else(|| format!("'{hex}' is not a blot of {} bits in hex", self.bits))
    }
}

impl fmt::Display for BlotScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}:{} {}",
            self.tokens, self.window, self.bits, self.select
        )
    }
}

impl FromStr for BlotScheme {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is not the scheme of a blot stream, such as 'word@18.0 ordered:8:32 all'"
            )
        };
        let mut words = text.split(' ');
        let (Some(tokens), Some(window), Some(select), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(wrong());
        };
        let (window, bits) = window.rsplit_once(':').ok_or_else(wrong)?;
        let bits = bits
            .parse()
            .ok()
            .filter(|bits| BITS.contains(bits))
            .ok_or_else(wrong)?;
        Ok(Self {
            tokens: tokens.parse()?,
            window: window.to_owned(),
            bits,
            select: select.to_owned(),
        })
    }
}

/// The scheme of a print stream or a history, for example `word@18.0 minhash:256@2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintScheme {
    pub tokens: TokenScheme,
}

const MINHASH: &str = "minhash:256@2";
/// Before it had a version.
const MINHASH_1: &str = "minhash:256";

impl fmt::Display for PrintScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {MINHASH}", self.tokens)
    }
}

impl FromStr for PrintScheme {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(' ') {
            Some((tokens, MINHASH)) => Ok(Self {
                tokens: tokens.parse()?,
            }),
            Some((_, MINHASH_1)) => Err(format!(
                "scheme is '{text}', version 1 of the prints, whose bits depend on one another; \
                 this program reads version 2 ({MINHASH}): make the prints again from the documents"
            )),
            _ => Err(format!(
                "'{text}' is not the scheme of a print stream, such as 'word@18.0 {MINHASH}'"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_read_back_as_written() {
        for text in [
            "word@18.0 ordered:8:32 all",
            "word+html@18.0 xor:10x2:18 winnow:4,mod:16",
        ] {
            assert_eq!(text.parse::<BlotScheme>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn schemes_of_prints_are_read_back_as_written() {
        assert_eq!(
            "word@18.0 minhash:256@2"
                .parse::<PrintScheme>()
                .unwrap()
                .to_string(),
            "word@18.0 minhash:256@2"
        );
        for text in [
            "word@18.0",
            "word@18.0 minhash:256",
            "word@18.0 minhash:128@2",
            "word@18.0 minhash:256@3",
            " minhash:256",
            "word@18.0 ordered:8:32 all",
        ] {
            assert!(text.parse::<PrintScheme>().is_err(), "{text}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            "word",
            "word ordered:8 all",
            "word ordered:8:99 all",
            "a b:32 c d",
            " b:32 c",
        ] {
            assert!(text.parse::<BlotScheme>().is_err(), "{text}");
        }
    }
}
