//! The text of chunks, beside an index of shared chunks: with it they can be read without the
//! documents.
//!
//! The texts stand one after the other, by rising blot; then of each its blot and where its text
//! ends.

use super::{
    manifest::{FileSeal, Manifest},
    sections,
};
use crate::base::{
    error::{Error, Result},
    files::{Sealed, SealedWriter, TempDir, TempFile},
    ids::Blot,
};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// A blot, and where a text ends.
const ENTRY_BYTES: u64 = 16;
/// Bytes of the entries that are copied at a time.
const PIECE_BYTES: u64 = 1 << 16;

#[derive(Debug, Serialize, Deserialize)]
struct ChunkTextsDescription {
    kind: String,
    chunks: u64,
    /// Where the texts start, and the entries.
    texts: u64,
    entries: u64,
}

/// Writes the texts of chunks; the entries wait in a temporary file until the last text is written.
pub struct ChunkTextWriter {
    out: SealedWriter<BufWriter<File>>,
    path: PathBuf,
    entries: TempFile,
    piece: Vec<u8>,
    texts: u64,
}

impl ChunkTextWriter {
    /// Creates the file; `directory` is for temporary ones.
    pub fn create(path: PathBuf, directory: &TempDir) -> Result<Self> {
        let out = SealedWriter::create(&path).map_err(|error| Error::io(path.display(), error))?;
        Ok(Self {
            texts: out.position(),
            out,
            path,
            entries: TempFile::new(directory)?,
            piece: Vec::new(),
        })
    }

    /// Takes the next chunk: its blot is greater than all before.
    pub fn push(&mut self, blot: Blot, text: &[u8]) -> Result<()> {
        self.out
            .write_all(text)
            .map_err(|error| Error::io(self.path.display(), error))?;
        [blot.get(), self.out.position()]
            .iter()
            .for_each(|number| self.piece.extend_from_slice(&number.to_le_bytes()));
        if self.piece.len() as u64 >= PIECE_BYTES {
            self.entries.append(&self.piece)?;
            self.piece.clear();
        }
        Ok(())
    }

    /// Closes the file, and returns its entry in the manifest.
    pub fn finish(mut self) -> Result<FileSeal> {
        let failed = |error: io::Error| Error::io(self.path.display(), error);
        self.entries.append(&self.piece)?;
        let (entries, bytes) = (self.out.position(), self.entries.bytes());
        for start in (0..bytes).step_by(PIECE_BYTES as usize) {
            self.piece
                .resize((bytes - start).min(PIECE_BYTES) as usize, 0);
            self.entries.read_at(&mut self.piece, start)?;
            self.out.write_all(&self.piece).map_err(failed)?;
        }
        let description = ChunkTextsDescription {
            kind: sections::TEXTS.kind.to_owned(),
            chunks: bytes / ENTRY_BYTES,
            texts: self.texts,
            entries,
        };
        self.out.finish(&description).map_err(failed)?;
        FileSeal::of(&self.path)
    }
}

/// The texts of the chunks of an index.
pub struct ChunkTexts {
    file: Sealed,
    description: ChunkTextsDescription,
}

impl ChunkTexts {
    /// Opens the texts of an index, if it has any.
    pub fn of(manifest: &Manifest, directory: &Path) -> Result<Option<Self>> {
        let Some(seal) = &manifest.texts else {
            return Ok(None);
        };
        let file = seal.open(directory)?;
        let description: ChunkTextsDescription = file.describe()?;
        if description.kind != sections::TEXTS.kind {
            return Err(file.damaged(0, "not the texts of chunks"));
        }
        Ok(Some(Self { file, description }))
    }

    /// The blot of an entry, and where its text ends.
    fn entry(&self, at: u64) -> Result<(Blot, u64)> {
        let bytes = self.file.bytes(
            self.description
                .entries
                .saturating_add(at.saturating_mul(ENTRY_BYTES)),
            ENTRY_BYTES,
        )?;
        let number =
            |start: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[start + index]));
        Ok((Blot::new(number(0)), number(8)))
    }

    /// The text of a blot, if it is shared.
    pub fn text(&self, blot: Blot) -> Result<Option<String>> {
        let (mut low, mut high) = (0, self.description.chunks);
        while low < high {
            let middle = low + (high - low) / 2;
            let (found, end) = self.entry(middle)?;
            if found == blot {
                let start = if middle == 0 {
                    self.description.texts
                } else {
                    self.entry(middle - 1)?.1
                };
                let length = end.checked_sub(start).ok_or_else(|| {
                    self.file
                        .damaged(start, "a text that ends before it starts")
                })?;
                return Ok(Some(
                    String::from_utf8_lossy(self.file.bytes(start, length)?).into_owned(),
                ));
            }
            if found < blot {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::test_files;

    #[test]
    fn the_text_of_every_blot_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("000001.text");
        let mut writer = ChunkTextWriter::create(path, &TempDir(None)).unwrap();
        // More entries than are copied at a time.
        let text = |blot: u64| format!("text {blot}").repeat((blot % 3) as usize);
        let blots = || (0..9_000_u64).map(|number| 5 * number);
        for blot in blots() {
            writer.push(Blot::new(blot), text(blot).as_bytes()).unwrap();
        }
        let manifest = Manifest {
            texts: Some(writer.finish().unwrap()),
            ..Manifest::new(&test_files::SCHEME.parse().unwrap())
        };
        let texts = ChunkTexts::of(&manifest, directory.path())
            .unwrap()
            .unwrap();
        for blot in blots() {
            assert_eq!(texts.text(Blot::new(blot)).unwrap(), Some(text(blot)));
            assert_eq!(texts.text(Blot::new(blot + 1)).unwrap(), None);
        }
        let without = Manifest::new(&test_files::SCHEME.parse().unwrap());
        assert!(
            ChunkTexts::of(&without, directory.path())
                .unwrap()
                .is_none()
        );
    }
}
