//! The document sets of a segment, each stored once, found by number.
//!
//! A set is its length less two, its first number, and the gaps between neighbours less one, as
//! varints. Every [`BLOCK_SETS`]th set has its place in a list.

use super::{
    id_section::{Section, section},
    sections,
};
use crate::{
    base::{
        codec::{Fields, put_varint},
        error::{Error, Result},
        files::{Sealed, SealedWriter},
        ids::SetNo,
        num::ToUsize,
    },
    index::posting::Sets,
};
use serde::{Deserialize, Serialize};
use std::{fs::File, io::BufWriter, io::Write, path::Path};

const BLOCK_SETS: u64 = 32;
/// Sets are read in windows of this size.
const WINDOW_BYTES: u64 = 1 << 20;
/// More bytes of sets do not stay mapped.
const MAPPED_BYTES: u64 = 1 << 25;

#[derive(Debug, Serialize, Deserialize)]
struct SetFileDescription {
    kind: String,
    sets: u64,
    /// Numbers in all of them together.
    numbers: u64,
    set_section: Section,
    set_blocks: Section,
}

/// Writes the sets of a segment. Memory: 8 bytes for every `BLOCK_SETS` sets.
pub fn write(path: &Path, sets: &Sets) -> Result<()> {
    let mut out = SetFileWriter::create(path)?;
    sets.for_each(|set| out.push(set))?;
    out.finish()
}

/// Writes sets one by one, in the order of their numbers.
pub(super) struct SetFileWriter<'a> {
    path: &'a Path,
    out: SealedWriter<BufWriter<File>>,
    start: u64,
    /// Where every [`BLOCK_SETS`]th set starts.
    blocks: Vec<u8>,
    sets: u64,
    numbers: u64,
    bytes: Vec<u8>,
}

impl<'a> SetFileWriter<'a> {
    pub fn create(path: &'a Path) -> Result<Self> {
        let out = SealedWriter::create(path).map_err(|error| Error::io(path.display(), error))?;
        Ok(Self {
            path,
            start: out.position(),
            out,
            blocks: Vec::new(),
            sets: 0,
            numbers: 0,
            bytes: Vec::new(),
        })
    }

    pub fn push(&mut self, set: &[u32]) -> Result<()> {
        if self.sets.is_multiple_of(BLOCK_SETS) {
            let at = self.out.position() - self.start;
            self.blocks.extend_from_slice(&at.to_le_bytes());
        }
        self.sets += 1;
        self.numbers += set.len() as u64;
        self.bytes.clear();
        put_varint(&mut self.bytes, set.len() as u64 - 2);
        put_varint(&mut self.bytes, u64::from(set[0]));
        set.windows(2)
            .for_each(|pair| put_varint(&mut self.bytes, u64::from(pair[1] - pair[0] - 1)));
        let written = self.out.write_all(&self.bytes);
        written.map_err(|error| Error::io(self.path.display(), error))
    }

    pub fn finish(mut self) -> Result<()> {
        let failed = |error| Error::io(self.path.display(), error);
        let set_section = [self.start, self.out.position() - self.start];
        let set_blocks = section(&mut self.out, &self.blocks).map_err(failed)?;
        let description = SetFileDescription {
            kind: sections::SETS.kind.to_owned(),
            sets: self.sets,
            numbers: self.numbers,
            set_section,
            set_blocks,
        };
        self.out.finish(&description).map(drop).map_err(failed)
    }
}

/// The sets of a segment, read as they are asked for.
pub struct SetFile {
    file: Sealed,
    description: SetFileDescription,
}

impl SetFile {
    /// Opens the file and checks that its description makes sense.
    pub fn open(path: &Path) -> Result<Self> {
        let file = Sealed::open(path)?;
        let description: SetFileDescription = file.describe()?;
        if description.kind != sections::SETS.kind
            || description.sets > u64::from(u32::MAX)
            || description.set_blocks[1] != 8 * description.sets.div_ceil(BLOCK_SETS)
        {
            return Err(file.damaged(0, "the description of the sets contradicts itself"));
        }
        Ok(Self { file, description })
    }

    /// The file itself.
    pub fn file(&self) -> &Sealed {
        &self.file
    }

    /// How many sets there are.
    pub fn len(&self) -> u64 {
        self.description.sets
    }

    /// Whether there is no set.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many members all sets have together.
    pub fn numbers(&self) -> u64 {
        self.description.numbers
    }

    /// Replaces `out` by the numbers of a set.
    pub fn read(&self, set: SetNo, out: &mut Vec<u32>) -> Result<()> {
        out.clear();
        let set = u64::from(set.get());
        if set >= self.len() {
            return Err(self.file.damaged(
                0,
                format!("set {set} is asked for, there are {}", self.len()),
            ));
        }
        let [blocks, _] = self.description.set_blocks;
        let at = blocks + set / BLOCK_SETS * 8;
        let bytes = self.file.bytes(at, 8)?;
        let start = u64::from_le_bytes(std::array::from_fn(|index| bytes[index]));
        let [section, length] = self.description.set_section;
        let left = length
            .checked_sub(start)
            .ok_or_else(|| self.file.damaged(at, "a set lies outside of its section"))?;
        // Sets are short: checking the mapped bytes block by block avoids reading the whole section.
        self.read_from(section + start, left, set % BLOCK_SETS, out)
            .map(drop)
    }

