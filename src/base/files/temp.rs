//! Temporary files.

use crate::base::num::{ToU64, ToUsize};
use crate::base::{
    error::{Error, Result},
    files::Mapping,
};
use std::{
    fs::File,
    ops::Range,
    os::{fd::AsRawFd, unix::fs::FileExt},
    path::PathBuf,
};

/// Where temporary files go.
#[derive(Debug, Clone)]
pub struct TempDir(pub Option<PathBuf>);

impl TempDir {
    fn file(&self) -> Result<File> {
        let made = match &self.0 {
            Some(directory) => tempfile::tempfile_in(directory),
            None => tempfile::tempfile(),
        };
        made.map_err(|error| Error::io(self.path().display(), error))
    }

    pub(super) fn path(&self) -> PathBuf {
        self.0.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// Space in files is freed in whole pages.
const PAGE_BYTES: u64 = 1 << 12;

/// A file that vanishes with the program.
#[derive(Debug)]
pub struct TempFile {
    file: File,
    bytes: u64,
    place: PathBuf,
}

impl TempFile {
    /// Creates a file that vanishes with the program.
    pub fn new(directory: &TempDir) -> Result<Self> {
        Ok(Self {
            file: directory.file()?,
            bytes: 0,
            place: directory.path(),
        })
    }

    /// How many bytes were appended.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends bytes, and says where they are now.
    pub fn append(&mut self, bytes: &[u8]) -> Result<Range<u64>> {
        let start = self.bytes;
        self.write_at(bytes, start)?;
        self.bytes += bytes.len().to_u64();
        Ok(start..self.bytes)
    }

    /// Writes at an offset.
    pub fn write_at(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.file
            .write_all_at(bytes, at)
            .map_err(|error| self.failed(error))
    }

    /// Fills `bytes` from an offset.
    pub fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        self.file
            .read_exact_at(bytes, at)
            .map_err(|error| self.failed(error))
    }

    /// Frees the space of a range that is not read again, where the system can: it then need not be written to the disk.
    pub fn release(&self, range: &Range<u64>) {
        let (start, end) = (
            range.start.next_multiple_of(PAGE_BYTES),
            range.end / PAGE_BYTES * PAGE_BYTES,
        );
        #[cfg(target_os = "linux")]
        if start < end {
            let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            // SAFETY: it takes numbers only, and the file is open. If it fails, nothing has changed.
            unsafe {
                libc::fallocate(
                    self.file.as_raw_fd(),
                    how,
                    start as libc::off_t,
                    (end - start) as libc::off_t,
                )
            };
        }
    }

    /// All that was appended, as memory that the system may take back. Nothing must be written any more.
    pub fn map(&self) -> Result<Mapping> {
        Mapping::of_temporary(&self.file, &self.place).map_err(|error| self.failed(error))
    }

    /// An error of this file, with its place.
    pub fn failed(&self, error: std::io::Error) -> Error {
        Error::io(format!("{}: a temporary file", self.place.display()), error)
    }
}

/// Reads a range of such a file front to back, a piece at a time.
pub struct TempReader<'a> {
    file: &'a TempFile,
    range: Range<u64>,
    piece: Vec<u8>,
    at: usize,
    piece_bytes: usize,
}

impl<'a> TempReader<'a> {
    /// Reads a range of a file, `piece_bytes` at a time.
    pub fn new(file: &'a TempFile, range: Range<u64>, piece_bytes: usize) -> Self {
        Self {
            file,
            range,
            piece: Vec::new(),
            at: 0,
            piece_bytes,
        }
    }

    /// Whether the range is read.
    pub fn is_at_end(&self) -> bool {
        self.at == self.piece.len() && self.range.is_empty()
    }

    /// The next number.
    pub fn varint(&mut self) -> Result<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << (shift & 63);
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    fn byte(&mut self) -> Result<u8> {
        if self.at == self.piece.len() {
            self.refill()?;
        }
        self.at += 1;
        Ok(self.piece[self.at - 1])
    }

    fn refill(&mut self) -> Result<()> {
        let length = (self.range.end - self.range.start).min(self.piece_bytes.to_u64());
        if length == 0 {
            return Err(self.file.failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        self.piece.resize(length.to_usize(), 0);
        self.file.read_at(&mut self.piece, self.range.start)?;
        self.range.start += length;
        self.at = 0;
        Ok(())
    }
}
