//! The table of a part in a segment: from address to entries, in about 4.25 bytes an entry.
//!
//! ```text
//! directory: where the slots of each address begin, and the end | buckets: the slots of each
//! address
//! a bucket: the upper half of each slot | the lower half of each | high bits of the entry numbers
//! ```
//!
//! A slot has 32 bits: the rest of the key (its bits that are not in the address) above low bits of
//! the entry number, as many as an address has. So the upper halves rule out nearly all slots,
//! sixteen at a time.
//!
//! The entries of an address are sorted, and so are the high bits of their numbers. These are
//! stored in unary (Elias–Fano): for each possible value a one for each entry that has it, then a
//! zero. With n entries and 2^b addresses there are about n/2^b zeros and as many ones an address:
//! two bits an entry.
//!
//! Buckets begin at whole bytes. Each has up to seven spare bits for that, so that its start can be
//! computed without reading any other: see [`TableLayout::bucket`].

use super::{
    part_keys::{PART_BITS, PartKey},
    scan::NearHalves,
};
use crate::{
    base::{
        error::Result,
        files::Sealed,
        num::{ToU32, ToUsize},
    },
    history::{
        search::{high_half, low_half},
        store::throttle::throttled,
    },
};
use serde::{Deserialize, Serialize};

/// The bits of a slot, and one for its entry in unary.
const SLOT_BITS: u64 = PART_BITS as u64 + 1;
const HALF_BYTES: u64 = 2;
/// The greatest number of address bits.
pub const MAX_ADDRESS_BITS: u32 = 24;
/// Halves that are compared together.
const TOGETHER: u64 = 16;
/// Bytes that can be read after the last bucket.
const PADDING: usize = 64;

/// Where the sections of a table begin.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct TableSections {
    pub directory: u64,
    pub buckets: u64,
}

/// The layout of a table.
#[derive(Debug, Clone, Copy)]
struct TableLayout {
    /// The number of bits of an address, and of the low bits of entry numbers.
    bits: u32,
    /// The number of values of the high bits.
    highs: u64,
}

/// The slots of an address.
#[derive(Debug, Clone, Copy, Default)]
pub struct BucketSlots {
    /// Where its bucket begins.
    at: u64,
    pub start: u32,
    pub end: u32,
}

impl BucketSlots {
    fn count(&self) -> u64 {
        u64::from(self.end - self.start)
    }
}

impl TableLayout {
    #[inline(always)]
    fn new(entries: u32, bits: u32) -> Self {
        Self {
            bits,
            highs: u64::from(entries.saturating_sub(1) >> bits) + 1,
        }
    }

    /// Where the bucket of an address begins, in bytes, if its first slot is `start`. With 33 bits
    /// a slot and h bits for the zeros: ⌈(33·start + (h + 7)·address)/8⌉, which is not before the
    /// end of the previous bucket.
    #[inline(always)]
    fn bucket(self, address: u32, start: u32) -> u64 {
        let bits = u64::from(start) * SLOT_BITS + u64::from(address) * (self.highs + 7);
        bits.div_ceil(8)
    }

    /// Where the upper and the lower half of the n-th slot of a bucket begin.
    #[inline(always)]
    fn halves(slots: &BucketSlots, number: u64) -> [u64; 2] {
        let upper = slots.at + HALF_BYTES * number;
        [upper, upper + HALF_BYTES * slots.count()]
    }

    /// The bit at which the high bits begin.
    #[inline(always)]
    fn first_high(slots: &BucketSlots) -> u64 {
        8 * (slots.at + 2 * HALF_BYTES * slots.count())
    }

    /// A stored slot.
    #[inline(always)]
    fn slot(self, entry: u32, rest: u32) -> u32 {
        rest << self.bits | entry & !self.rest_mask()
    }

    /// The bits of a slot that belong to the rest.
    #[inline(always)]
    fn rest_mask(self) -> u32 {
        u32::MAX << self.bits
    }
}

