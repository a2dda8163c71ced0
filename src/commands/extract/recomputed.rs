//! What changed in the table since an earlier commit, from the documents that were recomputed since: those that were added, replaced or removed.
//!
//! What two documents share, and what part of each that is, depends on these two only. So the rows of a document that was left as it is can change only if one of its pairs, before or
//! after, is with a recomputed one. First the pairs of recomputed documents are found; then, once for both states, the rows of all documents of these
//! pairs: a row may go, or make way for another, or move up where one went, so all rows of such a document are looked at, and no other document is.

use super::{
    Done, RowFormat,
    pairs::Numbers,
    put,
    since::{ChangeFormat, Row},
};
use crate::base::ids::{ContentNo, DocNo};
use crate::{
    base::error::Result,
    index::Both,
    similar::{Discovery, LongSets, Neighbour, RecomputedPairs},
};
use std::{cmp::Reverse, collections::HashMap, io::Write, sync::Arc};

/// Both states, and what is alike in either.
pub struct Recomputed<'v> {
    pub both: &'v Both<'v>,
    /// Of the view of both.
    pub discovery: &'v Discovery<'v>,
    pub top: usize,
}

/// Rows, the other document by its number.
type Rows = Vec<Row<u32>>;

/// What became of a few documents: their rows, or what to do to them.
type MadeRows = Vec<(usize, Rows)>;

impl Recomputed<'_> {
    /// Writes the rows to delete, to update and to insert, as [`super::since::write_changes`] does. `pairs`: those of recomputed contents, if they are known.
    pub fn write_changes(
        &self,
        pairs: Option<&RecomputedPairs>,
        rows: RowFormat,
        out: &mut impl Write,
        done: &mut Done<'_>,
    ) -> Result<()> {
        let format = ChangeFormat {
            rows,
            measure: &self.discovery.options.measure,
        };
        put(out, &format.names())?;
        let is_affected = self.discovery.affected(self.both.changed, pairs)?;
        let (view, Both { is_old, is_new, .. }) = (&self.both.view, self.both);
        let all = 0..view.documents();
        let names = self.names()?;
        let orders = [self.order(is_old), self.order(is_new)];
        // Those of documents that were replaced, by what they were replaced by.
        let mut before: HashMap<u32, Rows> = HashMap::new();
        let went: Vec<usize> = all.clone().filter(|&document| !is_new[document]).collect();
        let old_rows = |document: usize, neighbours: &Arc<[Neighbour]>, made: &mut MadeRows| {
            made.push((document, self.rows(document, neighbours, is_old, &names)));
        };
        let weigh = |made: &MadeRows| made.iter().map(|(_, rows)| 40 * rows.len() as u64).sum();
        self.discovery
            .for_each_listed(&went, &orders, old_rows, weigh, |made| {
                for (document, rows) in made {
                    if names[document] == document as u32 {
                        put(
                            out,
                            &format.changes(
                                &view.id(DocNo::from_index(document))?,
                                [&rows, &[]],
                                |&b| view.id(DocNo::new(b)),
                            )?,
                        )?;
                    } else {
                        before.insert(names[document], rows);
                    }
                }
                Ok(())
            })?;
        let listed: Vec<usize> = all
            .filter(|&document| {
                is_new[document]
                    && is_affected[view.content_of(DocNo::from_index(document)).index()]
            })
            .collect();
        let work = |document: usize, neighbours: &Arc<[Neighbour]>, made: &mut Made| {
            made.documents += 1;
            let was = is_old[document].then(|| self.rows(document, neighbours, is_old, &names));
            let was = was
                .as_deref()
                .or_else(|| before.get(&(document as u32)).map(Vec::as_slice))
                .unwrap_or_default();
            let is = self.rows(document, neighbours, is_new, &names);
            let changed = view
                .id(DocNo::from_index(document))
                .and_then(|id| format.changes(&id, [was, &is], |&b| view.id(DocNo::new(b))));
            match (changed, &mut made.bytes) {
                (Ok(more), Ok(bytes)) => bytes.extend_from_slice(&more),
                (Err(error), bytes @ Ok(_)) => *bytes = Err(error),
                (_, Err(_)) => {}
            }
        };
        let weigh = |made: &Made| {
            made.bytes
                .as_ref()
                .map_or(0, |bytes| bytes.capacity() as u64)
        };
        let mut compared = 0;
        self.discovery
            .for_each_listed(&listed, &orders, work, weigh, |made| {
                compared += made.documents;
                done(compared, listed.len() as u64);
                put(out, &made.bytes?)
            })
    }

    /// The contents that a state has, in the order of the first document that they have in it.
    fn order(&self, is_there: &[bool]) -> LongSets {
        let view = &self.both.view;
        let (mut is_listed, mut order) = (vec![false; view.contents().len()], Vec::new());
        for document in (0..view.documents()).filter(|&document| is_there[document]) {
            let content = view.content_of(DocNo::from_index(document));
            if !std::mem::replace(&mut is_listed[content.index()], true) {
                order.push(content.get());
            }
        }
        self.discovery.order(self.top, order)
    }

    /// By document: what it is known by in rows. One that was replaced is known by what it was replaced by.
    fn names(&self) -> Result<Vec<u32>> {
        let Both {
            view,
            is_old,
            is_new,
            ..
        } = self.both;
        let mut names: Vec<u32> = (0..view.documents() as u32).collect();
        let mut came = HashMap::new();
        for document in (0..view.documents()).filter(|&document| !is_old[document]) {
            came.insert(view.id(DocNo::from_index(document))?, document as u32);
        }
        for document in (0..view.documents()).filter(|&document| !is_new[document]) {
            if let Some(&now) = came.get(&view.id(DocNo::from_index(document))?) {
                names[document] = now;
            }
        }
        Ok(names)
    }

    /// The rows of a document in one state: those with most shared first, then in the order of documents.
    fn rows(
        &self,
        document: usize,
        neighbours: &[Neighbour],
        is_there: &[bool],
        names: &[u32],
    ) -> Rows {
        let (view, count) = (&self.both.view, self.top);
        let content = view.content_of(DocNo::from_index(document));
        let mut found: Vec<(Reverse<u32>, u32, &Neighbour)> = Vec::new();
        for neighbour in neighbours {
            let others = view
                .documents_of(ContentNo::new(neighbour.content))
                .iter()
                .filter(|&&other| is_there[other.index()] && other.index() != document);
            // The first of a content's documents come before its others.
            found.extend(
                others
                    .take(count)
                    .map(|other| (Reverse(neighbour.shared), other.get(), neighbour)),
            );
        }
        if found.len() > count {
            found.select_nth_unstable_by_key(count, |&(shared, other, _)| (shared, other));
            found.truncate(count);
        }
        found.sort_unstable_by_key(|&(shared, other, _)| (shared, other));
        let row = |(_, other, neighbour): (_, u32, &Neighbour)| Row {
            b: names[other as usize],
            numbers: Numbers::of(self.discovery, content.get(), neighbour),
        };
        found.into_iter().map(row).collect()
    }
}

/// What to do to the rows of a few documents.
struct Made {
    documents: u64,
    bytes: Result<Vec<u8>>,
}

impl Default for Made {
    fn default() -> Self {
        Self {
            documents: 0,
            bytes: Ok(Vec::new()),
        }
    }
}
