//! Compresses sorted keys, for temporary files and for files that one task passes to the next.
//!
//! All keys of a block take the same number of bytes. The low bits hold the gap to the blot before
//! (for the first key, to 0), the high bits the number minus the least number of the block. A gap
//! that does not fit is written as all ones, and follows in eight bytes. A key takes four or five
//! bytes instead of 8 or 12, and packing costs about as much as copying.

use super::key::Key;
use crate::base::{error::Result, files::TempFile};
use std::ops::Range;

/// The bytes of a key, the bits of a gap, the least number, and the number of keys.
const HEADER_BYTES: usize = 10;
/// Values are read and written in whole words, so the buffer extends one word past the last.
const WORD: usize = 8;

/// The header of a block of keys.
#[derive(Clone, Copy)]
struct PackedLayout {
    key_bytes: usize,
    gap_bits: u32,
    least: u32,
    keys: usize,
}

impl PackedLayout {
    fn of<K: Key>(keys: &[K]) -> Self {
        let numbers = keys.iter().map(|key| key.number());
        let (least, most) = numbers.fold((u32::MAX, 0), |(least, most), number| {
            (least.min(number), most.max(number))
        });
        let number_bits = 32 - most.saturating_sub(least).leading_zeros();
        let span = if let [first, .., last] = keys {
            last.blot() - first.blot()
        } else {
            0
        };
        // Of random gaps one in fifty is more than four times the mean.
        let common_bits = (span / keys.len().max(1) as u64).max(1).ilog2() + 3;
        let key_bytes = (number_bits + common_bits).div_ceil(8).min(WORD as u32);
        Self {
            key_bytes: key_bytes as usize,
            gap_bits: 8 * key_bytes - number_bits,
            least,
            keys: keys.len(),
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend([self.key_bytes as u8, self.gap_bits as u8]);
        out.extend(self.least.to_le_bytes());
        out.extend((self.keys as u32).to_le_bytes());
    }

    fn take(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
        let layout = Self {
            key_bytes: bytes[0].into(),
            gap_bits: bytes[1].into(),
            least: word(2),
            keys: word(6) as usize,
        };
        let number_bits = (8 * u32::from(bytes[0])).checked_sub(layout.gap_bits)?;
        (layout.key_bytes <= WORD && layout.gap_bits > 0 && number_bits <= 32).then_some(layout)
    }

    /// A gap of all ones: the gap itself does not fit, and follows.
    fn escape(&self) -> u64 {
        u64::MAX >> (64 - self.gap_bits)
    }
}

/// Appends a block of sorted keys.
pub fn put_keys<K: Key>(out: &mut Vec<u8>, keys: &[K]) {
    let layout = PackedLayout::of(keys);
    layout.put(out);
    let escape = layout.escape();
    let mut at = out.len();
    let mut before = 0;
    out.resize(at + layout.key_bytes * keys.len() + WORD, 0);
    for (index, key) in keys.iter().enumerate() {
        let gap = key.blot() - before;
        before = key.blot();
        // If numbers take no bits, gaps take 64: a shift by 64 gives 0, which the number is.
        let number = u64::from(key.number() - layout.least)
            .checked_shl(layout.gap_bits)
            .unwrap_or_default();
        if gap < escape {
            put_word(out, at, number | gap);
        } else {
            // Room for the gap that follows.
            out.resize(at + layout.key_bytes * (keys.len() - index) + 2 * WORD, 0);
            put_word(out, at, number | escape);
            put_word(out, at + layout.key_bytes, gap);
            at += WORD;
        }
        at += layout.key_bytes;
    }
    out.truncate(at);
}

/// Appends the keys of the block at the start of `bytes`, and returns the bytes after it.
///
/// Returns `None` if there is no valid block.
pub fn take_keys<'a, K: Key>(bytes: &'a [u8], out: &mut Vec<K>) -> Option<&'a [u8]> {
    take_keys_as(bytes, out, |number| Some(Some(number)))
}

