//! Prints cut into parts, and of each part an address.
//!
//! If two prints differ in at most d bits, then cut into seven parts they differ in at most ⌊d/7⌋ bits of one of them: so who looks
//! up each part, and all numbers that are so near to it, misses nothing (the pigeonhole principle). Of a part's 36 or 37 bits some
//! make the address of a bucket: those of which about half the prints have a 1, as bits that are nearly always the same tell little.
//! Of the others as many as there is room for stand beside each entry, and spare most of them a look at their print.

use crate::format::{PRINT_BITS, Print};
use std::sync::OnceLock;

/// Seven tables of four bytes a print and the print itself stay below sixty bytes; more tables would take fewer steps each.
pub const PARTS: usize = 7;
/// Entries of a bucket, about.
const BUCKET_ENTRIES: usize = 12;

/// The first bit of a part.
fn first_bit(part: usize) -> usize {
    part * PRINT_BITS / PARTS
}

fn width(part: usize) -> usize {
    first_bit(part + 1) - first_bit(part)
}

/// The bits of a part, lowest first.
#[inline(always)]
fn part_of(print: &Print, part: usize) -> u64 {
    let (first, width) = (first_bit(part), width(part));
    let (word, shift) = (first / 64, first % 64);
    let low = print.0[word] >> shift;
    let high = if shift + width > 64 { print.0[word + 1] << (64 - shift) } else { 0 };
    (low | high) & ((1 << width) - 1)
}

/// How many bits an address has, of so many entries.
pub fn address_bits(entries: usize) -> u32 {
    (entries / BUCKET_ENTRIES).checked_ilog2().unwrap_or(0).min(30)
}

/// Moves the bits of a mask to the low end (Hacker's Delight, 7-4): six steps, whatever the mask.
#[derive(Debug, Clone, Copy)]
struct Gather {
    mask: u64,
    moves: [u64; 6],
}

impl Gather {
    fn new(mask: u64) -> Self {
        let (mut left, mut zeros, mut moves) = (mask, !mask << 1, [0; 6]);
        for (step, moved) in moves.iter_mut().enumerate() {
            // Of each bit whether an odd number of zeros is to its right.
            let mut odd = zeros ^ (zeros << 1);
            for shift in [2, 4, 8, 16, 32] {
                odd ^= odd << shift;
            }
            *moved = odd & left;
            left = (left ^ *moved) | (*moved >> (1 << step));
            zeros &= !odd;
        }
        Self { mask, moves }
    }

    #[inline(always)]
    fn of(&self, bits: u64) -> u64 {
        let mut bits = bits & self.mask;
        for (step, moves) in self.moves.iter().enumerate() {
            let moved = bits & moves;
            bits = (bits ^ moved) | (moved >> (1 << step));
        }
        bits
    }
}

/// The bits of a part that make its address, and those that stand beside an entry.
pub type Masks = [u64; 2];

/// Where a print is in one table: the bucket, and the bits that stand beside the entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Key {
    pub address: u32,
    pub rest: u32,
}

/// Makes addresses.
#[derive(Debug, Clone)]
pub struct Keys {
    parts: Vec<(Gather, Gather)>,
}

impl Keys {
    pub fn new(masks: &[Masks]) -> Self {
        Self { parts: masks.iter().map(|&[address, rest]| (Gather::new(address), Gather::new(rest))).collect() }
    }

    #[inline(always)]
    pub fn all(&self, print: &Print) -> [Key; PARTS] {
        std::array::from_fn(|part| self.key(print, part))
    }

    #[inline(always)]
    pub fn key(&self, print: &Print, part: usize) -> Key {
        let (address, rest) = &self.parts[part];
        let bits = part_of(print, part);
        Key { address: address.of(bits) as u32, rest: rest.of(bits) as u32 }
    }
}

/// Counts the ones of each bit, to find the bits that tell most.
pub struct Ones {
    counts: Vec<u32>,
    prints: u32,
}

impl Ones {
    pub fn new() -> Self {
        Self { counts: vec![0; PRINT_BITS], prints: 0 }
    }

    pub fn count(&mut self, print: &Print) {
        self.counts.iter_mut().enumerate().for_each(|(at, count)| *count += u32::from(print.bit(at)));
        self.prints += 1;
    }

    /// For each part so many bits for its address, and of the others those that stand beside one of so many entries.
    pub fn masks(&self, address_bits: u32, entries: u32) -> Vec<Masks> {
        let mask = |part: usize| {
            let mut bits: Vec<usize> = (0..width(part)).collect();
            bits.sort_by_key(|bit| (2 * i64::from(self.counts[first_bit(part) + bit]) - i64::from(self.prints)).abs());
            let (address, others) = bits.split_at(bits.len().min(address_bits as usize));
            let room = 32 - entry_bits(entries) as usize;
            [address, &others[..others.len().min(room)]].map(|bits| bits.iter().fold(0, |mask, bit| mask | 1 << bit))
        };
        (0..PARTS).map(mask).collect()
    }
}

/// Bits of a slot that say which entry.
pub fn entry_bits(entries: u32) -> u32 {
    32 - entries.saturating_sub(1).leading_zeros()
}

