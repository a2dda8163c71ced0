//! Which document ids have been seen.

use crate::error::Result;
use std::collections::HashSet;
use xxhash_rust::xxh3::xxh3_128;

/// A set of ids, kept as 128-bit hashes.
#[derive(Default)]
pub struct SeenIds {
    hashes: HashSet<u128>,
}

impl SeenIds {
    /// What the set keeps of an id.
    pub fn hash(id: &str) -> u128 {
        xxh3_128(id.as_bytes())
    }

    /// False if the id was there already.
    pub fn insert(&mut self, hash: u128) -> Result<bool> {
        Ok(self.hashes.insert(hash))
    }
}