    /// Reads a set after others that are skipped; returns the bytes of all of them.
    fn read_from(&self, start: u64, left: u64, skipped: u64, out: &mut Vec<u32>) -> Result<u64> {
        let mut window = left.min(1 << 12);
        loop {
            let mut fields = Fields::new(self.file.bytes(start, window)?);
            match (0..=skipped).try_for_each(|_| read_set(&mut fields, out)) {
                Ok(()) => return Ok(window - fields.left()),
                Err(_) if window < left => window = left.min(16 * window),
                Err(what) => return Err(self.file.damaged(start, what)),
            }
        }
    }

    /// Reads the sets one by one, from the first one on.
    pub(super) fn cursor(&self) -> SetCursor<'_> {
        SetCursor { sets: self, at: 0 }
    }

    /// Calls `each` with every set in order. Where there are many, they do not stay mapped.
    pub fn for_each(&self, mut each: impl FnMut(SetNo, &[u32]) -> Result<()>) -> Result<()> {
        let [start, length] = self.description.set_section;
        let (mut at, mut window) = (0, WINDOW_BYTES);
        let (mut numbers, mut set) = (SetNo::first(self.len().to_usize()), Vec::new());
        while numbers.len() > 0 {
            let size = window.min(length.saturating_sub(at));
            let mut fields = Fields::new(self.file.bytes(start + at, size)?);
            let (left, mut done) = (numbers.len(), 0);
            while numbers.len() > 0 {
                match read_set(&mut fields, &mut set) {
                    Ok(()) => done = size - fields.left(),
                    // The set goes on after the window.
                    Err(_) if at + size < length => break,
                    Err(what) => return Err(self.file.damaged(start + at + done, what)),
                }
                if let Some(number) = numbers.next() {
                    each(number, &set)?;
                }
            }
            if length > MAPPED_BYTES {
                self.file.release_bytes(start + at..start + at + done);
            }
            at += done;
            window = if numbers.len() < left {
                WINDOW_BYTES
            } else {
                window.saturating_mul(16)
            };
        }
        if at == length {
            Ok(())
        } else {
            Err(self.file.damaged(start + at, "bytes after the last set"))
        }
    }
}

/// A place in a file of sets.
pub(super) struct SetCursor<'f> {
    sets: &'f SetFile,
    at: u64,
}

impl SetCursor<'_> {
    /// Replaces `out` by the numbers of the next set.
    pub fn read(&mut self, out: &mut Vec<u32>) -> Result<()> {
        let [start, length] = self.sets.description.set_section;
        let left = length - self.at;
        self.at += self.sets.read_from(start + self.at, left, 0, out)?;
        Ok(())
    }
}

fn read_set(fields: &mut Fields<'_>, out: &mut Vec<u32>) -> Result<(), String> {
    out.clear();
    let more = fields.varint("length of a set")?;
    if more >= fields.left() {
        return Err(format!(
            "a set of {more} and two documents in {} bytes",
            fields.left()
        ));
    }
    let mut last = number(fields.varint("document of a set")?)?;
    out.push(last);
    for _ in 0..=more {
        last = number(
            fields
                .varint("document of a set")?
                .saturating_add(u64::from(last) + 1),
        )?;
        out.push(last);
    }
    Ok(())
}

fn number(value: u64) -> Result<u32, String> {
    u32::try_from(value).map_err(|_| format!("{value} is not the number of a document"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{posting::StoredSets, test_files};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn write_test_sets(path: &Path, sets: &[Vec<u32>]) {
        let mut stored = StoredSets::default();
        sets.iter().for_each(|set| stored.push(set, 1));
        write(path, &stored.done()).unwrap();
    }

    fn any_set() -> impl Strategy<Value = Vec<u32>> {
        let number = prop_oneof![0_u32..50, any::<u32>()];
        prop::collection::btree_set(number, 2..9)
            .prop_map(|set: BTreeSet<u32>| set.into_iter().collect())
    }

    proptest! {
        #[test]
        fn sets_are_read_as_they_were_written(sets in prop::collection::vec(any_set(), 0..100)) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("sets");
            write_test_sets(&path, &sets);
            let file = SetFile::open(&path).unwrap();
            let members: usize = sets.iter().map(Vec::len).sum();
            prop_assert_eq!((file.len(), file.numbers()), (sets.len() as u64, members as u64));
            let mut set = Vec::new();
            for (number, expected) in SetNo::first(sets.len()).zip(&sets) {
                file.read(number, &mut set).unwrap();
                prop_assert_eq!(&set, expected);
            }
            prop_assert!(file.read(SetNo::from_index(sets.len()), &mut set).is_err());
            let mut all = Vec::new();
            file.for_each(|number, set| {
                assert_eq!(number.index(), all.len());
                all.push(set.to_vec());
                Ok(())
            }).unwrap();
            prop_assert_eq!(all, sets);
        }
    }

    #[test]
    fn damaged_sets_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sets");
        let sets: Vec<Vec<u32>> = (0..70)
            .map(|first| vec![first, 2 * first + 1, 900])
            .collect();
        write_test_sets(&path, &sets);
        for at in test_files::body(&path) {
            let flipped = test_files::with_flipped_byte(&path, at);
            let error = SetFile::open(&flipped).and_then(|file| file.file().verify());
            let text = error.unwrap_err().to_string();
            assert!(text.contains("flipped: byte "), "{text}");
            for value in [0, 1, 0x7f, 0xff] {
                let resealed = test_files::resealed_with_byte(&path, at, value);
                let file = SetFile::open(&resealed).unwrap();
                // Either is fine, as long as nothing panics.
                let _ = file.for_each(|_, _| Ok(()));
                let mut set = Vec::new();
                let _ = SetNo::first(70).try_for_each(|number| file.read(number, &mut set));
            }
        }
    }
}
