//! Looks at prints one after the other, and at slots of a table eight at a time.

use crate::{
    error::Result,
    format::{PRINT_BYTES, Print},
};

/// Prints that have nothing to do with each other differ in 20 to 35 bits of a quarter.
const NEAR: u32 = 16;

/// Calls with the number and the distance of each print that is near enough; `call` says how near from then on.
pub fn scan(prints: &[u8], print: &Print, reach: u32, call: &mut dyn FnMut(usize, u32) -> Result<u32>) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor was just asked for it.
        return unsafe { scan_popcnt(prints, print, reach, call) };
    }
    scan_anywhere(prints, print, reach, call)
}

/// The same code, with the instruction that counts ones.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt")]
fn scan_popcnt(prints: &[u8], print: &Print, reach: u32, call: &mut dyn FnMut(usize, u32) -> Result<u32>) -> Result<()> {
    scan_anywhere(prints, print, reach, call)
}

/// As it is compiled where it is called from.
#[inline(always)]
pub fn scan_anywhere(prints: &[u8], print: &Print, mut reach: u32, call: &mut dyn FnMut(usize, u32) -> Result<u32>) -> Result<()> {
    let [a, b, c, d] = print.0;
    let (prints, _) = prints.as_chunks::<PRINT_BYTES>();
    for (number, bytes) in prints.iter().enumerate() {
        let (words, _) = bytes.as_chunks::<8>();
        let apart = |at: usize, word: u64| (u64::from_le_bytes(words[at]) ^ word).count_ones();
        // A half of the bits tells nearly all that are too far; a quarter does so if few may differ, and else is a guess.
        let mut distance = apart(0, a);
        if reach < NEAR && distance > reach {
            continue;
        }
        distance += apart(1, b);
        if distance > reach {
            continue;
        }
        distance += apart(2, c) + apart(3, d);
        if distance <= reach {
            reach = call(number, distance)?;
        }
    }
    Ok(())
}

/// Which entry, in the low bits, and above it some bits of its print; little-endian.
pub type Slot = [u8; 4];

/// Slots whose upper bits differ in at most so many from those that are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Near {
    /// The upper bits.
    pub asked: u32,
    pub mask: u32,
    pub most: u32,
}

impl Near {
    /// Calls with each entry.
    #[inline(always)]
    pub fn each(self, slots: &[Slot], mut call: impl FnMut(u32)) {
        let is_near = |slot: u32| ((slot ^ self.asked) & self.mask).count_ones() <= self.most;
        let (eights, others) = slots.as_chunks::<8>();
        for eight in eights {
            let slots = eight.map(u32::from_le_bytes);
            let near = slots.map(|slot| u32::from(is_near(slot)));
            let mut found = (0..8).fold(0, |found, at| found | near[at] << at);
            while found != 0 {
                call(slots[found.trailing_zeros() as usize] & !self.mask);
                found &= found - 1;
            }
        }
        for slot in others.iter().map(|&slot| u32::from_le_bytes(slot)).filter(|&slot| is_near(slot)) {
            call(slot & !self.mask);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_that_are_near_are_all_found() {
        let slots: Vec<Slot> = (0_u32..5000).map(|slot| slot.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
        let near = Near { asked: 0xabcd_0000, mask: 0xffff_0000, most: 5 };
        let expected: Vec<u32> = slots
            .iter()
            .map(|&slot| u32::from_le_bytes(slot))
            .filter(|slot| ((slot >> 16) ^ 0xabcd).count_ones() <= 5)
            .map(|slot| slot & 0xffff)
            .collect();
        let mut found = Vec::new();
        near.each(&slots, |entry| found.push(entry));
        assert!(!expected.is_empty() && found == expected);
    }
}
