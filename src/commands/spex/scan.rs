//! Finds the chunks of new documents in the stored tokens of all others.

use crate::{
    base::{error::Result, num::ToUsize, parallel},
    blot::ordered_windows,
    index::TokenStore,
};

/// Bits of the filter for each blot of a [`BlotSet`].
const FILTER_BITS: usize = 64;

/// A set of blots. Most look-ups touch one bit.
pub struct BlotSet {
    blots: Vec<u64>,
    filter: Vec<u64>,
    /// The bit of a blot is the blot without this many lower bits.
    shift: u32,
}

impl BlotSet {
    /// The set of some blots of `bits` bits.
    pub fn new(mut blots: Vec<u64>, bits: u8) -> Self {
        blots.sort_unstable();
        blots.dedup();
        let log = (FILTER_BITS * blots.len()).max(64).ilog2() + 1;
        let log = log.min(u32::from(bits));
        let shift = u32::from(bits) - log;
        let mut filter = vec![0; 1 << log.saturating_sub(6)];
        for blot in &blots {
            let bit = blot >> shift;
            filter[(bit / 64).to_usize()] |= 1 << (bit % 64);
        }
        Self {
            blots,
            filter,
            shift,
        }
    }

    /// Whether the set has a blot.
    pub fn contains(&self, blot: u64) -> bool {
        let bit = blot >> self.shift;
        self.filter[(bit / 64).to_usize()] >> (bit % 64) & 1 == 1
            && self.blots.binary_search(&blot).is_ok()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.blots.is_empty()
    }
}

/// How stored tokens become blots, and which are looked for.
pub struct TokenScan<'a> {
    pub store: &'a TokenStore,
    pub wanted: &'a BlotSet,
    /// The number of tokens of a chunk.
    pub length: usize,
    pub bits: u8,
    /// Whether the tokens of a content are still there.
    pub is_live: &'a (dyn Fn(usize) -> bool + Sync),
    pub threads: usize,
}

/// Contents that have some of the wanted blots, each with these blots in rising order.
pub type FoundBlots = Vec<(usize, Vec<u64>)>;

impl TokenScan<'_> {
    /// Passes on what the contents of each frame have of the wanted blots, in order.
    pub fn run(&self, mut sink: impl FnMut(FoundBlots) -> Result<()>) -> Result<()> {
        let worker = || {
            let mut chunks = Vec::new();
            move |frame: usize| self.find(frame, &mut chunks)
        };
        let frames = 0..self.store.frames();
        parallel::ordered_items(self.threads, frames, worker, |found: Result<_>| {
            sink(found?)
        })
    }

    fn find(&self, frame: usize, chunks: &mut Vec<u64>) -> Result<FoundBlots> {
        let (mut found, shift) = (Vec::new(), 64 - u32::from(self.bits));
        self.store.for_each_content(frame, |content, hashes| {
            if !(self.is_live)(content) {
                return;
            }
            chunks.clear();
            // All chunks, not only those with words of the new documents: narrow blots of different
            // chunks may be equal, and a full run would take them for shared.
            ordered_windows(hashes, self.length, chunks);
            let blots = chunks.iter().map(|chunk| chunk >> shift);
            let mut blots: Vec<u64> = blots.filter(|&blot| self.wanted.contains(blot)).collect();
            if !blots.is_empty() {
                blots.sort_unstable();
                blots.dedup();
                found.push((content, blots));
            }
        })?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_has_its_blots_and_no_others(blots in prop::collection::btree_set(any::<u16>(), 0..90), others: Vec<u16>, wide: bool) {
            let bits = if wide { 40 } else { 16 };
            let spread = |blot: &u16| if wide { u64::from(*blot).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24 } else { u64::from(*blot) };
            let set = BlotSet::new(blots.iter().map(spread).collect(), bits);
            prop_assert_eq!(set.is_empty(), blots.is_empty());
            for blot in blots.iter().chain(&others) {
                prop_assert_eq!(set.contains(spread(blot)), blots.contains(blot));
            }
        }
    }
}
