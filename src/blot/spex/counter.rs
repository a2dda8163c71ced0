//! A hash counter: each field counts to zero, one, or more.
//!
//! The counter does not resolve collisions: two hashes of the same field count as one. It may
//! therefore report "more than once" for a hash that was counted once, but never the other way
//! round. The top bits of a hash select its field, and are also the top bits of the blot.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A word has this many fields: for each a bit "hit" in the lower half, and a bit "hit again" in
/// the upper half.
const FIELDS_OF_WORD: u64 = 32;
/// Hashes are counted in batches of this many: all words are loaded before the first is used.
const BATCH: usize = 64;
/// The bits of a field.
const FIELD_BITS: u64 = 2;

/// Counts hashes. Many threads may count at once: the order does not affect the result.
#[derive(Debug)]
pub struct ChunkCounter {
    words: Vec<AtomicU64>,
    /// The field of a hash is the hash without this many lower bits.
    shift: u32,
}

/// The number of fields by their counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Occupancy {
    /// Fields that were hit once.
    pub once: u64,
    /// Fields that were hit more than once.
    pub more: u64,
}

impl ChunkCounter {
    /// As many fields as fit into `bytes`, a power of two: 2^28 for 64 MiB.
    pub fn new(bytes: u64) -> Self {
        let fields = (bytes * 8 / FIELD_BITS).clamp(FIELDS_OF_WORD, 1 << 40);
        let bits = fields.ilog2();
        let words = (0..(1_u64 << bits) / FIELDS_OF_WORD)
            .map(|_| AtomicU64::new(0))
            .collect();
        Self {
            words,
            shift: 64 - bits,
        }
    }

    /// The number of top bits of a hash that select a field.
    pub fn bits(&self) -> u32 {
        64 - self.shift
    }

    /// The number of fields.
    pub fn fields(&self) -> u64 {
        1 << self.bits()
    }

    /// The word of a hash, and the bit of its field.
    fn place(&self, hash: u64) -> (&AtomicU64, u64) {
        let field = hash >> self.shift;
        (
            &self.words[(field / FIELDS_OF_WORD) as usize],
            1 << (field % FIELDS_OF_WORD),
        )
    }

    /// Counts each hash once more.
    pub fn count(&self, hashes: &[u64]) {
        for batch in hashes.chunks(BATCH) {
            let before = self.words_of(batch);
            for (&hash, before) in batch.iter().zip(before) {
                let (word, hit) = self.place(hash);
                let again = hit << FIELDS_OF_WORD;
                // Most repeated hashes repeat often: then nothing is written.
                if before & again == 0
                    && (before & hit != 0 || word.fetch_or(hit, Relaxed) & hit != 0)
                {
                    word.fetch_or(again, Relaxed);
                }
            }
        }
    }

    /// Replaces `out` by whether each hash was counted more than once.
    pub fn repeated(&self, hashes: &[u64], out: &mut Vec<bool>) {
        out.clear();
        for batch in hashes.chunks(BATCH) {
            let words = self.words_of(batch);
            out.extend(
                batch
                    .iter()
                    .zip(words)
                    .map(|(&hash, word)| word & (self.place(hash).1 << FIELDS_OF_WORD) != 0),
            );
        }
    }

    /// The words of some hashes. The loads do not depend on each other.
    fn words_of(&self, batch: &[u64]) -> [u64; BATCH] {
        let mut words = [0; BATCH];
        words
            .iter_mut()
            .zip(batch)
            .for_each(|(word, &hash)| *word = self.place(hash).0.load(Relaxed));
        words
    }

    /// The number of fields by their counts.
    pub fn occupancy(&self) -> Occupancy {
        let mut occupancy = Occupancy::default();
        for word in &self.words {
            let word = word.load(Relaxed);
            let more = u64::from((word >> FIELDS_OF_WORD).count_ones());
            occupancy.more += more;
            occupancy.once += u64::from((word as u32).count_ones()) - more;
        }
        occupancy
    }

    /// For each 32 fields, a bit for each that was hit more than once.
    pub fn repeats(&self) -> impl Iterator<Item = u32> {
        self.words
            .iter()
            .map(|word| (word.load(Relaxed) >> FIELDS_OF_WORD) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parallel::pool;
    use proptest::prelude::*;
    use rayon::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn sizes_are_powers_of_two() {
        assert_eq!(
            [0, 8, 9, 64 << 20, 100 << 20].map(|bytes| ChunkCounter::new(bytes).bits()),
            [5, 5, 5, 28, 28]
        );
    }

    proptest! {
        /// Reports each hash that was counted twice, and others only if their fields were hit
        /// twice.
        #[test]
        fn all_repeated_hashes_are_found(hashes in prop::collection::vec(0_u64..200, 0..300), threads in 1_usize..4) {
            let hashes: Vec<u64> = hashes.iter().map(|hash| hash.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
            let counter = ChunkCounter::new(16);
            let share = hashes.len().div_ceil(threads).max(1);
            pool(threads).install(|| hashes.par_chunks(share).for_each(|share| counter.count(share)));
            let mut fields: HashMap<u64, u64> = HashMap::new();
            hashes.iter().for_each(|hash| *fields.entry(hash >> 58).or_default() += 1);
            let mut repeated = Vec::new();
            counter.repeated(&hashes, &mut repeated);
            prop_assert_eq!(repeated, hashes.iter().map(|hash| fields[&(hash >> 58)] > 1).collect::<Vec<_>>());
            let count = |is: fn(u64) -> bool| fields.values().filter(|&&hits| is(hits)).count() as u64;
            prop_assert_eq!(counter.occupancy(), Occupancy { once: count(|hits| hits == 1), more: count(|hits| hits > 1) });
        }
    }
}
