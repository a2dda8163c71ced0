//! The newest entries: few, in memory, looked at one by one.

use super::{
    likeness::{At, Best, Found, Likeness},
    search::{Live, Query, scan},
    segment::Entries,
};
use crate::{
    error::{Error, Place, Result},
    format::{PRINT_BYTES, Print},
};

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    pub print: Print,
    pub sequence: u64,
    /// Seconds since 1970.
    pub time: u32,
    pub id: Box<str>,
}

/// Entries in order of arrival.
#[derive(Debug, Default)]
pub struct Tail {
    pub entries: Vec<Added>,
    /// All prints in a row.
    prints: Vec<u8>,
}

impl Tail {
    pub fn push(&mut self, added: Added) {
        self.prints.extend_from_slice(&added.print.to_bytes());
        self.entries.push(added);
    }

    pub fn search(&self, query: &Query, live: &Live<'_>, best: &mut Best) -> Result<()> {
        if best.is_full_of_equals() {
            return Ok(());
        }
        let reach = best.limit().reach(query.cardinality);
        scan(&self.prints, &query.print, reach, &mut |number, distance| {
            let Added { print, sequence, time, .. } = &self.entries[number];
            let likeness = Likeness::new(query.cardinality + print.cardinality(), distance);
            if likeness.reaches(best.limit()) && live.has(*sequence, *time) {
                best.offer(Found { likeness, sequence: *sequence, at: At::Tail(number) });
            }
            Ok(best.limit().reach(query.cardinality))
        })
    }

    fn entry(&self, entry: u32) -> Result<&Added> {
        self.entries.get(entry as usize).ok_or_else(|| Error::damaged(Place::file("memory"), "out of bounds"))
    }
}

impl Entries for Tail {
    fn count(&self) -> u32 {
        (self.prints.len() / PRINT_BYTES) as u32
    }

    fn print(&self, entry: u32) -> Result<Print> {
        self.entry(entry).map(|added| added.print)
    }

    fn sequence(&self, entry: u32) -> Result<u64> {
        self.entry(entry).map(|added| added.sequence)
    }

    fn time(&self, entry: u32) -> Result<u32> {
        self.entry(entry).map(|added| added.time)
    }

    fn id(&self, entry: u32) -> Result<&str> {
        self.entry(entry).map(|added| &*added.id)
    }
}
