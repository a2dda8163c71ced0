//! Documents to tokens.

use crate::base::num::ToU64;
use crate::base::setting::Setting;
use crate::{
    base::error::{Error, Place, Result},
    commands::{DocumentStage, Observer, Settings, Summary, run_to_stream},
    text::{
        corpus::{Content, InputDocument, Source},
        scheme::TokenScheme,
        stream::{Batch, Form, Header, LargeContent, Record, StreamKind, TokenCodec, Tokens},
        token::{Rule, SchemeTokenizer, Tokenizer},
    },
};
use std::io::Write;

/// How texts become tokens.
#[derive(Debug, Clone)]
pub struct TokenizeOptions {
    /// `None`: as in the input stream, or words.
    pub tokenizer: Option<Tokenizer>,
    /// Also write the byte span of each token.
    pub with_spans: bool,
}

/// Writes a token record for each document. Token streams pass through, which turns one form into the other.
pub fn tokenize(
    options: &TokenizeOptions,
    settings: &Settings,
    out: impl Write,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    let mut source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
    let scheme = token_scheme(options.tokenizer.as_ref(), source.first_header())?;
    let header = Header::new(StreamKind::Tokens, scheme.to_string());
    source.expect(vec![header.clone()]);
    let stage = TokenEncoder {
        tokens: Tokens::new(options.with_spans),
        codec: TokenCodec {
            with_spans: options.with_spans,
        },
        form: settings.form,
        most_bytes: settings.limits.memory_bytes,
        tokenize: SchemeTokenizer::new(&scheme),
        scheme,
    };
    run_to_stream(&stage, source, &header, settings, out, observer)
}

/// The scheme that was asked for, else that of the stream, else words.
pub(super) fn token_scheme(
    asked: Option<&Tokenizer>,
    stream: Option<&(Header, Place)>,
) -> Result<TokenScheme> {
    match (
        asked,
        stream.filter(|(header, _)| header.kind == StreamKind::Tokens),
    ) {
        (Some(tokenizer), _) => Ok(tokenizer.scheme()),
        (None, None) => Ok(Tokenizer::new(Rule::default(), false).scheme()),
        (None, Some((header, place))) => header
            .scheme
            .parse()
            .map_err(|what: String| Error::damaged(place.clone(), what)),
    }
}

#[derive(Clone)]
struct TokenEncoder {
    scheme: TokenScheme,
    tokenize: SchemeTokenizer,
    tokens: Tokens,
    codec: TokenCodec,
    form: Form,
    /// A larger document is processed alone, and encoded while it is written.
    most_bytes: u64,
}

impl DocumentStage for TokenEncoder {
    type Out = Batch;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut Batch) -> Result<(), String> {
        let tokens = match item.content {
            Content::Text(text) => {
                self.tokenize.tokenize(text, &mut self.tokens)?;
                &self.tokens
            }
            Content::Tokens(tokens)
                if self.codec.with_spans && tokens.spans().is_none() && !tokens.is_empty() =>
            {
                return Err(format!(
                    "its tokens came without spans; start from the documents, or leave out {}",
                    Setting::Spans
                ));
            }
            Content::Tokens(tokens) => {
                self.scheme.ensure_lists(tokens)?;
                tokens
            }
            Content::Blots(_) => {
                return Err("blots, where documents or tokens are expected".to_owned());
            }
            Content::Print(_) => {
                return Err("a print, where documents or tokens are expected".to_owned());
            }
        };
        let record = Record {
            doc: item.id,
            bytes: item.bytes,
            hash: Some(item.hash.unwrap_or_else(|| tokens.hash())),
        };
        if matches!(item.content, Content::Text(text) if text.len().to_u64() > self.most_bytes) {
            let tokens = std::mem::replace(&mut self.tokens, Tokens::new(self.codec.with_spans));
            out.push_large(&record, LargeContent::Tokens(self.codec, tokens));
            return Ok(());
        }
        match self.form {
            Form::Ndjson => self.codec.write_ndjson(&mut out.bytes, &record, tokens),
            Form::Binary => self.codec.write_binary(&mut out.bytes, &record, tokens),
        }
        out.finish_record();
        Ok(())
    }

    fn finish(&mut self, _: &mut Batch) {
        self.tokens.clear();
        self.tokenize.release_buffers();
    }
}
