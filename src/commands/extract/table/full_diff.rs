//! The changes of the table since an earlier commit, found by making both tables.
//!
//! The tables are compared row by row; a row is identified by its two ids. The rows of a document
//! can change only if the document was changed, or shares a blot with one that was, before or
//! after. If blots are left out this is not so, because all documents are measured without them:
//! then all rows are compared. Where nothing is left out, [`super::incremental_diff`] gives the
//! same in less time.

use super::{
    super::{Progress, RowFormat, put, rows::PairNumbers},
    changes::{ChangeEncoder, RankedRow},
};
use crate::base::num::ToU64;
use crate::{
    base::{error::Result, ids::DocNo},
    index::{RowLocation, View},
    similar::{Discovery, Neighbour},
};
use std::{
    collections::{HashMap, HashSet},
    io::Write,
    sync::Arc,
};

/// Both tables.
pub struct TablePair<'v> {
    /// Finds the rows of the old table.
    pub old: &'v Discovery<'v>,
    /// Finds the rows of the new table.
    pub new: &'v Discovery<'v>,
    /// The largest number of rows of a document.
    pub top: usize,
    /// Compare the rows of all documents.
    pub compares_all: bool,
}

/// Writes the rows to delete, to update and to insert: first those of documents that were removed,
/// then those of each document in order.
pub fn write_changes(
    tables: &TablePair<'_>,
    rows: RowFormat,
    out: &mut impl Write,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let (old_documents, new_documents) = tables.affected()?;
    let mut before: HashMap<String, Vec<RankedRow<String>>> = HashMap::new();
    let mut order = Vec::new();
    rows_of(tables.old, &old_documents, tables.top, |document, rows| {
        let id = tables.old.view.id(document)?;
        order.push(id.clone());
        before.insert(id, rows);
        Ok(())
    })?;
    let encoder = ChangeEncoder {
        rows,
        measure: &tables.new.options.measure,
    };
    put(out, &encoder.head()?)?;
    let mut new_ids = HashSet::new();
    for &document in &new_documents {
        new_ids.insert(tables.new.view.id(document)?);
    }
    for id in order.iter().filter(|id| !new_ids.contains(*id)) {
        let removed = before.remove(id).unwrap_or_default();
        put(
            out,
            &encoder.changes(id, [&removed, &[]], |b| Ok(b.clone()))?,
        )?;
    }
    let mut compared = 0;
    rows_of(tables.new, &new_documents, tables.top, |document, rows| {
        compared += 1;
        progress(compared, new_documents.len().to_u64());
        let id = tables.new.view.id(document)?;
        put(
            out,
            &encoder.changes(&id, [&before.remove(&id).unwrap_or_default(), &rows], |b| {
                Ok(b.clone())
            })?,
        )
    })
}

impl TablePair<'_> {
    /// The documents whose rows must be compared, before and after.
    fn affected(&self) -> Result<(Vec<DocNo>, Vec<DocNo>)> {
        let [old, new] = [self.old.view, self.new.view].map(places);
        let all = |view: &View<'_>| DocNo::first(view.documents()).collect();
        if self.compares_all {
            return Ok((all(self.old.view), all(self.new.view)));
        }
        let is_affected =
            |discovery: &Discovery<'_>, other: &HashMap<RowLocation, DocNo>| -> Result<Vec<bool>> {
                let view = discovery.view;
                let mut is_changed = vec![false; view.contents().len()];
                for document in DocNo::first(view.documents()) {
                    is_changed[view.content_of(document).index()] |=
                        !other.contains_key(&view.at(document));
                }
                let is_affected = discovery.sharing_with(&is_changed)?;
                Ok(DocNo::first(view.documents())
                    .map(|document| is_affected[view.content_of(document).index()])
                    .collect())
            };
        let (in_old, in_new) = (is_affected(self.old, &new)?, is_affected(self.new, &old)?);
        // Documents that are affected in one table are compared in both.
        let both = |view: &View<'_>,
                    own: &[bool],
                    other: &HashMap<RowLocation, DocNo>,
                    others: &[bool]|
         -> Vec<DocNo> {
            let is_other = |document: DocNo| {
                other
                    .get(&view.at(document))
                    .is_some_and(|there| others[there.index()])
            };
            DocNo::first(view.documents())
                .filter(|&document| own[document.index()] || is_other(document))
                .collect()
        };
        Ok((
            both(self.old.view, &in_old, &new, &in_new),
            both(self.new.view, &in_new, &old, &in_old),
        ))
    }
}

/// Where each document stands: the same in both tables, unless it was changed.
fn places(view: &View<'_>) -> HashMap<RowLocation, DocNo> {
    DocNo::first(view.documents())
        .map(|document| (view.at(document), document))
        .collect()
}

/// Calls `sink` with the rows of each of these documents, in order.
fn rows_of(
    discovery: &Discovery<'_>,
    documents: &[DocNo],
    count: usize,
    mut sink: impl FnMut(DocNo, Vec<RankedRow<String>>) -> Result<()>,
) -> Result<()> {
    type RowsOfDocuments = Vec<(DocNo, Result<Vec<RankedRow<String>>>)>;
    let work = |document: DocNo, neighbours: &Arc<[Neighbour]>, made: &mut RowsOfDocuments| {
        let rows = discovery
            .table_rows(document, neighbours, count)
            .into_iter()
            .map(|(other, neighbour)| {
                let numbers =
                    PairNumbers::new(discovery, discovery.view.content_of(document), neighbour);
                Ok(RankedRow {
                    b: discovery.view.id(other)?,
                    numbers,
                })
            });
        made.push((document, rows.collect()));
    };
    let weigh = |made: &RowsOfDocuments| {
        made.iter()
            .map(|(_, rows)| rows.as_ref().map_or(0, |rows| 120 * rows.len().to_u64()))
            .sum()
    };
    discovery.for_each_listed(documents, &discovery.orders(count), work, weigh, |made| {
        made.into_iter()
            .try_for_each(|(document, rows)| sink(document, rows?))
    })
}
