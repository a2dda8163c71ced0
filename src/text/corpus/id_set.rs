//! Which document ids have been seen, in bounded memory.
//!
//! Ids are kept as 128-bit hashes: a chance collision among a billion documents has odds of one in 10^20. The newest
//! hashes are in memory; when there are too many they are sorted and written to a temporary file as a *run*. Runs of
//! equal level are merged, so there are about log2 of them, and a look-up reads one page of each. In memory stays, of
//! each page of a run, its first hash: 16 bytes for 256 documents.

use crate::base::error::{Error, Result};
use crate::base::num::ToU64;
use std::{
    collections::HashSet,
    fs::File,
    hash::{BuildHasherDefault, Hasher},
    io::{self, BufReader, BufWriter, Read, Seek, Write},
    iter::Peekable,
    os::unix::fs::FileExt,
};
use xxhash_rust::xxh3::xxh3_128;

/// Hashes kept in memory: 35 MB.
const FRESH: usize = 1 << 20;
const PAGE_HASHES: usize = 256;
const HASH_BYTES: usize = 16;

/// A set of ids.
pub struct IdSet {
    fresh: HashSet<u128, BuildHasherDefault<IdentityHasher>>,
    fresh_limit: usize,
    /// Levels fall from first to last.
    runs: Vec<IdRun>,
}

impl Default for IdSet {
    fn default() -> Self {
        Self::with_limit(FRESH)
    }
}

impl IdSet {
    fn with_limit(fresh_limit: usize) -> Self {
        Self {
            fresh: HashSet::default(),
            fresh_limit,
            runs: Vec::new(),
        }
    }

    /// What the set keeps of an id.
    pub fn hash(id: &str) -> u128 {
        xxh3_128(id.as_bytes())
    }

    /// False if the id was there already.
    pub fn insert(&mut self, hash: u128) -> Result<bool> {
        self.try_insert(hash)
            .map_err(|error| Error::io("the temporary file of document ids", error))
    }

    fn try_insert(&mut self, hash: u128) -> io::Result<bool> {
        if self.fresh.contains(&hash) {
            return Ok(false);
        }
        for run in &self.runs {
            if run.contains(hash)? {
                return Ok(false);
            }
        }
        self.fresh.insert(hash);
        if self.fresh.len() >= self.fresh_limit {
            self.spill()?;
        }
        Ok(true)
    }

    /// Writes what is in memory as a run, merged with the runs of its level and those that this makes.
    fn spill(&mut self) -> io::Result<()> {
        let mut hashes: Vec<u128> = self.fresh.drain().collect();
        hashes.sort_unstable();
        let mut run = IdRun::write(0, hashes.into_iter().map(Ok))?;
        while self.runs.last().is_some_and(|last| last.level == run.level) {
            if let Some(last) = self.runs.pop() {
                let merged = MergedIdRuns {
                    one: last.hashes()?.peekable(),
                    two: run.hashes()?.peekable(),
                };
                run = IdRun::write(run.level + 1, merged)?;
            }
        }
        self.runs.push(run);
        Ok(())
    }
}

/// Sorted hashes in a file that vanishes with the program.
struct IdRun {
    level: u32,
    file: File,
    /// The first hash of each page.
    firsts: Vec<u128>,
}

impl IdRun {
    fn write(level: u32, hashes: impl Iterator<Item = io::Result<u128>>) -> io::Result<Self> {
        let (mut out, mut firsts) = (
            BufWriter::with_capacity(1 << 16, tempfile::tempfile()?),
            Vec::new(),
        );
        for (index, hash) in hashes.enumerate() {
            let hash = hash?;
            if index % PAGE_HASHES == 0 {
                firsts.push(hash);
            }
            out.write_all(&hash.to_le_bytes())?;
        }
        Ok(Self {
            level,
            file: out.into_inner()?,
            firsts,
        })
    }

    fn contains(&self, hash: u128) -> io::Result<bool> {
        let Some(page) = self
            .firsts
            .partition_point(|&first| first <= hash)
            .checked_sub(1)
        else {
            return Ok(false);
        };
        let mut bytes = [0; PAGE_HASHES * HASH_BYTES];
        let read = read_page(
            &self.file,
            &mut bytes,
            (page * PAGE_HASHES * HASH_BYTES).to_u64(),
        )?;
        let (hashes, _) = bytes[..read].as_chunks::<HASH_BYTES>();
        Ok(hashes
            .binary_search_by_key(&hash, |&hash| u128::from_le_bytes(hash))
            .is_ok())
    }

    fn hashes(&self) -> io::Result<impl Iterator<Item = io::Result<u128>>> {
        let mut file = self.file.try_clone()?;
        file.rewind()?;
        let mut input = BufReader::with_capacity(1 << 16, file);
        Ok(std::iter::from_fn(move || {
            let mut hash = [0; HASH_BYTES];
            match input.read_exact(&mut hash) {
                Ok(()) => Some(Ok(u128::from_le_bytes(hash))),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
                Err(error) => Some(Err(error)),
            }
        }))
    }
}

/// Fills the buffer as far as the file goes.
fn read_page(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], at + filled.to_u64()) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Two sorted runs as one.
struct MergedIdRuns<A: Iterator, B: Iterator> {
    one: Peekable<A>,
    two: Peekable<B>,
}

impl<A, B> Iterator for MergedIdRuns<A, B>
where
    A: Iterator<Item = io::Result<u128>>,
    B: Iterator<Item = io::Result<u128>>,
{
    type Item = io::Result<u128>;

    fn next(&mut self) -> Option<Self::Item> {
        match (self.one.peek(), self.two.peek()) {
            (Some(Ok(one)), Some(Ok(two))) if two < one => self.two.next(),
            (None | Some(Ok(_)), Some(Err(_))) | (None, _) => self.two.next(),
            _ => self.one.next(),
        }
    }
}

/// A hash is its own hash.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes
            .iter()
            .take(8)
            .fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    }

    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_set(ids in prop::collection::vec(0_u32..400, 0..2000), limit in 1_usize..60) {
            let (mut seen, mut simple) = (IdSet::with_limit(limit), HashSet::new());
            for id in ids {
                let hash = IdSet::hash(&id.to_string());
                prop_assert_eq!(seen.insert(hash).unwrap(), simple.insert(hash));
            }
        }
    }

    #[test]
    fn runs_of_many_pages_are_searched() {
        let mut seen = IdSet::with_limit(700);
        let hashes: Vec<_> = (0..5000).map(|id| IdSet::hash(&id.to_string())).collect();
        for _ in 0..2 {
            assert!(
                hashes
                    .iter()
                    .map(|&hash| seen.insert(hash).unwrap())
                    .is_sorted_by(|one, two| one == two)
            );
        }
        assert!(
            seen.runs.len() <= 3
                && seen
                    .runs
                    .iter()
                    .map(|run| run.level)
                    .is_sorted_by(|one, two| one > two)
        );
    }
}
