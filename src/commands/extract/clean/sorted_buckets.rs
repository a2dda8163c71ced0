//! Records of a few words, sorted outside of memory.

use crate::base::{
    error::Result,
    files::{TempDir, TempFile},
    num::ToUsize,
};
use std::ops::Range;

/// Records in 256 buckets, which are sorted one by one.
///
/// Memory: 64 KiB a bucket while records are pushed, one bucket while it is taken. All else is in a temporary file, which has no name.
pub struct SortedBuckets<const WORDS: usize> {
    directory: TempDir,
    /// Made when a buffer is full for the first time.
    file: Option<TempFile>,
    buckets: Vec<Bucket<WORDS>>,
}

#[derive(Default, Clone)]
struct Bucket<const WORDS: usize> {
    buffer: Vec<[u64; WORDS]>,
    stored: Vec<Range<u64>>,
}

const BUFFER_BYTES: usize = 1 << 16;

impl<const WORDS: usize> SortedBuckets<WORDS> {
    pub const COUNT: usize = 256;

    /// `directory`: for the temporary file.
    pub fn new(directory: &TempDir) -> Self {
        let bucket = Bucket {
            buffer: Vec::new(),
            stored: Vec::new(),
        };
        Self {
            directory: directory.clone(),
            file: None,
            buckets: vec![bucket; Self::COUNT],
        }
    }

    pub fn push(&mut self, bucket: usize, record: [u64; WORDS]) -> Result<()> {
        let bucket = &mut self.buckets[bucket];
        bucket.buffer.push(record);
        if bucket.buffer.len() < BUFFER_BYTES / (WORDS * size_of::<u64>()) {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(TempFile::new(&self.directory)?),
        };
        let bytes: Vec<u8> = bucket
            .buffer
            .iter()
            .flatten()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        bucket.buffer.clear();
        bucket.stored.push(file.append(&bytes)?);
        Ok(())
    }

    /// All records of a bucket, in rising order. The bucket is empty then.
    pub fn take(&mut self, bucket: usize) -> Result<Vec<[u64; WORDS]>> {
        let Bucket { buffer, stored } = std::mem::take(&mut self.buckets[bucket]);
        let mut records = buffer;
        let mut bytes = Vec::new();
        for (file, range) in self
            .file
            .iter()
            .flat_map(|file| stored.iter().map(move |range| (file, range)))
        {
            bytes.resize((range.end - range.start).to_usize(), 0);
            file.read_at(&mut bytes, range.start)?;
            file.release(range);
            records.extend(bytes.chunks_exact(WORDS * size_of::<u64>()).map(|record| {
                let mut words = record.chunks_exact(size_of::<u64>());
                std::array::from_fn(|_| {
                    let word = words.next().unwrap_or_default();
                    u64::from_le_bytes(word.try_into().unwrap_or_default())
                })
            }));
        }
        records.sort_unstable();
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn every_record_comes_back_in_order(seed: u64, count in 0_u64..20_000) {
            let records: Vec<[u64; 2]> = (0..count).map(|n| [n.wrapping_mul(seed | 1) % 97, n]).collect();
            let mut buckets = SortedBuckets::<2>::new(&TempDir(None));
            for record in &records {
                buckets.push((record[0] % 2).to_usize(), *record).unwrap();
            }
            for bucket in 0..2 {
                let mut expected: Vec<_> = records.iter().copied().filter(|record| record[0] % 2 == bucket).collect();
                expected.sort_unstable();
                prop_assert_eq!(buckets.take(bucket.to_usize()).unwrap(), expected);
            }
        }
    }
}