/// As [`take_keys`], with other numbers.
///
/// `number_of` returns the new number, `Some(None)` to drop the key, or `None` for an invalid
/// number.
pub(super) fn take_keys_as<'a, K: Key>(
    bytes: &'a [u8],
    out: &mut Vec<K>,
    number_of: impl Fn(u32) -> Option<Option<u32>>,
) -> Option<&'a [u8]> {
    let layout = PackedLayout::take(bytes)?;
    let escape = layout.escape();
    let mut bytes = &bytes[HEADER_BYTES..];
    let mut before = 0_u64;
    out.reserve(layout.keys.min(bytes.len()));
    for _ in 0..layout.keys {
        let word = word_of(bytes, layout.key_bytes)?;
        let number = word.checked_shr(layout.gap_bits).unwrap_or_default() as u32;
        let mut gap = word & escape;
        bytes = &bytes[layout.key_bytes..];
        if gap == escape {
            gap = word_of(bytes, WORD)?;
            bytes = &bytes[WORD..];
        }
        before = before.wrapping_add(gap);
        if let Some(number) = number_of(layout.least.wrapping_add(number))? {
            out.push(K::new(before, number));
        }
    }
    Some(bytes)
}

fn put_word(out: &mut [u8], at: usize, word: u64) {
    out[at..at + WORD].copy_from_slice(&word.to_le_bytes());
}

/// The first `width` bytes as a number.
fn word_of(bytes: &[u8], width: usize) -> Option<u64> {
    if let Some(word) = bytes.first_chunk() {
        return Some(u64::from_le_bytes(*word) & u64::MAX >> (8 * (WORD - width)));
    }
    let mut word = [0; WORD];
    word[..width].copy_from_slice(bytes.get(..width)?);
    Some(u64::from_le_bytes(word))
}

/// Appends the keys of all blocks in a range of a temporary file.
pub(super) fn read_keys<K: Key>(
    file: &TempFile,
    range: &Range<u64>,
    out: &mut Vec<K>,
) -> Result<()> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    file.read_at(&mut bytes, range.start)?;
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        rest = take_keys(rest, out)
            .ok_or_else(|| file.failed(std::io::ErrorKind::InvalidData.into()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pack_and_read<K: Key>(blocks: &[Vec<(u64, u32)>]) -> Vec<Vec<(u64, u32)>> {
        let mut bytes = Vec::new();
        for block in blocks {
            put_keys(
                &mut bytes,
                &block
                    .iter()
                    .map(|&(blot, number)| K::new(blot, number))
                    .collect::<Vec<K>>(),
            );
        }
        let mut rest = &bytes[..];
        let mut found = Vec::new();
        while !rest.is_empty() {
            let mut keys = Vec::<K>::new();
            rest = take_keys(rest, &mut keys).unwrap();
            found.push(
                keys.into_iter()
                    .map(|key| (key.blot(), key.number()))
                    .collect(),
            );
        }
        for cut in 0..bytes.len().min(40) {
            assert!(
                take_keys::<K>(&bytes[..cut], &mut Vec::new()).is_none() || cut >= HEADER_BYTES
            );
        }
        found
    }

    #[test]
    fn a_key_of_a_dense_run_takes_four_bytes() {
        let keys: Vec<u64> = (0..10_000)
            .map(|n| u64::new(n * 130, (n * 7919 % 20_000) as u32))
            .collect();
        let mut bytes = Vec::new();
        put_keys(&mut bytes, &keys);
        assert_eq!(bytes.len(), HEADER_BYTES + 4 * keys.len());
    }

    proptest! {
        #[test]
        fn packed_keys_are_read_back(
            blocks in prop::collection::vec((0_u32..65, 0_u32..33, prop::collection::vec((any::<u64>(), any::<u32>()), 0..60)), 0..5),
        ) {
            let narrowed = |blot_bits: u32| -> Vec<Vec<(u64, u32)>> {
                blocks.iter().map(|(bits, number_bits, keys)| {
                    let shift = 64 - (*bits).min(blot_bits);
                    let mut keys: Vec<(u64, u32)> = keys.iter().map(|&(blot, number)| (blot.checked_shr(shift).unwrap_or(0), number.checked_shr(32 - number_bits).unwrap_or(0))).collect();
                    keys.sort_unstable();
                    keys
                }).collect()
            };
            prop_assert_eq!(pack_and_read::<u64>(&narrowed(32)), narrowed(32));
            prop_assert_eq!(pack_and_read::<u128>(&narrowed(64)), narrowed(64));
        }
    }
}
