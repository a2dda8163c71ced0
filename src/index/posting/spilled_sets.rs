//! Sets that exceed the memory: dictionaries are written sorted by list, and merged at the end.
//!
//! Blots that collide by chance make sets of a single blot, whose number grows with the square of
//! the collection. These sets have the last numbers, in the order of their lists, which is the
//! order of the merge: so none of them has to stay in memory.

use super::sets::{NumberLists, SetDictionary, Sets, SpilledTail, head_of, put_list, read_list};
use crate::base::{
    codec::put_varint,
    error::{Error, Result},
    files::{TempDir, TempFile, TempReader},
    ids::SetNo,
    num::{ToU32, ToU64, ToUsize},
};
use std::{
    cmp::Ordering,
    collections::{BinaryHeap, binary_heap::PeekMut},
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

/// Writes are collected into pieces of about this size.
const PIECE_BYTES: usize = 1 << 16;
/// The read and write buffers of all merged runs take about this much together.
const MERGE_BYTES: usize = 1 << 24;

/// Where units and sets go that do not fit into memory.
#[derive(Clone, Copy)]
pub struct SpillTo<'a> {
    /// Where temporary files are created.
    pub directory: &'a TempDir,
    /// A dictionary that takes more memory is spilled.
    pub set_bytes: u64,
}

/// The dictionaries that a worker has spilled.
pub(super) struct SpilledDictionaries<'a> {
    pub to: SpillTo<'a>,
    stored: StoredDictionaries,
}

/// Dictionaries in a temporary file, one run each.
pub(super) struct StoredDictionaries {
    pub file: TempFile,
    pub runs: Vec<SetRun>,
}

/// A dictionary on disk.
pub(super) struct SetRun {
    pub sets: usize,
    /// The uses and the list of each set, in the order of the lists.
    pub lists: Range<u64>,
    /// The offset of their numbers in the dictionary, in the same order.
    pub numbers: u64,
}

impl<'a> SpilledDictionaries<'a> {
    pub fn new(to: SpillTo<'a>) -> Result<Self> {
        Ok(Self {
            to,
            stored: StoredDictionaries {
                file: TempFile::new(to.directory)?,
                runs: Vec::new(),
            },
        })
    }

    /// The number of dictionaries.
    pub fn len(&self) -> usize {
        self.stored.runs.len()
    }

    /// Writes a dictionary to disk.
    pub fn push(&mut self, dictionary: SetDictionary) -> Result<()> {
        self.stored.push(dictionary)
    }
}

impl StoredDictionaries {
    fn push(&mut self, dictionary: SetDictionary) -> Result<()> {
        let (order, sets, uses) = dictionary.into_sorted();
        let start = self.file.bytes();
        let mut piece = Vec::new();
        for &number in &order {
            put_varint(&mut piece, uses[number.index()]);
            put_list(&mut piece, sets.get(number.index()));
            if piece.len() >= PIECE_BYTES {
                self.file.append(&piece)?;
                piece.clear();
            }
        }
        let numbers = self.file.append(&piece)?.end;
        for some in order.chunks(PIECE_BYTES / 4) {
            self.file.append(
                &some
                    .iter()
                    .flat_map(|number| number.get().to_le_bytes())
                    .collect::<Vec<u8>>(),
            )?;
        }
        self.runs.push(SetRun {
            sets: order.len(),
            lists: start..numbers,
            numbers,
        });
        Ok(())
    }
}

/// Joins spilled dictionaries. The sets get the same numbers as from [`Sets::join`].
///
/// Memory: the sets of several blots, and the buffers of the merge.
pub(super) fn join(spilled: Vec<SpilledDictionaries<'_>>) -> Result<(Sets, FinalSetNumbers)> {
    let Some(SpillTo { directory, .. }) = spilled.first().map(|spilled| spilled.to) else {
        return Ok((Sets::default(), FinalSetNumbers::InMemory(Vec::new())));
    };
    join_stored(
        spilled.into_iter().map(|spilled| spilled.stored).collect(),
        directory,
    )
}

