//! A file of the sets of one range of blots, which another process joins with those of other
//! ranges.
//!
//! The file has two runs, each in the order of the lists: the sets that were in memory, with their
//! numbers in four bytes each; and the sets of one blot that were on disk, if there were too many.
//! A set is the number of its blots, the length of its list, its first number and the gaps, as
//! varints.

use super::{
    sets::{Sets, put_list},
    spilled_sets::{DictionaryId, FinalSetNumbers, SetRun, StoredDictionaries, join_stored},
};
use crate::base::{
    codec::{Fields, put_varint},
    error::{Error, Result},
    files::{Sealed, SealedWriter, TempDir, TempFile},
    ids::SetNo,
    num::{ToU64, ToUsize},
};
use serde::{Deserialize, Serialize};
use std::{fs::File, io::BufWriter, io::Write, path::Path};

const KIND: &str = "set runs";

#[derive(Debug, Serialize, Deserialize)]
struct SetRunsDescription {
    kind: String,
    /// Numbers of documents are less than this.
    documents: u32,
    /// The number of sets of each run.
    sets: [u64; 2],
    /// The start and length of the lists of both runs.
    lists: [[u64; 2]; 2],
    /// The start of the numbers of the first run.
    numbers: u64,
}

/// Writes the sets of a range to a file.
pub fn write_set_runs(path: &Path, sets: &Sets, documents: u32) -> Result<()> {
    let failed = |error| Error::io(path.display(), error);
    let mut out = SealedWriter::create(path).map_err(failed)?;
    let held = sets.order.len();
    let mut order: Vec<SetNo> = SetNo::first(held).collect();
    order.sort_unstable_by_key(|&number| sets.get(number));
    let mut piece = Vec::new();
    let mut put = |out: &mut SealedWriter<BufWriter<File>>, uses: u64, list: &[u32]| {
        piece.clear();
        put_varint(&mut piece, uses);
        put_list(&mut piece, list);
        out.write_all(&piece).map_err(failed)
    };
    let starts = [out.position(), 0];
    order
        .iter()
        .try_for_each(|&number| put(&mut out, sets.uses()[number.index()], sets.get(number)))?;
    let numbers = out.position();
    order
        .iter()
        .try_for_each(|number| out.write_all(&number.get().to_le_bytes()))
        .map_err(failed)?;
    let tail = out.position();
    let mut at = 0;
    sets.for_each(|list| {
        at += 1;
        if at > held {
            put(&mut out, 1, list)
        } else {
            Ok(())
        }
    })?;
    let lists = [
        [starts[0], numbers - starts[0]],
        [tail, out.position() - tail],
    ];
    let counts = [held.to_u64(), (sets.len() - held).to_u64()];
    out.finish(&SetRunsDescription {
        kind: KIND.to_owned(),
        documents,
        sets: counts,
        lists,
        numbers,
    })
    .map_err(failed)?;
    Ok(())
}

/// For each range, the final numbers of its sets.
pub struct RangeSetNumbers {
    numbers: FinalSetNumbers,
    /// The number of sets of both runs of each range.
    sets: Vec<[u64; 2]>,
}

impl RangeSetNumbers {
    /// The final numbers of the sets of a range, in the order of their numbers within the range.
    pub fn of(&self, range: usize) -> Result<Vec<SetNo>> {
        let mut all = Vec::new();
        for run in (0..2).filter(|&run| self.sets[range][run] > 0) {
            // Empty runs are not stored.
            let number = if run == 1 && self.sets[range][0] == 0 {
                0
            } else {
                run
            };
            all.extend_from_slice(&self.numbers.of(DictionaryId {
                worker: range,
                number,
            })?);
        }
        Ok(all)
    }
}

/// Joins the sets of all ranges. They get the same numbers as from [`Sets::join`].
///
/// Memory: the sets of several blots, and the buffers of the merge.
pub fn join_set_runs(files: &[&Path], directory: &TempDir) -> Result<(Sets, RangeSetNumbers)> {
    let mut stored = Vec::with_capacity(files.len());
    let mut sets = Vec::with_capacity(files.len());
    for path in files {
        let (of_range, counts) = read(path, directory)?;
        stored.push(of_range);
        sets.push(counts);
    }
    let (joined, numbers) = join_stored(stored, directory)?;
    Ok((joined, RangeSetNumbers { numbers, sets }))
}

/// Checks the runs of a file, and copies them to a temporary file.
fn read(path: &Path, directory: &TempDir) -> Result<(StoredDictionaries, [u64; 2])> {
    let file = Sealed::open(path)?;
    let description: SetRunsDescription = file.describe()?;
    let wrong = || file.damaged(0, "the description of the sets contradicts itself");
    let SetRunsDescription {
        kind,
        documents,
        sets,
        lists,
        numbers,
    } = &description;
    if kind != KIND || sets.iter().any(|&sets| sets > u64::from(u32::MAX)) {
        return Err(wrong());
    }
    let mut stored = StoredDictionaries {
        file: TempFile::new(directory)?,
        runs: Vec::new(),
    };
    for (run, (&sets, &[start, length])) in sets.iter().zip(lists).enumerate() {
        let bytes = file.bytes(start, length)?;
        ensure_lists(bytes, sets, *documents).map_err(|what| file.damaged(start, what))?;
        if sets == 0 {
            continue;
        }
        let lists = stored.file.append(bytes)?;
        let order = match run {
            0 => file
                .bytes(*numbers, 4 * sets)?
                .as_chunks()
                .0
                .iter()
                .map(|bytes| u32::from_le_bytes(*bytes))
                .collect(),
            _ => (0..sets as u32).collect::<Vec<u32>>(),
        };
        if !is_permutation(&order) {
            return Err(wrong());
        }
        let numbers = stored
            .file
            .append(
                &order
                    .iter()
                    .flat_map(|number| number.to_le_bytes())
                    .collect::<Vec<u8>>(),
            )?
            .start;
        stored.runs.push(SetRun {
            sets: sets.to_usize(),
            lists,
            numbers,
        });
    }
    Ok((stored, *sets))
}

/// Whether the numbers are 0 to n − 1, in any order.
fn is_permutation(numbers: &[u32]) -> bool {
    let mut is_there = vec![false; numbers.len()];
    numbers.iter().all(|&number| {
        is_there
            .get_mut(number as usize)
            .is_some_and(|there| !std::mem::replace(there, true))
    })
}

/// Checks that `bytes` holds this many lists, in order, of two or more rising numbers each.
fn ensure_lists(bytes: &[u8], sets: u64, documents: u32) -> Result<(), String> {
    let mut fields = Fields::new(bytes);
    let [mut before, mut list] = [Vec::new(), Vec::new()];
    for _ in 0..sets {
        let uses = fields.varint("how many blots lead to a set")?;
        let length = fields.varint("length of a set")?;
        if uses == 0 || !(2..=u64::from(documents)).contains(&length) || length > fields.left() {
            return Err(format!(
                "a set of {length} documents, of {documents}, that {uses} blots lead to"
            ));
        }
        list.clear();
        let mut next = 0_u64;
        for place in 0..length {
            let gap = fields.varint("document of a set")?;
            next = next.saturating_add(gap);
            if (place > 0 && gap == 0) || next >= u64::from(documents) {
                return Err(format!(
                    "a set with document {next}, of {documents}, out of order"
                ));
            }
            list.push(next as u32);
        }
        if !before.is_empty() && list <= before {
            return Err("sets out of order".to_owned());
        }
        std::mem::swap(&mut list, &mut before);
    }
    if fields.is_empty() {
        Ok(())
    } else {
        Err("more sets than there are to be".to_owned())
    }
}
