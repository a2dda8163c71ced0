//! How many blots lead to each set of a segment, in a file beside its sets.
//!
//! Only the postings of all ranges tell that otherwise. Sets are numbered by falling use, so the file
//! lists how many sets have each number of blots: a few bytes, however many sets there are.

use crate::{
    base::{
        codec::{Fields, put_varint},
        error::{Error, Result},
        files::{Sealed, SealedWriter},
        num::ToU64,
    },
    index::posting::Sets,
};
use serde::{Deserialize, Serialize};
use std::{io::Write, path::Path};

const KIND: &str = "set uses";

#[derive(Debug, Serialize, Deserialize)]
struct SetUsesDescription {
    kind: String,
    /// The number of sets.
    sets: u64,
    /// The bytes of the list.
    bytes: u64,
}

/// The number of blots of each set, by the number of the set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetUses {
    /// A number of blots, and how many sets have that; falling.
    pub(super) runs: Vec<(u32, u64)>,
}

impl SetUses {
    /// The uses of sets that are numbered by falling use.
    pub fn of(sets: &Sets) -> Self {
        // Those on disk have one blot each.
        let uses = sets.uses().iter();
        let uses = uses.map(|&uses| u32::try_from(uses).unwrap_or(u32::MAX));
        Self::falling(uses, sets.len().to_u64())
    }

    /// The uses of the first sets, and of this many sets in all; all others have one.
    pub(super) fn falling(first: impl Iterator<Item = u32>, sets: u64) -> Self {
        let mut runs: Vec<(u32, u64)> = Vec::new();
        let mut others = sets;
        for uses in first {
            others = others.saturating_sub(1);
            match runs.last_mut() {
                Some((last, count)) if *last == uses => *count += 1,
                _ => runs.push((uses, 1)),
            }
        }
        match runs.last_mut() {
            Some((1, count)) => *count += others,
            _ if others > 0 => runs.push((1, others)),
            _ => {}
        }
        Self { runs }
    }

    /// Writes the file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let failed = |error| Error::io(path.display(), error);
        let mut out = SealedWriter::create(path).map_err(failed)?;
        let mut bytes = Vec::new();
        for &(uses, count) in &self.runs {
            put_varint(&mut bytes, uses.into());
            put_varint(&mut bytes, count);
        }
        out.write_all(&bytes).map_err(failed)?;
        let description = SetUsesDescription {
            kind: KIND.to_owned(),
            sets: self.sets(),
            bytes: bytes.len().to_u64(),
        };
        out.finish(&description).map(drop).map_err(failed)
    }

    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self> {
        let file = Sealed::open(path)?;
        let of: SetUsesDescription = file.describe()?;
        if of.kind != KIND {
            return Err(file.damaged(0, format!("this is '{}', not '{KIND}'", of.kind)));
        }
        let mut fields = Fields::new(file.bytes(START, of.bytes)?);
        let mut found = Self { runs: Vec::new() };
        while !fields.is_empty() {
            let mut next = || Ok((fields.varint("uses")?, fields.varint("number of sets")?));
            let (uses, count) = next().map_err(|what: String| file.damaged(START, what))?;
            let uses = u32::try_from(uses).unwrap_or(u32::MAX);
            found.runs.push((uses, count));
        }
        let is_falling = found.runs.is_sorted_by(|one, two| one.0 > two.0);
        if !is_falling || found.sets() != of.sets || of.sets > u64::from(u32::MAX) {
            return Err(file.damaged(START, "the uses of sets contradict themselves"));
        }
        Ok(found)
    }

    /// The number of sets.
    pub fn sets(&self) -> u64 {
        let counts = self.runs.iter().map(|&(_, count)| count);
        counts.fold(0, u64::saturating_add)
    }

    /// The uses of each set that has more than one; these come first.
    pub(super) fn above_one(&self) -> Vec<u32> {
        let several = self.runs.iter().filter(|&&(uses, _)| uses > 1);
        several
            .flat_map(|&(uses, count)| (0..count).map(move |_| uses))
            .collect()
    }
}

/// Where the first section of a sealed file starts.
const START: u64 = 8;
