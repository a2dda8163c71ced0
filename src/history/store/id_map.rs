//! Entries by the hash of their id, in memory: chains that start in as many buckets as there are entries, about.

/// At first.
const BUCKETS: usize = 1 << 10;

/// Entries are numbered in order of arrival, from 0.
#[derive(Debug, Default)]
pub struct IdMap {
    hashes: Vec<u32>,
    /// Of each bucket the newest entry, plus one; 0 for none. A power of two, at least as many as there are entries.
    newest: Vec<u32>,
    /// Of each entry the one before it in its bucket, plus one.
    older: Vec<u32>,
}

impl IdMap {
    /// With room for this number of entries, in memory that was written to.
    pub fn with_room(entries: usize) -> Self {
        let touched = || {
            let mut vector = vec![1; entries];
            vector.clear();
            vector
        };
        Self {
            hashes: touched(),
            newest: vec![0; entries.next_power_of_two().max(BUCKETS)],
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
        self.newest = vec![0; (4 * self.newest.len()).max(BUCKETS)];
        self.older.clear();
        (0..self.hashes.len()).for_each(|entry| self.link(entry));
    }

    fn link(&mut self, entry: usize) {
        let bucket = self.bucket(self.hashes[entry]);
        self.older.push(self.newest[bucket]);
        self.newest[bucket] = entry as u32 + 1;
    }

    fn bucket(&self, hash: u32) -> usize {
        hash as usize & (self.newest.len() - 1)
    }

    /// The entries with this hash, the newest first.
    pub fn with_hash(&self, hash: u32) -> impl Iterator<Item = u32> {
        let first = if self.newest.is_empty() {
            0
        } else {
            self.newest[self.bucket(hash)]
        };
        let chain = std::iter::successors((first > 0).then_some(first), |&at| {
            let older = self.older[at as usize - 1];
            (older > 0).then_some(older)
        });
        chain
            .map(|at| at - 1)
            .filter(move |&entry| self.hashes[entry as usize] == hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_entries_of_a_hash_are_found(hashes in prop::collection::vec(prop_oneof![0_u32..8, any::<u32>()], 0..5000), room in 0_usize..3000) {
            for mut by_id in [IdMap::default(), IdMap::with_room(room)] {
                hashes.iter().for_each(|&hash| by_id.push(hash));
                for hash in hashes.iter().copied().take(50).chain([3, 9]) {
                    let expected: Vec<u32> = (0..).zip(&hashes).filter(|(_, of)| **of == hash).map(|(entry, _)| entry).collect();
                    let mut found: Vec<u32> = by_id.with_hash(hash).collect();
                    found.reverse();
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }
}
