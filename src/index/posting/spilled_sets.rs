//! Sets that are too many for the memory: dictionaries are closed, written sorted, and merged list by list.
//!
//! Blots that collide by chance make sets that one blot each leads to, and the more of them the larger the collection: their number grows
//! with its square. They come last, in the order of their lists, which is the order of the merge; so none has to be kept.

use super::sets::{NumberLists, SetDictionary, Sets, SpilledTail, head_of, put_list, read_list};
use crate::base::{
    codec::put_varint,
    error::{Error, Result},
    files::{TempDir, TempFile, TempReader},
};
use std::{
    cmp::Ordering,
    collections::{BinaryHeap, binary_heap::PeekMut},
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

/// What is written goes out in pieces of about this size.
const PIECE_BYTES: usize = 1 << 16;
/// All runs that are merged read, and write their numbers, through pieces that take about this much together.
const MERGE_BYTES: usize = 1 << 24;

/// Where units and sets go that do not stay in memory.
#[derive(Clone, Copy)]
pub struct SpillTo<'a> {
    pub directory: &'a TempDir,
    /// A dictionary that takes more is closed.
    pub set_bytes: u64,
}

/// The dictionaries that a thread has closed.
pub(super) struct SpilledDictionaries<'a> {
    pub to: SpillTo<'a>,
    stored: StoredDictionaries,
}

pub(super) struct StoredDictionaries {
    pub file: TempFile,
    pub runs: Vec<SetRun>,
}

/// A dictionary on disk.
pub(super) struct SetRun {
    pub sets: usize,
    /// The uses and the list of each set, in the order of the lists.
    pub lists: Range<u64>,
    /// Where their numbers in the dictionary are, in the same order.
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

    /// How many.
    pub fn len(&self) -> usize {
        self.stored.runs.len()
    }

    pub fn push(&mut self, dictionary: SetDictionary) -> Result<()> {
        self.stored.push(dictionary)
    }
}

