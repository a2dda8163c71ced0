//! Writes a stream in either form: header, records, end.

use super::{
    blots::Blots,
    header::{Header, MAGIC, VERSION},
    output::{Pieces, RecordOutput},
    record::{BlotCodec, Record, TokenCodec},
    tokens::Tokens,
};
use crate::base::codec::checksum;
use crate::base::num::{ToU32, ToU64};
use std::io::{self, Write};
use xxhash_rust::xxh3::Xxh3;

/// The two forms of every stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A line of JSON per record.
    Ndjson,
    /// Blocks of records with checksums.
    Binary,
}

/// Encoded records, made by a worker: the bytes, and where each record ends.
#[derive(Debug, Default)]
pub struct Batch {
    /// The encoded records.
    pub bytes: Vec<u8>,
    /// Where each record ends.
    pub ends: Vec<usize>,
    /// Records that are encoded as they are written, by number in rising order. They have no bytes here.
    large: Vec<(usize, LargeRecord)>,
}

/// What a record holds that is too large to be in memory twice.
#[derive(Debug)]
pub enum LargeContent {
    /// The tokens of a document.
    Tokens(TokenCodec, Tokens),
    /// The blots of a document.
    Blots(BlotCodec, Blots),
}

#[derive(Debug)]
struct LargeRecord {
    doc: Box<str>,
    bytes: Option<u64>,
    hash: Option<u128>,
    content: LargeContent,
}

impl LargeRecord {
    fn encode(&self, form: Form, out: &mut impl RecordOutput) {
        let record = Record {
            doc: &self.doc,
            bytes: self.bytes,
            hash: self.hash,
        };
        match (&self.content, form) {
            (LargeContent::Tokens(codec, tokens), Form::Ndjson) => {
                codec.write_ndjson(out, &record, tokens)
            }
            (LargeContent::Tokens(codec, tokens), Form::Binary) => {
                codec.write_binary(out, &record, tokens)
            }
            (LargeContent::Blots(codec, blots), Form::Ndjson) => {
                codec.write_ndjson(out, &record, blots)
            }
            (LargeContent::Blots(codec, blots), Form::Binary) => {
                codec.write_binary(out, &record, blots)
            }
        }
    }

    fn write(&self, form: Form, to: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut pieces = Pieces::new(to);
        self.encode(form, &mut pieces);
        pieces.finish()
    }

    /// About the bytes of memory it takes.
    fn weight(&self) -> usize {
        match &self.content {
            LargeContent::Tokens(_, tokens) => tokens.weight(),
            LargeContent::Blots(_, blots) => blots.weight(),
        }
    }
}

impl Batch {
    /// Takes records out again, given by number in rising order.
    pub fn drop_records(&mut self, dropped: &[usize]) {
        let (mut kept, mut start, mut dropped) = (Self::default(), 0, dropped.iter().peekable());
        let mut large = std::mem::take(&mut self.large).into_iter().peekable();
        for (index, &end) in self.ends.iter().enumerate() {
            let large = large.next_if(|&(number, _)| number == index);
            if dropped.next_if(|&&drop| drop == index).is_none() {
                kept.large
                    .extend(large.map(|(_, record)| (kept.ends.len(), record)));
                kept.bytes.extend_from_slice(&self.bytes[start..end]);
                kept.ends.push(kept.bytes.len());
            }
            start = end;
        }
        *self = kept;
    }

