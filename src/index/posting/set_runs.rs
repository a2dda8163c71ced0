//! The sets of one range of blots, which other processes join with those of other ranges.
//!
//! They are divided among shares of the documents, by the first document of each set: a share of all
//! ranges can be joined without the other shares. A file has two runs of the sets of a share, each in
//! the order of the lists: those that were in memory, and the sets of one blot that were on disk, if
//! there were too many. A set is the number of its blots, the length of its list, its first number
//! and the gaps, as varints.
//!
//! Outside of this process, the sets of a range are numbered in the order of these files: share by
//! share, and in each first those of the first run ([`SharedSetNumbers`]).

use super::{
    sets::{Sets, put_list},
    spilled_sets::{DictionaryId, FinalSetNumbers, SetRun, StoredDictionaries, join_stored},
};
use crate::base::{
    codec::{Fields, put_varint},
    error::{Error, Result},
    files::{Sealed, SealedWriter, TempDir, TempFile},
    ids::SetNo,
    num::{ToU32, ToU64, ToUsize},
};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::BufWriter,
    io::Write,
    path::{Path, PathBuf},
};

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
}

/// The numbers that the sets of a range have in the files of [`write_set_runs`].
pub struct SharedSetNumbers {
    /// Of each set that is in memory, by its number in this process.
    held: Vec<u32>,
    /// Of sets on disk, as far as they are in one share: the first, by its place among these, and
    /// its number.
    tail: Vec<(u32, u32)>,
}

impl SharedSetNumbers {
    /// The number of a set in the files, by its number in this process.
    pub fn of(&self, set: u32) -> u32 {
        let at = set.to_usize();
        if let Some(&number) = self.held.get(at) {
            return number;
        }
        let place = (at - self.held.len()).to_u32();
        let share = self.tail.partition_point(|&(first, _)| first <= place);
        let (first, number) = share
            .checked_sub(1)
            .map_or((0, 0), |share| self.tail[share]);
        number + (place - first)
    }
}

/// Writes the sets of a range, a file for each share of the documents; returns their numbers there.
pub fn write_set_runs(files: &[PathBuf], sets: &Sets, documents: u32) -> Result<SharedSetNumbers> {
    let mut order: Vec<SetNo> = SetNo::first(sets.order.len()).collect();
    order.sort_unstable_by_key(|&number| sets.get(number));
    let mut divider = SetDivider {
        files,
        sets,
        documents,
        rest: &order,
        numbers: SharedSetNumbers {
            held: vec![0; order.len()],
            tail: Vec::new(),
        },
        next: 0,
        next_on_disk: 0,
    };
    let mut file = divider.begin(0)?;
    let mut at = 0;
    sets.for_each(|list| {
        at += 1;
        if at <= order.len() {
            return Ok(());
        }
        divider.advance(&mut file, divider.share_of(list))?;
        divider.next += 1;
        divider.next_on_disk += 1;
        file.put(1, 1, list)
    })?;
    divider.advance(&mut file, files.len() - 1)?;
    file.seal(documents)?;
    Ok(divider.numbers)
}

/// Divides the sets of a range among shares, whose files are written one after the other.
struct SetDivider<'a> {
    files: &'a [PathBuf],
    sets: &'a Sets,
    documents: u32,
    /// The sets in memory that are not written yet, in the order of their lists.
    rest: &'a [SetNo],
    numbers: SharedSetNumbers,
    /// The number of the next set, and its place among those on disk if it is one of them.
    next: u32,
    next_on_disk: u32,
}

impl<'a> SetDivider<'a> {
    fn share_of(&self, list: &[u32]) -> usize {
        let first = list.first().map_or(0, |&first| u64::from(first));
        (first * self.files.len().to_u64() / u64::from(self.documents.max(1))).to_usize()
    }

    /// Begins the file of a share: writes its first run.
    fn begin(&mut self, share: usize) -> Result<ShareFile<'a>> {
        let mut file = ShareFile::create(share, &self.files[share])?;
        let sets = self.sets;
        let count = self
            .rest
            .partition_point(|&number| self.share_of(sets.get(number)) <= share);
        let (these, later) = self.rest.split_at(count);
        self.rest = later;
        for &number in these {
            self.numbers.held[number.index()] = self.next;
            self.next += 1;
            file.put(0, sets.uses()[number.index()], sets.get(number))?;
        }
        file.starts[1] = file.out.position();
        self.numbers.tail.push((self.next_on_disk, self.next));
        Ok(file)
    }

    /// Completes files until the one of a share has begun.
    fn advance(&mut self, file: &mut ShareFile<'a>, share: usize) -> Result<()> {
        while file.share < share {
            let next = self.begin(file.share + 1)?;
            std::mem::replace(file, next).seal(self.documents)?;
        }
        Ok(())
    }
}

/// The file of the sets of a share, while it is written.
struct ShareFile<'a> {
    share: usize,
    path: &'a Path,
    out: SealedWriter<BufWriter<File>>,
    /// The number of sets, and the start, of each run.
    sets: [u64; 2],
    starts: [u64; 2],
    piece: Vec<u8>,
}

impl<'a> ShareFile<'a> {
    fn create(share: usize, path: &'a Path) -> Result<Self> {
        let out = SealedWriter::create(path).map_err(|error| Error::io(path.display(), error))?;
        Ok(Self {
            share,
            path,
            starts: [out.position(); 2],
            out,
            sets: [0, 0],
            piece: Vec::new(),
        })
    }

    fn put(&mut self, run: usize, uses: u64, list: &[u32]) -> Result<()> {
        self.piece.clear();
        put_varint(&mut self.piece, uses);
        put_list(&mut self.piece, list);
        self.sets[run] += 1;
        let written = self.out.write_all(&self.piece);
        written.map_err(|error| Error::io(self.path.display(), error))
    }

    fn seal(self, documents: u32) -> Result<()> {
        let ([first, second], end) = (self.starts, self.out.position());
        let description = SetRunsDescription {
            kind: KIND.to_owned(),
            documents,
            sets: self.sets,
            lists: [[first, second - first], [second, end - second]],
        };
        let sealed = self.out.finish(&description).map(drop);
        sealed.map_err(|error| Error::io(self.path.display(), error))
    }
}

/// For each range, the numbers of its sets among all sets of a share.
pub struct RangeSetNumbers {
    numbers: FinalSetNumbers,
    /// The number of sets of both runs of each range.
    sets: Vec<[u64; 2]>,
}

impl RangeSetNumbers {
    /// The numbers of the sets of a range, in the order of their file.
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

/// Joins the sets of a share of all ranges. They get the same numbers as from [`Sets::join`].
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
    } = &description;
    if kind != KIND || sets.iter().any(|&sets| sets > u64::from(u32::MAX)) {
        return Err(wrong());
    }
    let mut stored = StoredDictionaries {
        file: TempFile::new(directory)?,
        runs: Vec::new(),
    };
    for (&sets, &[start, length]) in sets.iter().zip(lists) {
        let bytes = file.bytes(start, length)?;
        ensure_lists(bytes, sets, *documents).map_err(|what| file.damaged(start, what))?;
        if sets == 0 {
            continue;
        }
        let lists = stored.file.append(bytes)?;
        let order = (0..sets.to_u32()).flat_map(u32::to_le_bytes);
        let numbers = stored.file.append(&order.collect::<Vec<u8>>())?.start;
        stored.runs.push(SetRun {
            sets: sets.to_usize(),
            lists,
            numbers,
        });
    }
    Ok((stored, *sets))
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
