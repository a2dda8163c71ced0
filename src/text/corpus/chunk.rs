//! Cuts files that hold many records into chunks for the workers.
//!
//! This is the serial part of reading, so it does as little as it can: it looks for the last record
//! boundary of each chunk, counts lines, and checks what only the order of lines can tell, namely that a
//! stream that opened with a header closes with an end record.

use super::{
    account::{SkippedFile, too_large},
    unpack::Input,
    walk::FileEntry,
};
use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        parallel::Weighted,
    },
    text::stream::{BlockReader, Header, Line, StreamBlock},
};
use memchr::{memchr, memchr_iter, memmem, memrchr};
use std::{
    io::{self, BufRead, Read},
    sync::Arc,
};

/// A piece of work: one or more documents.
#[derive(Debug)]
pub enum Chunk {
    /// A file of many records begins, though it may hold none.
    Opened(Arc<Container>),
    /// Files that are one document each.
    Files(Vec<FileEntry>),
    /// A document that came without a file of its own.
    Whole {
        id: Arc<str>,
        file: Arc<str>,
        bytes: Vec<u8>,
    },
    /// Whole records of a file.
    Records {
        of: Arc<Container>,
        first_line: u64,
        bytes: Vec<u8>,
    },
    /// Records of a binary stream.
    Block {
        of: Arc<Container>,
        block: StreamBlock,
    },
    /// Not a document, but its place in the order.
    Problem(Problem),
    /// A file that is not read, in its place in the order.
    Skipped(SkippedFile),
}

impl Chunk {
    /// The file that it is a part of, if that holds many records.
    pub fn container(&self) -> Option<&Arc<Container>> {
        match self {
            Self::Opened(of) | Self::Records { of, .. } | Self::Block { of, .. } => Some(of),
            Self::Files(_) | Self::Whole { .. } | Self::Problem(_) | Self::Skipped(_) => None,
        }
    }

    /// Bytes of input that it stands for, as they lie on disk where that is known.
    pub fn input_bytes(&self) -> u64 {
        match self {
            Self::Files(entries) => entries.iter().map(|entry| entry.bytes).sum(),
            Self::Whole { bytes, .. } | Self::Records { bytes, .. } => bytes.len() as u64,
            Self::Block { block, .. } => block.bytes(),
            Self::Opened(_) | Self::Problem(_) | Self::Skipped(_) => 0,
        }
    }
}

/// A file that holds many records.
#[derive(Debug)]
pub struct Container {
    pub id: Arc<str>,
    pub file: Arc<str>,
    pub layout: Layout,
    /// A pipe or a terminal: what has come is handed on before more is waited for.
    pub is_live: bool,
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

/// How a message ends where a file cannot be read on, and the others can.
pub const LEFT_OUT: &str = "; the file is left out from here on";
/// Large enough to make the hand-over cheap, small enough to stay in the cache.
pub const CHUNK_BYTES: usize = 1 << 18;
/// Records of one chunk, at most.
const CHUNK_RECORDS: usize = 4096;
/// What one read asks for. A pipe that gives less holds no more: its writer is slower than we are.
pub const READ_BYTES: usize = 1 << 16;

/// The chunks of one container, in order.
pub struct Chunks {
    of: Arc<Container>,
    reading: Reading,
    is_opened: bool,
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
    pub fn lines(of: Container, input: Input, most_bytes: u64) -> Self {
        let check = of.header.clone().map(EndCheck::new);
        let boundary = if of.layout == Layout::Fasta {
            Boundary::Fasta
        } else {
            Boundary::Line
        };
        let cutter = Cutter::new(input, boundary, of.is_live, most_bytes);
        Self {
            of: of.into(),
            reading: Reading::Lines { cutter, check },
            is_opened: false,
            is_done: false,
        }
    }

    pub fn blocks(of: Container, reader: BlockReader<Input>) -> Self {
        Self {
            of: of.into(),
            reading: Reading::Blocks(Box::new(reader)),
            is_opened: false,
            is_done: false,
        }
    }

    pub fn container(&self) -> &Container {
        &self.of
    }

