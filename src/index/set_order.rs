//! Numbers the document sets of an index whose shares were joined one by one.
//!
//! Sets are numbered by falling use, and those of equal use in the order of their lists. A share has
//! the sets whose first document is in a range of the documents, numbered by the same rule: so its
//! sets of one use have neighbouring numbers in the share and in the whole, and of two shares the
//! sets of the first one come first. To number all sets, it is enough to know how many sets of each
//! use every share has.
//!
//! `order` lists for each share how many runs of such sets it has, and of each run the number of its
//! sets and the number of the first one in the whole, all as varints.

use super::{
    set_file::{SetFile, SetFileWriter},
    set_uses::SetUses,
};
use crate::base::{
    codec::{Fields, put_varint},
    error::{Error, Result},
    files::{Sealed, SealedWriter},
    ids::SetNo,
    num::{ToU64, ToUsize},
};
use serde::{Deserialize, Serialize};
use std::{io::Write, path::Path};

const KIND: &str = "set order";
/// Where the first section of a sealed file starts.
const START: u64 = 8;

#[derive(Debug, Serialize, Deserialize)]
struct SetOrderDescription {
    kind: String,
    /// How many blots have a set whose number has each bit length.
    uses_by_length: Vec<u64>,
    shares: u64,
    /// The bytes of the list.
    bytes: u64,
}

/// The number in the whole of each set of each share.
#[derive(Debug, PartialEq, Eq)]
pub struct SetOrder {
    /// How many blots have a set whose number has each bit length.
    pub(super) uses_by_length: [u64; 33],
    shares: Vec<Vec<NumberRun>>,
}

/// Sets of one use of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NumberRun {
    /// The number of the first one in the share, and in the whole.
    first: u64,
    first_of_whole: u64,
    sets: u64,
}

impl SetOrder {
    /// Numbers the sets of all shares. Writes them in this order to `path`, and returns their uses.
    pub fn join(shares: &[(SetFile, SetUses)], path: &Path) -> Result<(Self, SetUses)> {
        let mut out = SetFileWriter::create(path)?;
        let mut cursors: Vec<_> = shares.iter().map(|(sets, _)| sets.cursor()).collect();
        let mut left: Vec<&[(u32, u64)]> = shares.iter().map(|(_, uses)| &uses.runs[..]).collect();
        let mut order = Self {
            uses_by_length: [0; 33],
            shares: vec![Vec::new(); shares.len()],
        };
        let (mut runs, mut set, mut next) = (Vec::new(), Vec::new(), 0_u64);
        while let Some(most) = left.iter().filter_map(|runs| Some(runs.first()?.0)).max() {
            let first = next;
            for (share, cursor) in cursors.iter_mut().enumerate() {
                let Some((&(_, sets), later)) =
                    left[share].split_first().filter(|(run, _)| run.0 == most)
                else {
                    continue;
                };
                left[share] = later;
                order.push(share, next, sets);
                next = next.saturating_add(sets);
                if next > u64::from(u32::MAX) {
                    return Err(Error::Usage(
                        "more than 4 G sets of documents; take more bits, or split the collection"
                            .to_owned(),
                    ));
                }
                for _ in 0..sets {
                    cursor.read(&mut set)?;
                    out.push(&set)?;
                }
            }
            runs.push((most, next - first));
            order.count_uses(most, first, next);
        }
        out.finish()?;
        Ok((order, SetUses { runs }))
    }

    /// Adds a run to a share.
    fn push(&mut self, share: usize, first_of_whole: u64, sets: u64) {
        let runs = &mut self.shares[share];
        let first = runs.last().map_or(0, |run| run.first + run.sets);
        runs.push(NumberRun {
            first,
            first_of_whole,
            sets,
        });
    }

    /// Counts the blots of the sets with numbers from `first` to `end`, which have `uses` each.
    fn count_uses(&mut self, uses: u32, first: u64, end: u64) {
        for (length, count) in self.uses_by_length.iter_mut().enumerate() {
            let least = if length == 0 { 0 } else { 1 << (length - 1) };
            let sets = end.min(1 << length).saturating_sub(first.max(least));
            *count += sets * u64::from(uses);
        }
    }

