//! The blots that two documents share.

use super::blot::write_record;
use crate::{
    base::{
        error::{Error, Result},
        ids::DocNo,
    },
    index::{ChunkTexts, Index, View},
    report::records::{SharedBlot, hex_blot},
};
use std::io::Write;

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