    fn next_chunk(&mut self) -> Result<Option<Weighted<Chunk>>> {
        let of = self.of.clone();
        match &mut self.reading {
            Reading::Blocks(reader) => {
                let block = reader.next_block()?;
                Ok(block.map(|block| Weighted {
                    bytes: block.bytes(),
                    item: Chunk::Block { of, block },
                }))
            }
            Reading::Lines { cutter, check } => {
                let first_line = cutter.line;
                match (cutter.next_piece(), check) {
                    (Ok(None), check) => check
                        .as_ref()
                        .map_or(Ok(()), |check| check.ensure_ended(&of.file, first_line))
                        .map(|()| None),
                    (Ok(Some(Piece::TooLong)), Some(_)) => Err(Error::damaged(
                        Place::line(&of.file, first_line),
                        too_large(cutter.most_bytes),
                    )),
                    (Ok(Some(Piece::TooLong)), None) => {
                        let problem = Problem::new(
                            Place::line(&of.file, first_line),
                            too_large(cutter.most_bytes),
                        );
                        Ok(Some(Weighted {
                            bytes: 0,
                            item: Chunk::Problem(problem),
                        }))
                    }
                    (Ok(Some(Piece::Bytes(bytes))), check) => {
                        check
                            .as_mut()
                            .map_or(Ok(()), |check| check.see(&of.file, first_line, &bytes))?;
                        Ok(Some(Weighted {
                            bytes: bytes.len() as u64,
                            item: Chunk::Records {
                                of,
                                first_line,
                                bytes,
                            },
                        }))
                    }
                    (Err(error), Some(_)) => Err(Error::io(&of.file, error)),
                    (Err(error), None) => {
                        // Documents of others: what came before the damage is good, and so are the other files.
                        self.is_done = true;
                        let problem = Problem::new(
                            Place::line(&of.file, first_line),
                            format!("{error}{LEFT_OUT}"),
                        );
                        Ok(Some(Weighted {
                            bytes: 0,
                            item: Chunk::Problem(problem),
                        }))
                    }
                }
            }
        }
    }
}

impl Iterator for Chunks {
    type Item = Result<Weighted<Chunk>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        if !std::mem::replace(&mut self.is_opened, true) {
            return Some(Ok(Weighted {
                item: Chunk::Opened(self.of.clone()),
                bytes: 0,
            }));
        }
        let next = self.next_chunk().transpose();
        self.is_done |= !matches!(next, Some(Ok(_)));
        next
    }
}

#[derive(Clone, Copy)]
enum Boundary {
    /// After a line feed.
    Line,
    /// After a line feed, before a `>`.
    Fasta,
}

/// A part of an input.
#[derive(Debug, PartialEq)]
enum Piece {
    /// Whole records.
    Bytes(Vec<u8>),
    /// A record that is longer than allowed was passed over; it is not in memory.
    TooLong,
}

/// Cuts an input at record boundaries.
struct Cutter {
    input: Input,
    boundary: Boundary,
    is_live: bool,
    /// Read already, but of the next piece.
    carry: Vec<u8>,
    /// The number of the next piece's first line.
    line: u64,
    /// What comes after the pieces that could be read.
    failed: Option<io::Error>,
    /// Of a record. Longer ones that fit into a chunk are for the worker to find.
    most_bytes: u64,
}

impl Cutter {
    fn new(input: Input, boundary: Boundary, is_live: bool, most_bytes: u64) -> Self {
        Self {
            input,
            boundary,
            is_live,
            carry: Vec::new(),
            line: 1,
            failed: None,
            most_bytes,
        }
    }

