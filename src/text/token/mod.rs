//! Tokenizers: one file each.
//!
//! A tokenizer appends the tokens of a text to a [`Tokens`] buffer, with their spans. To add one: a file here, a
//! variant of [`Rule`] and a row of [`TABLE`]; the compiler asks for its name and its function.

mod chars;
mod code;
pub mod dna;
mod grams;
pub(in crate::text) mod html;
mod line;
mod plain;
mod scheme_tokenizer;
mod word;

pub use chars::{CharClass, UNICODE, class_of};
pub use plain::{PlainText, Tokenization, squeeze};
pub use scheme_tokenizer::SchemeTokenizer;

use crate::text::{scheme::TokenScheme, stream::Tokens};
use html::Stripped;

/// How text becomes tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Words.
    Word,
    /// Overlapping runs of this many letters.
    Char(usize),
    /// Lines.
    Line,
    /// The tokens of source code.
    Code,
    /// The tokens of source code, with names and literals reduced to classes.
    CodeNorm,
    /// Bases of DNA.
    Dna,
}

/// Name, what it does, and how its argument is read.
type TokenizerRow = (&'static str, &'static str, fn(Option<&str>) -> Option<Rule>);

/// All tokenizers.
pub const TABLE: [TokenizerRow; 6] = [
    (
        "word",
        "words of any script, case folded, apostrophes inside dropped; single characters where a script has no spaces",
        |n| plain(n, Rule::Word),
    ),
    (
        "char:N",
        "overlapping runs of N letters, for noisy text such as OCR",
        |n| {
            Some(Rule::Char(
                n?.parse().ok().filter(|n| (1..=255).contains(n))?,
            ))
        },
    ),
    ("line", "lines, white space folded", |n| {
        plain(n, Rule::Line)
    }),
    (
        "code",
        "source code: names, numbers, strings, operators; comments dropped",
        |n| plain(n, Rule::Code),
    ),
    (
        "code-norm",
        "as code, with names and literals reduced to classes",
        |n| plain(n, Rule::CodeNorm),
    ),
    (
        "dna",
        "bases of FASTA records; a strand and its reverse complement give the same blots",
        |n| plain(n, Rule::Dna),
    ),
];

/// All tokenizers, for a help text.
pub fn help() -> String {
    TABLE
        .map(|(name, what, _)| format!("{name}: {what}"))
        .join(";\n")
}

fn plain(argument: Option<&str>, rule: Rule) -> Option<Rule> {
    argument.is_none().then_some(rule)
}

impl Rule {
    /// The name in schemes: `word`, `char:16`.
    pub fn name(self) -> String {
        match self {
            Self::Word => "word".to_owned(),
            Self::Char(length) => format!("char:{length}"),
            Self::Line => "line".to_owned(),
            Self::Code => "code".to_owned(),
            Self::CodeNorm => "code-norm".to_owned(),
            Self::Dna => "dna".to_owned(),
        }
    }

    /// Reads `word`, `char:16`, …
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, argument) = text
            .split_once(':')
            .map_or((text, None), |(name, argument)| (name, Some(argument)));
        let row = TABLE
            .iter()
            .find(|(row, ..)| row.split(':').next() == Some(name));
        row.and_then(|(.., read)| read(argument)).ok_or_else(|| {
            let names: Vec<_> = TABLE.iter().map(|(name, ..)| *name).collect();
            format!(
                "no tokenizer '{text}'; there are {} (N from 1 to 255)",
                names.join(", ")
            )
        })
    }
}

/// Turns texts into tokens; owns buffers that are reused.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
#[serde(from = "Tokenization", into = "Tokenization")]
pub struct Tokenizer {
    rule: Rule,
    strips_html: bool,
    stripped: Stripped,
}

impl Tokenizer {
    /// A tokenizer with empty buffers.
    pub fn new(rule: Rule, strips_html: bool) -> Self {
        Self {
            rule,
            strips_html,
            stripped: Stripped::default(),
        }
    }

    /// How text becomes tokens.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// The scheme of its tokens.
    pub fn scheme(&self) -> TokenScheme {
        self.tokenization().into()
    }

    /// What it does, without its buffers.
    pub fn tokenization(&self) -> Tokenization {
        Tokenization {
            rule: self.rule,
            strips_html: self.strips_html,
        }
    }

    /// Frees large buffers.
    pub fn release_buffers(&mut self) {
        self.stripped.strip("");
    }

    /// Replaces `out` by the tokens of `text`.
    pub fn tokenize(&mut self, text: &str, out: &mut Tokens) {
        out.clear();
        if !self.strips_html {
            return self.rule.tokenize(text, out);
        }
        self.stripped.strip(text);
        self.rule.tokenize(&self.stripped.text, out);
        if let Some(spans) = &mut out.spans {
            spans
                .iter_mut()
                .for_each(|span| *span = self.stripped.original(*span));
        }
    }
}

impl Rule {
    fn tokenize(self, text: &str, out: &mut Tokens) {
        match self {
            Self::Word => word::tokenize(text, out),
            Self::Char(length) => grams::tokenize(text, length, out),
            Self::Line => line::tokenize(text, out),
            Self::Code => code::tokenize(text, false, out),
            Self::CodeNorm => code::tokenize(text, true, out),
            Self::Dna => dna::tokenize(text, out),
        }
    }
}
