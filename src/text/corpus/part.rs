//! A part of a large file: some of its records, read as if all before them had been read.
//!
//! A plan cuts a file where records begin (`cut`), and notes for each part where its bytes are and how many
//! lines and records are before it, so that ids and messages are those of the whole file.

use super::{
    chunk::READ_BYTES,
    format::Records,
    skipped_kind::BOM,
    unpack::{Input, unpack_once},
    walk::FileEntry,
};
use crate::base::num::{ToU64, ToUsize};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, BufReader, Cursor, Read},
    ops::Range,
    os::unix::fs::FileExt,
};

/// A part of a file of many records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePart {
    /// Its number among the parts of the file, from 0.
    pub number: usize,
    /// How many parts the file has.
    pub count: usize,
    /// The format of the records.
    pub records: Records,
    /// The number of its first record, and the first number behind its records, counted as
    /// [`InputDocument::record`](super::InputDocument::record) counts.
    pub numbers: [u64; 2],
    /// The line of its first record; 0 if the file is no text.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub line: u64,
    /// The bytes of the file that it is read from, each as its start and end, in rising order.
    pub extents: Vec<[u64; 2]>,
    /// The first extent is the header of a table, whose rows are in the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_header: bool,
    /// Its place in what the bytes hold, if they are packed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpacked: Option<UnpackedPlace>,
    /// The first of its row groups, and the first behind them, if the file is a Parquet table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_groups: Option<[usize; 2]>,
}

/// Where records are in unpacked bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpackedPlace {
    /// The bytes before the first record.
    pub skip: u64,
    /// The bytes of all records.
    pub bytes: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The records of a part, unpacked.
pub(super) struct PartInput {
    /// The records.
    pub input: Input,
    /// The header of the table, if it comes before the part.
    pub header: Option<Vec<u8>>,
    /// A byte-order mark came before them, and was taken away.
    pub has_bom: bool,
}

impl FilePart {
    /// How many bytes of the file are read.
    pub fn bytes(&self) -> u64 {
        self.extents
            .iter()
            .map(|[start, end]| end.saturating_sub(*start))
            .sum()
    }

    /// Whether it is the first part of its file.
    pub fn is_first(&self) -> bool {
        self.number == 0
    }

    /// Whether it is the last part of its file.
    pub fn is_last(&self) -> bool {
        self.number + 1 >= self.count
    }

    /// The numbers of its records.
    pub fn record_range(&self) -> Range<u64> {
        self.numbers[0]..self.numbers[1]
    }

    /// Opens the records of a part that is text.
    pub(super) fn open(&self, entry: &FileEntry) -> io::Result<PartInput> {
        let file = entry.open()?;
        let mut extents = self.extents.iter();
        let header = match extents.next().filter(|_| self.has_header) {
            Some(&[start, end]) => Some(header_row(&read_extent(&file, start..end)?)),
            None => None,
        };
        let rest = &self.extents[usize::from(self.has_header).min(self.extents.len())..];
        let plain = BufReader::with_capacity(READ_BYTES, Extents::new(file, rest));
        let mut input: Input = match self.unpacked {
            None => Box::new(plain),
            Some(place) => {
                let mut unpacked = unpack_once(Box::new(plain))?;
                let skipped = io::copy(&mut unpacked.by_ref().take(place.skip), &mut io::sink())?;
                if skipped < place.skip {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Box::new(BufReader::with_capacity(
                    READ_BYTES,
                    Exactly {
                        input: unpacked,
                        left: place.bytes,
                    },
                ))
            }
        };
        let has_bom = self.is_first() && take_bom(&mut input)?;
        Ok(PartInput {
            input,
            header,
            has_bom,
        })
    }
}

/// The header of a table without what comes before it, with its line end.
fn header_row(bytes: &[u8]) -> Vec<u8> {
    let bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
    let is_end = |byte: &&u8| matches!(byte, b'\r' | b'\n');
    bytes[bytes.iter().take_while(is_end).count()..].to_vec()
}

fn read_extent(file: &File, extent: Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Extents::new(file.try_clone()?, &[[extent.start, extent.end]]).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Takes a byte-order mark from the beginning, if there is one.
fn take_bom(input: &mut Input) -> io::Result<bool> {
    let mut head = Vec::new();
    input
        .by_ref()
        .take(BOM.len().to_u64())
        .read_to_end(&mut head)?;
    let has_bom = head == BOM;
    if !has_bom {
        let rest = std::mem::replace(input, Box::new(io::empty()));
        *input = Box::new(Cursor::new(head).chain(rest));
    }
    Ok(has_bom)
}

/// Reads some extents of a file, one after the other. It is an error if the file ends before they do.
pub(super) struct Extents {
    file: File,
    /// The last comes first.
    extents: Vec<[u64; 2]>,
}

impl Extents {
    pub fn new(file: File, extents: &[[u64; 2]]) -> Self {
        let extents = extents.iter().rev().copied().collect();
        Self { file, extents }
    }
}

impl Read for Extents {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some([start, end]) = self.extents.last_mut() {
            let left = end.saturating_sub(*start);
            if left == 0 {
                self.extents.pop();
                continue;
            }
            let wanted = buffer.len().to_u64().min(left).to_usize();
            let count = self.file.read_at(&mut buffer[..wanted], *start)?;
            if count == 0 && wanted > 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the file is shorter than it was",
                ));
            }
            *start += count.to_u64();
            return Ok(count);
        }
        Ok(0)
    }
}

/// Reads this number of bytes; it is an error if there are fewer.
struct Exactly {
    input: Input,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().to_u64().min(self.left).to_usize();
        if wanted == 0 {
            return Ok(0);
        }
        let count = self.input.read(&mut buffer[..wanted])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count.to_u64();
        Ok(count)
    }
}
