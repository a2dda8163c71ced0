//! Cuts files that hold many records into chunks for the workers.
//!
//! This is the serial part of reading, so it does as little as it can: it looks for the last record
//! boundary of each chunk, counts lines, and checks what only the order of lines can tell, namely that a
//! stream that opened with a header closes with an end record.

use super::{unpack::Input, walk::Entry};
use crate::{
    error::{Error, Place, Problem, Result},
    format::{Block, BlockReader, Header, Line},
    parallel::Weighted,
};
use memchr::{memchr_iter, memmem, memrchr};
use std::{io::Read, sync::Arc};

/// A piece of work: one or more documents.
#[derive(Debug)]
pub enum Chunk {
    /// Files that are one document each.
    Files(Vec<Entry>),
    /// A document that came without a file of its own.
    Whole { id: Arc<str>, file: Arc<str>, bytes: Vec<u8> },
    /// Whole records of a file.
    Records { of: Arc<Container>, first_line: u64, bytes: Vec<u8> },
    /// Records of a binary stream.
    Block { of: Arc<Container>, block: Block },
    /// Not a document, but its place in the order.
    Problem(Problem),
}

/// A file that holds many records.
#[derive(Debug)]
pub struct Container {
    pub id: Arc<str>,
    pub file: Arc<str>,
    pub layout: Layout,
    /// How it opened, if it is a stream of ours.
    pub header: Option<Header>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    Ndjson,
    Lines,
    Fasta,
    Binary,
}

/// Large enough to make the hand-over cheap, small enough to stay in the cache.
pub const CHUNK_BYTES: usize = 1 << 18;

/// The chunks of one container, in order.
pub struct Chunks {
    of: Arc<Container>,
    reading: Reading,
}

enum Reading {
    Blocks(Box<BlockReader<Input>>),
    Lines { cutter: Cutter, check: Option<EndCheck> },
}

impl Chunks {
    pub fn lines(of: Container, input: Input) -> Self {
        let check = of.header.clone().map(EndCheck::new);
        let boundary = if of.layout == Layout::Fasta { Boundary::Fasta } else { Boundary::Line };
        Self { of: of.into(), reading: Reading::Lines { cutter: Cutter::new(input, boundary), check } }
    }

    pub fn blocks(of: Container, reader: BlockReader<Input>) -> Self {
        Self { of: of.into(), reading: Reading::Blocks(Box::new(reader)) }
    }

    pub fn container(&self) -> &Container {
        &self.of
    }

    fn next_chunk(&mut self) -> Result<Option<Weighted<Chunk>>> {
        let of = self.of.clone();
        match &mut self.reading {
            Reading::Blocks(reader) => {
                let block = reader.next_block()?;
                Ok(block.map(|block| Weighted { bytes: block.bytes(), item: Chunk::Block { of, block } }))
            }
            Reading::Lines { cutter, check } => {
                let first_line = cutter.line;
                let cut = cutter.next_piece().map_err(|error| Error::io(&of.file, error))?;
                match (cut, check) {
                    (None, Some(check)) => check.ensure_ended(&of.file, first_line).map(|()| None),
                    (None, None) => Ok(None),
                    (Some(bytes), check) => {
                        check.as_mut().map_or(Ok(()), |check| check.see(&of.file, first_line, &bytes))?;
                        Ok(Some(Weighted { bytes: bytes.len() as u64, item: Chunk::Records { of, first_line, bytes } }))
                    }
                }
            }
        }
    }
}

impl Iterator for Chunks {
    type Item = Result<Weighted<Chunk>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_chunk().transpose()
    }
}

#[derive(Clone, Copy)]
enum Boundary {
    /// After a line feed.
    Line,
    /// After a line feed, before a `>`.
    Fasta,
}

/// Cuts an input at record boundaries.
struct Cutter {
    input: Input,
    boundary: Boundary,
    /// Read already, but of the next piece.
    carry: Vec<u8>,
    /// The number of the next piece's first line.
    line: u64,
}

impl Cutter {
    fn new(input: Input, boundary: Boundary) -> Self {
        Self { input, boundary, carry: Vec::new(), line: 1 }
    }

    fn next_piece(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut piece = std::mem::take(&mut self.carry);
        loop {
            let wanted = CHUNK_BYTES.max(piece.len());
            piece.reserve(wanted);
            let at_end = self.input.by_ref().take(wanted as u64).read_to_end(&mut piece)? < wanted;
            let cut = if at_end { Some(piece.len()) } else { self.last_boundary(&piece) };
            if let Some(cut) = cut {
                self.carry = piece.split_off(cut);
                self.line += memchr_iter(b'\n', &piece).count() as u64;
                return Ok((!piece.is_empty()).then_some(piece));
            }
        }
    }

    fn last_boundary(&self, piece: &[u8]) -> Option<usize> {
        match self.boundary {
            Boundary::Line => memrchr(b'\n', piece),
            Boundary::Fasta => memmem::rfind(piece, b"\n>"),
        }
        .map(|at| at + 1)
    }
}

/// Sees to it that an NDJSON stream that opened with a header closes with an end record and the right count.
/// Streams of one scheme may follow one another.
struct EndCheck {
    header: Header,
    records: u64,
    is_open: bool,
}

impl EndCheck {
    fn new(header: Header) -> Self {
        Self { header, records: 0, is_open: false }
    }

    fn see(&mut self, file: &Arc<str>, first_line: u64, piece: &[u8]) -> Result<()> {
        for (line, number) in piece.split(|&byte| byte == b'\n').zip(first_line..) {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let seen = if Header::is_likely(line) {
                self.see_header(line)
            } else if Line::is_end(line) {
                self.see_end(line)
            } else if self.is_open {
                self.records += 1;
                Ok(())
            } else {
                Err("a record after the end record".to_owned())
            };
            seen.map_err(|what| Error::damaged(Place::line(file, number), what))?;
        }
        Ok(())
    }

    fn see_header(&mut self, line: &[u8]) -> Result<(), String> {
        let header = Header::parse(line)?;
        if self.is_open {
            return Err("a second header before the end record; the program that wrote the first stream did not finish".to_owned());
        }
        if header != self.header {
            return Err(format!(
                "scheme is '{}', expected '{}'; only streams of one kind and scheme can be joined",
                header.scheme, self.header.scheme
            ));
        }
        (self.is_open, self.records) = (true, 0);
        Ok(())
    }

    fn see_end(&mut self, line: &[u8]) -> Result<(), String> {
        #[derive(serde::Deserialize)]
        struct Line {
            end: End,
        }
        #[derive(serde::Deserialize)]
        struct End {
            records: u64,
        }
        let Line { end: End { records } } = serde_json::from_slice(line).map_err(|error| format!("not an end record: {error}"))?;
        if !self.is_open {
            return Err("a second end record".to_owned());
        }
        if records != self.records {
            return Err(format!("the end record counts {records} records, but {} are here", self.records));
        }
        self.is_open = false;
        Ok(())
    }

    fn ensure_ended(&self, file: &Arc<str>, line: u64) -> Result<()> {
        if self.is_open {
            return Err(Error::damaged(
                Place::line(file, line),
                "the stream ends without an end record; the program that wrote it did not finish",
            ));
        }
        Ok(())
    }
}
