//! Ids of documents in a sealed file, found by their place.
//!
//! An id is the length of the beginning that it shares with the id before, and the rest of it.
//! Every [`BLOCK_IDS`]th id is written in full.

use crate::base::{
    codec::{Fields, put_varint},
    error::Result,
    files::{Sealed, SealedWriter},
};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// Where a section starts, and its length in bytes.
pub type Section = [u64; 2];

/// Writes a section and says where it is.
pub fn section<W: Write>(out: &mut SealedWriter<W>, bytes: &[u8]) -> io::Result<Section> {
    let start = out.position();
    out.write_all(bytes)?;
    Ok([start, bytes.len() as u64])
}

/// Writes numbers as a section.
pub fn section_of<W: Write>(
    out: &mut SealedWriter<W>,
    numbers: impl Iterator<Item = u32>,
) -> io::Result<Section> {
    let start = out.position();
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    for number in numbers {
        piece.extend_from_slice(&number.to_le_bytes());
        if piece.len() == PIECE_BYTES {
            out.write_all(&piece)?;
            piece.clear();
        }
    }
    out.write_all(&piece)?;
    Ok([start, out.position() - start])
}

/// Sections of numbers are written in pieces of this many bytes.
const PIECE_BYTES: usize = 1 << 14;
const BLOCK_IDS: usize = 16;

/// Where the ids are in a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IdSection {
    id_section: Section,
    /// Where each block starts.
    id_blocks: Section,
}

/// Writes ids one by one.
///
/// Memory: half a byte an id.
pub struct IdSectionWriter {
    start: u64,
    /// Where each block starts.
    blocks: Vec<u64>,
    /// The block in the making, and how many ids it has.
    block: Vec<u8>,
    count: usize,
    last: String,
}

impl IdSectionWriter {
    /// Starts a section where the file ends.
    pub fn new<W: Write>(out: &SealedWriter<W>) -> Self {
        Self {
            start: out.position(),
            blocks: Vec::new(),
            block: Vec::new(),
            count: 0,
            last: String::new(),
        }
    }

    /// Writes the next id.
    pub fn push<W: Write>(&mut self, out: &mut SealedWriter<W>, id: &str) -> io::Result<()> {
        if self.count.is_multiple_of(BLOCK_IDS) {
            out.write_all(&self.block)?;
            self.block.clear();
            self.blocks.push(out.position() - self.start);
            self.last.clear();
        }
        let shared = self
            .last
            .bytes()
            .zip(id.bytes())
            .take_while(|(one, two)| one == two)
            .count();
        put_varint(&mut self.block, shared as u64);
        put_varint(&mut self.block, (id.len() - shared) as u64);
        self.block.extend_from_slice(&id.as_bytes()[shared..]);
        self.count += 1;
        self.last.clear();
        self.last.push_str(id);
        Ok(())
    }

    /// Ends the section, and says where it is.
    pub fn finish<W: Write>(self, out: &mut SealedWriter<W>) -> io::Result<IdSection> {
        out.write_all(&self.block)?;
        let id_section = [self.start, out.position() - self.start];
        let start = out.position();
        for block in self.blocks {
            out.write_all(&block.to_le_bytes())?;
        }
        Ok(IdSection {
            id_section,
            id_blocks: [start, out.position() - start],
        })
    }
}

impl IdSection {
    /// Writes ids and says where they are.
    pub fn write<'a, W: Write>(
        out: &mut SealedWriter<W>,
        all: impl Iterator<Item = &'a str>,
    ) -> io::Result<Self> {
        let mut ids = IdSectionWriter::new(out);
        for id in all {
            ids.push(out, id)?;
        }
        ids.finish(out)
    }

    /// Whether the section can have this many ids.
    pub fn fits(&self, count: u64) -> bool {
        self.id_blocks[1] == 8 * count.div_ceil(BLOCK_IDS as u64)
    }

    /// The id at a place.
    pub fn get(&self, file: &Sealed, place: u32) -> Result<String> {
        let block = u64::from(place) / BLOCK_IDS as u64;
        let at = self.id_blocks[0] + 8 * block;
        let wrong = |at: u64| {
            file.damaged(
                at,
                "an id leads out of its section; the file was not made by this program",
            )
        };
        let [ids, length] = self.id_section;
        let start = word(file, at)?;
        let end = if 8 * (block + 1) < self.id_blocks[1] {
            word(file, at + 8)?
        } else {
            length
        };
        let taken = end
            .checked_sub(start)
            .filter(|_| end <= length)
            .ok_or_else(|| wrong(at))?;
        let mut fields = Fields::new(file.bytes(ids + start, taken)?);
        let mut id = Vec::new();
        for _ in 0..=place as usize % BLOCK_IDS {
            let mut next = || -> Result<(), String> {
                let shared = fields.varint("length of an id's beginning")?;
                let more = fields.varint("length of an id")?;
                id.truncate(shared as usize);
                id.extend_from_slice(fields.take(more, "id")?);
                Ok(())
            };
            next().map_err(|what| file.damaged(ids + start, what))?;
        }
        String::from_utf8(id).map_err(|_| wrong(ids + start))
    }
}

fn word(file: &Sealed, at: u64) -> Result<u64> {
    let bytes = file.bytes(at, 8)?;
    Ok(u64::from_le_bytes(std::array::from_fn(|index| {
        bytes[index]
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::test_files;
    use proptest::prelude::*;
    use std::path::Path;

    fn write_ids(path: &Path, ids: &[String]) -> IdSection {
        let mut out = SealedWriter::create(path).unwrap();
        let section = IdSection::write(&mut out, ids.iter().map(String::as_str)).unwrap();
        out.finish(&section).unwrap();
        section
    }

    proptest! {
        #[test]
        fn ids_are_read_as_they_were_written(
            ids in prop::collection::vec("[ab]{0,4}(é|/|)[a-z]{0,3}", 0..50)
        ) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("ids");
            let section = write_ids(&path, &ids);
            prop_assert!(section.fits(ids.len() as u64));
            prop_assert!(!section.fits(ids.len() as u64 + BLOCK_IDS as u64));
            let file = Sealed::open(&path).unwrap();
            for (place, id) in (0..).zip(&ids) {
                prop_assert_eq!(&section.get(&file, place).unwrap(), id);
            }
        }
    }

    #[test]
    fn damaged_ids_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ids");
        let ids: Vec<String> = (0..40).map(|number| format!("file-{number}.txt")).collect();
        let section = write_ids(&path, &ids);
        let mut errors = 0;
        for at in test_files::body(&path) {
            for value in [0x7f, 0xff] {
                let resealed = test_files::resealed_with_byte(&path, at, value);
                let file = Sealed::open(&resealed).unwrap();
                for place in 0..40 {
                    if let Err(error) = section.get(&file, place) {
                        assert!(error.to_string().contains("resealed: byte "), "{error}");
                        errors += 1;
                    }
                }
            }
        }
        assert!(errors > 0);
    }
}
