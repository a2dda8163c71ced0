//! Variable-length integers: one to ten bytes of seven bits each, lowest first.
//!
//! Writing is varint-rs. Reading is our own: bytes from outside are hostile, and a varint of eleven
//! bytes must be an error, not an overflowing shift.

use crate::base::num::ToU64;
use varint_rs::VarintWriter;

/// Appends a number.
pub fn put(out: &mut Vec<u8>, value: u64) {
    // Writing to a Vec cannot fail.
    let _ = out.write_u64_varint(value);
}

/// Appends a signed number. Maps small numbers of either sign to small numbers: 0, -1, 1, -2 become 0, 1, 2, 3.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Reads the fields of a record in order; an error names the field that is cut or wrong.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether all bytes are read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes are left: no count in a record can be larger.
    pub fn left(&self) -> u64 {
        self.rest.len().to_u64()
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: u64, what: &str) -> Result<&'a [u8], String> {
        let taken = usize::try_from(count)
            .ok()
            .and_then(|count| self.rest.split_at_checked(count));
        let (taken, rest) = taken
            .ok_or_else(|| format!("{what} of {count} bytes, but {} are left", self.rest.len()))?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next byte.
    pub fn byte(&mut self, what: &str) -> Result<u8, String> {
        Ok(self.take(1, what)?[0])
    }

    /// The next number.
    pub fn varint(&mut self, what: &str) -> Result<u64, String> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(format!("{what} is not a number of 64 bits"))
    }

    /// The next signed number.
    pub fn signed(&mut self, what: &str) -> Result<i64, String> {
        let value = self.varint(what)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back() {
        let numbers = [
            0,
            1,
            127,
            128,
            300,
            u64::from(u32::MAX),
            u64::MAX - 1,
            u64::MAX,
        ];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|&n| put(&mut bytes, n));
        let signed = [0, -1, 1, i64::MIN, i64::MAX];
        signed.iter().for_each(|&n| put_signed(&mut bytes, n));
        let mut fields = Fields::new(&bytes);
        assert_eq!(numbers.map(|_| fields.varint("n").unwrap()), numbers);
        assert_eq!(signed.map(|_| fields.signed("n").unwrap()), signed);
        assert!(fields.is_empty());
    }

    #[test]
    fn cut_and_endless_numbers_are_errors() {
        assert!(Fields::new(&[0x80]).varint("n").is_err());
        assert!(Fields::new(&[0xff; 20]).varint("n").is_err());
        assert!(
            Fields::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02])
                .varint("n")
                .is_err()
        );
    }
}
