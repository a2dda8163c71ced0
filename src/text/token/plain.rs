//! The text of a document in the form that is compared, and how it maps to the document.

use super::{Rule, Tokenizer, html::Stripped};
use crate::text::stream::{Span, Tokens};

/// How documents become tokens: what a scheme says, without the buffers of a [`Tokenizer`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tokenization {
    /// How text becomes tokens.
    pub rule: Rule,
    /// Markup of HTML is taken out first.
    pub strips_html: bool,
}

impl From<Tokenization> for Tokenizer {
    fn from(tokenization: Tokenization) -> Self {
        Self::new(tokenization.rule, tokenization.strips_html)
    }
}

impl Tokenization {
    /// As schemes and messages call it, without the version of Unicode.
    pub fn name(self) -> String {
        format!(
            "{}{}",
            self.rule.name(),
            if self.strips_html { "+html" } else { "" }
        )
    }

    /// Takes the markup out of a document, if that is asked for.
    pub fn plain(self, document: String) -> PlainText {
        let stripped = self.strips_html.then(|| {
            let mut stripped = Stripped::default();
            stripped.strip(&document);
            stripped
        });
        PlainText { document, stripped }
    }

    /// The tokens of a plain text, with spans in that text.
    pub fn tokens(self, plain: &PlainText) -> Tokens {
        let mut tokens = Tokens::new(true);
        self.rule.tokenize(plain.text(), &mut tokens);
        tokens
    }
}

/// A document without its markup.
///
/// Memory: the document, and if it was stripped its text and 32 bytes for each tag or entity.
pub struct PlainText {
    document: String,
    stripped: Option<Stripped>,
}

impl PlainText {
    /// The text to compare and to show.
    pub fn text(&self) -> &str {
        self.stripped
            .as_ref()
            .map_or(&self.document, |stripped| &stripped.text)
    }

    /// The document as it was read.
    pub fn document(&self) -> &str {
        &self.document
    }

    /// Whether markup was taken out.
    pub fn is_stripped(&self) -> bool {
        self.stripped.is_some()
    }

    /// The bytes of the document that some bytes of the text came from.
    pub fn in_document(&self, span: Span) -> Span {
        self.stripped
            .as_ref()
            .map_or(span, |stripped| stripped.original(span))
    }
}

/// White space as a reader of HTML sees it: no indentation, and no more than one blank line.
pub fn squeeze(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(char::is_whitespace) {
        let (word, tail) = rest.split_at(start);
        let end = tail
            .find(|c: char| !c.is_whitespace())
            .unwrap_or(tail.len());
        let (space, next) = tail.split_at(end);
        out.push_str(word);
        match space.matches('\n').count() {
            0 => out.push_str(space),
            1 => out.push('\n'),
            _ => out.push_str("\n\n"),
        }
        rest = next;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn white_space_is_squeezed() {
        assert_eq!(
            squeeze("\n \n\t\n  a  b\n   c \n\n\n d\n"),
            "\n\na  b\nc\n\nd\n"
        );
        assert_eq!((squeeze(""), squeeze("x")), (String::new(), "x".to_owned()));
    }

    proptest! {
        /// The same tokens as the index has, each where the document has it.
        #[test]
        fn tokens_lead_back_to_the_document(
            html in "([a-z .]|<p>|<b>|</b>|&lt;|&amp;|<style>x y</style>|<!-- c d -->|é|\n){0,40}", strips_html: bool, rule in 0_usize..7,
        ) {
            let rule = [Rule::Words, Rule::Word, Rule::Char(3), Rule::Line, Rule::Code, Rule::CodeNorm, Rule::Dna][rule];
            let tokenization = Tokenization { rule, strips_html };
            let plain = tokenization.plain(html.clone());
            let found = tokenization.tokens(&plain);
            let mut expected = Tokens::new(true);
            Tokenizer::new(rule, strips_html).tokenize(&html, &mut expected);
            prop_assert_eq!(found.hash(), expected.hash());
            let spans: Vec<Span> = found.spans().unwrap().iter().map(|&span| plain.in_document(span)).collect();
            prop_assert_eq!(&spans[..], expected.spans().unwrap());
            prop_assert_eq!(plain.document(), html);
        }
    }
}
