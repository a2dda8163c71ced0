//! Turns documents into prints, whether they come as text, tokens or prints.

use super::minhash::Printer;
use crate::{
    base::error::{Error, Result},
    text::{
        corpus::{Content, InputDocument, Source},
        scheme::PrintScheme,
        stream::{Header, Printed, StreamKind, Tokens},
        token::SchemeTokenizer,
    },
};

/// Turns documents into prints; owns the reused buffers.
#[derive(Clone)]
pub struct DocumentPrinter {
    /// The scheme of the prints.
    pub scheme: PrintScheme,
    tokenize: SchemeTokenizer,
    printer: Printer,
    tokens: Tokens,
}

impl DocumentPrinter {
    /// A printer for this scheme; sequences have no prints, nor do the tokens of several tokenizers.
    pub fn new(scheme: PrintScheme) -> Result<Self> {
        if scheme.tokens.is_dna() {
            let what = "of sequences there are no prints: all have the same few tokens; use blots, such as ordered";
            return Err(Error::Usage(what.to_owned()));
        }
        if scheme.tokens.is_of_several() {
            return Err(Error::Usage(format!(
                "a print is of the tokens of one tokenizer, not of '{}'; name one of them",
                scheme.tokens
            )));
        }
        let tokenize = SchemeTokenizer::new(&scheme.tokens);
        Ok(Self {
            scheme,
            tokenize,
            printer: Printer::default(),
            tokens: Tokens::default(),
        })
    }

    /// Makes the source refuse streams of another scheme.
    pub fn expect_in(&self, source: &mut Source) {
        let expected = [
            (StreamKind::Tokens, self.scheme.tokens.to_string()),
            (StreamKind::Prints, self.scheme.to_string()),
        ];
        source.expect(
            expected
                .map(|(kind, scheme)| Header::new(kind, scheme))
                .to_vec(),
        );
    }

    /// The print of a document, and the hash over its tokens.
    pub fn print(&mut self, item: &InputDocument<'_>) -> Result<(Printed, Option<u128>), String> {
        let tokens = match item.content {
            Content::Print(printed) => return Ok((printed, item.hash)),
            Content::Tokens(tokens) => {
                self.scheme.tokens.ensure_lists(tokens)?;
                tokens
            }
            Content::Text(text) => {
                self.tokenize.tokenize(text, &mut self.tokens)?;
                &self.tokens
            }
            Content::Blots(_) => {
                return Err("blots, where documents, tokens or prints are expected".to_owned());
            }
        };
        let printed = Printed {
            print: self.printer.print(tokens),
            tokens: tokens.len() as u64,
        };
        Ok((printed, item.hash.or_else(|| Some(tokens.hash()))))
    }

    /// Releases large buffers.
    pub fn release_buffers(&mut self) {
        self.tokens.clear();
        self.tokenize.release_buffers();
        self.printer.release_buffers();
    }
}
