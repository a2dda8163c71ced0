//! Collects postings in buckets as documents come, and spills sorted runs when the memory is full.

use super::{
    blot_counts::BlotCounts,
    key::{BUCKETS, Key, bucket_of, first_blot},
    packed_keys::put_keys,
    run_file::RunWriter,
    sort::sorted,
};
use crate::{
    base::{
        error::Result,
        files::{TempDir, TempFile},
        parallel::{self, Pool},
    },
    text::scheme::BlotScheme,
};
use rayon::prelude::*;
use std::{ops::Range, path::PathBuf};

/// A bucket stores keys in pieces of this many, so that it grows without copying.
const PIECE: usize = 4096;
/// Buckets that a thread sorts, on average, before they are written.
const GROUP_PER_THREAD: usize = 8;
/// A run records where each of this many slices of the blot space starts, so that runs can be
/// merged range by range.
pub const SLICES: usize = 16 * BUCKETS;

/// The postings of some documents, grouped by bucket.
#[derive(Debug, Default)]
pub struct Postings<K> {
    keys: Vec<K>,
    /// Where each bucket ends.
    ends: Vec<u32>,
}

impl<K: Key> Postings<K> {
    /// Groups the blots of documents by bucket, with a counting sort.
    ///
    /// Documents are numbered from 0; `ends` has the end of the blots of each document.
    pub fn new(blots: &[u64], ends: &[usize], bits: u8) -> Self {
        let mut starts = [0_u32; BUCKETS + 1];
        for &blot in blots {
            starts[bucket_of(blot, bits) + 1] += 1;
        }
        for bucket in 0..BUCKETS {
            starts[bucket + 1] += starts[bucket];
        }
        let mut placed = vec![K::default(); blots.len()];
        let mut start = 0;
        for (number, &end) in (0..).zip(ends) {
            for &blot in &blots[start..end] {
                let at = &mut starts[bucket_of(blot, bits)];
                placed[*at as usize] = K::new(blot, number);
                *at += 1;
            }
            start = end;
        }
        // By now each start has advanced to the end of its bucket.
        Self {
            keys: placed,
            ends: starts[..BUCKETS].to_vec(),
        }
    }

    /// Renumbers the documents, and drops those without a new number.
    pub fn renumber(&mut self, number_of: impl Fn(u32) -> Option<u32>) {
        let mut kept = Vec::with_capacity(self.keys.len());
        let ends = (0..self.ends.len()).map(|bucket| {
            kept.extend(self.bucket(bucket).iter().filter_map(|key| {
                number_of(key.number()).map(|number| K::new(key.blot(), number))
            }));
            kept.len() as u32
        });
        self.ends = ends.collect();
        self.keys = kept;
    }

    /// All keys, bucket by bucket.
    pub fn keys(&self) -> &[K] {
        &self.keys
    }

    fn bucket(&self, bucket: usize) -> &[K] {
        if self.keys.is_empty() {
            return &[];
        }
        let start = if bucket == 0 {
            0
        } else {
            self.ends[bucket - 1]
        };
        &self.keys[start as usize..self.ends[bucket] as usize]
    }
}

/// All postings of a commit.
pub struct Collector<K> {
    pub(super) bits: u8,
    pub(super) buckets: Vec<KeyBucket<K>>,
    pub(super) runs: Vec<KeyRunTable>,
    /// The file of the runs, once there is one.
    pub(super) file: Option<TempFile>,
    pub(super) threads: usize,
    pub(super) directory: TempDir,
    /// The number of blots of each document that is in a run.
    pub(super) blots_of: Vec<u32>,
    /// The documents that are in no run yet. Each document is in one run only.
    pub(super) in_memory: Range<u32>,
    keys: u64,
    keys_limit: u64,
}

#[derive(Default)]
pub(super) struct KeyBucket<K> {
    pieces: Vec<Vec<K>>,
}

