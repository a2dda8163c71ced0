//! The entries of several sources in order of arrival, as one source.

use crate::{
    base::{
        error::Result,
        num::{ToU32, ToU64, ToUsize},
    },
    history::{
        History,
        search::searchable::{EntrySource, LiveFilter},
    },
    text::stream::Print,
};

/// Where an entry is, and its place in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryRow {
    /// The sequence number, or the time of arrival.
    pub order: u64,
    /// The number of its source.
    pub source: u32,
    /// Its number there.
    pub entry: u32,
}

/// The segments and memtables of a history, oldest first.
pub fn sources_of(history: &History) -> Vec<&dyn EntrySource> {
    let segments = history
        .segments
        .iter()
        .map(|held| &*held.segment as &dyn EntrySource);
    let memtables = history
        .memtables()
        .map(|memtable| memtable as &dyn EntrySource);
    segments.chain(memtables).collect()
}

/// The live entries of sources, by sequence number. The sources are numbered from `first_source`.
pub fn live_rows(
    sources: &[&dyn EntrySource],
    live: &LiveFilter<'_>,
    first_source: u32,
) -> Result<Vec<EntryRow>> {
    let mut rows = Vec::new();
    for (source, number) in sources.iter().zip(first_source..) {
        for entry in 0..source.count() {
            let sequence = source.sequence(entry)?;
            if live.contains(sequence, source.time(entry)?) {
                rows.push(EntryRow {
                    order: sequence,
                    source: number,
                    entry,
                });
            }
        }
    }
    rows.sort_unstable();
    Ok(rows)
}

/// Some rows as a source.
pub struct OrderedEntries<'s> {
    /// All sources that rows refer to.
    pub sources: &'s [&'s dyn EntrySource],
    /// The entries, in order of arrival.
    pub rows: &'s [EntryRow],
    /// If set, entries get new sequence numbers from this one on.
    pub renumber_from: Option<u64>,
}

impl OrderedEntries<'_> {
    fn row(&self, entry: u32) -> (&dyn EntrySource, u32) {
        let row = &self.rows[entry.to_usize()];
        (self.sources[row.source.to_usize()], row.entry)
    }
}

impl EntrySource for OrderedEntries<'_> {
    fn count(&self) -> u32 {
        self.rows.len().to_u32()
    }

    fn print(&self, entry: u32) -> Result<Print> {
        let (source, entry) = self.row(entry);
        source.print(entry)
    }

    fn sequence(&self, entry: u32) -> Result<u64> {
        match self.renumber_from {
            Some(first) => Ok(first + u64::from(entry)),
            None => {
                let (source, entry) = self.row(entry);
                source.sequence(entry)
            }
        }
    }

    fn time(&self, entry: u32) -> Result<u32> {
        let (source, entry) = self.row(entry);
        source.time(entry)
    }

    fn id(&self, entry: u32) -> Result<&str> {
        let (source, entry) = self.row(entry);
        source.id(entry)
    }
}

/// The number of rows, as entries are counted.
pub fn count_of(rows: &[EntryRow]) -> u64 {
    rows.len().to_u64()
}
