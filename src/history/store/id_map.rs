//! A map from the hash of an id to entries, in memory: chains in about as many buckets as entries.

use crate::base::num::{ToU32, ToUsize};

/// The initial number of buckets.
const MIN_BUCKETS: usize = 1 << 10;

/// Entries by the hash of their id. They are numbered in order of arrival, from 0.
#[derive(Debug, Default)]
pub struct IdMap {
    hashes: Vec<u32>,
    /// The newest entry of each bucket plus one; 0 for none. Their number is a power of two, and at
    /// least that of the entries.
    newest: Vec<u32>,
    /// For each entry the next older one of its bucket plus one; 0 for none.
    older: Vec<u32>,
}

impl IdMap {
    /// With capacity for this number of entries, in memory that was written to already.
    pub fn with_capacity(entries: usize) -> Self {
        let touched = || {
            let mut vector = vec![1; entries];
            vector.clear();
            vector
        };
        Self {
            hashes: touched(),
            newest: vec![0; entries.next_power_of_two().max(MIN_BUCKETS)],
            older: touched(),
        }
    }

    /// Adds the next entry.
    pub fn push(&mut self, hash: u32) {
        if self.hashes.len() >= self.newest.len() {
            self.grow();
        }
        self.hashes.push(hash);
        self.link(self.hashes.len() - 1);
    }

    fn grow(&mut self) {
        self.newest = vec![0; (4 * self.newest.len()).max(MIN_BUCKETS)];
        self.older.clear();
        (0..self.hashes.len()).for_each(|entry| self.link(entry));
    }

    fn link(&mut self, entry: usize) {
        let bucket = self.bucket(self.hashes[entry]);
        self.older.push(self.newest[bucket]);
        self.newest[bucket] = entry.to_u32() + 1;
    }

    fn bucket(&self, hash: u32) -> usize {
        hash.to_usize() & (self.newest.len() - 1)
    }

    /// The entries with this hash, newest first.
    pub fn with_hash(&self, hash: u32) -> impl Iterator<Item = u32> {
        let first = if self.newest.is_empty() {
            0
        } else {
            self.newest[self.bucket(hash)]
        };
        let chain = std::iter::successors((first > 0).then_some(first), |&at| {
            let older = self.older[at.to_usize() - 1];
            (older > 0).then_some(older)
        });
        chain
            .map(|at| at - 1)
            .filter(move |&entry| self.hashes[entry.to_usize()] == hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_entries_of_a_hash_are_found(hashes in prop::collection::vec(prop_oneof![0_u32..8, any::<u32>()], 0..5000), capacity in 0_usize..3000) {
            for mut map in [IdMap::default(), IdMap::with_capacity(capacity)] {
                hashes.iter().for_each(|&hash| map.push(hash));
                for hash in hashes.iter().copied().take(50).chain([3, 9]) {
                    let expected: Vec<u32> = (0..).zip(&hashes).filter(|(_, of)| **of == hash).map(|(entry, _)| entry).collect();
                    let mut found: Vec<u32> = map.with_hash(hash).collect();
                    found.reverse();
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }
}
