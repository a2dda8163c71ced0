//! Scans prints one after the other, and slots of tables many at a time.

use super::print_halves::{PrintBody, PrintHead, body_distance, body_words, head_distance};
use crate::{
    base::{error::Result, num::ToUsize},
    text::stream::Print,
};

/// Unrelated prints differ in 20 to 35 bits of a quarter.
const NEAR: u32 = 16;

/// Calls with the number and the distance of each body that is near enough; `call` returns the new
/// greatest distance.
pub fn scan(
    bodies: &[PrintBody],
    print: &Print,
    reach: u32,
    call: &mut dyn FnMut(usize, u32) -> Result<u32>,
) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor has this instruction.
        return unsafe { scan_popcnt(bodies, print, reach, call) };
    }
    scan_inline(bodies, print, reach, call)
}

/// The same code, compiled with the instruction that counts ones.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt")]
fn scan_popcnt(
    bodies: &[PrintBody],
    print: &Print,
    reach: u32,
    call: &mut dyn FnMut(usize, u32) -> Result<u32>,
) -> Result<()> {
    scan_inline(bodies, print, reach, call)
}

/// Compiled for the instruction set of its caller.
#[inline(always)]
pub fn scan_inline(
    bodies: &[PrintBody],
    print: &Print,
    mut reach: u32,
    call: &mut dyn FnMut(usize, u32) -> Result<u32>,
) -> Result<()> {
    let [_, a, b, c] = print.0;
    for (number, body) in bodies.iter().enumerate() {
        let [d, e, f] = body_words(body);
        // Two words rule out nearly all distant prints. One word does so only if few bits may
        // differ.
        let mut distance = (a ^ d).count_ones();
        if reach < NEAR && distance > reach {
            continue;
        }
        distance += (b ^ e).count_ones();
        if distance > reach {
            continue;
        }
        distance += (c ^ f).count_ones();
        if distance <= reach {
            reach = call(number, distance)?;
        }
    }
    Ok(())
}

/// As [`scan`], with whole prints.
#[inline(always)]
pub fn scan_whole(
    heads: &[PrintHead],
    bodies: &[PrintBody],
    print: &Print,
    mut reach: u32,
    call: &mut dyn FnMut(usize, u32) -> Result<u32>,
) -> Result<()> {
    for (number, (head, body)) in heads.iter().zip(bodies).enumerate() {
        let distance = head_distance(*head, print) + body_distance(body, print);
        if distance <= reach {
            reach = call(number, distance)?;
        }
    }
    Ok(())
}

/// A slot of a table: the entry number in its low bits, and bits of the print above; little-endian.
pub type Slot = [u8; 4];

/// A filter of slots by the distance of their upper bits.
#[derive(Debug, Clone, Copy)]
pub struct NearSlots {
    /// The upper bits to compare with.
    pub asked: u32,
    pub mask: u32,
    pub most: u32,
}

impl NearSlots {
    #[inline(always)]
    fn is_near(self, slot: u32) -> bool {
        ((slot ^ self.asked) & self.mask).count_ones() <= self.most
    }

    /// Calls with the entry of each near slot.
    #[inline(always)]
    pub fn each_with<const AVX2: bool>(self, slots: &[Slot], call: impl FnMut(u32)) {
        #[cfg(target_arch = "x86_64")]
        if AVX2 {
            // SAFETY: `AVX2` is true only if the processor has these instructions.
            return unsafe { self.each_avx2(slots, call) };
        }
        self.each(slots, call);
    }

    #[inline(always)]
    fn each(self, slots: &[Slot], mut call: impl FnMut(u32)) {
        for slot in slots
            .iter()
            .map(|&slot| u32::from_le_bytes(slot))
            .filter(|&slot| self.is_near(slot))
        {
            call(slot & !self.mask);
        }
    }

