//! Prints cut into parts, and the table address of each part.
//!
//! If two prints differ in at most d bits, at least one of their eight parts differs in at most
//! ⌊d/8⌋ bits: so looking up each part, and all numbers within that distance of it, misses nothing
//! (the pigeonhole principle). Some of a part's 32 bits make the address of a bucket: those that
//! are 1 in about half the prints, as bits that are nearly always the same distinguish little. As
//! many of the others as fit, the *rest*, are stored with each entry, and rule out most entries
//! without reading their prints.

use crate::{
    base::num::{ToU32, ToU64, ToUsize},
    history::search::low_half,
    text::stream::{PRINT_BITS, Print},
};
use std::sync::{LazyLock, OnceLock};

/// With eight parts, seven tables (part 0 needs none) and the print itself take less than sixty
/// bytes an entry; more tables would need fewer lookups each.
pub const PARTS: usize = 8;
/// The bits of a part: half a word of a print.
pub const PART_BITS: usize = PRINT_BITS / PARTS;
/// All parts of a print.
pub type PrintParts = [u32; PARTS];

/// A part of a print.
#[inline(always)]
fn part_of(print: &Print, part: usize) -> u32 {
    low_half(print.0[part / 2] >> (PART_BITS * (part % 2)))
}

pub fn parts_of(print: &Print) -> PrintParts {
    std::array::from_fn(|part| part_of(print, part))
}

/// The number of address bits with which an address has at least `bucket` entries on average, and
/// less than twice as many.
pub fn address_bits(entries: u32, bucket: u32) -> u32 {
    (entries / bucket).checked_ilog2().unwrap_or(0).min(30)
}

/// Moves the bits of a mask to the low end (Hacker's Delight, 7-4) in five steps, for any
/// mask.
#[derive(Debug, Clone, Copy)]
struct BitGather {
    mask: u32,
    moves: [u32; 5],
}

impl BitGather {
    fn new(mask: u32) -> Self {
        let (mut left, mut zeros, mut moves) = (mask, !mask << 1, [0; 5]);
        for (step, moved) in moves.iter_mut().enumerate() {
            // For each bit, whether the number of zeros to its right is odd.
            let mut odd = zeros ^ (zeros << 1);
            for shift in [2, 4, 8, 16] {
                odd ^= odd << shift;
            }
            *moved = odd & left;
            left = (left ^ *moved) | (*moved >> (1 << step));
            zeros &= !odd;
        }
        Self { mask, moves }
    }

    #[inline(always)]
    fn of(&self, bits: u32) -> u32 {
        let mut bits = bits & self.mask;
        for (step, moves) in self.moves.iter().enumerate() {
            let moved = bits & moves;
            bits = (bits ^ moved) | (moved >> (1 << step));
        }
        bits
    }
}

/// The bits of a part that make its address, and those of its rest.
pub type PartMasks = [u32; 2];

/// The key of a print in one table: its bucket, and the rest that is stored with the entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartKey {
    pub address: u32,
    pub rest: u32,
}

/// Computes the keys of prints.
#[derive(Debug, Clone)]
pub struct PartKeys {
    parts: Vec<(BitGather, BitGather)>,
}

impl PartKeys {
    pub fn new(masks: &[PartMasks]) -> Self {
        Self {
            parts: masks
                .iter()
                .map(|&[address, rest]| (BitGather::new(address), BitGather::new(rest)))
                .collect(),
        }
    }

    #[inline(always)]
    pub fn all(&self, print: &Print) -> [PartKey; PARTS] {
        std::array::from_fn(|part| self.key(print, part))
    }

    #[inline(always)]
    pub fn key(&self, print: &Print, part: usize) -> PartKey {
        let (address, rest) = &self.parts[part];
        let bits = part_of(print, part);
        PartKey {
            address: address.of(bits),
            rest: rest.of(bits),
        }
    }
}

/// Counts the ones of each bit, to choose the bits that distinguish most.
pub struct BitCounts {
    counts: Vec<u32>,
    prints: u32,
}

impl BitCounts {
    pub fn new() -> Self {
        Self {
            counts: vec![0; PRINT_BITS],
            prints: 0,
        }
    }

    pub fn count(&mut self, print: &Print) {
        self.counts
            .iter_mut()
            .enumerate()
            .for_each(|(at, count)| *count += u32::from(print.bit(at)));
        self.prints += 1;
    }

    /// The masks of each part: `address_bits` bits for the address, and `room` of the others for the rest.
    pub fn masks(&self, address_bits: impl Fn(usize) -> u32, room: u32) -> Vec<PartMasks> {
        let mask = |part: usize| {
            let mut bits: Vec<usize> = (0..PART_BITS).collect();
            bits.sort_by_key(|bit| {
                (2 * i64::from(self.counts[part * PART_BITS + bit]) - i64::from(self.prints)).abs()
            });
            let (address, others) = bits.split_at(PART_BITS.min(address_bits(part).to_usize()));
            [address, &others[..others.len().min(room.to_usize())]]
                .map(|bits| bits.iter().fold(0, |mask, bit| mask | 1 << bit))
        };
        (0..PARTS).map(mask).collect()
    }
}

/// Whether masks from a file are usable.
pub fn are_valid_masks(
    masks: &[PartMasks],
    address_bits: impl Fn(usize) -> u32,
    room: u32,
) -> bool {
    let fits = |(part, &[address, rest]): (usize, &PartMasks)| {
        address.count_ones() == address_bits(part)
            && rest.count_ones() <= room
            && address & rest == 0
    };
    masks.len() == PARTS && masks.iter().enumerate().all(fits)
}

