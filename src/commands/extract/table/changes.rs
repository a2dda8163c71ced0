//! The changes that turn one table into another.

use super::super::{RowFormat, rows::PairNumbers};
use crate::{
    base::{error::Result, num::ToU64},
    report::{
        Sink,
        records::{RowChange, TableChange, TableRow},
    },
    similar::Measure,
};

/// A row of a document's table, without its rank. `B` identifies the other document.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedRow<B> {
    /// The other document.
    pub b: B,
    /// What both share.
    pub numbers: PairNumbers,
}

/// Encodes changes of rows.
#[derive(Clone, Copy)]
pub struct ChangeEncoder<'m> {
    /// How rows are written.
    pub rows: RowFormat,
    /// How similarity is measured.
    pub measure: &'m Measure,
}

impl ChangeEncoder<'_> {
    /// The first line, where the format has one.
    pub fn head(&self) -> Result<Vec<u8>> {
        let mut line = Vec::new();
        let shape = TableChange {
            change: RowChange::Insert,
            row: TableRow {
                rank: self.rows.ranks.then_some(1),
                estimate: self.is_estimate(),
                ..TableRow::default()
            },
        };
        self.rows.format.put_head(&shape, &mut line)?;
        Ok(line)
    }

    fn is_estimate(&self) -> bool {
        self.measure.selection.is_some()
    }

    /// The changes of one document's rows: all rows to delete, then those to update and to insert,
    /// the best first.
    pub fn changes<B: Ord>(
        &self,
        a: &str,
        [before, after]: [&[RankedRow<B>]; 2],
        id_of: impl Fn(&B) -> Result<String>,
    ) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        if before == after {
            return Ok(out);
        }
        let mut put = |change: RowChange, rank: usize, row: &RankedRow<B>| {
            let b = id_of(&row.b)?;
            let change = self.record(change, [a, &b], rank, &row.numbers);
            self.rows.format.put_record(&change, &mut out)
        };
        let old = RanksByDocument::new(before);
        let new = RanksByDocument::new(after);
        for (rank, row) in before.iter().enumerate() {
            if new.rank(&row.b).is_none() {
                put(RowChange::Delete, rank, row)?;
            }
        }
        for (rank, row) in after.iter().enumerate() {
            match old.rank(&row.b) {
                None => put(RowChange::Insert, rank, row)?,
                Some(was) if (self.rows.ranks && was != rank) || before[was] != *row => {
                    put(RowChange::Update, rank, row)?
                }
                Some(_) => {}
            }
        }
        Ok(out)
    }

    fn record<'r>(
        &self,
        change: RowChange,
        [a, b]: [&'r str; 2],
        rank: usize,
        numbers: &PairNumbers,
    ) -> TableChange<'r> {
        TableChange {
            change,
            row: TableRow {
                a,
                rank: self.rows.ranks.then(|| rank.to_u64() + 1),
                b,
                shared: numbers.shared,
                a_in_b: numbers.a_in_b,
                b_in_a: numbers.b_in_a,
                estimate: self.is_estimate(),
            },
        }
    }
}

/// Finds the rank of a row by its other document.
struct RanksByDocument<'r, B>(Vec<(&'r B, usize)>);

impl<'r, B: Ord> RanksByDocument<'r, B> {
    fn new(rows: &'r [RankedRow<B>]) -> Self {
        let mut ranks: Vec<(&B, usize)> = rows
            .iter()
            .enumerate()
            .map(|(rank, row)| (&row.b, rank))
            .collect();
        ranks.sort_unstable();
        Self(ranks)
    }

    fn rank(&self, b: &B) -> Option<usize> {
        let found = self.0.binary_search_by(|(other, _)| (*other).cmp(b));
        found.ok().map(|place| self.0[place].1)
    }
}
