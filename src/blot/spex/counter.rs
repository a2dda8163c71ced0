//! A hash counter: for each field whether it was hit not at all, once, or more often.
//!
//! What is counted is known by its hash only; two that hit one field are taken for one, so that a counter may say "more than once" of what was
//! counted once, and never the other way round. Fields are found by the top bits of a hash, which the top bits of a blot are, too.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A word has this many fields: a bit each for "hit" in its lower half, and for "hit again" in its upper half.
const FIELDS_OF_WORD: u64 = 32;
/// So many hashes are worked on together: their words are asked for before the first is needed.
const BATCH: usize = 64;
/// A field takes this many bits.
const FIELD_BITS: u64 = 2;

/// May be counted into by many threads at once: the order does not matter.
#[derive(Debug)]
pub struct ChunkCounter {
    words: Vec<AtomicU64>,
    /// A field is what is left of a hash without so many of its lower bits.
    shift: u32,
}

/// How many fields were hit once, and more often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Occupancy {
    pub once: u64,
    pub more: u64,
}

impl ChunkCounter {
    /// As many fields as fit into so many bytes, a power of two: 64 MiB have 2^28.
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

    /// Fields are found by so many of the top bits of a hash.
    pub fn bits(&self) -> u32 {
        64 - self.shift
    }

    pub fn fields(&self) -> u64 {
        1 << self.bits()
    }

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
                // Most of what repeats does so often: then nothing is written.
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

    /// The words of some hashes. No load waits for another.
    fn words_of(&self, batch: &[u64]) -> [u64; BATCH] {
        let mut words = [0; BATCH];
        words
            .iter_mut()
            .zip(batch)
            .for_each(|(word, &hash)| *word = self.place(hash).0.load(Relaxed));
        words
    }

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

    /// For each 32 fields, from the first, a bit each if it was hit more than once.
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
        /// What was counted twice is known to be; what was counted once is only if another hit its field.
        #[test]
        fn nothing_repeated_is_missed(hashes in prop::collection::vec(0_u64..200, 0..300), threads in 1_usize..4) {
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
