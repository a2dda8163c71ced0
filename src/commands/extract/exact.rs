//! Groups of documents with the same tokens.

use super::put;
use crate::{
    base::{error::Result, ids::ContentNo},
    index::View,
    report::{
        DocumentIds, Format, Sink,
        records::{ExactGroup, ExactRow},
    },
};
use std::io::Write;

/// Writes every group, in the order of their first documents: as one record, or in tables as a row
/// for each document.
pub fn write_exact(view: &View<'_>, format: Format, out: &mut impl Write) -> Result<()> {
    let ids = DocumentIds::read(view)?;
    let mut lines = Vec::new();
    format.put_head(&ExactRow::default(), &mut lines)?;
    put(out, &lines)?;
    let mut group = 0;
    for (content, about) in ContentNo::first(view.contents().len()).zip(view.contents()) {
        let documents = view.documents_of(content);
        if documents.len() < 2 {
            continue;
        }
        group += 1;
        lines.clear();
        let docs: Vec<&str> = documents
            .iter()
            .map(|&document| ids.get(document))
            .collect();
        if format.is_table() {
            docs.iter()
                .try_for_each(|doc| format.put_record(&ExactRow { group, doc }, &mut lines))?;
        } else {
            let record = ExactGroup {
                group,
                size: docs.len(),
                tokens: about.tokens,
                docs,
            };
            format.put_record(&record, &mut lines)?;
        }
        put(out, &lines)?;
    }
    Ok(())
}
