//! Writes a stream in either form: header, records, end.

use super::{
    checksum,
    header::{Header, MAGIC, VERSION},
};
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

/// Writes the header at once and the end record on [`StreamWriter::finish`]; without the latter every reader
/// will refuse the stream.
pub struct StreamWriter<W> {
    out: W,
    form: Form,
    records: u64,
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
        Ok(Self { out, form, records: 0 })
    }

    pub fn write(&mut self, batch: &Batch) -> io::Result<()> {
        let records = batch.ends.len() as u64;
        if records == 0 {
            return Ok(());
        }
        if self.form == Form::Binary {
            self.write_head(&batch.bytes, records)?;
        }
        self.out.write_all(&batch.bytes)?;
        self.records += records;
        Ok(())
    }

    /// Writes the end record and gives back the output.
    pub fn finish(mut self) -> io::Result<W> {
        match self.form {
            Form::Ndjson => writeln!(self.out, "{{\"end\":{{\"records\":{}}}}}", self.records)?,
            Form::Binary => self.write_head(&[], 0)?,
        }
        self.out.flush()?;
        Ok(self.out)
    }

    fn write_head(&mut self, payload: &[u8], records: u64) -> io::Result<()> {
        let mut head = Vec::with_capacity(super::reader::HEAD_BYTES);
        for word in [payload.len() as u64, records, self.records, checksum(payload)] {
            head.extend_from_slice(&word.to_le_bytes());
        }
        head.extend_from_slice(&checksum(&head).to_le_bytes());
        self.out.write_all(&head)
    }
}