impl StoredDictionaries {
    fn push(&mut self, dictionary: SetDictionary) -> Result<()> {
        let (order, sets, uses) = dictionary.into_sorted();
        let (start, mut piece) = (self.file.bytes(), Vec::new());
        for &number in &order {
            put_varint(&mut piece, uses[number as usize]);
            put_list(&mut piece, sets.get(number as usize));
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
                    .flat_map(|number| number.to_le_bytes())
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

/// Joins closed dictionaries; the sets get the same numbers as by [`Sets::join`].
///
/// Memory: the sets that several blots lead to, and what goes through the merge.
pub(super) fn join(closed: Vec<SpilledDictionaries<'_>>) -> Result<(Sets, FinalSetNumbers)> {
    let Some(SpillTo { directory, .. }) = closed.first().map(|closed| closed.to) else {
        return Ok((Sets::default(), FinalSetNumbers::Here(Vec::new())));
    };
    join_stored(
        closed.into_iter().map(|closed| closed.stored).collect(),
        directory,
    )
}

/// The same, wherever they were written.
pub(super) fn join_stored(
    threads: Vec<StoredDictionaries>,
    directory: &TempDir,
) -> Result<(Sets, FinalSetNumbers)> {
    let runs = threads
        .iter()
        .map(|stored| stored.runs.len())
        .sum::<usize>();
    let piece_bytes = (MERGE_BYTES / (2 * runs.max(1))).clamp(1 << 10, PIECE_BYTES);
    let mut merge = SetMerge::new(&threads, piece_bytes)?;
    let mut places = ProvisionalNumbers::new(&threads, piece_bytes, directory)?;
    let (mut several, mut several_uses) = (NumberLists::default(), Vec::new());
    let (mut tail, mut piece) = (
        SpilledTail {
            file: TempFile::new(directory)?,
            sets: 0,
        },
        Vec::new(),
    );
    while let Some(uses) = merge.step()? {
        let provisional = if uses > 1 {
            several.push(&merge.list);
            several_uses.push(uses);
            u32::MAX - (several.len() - 1) as u32
        } else {
            put_list(&mut piece, &merge.list);
            if piece.len() >= PIECE_BYTES {
                tail.file.append(&piece)?;
                piece.clear();
            }
            tail.sets += 1;
            (tail.sets - 1) as u32
        };
        merge
            .runs
            .iter()
            .try_for_each(|&run| places.push(run, provisional))?;
    }
    tail.file.append(&piece)?;
    let file = places.finish()?;
    let singles = tail.sets;
    if singles + several.len() as u64 > u64::from(u32::MAX) {
        return Err(Error::Usage(
            "more than 4 G sets of documents; take more bits, or split the collection".to_owned(),
        ));
    }
    let (sets, place) = Sets::ordered(several, &several_uses, Some(tail));
    let numbers = SpilledSetNumbers {
        threads,
        file,
        singles: singles as u32,
        place,
        recent: Mutex::default(),
    };
    Ok((sets, FinalSetNumbers::Spilled(numbers)))
}

/// The least set of a run that was not yet merged.
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

/// The greatest, for a heap, is the one with the least list.
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

/// All runs, list by list.
struct SetMerge<'a> {
    readers: Vec<TempReader<'a>>,
    heads: BinaryHeap<RunHead>,
    /// Where the merge is, and which runs have this list.
    list: Vec<u32>,
    runs: Vec<usize>,
}

impl<'a> SetMerge<'a> {
    fn new(threads: &'a [StoredDictionaries], piece_bytes: usize) -> Result<Self> {
        let reader = |stored: &'a StoredDictionaries, run: &SetRun| {
            TempReader::new(&stored.file, run.lists.clone(), piece_bytes)
        };
        let mut readers: Vec<_> = threads
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

    /// Goes on to the next list, and says how many blots lead to it.
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

/// Writes, for each run, where its sets went: each run has its own stretch of the file.
struct ProvisionalNumbers {
    file: TempFile,
    pieces: Vec<(u64, Vec<u8>)>,
    piece_bytes: usize,
}

impl ProvisionalNumbers {
    fn new(
        threads: &[StoredDictionaries],
        piece_bytes: usize,
        directory: &TempDir,
    ) -> Result<Self> {
        let mut end = 0;
        let mut start = |run: &SetRun| {
            end += 4 * run.sets as u64;
            (end - 4 * run.sets as u64, Vec::new())
        };
        let pieces = threads
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
            *at += piece.len() as u64;
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

/// For each dictionary of each thread, the final numbers of its sets.
pub(super) enum FinalSetNumbers {
    /// Each thread has one.
    Here(Vec<Arc<Vec<u32>>>),
    Spilled(SpilledSetNumbers),
}

impl FinalSetNumbers {
    /// A thread, and one of its dictionaries.
    pub fn of(&self, dictionary: [usize; 2]) -> Result<Arc<Vec<u32>>> {
        match self {
            Self::Here(numbers) => Ok(numbers[dictionary[0]].clone()),
            Self::Spilled(numbers) => numbers.of(dictionary),
        }
    }
}

/// A dictionary, and the numbers of its sets.
type RecentNumbers = ([usize; 2], Arc<Vec<u32>>);

/// Numbers on disk. They are asked for unit by unit, so the dictionaries that were asked for of late will be again.
pub(super) struct SpilledSetNumbers {
    threads: Vec<StoredDictionaries>,
    /// For each set of each dictionary, in the order of their lists, a provisional number: sets of one blot count from 0 up, the
    /// others from the greatest number down.
    file: TempFile,
    /// How many sets one blot leads to.
    singles: u32,
    /// The final numbers of the others.
    place: Vec<u32>,
    recent: Mutex<Vec<RecentNumbers>>,
}

impl SpilledSetNumbers {
    fn of(&self, dictionary: [usize; 2]) -> Result<Arc<Vec<u32>>> {
        let recent = || self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, numbers)) = recent().iter().find(|(of, _)| *of == dictionary) {
            return Ok(numbers.clone());
        }
        let numbers = Arc::new(self.read(dictionary)?);
        let mut recent = recent();
        if recent.len() == 2 * self.threads.len() {
            recent.remove(0);
        }
        recent.push((dictionary, numbers.clone()));
        Ok(numbers)
    }

    fn read(&self, [thread, dictionary]: [usize; 2]) -> Result<Vec<u32>> {
        let (stored, several) = (&self.threads[thread], self.place.len() as u32);
        let before = self.threads[..thread]
            .iter()
            .flat_map(|stored| &stored.runs)
            .chain(&stored.runs[..dictionary]);
        let start: u64 = before.map(|run| 4 * run.sets as u64).sum();
        let run = &stored.runs[dictionary];
        let mut numbers = vec![0; run.sets];
        let order = read_numbers(&stored.file, run.numbers, run.sets)?;
        for (number, provisional) in order
            .into_iter()
            .zip(read_numbers(&self.file, start, run.sets)?)
        {
            let is_single = provisional < self.singles;
            numbers[number as usize] = if is_single {
                several + provisional
            } else {
                self.place[(u32::MAX - provisional) as usize]
            };
        }
        Ok(numbers)
    }
}

fn read_numbers(file: &TempFile, at: u64, count: usize) -> Result<Vec<u32>> {
    let mut bytes = vec![0; 4 * count];
    file.read_at(&mut bytes, at)?;
    Ok(bytes
        .chunks_exact(4)
        .map(|bytes| u32::from_le_bytes(std::array::from_fn(|index| bytes[index])))
        .collect())
}
