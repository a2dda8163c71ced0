//! What changed in the table since an earlier commit, whatever is left out of it: both tables are made, and compared row by row; a row is known by its two ids.
//!
//! A document's rows can change only if it was changed itself, or shares a blot with one that was, before or after; unless blots are left out, which changes
//! what all are measured by. Where nothing is left out, [`super::recomputed`] does the same in less time.

use super::{
    Done, RowFormat,
    pairs::{ESTIMATE, Numbers, TABLE_FIELDS, table_fields},
    put,
};
use crate::base::ids::DocNo;
use crate::{
    base::error::Result,
    index::{At, View},
    report::{Value, put_id, put_names, put_record},
    similar::{Discovery, Measure, Neighbour},
};
use std::{
    collections::{HashMap, HashSet},
    io::Write,
    sync::Arc,
};

/// A row of a document's table, but for its rank.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row<B> {
    /// What the other document is known by.
    pub b: B,
    pub numbers: Numbers,
}

/// The table before and after.
pub struct Tables<'v> {
    pub old: &'v Discovery<'v>,
    pub new: &'v Discovery<'v>,
    pub top: usize,
    /// Left-out blots change what all documents are measured by: every row is compared.
    pub compares_all: bool,
}

/// Writes the rows to delete, to update and to insert: first those of documents that are gone, then of each document in order.
pub fn write_changes(
    tables: &Tables<'_>,
    rows: RowFormat,
    out: &mut impl Write,
    done: &mut Done<'_>,
) -> Result<()> {
    let (old_documents, new_documents) = tables.touched();
    let mut before: HashMap<String, Vec<Row<String>>> = HashMap::new();
    let mut order = Vec::new();
    rows_of(tables.old, &old_documents, tables.top, |document, rows| {
        let id = tables.old.view.id(DocNo::from_index(document))?;
        order.push(id.clone());
        before.insert(id, rows);
        Ok(())
    })?;
    let format = ChangeFormat {
        rows,
        measure: &tables.new.options.measure,
    };
    put(out, &format.names())?;
    let mut there = HashSet::new();
    for &document in &new_documents {
        there.insert(tables.new.view.id(DocNo::from_index(document))?);
    }
    for id in order.iter().filter(|id| !there.contains(*id)) {
        let gone = before.remove(id).unwrap_or_default();
        put(out, &format.changes(id, [&gone, &[]], |b| Ok(b.clone()))?)?;
    }
    let mut compared = 0;
    rows_of(tables.new, &new_documents, tables.top, |document, rows| {
        compared += 1;
        done(compared, new_documents.len() as u64);
        let id = tables.new.view.id(DocNo::from_index(document))?;
        put(
            out,
            &format.changes(&id, [&before.remove(&id).unwrap_or_default(), &rows], |b| {
                Ok(b.clone())
            })?,
        )
    })
}

impl Tables<'_> {
    /// The documents whose rows must be compared, before and after.
    fn touched(&self) -> (Vec<usize>, Vec<usize>) {
        let [old, new] = [self.old.view, self.new.view].map(places);
        let all = |view: &View<'_>| (0..view.documents()).collect();
        if self.compares_all {
            return (all(self.old.view), all(self.new.view));
        }
        let is_touched = |discovery: &Discovery<'_>, other: &HashMap<At, usize>| -> Vec<bool> {
            let view = discovery.view;
            let mut is_changed = vec![false; view.contents().len()];
            for document in 0..view.documents() {
                is_changed[view.content_of(DocNo::from_index(document)).index()] |=
                    !other.contains_key(&view.at(DocNo::from_index(document)));
            }
            let is_touched = discovery.lists.sharing_with(&is_changed);
            (0..view.documents())
                .map(|document| is_touched[view.content_of(DocNo::from_index(document)).index()])
                .collect()
        };
        let (in_old, in_new) = (is_touched(self.old, &new), is_touched(self.new, &old));
        // What is touched in one state is compared in both.
        let both = |view: &View<'_>,
                    own: &[bool],
                    other: &HashMap<At, usize>,
                    others: &[bool]|
         -> Vec<usize> {
            let is_other = |document: usize| {
                other
                    .get(&view.at(DocNo::from_index(document)))
                    .is_some_and(|&there| others[there])
            };
            (0..view.documents())
                .filter(|&document| own[document] || is_other(document))
                .collect()
        };
        (
            both(self.old.view, &in_old, &new, &in_new),
            both(self.new.view, &in_new, &old, &in_old),
        )
    }
}

/// Where each document stands: the same in both states, if nothing was done to it.
fn places(view: &View<'_>) -> HashMap<At, usize> {
    (0..view.documents())
        .map(|document| (view.at(DocNo::from_index(document)), document))
        .collect()
}