    /// Writes the file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let failed = |error| Error::io(path.display(), error);
        let mut out = SealedWriter::create(path).map_err(failed)?;
        let mut bytes = Vec::new();
        for runs in &self.shares {
            put_varint(&mut bytes, runs.len().to_u64());
            for run in runs {
                put_varint(&mut bytes, run.sets);
                put_varint(&mut bytes, run.first_of_whole);
            }
        }
        out.write_all(&bytes).map_err(failed)?;
        let description = SetOrderDescription {
            kind: KIND.to_owned(),
            uses_by_length: self.uses_by_length.to_vec(),
            shares: self.shares.len().to_u64(),
            bytes: bytes.len().to_u64(),
        };
        out.finish(&description).map(drop).map_err(failed)
    }

    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self> {
        let file = Sealed::open(path)?;
        let of: SetOrderDescription = file.describe()?;
        let wrong = || file.damaged(START, "the numbers of sets contradict themselves");
        let uses_by_length = <[u64; 33]>::try_from(of.uses_by_length).ok();
        let mut order = Self {
            uses_by_length: uses_by_length
                .filter(|_| of.kind == KIND)
                .ok_or_else(wrong)?,
            shares: Vec::new(),
        };
        let mut fields = Fields::new(file.bytes(START, of.bytes)?);
        for share in 0..of.shares.to_usize() {
            order.shares.push(Vec::new());
            let mut next = || fields.varint("number of sets").map_err(|_| wrong());
            for _ in 0..next()? {
                let (sets, first) = (next()?, next()?);
                if first.saturating_add(sets) > u64::from(u32::MAX) {
                    return Err(wrong());
                }
                order.push(share, first, sets);
            }
        }
        if fields.is_empty() {
            Ok(order)
        } else {
            Err(wrong())
        }
    }

    /// The number of shares.
    pub fn shares(&self) -> usize {
        self.shares.len()
    }

    /// The number in the whole of a set of a share.
    pub(super) fn number_of(&self, share: usize, set: SetNo) -> Option<SetNo> {
        let number = u64::from(set.get());
        let runs = &self.shares[share];
        // Most sets have one blot, and are in the last run.
        let run = runs.last().filter(|run| run.first <= number).or_else(|| {
            let after = runs.partition_point(|run| run.first <= number);
            runs.get(after.checked_sub(1)?)
        })?;
        let place = number - run.first;
        let is_there = place < run.sets;
        is_there.then(|| SetNo::from_index((run.first_of_whole + place).to_usize()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::ToU32;
    use crate::index::{posting::StoredSets, set_file};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const DOCUMENTS: u32 = 40;

    proptest! {
        #[test]
        fn sets_of_shares_have_the_numbers_of_the_whole(
            sets in prop::collection::btree_map(
                prop::collection::btree_set(0..DOCUMENTS, 2..5), prop_oneof![3 => Just(1_u64), 1 => 2_u64..6], 0..80),
            shares in 1_usize..6,
        ) {
            let directory = tempfile::tempdir().unwrap();
            let sets: BTreeMap<Vec<u32>, u64> =
                sets.into_iter().map(|(set, uses)| (set.into_iter().collect(), uses)).collect();
            let numbered = |sets: &mut dyn Iterator<Item = (&Vec<u32>, &u64)>| {
                let mut stored = StoredSets::default();
                sets.for_each(|(set, &uses)| stored.push(set, uses));
                stored.reordered()
            };
            let whole = numbered(&mut sets.iter());
            let share_of = |set: &Vec<u32>| set[0].to_usize() * shares / DOCUMENTS.to_usize();
            let mut files = Vec::new();
            for share in 0..shares {
                let of_share = numbered(&mut sets.iter().filter(|(set, _)| share_of(set) == share));
                let path = directory.path().join(share.to_string());
                set_file::write(&path, &of_share).unwrap();
                files.push((SetFile::open(&path).unwrap(), SetUses::of(&of_share)));
            }
            let path = directory.path().join("sets");
            let (order, uses) = SetOrder::join(&files, &path).unwrap();
            prop_assert_eq!(&uses, &SetUses::of(&whole));
            prop_assert_eq!(order.uses_by_length, whole.uses_by_length());
            set_file::write(&directory.path().join("expected"), &whole).unwrap();
            let read = |name: &str| std::fs::read(directory.path().join(name)).unwrap();
            prop_assert_eq!(read("sets"), read("expected"));
            order.write(&directory.path().join("order")).unwrap();
            prop_assert_eq!(&SetOrder::read(&directory.path().join("order")).unwrap(), &order);
            for (share, (sets, _)) in files.iter().enumerate() {
                let mut set = Vec::new();
                for number in SetNo::first(sets.len().to_usize()) {
                    sets.read(number, &mut set).unwrap();
                    prop_assert_eq!(whole.get(order.number_of(share, number).unwrap()), &set[..]);
                }
                prop_assert_eq!(order.number_of(share, SetNo::new(sets.len().to_u32())), None);
            }
        }
    }
}