/// As [`join`], for dictionaries that may come from another process.
pub(super) fn join_stored(
    workers: Vec<StoredDictionaries>,
    directory: &TempDir,
) -> Result<(Sets, FinalSetNumbers)> {
    let runs = workers
        .iter()
        .map(|stored| stored.runs.len())
        .sum::<usize>();
    let piece_bytes = (MERGE_BYTES / (2 * runs.max(1))).clamp(1 << 10, PIECE_BYTES);
    let mut merge = SetMerge::new(&workers, piece_bytes)?;
    let mut places = ProvisionalNumbers::new(&workers, piece_bytes, directory)?;
    let (mut several, mut several_uses) = (NumberLists::default(), Vec::new());
    let mut tail = SpilledTail {
        file: TempFile::new(directory)?,
        sets: 0,
    };
    let mut piece = Vec::new();
    while let Some(uses) = merge.step()? {
        let provisional = if uses > 1 {
            several.push(&merge.list);
            several_uses.push(uses);
            u32::MAX - (several.len() - 1).to_u32()
        } else {
            put_list(&mut piece, &merge.list);
            if piece.len() >= PIECE_BYTES {
                tail.file.append(&piece)?;
                piece.clear();
            }
            tail.sets += 1;
            (tail.sets - 1).to_u32()
        };
        merge
            .runs
            .iter()
            .try_for_each(|&run| places.push(run, provisional))?;
    }
    tail.file.append(&piece)?;
    let file = places.finish()?;
    let singles = tail.sets;
    if singles + several.len().to_u64() > u64::from(u32::MAX) {
        return Err(Error::Usage(
            "more than 4 G sets of documents; take more bits, or split the collection".to_owned(),
        ));
    }
    let (sets, place) = Sets::ordered(several, &several_uses, Some(tail));
    let numbers = SpilledSetNumbers {
        workers,
        file,
        singles: singles.to_u32(),
        place,
        recent: Mutex::default(),
    };
    Ok((sets, FinalSetNumbers::Spilled(numbers)))
}

/// The first set of a run that is not merged yet.
struct RunHead {
    head: u64,
    list: Vec<u32>,
    uses: u64,
    run: usize,
}

impl RunHead {
    fn read(&mut self, reader: &mut TempReader<'_>) -> Result<()> {
        self.uses = reader.varint()?;
        read_list(reader, &mut self.list)?;
        self.head = head_of(&self.list);
        Ok(())
    }
}

/// Reversed, so that the top of a [`BinaryHeap`] is the least list.
impl Ord for RunHead {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .head
            .cmp(&self.head)
            .then_with(|| other.list.cmp(&self.list))
            .then_with(|| other.run.cmp(&self.run))
    }
}

impl PartialOrd for RunHead {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RunHead {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for RunHead {}

/// Merges all runs, list by list.
struct SetMerge<'a> {
    readers: Vec<TempReader<'a>>,
    heads: BinaryHeap<RunHead>,
    /// The current list.
    list: Vec<u32>,
    /// The runs that have the current list.
    runs: Vec<usize>,
}

impl<'a> SetMerge<'a> {
    fn new(workers: &'a [StoredDictionaries], piece_bytes: usize) -> Result<Self> {
        let reader = |stored: &'a StoredDictionaries, run: &SetRun| {
            TempReader::new(&stored.file, run.lists.clone(), piece_bytes)
        };
        let mut readers: Vec<_> = workers
            .iter()
            .flat_map(|stored| stored.runs.iter().map(move |run| reader(stored, run)))
            .collect();
        let mut heads = BinaryHeap::with_capacity(readers.len());
        for (run, reader) in readers
            .iter_mut()
            .enumerate()
            .filter(|(_, reader)| !reader.is_at_end())
        {
            let mut head = RunHead {
                head: 0,
                list: Vec::new(),
                uses: 0,
                run,
            };
            head.read(reader)?;
            heads.push(head);
        }
        Ok(Self {
            readers,
            heads,
            list: Vec::new(),
            runs: Vec::new(),
        })
    }

    /// Advances to the next list, and returns the number of its blots.
    fn step(&mut self) -> Result<Option<u64>> {
        self.runs.clear();
        let mut uses = 0;
        while let Some(mut least) = self.heads.peek_mut() {
            if self.runs.is_empty() {
                self.list.clone_from(&least.list);
            } else if least.list != self.list {
                break;
            }
            uses += least.uses;
            self.runs.push(least.run);
            let reader = &mut self.readers[least.run];
            if reader.is_at_end() {
                PeekMut::pop(least);
            } else {
                least.read(reader)?;
            }
        }
        Ok((!self.runs.is_empty()).then_some(uses))
    }
}

/// Writes the provisional numbers of the sets of each run: each run has its own section of the
/// file.
struct ProvisionalNumbers {
    file: TempFile,
    pieces: Vec<(u64, Vec<u8>)>,
    piece_bytes: usize,
}

