//! The scheme of a print stream.

use super::TokenScheme;
use std::{fmt, str::FromStr};

/// The scheme of a print stream or a history, for example `words@18.0/49 minhash:256@2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintScheme {
    /// The scheme of the tokens that the prints are made from.
    pub tokens: TokenScheme,
}

const MINHASH: &str = "minhash:256@2";
/// Version 1, whose scheme has no version.
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
                "'{text}' is not the scheme of a print stream, such as 'words@18.0/49 {MINHASH}'"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_print_scheme_is_read_back_as_written() {
        let text = "word@18.0 minhash:256@2";
        assert_eq!(text.parse::<PrintScheme>().unwrap().to_string(), text);
    }

    #[test]
    fn other_text_is_refused() {
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
}
