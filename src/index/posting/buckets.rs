//! Fixed-width records in buckets, spilled to disk when they exceed the memory.

use crate::base::{
    error::Result,
    files::{TempDir, TempFile},
};
use std::ops::Range;

/// Buckets of records of `W` words each. A bucket returns its records in any order: the caller
/// sorts.
///
/// Memory: about `limit_bytes`, and some 50 bytes per bucket for each spill.
pub struct Buckets<const W: usize> {
    buckets: Vec<RecordBucket<W>>,
    held: usize,
    held_limit: usize,
    directory: TempDir,
    file: Option<TempFile>,
}

#[derive(Default)]
struct RecordBucket<const W: usize> {
    records: Vec<[u64; W]>,
    spilled: Vec<Range<u64>>,
}

impl<const W: usize> Buckets<W> {
    /// This many empty buckets, which spill to `directory`.
    pub fn new(buckets: usize, limit_bytes: u64, directory: TempDir) -> Self {
        // A growing vector may reserve twice as much as it holds.
        let held_limit = usize::try_from(limit_bytes / (16 * W as u64)).unwrap_or(usize::MAX);
        let buckets = (0..buckets)
            .map(|_| RecordBucket {
                records: Vec::new(),
                spilled: Vec::new(),
            })
            .collect();
        Self {
            buckets,
            held: 0,
            held_limit,
            directory,
            file: None,
        }
    }

    /// The number of buckets.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Whether there are no buckets.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Adds a record to a bucket.
    pub fn push(&mut self, bucket: usize, record: [u64; W]) {
        self.buckets[bucket].records.push(record);
        self.held += 1;
    }

    /// Spills all records if they exceed the memory.
    pub fn settle(&mut self) -> Result<()> {
        if self.held <= self.held_limit {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(TempFile::new(&self.directory)?),
        };
        let mut bytes = Vec::new();
        for bucket in self
            .buckets
            .iter_mut()
            .filter(|bucket| !bucket.records.is_empty())
        {
            bytes.clear();
            bytes.extend(
                bucket
                    .records
                    .as_flattened()
                    .iter()
                    .map(|word| word.to_le_bytes()),
            );
            bucket.spilled.push(file.append(bytes.as_flattened())?);
            bucket.records = Vec::new();
        }
        self.held = 0;
        Ok(())
    }

    /// The size of all records of a bucket.
    pub fn bytes(&self, bucket: usize) -> u64 {
        let RecordBucket { records, spilled } = &self.buckets[bucket];
        size_of_val(&records[..]) as u64
            + spilled
                .iter()
                .map(|range| range.end - range.start)
                .sum::<u64>()
    }

    /// All records of a bucket. Frees its room on disk, so each bucket can be taken once.
    pub fn take(&self, bucket: usize) -> Result<Vec<[u64; W]>> {
        let RecordBucket { records, spilled } = &self.buckets[bucket];
        let mut taken = Vec::with_capacity((self.bytes(bucket) / (8 * W as u64)) as usize);
        taken.extend_from_slice(records);
        for (range, file) in spilled.iter().zip(std::iter::repeat(&self.file)) {
            let Some(file) = file else { continue };
            let mut bytes = vec![0; (range.end - range.start) as usize];
            file.read_at(&mut bytes, range.start)?;
            let (words, _) = bytes.as_chunks::<8>();
            let (records, _) = words.as_chunks::<W>();
            taken.extend(records.iter().map(|record| record.map(u64::from_le_bytes)));
            file.release(range);
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_do_not_depend_on_the_memory() {
        let fill = |limit_bytes| {
            let mut buckets = Buckets::<2>::new(3, limit_bytes, TempDir(None));
            for number in 0..100 {
                buckets.push(number as usize % 2, [number, number << 40]);
                buckets.settle().unwrap();
            }
            assert_eq!(
                (0..3)
                    .map(|bucket| buckets.bytes(bucket))
                    .collect::<Vec<_>>(),
                [800, 800, 0]
            );
            let sorted = |bucket| {
                let mut records = buckets.take(bucket).unwrap();
                records.sort_unstable();
                records
            };
            [0, 1, 2].map(sorted)
        };
        let all = fill(1 << 20);
        assert_eq!(all[1][1], [3, 3 << 40]);
        assert_eq!([fill(0), fill(500)], [all.clone(), all]);
    }
}
