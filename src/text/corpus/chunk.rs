//! Cuts files that hold many records into chunks for the workers.
//!
//! This is the serial part of reading, so it does as little as it can: it looks for the last record
//! boundary of each chunk, counts lines, and checks what only the order of lines can tell, namely that a
//! stream that opened with a header closes with an end record.

use super::{
    account::{SkippedFile, too_large},
    cutter::{Cutter, Piece},
    document_reader::ensure_utf8,
    encoding::wrong_bytes,
    end_check::EndCheck,
    format::Records,
    sequence::SequenceRecord,
    unpack::{Input, Packing},
    walk::FileEntry,
};
use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        num::ToU64,
        parallel::Weighted,
    },
    text::stream::{BlockReader, Header, StreamBlock},
};
use std::{io, path::PathBuf, sync::Arc};

/// A piece of work: one or more documents.
#[derive(Debug)]
pub enum Chunk {
    /// The start of a file of many records, which may hold none.
    Opened(Arc<Container>),
    /// Files that are one document each.
    Files(Vec<FileEntry>),
    /// A document from a pipe or an archive, unpacked.
    Whole {
        /// The id of the document.
        id: Arc<str>,
        /// The name of the pipe, for messages.
        file: Arc<str>,
        /// Its file name, without the endings of what it was packed in.
        name: PathBuf,
        /// What it was packed in.
        within: Packing,
        /// The user asked for it: it is read whatever it holds.
        is_named: bool,
        /// The content.
        bytes: Vec<u8>,
    },
    /// Whole records of a file.
    Records {
        /// The file.
        of: Arc<Container>,
        /// The number of the first line, from 1.
        first_line: u64,
        /// The bytes of the records.
        bytes: Vec<u8>,
    },
    /// Records of a file, taken apart.
    Rows {
        /// The file.
        of: Arc<Container>,
        /// Some of its records.
        rows: Vec<SequenceRecord>,
    },
    /// Records of a binary stream.
    Block {
        /// The stream.
        of: Arc<Container>,
        /// The block, not decoded yet.
        block: StreamBlock,
    },
    /// Records that were passed over because they hold no text.
    Passed(u64),
    /// A problem, in its place in the order.
    Problem(Problem),
    /// A file that is not read, in its place in the order.
    Skipped(SkippedFile),
}

impl Chunk {
    /// The file that it is a part of, if that holds many records.
    pub fn container(&self) -> Option<&Arc<Container>> {
        match self {
            Self::Opened(of)
            | Self::Records { of, .. }
            | Self::Rows { of, .. }
            | Self::Block { of, .. } => Some(of),
            Self::Files(_)
            | Self::Whole { .. }
            | Self::Passed(_)
            | Self::Problem(_)
            | Self::Skipped(_) => None,
        }
    }

    /// Bytes of input that it stands for, as they lie on disk where that is known.
    pub fn input_bytes(&self) -> u64 {
        match self {
            Self::Files(entries) => entries.iter().map(|entry| entry.bytes).sum(),
            Self::Whole { bytes, .. } | Self::Records { bytes, .. } => bytes.len().to_u64(),
            Self::Rows { rows, .. } => {
                let bytes = |row: &SequenceRecord| row.text.as_ref().map_or(0, String::len);
                rows.iter().map(bytes).sum::<usize>().to_u64()
            }
            Self::Block { block, .. } => block.bytes(),
            Self::Opened(_) | Self::Passed(_) | Self::Problem(_) | Self::Skipped(_) => 0,
        }
    }
}

/// A file that holds many records.
#[derive(Debug)]
pub struct Container {
    /// What the ids of documents without one of their own start with.
    pub id: Arc<str>,
    /// What messages call it.
    pub file: Arc<str>,
    /// The format of its records. A binary stream has those of NDJSON, in another form.
    pub records: Records,
    /// The encoding that it is decoded from, if it is not UTF-8.
    pub decoded: Option<&'static str>,
    /// A regular file that is not packed, so that its lines can be read again where they are.
    pub is_on_disk: bool,
    /// A pipe or a terminal: complete records are passed on before waiting for more.
    pub is_live: bool,
    /// The header, if it is a stream.
    pub header: Option<Header>,
    /// The width of its blots by the header's scheme, or why there is none.
    pub blot_bits: Result<u8, String>,
}

impl Container {
    /// Whether a line of the file is a record, as it is: such a file can be copied line by line.
    pub fn is_lines(&self) -> bool {
        matches!(self.records, Records::Ndjson | Records::Lines)
    }

    /// Refuses a record with wrong bytes, or puts `?` for each of them.
    pub(super) fn ensure_utf8(&self, bytes: &mut [u8], lossy: bool) -> Result<(), String> {
        ensure_utf8(bytes, lossy).map_err(|what| self.decoded.map_or(what, wrong_bytes))
    }
}