    /// As [`Self::each`], eight at a time: a table of 16 entries counts the ones of four bits.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt")]
    #[inline]
    fn each_avx2(self, slots: &[Slot], mut call: impl FnMut(u32)) {
        use std::arch::x86_64::{
            __m256i, _mm256_add_epi8, _mm256_and_si256, _mm256_castsi256_ps, _mm256_cmpgt_epi32,
            _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_movemask_ps,
            _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_setr_epi8,
            _mm256_shuffle_epi8, _mm256_srli_epi16, _mm256_xor_si256,
        };
        let ones = _mm256_setr_epi8(
            0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2,
            3, 3, 4,
        );
        let [asked, mask, most] =
            [self.asked, self.mask, self.most].map(|number| _mm256_set1_epi32(number as i32));
        let (low, single, double) = (
            _mm256_set1_epi8(15),
            _mm256_set1_epi8(1),
            _mm256_set1_epi16(1),
        );
        let mut start = 0;
        while start < slots.len() {
            // The last eight overlap the ones before them.
            let from = start.min(slots.len().saturating_sub(8));
            let Some(eight) = slots[from..].first_chunk::<8>() else {
                return self.each(slots, call);
            };
            // SAFETY: eight slots are 32 bytes.
            let of_eight = unsafe { _mm256_loadu_si256(eight.as_ptr().cast::<__m256i>()) };
            let apart = _mm256_and_si256(_mm256_xor_si256(of_eight, asked), mask);
            let (halves, others) = (
                _mm256_and_si256(apart, low),
                _mm256_and_si256(_mm256_srli_epi16::<4>(apart), low),
            );
            let of_bytes = _mm256_add_epi8(
                _mm256_shuffle_epi8(ones, halves),
                _mm256_shuffle_epi8(ones, others),
            );
            let of_slots = _mm256_madd_epi16(_mm256_maddubs_epi16(of_bytes, single), double);
            let far = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(of_slots, most)));
            let mut near = !far as u32 & 0xff & (u32::MAX << (start - from));
            while near != 0 {
                call(u32::from_le_bytes(eight[near.trailing_zeros().to_usize()]) & !self.mask);
                near &= near - 1;
            }
            start = from + 8;
        }
    }
}

/// A filter of slots by the distance of their upper halves.
#[derive(Debug, Clone, Copy)]
pub struct NearHalves {
    pub asked: u16,
    pub mask: u16,
    pub most: u32,
}

impl NearHalves {
    /// Calls with the number of each near half among the first `count`. `halves` is padded to a
    /// multiple of sixteen.
    #[inline(always)]
    pub fn each_with<const AVX2: bool>(self, halves: &[u8], count: u32, call: impl FnMut(u32)) {
        #[cfg(target_arch = "x86_64")]
        if AVX2 {
            // SAFETY: `AVX2` is true only if the processor has these instructions.
            return unsafe { self.each_avx2(halves, count, call) };
        }
        self.each(halves, count, call);
    }

    #[inline(always)]
    fn each(self, halves: &[u8], count: u32, call: impl FnMut(u32)) {
        let is_near = |half: [u8; 2]| {
            ((u16::from_le_bytes(half) ^ self.asked) & self.mask).count_ones() <= self.most
        };
        (0..count)
            .zip(halves.as_chunks().0)
            .filter(|&(_, &half)| is_near(half))
            .map(|(at, _)| at)
            .for_each(call);
    }

