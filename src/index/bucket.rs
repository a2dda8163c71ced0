//! The format of a bucket: neighbouring blots of a part, with their numbers.
//!
//! The number of blots and the bytes of their gaps, as varints; the gaps, to the blot before less
//! one (to the bucket's start for the first), in a Rice code; then, from the next byte on, the
//! numbers: of sets in a prefix code, of documents in a fixed width. A look-up
//! decodes the gaps alone.

use crate::{
    base::codec::{BitReader, BitWriter, Fields, NumberCode, put_varint},
    base::num::ToUsize,
    index::posting::Key,
};
use serde::{Deserialize, Serialize};

const RANKS_AT_ONCE: usize = 64;

/// How numbers are written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NumberShape {
    /// The widths of the prefix code.
    Code(Vec<u8>),
    Fixed(u8),
    /// The widths of the prefix code of ranks; a table leads from a rank to its number.
    Ranked(Vec<u8>),
}

/// How the numbers of a section are encoded.
#[derive(Debug, Clone)]
pub enum NumberCodec {
    Code(NumberCode),
    Fixed(u32),
    /// As writers use it; a reader decodes ranks with [`NumberCodec::Code`].
    Ranked {
        code: NumberCode,
        /// The rank of each number.
        rank_of: Vec<u32>,
        /// The number of each rank.
        places: Vec<u32>,
    },
}

impl NumberCodec {
    /// The description of this code in files.
    pub fn shape(&self) -> NumberShape {
        match self {
            Self::Code(code) => NumberShape::Code(code.widths().to_vec()),
            Self::Fixed(width) => NumberShape::Fixed(*width as u8),
            Self::Ranked { code, .. } => NumberShape::Ranked(code.widths().to_vec()),
        }
    }

    /// The code with this description; none if there is no such code.
    pub fn of(shape: &NumberShape) -> Option<Self> {
        match shape {
            NumberShape::Code(widths) | NumberShape::Ranked(widths) => {
                NumberCode::of_widths(widths).map(Self::Code)
            }
            NumberShape::Fixed(width) => (*width <= 32).then_some(Self::Fixed(u32::from(*width))),
        }
    }

    fn put_numbers<K: Key>(&self, out: &mut BitWriter, keys: &[K]) {
        let numbers = keys.iter().map(|key| key.number());
        match self {
            Self::Code(code) => numbers.for_each(|number| code.put(out, number)),
            Self::Fixed(width) => numbers.for_each(|number| out.put(u64::from(number), *width)),
            Self::Ranked { code, rank_of, .. } => {
                // Ranks of millions of documents are not in the cache: all are fetched at once,
                // as a code waits for the one before.
                let mut ranks = [0; RANKS_AT_ONCE];
                for keys in keys.chunks(RANKS_AT_ONCE) {
                    for (rank, key) in ranks.iter_mut().zip(keys) {
                        *rank = rank_of[key.number().to_usize()];
                    }
                    let ranks = &ranks[..keys.len()];
                    ranks.iter().for_each(|&rank| code.put(out, rank));
                }
            }
        }
    }

    fn take(&self, bits: &mut BitReader<'_>) -> Option<u32> {
        match self {
            Self::Code(code) | Self::Ranked { code, .. } => code.take(bits),
            Self::Fixed(width) => Some(bits.take(*width) as u32),
        }
    }

    /// Passes over some, and takes the next.
    fn take_at(&self, bits: &mut BitReader<'_>, index: u64) -> Option<u32> {
        match self {
            Self::Code(code) | Self::Ranked { code, .. } => {
                (0..index).try_for_each(|_| code.skip(bits))?;
            }
            Self::Fixed(width) => bits.skip(index.checked_mul(u64::from(*width))?),
        }
        self.take(bits).filter(|_| !bits.is_past_end())
    }
}

