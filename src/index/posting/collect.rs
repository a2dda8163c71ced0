//! Takes postings as documents come, bucket by bucket, and spills them sorted when memory is full.

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

/// Keys of a bucket come in pieces of this many: a bucket that grows copies nothing.
const PIECE: usize = 4096;
/// Buckets that a thread sorts, on average, before they are written.
const GROUP_PER_THREAD: usize = 8;
/// Runs know where each of this many ranges starts, so that they can be merged range by range.
pub const SLICES: usize = 16 * BUCKETS;

/// The postings of some documents, sorted by bucket; a worker makes them.
#[derive(Debug, Default)]
pub struct Postings<K> {
    keys: Vec<K>,
    /// Where each bucket ends.
    ends: Vec<u32>,
}

impl<K: Key> Postings<K> {
    /// Sorts the blots of documents, numbered from 0, by bucket: counting, then placing. `ends` says where those of each document end.
    pub fn new(blots: &[u64], ends: &[usize], bits: u8) -> Self {
        let mut starts = [0_u32; BUCKETS + 1];
        for &blot in blots {
            starts[bucket_of(blot, bits) + 1] += 1;
        }
        for bucket in 0..BUCKETS {
            starts[bucket + 1] += starts[bucket];
        }
        let (mut placed, mut start) = (vec![K::default(); blots.len()], 0);
        for (number, &end) in (0..).zip(ends) {
            for &blot in &blots[start..end] {
                let at = &mut starts[bucket_of(blot, bits)];
                placed[*at as usize] = K::new(blot, number);
                *at += 1;
            }
            start = end;
        }
        // Each start has moved on to its bucket's end.
        Self {
            keys: placed,
            ends: starts[..BUCKETS].to_vec(),
        }
    }

    /// Numbers the documents anew; those that get no number are dropped.
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
    /// Where runs are, once there is one.
    pub(super) file: Option<TempFile>,
    pub(super) threads: usize,
    pub(super) directory: TempDir,
    /// How many blots each document has, of those that are in a run.
    pub(super) blots_of: Vec<u32>,
    /// Where the documents are that are in no run yet. Each is in one only.
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

    /// All keys in order, each once, and counted. The pieces are given back.
    pub fn sorted(&mut self, tally: &BlotCounts) -> Vec<K> {
        let mut keys = sorted(&std::mem::take(&mut self.pieces));
        keys.dedup();
        tally.count(&keys);
        keys
    }
}

/// Sorted postings on disk: a stretch for each slice. All runs are in one file.
#[derive(Debug)]
pub(super) struct KeyRunTable {
    /// Where each slice starts, and where the last one ends.
    pub starts: Vec<u64>,
    /// How many keys each slice has.
    pub keys: Vec<u32>,
}

impl KeyRunTable {
    /// Where some slices are in the file.
    pub fn place(&self, slices: &Range<usize>) -> Range<u64> {
        self.starts[slices.start]..self.starts[slices.end]
    }

    pub fn keys(&self, slices: &Range<usize>) -> u64 {
        self.keys[slices.clone()]
            .iter()
            .map(|&keys| u64::from(keys))
            .sum()
    }

    /// The next bucket was written.
    pub fn push(&mut self, packed: &PackedBucket) {
        let mut at = self.starts.last().copied().unwrap_or_default();
        for &(length, keys) in &packed.slices {
            at += length as u64;
            self.starts.push(at);
            self.keys.push(keys);
        }
    }
}

/// The keys of a bucket as they go to disk, with the length and the number of keys of each slice.
pub(super) struct PackedBucket {
    pub bytes: Vec<u8>,
    pub slices: Vec<(usize, u32)>,
}

impl PackedBucket {
    fn of<K: Key>(keys: &[K], bits: u8) -> Self {
        let (mut bytes, mut rest) = (Vec::new(), keys);
        let width = slice_width(bits);
        // The first bucket's slices have the same keys as any other's, but for the bits of the bucket.
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
    /// Keeps about `memory_bytes` of postings before they are spilled.
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

    /// From now on keeps about so much.
    pub fn keep(&mut self, memory_bytes: u64) {
        self.keys_limit = (memory_bytes / size_of::<K>() as u64).max(1);
    }

    /// Takes the postings of some documents, each under a new number, higher than those before; those that get none are left out.
    pub fn add(&mut self, postings: &Postings<K>, numbers: &[Option<u32>]) -> Result<()> {
        let number_of = |number: u32| numbers.get(number as usize).copied().flatten();
        if let Some(last) = numbers.iter().rev().find_map(|&number| number) {
            self.in_memory.end = last + 1;
        }
        for (bucket, into) in self.buckets.iter_mut().enumerate() {
            let kept = postings.bucket(bucket).iter();
            into.extend(kept.filter_map(|key| {
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

    /// Writes all postings as files of sorted runs, one for each range of buckets; gives how many blots each of so many documents has.
    pub fn write_runs(
        mut self,
        documents: u32,
        scheme: &BlotScheme,
        files: &[(PathBuf, Range<usize>)],
    ) -> Result<Vec<u32>> {
        let bits = self.bits;
        let tally = BlotCounts::new(self.in_memory.clone());
        let pool = parallel::pool(self.threads);
        for (path, buckets) in files {
            let mut out = RunWriter::create(path, scheme, buckets.clone(), documents)?;
            for (run, file) in self.runs.iter().zip(std::iter::repeat(&self.file)) {
                file.as_ref().map_or(Ok(()), |file| out.copy(run, file))?;
            }
            out.start();
            let range = &mut self.buckets[buckets.clone()];
            pack_buckets(&pool, range, bits, &tally, |packed| out.push(packed))?;
            out.finish()?;
        }
        tally.add_to(&mut self.blots_of);
        self.blots_of.resize(documents as usize, 0);
        Ok(self.blots_of)
    }

    /// Writes what is in memory as a run: buckets are sorted in parallel, and written in order.
    pub(super) fn spill(&mut self) -> Result<()> {
        let tally = BlotCounts::new(self.in_memory.clone());
        let pool = parallel::pool(self.threads);
        let mut file = self
            .file
            .take()
            .map_or_else(|| TempFile::new(&self.directory), Ok)?;
        let mut run = KeyRunTable {
            starts: vec![file.bytes()],
            keys: Vec::with_capacity(SLICES),
        };
        pack_buckets(&pool, &mut self.buckets, self.bits, &tally, |packed| {
            file.append(&packed.bytes)?;
            run.push(packed);
            Ok(())
        })?;
        self.file = Some(file);
        tally.add_to(&mut self.blots_of);
        self.runs.push(run);
        self.in_memory.start = self.in_memory.end;
        self.keys = 0;
        give_back_memory();
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
    tally: &BlotCounts,
    mut sink: impl FnMut(&PackedBucket) -> Result<()>,
) -> Result<()> {
    let pack = |bucket: &mut KeyBucket<K>| PackedBucket::of(&bucket.sorted(tally), bits);
    for group in buckets.chunks_mut(GROUP_PER_THREAD * pool.threads()) {
        let packed: Vec<_> = pool.install(|| group.par_iter_mut().map(pack).collect());
        packed.iter().try_for_each(&mut sink)?;
    }
    Ok(())
}

/// Makes the allocator give back what was freed between other things: documents need more and more room beside the postings.
fn give_back_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes a number, and moves nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// How many blots a slice may have.
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