    /// As [`Self::each`], sixteen at a time. Most lookups allow no differing bit, or one.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt")]
    #[inline]
    fn each_avx2(self, halves: &[u8], count: u32, call: impl FnMut(u32)) {
        use std::arch::x86_64::{
            _mm256_add_epi8, _mm256_add_epi16, _mm256_and_si256, _mm256_cmpeq_epi16,
            _mm256_cmpgt_epi16, _mm256_maddubs_epi16, _mm256_set1_epi8, _mm256_set1_epi16,
            _mm256_setr_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi16,
            _mm256_xor_si256,
        };
        let [asked, mask] = [self.asked, self.mask].map(|half| _mm256_set1_epi16(half as i16));
        match self.most {
            0 => {
                let asked = _mm256_and_si256(asked, mask);
                each_of_sixteen(
                    halves,
                    count,
                    |piece| _mm256_cmpeq_epi16(_mm256_and_si256(piece, mask), asked),
                    call,
                );
            }
            1 => {
                // A number without its lowest one bit.
                let (zero, less) = (_mm256_setzero_si256(), _mm256_set1_epi16(-1));
                let near = |piece| {
                    let apart = _mm256_and_si256(_mm256_xor_si256(piece, asked), mask);
                    _mm256_cmpeq_epi16(_mm256_and_si256(apart, _mm256_add_epi16(apart, less)), zero)
                };
                each_of_sixteen(halves, count, near, call);
            }
            most => {
                let ones = _mm256_setr_epi8(
                    0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2,
                    2, 3, 2, 3, 3, 4,
                );
                let (low, single, more) = (
                    _mm256_set1_epi8(15),
                    _mm256_set1_epi8(1),
                    _mm256_set1_epi16(most.min(16) as i16 + 1),
                );
                let near = |piece| {
                    let apart = _mm256_and_si256(_mm256_xor_si256(piece, asked), mask);
                    let (nibbles, others) = (
                        _mm256_and_si256(apart, low),
                        _mm256_and_si256(_mm256_srli_epi16::<4>(apart), low),
                    );
                    let of_bytes = _mm256_add_epi8(
                        _mm256_shuffle_epi8(ones, nibbles),
                        _mm256_shuffle_epi8(ones, others),
                    );
                    _mm256_cmpgt_epi16(more, _mm256_maddubs_epi16(of_bytes, single))
                };
                each_of_sixteen(halves, count, near, call);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m256i;

/// Calls with the number of each near half among the first `count`; `near` compares sixteen.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
#[inline]
fn each_of_sixteen(
    halves: &[u8],
    count: u32,
    near: impl Fn(__m256i) -> __m256i,
    mut call: impl FnMut(u32),
) {
    use std::arch::x86_64::{_mm256_loadu_si256, _mm256_movemask_epi8};
    for (first, piece) in (0..count).step_by(16).zip(halves.as_chunks::<32>().0) {
        // SAFETY: a piece is 32 bytes.
        let piece = unsafe { _mm256_loadu_si256(piece.as_ptr().cast::<__m256i>()) };
        // Each half has two bits.
        let near = _mm256_movemask_epi8(near(piece)) as u32 & 0x5555_5555;
        if near != 0 {
            let mut near = near & u32::MAX >> 32_u32.saturating_sub(2 * (count - first));
            while near != 0 {
                call(first + near.trailing_zeros() / 2);
                near &= near - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_near_halves_are_found() {
        let halves: Vec<u16> = (0_u32..80)
            .map(|half| (half.wrapping_mul(0x9e37_79b9) >> 16) as u16)
            .collect();
        let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        for (count, most, mask) in (0..=80).flat_map(|count| {
            (0..18).flat_map(move |most| [(count, most, u16::MAX), (count, most, 0xfff0)])
        }) {
            let is_near = |half: u16| ((half ^ 0x5a3c) & mask).count_ones() <= most;
            let expected: Vec<u32> = (0..count)
                .filter(|&at| is_near(halves[at.to_usize()]))
                .collect();
            let (near, mut found) = (
                NearHalves {
                    asked: 0x5a3c,
                    mask,
                    most,
                },
                Vec::new(),
            );
            near.each_with::<false>(&bytes, count, |at| found.push(at));
            assert_eq!(found, expected);
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
                found.clear();
                near.each_with::<true>(&bytes, count, |at| found.push(at));
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn all_near_slots_are_found() {
        let slots: Vec<Slot> = (0_u32..5003)
            .map(|slot| slot.wrapping_mul(0x9e37_79b9).to_le_bytes())
            .collect();
        let near = NearSlots {
            asked: 0xabcd_0000,
            mask: 0xffff_0000,
            most: 5,
        };
        let expected: Vec<u32> = slots
            .iter()
            .map(|&slot| u32::from_le_bytes(slot))
            .filter(|slot| ((slot >> 16) ^ 0xabcd).count_ones() <= 5)
            .map(|slot| slot & 0xffff)
            .collect();
        let mut found = Vec::new();
        near.each(&slots, |entry| found.push(entry));
        assert!(!expected.is_empty() && found == expected);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
            found.clear();
            // SAFETY: the processor has these instructions.
            unsafe { near.each_avx2(&slots, |entry| found.push(entry)) };
            assert_eq!(found, expected);
        }
    }
}
