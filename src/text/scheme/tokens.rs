//! The scheme of a token stream.

use crate::text::token::{Rule, Tokenization, Tokenizer};
use std::{fmt, str::FromStr};

/// The scheme of a token stream, for example `words@18.0/49`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenScheme {
    text: String,
    /// None if another program made it, or another version of Unicode.
    tokenization: Option<Tokenization>,
}

impl TokenScheme {
    /// How to make these tokens; none if this program cannot.
    pub fn tokenization(&self) -> Option<Tokenization> {
        self.tokenization
    }

    /// A tokenizer that makes these tokens; none if this program cannot.
    pub fn tokenizer(&self) -> Option<Tokenizer> {
        self.tokenization.map(Tokenizer::from)
    }

    /// Whether the tokenizer strips HTML, so that its spans refer to the markup.
    pub fn strips_html(&self) -> bool {
        self.tokenization
            .is_some_and(|tokenization| tokenization.strips_html)
    }

    /// Whether the tokens are bases of DNA, which come as FASTA.
    pub fn is_dna(&self) -> bool {
        self.tokenization
            .is_some_and(|tokenization| tokenization.rule == Rule::Dna)
    }
}

impl From<Tokenization> for TokenScheme {
    fn from(tokenization: Tokenization) -> Self {
        Self {
            text: format!("{}@{}", tokenization.name(), tokenization.rule.tables()),
            tokenization: Some(tokenization),
        }
    }
}

impl fmt::Display for TokenScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for TokenScheme {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(format!(
                "'{text}' is not the scheme of a token stream, such as 'words@18.0/49'"
            ));
        }
        Ok(Self {
            text: text.to_owned(),
            tokenization: parse_tokenization(text),
        })
    }
}

/// Reads `words+html@18.0/49`.
fn parse_tokenization(text: &str) -> Option<Tokenization> {
    let (name, tables) = text.split_once('@')?;
    let html = name.strip_suffix("+html");
    let rule = Rule::parse(html.unwrap_or(name)).ok()?;
    (tables == rule.tables()).then_some(Tokenization {
        rule,
        strips_html: html.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_gives_its_tokenization_or_none() {
        let parse = |text: &str| text.parse::<TokenScheme>().unwrap();
        let tokenization = Tokenization {
            rule: Rule::Char(16),
            strips_html: true,
        };
        let scheme = TokenScheme::from(tokenization);
        assert_eq!(parse(&scheme.to_string()), scheme);
        assert_eq!(scheme.tokenization(), Some(tokenization));
        assert!(parse("dna@18.0").is_dna());
        for rule in [Rule::Words, Rule::Word] {
            let scheme = TokenScheme::from(Tokenization {
                rule,
                strips_html: false,
            });
            assert_eq!(parse(&scheme.to_string()), scheme);
        }
        assert_eq!(
            TokenScheme::from(Tokenization::default()).to_string(),
            "words@18.0/49"
        );
        for foreign in [
            "word",
            "word@1.0",
            "stems@18.0",
            "a@b@c+html",
            "words@18.0",
            "words@18.0/48",
            "word@18.0/49",
        ] {
            assert_eq!(parse(foreign).tokenization(), None);
            assert_eq!(parse(foreign).to_string(), foreign);
        }
    }
}
