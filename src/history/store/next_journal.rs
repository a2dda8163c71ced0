//! The next journal and memtable, prepared by a thread before they are needed.

use super::{
    journal::{Journal, JournalDirectory},
    memtable::Memtable,
};
use crate::{base::error::Result, history::search::part_keys::PartKeys};
use std::thread;

/// A thread that creates the next journal and its memtable, so that no request waits for the disk.
/// The memtable gets the keys of the current one, which suit as well, and so has tables at once.
pub struct NextJournal {
    first_sequence: u64,
    thread: Option<thread::JoinHandle<Result<(Journal, Memtable)>>>,
}

impl NextJournal {
    /// Starts the thread; if that fails, [`Self::take`] returns `None`.
    pub fn start(
        journals: JournalDirectory,
        number: u64,
        first_sequence: u64,
        (entries, keys): (u32, Option<PartKeys>),
    ) -> Self {
        let create = move || {
            let journal = journals.create(number, first_sequence)?;
            Ok((journal, Memtable::with_capacity(entries, keys)))
        };
        Self {
            first_sequence,
            thread: thread::Builder::new().spawn(create).ok(),
        }
    }

    /// The journal and memtable; `None` if the thread failed or prepared them for another entry.
    pub fn take(mut self, first_sequence: u64) -> Option<(Journal, Memtable)> {
        let prepared = self.thread.take()?.join().ok()?.ok();
        prepared.filter(|_| self.first_sequence == first_sequence)
    }
}

/// Waits for the thread: it must not write after the lock is released.
impl Drop for NextJournal {
    fn drop(&mut self) {
        self.thread.take().map(thread::JoinHandle::join);
    }
}
