//! Repeats in the order in which they are listed, on disk.

use super::repeat::{MaximalRepeat, RepeatPlace};
use crate::{
    base::{
        error::Result,
        files::{Mapping, TempDir, TempFile},
        num::{ToU32, ToU64, ToUsize},
    },
    index::posting::Buckets,
};

/// The number of classes per octave, as a power of two.
const CLASS_BITS: u32 = 3;
const CLASSES: usize = (64 - CLASS_BITS as usize + 1) << CLASS_BITS;

/// The class of a weight; the first class has the greatest weights.
fn class_of(weight: u64) -> usize {
    let octave = (weight | 1 << CLASS_BITS).ilog2() - CLASS_BITS;
    CLASSES - 1 - ((octave.to_usize() << CLASS_BITS) + (weight >> octave).to_usize())
}

/// A repeat as a record that sorts by falling weight, then by the first place, then by falling
/// length. `offset`: where its places begin among all places.
fn to_record(repeat: &MaximalRepeat, offset: u64) -> [u64; 5] {
    let tokens = u64::from(repeat.tokens);
    [
        !(tokens * repeat.copies),
        repeat.start,
        !tokens,
        offset,
        repeat.count.to_u64() << 32 | u64::from(repeat.before),
    ]
}

/// Collects repeats by classes of weight.
pub struct RepeatRanker {
    by_weight: Buckets<5>,
    places: TempFile,
}

impl RepeatRanker {
    /// Collects repeats within this much memory; the rest is on disk.
    pub fn new(memory_bytes: u64) -> Result<Self> {
        Ok(Self {
            by_weight: Buckets::new(CLASSES, memory_bytes, TempDir(None)),
            places: TempFile::new(&TempDir(None))?,
        })
    }

    /// Adds repeats, each with the index of its first place in `places`.
    pub fn add(&mut self, repeats: &[(MaximalRepeat, u64)], places: &[[u8; 8]]) -> Result<()> {
        let base = self.places.append(places.as_flattened())?.start / 8;
        for (repeat, offset) in repeats {
            let class = class_of(u64::from(repeat.tokens) * repeat.copies);
            self.by_weight.push(class, to_record(repeat, base + offset));
        }
        self.by_weight.settle()
    }

    /// All repeats, ready to be listed.
    pub fn finish(self) -> Result<RankedRepeats> {
        Ok(RankedRepeats {
            by_weight: self.by_weight,
            places: self.places.map()?,
        })
    }
}

/// Repeats by falling weight, and their places.
pub struct RankedRepeats {
    by_weight: Buckets<5>,
    places: Mapping,
}

impl RankedRepeats {
    /// The number of repeats.
    pub fn len(&self) -> u64 {
        (0..self.by_weight.len())
            .map(|class| self.by_weight.bytes(class) / size_of::<[u64; 5]>().to_u64())
            .sum()
    }

    /// Whether there are no repeats.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `each` with every repeat, the heaviest first.
    pub fn for_each(&self, mut each: impl FnMut(RankedRepeat<'_>) -> Result<()>) -> Result<()> {
        let places = self.places.as_chunks().0;
        for class in 0..self.by_weight.len() {
            let mut records = self.by_weight.take(class)?;
            records.sort_unstable();
            for record in records {
                each(RankedRepeat::new(record, places))?;
            }
        }
        Ok(())
    }
}

/// A repeat and its places.
pub struct RankedRepeat<'p> {
    /// The number of tokens.
    pub tokens: u32,
    places: &'p [[u8; 8]],
    before: u64,
}

impl<'p> RankedRepeat<'p> {
    fn new([_, _, tokens, offset, count]: [u64; 5], places: &'p [[u8; 8]]) -> Self {
        let offset = offset.to_usize();
        Self {
            tokens: (!tokens).to_u32(),
            places: &places[offset..offset + (count >> 32).to_usize()],
            before: count & u64::from(u32::MAX),
        }
    }

    /// Each place.
    pub fn places(&self) -> impl Iterator<Item = RepeatPlace> {
        self.places.iter().map(|place| {
            let place = RepeatPlace::from_bytes(*place);
            RepeatPlace {
                at: place.at - self.before,
                ..place
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_in_order_of_falling_weight() {
        let weights: Vec<u64> = (0..2000)
            .chain((3..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, 3 << (bit - 1)]))
            .chain([u64::MAX])
            .collect();
        for (one, two) in weights
            .iter()
            .flat_map(|one| weights.iter().map(move |two| (one, two)))
            .filter(|(one, two)| one < two)
        {
            assert!(
                class_of(*one) >= class_of(*two) && class_of(*one) < CLASSES,
                "{one} {two}"
            );
        }
    }
}
