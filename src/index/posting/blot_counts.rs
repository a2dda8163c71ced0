//! Counts the blots of each document, on many threads.

use super::key::Key;
use crate::base::num::ToUsize;
use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

/// Counts for a range of documents: a short range fits into the cache of the processor.
pub(super) struct BlotCounts {
    documents: Range<u32>,
    /// The counts of each thread, except of those that are counting now.
    counts: Mutex<Vec<Vec<u32>>>,
}

impl BlotCounts {
    /// No blots yet, for these documents.
    pub fn new(documents: Range<u32>) -> Self {
        Self {
            documents,
            counts: Mutex::default(),
        }
    }

    /// Counts keys. Each key must be counted once.
    pub fn count<K: Key>(&self, keys: &[K]) {
        let unused = || self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let own = unused().pop();
        let mut counts = own.unwrap_or_else(|| vec![0; self.documents.len()]);
        keys.iter()
            .for_each(|key| counts[(key.number() - self.documents.start).to_usize()] += 1);
        unused().push(counts);
    }

    /// Adds these counts to those of all documents.
    pub fn add_to(self, all: &mut Vec<u32>) {
        let Range { start, end } = self.documents;
        if all.len() < end.to_usize() {
            all.resize(end.to_usize(), 0);
        }
        for counts in self
            .counts
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
        {
            all[start.to_usize()..]
                .iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += count);
        }
    }
}
