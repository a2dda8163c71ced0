//! Counts, on many threads, how many blots each document has.

use super::key::Key;
use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

/// Counts for neighbouring documents: of few documents they stay in the processor's cache.
pub(super) struct BlotCounts {
    documents: Range<u32>,
    /// One for each thread that has counted so far, but for those that are counting.
    counts: Mutex<Vec<Vec<u32>>>,
}

impl BlotCounts {
    pub fn new(documents: Range<u32>) -> Self {
        Self {
            documents,
            counts: Mutex::default(),
        }
    }

    /// Counts sorted keys, none of which comes again.
    pub fn count<K: Key>(&self, keys: &[K]) {
        let spare = || self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let own = spare().pop();
        let mut counts = own.unwrap_or_else(|| vec![0; self.documents.len()]);
        keys.iter()
            .for_each(|key| counts[(key.number() - self.documents.start) as usize] += 1);
        spare().push(counts);
    }

    /// Adds what was counted to the counts of all documents.
    pub fn add_to(self, all: &mut Vec<u32>) {
        let Range { start, end } = self.documents;
        if all.len() < end as usize {
            all.resize(end as usize, 0);
        }
        for counts in self
            .counts
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
        {
            all[start as usize..]
                .iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += count);
        }
    }
}