impl ProvisionalNumbers {
    fn new(
        workers: &[StoredDictionaries],
        piece_bytes: usize,
        directory: &TempDir,
    ) -> Result<Self> {
        let mut end = 0;
        let mut start = |run: &SetRun| {
            end += 4 * run.sets.to_u64();
            (end - 4 * run.sets.to_u64(), Vec::new())
        };
        let pieces = workers
            .iter()
            .flat_map(|stored| &stored.runs)
            .map(&mut start)
            .collect();
        Ok(Self {
            file: TempFile::new(directory)?,
            pieces,
            piece_bytes,
        })
    }

    fn push(&mut self, run: usize, provisional: u32) -> Result<()> {
        let (at, piece) = &mut self.pieces[run];
        piece.extend_from_slice(&provisional.to_le_bytes());
        if piece.len() >= self.piece_bytes {
            self.file.write_at(piece, *at)?;
            *at += piece.len().to_u64();
            piece.clear();
        }
        Ok(())
    }

    fn finish(self) -> Result<TempFile> {
        self.pieces
            .iter()
            .try_for_each(|(at, piece)| self.file.write_at(piece, *at))?;
        Ok(self.file)
    }
}

/// A dictionary, by the worker that wrote it and its number among those of the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DictionaryId {
    pub worker: usize,
    pub number: usize,
}

/// For each dictionary of each worker, the final numbers of its sets.
pub(super) enum FinalSetNumbers {
    /// Each worker has one dictionary.
    InMemory(Vec<Arc<Vec<SetNo>>>),
    Spilled(SpilledSetNumbers),
}

impl FinalSetNumbers {
    /// The final numbers of the sets of a dictionary.
    pub fn of(&self, dictionary: DictionaryId) -> Result<Arc<Vec<SetNo>>> {
        match self {
            Self::InMemory(numbers) => Ok(numbers[dictionary.worker].clone()),
            Self::Spilled(numbers) => numbers.of(dictionary),
        }
    }
}

/// A dictionary, and the final numbers of its sets.
type RecentNumbers = (DictionaryId, Arc<Vec<SetNo>>);

/// Final numbers on disk. Units are read in order, so the most recent dictionaries are cached.
pub(super) struct SpilledSetNumbers {
    workers: Vec<StoredDictionaries>,
    /// For each set of each dictionary, in the order of their lists, a provisional number: sets of
    /// one blot count up from 0, the others down from the greatest number.
    file: TempFile,
    /// The number of sets of one blot.
    singles: u32,
    /// The final numbers of the other sets.
    place: Vec<SetNo>,
    recent: Mutex<Vec<RecentNumbers>>,
}

impl SpilledSetNumbers {
    fn of(&self, dictionary: DictionaryId) -> Result<Arc<Vec<SetNo>>> {
        let recent = || self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, numbers)) = recent().iter().find(|(of, _)| *of == dictionary) {
            return Ok(numbers.clone());
        }
        let numbers = Arc::new(self.read(dictionary)?);
        let mut recent = recent();
        if recent.len() == 2 * self.workers.len() {
            recent.remove(0);
        }
        recent.push((dictionary, numbers.clone()));
        Ok(numbers)
    }

    fn read(&self, DictionaryId { worker, number }: DictionaryId) -> Result<Vec<SetNo>> {
        let stored = &self.workers[worker];
        let several = self.place.len().to_u32();
        let before = self.workers[..worker]
            .iter()
            .flat_map(|stored| &stored.runs)
            .chain(&stored.runs[..number]);
        let start: u64 = before.map(|run| 4 * run.sets.to_u64()).sum();
        let run = &stored.runs[number];
        let mut numbers = vec![SetNo::default(); run.sets];
        let order = read_numbers(&stored.file, run.numbers, run.sets)?;
        for (number, provisional) in order
            .into_iter()
            .zip(read_numbers(&self.file, start, run.sets)?)
        {
            let is_single = provisional < self.singles;
            numbers[number.to_usize()] = if is_single {
                SetNo::new(several + provisional)
            } else {
                self.place[(u32::MAX - provisional).to_usize()]
            };
        }
        Ok(numbers)
    }
}

/// Reads `count` numbers of four bytes.
fn read_numbers(file: &TempFile, at: u64, count: usize) -> Result<Vec<u32>> {
    let mut bytes = vec![0; 4 * count];
    file.read_at(&mut bytes, at)?;
    Ok(bytes
        .chunks_exact(4)
        .map(|bytes| u32::from_le_bytes(std::array::from_fn(|index| bytes[index])))
        .collect())
}
