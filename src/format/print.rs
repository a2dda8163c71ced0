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
    pub fn from_bytes(bytes: &[u8; PRINT_BYTES]) -> Self {
        Self(std::array::from_fn(|word| u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * word + byte]))))
    }

    pub fn to_bytes(self) -> [u8; PRINT_BYTES] {
        std::array::from_fn(|at| (self.0[at / 8] >> (at % 8 * 8)) as u8)
    }

    /// How many bits are set.
    #[inline]
    pub fn cardinality(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// How many bits differ.
    #[inline]
    pub fn distance(&self, other: &Self) -> u32 {
        self.0.iter().zip(&other.0).map(|(one, two)| (one ^ two).count_ones()).sum()
    }

    pub fn bit(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }
}

/// Two hex digits a byte, the byte with bit 0 first.
impl fmt::Display for Print {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
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
            *byte = digit(2 * at).zip(digit(2 * at + 1)).map(|(high, low)| (high << 4 | low) as u8).ok_or_else(wrong)?;
        }
        Ok(Self::from_bytes(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_print_is_read_back_as_written(words: [u64; 4], other: [u64; 4]) {
            let (print, other) = (Print(words), Print(other));
            prop_assert_eq!(print.to_string().parse::<Print>().unwrap(), print);
            prop_assert_eq!(Print::from_bytes(&print.to_bytes()), print);
            prop_assert_eq!((0..256).filter(|&at| print.bit(at)).count() as u32, print.cardinality());
            prop_assert_eq!((0..256).filter(|&at| print.bit(at) != other.bit(at)).count() as u32, print.distance(&other));
        }
    }

    #[test]
    fn other_text_is_no_print() {
        for text in ["", "00", &"g0".repeat(32), &"é".repeat(32), &"0".repeat(65)] {
            assert!(text.parse::<Print>().is_err());
        }
    }
}