    /// Ends the record whose bytes were appended.
    pub fn finish_record(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// Adds a record that is encoded piece by piece while it is written.
    pub fn push_large(&mut self, record: &Record<'_>, content: LargeContent) {
        let &Record { doc, bytes, hash } = record;
        self.large.push((
            self.ends.len(),
            LargeRecord {
                doc: doc.into(),
                bytes,
                hash,
                content,
            },
        ));
        self.finish_record();
    }

    /// About the bytes of memory it takes.
    pub fn weight(&self) -> usize {
        let large: usize = self.large.iter().map(|(_, record)| record.weight()).sum();
        self.bytes.capacity() + size_of_val(&self.ends[..]) + large
    }
}

/// A block of the binary form ends with the first record that brings it to this size: so its bytes depend on the records only,
/// not on how they were batched.
const BLOCK_BYTES: usize = 1 << 18;

/// Writes the header at once and the end record on [`StreamWriter::finish`]; without the latter every reader
/// will refuse the stream.
pub struct StreamWriter<W> {
    out: W,
    form: Form,
    /// Of all blocks that are written, or of all lines.
    records: u64,
    block: Vec<u8>,
    block_records: u64,
}

impl<W: Write> StreamWriter<W> {
    /// Writes the header.
    pub fn new(mut out: W, form: Form, header: &Header) -> io::Result<Self> {
        let json = header.to_json();
        match form {
            Form::Ndjson => {
                out.write_all(&json)?;
                out.write_all(b"\n")?;
            }
            Form::Binary => {
                let mut bytes = MAGIC.to_vec();
                bytes.extend_from_slice(&VERSION.to_le_bytes());
                bytes.extend_from_slice(&(json.len().to_u32()).to_le_bytes());
                bytes.extend_from_slice(&json);
                bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
                out.write_all(&bytes)?;
            }
        }
        Ok(Self {
            out,
            form,
            records: 0,
            block: Vec::new(),
            block_records: 0,
        })
    }

    /// Writes records.
    pub fn write(&mut self, batch: &Batch) -> io::Result<()> {
        let mut start = 0;
        if self.form == Form::Ndjson {
            self.records += batch.ends.len().to_u64();
            for (number, record) in &batch.large {
                let at = batch.ends[*number];
                self.out.write_all(&batch.bytes[start..at])?;
                record.write(self.form, |piece| self.out.write_all(piece))?;
                start = at;
            }
            return self.out.write_all(&batch.bytes[start..]);
        }
        let mut large = batch.large.iter().peekable();
        for (index, &end) in batch.ends.iter().enumerate() {
            self.block_records += 1;
            if let Some((_, record)) = large.next_if(|(number, _)| *number == index) {
                self.block.extend_from_slice(&batch.bytes[start..end]);
                start = end;
                self.write_large(record)?;
            } else if self.block.len() + end - start >= BLOCK_BYTES {
                self.block.extend_from_slice(&batch.bytes[start..end]);
                start = end;
                self.write_block()?;
            }
        }
        self.block.extend_from_slice(&batch.bytes[start..]);
        Ok(())
    }

    /// Writes the end record and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        match self.form {
            Form::Ndjson => writeln!(self.out, "{{\"end\":{{\"records\":{}}}}}", self.records)?,
            Form::Binary => {
                if self.block_records > 0 {
                    self.write_block()?;
                }
                // A block without records is the end.
                self.write_block()?;
            }
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// Ends the block with a record that is encoded twice: first for the size and checksum in the head of the block, then
    /// to write it.
    fn write_large(&mut self, record: &LargeRecord) -> io::Result<()> {
        let (mut length, mut hash) = (self.block.len(), Xxh3::new());
        hash.update(&self.block);
        record.write(self.form, |piece| {
            length += piece.len();
            hash.update(piece);
            Ok(())
        })?;
        if length < BLOCK_BYTES {
            record.encode(self.form, &mut self.block);
            return Ok(());
        }
        self.write_head(length, hash.digest())?;
        self.out.write_all(&self.block)?;
        record.write(self.form, |piece| self.out.write_all(piece))?;
        self.finish_block();
        Ok(())
    }

    fn write_block(&mut self) -> io::Result<()> {
        self.write_head(self.block.len(), checksum(&self.block))?;
        self.out.write_all(&self.block)?;
        self.finish_block();
        Ok(())
    }

    /// Writes the head of a block of this length and checksum.
    fn write_head(&mut self, block_bytes: usize, block_checksum: u64) -> io::Result<()> {
        let mut head = Vec::with_capacity(super::reader::HEAD_BYTES);
        for word in [
            block_bytes.to_u64(),
            self.block_records,
            self.records,
            block_checksum,
        ] {
            head.extend_from_slice(&word.to_le_bytes());
        }
        head.extend_from_slice(&checksum(&head).to_le_bytes());
        self.out.write_all(&head)
    }

    /// The block is written, the next one begins.
    fn finish_block(&mut self) {
        self.records += std::mem::take(&mut self.block_records);
        self.block.clear();
        if self.block.capacity() > 4 * BLOCK_BYTES {
            self.block = Vec::new();
        }
    }
}