/// Calls `sink` with the rows of each of these documents, in order.
fn rows_of(
    discovery: &Discovery<'_>,
    documents: &[usize],
    count: usize,
    mut sink: impl FnMut(usize, Vec<Row<String>>) -> Result<()>,
) -> Result<()> {
    type Made = Vec<(usize, Result<Vec<Row<String>>>)>;
    let work = |document: usize, neighbours: &Arc<[Neighbour]>, made: &mut Made| {
        let rows = discovery
            .table_rows(document, neighbours, count)
            .into_iter()
            .map(|(other, neighbour)| {
                let numbers = Numbers::of(
                    discovery,
                    discovery.view.content_of(DocNo::from_index(document)).get(),
                    neighbour,
                );
                Ok(Row {
                    b: discovery.view.id(DocNo::new(other))?,
                    numbers,
                })
            });
        made.push((document, rows.collect()));
    };
    let weigh = |made: &Made| {
        made.iter()
            .map(|(_, rows)| rows.as_ref().map_or(0, |rows| 120 * rows.len() as u64))
            .sum()
    };
    discovery.for_each_listed(documents, &discovery.orders(count), work, weigh, |made| {
        made.into_iter()
            .try_for_each(|(document, rows)| sink(document, rows?))
    })
}

/// How changes are written.
#[derive(Clone, Copy)]
pub(super) struct ChangeFormat<'m> {
    pub rows: RowFormat,
    pub measure: &'m Measure,
}

impl ChangeFormat<'_> {
    /// The first line, where the format has one.
    pub fn names(&self) -> Vec<u8> {
        let mut line = Vec::new();
        let fields = table_fields(self.measure, self.rows.ranks, TABLE_FIELDS);
        put_names(
            &mut line,
            self.rows.format,
            &["change"].into_iter().chain(fields).collect::<Vec<_>>(),
        );
        line
    }

    /// What to do to the rows of a document, which are given before and after: all rows to delete, then those to update and to insert, the best first.
    pub fn changes<B: Ord>(
        &self,
        a: &str,
        [before, after]: [&[Row<B>]; 2],
        id_of: impl Fn(&B) -> Result<String>,
    ) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        if before == after {
            return Ok(out);
        }
        let mut a_bytes = Vec::new();
        put_id(&mut a_bytes, self.rows.format, a);
        let mut put = |change: &str, rank: usize, row: &Row<B>| {
            self.put_change(
                &mut out,
                change,
                &a_bytes,
                rank,
                &id_of(&row.b)?,
                &row.numbers,
            );
            Ok(())
        };
        let (old, new) = (by_name(before), by_name(after));
        let find = |rows: &[(&B, usize)], b: &B| {
            rows.binary_search_by(|(other, _)| (*other).cmp(b))
                .ok()
                .map(|at| rows[at].1)
        };
        for (rank, row) in before
            .iter()
            .enumerate()
            .filter(|(_, row)| find(&new, &row.b).is_none())
        {
            put("delete", rank, row)?;
        }
        for (rank, row) in after.iter().enumerate() {
            match find(&old, &row.b) {
                None => put("insert", rank, row)?,
                Some(was) if (self.rows.ranks && was != rank) || before[was] != *row => {
                    put("update", rank, row)?
                }
                Some(_) => {}
            }
        }
        Ok(out)
    }

    fn put_change(
        &self,
        out: &mut Vec<u8>,
        change: &str,
        a: &[u8],
        rank: usize,
        b: &str,
        numbers: &Numbers,
    ) {
        let (mut change_bytes, mut b_bytes) = (Vec::new(), Vec::new());
        put_id(&mut change_bytes, self.rows.format, change);
        put_id(&mut b_bytes, self.rows.format, b);
        let row = [
            ("a", Value::Id(a)),
            ("rank", Value::Count(rank as u64 + 1)),
            ("b", Value::Id(&b_bytes)),
            ("shared", Value::Count(numbers.shared)),
            ("a_in_b", Value::Number(numbers.a_in_b)),
            ("b_in_a", Value::Number(numbers.b_in_a)),
            ESTIMATE,
        ];
        let mut fields = table_fields(self.measure, self.rows.ranks, row);
        fields.insert(0, ("change", Value::Id(&change_bytes)));
        put_record(out, self.rows.format, &fields);
    }
}

/// The ranks of rows by what the other document is known by, in its order.
fn by_name<B: Ord>(rows: &[Row<B>]) -> Vec<(&B, usize)> {
    let mut ranks: Vec<(&B, usize)> = rows
        .iter()
        .enumerate()
        .map(|(rank, row)| (&row.b, rank))
        .collect();
    ranks.sort_unstable();
    ranks
}
