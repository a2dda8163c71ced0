//! The text of a collection that is taken for boilerplate.

use super::put;
use crate::base::ids::{ContentNo, DocNo};
use crate::base::num::ToU64;
use crate::{
    base::{error::Result, parallel::Limits},
    index::{SetSource, View},
    report::{DocumentIds, Format, Sink, records::BoilerplateRecord},
    similar::Boilerplate,
};
use std::{cmp::Reverse, io::Write};

/// How many documents of a set are named.
const NAMED: usize = 5;

/// Writes a record for each set of documents whose text is boilerplate: most text first, which is
/// blots × documents.
pub fn write_boilerplate(
    view: &View<'_>,
    limits: Limits,
    format: Format,
    out: &mut impl Write,
) -> Result<()> {
    let sets = SetSource::of(view, limits, false)?;
    let boilerplate = Boilerplate::find(view, &sets, limits.threads)?;
    let ids = DocumentIds::read(view)?;
    let mut found = Vec::new();
    sets.for_each(|set, blots, contents| {
        if boilerplate.contains(set) {
            found.push((blots, documents(view, contents)));
        }
    })?;
    found.sort_by(|(blots, documents), (other_blots, others)| {
        let text = |blots: &u64, documents: &[DocNo]| Reverse(blots * documents.len().to_u64());
        text(blots, documents)
            .cmp(&text(other_blots, others))
            .then_with(|| documents.cmp(others))
    });
    let mut line = Vec::new();
    format.put_head(&BoilerplateRecord::default(), &mut line)?;
    put(out, &line)?;
    for (blots, documents) in found {
        let record = BoilerplateRecord {
            df: documents.len().to_u64(),
            blots,
            docs: documents
                .iter()
                .take(NAMED)
                .map(|&document| ids.get(document))
                .collect(),
        };
        line.clear();
        format.put_record(&record, &mut line)?;
        put(out, &line)?;
    }
    Ok(())
}

/// The documents of contents, sorted.
fn documents(view: &View<'_>, contents: &[u32]) -> Vec<DocNo> {
    let mut documents: Vec<_> = contents
        .iter()
        .flat_map(|&content| view.documents_of(ContentNo::new(content)))
        .copied()
        .collect();
    documents.sort_unstable();
    documents
}
