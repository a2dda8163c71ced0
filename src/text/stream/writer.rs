//! Writes a stream in either form: header, records, end.

use super::header::{Header, MAGIC, VERSION};
use crate::base::codec::checksum;
use std::io::{self, Write};

/// The two forms of every stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Ndjson,
    Binary,
}

/// Encoded records, made by a worker: the bytes, and where each record ends.
#[derive(Debug, Default)]
pub struct Batch {
    pub bytes: Vec<u8>,
    pub ends: Vec<usize>,
}

impl Batch {
    /// Takes records out again, given by number in rising order.
    pub fn drop_records(&mut self, dropped: &[usize]) {
        let (mut kept, mut start, mut dropped) = (Self::default(), 0, dropped.iter().peekable());
        for (index, &end) in self.ends.iter().enumerate() {
            if dropped.next_if(|&&drop| drop == index).is_none() {
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
                bytes.extend_from_slice(&(json.len() as u32).to_le_bytes());
                bytes.extend_from_slice(&json);
                bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
                out.write_all(&bytes)?;
            }
        }
        Ok(Self { out, form, records: 0, block: Vec::new(), block_records: 0 })
    }

    pub fn write(&mut self, batch: &Batch) -> io::Result<()> {
        if self.form == Form::Ndjson {
            self.records += batch.ends.len() as u64;
            return self.out.write_all(&batch.bytes);
        }
        let mut start = 0;
        for &end in &batch.ends {
            self.block_records += 1;
            if self.block.len() + end - start >= BLOCK_BYTES {
                self.block.extend_from_slice(&batch.bytes[start..end]);
                start = end;
                self.write_block()?;
            }
        }
        self.block.extend_from_slice(&batch.bytes[start..]);
        Ok(())
    }

    /// Writes the end record and gives back the output.
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

    fn write_block(&mut self) -> io::Result<()> {
        let mut head = Vec::with_capacity(super::reader::HEAD_BYTES);
        for word in [self.block.len() as u64, self.block_records, self.records, checksum(&self.block)] {
            head.extend_from_slice(&word.to_le_bytes());
        }
        head.extend_from_slice(&checksum(&head).to_le_bytes());
        self.out.write_all(&head)?;
        self.out.write_all(&self.block)?;
        self.records += std::mem::take(&mut self.block_records);
        self.block.clear();
        if self.block.capacity() > 4 * BLOCK_BYTES {
            self.block = Vec::new();
        }
        Ok(())
    }
}
