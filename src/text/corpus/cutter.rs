//! Cuts an input into pieces of whole records.

use super::{
    chunk::{CHUNK_BYTES, CHUNK_RECORDS, READ_BYTES},
    unpack::Input,
};
use crate::base::num::{ToU64, ToUsize};
use memchr::{memchr_iter, memmem};
use std::io::{self, BufRead, Read};

/// Some records of an input, or what came instead.
#[derive(Debug, PartialEq)]
pub enum Piece {
    /// Whole records.
    Bytes(Vec<u8>),
    /// A record longer than allowed was skipped; it is not in memory.
    TooLong,
}

/// Cuts an input into pieces of whole records.
///
/// Memory: a chunk, or the longest record that is allowed.
pub struct Cutter {
    input: Input,
    /// The bytes around the border of two records: the first one ends a record.
    border: &'static [u8],
    is_live: bool,
    /// Read already, but of the next piece.
    carry: Vec<u8>,
    /// The number of the next piece's first line.
    pub line: u64,
    /// The error that comes after the pieces that could be read.
    failed: Option<io::Error>,
    /// The most bytes of a record. Longer ones that fit into a chunk are for the worker to find.
    pub most_bytes: u64,
}

impl Cutter {
    /// Starts at line 1.
    pub fn new(input: Input, border: &'static [u8], is_live: bool, most_bytes: u64) -> Self {
        Self {
            input,
            border,
            is_live,
            carry: Vec::new(),
            line: 1,
            failed: None,
            most_bytes,
        }
    }

    /// The next records; none at the end.
    pub fn next_piece(&mut self) -> io::Result<Option<Piece>> {
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
                Ok(true) if boundary.is_none() && piece.len().to_u64() > self.most_bytes => {
                    return self.skip_record(piece).map(Some);
                }
                Ok(true) => boundary,
                Ok(false) if self.is_too_long(&piece, boundary) => {
                    return self.skip_record(piece).map(Some);
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
        boundary.is_none() && piece.len().to_u64() > self.most_bytes
    }

    fn cut(&mut self, mut piece: Vec<u8>, cut: usize) -> Option<Piece> {
        self.carry = piece.split_off(cut);
        self.line += count_lines(&piece);
        (!piece.is_empty()).then_some(Piece::Bytes(piece))
    }

    /// Reads to the end of a record, and keeps what follows it.
    fn skip_record(&mut self, mut piece: Vec<u8>) -> io::Result<Piece> {
        loop {
            if let Some(end) = self.first_boundary(&piece) {
                self.line += count_lines(&piece[..end]);
                self.carry = piece.split_off(end);
                return Ok(Piece::TooLong);
            }
            // The boundary may lie across two reads.
            let kept = piece.len().saturating_sub(1);
            self.line += count_lines(&piece[..kept]);
            piece = piece.split_off(kept);
            if self
                .input
                .by_ref()
                .take(CHUNK_BYTES.to_u64())
                .read_to_end(&mut piece)?
                == 0
            {
                self.line += count_lines(&piece);
                return Ok(Piece::TooLong);
            }
        }
    }

    /// Where a piece has as many records as a chunk may have: tiny records take much more memory when
    /// they are parsed.
    fn record_limit(&self, piece: &[u8]) -> Option<usize> {
        let mut borders = memmem::find_iter(piece, self.border);
        borders.nth(CHUNK_RECORDS - 1).map(|at| at + 1)
    }

    /// Reads another chunk, or more where a record is longer than that; false at the end.
    fn fill(&mut self, piece: &mut Vec<u8>) -> io::Result<bool> {
        if self.is_live {
            return self.fill_live(piece);
        }
        let room = (self.most_bytes + 1)
            .max(CHUNK_BYTES.to_u64())
            .saturating_sub(piece.len().to_u64());
        let wanted = CHUNK_BYTES.max(piece.len()).to_u64().min(room);
        piece.try_reserve(wanted.to_usize())?;
        Ok(self
            .input
            .by_ref()
            .take(wanted)
            .read_to_end(piece)?
            .to_u64()
            == wanted)
    }

    /// Reads as long as there is something to read at once, up to a chunk; false at the end.
    fn fill_live(&mut self, piece: &mut Vec<u8>) -> io::Result<bool> {
        let full = piece.len() + CHUNK_BYTES;
        while piece.len() < full {
            let count = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
                Ok(available) => {
                    piece.try_reserve(available.len())?;
                    piece.extend_from_slice(available);
                    available.len()
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
        memmem::find(piece, self.border).map(|at| at + 1)
    }

    fn last_boundary(&self, piece: &[u8]) -> Option<usize> {
        memmem::rfind(piece, self.border).map(|at| at + 1)
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count().to_u64()
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
        let mut cutter = Cutter::new(drops(&["a\nb", "c", "\n", "d\ne\nf"]), b"\n", true, 1 << 20);
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
            let mut cutter = Cutter::new(drops(&["a\nb\nc"]), b"\n", is_live, 1 << 20);
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
        for (border, is_live) in [
            (&b"\n"[..], false),
            (b"\n", true),
            (b"\n>", false),
            (b"\n>", true),
        ] {
            for size in 1..6 {
                let input = Box::new(BufReader::with_capacity(size, text.as_bytes()));
                assert_eq!(
                    pieces(&mut Cutter::new(input, border, is_live, 1 << 20)).concat(),
                    text
                );
            }
        }
    }

    #[test]
    fn a_record_that_is_too_long_is_passed_over() {
        for (is_live, odd) in [(false, 0), (false, 100), (true, 0), (true, 100)] {
            let long = "x".repeat(3 * CHUNK_BYTES + odd);
            let cut = |text: &str, border: &'static [u8]| {
                let input = Box::new(BufReader::with_capacity(
                    READ_BYTES,
                    io::Cursor::new(text.as_bytes().to_vec()),
                ));
                let mut cutter = Cutter::new(input, border, is_live, CHUNK_BYTES.to_u64());
                (
                    pieces(&mut cutter).join("|").replace("\n|", "\n"),
                    cutter.line,
                )
            };
            let (lines, count) = cut(&format!("{long}\n1\n1\n{long}\n2\n"), b"\n");
            assert_eq!(
                (lines.as_str(), count),
                ("too long|1\n1\ntoo long|2\n", 6),
                "{is_live} {odd}"
            );
            let (records, count) = cut(&format!(">a\n{long}\nAC\n>b\n"), b"\n>");
            assert_eq!(
                (records.as_str(), count),
                ("too long|>b\n", 5),
                "{is_live} {odd}"
            );
            assert_eq!(cut(&long, b"\n").0, "too long");
        }
    }
}
