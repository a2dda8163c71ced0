//! Sorted keys in temporary files.

use super::key::Key;
use crate::error::{Error, Result};
use std::{
    fs::File,
    io::Write,
    marker::PhantomData,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
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

    fn path(&self) -> PathBuf {
        self.0.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// Keys one after the other in a file that vanishes with the program.
#[derive(Debug)]
pub struct Spill<K> {
    file: File,
    keys: u64,
    buffer: Vec<u8>,
    place: PathBuf,
    of: PhantomData<K>,
}

/// Keys are written in pieces of about this size.
const BUFFER_BYTES: usize = 1 << 20;

impl<K: Key> Spill<K> {
    pub fn new(directory: &TempDir) -> Result<Self> {
        Ok(Self { file: directory.file()?, keys: 0, buffer: Vec::new(), place: directory.path(), of: PhantomData })
    }

    /// Appends keys, and says which ones they are now.
    pub fn write(&mut self, keys: &[K]) -> Result<Range<u64>> {
        let start = self.keys;
        for piece in keys.chunks(BUFFER_BYTES / K::BYTES) {
            self.buffer.clear();
            piece.iter().for_each(|key| key.append_to(&mut self.buffer));
            self.file.write_all(&self.buffer).map_err(|error| failed(&self.place, error))?;
            self.keys += piece.len() as u64;
        }
        Ok(start..self.keys)
    }

    /// Appends the keys of a range to `out`.
    pub fn read(&self, range: Range<u64>, out: &mut Vec<K>) -> Result<()> {
        let mut bytes = vec![0; ((range.end - range.start) as usize * K::BYTES).min(BUFFER_BYTES / K::BYTES * K::BYTES)];
        let mut at = range.start;
        while at < range.end {
            let count = ((range.end - at) as usize).min(bytes.len() / K::BYTES);
            let piece = &mut bytes[..count * K::BYTES];
            self.file.read_exact_at(piece, at * K::BYTES as u64).map_err(|error| failed(&self.place, error))?;
            out.extend(piece.chunks_exact(K::BYTES).map(K::read));
            at += count as u64;
        }
        Ok(())
    }
}

fn failed(place: &Path, error: std::io::Error) -> Error {
    Error::io(format!("{}: a temporary file", place.display()), error)
}
