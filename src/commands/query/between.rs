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
    let view = View::of(index)?;
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
    let texts = ChunkTexts::of(index, &view, one)?;
    let mut is_found = false;
    view.for_each_blot(|blot, contents| {
        if ![one, two]
            .iter()
            .all(|content| contents.binary_search(&content.get()).is_ok())
        {
            return Ok(());
        }
        is_found = true;
        let record = SharedBlot {
            blot: hex_blot(blot, index.scheme.bits),
            text: texts.as_ref().and_then(|texts| texts.text(blot)),
        };
        write_record(&record, out)
    })?;
    Ok(is_found)
}
