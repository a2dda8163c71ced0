//! Documents or tokens to prints.

use super::{
    BlotOptions, Settings, Stage, Summary, Watch, run_to_stream,
    tokenize::{ToTokens, token_scheme},
};
use crate::{
    blot::minhash::{self, Printer},
    corpus::{Content, Item, Source},
    error::{Error, Place, Result},
    format::{Batch, Form, Header, Kind, PrintCodec, Printed, Record, Tokens},
    scheme::PrintScheme,
    token::Tokenizer,
};
use std::io::Write;

/// Whether prints are wanted: by name, or as the stream that comes in holds them.
pub(super) fn is_asked(options: &BlotOptions, first: Option<&(Header, Place)>) -> bool {
    let is_stream = first.is_some_and(|(header, _)| header.kind == Kind::Prints);
    options.scheme.as_deref().map_or(is_stream, minhash::is_named)
}

/// Writes a print record for each document. Print streams pass through, which turns one form into the other.
pub(super) fn print(
    asked: Option<&Tokenizer>,
    mut source: Source,
    first: Option<&(Header, Place)>,
    settings: &Settings,
    out: impl Write,
    watch: &mut dyn Watch,
) -> Result<Summary> {
    let prints = ToPrints::new(PrintScheme::of(asked, first)?)?;
    prints.expect_in(&mut source);
    let header = Header::new(Kind::Prints, prints.scheme.to_string());
    run_to_stream(&Encode { prints, form: settings.form }, source, &header, settings, out, watch)
}

impl PrintScheme {
    /// What was asked for, else that of the stream, else words.
    pub(super) fn of(asked: Option<&Tokenizer>, first: Option<&(Header, Place)>) -> Result<Self> {
        match (asked, first.filter(|(header, _)| header.kind == Kind::Prints)) {
            (None, Some((header, place))) => header.scheme.parse().map_err(|what: String| Error::damaged(place.clone(), what)),
            _ => Ok(Self { tokens: token_scheme(asked, first)? }),
        }
    }
}

/// Makes prints of whatever a document comes as.
#[derive(Clone)]
pub(crate) struct ToPrints {
    pub scheme: PrintScheme,
    tokenize: ToTokens,
    printer: Printer,
    tokens: Tokens,
}

impl ToPrints {
    pub fn new(scheme: PrintScheme) -> Result<Self> {
        if Tokenizer::is_dna(&scheme.tokens) {
            let what = "of sequences there are no prints: all have the same few tokens; use blots, such as --scheme ordered";
            return Err(Error::Usage(what.to_owned()));
        }
        let tokenize = ToTokens::new(&scheme.tokens);
        Ok(Self { scheme, tokenize, printer: Printer::default(), tokens: Tokens::default() })
    }

    /// Streams of another scheme will be refused.
    pub fn expect_in(&self, source: &mut Source) {
        let expected = [(Kind::Tokens, self.scheme.tokens.to_string()), (Kind::Prints, self.scheme.to_string())];
        source.expect(expected.map(|(kind, scheme)| Header::new(kind, scheme)).to_vec());
    }

    /// The print of a document, and the hash over its tokens.
    pub fn print(&mut self, item: &Item<'_>) -> Result<(Printed, Option<u128>), String> {
        let tokens = match item.content {
            Content::Print(printed) => return Ok((printed, item.hash)),
            Content::Tokens(tokens) => tokens,
            Content::Text(text) => {
                self.tokenize.tokenize(text, &mut self.tokens)?;
                &self.tokens
            }
            Content::Blots(_) => return Err("blots, where documents, tokens or prints are expected".to_owned()),
        };
        let printed = Printed { print: self.printer.print(tokens), tokens: tokens.len() as u64 };
        Ok((printed, item.hash.or_else(|| Some(tokens.hash()))))
    }

    /// Gives back large buffers.
    pub fn give_back(&mut self) {
        self.tokens.clear();
        self.tokenize.give_back();
        self.printer.give_back();
    }
}

#[derive(Clone)]
struct Encode {
    prints: ToPrints,
    form: Form,
}

impl Stage for Encode {
    type Out = Batch;

    fn take(&mut self, item: &Item<'_>, out: &mut Batch) -> Result<(), String> {
        let (printed, hash) = self.prints.print(item)?;
        let record = Record { doc: item.id, bytes: item.bytes, hash };
        match self.form {
            Form::Ndjson => PrintCodec.write_ndjson(&mut out.bytes, &record, &printed),
            Form::Binary => PrintCodec.write_binary(&mut out.bytes, &record, &printed),
        }
        out.finish_record();
        Ok(())
    }

    fn finish(&mut self, _: &mut Batch) {
        self.prints.give_back();
    }
}