impl<K: Key> KeyBucket<K> {
    fn extend(&mut self, mut keys: impl Iterator<Item = K>) {
        while let Some(key) = keys.next() {
            if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
                self.pieces.push(Vec::with_capacity(PIECE));
            }
            if let Some(piece) = self.pieces.last_mut() {
                piece.push(key);
                piece.extend(keys.by_ref().take(PIECE - piece.len()));
            }
        }
    }

    /// All keys in order, without duplicates. Counts them in `counts`, and frees the pieces.
    pub fn sorted(&mut self, counts: &BlotCounts) -> Vec<K> {
        let mut keys = sorted(&std::mem::take(&mut self.pieces));
        keys.dedup();
        counts.count(&keys);
        keys
    }
}

/// A sorted run on disk: a block of keys for each slice. All runs are in one file.
#[derive(Debug)]
pub(super) struct KeyRunTable {
    /// The start of each slice, and the end of the last one.
    pub starts: Vec<u64>,
    /// The number of keys of each slice.
    pub keys: Vec<u32>,
}

impl KeyRunTable {
    /// The bytes of some slices in the file.
    pub fn place(&self, slices: &Range<usize>) -> Range<u64> {
        self.starts[slices.start]..self.starts[slices.end]
    }

    /// The number of keys of some slices.
    pub fn keys(&self, slices: &Range<usize>) -> u64 {
        self.keys[slices.clone()]
            .iter()
            .map(|&keys| u64::from(keys))
            .sum()
    }

    /// Records that the next bucket was written.
    pub fn push(&mut self, packed: &PackedBucket) {
        let mut at = self.starts.last().copied().unwrap_or_default();
        for &(length, keys) in &packed.slices {
            at += length as u64;
            self.starts.push(at);
            self.keys.push(keys);
        }
    }
}

/// The packed keys of a bucket, with the bytes and the number of keys of each slice.
pub(super) struct PackedBucket {
    pub bytes: Vec<u8>,
    pub slices: Vec<(usize, u32)>,
}

impl PackedBucket {
    fn of<K: Key>(keys: &[K], bits: u8) -> Self {
        let mut bytes = Vec::new();
        let mut rest = keys;
        let width = slice_width(bits);
        // Slices of all buckets are alike but for the bits of the bucket.
        let bucket = keys
            .first()
            .map_or(0, |key| key.blot() & !(first_blot(1, bits) - 1));
        let slices = (1..=(SLICES / BUCKETS) as u64).map(|slice| {
            let (these, those) =
                rest.split_at(rest.partition_point(|key| key.blot() - bucket < slice * width));
            rest = those;
            let start = bytes.len();
            put_keys(&mut bytes, these);
            (bytes.len() - start, these.len() as u32)
        });
        Self {
            slices: slices.collect(),
            bytes,
        }
    }
}

impl<K: Key> Collector<K> {
    /// An empty collector that spills when it holds about `memory_bytes` of postings.
    pub fn new(bits: u8, memory_bytes: u64, threads: usize, directory: TempDir) -> Self {
        let buckets = (0..BUCKETS)
            .map(|_| KeyBucket { pieces: Vec::new() })
            .collect();
        let keys_limit = (memory_bytes / size_of::<K>() as u64).max(1);
        Self {
            bits,
            buckets,
            runs: Vec::new(),
            file: None,
            threads,
            directory,
            blots_of: Vec::new(),
            in_memory: 0..0,
            keys: 0,
            keys_limit,
        }
    }

    /// Changes the memory limit.
    pub fn set_memory_limit(&mut self, memory_bytes: u64) {
        self.keys_limit = (memory_bytes / size_of::<K>() as u64).max(1);
    }

