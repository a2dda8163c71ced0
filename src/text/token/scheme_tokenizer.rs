//! The tokenizer that a scheme names, which this program may not have.

use super::Tokenizer;
use crate::text::{scheme::TokenScheme, stream::Tokens};

/// The tokenizer of a scheme, or why this program has none.
#[derive(Clone)]
pub struct SchemeTokenizer {
    tokenizer: Result<Tokenizer, String>,
}

impl SchemeTokenizer {
    /// The tokenizer of a scheme; it refuses every text if there is none.
    pub fn new(scheme: &TokenScheme) -> Self {
        let foreign = || {
            format!(
                "this program cannot make tokens of scheme '{scheme}'; use the one that made the stream"
            )
        };
        Self {
            tokenizer: scheme.tokenizer().ok_or_else(foreign),
        }
    }

    /// Releases large buffers.
    pub fn release_buffers(&mut self) {
        if let Ok(tokenizer) = &mut self.tokenizer {
            tokenizer.release_buffers();
        }
    }

    /// Refuses every text with this message.
    pub fn refusing(what: String) -> Self {
        Self {
            tokenizer: Err(what),
        }
    }

    /// Replaces `tokens` by the tokens of a text.
    pub fn tokenize(&mut self, text: &str, tokens: &mut Tokens) -> Result<(), String> {
        self.tokenizer
            .as_mut()
            .map_err(|what| what.clone())?
            .tokenize(text, tokens);
        if tokens.overflowed() {
            return Err("a document with more than 4 GiB of tokens; split it".to_owned());
        }
        Ok(())
    }
}
