//! One tokenizer, or several whose blots share an index: `word`, `code+code-norm`.
//!
//! Each rule makes its own list of tokens from the same text. The first one is the main one: passages, spans and the number of
//! tokens are its own. The hash of a document is over the tokens of all rules, so exact duplicates are equal for each of them.

use super::Rule;

/// How text becomes tokens, once for each rule.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rules {
    first: Rule,
    others: Vec<Rule>,
}

/// Separates the names of tokenizers.
pub const PLUS: char = '+';
/// What a scheme calls the removal of markup. It is no tokenizer.
pub const HTML: &str = "html";

impl Rules {
    /// Reads `word`, `code+code-norm`, …
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut names = text.split(PLUS);
        let first = Rule::parse(names.next().unwrap_or_default())?;
        let mut rules = Self::from(first);
        for name in names {
            if name == HTML {
                return Err(format!(
                    "'{HTML}' is not a tokenizer; there is a setting of its own for taking out markup"
                ));
            }
            let rule = Rule::parse(name)?;
            if rules.iter().any(|known| known == rule) {
                return Err(format!("{}: named twice", rule.name()));
            }
            rules.others.push(rule);
        }
        if rules.are_several() && rules.iter().any(|rule| rule == Rule::Dna) {
            return Err(format!(
                "'{text}': dna cannot share an index with other tokenizers, as its blots are of both strands; make an index of its own"
            ));
        }
        Ok(rules)
    }

    /// The main one.
    pub fn first(&self) -> Rule {
        self.first
    }

    /// Those after the first.
    pub fn others(&self) -> &[Rule] {
        &self.others
    }

    /// Whether there is more than one.
    pub fn are_several(&self) -> bool {
        !self.others.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Rule> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }

    /// The version of the tables that decide what the tokens are.
    pub fn tables(&self) -> String {
        // Those of dictionaries include those of Unicode.
        let words = self.iter().find(|&rule| rule == Rule::Words);
        words.unwrap_or(self.first).tables()
    }

    /// The name in schemes: `code+code-norm`.
    pub fn name(&self) -> String {
        let names: Vec<_> = self.iter().map(Rule::name).collect();
        names.join("+")
    }
}

impl From<Rule> for Rules {
    fn from(first: Rule) -> Self {
        Self {
            first,
            others: Vec::new(),
        }
    }
}

impl TryFrom<String> for Rules {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<Rules> for String {
    fn from(rules: Rules) -> Self {
        rules.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_as_written() {
        for name in ["word", "code+code-norm", "word+char:5+line"] {
            assert_eq!(Rules::parse(name).unwrap().name(), name);
        }
        let rules = Rules::parse("word+letters").unwrap();
        assert_eq!(
            (rules.first(), rules.others()),
            (Rule::Word, &[Rule::Char(1)][..])
        );
    }

    #[test]
    fn errors_name_the_remedy() {
        let explain = |text: &str| Rules::parse(text).unwrap_err();
        for unknown in ["wrd+line", "word+wrd", "word+", "+word", ""] {
            assert!(
                explain(unknown).contains("; there are words, word, char:N, "),
                "{unknown}"
            );
        }
        assert_eq!(explain("word+line+word"), "word: named twice");
        assert!(explain("word+dna").contains("make an index of its own"));
        assert!(explain("word+html").contains("'html' is not a tokenizer"));
    }
}