    fn next_piece(&mut self) -> io::Result<Option<Piece>> {
        let mut piece = std::mem::take(&mut self.carry);
        if let Some(cut) = self
            .record_limit(&piece)
            .or_else(|| self.last_boundary(&piece))
        {
            return Ok(self.cut(piece, cut));
        }
        while self.failed.is_none() {
            let searched = piece.len().saturating_sub(1);
            let filled = self.fill(&mut piece);
            let boundary = self
                .last_boundary(&piece[searched..])
                .map(|at| searched + at);
            let cut = match filled {
                Ok(true) if boundary.is_none() && piece.len() as u64 > self.most_bytes => {
                    return self.pass_over(piece).map(Some);
                }
                Ok(true) => boundary,
                Ok(false) if self.is_too_long(&piece, boundary) => {
                    return self.pass_over(piece).map(Some);
                }
                Ok(false) => Some(piece.len()),
                Err(error) => {
                    self.failed = Some(error);
                    boundary
                }
            };
            if let Some(cut) = cut {
                let cut = self.record_limit(&piece[..cut]).unwrap_or(cut);
                return Ok(self.cut(piece, cut));
            }
        }
        self.failed.take().map_or(Ok(None), Err)
    }

    /// Whether the only record of the last piece is longer than allowed.
    fn is_too_long(&self, piece: &[u8], boundary: Option<usize>) -> bool {
        boundary.is_none() && piece.len() as u64 > self.most_bytes
    }

    fn cut(&mut self, mut piece: Vec<u8>, cut: usize) -> Option<Piece> {
        self.carry = piece.split_off(cut);
        self.line += memchr_iter(b'\n', &piece).count() as u64;
        (!piece.is_empty()).then_some(Piece::Bytes(piece))
    }

    /// Reads to the end of a record, and keeps what follows it.
    fn pass_over(&mut self, mut piece: Vec<u8>) -> io::Result<Piece> {
        loop {
            if let Some(end) = self.first_boundary(&piece) {
                self.line += memchr_iter(b'\n', &piece[..end]).count() as u64;
                self.carry = piece.split_off(end);
                return Ok(Piece::TooLong);
            }
            // The boundary may lie across two reads.
            let kept = piece.len().saturating_sub(1);
            self.line += memchr_iter(b'\n', &piece[..kept]).count() as u64;
            piece = piece.split_off(kept);
            if self
                .input
                .by_ref()
                .take(CHUNK_BYTES as u64)
                .read_to_end(&mut piece)?
                == 0
            {
                self.line += memchr_iter(b'\n', &piece).count() as u64;
                return Ok(Piece::TooLong);
            }
        }
    }

    /// Where a piece has as many records as a chunk may have: of tiny ones much more memory is made than they take.
    fn record_limit(&self, piece: &[u8]) -> Option<usize> {
        match self.boundary {
            Boundary::Line => memchr_iter(b'\n', piece).nth(CHUNK_RECORDS - 1),
            Boundary::Fasta => memmem::find_iter(piece, b"\n>").nth(CHUNK_RECORDS - 1),
        }
        .map(|at| at + 1)
    }

    /// Reads another chunk, or more where a record is longer than that; false at the end.
    fn fill(&mut self, piece: &mut Vec<u8>) -> io::Result<bool> {
        if self.is_live {
            return self.fill_with_what_comes(piece);
        }
        let room = (self.most_bytes + 1)
            .max(CHUNK_BYTES as u64)
            .saturating_sub(piece.len() as u64);
        let wanted = (CHUNK_BYTES.max(piece.len()) as u64).min(room);
        piece.try_reserve(wanted as usize)?;
        Ok(self.input.by_ref().take(wanted).read_to_end(piece)? as u64 == wanted)
    }

