//! What will be needed soon, made by a thread of its own.

use super::{
    journal::{Journal, JournalDirectory},
    memtable::Memtable,
};
use crate::base::error::Result;
use crate::history::search::part_keys::PartKeys;
use std::thread;

/// The next journal and the memory of its entries, made ahead of their time, so that nobody waits for the disk. The entries get the keys of
/// those before them, which are as good: so there are tables from the first one on.
pub struct NextJournal {
    first_sequence: u64,
    thread: Option<thread::JoinHandle<Result<(Journal, Memtable)>>>,
}

impl NextJournal {
    pub fn start(
        journals: JournalDirectory,
        number: u64,
        first_sequence: u64,
        (entries, keys): (u32, Option<PartKeys>),
    ) -> Self {
        let make = move || {
            Ok((
                journals.create(number, first_sequence)?,
                Memtable::with_room(entries, keys),
            ))
        };
        Self {
            first_sequence,
            thread: thread::Builder::new().spawn(make).ok(),
        }
    }

    /// None if it was not made, or for another entry.
    pub fn take(mut self, first_sequence: u64) -> Option<(Journal, Memtable)> {
        let made = self.thread.take()?.join().ok()?.ok();
        made.filter(|_| self.first_sequence == first_sequence)
    }
}

/// Nothing is written after the lock is let go.
impl Drop for NextJournal {
    fn drop(&mut self) {
        self.thread.take().map(thread::JoinHandle::join);
    }
}