/// Whether masks from a file can be used.
pub fn are_masks(masks: &[Masks], address_bits: u32, entries: u32) -> bool {
    let fits = |(part, &[address, rest]): (usize, &Masks)| {
        address.count_ones() == address_bits
            && rest.count_ones() + entry_bits(entries) <= 32
            && address & rest == 0
            && (address | rest) >> width(part) == 0
    };
    masks.len() == PARTS && masks.iter().enumerate().all(fits)
}

/// How many numbers of so many bits differ from one of them in exactly `distance`.
pub fn sphere(bits: u32, distance: u32) -> u64 {
    (0..u64::from(distance)).fold(1_u64, |product, at| product.saturating_mul(u64::from(bits).saturating_sub(at)) / (at + 1))
}

/// All numbers of some bits, those with the fewest ones first.
#[derive(Debug, Clone)]
pub struct Flips {
    numbers: Vec<u32>,
    /// How many have up to so many ones.
    ends: Vec<usize>,
}

/// Of how many bits all numbers are kept.
pub const FLIP_BITS: u32 = 11;

impl Flips {
    /// Of up to [`FLIP_BITS`] bits.
    pub fn of(bits: u32) -> &'static Self {
        static ALL: [OnceLock<Flips>; FLIP_BITS as usize + 1] = [const { OnceLock::new() }; FLIP_BITS as usize + 1];
        ALL[bits as usize].get_or_init(|| Self::new(bits))
    }

    fn new(bits: u32) -> Self {
        let mut numbers: Vec<u32> = (0..1 << bits).collect();
        numbers.sort_by_key(|number| number.count_ones());
        let ends = (0..=bits).map(|ones| numbers.partition_point(|number| number.count_ones() <= ones)).collect();
        Self { numbers, ends }
    }

    /// Those with at most so many ones.
    #[inline(always)]
    pub fn up_to(&self, ones: u32) -> &[u32] {
        &self.numbers[..self.ends[self.ends.len().min(ones as usize + 1) - 1]]
    }

    /// Those with just so many ones.
    #[inline(always)]
    pub fn with(&self, ones: u32) -> &[u32] {
        let end = |ones: usize| self.ends.get(ones).copied().unwrap_or(self.numbers.len());
        &self.numbers[if ones == 0 { 0 } else { end(ones as usize - 1) }..end(ones as usize)]
    }
}

/// The numbers of so many bits that have so many ones, the least first.
///
/// An iterator, not a function that is given another: what is called from within is compiled for the processor that is there.
pub struct WithOnes {
    next: u64,
    end: u64,
}

impl WithOnes {
    #[inline(always)]
    pub fn new(bits: u32, ones: u32) -> Self {
        Self { next: (1 << ones.min(bits + 1)) - 1, end: 1 << bits }
    }
}

impl Iterator for WithOnes {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        let number = self.next;
        if number >= self.end {
            return None;
        }
        // The next number with as many ones (Gosper).
        let lowest = number & number.wrapping_neg();
        let ripple = number + lowest;
        self.next = if number == 0 { self.end } else { (((ripple ^ number) >> 2) >> lowest.trailing_zeros()) | ripple };
        Some(number as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_are_all_of_a_print() {
        assert_eq!((0..PARTS).map(width).collect::<Vec<_>>(), [36, 37, 36, 37, 36, 37, 37]);
    }

    #[test]
    fn spheres_are_all_there() {
        for bits in 0..10 {
            for ones in 0..10 {
                let seen: Vec<u32> = WithOnes::new(bits, ones).collect();
                assert!(seen.is_sorted() && seen.iter().all(|number| number.count_ones() == ones && *number < 1 << bits));
                assert_eq!(seen.len() as u64, sphere(bits, ones));
            }
        }
    }

    #[test]
    fn flips_are_all_there() {
        let flips = Flips::of(9);
        assert_eq!((flips.up_to(0), flips.up_to(1).len(), flips.up_to(9).len(), flips.up_to(20).len()), (&[0][..], 10, 512, 512));
        assert!(flips.up_to(3).iter().all(|flip| flip.count_ones() <= 3));
        for ones in 0..12 {
            assert_eq!(flips.with(ones).iter().filter(|flip| flip.count_ones() == ones).count() as u64, sphere(9, ones));
            assert_eq!(flips.with(ones).len() as u64, sphere(9, ones));
        }
    }

    proptest! {
        #[test]
        fn keys_hold_all_bits(words: [u64; 4], other: [u64; 4], prints in prop::collection::vec(any::<[u64; 4]>(), 1..20), bits in 0_u32..30, entries in 1_u32..1 << 28) {
            let (one, two) = (Print(words), Print(other));
            let mut ones = Ones::new();
            prints.iter().for_each(|&words| ones.count(&Print(words)));
            let masks = ones.masks(bits, entries);
            prop_assert!(are_masks(&masks, bits, entries));
            let keys = Keys::new(&masks);
            let apart = |part| {
                let (one, two) = (keys.key(&one, part), keys.key(&two, part));
                (one.address ^ two.address).count_ones() + (one.rest ^ two.rest).count_ones()
            };
            // Of a part's bits that make no address those are kept that there is room for.
            let lost: u32 = (0..PARTS).map(|part| (width(part) as u32).saturating_sub(bits).saturating_sub(32 - entry_bits(entries))).sum();
            let all: u32 = (0..PARTS).map(apart).sum();
            prop_assert!(all <= one.distance(&two) && all + lost >= one.distance(&two));
        }
    }
}