/// The number of `bits`-bit numbers within a Hamming distance of one of them.
pub fn hamming_ball_size(bits: u32, distance: u32) -> u64 {
    static ALL: LazyLock<[[u64; 33]; 33]> = LazyLock::new(|| {
        let sphere = |bits: u64, distance: u64| {
            (0..distance).fold(1_u64, |product, at| {
                product * bits.saturating_sub(at) / (at + 1)
            })
        };
        std::array::from_fn(|bits| {
            std::array::from_fn(|most| {
                (0..=most.to_u64())
                    .map(|distance| sphere(bits.to_u64(), distance))
                    .sum()
            })
        })
    });
    ALL[bits.min(32).to_usize()][distance.min(32).to_usize()]
}

/// All numbers of some bits, sorted by their number of ones.
#[derive(Debug, Clone)]
pub struct BitFlips {
    numbers: Vec<u32>,
    /// How many numbers have at most 0, 1, 2 … ones.
    ends: Vec<usize>,
}

/// The greatest number of bits for which all numbers are stored.
pub const FLIP_BITS: u32 = 10;

impl BitFlips {
    /// The numbers of up to [`FLIP_BITS`] bits.
    pub fn of(bits: u32) -> &'static Self {
        static ALL: [OnceLock<BitFlips>; FLIP_BITS as usize + 1] =
            [const { OnceLock::new() }; FLIP_BITS as usize + 1];
        ALL[bits.to_usize()].get_or_init(|| Self::new(bits))
    }

    fn new(bits: u32) -> Self {
        let mut numbers: Vec<u32> = (0..1 << bits).collect();
        numbers.sort_by_key(|number| number.count_ones());
        let ends = (0..=bits)
            .map(|ones| numbers.partition_point(|number| number.count_ones() <= ones))
            .collect();
        Self { numbers, ends }
    }

    /// The numbers with at most this many ones.
    #[inline(always)]
    pub fn up_to(&self, ones: u32) -> &[u32] {
        &self.numbers[..self.ends[self.ends.len().min(ones.to_usize() + 1) - 1]]
    }
}

/// The numbers of some bits with a given number of ones, in rising order.
///
/// An iterator, not a function with a callback: so its loop body is compiled for the instruction
/// set of its caller.
pub struct NumbersWithOnes {
    next: u64,
    end: u64,
}

impl NumbersWithOnes {
    #[inline(always)]
    pub fn new(bits: u32, ones: u32) -> Self {
        Self {
            next: (1 << ones.min(bits + 1)) - 1,
            end: 1 << bits,
        }
    }
}

impl Iterator for NumbersWithOnes {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        let number = self.next;
        if number >= self.end {
            return None;
        }
        // The next number with as many ones (Gosper's hack).
        let lowest = number & number.wrapping_neg();
        let ripple = number + lowest;
        self.next = if number == 0 {
            self.end
        } else {
            (((ripple ^ number) >> 2) >> lowest.trailing_zeros()) | ripple
        };
        Some(number.to_u32())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spheres_contain_all_numbers() {
        for bits in 0..10 {
            for ones in 0..10 {
                let seen: Vec<u32> = NumbersWithOnes::new(bits, ones).collect();
                assert!(
                    seen.is_sorted()
                        && seen
                            .iter()
                            .all(|number| number.count_ones() == ones && *number < 1 << bits)
                );
                let before = ones
                    .checked_sub(1)
                    .map_or(0, |fewer| hamming_ball_size(bits, fewer));
                assert_eq!(seen.len().to_u64(), hamming_ball_size(bits, ones) - before);
            }
        }
    }

    #[test]
    fn all_flips_are_generated() {
        let flips = BitFlips::of(9);
        assert_eq!(
            (
                flips.up_to(0),
                flips.up_to(1).len(),
                flips.up_to(9).len(),
                flips.up_to(20).len()
            ),
            (&[0][..], 10, 512, 512)
        );
        assert!(flips.up_to(3).iter().all(|flip| flip.count_ones() <= 3));
        for ones in 0..12 {
            assert_eq!(flips.up_to(ones).len().to_u64(), hamming_ball_size(9, ones));
        }
        assert_eq!(
            (
                hamming_ball_size(32, 32),
                hamming_ball_size(32, 40),
                hamming_ball_size(19, 3)
            ),
            (1 << 32, 1 << 32, 1160)
        );
    }

    proptest! {
        #[test]
        fn keys_hold_all_bits(words: [u64; 4], other: [u64; 4], prints in prop::collection::vec(any::<[u64; 4]>(), 1..20), bits in 0_u32..30, room in 0_u32..20) {
            let (one, two) = (Print(words), Print(other));
            let mut ones = BitCounts::new();
            prints.iter().for_each(|&words| ones.count(&Print(words)));
            let address_bits = |part| bits + u32::from(part == 0);
            let masks = ones.masks(address_bits, room);
            prop_assert!(are_valid_masks(&masks, address_bits, room));
            let keys = PartKeys::new(&masks);
            let apart = |part| {
                let (one, two) = (keys.key(&one, part), keys.key(&two, part));
                (one.address ^ two.address).count_ones() + (one.rest ^ two.rest).count_ones()
            };
            // Of the other bits of a part, the rest has as many as fit.
            let lost: u32 = (0..PARTS).map(|part| (PART_BITS.to_u32()).saturating_sub(address_bits(part) + room)).sum();
            let all: u32 = (0..PARTS).map(apart).sum();
            prop_assert!(all <= one.distance(&two) && all + lost >= one.distance(&two));
        }
    }
}
