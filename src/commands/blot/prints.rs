//! Documents or tokens to prints.

use crate::{
    base::error::{Error, Place, Result},
    blot::{DocumentPrinter, minhash},
    commands::{
        BlotOptions, DocumentStage, Observer, Settings, Summary, run_to_stream,
        tokenize::token_scheme,
    },
    text::{
        corpus::{InputDocument, Source},
        scheme::PrintScheme,
        stream::{Batch, Form, Header, PrintCodec, Record, StreamKind},
        token::Tokenizer,
    },
};
use std::io::Write;

/// Whether prints are wanted: by name, or as the stream that comes in holds them.
pub(crate) fn is_asked(options: &BlotOptions, first: Option<&(Header, Place)>) -> bool {
    let is_stream = first.is_some_and(|(header, _)| header.kind == StreamKind::Prints);
    options.scheme.as_ref().map_or(is_stream, minhash::is_named)
}

/// Writes a print record for each document. Print streams pass through, which turns one form into the other.
pub(crate) fn print(
    asked: Option<&Tokenizer>,
    mut source: Source,
    first: Option<&(Header, Place)>,
    settings: &Settings,
    out: impl Write,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    let prints = DocumentPrinter::new(PrintScheme::of(asked, first)?)?;
    prints.expect_in(&mut source);
    let header = Header::new(StreamKind::Prints, prints.scheme.to_string());
    run_to_stream(
        &PrintEncoder {
            prints,
            form: settings.form,
        },
        source,
        &header,
        settings,
        out,
        observer,
    )
}

impl PrintScheme {
    /// What was asked for, else that of the stream, else words.
    pub(crate) fn of(asked: Option<&Tokenizer>, first: Option<&(Header, Place)>) -> Result<Self> {
        match (
            asked,
            first.filter(|(header, _)| header.kind == StreamKind::Prints),
        ) {
            (None, Some((header, place))) => header
                .scheme
                .parse()
                .map_err(|what: String| Error::damaged(place.clone(), what)),
            _ => Ok(Self {
                tokens: token_scheme(asked, first)?,
            }),
        }
    }
}

#[derive(Clone)]
struct PrintEncoder {
    prints: DocumentPrinter,
    form: Form,
}

impl DocumentStage for PrintEncoder {
    type Out = Batch;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut Batch) -> Result<(), String> {
        let (printed, hash) = self.prints.print(item)?;
        let record = Record {
            doc: item.id,
            bytes: item.bytes,
            hash,
        };
        match self.form {
            Form::Ndjson => PrintCodec.write_ndjson(&mut out.bytes, &record, &printed),
            Form::Binary => PrintCodec.write_binary(&mut out.bytes, &record, &printed),
        }
        out.finish_record();
        Ok(())
    }

    fn finish(&mut self, _: &mut Batch) {
        self.prints.release_buffers();
    }
}
