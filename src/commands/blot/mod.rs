//! Writes the blots of documents: dedup-blot.

mod document_blotter;
mod options;
pub mod prints;
mod scheme_blotter;

use crate::base::num::ToU64;
use crate::base::setting::Setting;
pub(crate) use document_blotter::{DocumentBlotter, DocumentParts, DocumentWindows, shown_text};
pub(crate) use options::DEFAULT_BITS;
pub(crate) use options::open;
use options::open_source;
pub use options::{BlotOptions, default_window, scheme_of};

use crate::{
    base::error::Result,
    commands::{DocumentStage, Observer, Settings, Summary, run_to_stream},
    text::{
        corpus::{Content, InputDocument, Source},
        stream::{Batch, BlotCodec, Form, Header, LargeContent, Record, StreamKind},
    },
};
use std::io::Write;

/// Writes a blot record for each document. Blot streams pass through, which turns one form into the other.
pub fn blot(
    options: &BlotOptions,
    with_positions: bool,
    settings: &Settings,
    out: impl Write,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    let mut source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
    let first = source.first_header().cloned();
    if prints::is_asked(options, first.as_ref()) {
        options.ensure_only_tokens(with_positions)?;
        return prints::print(
            options.tokenizer.as_ref(),
            source,
            first.as_ref(),
            settings,
            out,
            observer,
        );
    }
    let (source, blots) = open_source(options, source)?;
    let header = Header::new(StreamKind::Blots, blots.scheme.to_string());
    let codec = BlotCodec {
        bits: blots.scheme.bits,
        with_positions,
    };
    let stage = BlotEncoder {
        blots: blots.only_blots(),
        codec,
        form: settings.form,
        most_bytes: settings.limits.memory_bytes,
    };
    run_to_stream(&stage, source, &header, settings, out, observer)
}

#[derive(Clone)]
struct BlotEncoder {
    blots: DocumentBlotter,
    codec: BlotCodec,
    form: Form,
    /// A larger document is processed alone, and encoded while it is written.
    most_bytes: u64,
}

impl DocumentStage for BlotEncoder {
    type Out = Batch;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut Batch) -> Result<(), String> {
        let (blots, hash) = self.blots.blots(item)?;
        if self.codec.with_positions && !blots.has_positions() {
            return Err(format!(
                "its blots came without positions; start from the documents, or leave out {}",
                Setting::Positions
            ));
        }
        let record = Record {
            doc: item.id,
            bytes: item.bytes,
            hash,
        };
        if matches!(item.content, Content::Text(text) if text.len().to_u64() > self.most_bytes) {
            out.push_large(
                &record,
                LargeContent::Blots(self.codec, self.blots.take_blots()),
            );
            return Ok(());
        }
        match self.form {
            Form::Ndjson => self.codec.write_ndjson(&mut out.bytes, &record, blots),
            Form::Binary => self.codec.write_binary(&mut out.bytes, &record, blots),
        }
        out.finish_record();
        Ok(())
    }

    fn finish(&mut self, _: &mut Batch) {
        self.blots.release_buffers();
    }
}