/// The end of a message about a file whose rest cannot be read.
pub const LEFT_OUT: &str = "; the file is left out from here on";

/// Whether a problem is that the rest of a file cannot be read.
pub fn ends_a_file(problem: &Problem) -> bool {
    problem.what.ends_with(LEFT_OUT)
}

/// Large enough to make queueing cheap, small enough to stay in the cache.
pub const CHUNK_BYTES: usize = 1 << 18;
/// Records of one chunk, at most.
pub const CHUNK_RECORDS: usize = 4096;
/// The size of one read. A pipe that returns less is empty: its writer is slower than we are.
pub const READ_BYTES: usize = 1 << 16;

/// Chunks of a file, in order.
pub type ChunkIter = Box<dyn Iterator<Item = Result<Weighted<Chunk>>> + Send>;

/// The chunks of one container that is read from its beginning to its end.
pub struct Chunks {
    of: Arc<Container>,
    reading: Reading,
    is_done: bool,
}

enum Reading {
    Blocks(Box<BlockReader<Input>>),
    Lines {
        cutter: Cutter,
        check: Option<EndCheck>,
    },
}

impl Chunks {
    /// `most_bytes`: of a line or record.
    pub fn lines(of: Arc<Container>, input: Input, most_bytes: u64) -> Self {
        let check = of.header.clone().map(EndCheck::new);
        let border = of.records.format().border();
        let cutter = Cutter::new(input, border, of.is_live, most_bytes);
        Self {
            of,
            reading: Reading::Lines { cutter, check },
            is_done: false,
        }
    }

    /// The same from another line than the first.
    pub fn starting_at_line(mut self, line: u64) -> Self {
        if let Reading::Lines { cutter, .. } = &mut self.reading {
            cutter.line = line;
        }
        self
    }

    /// The blocks of a binary stream.
    pub fn blocks(of: Arc<Container>, reader: BlockReader<Input>) -> Self {
        Self {
            of,
            reading: Reading::Blocks(Box::new(reader)),
            is_done: false,
        }
    }

    fn next_chunk(&mut self) -> Result<Option<Weighted<Chunk>>> {
        match &mut self.reading {
            Reading::Blocks(reader) => {
                let block = reader.next_block()?;
                Ok(block.map(|block| Weighted {
                    bytes: block.bytes(),
                    item: Chunk::Block {
                        of: self.of.clone(),
                        block,
                    },
                }))
            }
            Reading::Lines { cutter, check } => {
                let first_line = cutter.line;
                let piece = cutter.next_piece();
                let most_bytes = cutter.most_bytes;
                match check {
                    Some(check) => {
                        let piece = piece.map_err(|error| Error::io(&self.of.file, error))?;
                        let bytes = stream_records(&self.of, first_line, piece, most_bytes, check)?;
                        Ok(bytes.map(|bytes| self.records(first_line, bytes)))
                    }
                    None => Ok(self.document_records(first_line, piece, most_bytes)),
                }
            }
        }
    }

    fn records(&self, first_line: u64, bytes: Vec<u8>) -> Weighted<Chunk> {
        Weighted {
            bytes: bytes.len().to_u64(),
            item: Chunk::Records {
                of: self.of.clone(),
                first_line,
                bytes,
            },
        }
    }

    /// Records that are not of a stream: after an error, those before it and the other files are good.
    fn document_records(
        &mut self,
        first_line: u64,
        piece: io::Result<Option<Piece>>,
        most_bytes: u64,
    ) -> Option<Weighted<Chunk>> {
        let what = match piece {
            Ok(None) => return None,
            Ok(Some(Piece::Bytes(bytes))) => return Some(self.records(first_line, bytes)),
            Ok(Some(Piece::TooLong)) => too_large(most_bytes),
            Err(error) => {
                self.is_done = true;
                format!("{error}{LEFT_OUT}")
            }
        };
        Some(Weighted {
            bytes: 0,
            item: Chunk::Problem(Problem::new(Place::line(&self.of.file, first_line), what)),
        })
    }
}

/// Records of a stream, which must be whole; none at its end.
fn stream_records(
    of: &Container,
    first_line: u64,
    piece: Option<Piece>,
    most_bytes: u64,
    check: &mut EndCheck,
) -> Result<Option<Vec<u8>>> {
    match piece {
        None => check.ensure_ended(&of.file, first_line).map(|()| None),
        Some(Piece::TooLong) => Err(Error::damaged(
            Place::line(&of.file, first_line),
            too_large(most_bytes),
        )),
        Some(Piece::Bytes(bytes)) => {
            check.check(&of.file, first_line, &bytes)?;
            Ok(Some(bytes))
        }
    }
}

impl Iterator for Chunks {
    type Item = Result<Weighted<Chunk>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let next = self.next_chunk().transpose();
        self.is_done |= !matches!(next, Some(Ok(_)));
        next
    }
}
