//! Takes postings as documents come, bucket by bucket, and spills them sorted when memory is full.

use super::{
    key::{BUCKETS, Key, bucket_of},
    spill::{Spill, TempDir},
};
use crate::{
    error::{Error, Result},
    parallel::{self, Limits, Weighted},
};
use std::ops::Range;

/// Keys of a bucket come in pieces of this many: a bucket that grows copies nothing.
const PIECE: usize = 4096;
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
    /// Sorts keys by bucket: counting, then placing.
    pub fn new(keys: &[K], bits: u8) -> Self {
        let mut starts = [0_u32; BUCKETS + 1];
        for key in keys {
            starts[bucket_of(key.blot(), bits) + 1] += 1;
        }
        for bucket in 0..BUCKETS {
            starts[bucket + 1] += starts[bucket];
        }
        let mut placed = vec![K::default(); keys.len()];
        for &key in keys {
            let at = &mut starts[bucket_of(key.blot(), bits)];
            placed[*at as usize] = key;
            *at += 1;
        }
        // Each start has moved on to its bucket's end.
        Self { keys: placed, ends: starts[..BUCKETS].to_vec() }
    }

    pub fn keys(&self) -> &[K] {
        &self.keys
    }

    fn bucket(&self, bucket: usize) -> &[K] {
        if self.keys.is_empty() {
            return &[];
        }
        let start = if bucket == 0 { 0 } else { self.ends[bucket - 1] };
        &self.keys[start as usize..self.ends[bucket] as usize]
    }
}

/// All postings of a commit.
pub struct Collector<K> {
    pub(super) bits: u8,
    pub(super) buckets: Vec<Bucket<K>>,
    pub(super) runs: Vec<Run<K>>,
    pub(super) limits: Limits,
    pub(super) directory: TempDir,
    keys: u64,
    keys_limit: u64,
}

#[derive(Default)]
pub(super) struct Bucket<K> {
    pieces: Vec<Vec<K>>,
}

impl<K: Key> Bucket<K> {
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

    /// All keys in order, each once. The pieces are given back.
    pub fn sorted(&mut self) -> Vec<K> {
        let mut keys = std::mem::take(&mut self.pieces).concat();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// Sorted postings on disk.
pub(super) struct Run<K> {
    spill: Spill<K>,
    /// Where each slice starts, and where the last one ends.
    starts: Vec<u64>,
}

impl<K: Key> Run<K> {
    pub fn read(&self, slices: &Range<usize>, out: &mut Vec<K>) -> Result<()> {
        self.spill.read(self.starts[slices.start]..self.starts[slices.end], out)
    }

    pub fn keys(&self, slices: &Range<usize>) -> u64 {
        self.starts[slices.end] - self.starts[slices.start]
    }
}

impl<K: Key> Collector<K> {
    /// Keeps about `memory_bytes` of postings before they are spilled.
    pub fn new(bits: u8, memory_bytes: u64, threads: usize, directory: TempDir) -> Self {
        let buckets = (0..BUCKETS).map(|_| Bucket { pieces: Vec::new() }).collect();
        let keys_limit = (memory_bytes / size_of::<K>() as u64).max(1);
        Self { bits, buckets, runs: Vec::new(), limits: Limits::new(threads, 2 * threads as u64), directory, keys: 0, keys_limit }
    }

    /// Takes the postings of some documents, each under a new number; those that get none are left out.
    pub fn add(&mut self, postings: &Postings<K>, number_of: impl Fn(u32) -> Option<u32>) -> Result<()> {
        for (bucket, into) in self.buckets.iter_mut().enumerate() {
            let kept = postings.bucket(bucket).iter();
            into.extend(kept.filter_map(|key| number_of(key.number()).map(|number| K::new(key.blot(), number))));
        }
        self.keys += postings.keys.len() as u64;
        if self.keys >= self.keys_limit { self.spill() } else { Ok(()) }
    }

    /// Writes what is in memory as a run: buckets are sorted in parallel, and written in order.
    pub(super) fn spill(&mut self) -> Result<()> {
        let (bits, limits) = (self.bits, self.limits);
        let (mut spill, mut starts) = (Spill::new(&self.directory)?, Vec::with_capacity(SLICES + 1));
        let buckets = self.buckets.iter_mut().map(|bucket| Ok::<_, Error>(Weighted { item: bucket, bytes: 1 }));
        parallel::ordered(
            limits,
            buckets,
            || |bucket: &mut Bucket<K>| bucket.sorted(),
            |_| 1,
            |keys| {
                let bucket = starts.len() / (SLICES / BUCKETS);
                let written = spill.write(&keys)?;
                for slice in 0..SLICES / BUCKETS {
                    let first = first_blot(bucket * (SLICES / BUCKETS) + slice, bits);
                    starts.push(written.start + keys.partition_point(|key| key.blot() < first) as u64);
                }
                Ok(())
            },
        )?;
        starts.push(spill.write(&[])?.end);
        self.runs.push(Run { spill, starts });
        self.keys = 0;
        Ok(())
    }
}

/// The least blot of a slice.
fn first_blot(slice: usize, bits: u8) -> u64 {
    (slice as u64) << (bits - SLICES.trailing_zeros() as u8)
}

/// The least and the greatest blot of some slices.
pub fn blots_of(slices: &Range<usize>, bits: u8) -> (u64, u64) {
    let width = 1_u64 << (bits - SLICES.trailing_zeros() as u8);
    (first_blot(slices.start, bits), first_blot(slices.end - 1, bits) + (width - 1))
}
