//! The changes of the table since an earlier commit, found from the documents that were added,
//! replaced or removed since.
//!
//! What two documents share, and which share of each that is, depends on these two only. So the
//! rows of an unchanged document can change only if one of its pairs, before or after, is with a
//! changed one. First the pairs of changed documents are found; then, once for both states, the
//! rows of all documents of these pairs. A row may go, make way for another, or move up, so all
//! rows of such a document are compared, and no other document is.

use super::{
    super::{Progress, RowFormat, put, rows::PairNumbers},
    changes::{ChangeEncoder, RankedRow},
};
use crate::{
    base::{error::Result, ids::DocNo, num::ToU64},
    index::IndexDiff,
    similar::{Discovery, LongSets, Neighbour, RecomputedPairs},
};
use std::{cmp::Reverse, collections::HashMap, io::Write, sync::Arc};

/// Finds the changes between two states of an index.
pub struct IncrementalDiff<'v> {
    /// Both states.
    pub both: &'v IndexDiff<'v>,
    /// Finds pairs of both states.
    pub discovery: &'v Discovery<'v>,
    /// The largest number of rows of a document.
    pub top: usize,
}

/// Rows that identify the other document by its number.
type NumberedRows = Vec<RankedRow<DocNo>>;

/// Rows of documents that were replaced, by the number of their replacement.
type ReplacedRows = HashMap<DocNo, NumberedRows>;

/// What the states need in common.
struct DiffContext<'d> {
    encoder: ChangeEncoder<'d>,
    /// By document: the number that identifies it in rows, see [`IncrementalDiff::identities`].
    identities: Vec<DocNo>,
    /// The order of contents in the old and in the new state.
    orders: [LongSets; 2],
}

