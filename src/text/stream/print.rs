//! The print of a document: 256 bits, and how many two prints have in common.

use std::{fmt, str::FromStr};

/// Bits of a print.
pub const PRINT_BITS: usize = 256;
/// Bytes of a print, bit 0 in the lowest bit of the first.
pub const PRINT_BYTES: usize = PRINT_BITS / 8;

/// 256 bits, bit 0 in the lowest bit of the first word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Print(pub [u64; 4]);

impl Print {
    /// Reads the bytes that [`Print::to_bytes`] gives.
    pub fn from_bytes(bytes: &[u8; PRINT_BYTES]) -> Self {
        Self::from_slice(bytes)
    }

    /// With at least this many bytes.
    #[inline(always)]
    pub fn from_slice(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[8 * at..8 * at + 8]);
            u64::from_le_bytes(word)
        };
        Self([word(0), word(1), word(2), word(3)])
    }

    /// The print as files have it.
    pub fn to_bytes(self) -> [u8; PRINT_BYTES] {
        let mut bytes = [0; PRINT_BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// How many bits are set.
    #[inline(always)]
    pub fn cardinality(&self) -> u32 {
        let [a, b, c, d] = self.0;
        a.count_ones() + b.count_ones() + c.count_ones() + d.count_ones()
    }

    /// How many bits differ.
    #[inline(always)]
    pub fn distance(&self, other: &Self) -> u32 {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        (a ^ e).count_ones() + (b ^ f).count_ones() + (c ^ g).count_ones() + (d ^ h).count_ones()
    }

    /// One of the 256 bits.
    pub fn bit(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }
}

/// Two hex digits a byte, the byte with bit 0 first.
impl fmt::Display for Print {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Print {
    type Err = String;

    fn from_str(hex: &str) -> Result<Self, String> {
        let wrong = || format!("print '{hex}' is not {} hex digits", 2 * PRINT_BYTES);
        let digits = hex.as_bytes();
        if digits.len() != 2 * PRINT_BYTES {
            return Err(wrong());
        }
        let digit = |at: usize| char::from(digits[at]).to_digit(16);
        let mut bytes = [0; PRINT_BYTES];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = digit(2 * at)
                .zip(digit(2 * at + 1))
                .map(|(high, low)| (high << 4 | low) as u8)
                .ok_or_else(wrong)?;
        }
        Ok(Self::from_bytes(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::ToU32;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_print_is_read_back_as_written(words: [u64; 4], other: [u64; 4]) {
            let (print, other) = (Print(words), Print(other));
            prop_assert_eq!(print.to_string().parse::<Print>().unwrap(), print);
            prop_assert_eq!(Print::from_bytes(&print.to_bytes()), print);
            prop_assert_eq!((0..256).filter(|&at| print.bit(at)).count().to_u32(), print.cardinality());
            prop_assert_eq!((0..256).filter(|&at| print.bit(at) != other.bit(at)).count().to_u32(), print.distance(&other));
        }
    }

    #[test]
    fn other_text_is_no_print() {
        for text in ["", "00", &"g0".repeat(32), &"é".repeat(32), &"0".repeat(65)] {
            assert!(text.parse::<Print>().is_err());
        }
    }
}
