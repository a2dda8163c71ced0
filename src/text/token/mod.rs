//! Tokenizers: one file each.
//!
//! A tokenizer appends the tokens of a text to a [`Tokens`] buffer, with their spans. To add one: a file here
//! and a row of `tokenizers!`.

mod ascii;
mod chars;
mod code;
mod dictionary;
pub mod dna;
mod grams;
pub(in crate::text) mod html;
mod line;
mod plain;
mod rules;
mod scheme_tokenizer;
mod word;
mod words;

pub use chars::{CharClass, UNICODE, class_of};
pub use plain::{PlainText, Tokenization, squeeze};
pub use rules::{HTML, PLUS, Rules};
pub use scheme_tokenizer::SchemeTokenizer;

use crate::text::{scheme::TokenScheme, stream::Tokens};
use dictionary::DICTIONARIES;
use html::Stripped;

/// Name, what it does, and how its argument is read.
type TokenizerRow = (&'static str, &'static str, fn(Option<&str>) -> Option<Rule>);

/// Defines [`Rule`] and [`TABLE`] from the rows, and calls the function of a tokenizer.
macro_rules! tokenizers {
    (@type $length:ident) => { usize };
    (@read $rule:ident) => { |argument| argument.is_none().then_some(Rule::$rule) };
    (@read $rule:ident $length:ident) => { |argument| read_length(argument).map(Rule::$rule) };
    ($($(#[$attribute:meta])* $rule:ident $(($length:ident))? = $name:literal, $help:literal, $tokenize:path;)*) => {
        /// How text becomes tokens.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Rule {
            $($(#[$attribute])* $rule $((tokenizers!(@type $length)))?,)*
        }

        /// All tokenizers.
        pub const TABLE: &[TokenizerRow] = &[$((
            concat!($name $(, ":", stringify!($length))?),
            $help,
            tokenizers!(@read $rule $($length)?),
        ),)*];

        impl Rule {
            /// The name in schemes: `words`, `char:16`.
            #[expect(non_snake_case, reason = "the parameter has the name that the help shows")]
            pub fn name(self) -> String {
                match self {
                    $(Self::$rule $(($length))? => [$name.to_owned() $(, $length.to_string())?].join(":"),)*
                }
            }

            #[expect(non_snake_case, reason = "the parameter has the name that the help shows")]
            fn tokenize(self, text: &str, out: &mut Tokens) {
                match self {
                    $(Self::$rule $(($length))? => $tokenize(text, $($length,)? out),)*
                }
            }
        }
    };
}

tokenizers! {
    /// Words of any script.
    #[default]
    Words = "words",
        "words of any script, case folded, apostrophes inside dropped; by dictionaries where a script has no spaces",
        words::tokenize;
    /// Words, and single characters of scripts without spaces.
    Word = "word",
        "as words, with single characters where a script has no spaces",
        word::tokenize;
    /// Overlapping runs of this many letters.
    Char(N) = "char", "overlapping runs of N letters, for noisy text such as OCR; letters is short for char:1", grams::tokenize;
    /// Lines.
    Line = "line", "lines, white space folded", line::tokenize;
    /// The tokens of source code.
    Code = "code",
        "source code: names, numbers, strings, operators; comments dropped",
        code::tokenize;
    /// The tokens of source code, with names and literals reduced to classes.
    CodeNorm = "code-norm",
        "as code, with names and literals reduced to classes",
        code::tokenize_normalized;
    /// Bases of DNA.
    Dna = "dna",
        "bases of FASTA records; a strand and its reverse complement give the same blots",
        dna::tokenize;
}

/// All tokenizers, for a help text.
pub fn help() -> String {
    let rows = TABLE
        .iter()
        .map(|(name, what, _)| format!("{name}: {what}"));
    format!(
        "{};\nseveral with plus signs, such as code+code-norm: the blots of all of them, and the passages of the first",
        rows.collect::<Vec<_>>().join(";\n")
    )
}

/// The name that people know single letters by.
const LETTERS: &str = "letters";

fn read_length(argument: Option<&str>) -> Option<usize> {
    argument?.parse().ok().filter(|n| (1..=255).contains(n))
}

impl Rule {
    /// Whether its tokens are words, which can be reworded, inflected and looked up.
    pub fn is_words(self) -> bool {
        matches!(self, Self::Words | Self::Word)
    }

    /// The version of the tables that decide what its tokens are: of Unicode, and of the dictionaries if it asks them.
    pub fn tables(self) -> String {
        match self {
            Self::Words => format!("{UNICODE}/{DICTIONARIES}"),
            _ => UNICODE.to_owned(),
        }
    }

    /// Reads `words`, `char:16`, …
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == LETTERS {
            return Ok(Self::Char(1));
        }
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
#[serde(from = "TokenizerOptions", into = "TokenizerOptions")]
pub struct Tokenizer {
    rules: Rules,
    strips_html: bool,
    stripped: Stripped,
}

/// What a [`Tokenizer`] does, as a plan keeps it.
#[derive(serde::Serialize, serde::Deserialize)]
struct TokenizerOptions {
    #[serde(rename = "rule")]
    rules: Rules,
    strips_html: bool,
}

impl From<TokenizerOptions> for Tokenizer {
    fn from(options: TokenizerOptions) -> Self {
        Self::new(options.rules, options.strips_html)
    }
}

impl From<Tokenizer> for TokenizerOptions {
    fn from(tokenizer: Tokenizer) -> Self {
        Self {
            rules: tokenizer.rules,
            strips_html: tokenizer.strips_html,
        }
    }
}

impl Tokenizer {
    /// A tokenizer with empty buffers.
    pub fn new(rules: impl Into<Rules>, strips_html: bool) -> Self {
        Self {
            rules: rules.into(),
            strips_html,
            stripped: Stripped::default(),
        }
    }

    /// The scheme of its tokens.
    pub fn scheme(&self) -> TokenScheme {
        TokenScheme::new(self.rules.clone(), self.strips_html)
    }

    /// What it does by its first rule, without its buffers.
    pub fn tokenization(&self) -> Tokenization {
        Tokenization {
            rule: self.rules.first(),
            strips_html: self.strips_html,
        }
    }

    /// Frees large buffers.
    pub fn release_buffers(&mut self) {
        self.stripped.strip("");
    }

    /// Replaces `out` by the tokens of `text`: those of the first rule, and of each other one in [`Tokens::others`].
    pub fn tokenize(&mut self, text: &str, out: &mut Tokens) {
        let has_spans = out.spans.is_some();
        out.clear();
        out.others
            .resize_with(self.rules.others().len(), || Tokens::new(has_spans));
        if self.strips_html {
            self.stripped.strip(text);
        }
        self.apply(self.rules.first(), text, out);
        for (at, &rule) in self.rules.others().iter().enumerate() {
            self.apply(rule, text, &mut out.others[at]);
        }
    }

    fn apply(&self, rule: Rule, text: &str, out: &mut Tokens) {
        if !self.strips_html {
            return rule.tokenize(text, out);
        }
        rule.tokenize(&self.stripped.text, out);
        if let Some(spans) = &mut out.spans {
            spans
                .iter_mut()
                .for_each(|span| *span = self.stripped.original(*span));
        }
    }
}