impl IncrementalDiff<'_> {
    /// Writes the rows to delete, to update and to insert, as [`super::full_diff::write_changes`]
    /// does. `pairs`: those of changed contents, if they are known.
    pub fn write_changes(
        &self,
        pairs: Option<&RecomputedPairs>,
        rows: RowFormat,
        out: &mut impl Write,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let IndexDiff { is_old, is_new, .. } = self.both;
        let encoder = ChangeEncoder {
            rows,
            measure: &self.discovery.options.measure,
        };
        put(out, &encoder.head()?)?;
        let is_affected = self.discovery.affected(self.both.changed, pairs)?;
        let context = DiffContext {
            encoder,
            identities: self.identities()?,
            orders: [self.order(is_old), self.order(is_new)],
        };
        let replaced = self.write_removed(&context, out)?;
        let view = &self.both.view;
        let affected: Vec<DocNo> = DocNo::first(view.documents())
            .filter(|&document| is_new[document.index()])
            .filter(|&document| is_affected[view.content_of(document).index()])
            .collect();
        self.write_affected(&context, &affected, &replaced, out, progress)
    }

    /// Writes the changes of documents that were removed, and returns the rows of those that were
    /// replaced.
    fn write_removed(
        &self,
        context: &DiffContext<'_>,
        out: &mut impl Write,
    ) -> Result<ReplacedRows> {
        let IndexDiff {
            view,
            is_old,
            is_new,
            ..
        } = self.both;
        let identities = &context.identities;
        let old_documents: Vec<DocNo> = DocNo::first(view.documents())
            .filter(|document| !is_new[document.index()])
            .collect();
        type DocumentRows = Vec<(DocNo, NumberedRows)>;
        let work = |document: DocNo, neighbours: &Arc<[Neighbour]>, made: &mut DocumentRows| {
            made.push((
                document,
                self.rows(document, neighbours, is_old, identities),
            ));
        };
        let weigh =
            |made: &DocumentRows| made.iter().map(|(_, rows)| 40 * rows.len().to_u64()).sum();
        let mut replaced = ReplacedRows::new();
        let sink = |made: DocumentRows| {
            for (document, rows) in made {
                if identities[document.index()] != document {
                    replaced.insert(identities[document.index()], rows);
                    continue;
                }
                let changes = context
                    .encoder
                    .changes(&view.id(document)?, [&rows, &[]], |&b| view.id(b))?;
                put(out, &changes)?;
            }
            Ok(())
        };
        self.discovery
            .for_each_listed(&old_documents, &context.orders, work, weigh, sink)?;
        Ok(replaced)
    }

    fn write_affected(
        &self,
        context: &DiffContext<'_>,
        affected: &[DocNo],
        replaced: &ReplacedRows,
        out: &mut impl Write,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let work = |document: DocNo, neighbours: &Arc<[Neighbour]>, made: &mut EncodedChanges| {
            made.documents += 1;
            made.append(self.changes_of(context, document, neighbours, replaced));
        };
        let mut compared = 0;
        self.discovery.for_each_listed(
            affected,
            &context.orders,
            work,
            EncodedChanges::weight,
            |made| {
                compared += made.documents;
                progress(compared, affected.len().to_u64());
                put(out, &made.bytes?)
            },
        )
    }

    fn changes_of(
        &self,
        context: &DiffContext<'_>,
        document: DocNo,
        neighbours: &[Neighbour],
        replaced: &ReplacedRows,
    ) -> Result<Vec<u8>> {
        let IndexDiff {
            view,
            is_old,
            is_new,
            ..
        } = self.both;
        let rows_in = |is_there| self.rows(document, neighbours, is_there, &context.identities);
        let unchanged = is_old[document.index()].then(|| rows_in(is_old));
        let before = unchanged
            .as_deref()
            .or_else(|| replaced.get(&document).map(Vec::as_slice))
            .unwrap_or_default();
        let after = rows_in(is_new);
        let id = view.id(document)?;
        context
            .encoder
            .changes(&id, [before, &after], |&b| view.id(b))
    }

    /// The contents of one state, in the order of the first document that they have in it.
    fn order(&self, is_there: &[bool]) -> LongSets {
        let view = &self.both.view;
        let mut is_listed = vec![false; view.contents().len()];
        let mut order = Vec::new();
        for document in DocNo::first(view.documents()).filter(|document| is_there[document.index()])
        {
            let content = view.content_of(document);
            if !std::mem::replace(&mut is_listed[content.index()], true) {
                order.push(content);
            }
        }
        self.discovery.order(self.top, order)
    }

    /// By document: the number that identifies it in rows. That of a document which was replaced is
    /// the number of its replacement.
    fn identities(&self) -> Result<Vec<DocNo>> {
        let IndexDiff {
            view,
            is_old,
            is_new,
            ..
        } = self.both;
        let mut identities: Vec<DocNo> = DocNo::first(view.documents()).collect();
        let mut added = HashMap::new();
        for document in DocNo::first(view.documents()).filter(|document| !is_old[document.index()])
        {
            added.insert(view.id(document)?, document);
        }
        for document in DocNo::first(view.documents()).filter(|document| !is_new[document.index()])
        {
            if let Some(&replacement) = added.get(&view.id(document)?) {
                identities[document.index()] = replacement;
            }
        }
        Ok(identities)
    }

    /// The rows of a document in one state: those that share most first, then in the order of
    /// documents.
    fn rows(
        &self,
        document: DocNo,
        neighbours: &[Neighbour],
        is_there: &[bool],
        identities: &[DocNo],
    ) -> NumberedRows {
        let view = &self.both.view;
        let content = view.content_of(document);
        let mut found: Vec<(Reverse<u32>, DocNo, &Neighbour)> = Vec::new();
        for neighbour in neighbours {
            let others = view
                .documents_of(neighbour.content)
                .iter()
                .filter(|other| is_there[other.index()] && **other != document);
            // The first of a content's documents come before its others.
            found.extend(
                others
                    .take(self.top)
                    .map(|&other| (Reverse(neighbour.shared), other, neighbour)),
            );
        }
        if found.len() > self.top {
            found.select_nth_unstable_by_key(self.top, |&(shared, other, _)| (shared, other));
            found.truncate(self.top);
        }
        found.sort_unstable_by_key(|&(shared, other, _)| (shared, other));
        let row = |(_, other, neighbour): (_, DocNo, &Neighbour)| RankedRow {
            b: identities[other.index()],
            numbers: PairNumbers::new(self.discovery, content, neighbour),
        };
        found.into_iter().map(row).collect()
    }
}

/// The changes of a few documents.
struct EncodedChanges {
    documents: u64,
    bytes: Result<Vec<u8>>,
}

impl EncodedChanges {
    /// Keeps the first error.
    fn append(&mut self, changes: Result<Vec<u8>>) {
        match (changes, &mut self.bytes) {
            (Ok(more), Ok(bytes)) => bytes.extend_from_slice(&more),
            (Err(error), bytes @ Ok(_)) => *bytes = Err(error),
            (_, Err(_)) => {}
        }
    }

    fn weight(&self) -> u64 {
        let capacity = |bytes: &Vec<u8>| bytes.capacity().to_u64();
        self.bytes.as_ref().map_or(0, capacity)
    }
}

impl Default for EncodedChanges {
    fn default() -> Self {
        Self {
            documents: 0,
            bytes: Ok(Vec::new()),
        }
    }
}
