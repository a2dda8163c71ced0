//! The compact protocol of Thrift, as far as checking a Parquet file needs it.
//!
//! The parquet crate trusts some of the numbers in a file before it has seen what they describe. These functions walk
//! over a structure first, without allocating, and with a bound on nesting.

/// Why bytes are not a Thrift structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThriftError {
    /// More bytes are needed.
    Short,
    /// No bytes that follow could mend this.
    Malformed,
}

/// Deeper structures are not read: Parquet's own have less than ten levels.
const MOST_LEVELS: u8 = 32;

/// The types of the protocol.
pub mod kind {
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    pub const I8: u8 = 3;
    pub const I16: u8 = 4;
    pub const I32: u8 = 5;
    pub const I64: u8 = 6;
    pub const DOUBLE: u8 = 7;
    pub const BINARY: u8 = 8;
    pub const LIST: u8 = 9;
    pub const SET: u8 = 10;
    pub const MAP: u8 = 11;
    pub const STRUCT: u8 = 12;
    pub const UUID: u8 = 13;
}

/// Reads a structure from the start of some bytes.
pub struct ThriftReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A field of a structure: its number and the type of its value.
#[derive(Debug, Clone, Copy)]
pub struct ThriftField {
    pub id: i16,
    pub kind: u8,
}

impl<'a> ThriftReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes were read.
    pub fn position(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Result<u8, ThriftError> {
        let byte = *self.bytes.get(self.at).ok_or(ThriftError::Short)?;
        self.at += 1;
        Ok(byte)
    }

    fn skip_bytes(&mut self, count: u64) -> Result<(), ThriftError> {
        let left = self.bytes.len() - self.at;
        let count = usize::try_from(count).map_err(|_| ThriftError::Malformed)?;
        if count > left {
            return Err(ThriftError::Short);
        }
        self.at += count;
        Ok(())
    }

    /// A number in groups of seven bits.
    pub fn varint(&mut self) -> Result<u64, ThriftError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        Err(ThriftError::Malformed)
    }

    /// A number with a sign in its lowest bit.
    pub fn integer(&mut self) -> Result<i64, ThriftError> {
        let zigzag = self.varint()?;
        let magnitude = i64::try_from(zigzag >> 1).map_err(|_| ThriftError::Malformed)?;
        Ok(if zigzag & 1 == 0 {
            magnitude
        } else {
            !magnitude
        })
    }

    /// The next field of a structure; `None` at its end. `last` is the number of the field before, 0 for the first.
    pub fn field(&mut self, last: &mut i16) -> Result<Option<ThriftField>, ThriftError> {
        let head = self.byte()?;
        if head == 0 {
            return Ok(None);
        }
        let id = match i16::from(head >> 4) {
            0 => i16::try_from(self.integer()?).map_err(|_| ThriftError::Malformed)?,
            step => last.checked_add(step).ok_or(ThriftError::Malformed)?,
        };
        *last = id;
        let kind = head & 15;
        Ok(Some(ThriftField { id, kind }))
    }

    /// The type and the number of the elements of a list.
    pub fn list(&mut self) -> Result<(u8, u64), ThriftError> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            few => u64::from(few),
        };
        Ok((head & 15, count))
    }

    /// Passes over a value.
    pub fn skip(&mut self, kind: u8) -> Result<(), ThriftError> {
        self.skip_levels(kind, MOST_LEVELS)
    }

    fn skip_levels(&mut self, kind: u8, levels: u8) -> Result<(), ThriftError> {
        let below = levels.checked_sub(1).ok_or(ThriftError::Malformed)?;
        match kind {
            kind::TRUE | kind::FALSE => Ok(()),
            kind::I8 => self.skip_bytes(1),
            kind::I16 | kind::I32 | kind::I64 => self.varint().map(drop),
            kind::DOUBLE => self.skip_bytes(8),
            kind::UUID => self.skip_bytes(16),
            kind::BINARY => {
                let count = self.varint()?;
                self.skip_bytes(count)
            }
            kind::LIST | kind::SET => {
                let (kind, count) = self.list()?;
                self.skip_elements(&[kind], count, below)
            }
            kind::MAP => match self.varint()? {
                0 => Ok(()),
                count => {
                    let kinds = self.byte()?;
                    self.skip_elements(&[kinds >> 4, kinds & 15], count, below)
                }
            },
            kind::STRUCT => {
                let mut last = 0;
                while let Some(field) = self.field(&mut last)? {
                    self.skip_levels(field.kind, below)?;
                }
                Ok(())
            }
            _ => Err(ThriftError::Malformed),
        }
    }

    /// In a list a truth value has a byte of its own.
    fn skip_elements(&mut self, kinds: &[u8], count: u64, levels: u8) -> Result<(), ThriftError> {
        for _ in 0..count {
            for &kind in kinds {
                match kind {
                    kind::TRUE | kind::FALSE => self.skip_bytes(1)?,
                    kind => self.skip_levels(kind, levels)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(ThriftReader::new(&[0xac, 2]).varint(), Ok(300));
        assert_eq!(ThriftReader::new(&[3]).integer(), Ok(-2));
        assert_eq!(ThriftReader::new(&[0xac]).varint(), Err(ThriftError::Short));
        let endless = [255; 20];
        assert_eq!(
            ThriftReader::new(&endless).varint(),
            Err(ThriftError::Malformed)
        );
    }

    #[test]
    fn deep_and_long_values_end() {
        let deep = [0x1c; 1000];
        assert_eq!(
            ThriftReader::new(&deep).skip(kind::STRUCT),
            Err(ThriftError::Malformed)
        );
        let long = [0xf1, 255, 255, 255, 255, 127, 1, 1];
        assert_eq!(
            ThriftReader::new(&long).skip(kind::LIST),
            Err(ThriftError::Short)
        );
    }
}
