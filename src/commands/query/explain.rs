//! What is behind blots: documents and text.

use crate::base::ids::DocNo;
use crate::{
    base::error::{Error, Result},
    commands::{
        Asked, BlotOptions, Watch,
        blot::ToBlots,
        library::{Library, Unread},
    },
    index::{ChunkTexts, Index, View},
    report::{
        Ndjson, Sink,
        records::{BlotText, SharedBlot, hex_blot},
    },
    text::corpus,
};
use serde::Serialize;
use std::{io::Write, path::PathBuf};

/// Writes every document of a blot with the text behind it, as far as its file can be read or the index has it. A text that is not the one that was indexed is a problem.
///
/// `corpus` and `reading` say where texts are, as for passages.
pub fn blot_text(
    index: &Index,
    options: &BlotOptions,
    blot: u64,
    (corpus, reading): (&[PathBuf], &corpus::Options),
    out: &mut impl Write,
    watch: &mut dyn Watch,
) -> Result<Asked> {
    let library = Library::new(index, corpus, reading);
    let mut blots = ToBlots::for_comparison(options, index)?;
    let kept = ChunkTexts::of(&index.manifest, &index.directory)?;
    let kept = kept.map(|texts| texts.text(blot)).transpose()?.flatten();
    let documents = index.ids_with(blot)?;
    let hex = hex_blot(blot, index.scheme.bits);
    let mut found = Asked {
        matches: documents.len() as u64,
        problems: 0,
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
        if let Err(Unread::Changed(problem)) = &read {
            found.problems += 1;
            watch.problem(problem);
        }
        if let Some((span, text)) = read.ok().and_then(|text| blots.text_of(&text, blot)) {
            record.bytes = Some([span.start, span.end]);
            record.text = Some(text);
        }
        write_record(&record, out)?;
    }
    Ok(found)
}

/// Writes every blot that two documents share, with its text if the index has it; false if there is none.
pub fn between(index: &Index, ids: [&str; 2], out: &mut impl Write) -> Result<bool> {
    let (view, texts) = (
        View::of(index)?,
        ChunkTexts::of(&index.manifest, &index.directory)?,
    );
    let mut contents = [None; 2];
    for document in 0..view.documents() {
        let id = view.id(DocNo::from_index(document))?;
        for (content, _) in contents
            .iter_mut()
            .zip(ids)
            .filter(|(_, asked)| *asked == id)
        {
            *content = Some(view.content_of(DocNo::from_index(document)));
        }
    }
    let unknown =
        |id: &str| Error::Usage(format!("{}: no document '{id}'", index.directory.display()));
    let [one, two] = [
        contents[0].ok_or_else(|| unknown(ids[0]))?,
        contents[1].ok_or_else(|| unknown(ids[1]))?,
    ];
    let mut is_found = false;
    view.for_each_blot(|blot, contents| {
        if ![one, two]
            .iter()
            .all(|content| contents.binary_search(&content.get()).is_ok())
        {
            return Ok(());
        }
        is_found = true;
        let text = texts.as_ref().map(|texts| texts.text(blot)).transpose()?;
        let record = SharedBlot {
            blot: hex_blot(blot, index.scheme.bits),
            text: text.flatten(),
        };
        write_record(&record, out)
    })?;
    Ok(is_found)
}

fn write_record(record: &impl Serialize, out: &mut impl Write) -> Result<()> {
    let mut line = Vec::new();
    Ndjson.put_record(record, &mut line)?;
    out.write_all(&line).map_err(Error::output)
}