/// The sections of a table to be written.
#[derive(Debug)]
pub struct BuiltTable {
    pub directory: Vec<u32>,
    pub buckets: Vec<u8>,
}

impl BuiltTable {
    /// A table of `count` entries, with addresses of `bits` bits.
    pub fn new(count: u32, bits: u32, key: impl Fn(u32) -> PartKey) -> Self {
        let mut directory = vec![0_u32; (1 << bits) + 1];
        for entry in throttled(0..count) {
            directory[key(entry).address.to_usize() + 1] += 1;
        }
        throttled(1..directory.len()).for_each(|at| directory[at] += directory[at - 1]);
        // Each slot has its entry in the lower half, and the rest in the upper one.
        let (mut next, mut slots) = (directory.clone(), vec![0_u64; count.to_usize()]);
        for entry in throttled(0..count) {
            let PartKey { address, rest } = key(entry);
            let slot = &mut next[address.to_usize()];
            slots[slot.to_usize()] = u64::from(rest) << 32 | u64::from(entry);
            *slot += 1;
        }
        drop(next);
        let layout = TableLayout::new(count, bits);
        let mut buckets = vec![0; layout.bucket(1 << bits, count).to_usize() + PADDING];
        for (address, ends) in throttled((0..).zip(directory.windows(2))) {
            let (start, end) = (ends[0], ends[1]);
            let of_bucket = BucketSlots {
                at: layout.bucket(address, start),
                start,
                end,
            };
            for (number, &slot) in (0..).zip(&slots[start.to_usize()..end.to_usize()]) {
                let entry = low_half(slot);
                let slot = layout.slot(entry, high_half(slot));
                for (at, half) in TableLayout::halves(&of_bucket, number)
                    .into_iter()
                    .zip([slot >> 16, slot & 0xffff])
                {
                    put_bits(&mut buckets, 8 * at, u64::from(half));
                }
                put_bits(
                    &mut buckets,
                    TableLayout::first_high(&of_bucket) + number + u64::from(entry >> bits),
                    1,
                );
            }
        }
        Self { directory, buckets }
    }
}

/// Sets bits, up to 57 of them, in a place where all are zero and eight bytes can be accessed.
fn put_bits(bytes: &mut [u8], at: u64, bits: u64) {
    if let Some(word) = bytes[at.to_usize() / 8..].first_chunk_mut() {
        *word = (u64::from_le_bytes(*word) | bits << (at % 8)).to_le_bytes();
    }
}

/// How far the high bits of a bucket were read.
#[derive(Debug, Clone, Copy, Default)]
pub struct SlotCursor {
    /// `None` before the first word.
    word: Option<u64>,
    /// The first bit of the word.
    at: u64,
    /// The ones of the bucket before the word.
    seen: u32,
}

/// Reads a table.
#[derive(Clone, Copy)]
pub struct PartTableReader<'t> {
    file: &'t Sealed,
    table: &'t TableSections,
    layout: TableLayout,
}

impl<'t> PartTableReader<'t> {
    #[inline(always)]
    pub fn new(file: &'t Sealed, table: &'t TableSections, entries: u32, bits: u32) -> Self {
        Self {
            file,
            table,
            layout: TableLayout::new(entries, bits),
        }
    }

    #[inline(always)]
    pub fn prefetch_address(self, address: u32) {
        self.file
            .prefetch(self.table.directory + 4 * u64::from(address));
    }

    /// The slots of an address; prefetches their upper halves.
    #[inline(always)]
    pub fn slots(self, address: u32) -> Result<BucketSlots> {
        let both = self.word(self.table.directory + 4 * u64::from(address))?;
        let (start, end) = (low_half(both), high_half(both));
        let slots = BucketSlots {
            at: self.layout.bucket(address, start),
            start,
            end: end.max(start),
        };
        // As many cache lines as nearly all buckets have.
        let (first, bytes) = (self.table.buckets + slots.at, HALF_BYTES * slots.count());
        (0..bytes.min(192))
            .step_by(64)
            .for_each(|line| self.file.prefetch(first + line));
        self.file.prefetch(first + bytes.min(192));
        Ok(slots)
    }