    /// Adds the postings of some documents under new numbers, higher than all before.
    ///
    /// Leaves out documents without a new number.
    pub fn add(&mut self, postings: &Postings<K>, numbers: &[Option<u32>]) -> Result<()> {
        let number_of = |number: u32| numbers.get(number as usize).copied().flatten();
        if let Some(last) = numbers.iter().rev().find_map(|&number| number) {
            self.in_memory.end = last + 1;
        }
        for (bucket, target) in self.buckets.iter_mut().enumerate() {
            let kept = postings.bucket(bucket).iter();
            target.extend(kept.filter_map(|key| {
                number_of(key.number()).map(|number| K::new(key.blot(), number))
            }));
        }
        self.keys += postings.keys.len() as u64;
        if self.keys >= self.keys_limit {
            self.spill()
        } else {
            Ok(())
        }
    }

    /// Writes all postings to files of sorted runs, one for each range of buckets.
    ///
    /// Returns the number of blots of each of the `documents` documents.
    pub fn write_runs(
        mut self,
        documents: u32,
        scheme: &BlotScheme,
        files: &[(PathBuf, Range<usize>)],
    ) -> Result<Vec<u32>> {
        let bits = self.bits;
        let counts = BlotCounts::new(self.in_memory.clone());
        let pool = parallel::pool(self.threads);
        for (path, buckets) in files {
            let mut out = RunWriter::create(path, scheme, buckets.clone(), documents)?;
            for (run, file) in self.runs.iter().zip(std::iter::repeat(&self.file)) {
                file.as_ref().map_or(Ok(()), |file| out.copy(run, file))?;
            }
            out.start();
            let range = &mut self.buckets[buckets.clone()];
            pack_buckets(&pool, range, bits, &counts, |packed| out.push(packed))?;
            out.finish()?;
        }
        counts.add_to(&mut self.blots_of);
        self.blots_of.resize(documents as usize, 0);
        Ok(self.blots_of)
    }

    /// Writes all keys in memory as a run: sorts the buckets in parallel, and writes them in order.
    pub(super) fn spill(&mut self) -> Result<()> {
        let counts = BlotCounts::new(self.in_memory.clone());
        let pool = parallel::pool(self.threads);
        let mut file = self
            .file
            .take()
            .map_or_else(|| TempFile::new(&self.directory), Ok)?;
        let mut run = KeyRunTable {
            starts: vec![file.bytes()],
            keys: Vec::with_capacity(SLICES),
        };
        pack_buckets(&pool, &mut self.buckets, self.bits, &counts, |packed| {
            file.append(&packed.bytes)?;
            run.push(packed);
            Ok(())
        })?;
        self.file = Some(file);
        counts.add_to(&mut self.blots_of);
        self.runs.push(run);
        self.in_memory.start = self.in_memory.end;
        self.keys = 0;
        return_free_memory();
        Ok(())
    }
}

/// Sorts and packs buckets on the threads of the pool, and passes them to `sink` in order.
///
/// Memory: the packed keys of [`GROUP_PER_THREAD`] buckets for each thread.
fn pack_buckets<K: Key>(
    pool: &Pool,
    buckets: &mut [KeyBucket<K>],
    bits: u8,
    counts: &BlotCounts,
    mut sink: impl FnMut(&PackedBucket) -> Result<()>,
) -> Result<()> {
    let pack = |bucket: &mut KeyBucket<K>| PackedBucket::of(&bucket.sorted(counts), bits);
    for group in buckets.chunks_mut(GROUP_PER_THREAD * pool.threads()) {
        let packed: Vec<_> = pool.install(|| group.par_iter_mut().map(pack).collect());
        packed.iter().try_for_each(&mut sink)?;
    }
    Ok(())
}

/// Returns freed memory to the system: the documents need more and more beside the postings.
fn return_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim takes a number and does not touch memory in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The number of possible blots of a slice.
fn slice_width(bits: u8) -> u64 {
    1 << (bits - SLICES.trailing_zeros() as u8)
}

/// The least and the greatest blot of some slices.
pub fn blots_of(slices: &Range<usize>, bits: u8) -> (u64, u64) {
    let width = slice_width(bits);
    (
        slices.start as u64 * width,
        (slices.end - 1) as u64 * width + (width - 1),
    )
}
