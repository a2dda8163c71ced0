//! The document sets of a segment, each stored once, found by number.
//!
//! A set is its length less two, its first number, and the gaps between neighbours less one, as varints. Every
//! [`BLOCK_SETS`]th set has its place in a list.

use super::{
    id_section::{Section, section},
    sections,
};
use crate::{
    base::{
        codec::{Fields, put_varint},
        error::{Error, Result},
        files::{Sealed, SealedWriter},
    },
    index::posting::Sets,
};
use serde::{Deserialize, Serialize};
use std::{io::Write, path::Path};

const BLOCK_SETS: u64 = 32;
#[derive(Debug, Serialize, Deserialize)]
struct SetFileDescription {
    kind: String,
    sets: u64,
    /// Numbers in all of them together.
    numbers: u64,
    set_section: Section,
    set_blocks: Section,
}

/// Sets are written as they are read; only the places of blocks are held.
pub fn write(path: &Path, sets: &Sets) -> Result<()> {
    let failed = |error| Error::io(path.display(), error);
    let mut out = SealedWriter::create(path).map_err(failed)?;
    let start = out.position();
    let (mut bytes, mut blocks, mut index, mut numbers) = (Vec::new(), Vec::new(), 0_u64, 0);
    sets.for_each(|set| {
        if index.is_multiple_of(BLOCK_SETS) {
            blocks.extend_from_slice(&(out.position() - start).to_le_bytes());
        }
        index += 1;
        numbers += set.len() as u64;
        bytes.clear();
        put_varint(&mut bytes, set.len() as u64 - 2);
        put_varint(&mut bytes, u64::from(set[0]));
        set.windows(2)
            .for_each(|pair| put_varint(&mut bytes, u64::from(pair[1] - pair[0] - 1)));
        out.write_all(&bytes).map_err(failed)
    })?;
    let set_section = [start, out.position() - start];
    let set_blocks = section(&mut out, &blocks).map_err(failed)?;
    let description = SetFileDescription {
        kind: sections::SETS.kind.to_owned(),
        sets: sets.len() as u64,
        numbers,
        set_section,
        set_blocks,
    };
    out.finish(&description).map_err(failed)?;
    Ok(())
}

/// The sets of a segment, read as they are asked for.
pub struct SetFile {
    file: Sealed,
    description: SetFileDescription,
}

impl SetFile {
    pub fn open(path: &Path) -> Result<Self> {
        let file = Sealed::open(path)?;
        let description: SetFileDescription = file.describe()?;
        if description.kind != sections::SETS.kind
            || description.set_blocks[1] != 8 * description.sets.div_ceil(BLOCK_SETS)
        {
            return Err(file.damaged(0, "the description of the sets contradicts itself"));
        }
        Ok(Self { file, description })
    }

    pub fn file(&self) -> &Sealed {
        &self.file
    }

    pub fn len(&self) -> u64 {
        self.description.sets
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn numbers(&self) -> u64 {
        self.description.numbers
    }

    /// Replaces `out` by the numbers of a set.
    pub fn read(&self, set: u64, out: &mut Vec<u32>) -> Result<()> {
        out.clear();
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
        // Sets are short: what is mapped here is checked block by block as it is touched, never the whole section.
        self.read_from(section + start, left, set % BLOCK_SETS, out)
    }

    fn read_from(&self, start: u64, left: u64, skipped: u64, out: &mut Vec<u32>) -> Result<()> {
        let mut window = left.min(1 << 12);
        loop {
            let mut fields = Fields::new(self.file.bytes(start, window)?);
            match (0..=skipped).try_for_each(|_| read_set(&mut fields, out)) {
                Ok(()) => return Ok(()),
                Err(_) if window < left => window = left.min(16 * window),
                Err(what) => return Err(self.file.damaged(start, what)),
            }
        }
    }

    /// Calls `each` with every set in order.
    pub fn for_each(&self, mut each: impl FnMut(u64, &[u32]) -> Result<()>) -> Result<()> {
        let [start, length] = self.description.set_section;
        let mut fields = Fields::new(self.file.bytes(start, length)?);
        let mut set = Vec::new();
        for number in 0..self.len() {
            read_set(&mut fields, &mut set)
                .map_err(|what| self.file.damaged(start + length - fields.left(), what))?;
            each(number, &set)?;
        }
        if fields.is_empty() {
            Ok(())
        } else {
            Err(self
                .file
                .damaged(start + length - fields.left(), "bytes after the last set"))
        }
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