    /// Calls `call` with those of `count` slots from `from` on whose upper half differs from that of
    /// `near.0` in at most `near.1` bits.
    #[inline(always)]
    pub fn near<const AVX2: bool>(
        self,
        slots: &BucketSlots,
        from: u32,
        count: u32,
        near: (u32, u32),
        mut call: impl FnMut(u32),
    ) -> Result<()> {
        let (rest, most) = near;
        let [start, _] = TableLayout::halves(slots, u64::from(from - slots.start));
        let halves = self.file.bytes(
            self.table.buckets + start,
            HALF_BYTES * u64::from(count).next_multiple_of(TOGETHER),
        )?;
        let [asked, mask] =
            [rest << self.layout.bits, self.layout.rest_mask()].map(|bits| (bits >> 16) as u16);
        NearHalves { asked, mask, most }.each_with::<AVX2>(halves, count, |at| call(from + at));
        Ok(())
    }

    /// Prefetches what [`Self::entry`] reads.
    #[inline(always)]
    pub fn prefetch_slot(self, slots: &BucketSlots, slot: u32) {
        let number = u64::from(slot - slots.start);
        self.file
            .prefetch(self.table.buckets + TableLayout::halves(slots, number)[1]);
        // There are about as many zeros as ones.
        self.file
            .prefetch(self.table.buckets + (TableLayout::first_high(slots) + 2 * number) / 8);
    }

    /// The entry of a slot if its rest differs from `rest` in at most `most` bits. Slots are read
    /// in order, with one cursor.
    #[inline(always)]
    pub fn entry<const FAST: bool>(
        self,
        slots: &BucketSlots,
        slot: u32,
        rest: u32,
        most: u32,
        cursor: &mut SlotCursor,
    ) -> Result<Option<u32>> {
        let number = u64::from(slot - slots.start);
        let [upper, lower] = TableLayout::halves(slots, number);
        let half = |at: u64| {
            self.word(self.table.buckets + at)
                .map(|word| low_half(word) & 0xffff)
        };
        let of = half(upper)? << 16 | half(lower)?;
        if ((of ^ rest << self.layout.bits) & self.layout.rest_mask()).count_ones() > most {
            return Ok(None);
        }
        let high = self.high::<FAST>(slots, number.to_u32(), cursor)?;
        // A damaged file may have any bits here; then this is no entry.
        let entry = high << self.layout.bits | u64::from(of & !self.layout.rest_mask());
        Ok(if entry >> 32 == 0 {
            Some(entry.to_u32())
        } else {
            None
        })
    }

    #[inline(always)]
    fn high<const FAST: bool>(
        self,
        slots: &BucketSlots,
        number: u32,
        cursor: &mut SlotCursor,
    ) -> Result<u64> {
        let first = TableLayout::first_high(slots);
        let mut word = match cursor.word {
            Some(word) => word,
            None => {
                cursor.at = first & !7;
                self.word(self.table.buckets + cursor.at / 8)? & (u64::MAX << (first % 8))
            }
        };
        while cursor.seen + word.count_ones() <= number {
            cursor.seen += word.count_ones();
            cursor.at += 64;
            word = self.word(self.table.buckets + cursor.at / 8)?;
        }
        cursor.word = Some(word);
        Ok(
            cursor.at + u64::from(nth_one::<FAST>(word, number - cursor.seen))
                - first
                - u64::from(number),
        )
    }

    #[inline(always)]
    fn word(self, at: u64) -> Result<u64> {
        let bytes = self.file.bytes(at, 8)?;
        Ok(match bytes.first_chunk() {
            Some(&bytes) => u64::from_le_bytes(bytes),
            None => 0,
        })
    }
}

