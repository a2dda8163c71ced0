//! The documents of a blot, and its text there.

use crate::base::num::ToU64;
use crate::{
    base::{
        error::{Error, Result},
        ids::{Blot, DocNo},
    },
    commands::{
        BlotOptions, Observer, QueryOutcome,
        blot::DocumentBlotter,
        indexed_texts::{IndexedTexts, UnreadableText},
    },
    index::{ChunkTexts, Index, View},
    report::{
        Ndjson, Sink,
        records::{BlotText, hex_blot},
    },
    text::corpus,
};
use serde::Serialize;
use std::{io::Write, path::PathBuf};

/// Writes every document of a blot with its text, as far as its file can be read or the index has it. A text that was changed since it was indexed is a problem.
///
/// `corpus` and `reading` say where texts are, as for passages.
pub fn blot_text(
    index: &Index,
    options: &BlotOptions,
    blot: Blot,
    (corpus, reading): (&[PathBuf], &corpus::Options),
    out: &mut impl Write,
    observer: &mut dyn Observer,
) -> Result<QueryOutcome> {
    let library = IndexedTexts::new(index, corpus, reading);
    let mut blots = DocumentBlotter::for_comparison(options, index)?;
    let kept = kept_text(index, blot)?;
    let documents = index.ids_with(blot)?;
    let hex = hex_blot(blot, index.scheme.bits);
    let mut found = QueryOutcome {
        matches: documents.len().to_u64(),
        problems: 0,
        ..QueryOutcome::default()
    };
    for id in &documents {
        let mut record = BlotText {
            blot: &hex,
            bytes: None,
            doc: id,
            text: kept.clone(),
        };
        // A document of a stream, or one that is elsewhere now, has no text to show, unless the index has it.
        let read = library.read(id);
        if let Err(UnreadableText::Changed(problem)) = &read {
            found.problems += 1;
            observer.problem(problem);
        }
        if let Some((span, text)) = read.ok().and_then(|text| blots.text_of(&text, blot)) {
            record.bytes = Some([span.start, span.end]);
            record.text = Some(text);
        }
        write_record(&record, out)?;
    }
    Ok(found)
}

/// The text of a blot, if the index keeps tokens.
fn kept_text(index: &Index, blot: Blot) -> Result<Option<String>> {
    let mut found = Vec::new();
    index.find(blot, &mut found)?;
    let [at, ..] = found[..] else {
        return Ok(None);
    };
    if index.manifest.state.is_empty() && index.manifest.texts.is_none() {
        return Ok(None);
    }
    // Such an index has one segment, where documents stand by number.
    let view = View::of(index)?;
    let content = view.content_of(DocNo::new(at.place));
    let texts = ChunkTexts::of(index, &view, content)?;
    Ok(texts.and_then(|texts| texts.text(blot)))
}

/// Writes a record as a line of JSON.
pub(super) fn write_record(record: &impl Serialize, out: &mut impl Write) -> Result<()> {
    let mut line = Vec::new();
    Ndjson.put_record(record, &mut line)?;
    out.write_all(&line).map_err(Error::output)
}
