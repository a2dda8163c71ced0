//! The scheme of a token stream.

use crate::text::{
    stream::Tokens,
    token::{Rule, Rules, Tokenization, Tokenizer},
};
use std::{fmt, str::FromStr};

/// The scheme of a token stream, for example `words@18.0/49`, or `code+code-norm@18.0` of two tokenizers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenScheme {
    text: String,
    /// None if another program made it, or another version of Unicode.
    rules: Option<Rules>,
    strips_html: bool,
}

impl TokenScheme {
    /// The scheme of the tokens of these rules.
    pub fn new(rules: Rules, strips_html: bool) -> Self {
        let html = if strips_html { "+html" } else { "" };
        Self {
            text: format!("{}{html}@{}", rules.name(), rules.tables()),
            rules: Some(rules),
            strips_html,
        }
    }

    /// How to make the tokens of the first tokenizer, which passages are of; none if this program cannot.
    pub fn tokenization(&self) -> Option<Tokenization> {
        let rule = self.rules.as_ref()?.first();
        Some(Tokenization {
            rule,
            strips_html: self.strips_html,
        })
    }

    /// A tokenizer that makes these tokens; none if this program cannot.
    pub fn tokenizer(&self) -> Option<Tokenizer> {
        let rules = self.rules.clone()?;
        Some(Tokenizer::new(rules, self.strips_html))
    }

    /// The rules of its tokenizers; none if this program does not know them.
    pub fn rules(&self) -> Option<&Rules> {
        self.rules.as_ref()
    }

    /// The scheme of each tokenizer alone; itself if this program does not know it.
    pub fn of_each(&self) -> Vec<Self> {
        match &self.rules {
            Some(rules) => rules
                .iter()
                .map(|rule| Self::new(rule.into(), self.strips_html))
                .collect(),
            None => vec![self.clone()],
        }
    }

    /// Whether a document has a list of tokens for each of several tokenizers.
    pub fn is_of_several(&self) -> bool {
        self.rules.as_ref().is_some_and(Rules::are_several)
    }

    /// Refuses the tokens of a document that does not have a list for each tokenizer.
    pub fn ensure_lists(&self, tokens: &Tokens) -> Result<(), String> {
        let expected = self.rules.as_ref().map_or(0, |rules| rules.others().len());
        let found = tokens.others().len();
        if found == expected {
            return Ok(());
        }
        Err(format!(
            "its record has the tokens of {} tokenizers, scheme '{self}' names {}; make the stream anew",
            found + 1,
            expected + 1
        ))
    }

    /// Whether the tokenizer strips HTML, so that its spans refer to the markup.
    pub fn strips_html(&self) -> bool {
        self.strips_html
    }

    /// Whether the tokens are bases of DNA, which come as FASTA.
    pub fn is_dna(&self) -> bool {
        self.tokenization()
            .is_some_and(|tokenization| tokenization.rule == Rule::Dna)
    }
}

impl From<Tokenization> for TokenScheme {
    fn from(tokenization: Tokenization) -> Self {
        Self::new(tokenization.rule.into(), tokenization.strips_html)
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
        // Names that mean the same, such as `letters`, are written in one way only.
        let known = parse_known(text).filter(|known| known.text == text);
        Ok(known.unwrap_or_else(|| Self {
            text: text.to_owned(),
            rules: None,
            strips_html: false,
        }))
    }
}

/// Reads `code+code-norm+html@18.0`.
fn parse_known(text: &str) -> Option<TokenScheme> {
    let (name, tables) = text.split_once('@')?;
    let html = name.strip_suffix("+html");
    let rules = Rules::parse(html.unwrap_or(name)).ok()?;
    (tables == rules.tables()).then(|| TokenScheme::new(rules, html.is_some()))
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
        let several = parse("code+code-norm+html@18.0");
        assert!(several.is_of_several() && several.strips_html());
        assert_eq!(several.tokenization().unwrap().rule, Rule::Code);
        assert_eq!(several.of_each()[1].to_string(), "code-norm+html@18.0");
        for rule in [Rule::Words, Rule::Word] {
            let scheme = TokenScheme::from(Tokenization {
                rule,
                strips_html: false,
            });
            assert_eq!(parse(&scheme.to_string()), scheme);
        }
        assert!(parse("words+char:5@18.0/49").is_of_several());
        assert_eq!(
            TokenScheme::from(Tokenization::default()).to_string(),
            "words@18.0/49"
        );
        for foreign in [
            "word",
            "word@1.0",
            "stems@18.0",
            "word+letters@18.0",
            "a@b@c+html",
            "words@18.0",
            "words@18.0/48",
            "word@18.0/49",
            "words+char:5@18.0",
        ] {
            assert_eq!(parse(foreign).tokenization(), None);
            assert_eq!(parse(foreign).to_string(), foreign);
        }
    }
}