/// Appends a bucket: its entries, and the least blot it may have. `bits` is
/// scratch space.
pub fn put<K: Key>(
    out: &mut Vec<u8>,
    bits: &mut BitWriter,
    keys: &[K],
    first_blot: u64,
    blot_of: impl Fn(&K) -> u64,
    rice: u32,
    numbers: &NumberCodec,
) {
    bits.bytes.clear();
    let mut next = first_blot;
    for key in keys {
        let blot = blot_of(key);
        bits.put_rice(blot - next, rice);
        next = blot.wrapping_add(1);
    }
    bits.align();
    let gap_bytes = bits.bytes.len();
    numbers.put_numbers(bits, keys);
    bits.align();
    put_varint(out, keys.len() as u64);
    put_varint(out, gap_bytes as u64);
    out.extend_from_slice(&bits.bytes);
}

/// The bytes of a bucket, ready to be decoded.
pub struct EncodedBucket<'a> {
    blots: u64,
    gaps: BitReader<'a>,
    numbers: BitReader<'a>,
    /// The least and the greatest blot that it may have.
    range: [u64; 2],
    rice: u32,
}

/// The error for bytes that are no bucket.
#[derive(Debug, Clone, Copy)]
pub struct BrokenBucket;

impl<'a> EncodedBucket<'a> {
    /// Reads the head of a bucket whose blots lie in a range.
    pub fn new(bytes: &'a [u8], range: [u64; 2], rice: u32) -> Result<Self, BrokenBucket> {
        let mut fields = Fields::new(bytes);
        let blots = fields
            .varint("number of blots in a bucket")
            .map_err(|_| BrokenBucket)?;
        let gap_bytes = fields
            .varint("bytes of gaps in a bucket")
            .map_err(|_| BrokenBucket)?;
        let rest = &bytes[bytes.len() - fields.left() as usize..];
        let (gaps, numbers) = usize::try_from(gap_bytes)
            .ok()
            .and_then(|length| rest.split_at_checked(length))
            .ok_or(BrokenBucket)?;
        Ok(Self {
            blots,
            gaps: BitReader::new(gaps),
            numbers: BitReader::new(numbers),
            range,
            rice,
        })
    }

    /// The number that is stored with a blot.
    pub fn find(mut self, sought: u64, numbers: &NumberCodec) -> Result<Option<u32>, BrokenBucket> {
        let mut next = Some(self.range[0]);
        for index in 0..self.blots {
            let blot = self.next_blot(next)?;
            if blot >= sought {
                return if blot == sought {
                    numbers
                        .take_at(&mut self.numbers, index)
                        .ok_or(BrokenBucket)
                        .map(Some)
                } else {
                    Ok(None)
                };
            }
            next = blot.checked_add(1);
        }
        Ok(None)
    }

    /// Calls `each` with every blot and its number.
    pub fn for_each<E: From<BrokenBucket>>(
        mut self,
        numbers: &NumberCodec,
        mut each: impl FnMut(u64, u32) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut next = Some(self.range[0]);
        for _ in 0..self.blots {
            let blot = self.next_blot(next)?;
            each(
                blot,
                numbers
                    .take(&mut self.numbers)
                    .filter(|_| !self.numbers.is_past_end())
                    .ok_or(BrokenBucket)?,
            )?;
            next = blot.checked_add(1);
        }
        Ok(())
    }

    /// Calls `each` with every number, without decoding blots.
    pub fn for_each_number(
        mut self,
        numbers: &NumberCodec,
        mut each: impl FnMut(u32),
    ) -> Result<(), BrokenBucket> {
        for _ in 0..self.blots {
            each(
                numbers
                    .take(&mut self.numbers)
                    .filter(|_| !self.numbers.is_past_end())
                    .ok_or(BrokenBucket)?,
            );
        }
        Ok(())
    }

    fn next_blot(&mut self, next: Option<u64>) -> Result<u64, BrokenBucket> {
        let blot = next
            .ok_or(BrokenBucket)?
            .checked_add(self.gaps.take_rice(self.rice))
            .filter(|&blot| blot <= self.range[1]);
        blot.filter(|_| !self.gaps.is_past_end())
            .ok_or(BrokenBucket)
    }
}
