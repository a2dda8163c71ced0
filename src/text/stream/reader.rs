//! The frame of a binary stream: header, blocks, end.
//!
//! Reading a block is cheap and serial: its head is checked here, its payload's checksum by the thread
//! that decodes it ([`StreamBlock::open`]).

use super::header::{Header, MAGIC, MAX_HEADER_BYTES, VERSION};
use crate::base::num::{ToU64, ToUsize};
use crate::base::{
    codec::{Fields, checksum},
    error::{Error, Place, Result},
};
use std::{
    io::{self, BufRead, Read},
    sync::Arc,
};

/// Bytes of a block's head: length, records, first record, checksum of the payload, checksum of the head.
pub(super) const HEAD_BYTES: usize = 40;

/// One block of records, its checksum not yet looked at.
#[derive(Debug)]
pub struct StreamBlock {
    /// Where it starts.
    pub place: Place,
    /// The number of its records.
    pub records: u64,
    payload_checksum: u64,
    payload: Vec<u8>,
}

impl StreamBlock {
    /// The records of the block, once its checksum was found right.
    pub fn open(&self) -> Result<Fields<'_>> {
        if checksum(&self.payload) != self.payload_checksum {
            return Err(Error::damaged(
                self.place.clone(),
                "a block's checksum does not match; the stream was altered",
            ));
        }
        Ok(Fields::new(&self.payload))
    }

    /// The length of its records.
    pub fn bytes(&self) -> u64 {
        self.payload.len().to_u64()
    }
}

/// Reads blocks up to the end record. Streams of one scheme may follow one another.
pub struct BlockReader<R> {
    input: R,
    file: Arc<str>,
    at_byte: u64,
    header: Header,
    records: u64,
    is_done: bool,
}

impl<R: BufRead> BlockReader<R> {
    /// Reads the header. The magic bytes must be still there.
    pub fn open(input: R, file: Arc<str>) -> Result<Self> {
        let header = Header::new(super::StreamKind::Tokens, String::new());
        let mut reader = Self {
            input,
            file,
            at_byte: 0,
            header,
            records: 0,
            is_done: false,
        };
        reader.header = reader.read_header()?;
        Ok(reader)
    }

    /// The header of the stream.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next block; none after the end record.
    pub fn next_block(&mut self) -> Result<Option<StreamBlock>> {
        while !self.is_done {
            let place = self.place();
            let mut head = [0; HEAD_BYTES];
            self.fill(&mut head, "the head of a block")?;
            let [length, records, first, payload_checksum, head_checksum] = fixed_words(&head);
            if checksum(&head[..HEAD_BYTES - 8]) != head_checksum {
                return Err(Error::damaged(
                    place,
                    "the head of a block does not match its checksum; the stream was altered",
                ));
            }
            if first != self.records {
                return Err(Error::damaged(
                    place,
                    format!(
                        "a block starts at record {first}, expected {}; blocks are missing or swapped",
                        self.records
                    ),
                ));
            }
            if records == 0 {
                self.end_or_next_stream()?;
                continue;
            }
            self.records = self
                .records
                .checked_add(records)
                .ok_or_else(|| Error::damaged(place.clone(), "more records than can be"))?;
            let payload = self.payload(length)?;
            return Ok(Some(StreamBlock {
                place,
                records,
                payload_checksum,
                payload,
            }));
        }
        Ok(None)
    }

    /// After an end record: the end of the input, or another stream of the same scheme.
    fn end_or_next_stream(&mut self) -> Result<()> {
        if self
            .input
            .fill_buf()
            .map_err(|error| Error::io(&self.file, error))?
            .is_empty()
        {
            self.is_done = true;
            return Ok(());
        }
        let place = self.place();
        let header = self.read_header()?;
        if header != self.header {
            return Err(Error::Scheme {
                place,
                found: header.scheme,
                expected: self.header.scheme.clone(),
                remedy: "only streams of one kind and scheme can be joined",
            });
        }
        self.records = 0;
        Ok(())
    }

    fn read_header(&mut self) -> Result<Header> {
        let place = self.place();
        let damaged = |what: String| Error::damaged(place.clone(), what);
        let mut fixed = [0; 16];
        self.fill(&mut fixed, "the header")?;
        let version = u32::from_le_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]);
        let length = u32::from_le_bytes([fixed[12], fixed[13], fixed[14], fixed[15]]);
        if fixed[..8] != MAGIC {
            return Err(damaged("not a dedup stream".to_owned()));
        }
        if version != VERSION {
            return Err(damaged(format!(
                "stream version is {version}, this program reads version {VERSION}"
            )));
        }
        if length > MAX_HEADER_BYTES {
            return Err(damaged(format!(
                "a header of {length} bytes, more than {MAX_HEADER_BYTES}; the stream was altered"
            )));
        }
        let mut whole = fixed.to_vec();
        whole.resize(16 + length.to_usize(), 0);
        self.fill(&mut whole[16..], "the header")?;
        let mut sum = [0; 8];
        self.fill(&mut sum, "the header")?;
        if checksum(&whole) != u64::from_le_bytes(sum) {
            return Err(damaged(
                "the header does not match its checksum; the stream was altered".to_owned(),
            ));
        }
        Header::parse(&whole[16..]).map_err(damaged)
    }

    /// Reads as much as is there, so that a wrong length never allocates more than the input holds.
    fn payload(&mut self, length: u64) -> Result<Vec<u8>> {
        let mut payload = Vec::with_capacity(length.min(1 << 20).to_usize());
        self.input
            .by_ref()
            .take(length)
            .read_to_end(&mut payload)
            .map_err(|error| Error::io(&self.file, error))?;
        self.at_byte += payload.len().to_u64();
        if payload.len().to_u64() < length {
            return Err(self.cut("a block"));
        }
        Ok(payload)
    }

    fn fill(&mut self, buffer: &mut [u8], what: &str) -> Result<()> {
        match self.input.read_exact(buffer) {
            Ok(()) => {
                self.at_byte += buffer.len().to_u64();
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(self.cut(what)),
            Err(error) => Err(Error::io(&self.file, error)),
        }
    }

    fn cut(&self, what: &str) -> Error {
        Error::damaged(
            self.place(),
            format!(
                "the stream ends within {what}, without an end record; the program that wrote it did not finish"
            ),
        )
    }

    fn place(&self) -> Place {
        Place::byte(&self.file, self.at_byte)
    }
}

fn fixed_words(head: &[u8; HEAD_BYTES]) -> [u64; 5] {
    std::array::from_fn(|index| {
        u64::from_le_bytes(std::array::from_fn(|byte| head[8 * index + byte]))
    })
}