/// The position of the one bit that has `before` others below it.
#[inline(always)]
fn nth_one<const FAST: bool>(mut word: u64, before: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if FAST {
        // SAFETY: `FAST` is true only if the processor has this instruction.
        return unsafe { nth_one_bmi2(word, before) };
    }
    for _ in 0..before {
        word &= word - 1;
    }
    word.trailing_zeros()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi2")]
#[inline]
fn nth_one_bmi2(word: u64, before: u32) -> u32 {
    std::arch::x86_64::_pdep_u64(1 << before, word).trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::files::SealedWriter,
        history::search::part_keys::{BitCounts, PartKeys},
        text::stream::Print,
    };
    use proptest::prelude::*;
    use std::io::Write;

    proptest! {
        #[cfg(target_arch = "x86_64")]
        #[test]
        fn ones_are_found_by_one_instruction(word: u64) {
            if is_x86_feature_detected!("bmi2") {
                let both = (0..word.count_ones()).map(|before| (nth_one::<false>(word, before), nth_one::<true>(word, before)));
                prop_assert!(both.into_iter().all(|(slow, fast)| slow == fast));
            }
        }

        /// With few different words, many prints have the same address.
        #[test]
        fn events_are_read_back_as_written(words in prop::collection::vec(0_u64..40, 1..600), step in 1_usize..50, bits in prop_oneof![9 => 0_u32..9, 1 => 18_u32..21], part in 0_usize..8) {
            let prints: Vec<Print> = words.iter().map(|word| Print([word.wrapping_mul(0x9e37_79b9_7f4a_7c15); 4])).collect();
            let mut ones = BitCounts::new();
            prints.iter().for_each(|print| ones.count(print));
            let keys = PartKeys::new(&ones.masks(|_| bits, PART_BITS.to_u32()));
            let made = BuiltTable::new(prints.len().to_u32(), bits, |entry| keys.key(&prints[entry.to_usize()], part));

            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("table");
            let mut out = SealedWriter::create(&path).unwrap();
            let directory_at = out.position();
            out.write_all(&made.directory.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
            let table = TableSections { directory: directory_at, buckets: out.position() };
            out.write_all(&made.buckets).unwrap();
            out.finish(&()).unwrap();
            let file = Sealed::open(&path).unwrap();
            let reader = PartTableReader::new(&file, &table, prints.len().to_u32(), bits);

            let keys: Vec<PartKey> = prints.iter().map(|print| keys.key(print, part)).collect();
            let asked = keys[0].rest;
            let mut addresses: Vec<u32> = keys.iter().map(|key| key.address).chain([0, (1 << bits) - 1]).collect();
            addresses.sort_unstable();
            addresses.dedup();
            for address in addresses {
                let expected: Vec<(u32, &PartKey)> = (0..).zip(&keys).filter(|(_, key)| key.address == address).collect();
                let slots = reader.slots(address).unwrap();
                prop_assert_eq!(slots.count().to_usize(), expected.len());
                // All near slots are reported, and maybe others.
                for most in [0, 3, 32] {
                    let mut maybe = Vec::new();
                    reader.near::<false>(&slots, slots.start, slots.end - slots.start, (asked, most), |slot| maybe.push(slot)).unwrap();
                    let is_near = |key: &PartKey| (key.rest ^ asked).count_ones() <= most;
                    prop_assert!((slots.start..).zip(&expected).all(|(slot, (_, key))| !is_near(key) || maybe.contains(&slot)));
                }
                // All of them, and some of them, with one cursor.
                for (step, most) in [(1, 32), (step, 32), (1, 3), (step, 0)] {
                    let mut cursor = SlotCursor::default();
                    for (slot, (entry, key)) in (slots.start..slots.end).zip(&expected).step_by(step) {
                        let is_near = (key.rest ^ asked).count_ones() <= most;
                        prop_assert_eq!(reader.entry::<false>(&slots, slot, asked, most, &mut cursor).unwrap(), is_near.then_some(*entry));
                    }
                }
            }
        }
    }
}
