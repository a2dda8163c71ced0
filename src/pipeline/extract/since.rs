//! What changed in the table since an earlier commit.
//!
//! A document's rows can change only if it was changed itself, or shares a blot with one that was, before or after. Of these documents both
//! tables are made, and compared row by row; a row is known by its two ids.

use super::{Done, put};
use crate::{
    error::Result,
    index::{At, View},
    report::{Format, Value, put_id, put_names, put_record},
    similar::{Discovery, Neighbour},
};
use std::{
    collections::{HashMap, HashSet},
    io::Write,
    sync::Arc,
};

/// A row of a document's table, but for its rank.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    b: String,
    shared: u64,
    a_in_b: f64,
    b_in_a: f64,
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
pub fn write_changes(tables: &Tables<'_>, format: Format, out: &mut impl Write, done: &mut Done<'_>) -> Result<()> {
    let (old_documents, new_documents) = tables.touched();
    let mut before: HashMap<String, Vec<Row>> = HashMap::new();
    let mut order = Vec::new();
    rows_of(tables.old, &old_documents, tables.top, |document, rows| {
        let id = tables.old.view.id(document)?;
        order.push(id.clone());
        before.insert(id, rows);
        Ok(())
    })?;
    let mut line = Vec::new();
    put_names(&mut line, format, &["change", "a", "rank", "b", "shared", "a_in_b", "b_in_a"]);
    put(out, &line)?;
    let mut there = HashSet::new();
    for &document in &new_documents {
        there.insert(tables.new.view.id(document)?);
    }
    for id in order.iter().filter(|id| !there.contains(*id)) {
        let gone = before.remove(id).unwrap_or_default();
        put(out, &changes(format, id, &gone, &[]))?;
    }
    let mut compared = 0;
    rows_of(tables.new, &new_documents, tables.top, |document, rows| {
        compared += 1;
        done(compared, new_documents.len() as u64);
        let id = tables.new.view.id(document)?;
        put(out, &changes(format, &id, &before.remove(&id).unwrap_or_default(), &rows))
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
                is_changed[view.content_of(document) as usize] |= !other.contains_key(&view.at(document));
            }
            let is_touched = discovery.lists.sharing_with(&is_changed);
            (0..view.documents()).map(|document| is_touched[view.content_of(document) as usize]).collect()
        };
        let (in_old, in_new) = (is_touched(self.old, &new), is_touched(self.new, &old));
        // What is touched in one state is compared in both.
        let both = |view: &View<'_>, own: &[bool], other: &HashMap<At, usize>, others: &[bool]| -> Vec<usize> {
            let is_other = |document: usize| other.get(&view.at(document)).is_some_and(|&there| others[there]);
            (0..view.documents()).filter(|&document| own[document] || is_other(document)).collect()
        };
        (both(self.old.view, &in_old, &new, &in_new), both(self.new.view, &in_new, &old, &in_old))
    }
}

/// Where each document stands: the same in both states, if nothing was done to it.
fn places(view: &View<'_>) -> HashMap<At, usize> {
    (0..view.documents()).map(|document| (view.at(document), document)).collect()
}

/// Calls `sink` with the rows of each of these documents, in order.
fn rows_of(
    discovery: &Discovery<'_>,
    documents: &[usize],
    count: usize,
    mut sink: impl FnMut(usize, Vec<Row>) -> Result<()>,
) -> Result<()> {
    type Made = Vec<(usize, Result<Vec<Row>>)>;
    let work = |document: usize, neighbours: &Arc<[Neighbour]>, made: &mut Made| {
        let rows = discovery.top(document, neighbours, count).into_iter().map(|(other, neighbour)| {
            let numbers = super::pairs::Numbers::of(discovery, discovery.view.content_of(document), neighbour);
            let b = discovery.view.id(other as usize)?;
            Ok(Row { b, shared: numbers.shared, a_in_b: numbers.a_in_b, b_in_a: numbers.b_in_a })
        });
        made.push((document, rows.collect()));
    };
    let weigh = |made: &Made| made.iter().map(|(_, rows)| rows.as_ref().map_or(0, |rows| 120 * rows.len() as u64)).sum();
    discovery.for_each_listed(documents, work, weigh, |made| made.into_iter().try_for_each(|(document, rows)| sink(document, rows?)))
}

/// What to do to the rows of a document.
fn changes(format: Format, a: &str, before: &[Row], after: &[Row]) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut a_bytes, mut b_bytes) = (Vec::new(), Vec::new());
    put_id(&mut a_bytes, format, a);
    let mut write = |change: &str, rank: usize, row: &Row| {
        b_bytes.clear();
        put_id(&mut b_bytes, format, &row.b);
        let mut name = Vec::new();
        put_id(&mut name, format, change);
        let fields = [
            ("change", Value::Id(&name)),
            ("a", Value::Id(&a_bytes)),
            ("rank", Value::Count(rank as u64 + 1)),
            ("b", Value::Id(&b_bytes)),
            ("shared", Value::Count(row.shared)),
            ("a_in_b", Value::Number(row.a_in_b)),
            ("b_in_a", Value::Number(row.b_in_a)),
        ];
        put_record(&mut out, format, &fields);
    };
    let old: HashMap<&str, (usize, &Row)> = before.iter().enumerate().map(|(rank, row)| (row.b.as_str(), (rank, row))).collect();
    let new: HashSet<&str> = after.iter().map(|row| row.b.as_str()).collect();
    for (rank, row) in before.iter().enumerate().filter(|(_, row)| !new.contains(row.b.as_str())) {
        write("delete", rank, row);
    }
    for (rank, row) in after.iter().enumerate() {
        match old.get(row.b.as_str()) {
            None => write("insert", rank, row),
            Some(&known) if known != (rank, row) => write("update", rank, row),
            Some(_) => {}
        }
    }
    out
}