    /// Reads as long as there is something to read at once, up to a chunk; false at the end.
    fn fill_with_what_comes(&mut self, piece: &mut Vec<u8>) -> io::Result<bool> {
        let full = piece.len() + CHUNK_BYTES;
        while piece.len() < full {
            let count = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
                Ok(came) => {
                    piece.try_reserve(came.len())?;
                    piece.extend_from_slice(came);
                    came.len()
                }
            };
            self.input.consume(count);
            if count < READ_BYTES {
                return Ok(count > 0);
            }
        }
        Ok(true)
    }

    fn first_boundary(&self, piece: &[u8]) -> Option<usize> {
        match self.boundary {
            Boundary::Line => memchr(b'\n', piece),
            Boundary::Fasta => memmem::find(piece, b"\n>"),
        }
        .map(|at| at + 1)
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
        Self {
            header,
            records: 0,
            is_open: false,
        }
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
        let Line {
            end: End { records },
        } = serde_json::from_slice(line).map_err(|error| format!("not an end record: {error}"))?;
        if !self.is_open {
            return Err("a second end record".to_owned());
        }
        if records != self.records {
            return Err(format!(
                "the end record counts {records} records, but {} are here",
                self.records
            ));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn pieces(cutter: &mut Cutter) -> Vec<String> {
        let text = |piece| match piece {
            Piece::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
            Piece::TooLong => "too long".to_owned(),
        };
        std::iter::from_fn(|| cutter.next_piece().unwrap())
            .map(text)
            .collect()
    }

    /// A read for each of the drops, and an error after them.
    fn drops(drops: &'static [&'static str]) -> Input {
        let (last, first) = drops.split_last().unwrap();
        let ended: Box<dyn Read + Send> = Box::new(last.as_bytes().chain(Broken));
        Box::new(BufReader::with_capacity(
            READ_BYTES,
            first
                .iter()
                .rev()
                .fold(ended, |rest, drop| Box::new(drop.as_bytes().chain(rest))),
        ))
    }

    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }
    }

    #[test]
    fn a_live_input_gives_whole_lines_as_they_come() {
        let mut cutter = Cutter::new(
            drops(&["a\nb", "c", "\n", "d\ne\nf"]),
            Boundary::Line,
            true,
            1 << 20,
        );
        for (piece, line) in [("a\n", 2), ("bc\n", 3), ("d\ne\n", 5)] {
            assert_eq!(
                (cutter.next_piece().unwrap(), cutter.line),
                (Some(Piece::Bytes(piece.into())), line)
            );
        }
        assert_eq!(cutter.next_piece().unwrap_err().to_string(), "broken");
    }

    #[test]
    fn what_came_before_an_error_is_kept() {
        for is_live in [false, true] {
            let mut cutter = Cutter::new(drops(&["a\nb\nc"]), Boundary::Line, is_live, 1 << 20);
            assert_eq!(
                cutter.next_piece().unwrap(),
                Some(Piece::Bytes(b"a\nb\n".to_vec()))
            );
            assert_eq!(cutter.next_piece().unwrap_err().to_string(), "broken");
        }
    }

    #[test]
    fn boundaries_are_found_across_reads() {
        let text = ">a\nA\n>b\nB\n>c\nC";
        for (boundary, is_live) in [
            (Boundary::Line, false),
            (Boundary::Line, true),
            (Boundary::Fasta, false),
            (Boundary::Fasta, true),
        ] {
            for size in 1..6 {
                let input = Box::new(BufReader::with_capacity(size, text.as_bytes()));
                assert_eq!(
                    pieces(&mut Cutter::new(input, boundary, is_live, 1 << 20)).concat(),
                    text
                );
            }
        }
    }

    #[test]
    fn a_record_that_is_too_long_is_passed_over() {
        for (is_live, odd) in [(false, 0), (false, 100), (true, 0), (true, 100)] {
            let long = "x".repeat(3 * CHUNK_BYTES + odd);
            let of = |text: &str, boundary| {
                let input = Box::new(BufReader::with_capacity(
                    READ_BYTES,
                    io::Cursor::new(text.as_bytes().to_vec()),
                ));
                let mut cutter = Cutter::new(input, boundary, is_live, CHUNK_BYTES as u64);
                (
                    pieces(&mut cutter).join("|").replace("\n|", "\n"),
                    cutter.line,
                )
            };
            let (lines, count) = of(&format!("{long}\n1\n1\n{long}\n2\n"), Boundary::Line);
            assert_eq!(
                (lines.as_str(), count),
                ("too long|1\n1\ntoo long|2\n", 6),
                "{is_live} {odd}"
            );
            let (records, count) = of(&format!(">a\n{long}\nAC\n>b\n"), Boundary::Fasta);
            assert_eq!(
                (records.as_str(), count),
                ("too long|>b\n", 5),
                "{is_live} {odd}"
            );
            assert_eq!(of(&long, Boundary::Line).0, "too long");
        }
    }
}
