//! From collected postings to sorted blots with their sets.

use super::{
    blot_counts::BlotCounts,
    collect::{Collector, KeyBucket, KeyRunTable, SLICES},
    key::{BUCKETS, Key},
    packed_keys::{put_keys, read_keys},
    sets::{SetDictionary, Sets},
    sort::sorted,
    spilled_sets::{self, FinalSetNumbers, SpillTo, SpilledDictionaries},
};
use crate::base::{error::Result, files::TempFile, parallel};
use std::{
    borrow::Cow,
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Blots of a range of the blot space, in order.
#[derive(Debug, Default)]
pub struct InvertedRange<K> {
    /// Blots of several documents, with the number of their set.
    pub shared: Vec<K>,
    /// Blots of one document, with its number.
    pub single: Vec<K>,
}

/// The whole, cut into units that are small enough to be worked on one by one.
///
/// A unit never crosses the border of a bucket; and if there are fewer than [`FINE_POSTINGS`], none is smaller than a bucket.
pub struct Inverted<K> {
    pub bits: u8,
    pub documents: u32,
    pub sets: Sets,
    pub postings: u64,
    pub shared: u64,
    pub single: u64,
    units: Vec<StoredRange<K>>,
    spill: Option<TempFile>,
    numbers: FinalSetNumbers,
}

struct StoredRange<K> {
    bucket: usize,
    /// Whose numbers the sets have: a thread, and one of its dictionaries.
    dictionary: [usize; 2],
    kept: RangeStorage<K>,
}

enum RangeStorage<K> {
    Here(InvertedRange<K>),
    /// How many keys there are, and where.
    Spilled {
        keys: [u64; 2],
        shared: Range<u64>,
        single: Range<u64>,
    },
}

/// A unit that was made, as it is kept or as it goes to disk.
enum RangeOutput<K> {
    InvertedRange(InvertedRange<K>),
    Packed {
        keys: [u64; 2],
        shared: Vec<u8>,
        single: Vec<u8>,
    },
}

impl<K: Key> RangeOutput<K> {
    fn of(unit: InvertedRange<K>, is_spilled: bool) -> Self {
        if !is_spilled {
            return Self::InvertedRange(unit);
        }
        let [mut shared, mut single] = [Vec::new(), Vec::new()];
        put_keys(&mut shared, &unit.shared);
        put_keys(&mut single, &unit.single);
        Self::Packed {
            keys: [unit.shared.len() as u64, unit.single.len() as u64],
            shared,
            single,
        }
    }
}

/// With fewer postings than this, buckets are not cut.
pub const FINE_POSTINGS: u64 = 1 << 22;
/// A range of at most this many keys is not cut further.
const UNIT_KEYS: u64 = 1 << 16;
/// More than this many keys are not sorted at once where slices are small enough: they would not fit into the processor's cache.
const MOST_UNIT_KEYS: u64 = 1 << 18;

/// Inverts all postings, within about `memory_bytes`. Of what was written to disk each range is read back once.
///
/// If nothing was written to disk, sets are held beside that; else only those that several blots lead to.
///
/// Blots of one document are kept only if `keeps_single`, where it is given, says so. Also gives how many blots each document has.
pub fn invert<K: Key>(
    mut collector: Collector<K>,
    documents: u32,
    memory_bytes: u64,
    keeps_single: Option<&(dyn Fn(&K) -> bool + Sync)>,
) -> Result<(Inverted<K>, Vec<u32>)> {
    let (threads, bits) = (collector.threads, collector.bits);
    let is_spilled = collector.file.is_some();
    if is_spilled {
        collector.spill()?;
    }
    let Collector {
        buckets,
        runs,
        file,
        directory,
        in_memory,
        mut blots_of,
        ..
    } = collector;
    let share_bytes = memory_bytes / (4 * threads as u64);
    let ranges = if is_spilled {
        let keys_in = |slices: &Range<usize>| runs.iter().map(|run| run.keys(slices)).sum::<u64>();
        let is_fine = keys_in(&(0..SLICES)) >= FINE_POSTINGS;
        ranges_of(
            0..SLICES,
            keys_in,
            is_fine.then_some(share_bytes / size_of::<K>() as u64),
        )
    } else {
        whole_buckets()
    };
    let sources = KeySources::new(
        buckets,
        BlotCounts::new(in_memory),
        file.map(|file| (file, runs)),
        &ranges,
    );
    let spill = is_spilled.then_some(SpillTo {
        directory: &directory,
        set_bytes: share_bytes,
    });
    let dropped = BlotCounts::new(0..documents);
    let sorter = || KeySorter {
        sources: &sources,
        grouper: Grouper::default(),
        keeps_single,
        dropped: &dropped,
    };
    let (mut inverted, _) = Inversion {
        bits,
        documents,
        threads,
        ranges: &ranges,
        spill,
    }
    .run(sorter)?;
    sources.tally.add_to(&mut blots_of);
    blots_of.resize(documents as usize, 0);
    let mut dropped_of = Vec::new();
    dropped.add_to(&mut dropped_of);
    blots_of
        .iter_mut()
        .zip(dropped_of)
        .for_each(|(blots, dropped)| *blots -= dropped);
    inverted.postings = blots_of.iter().map(|&count| u64::from(count)).sum();
    Ok((inverted, blots_of))
}

/// Makes the units of ranges; each thread has one, with a dictionary of its own.
pub trait InvertRanges<K>: Send {
    /// The blots of some slices, with sets numbered as in the dictionary.
    fn unit(&mut self, slices: &Range<usize>) -> Result<InvertedRange<K>>;

    fn dictionary(&self) -> &SetDictionary;

    /// Goes on with an empty one.
    fn take_dictionary(&mut self) -> SetDictionary;
}

/// How to sort, whatever the postings come from.
pub struct Inversion<'a> {
    pub bits: u8,
    pub documents: u32,
    pub threads: usize,
    /// Slices of the blot space, in rising order; see [`Inverted`].
    pub ranges: &'a [Range<usize>],
    /// Where units and sets go, unless they stay in memory.
    pub spill: Option<SpillTo<'a>>,
}

/// A thread's maker, and the dictionaries it is done with, if any may be closed.
struct InversionWorker<'a, M> {
    maker: M,
    closed: Option<SpilledDictionaries<'a>>,
}

impl<M> InversionWorker<'_, M> {
    /// The unit of some slices, and the number of its dictionary among those of this thread.
    fn unit<K>(&mut self, slices: &Range<usize>) -> Result<(usize, InvertedRange<K>)>
    where
        M: InvertRanges<K>,
    {
        let unit = self.maker.unit(slices)?;
        let Some(closed) = &mut self.closed else {
            return Ok((0, unit));
        };
        let dictionary = closed.len();
        if self.maker.dictionary().bytes() > closed.to.set_bytes {
            closed.push(self.maker.take_dictionary())?;
        }
        Ok((dictionary, unit))
    }
}

impl Inversion<'_> {
    /// Makes the units of all ranges in parallel. The number of postings is left at 0; the makers are given back.
    pub fn run<K: Key, M: InvertRanges<K>>(
        &self,
        make: impl Fn() -> M,
    ) -> Result<(Inverted<K>, Vec<M>)> {
        let worker = || {
            Ok(Mutex::new(InversionWorker {
                maker: make(),
                closed: self.spill.map(SpilledDictionaries::new).transpose()?,
            }))
        };
        let workers = (0..self.threads)
            .map(|_| worker())
            .collect::<Result<Vec<_>>>()?;
        let next = AtomicUsize::new(0);
        let work = || {
            let me = next.fetch_add(1, Ordering::Relaxed);
            let worker = &workers[me];
            move |range: &Range<usize>| -> Result<(usize, [usize; 2], RangeOutput<K>)> {
                let (dictionary, unit) = worker
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .unit(range)?;
                Ok((
                    bucket_of_slice(range.start),
                    [me, dictionary],
                    RangeOutput::of(unit, self.spill.is_some()),
                ))
            }
        };
        let spill = self
            .spill
            .map(|spill| TempFile::new(spill.directory))
            .transpose()?;
        let mut units = RangeStore {
            stored: Vec::new(),
            spill,
            shared: 0,
            single: 0,
        };
        // Not a rayon iterator: units go to the spill file in order while later ones are sorted, so
        // that few are in memory at once.
        let source = self.ranges.iter();
        parallel::ordered_items(self.threads, source, work, |made: Result<_>| {
            let (bucket, dictionary, made) = made?;
            units.push(bucket, dictionary, made)
        })?;
        let workers = workers
            .into_iter()
            .map(|worker| worker.into_inner().unwrap_or_else(PoisonError::into_inner))
            .collect();
        let (sets, numbers, makers) = self.join(workers)?;
        let RangeStore {
            stored,
            spill,
            shared,
            single,
        } = units;
        let inverted = Inverted {
            bits: self.bits,
            documents: self.documents,
            sets,
            postings: 0,
            shared,
            single,
            units: stored,
            spill,
            numbers,
        };
        Ok((inverted, makers))
    }

    /// Joins the dictionaries of all threads: if one was closed, all are.
    fn join<K: Key, M: InvertRanges<K>>(
        &self,
        workers: Vec<InversionWorker<'_, M>>,
    ) -> Result<(Sets, FinalSetNumbers, Vec<M>)> {
        let (mut makers, closed): (Vec<M>, Vec<_>) = workers
            .into_iter()
            .map(|worker| (worker.maker, worker.closed))
            .unzip();
        let mut closed: Vec<SpilledDictionaries<'_>> = closed.into_iter().flatten().collect();
        let open = makers.iter_mut().map(M::take_dictionary);
        let (sets, numbers) = if closed.iter().all(|closed| closed.len() == 0) {
            let (sets, numbers) = Sets::join(open.collect());
            (
                sets,
                FinalSetNumbers::Here(numbers.into_iter().map(Arc::new).collect()),
            )
        } else {
            closed
                .iter_mut()
                .zip(open)
                .try_for_each(|(closed, open)| closed.push(open))?;
            spilled_sets::join(closed)?
        };
        Ok((sets, numbers, makers))
    }
}

impl<K: Key> Inverted<K> {
    /// The units of a range of buckets, by number.
    pub fn units_in(&self, buckets: &Range<usize>) -> Range<usize> {
        let place = |bucket: usize| self.units.partition_point(|unit| unit.bucket < bucket);
        place(buckets.start)..place(buckets.end)
    }

    /// How many blots of several documents, and of one, a unit has.
    pub fn lengths(&self, unit: usize) -> [u64; 2] {
        match &self.units[unit].kept {
            RangeStorage::Here(unit) => [unit.shared.len() as u64, unit.single.len() as u64],
            RangeStorage::Spilled { keys, .. } => *keys,
        }
    }

    /// The bucket of a unit.
    pub fn bucket(&self, unit: usize) -> usize {
        self.units[unit].bucket
    }

    /// Blots of several documents, with the final numbers of their sets. A unit that is on disk can be read once.
    pub fn shared(&self, unit: usize) -> Result<Vec<K>> {
        let stored = &self.units[unit];
        let mut keys = match (&stored.kept, &self.spill) {
            (RangeStorage::Spilled { shared, keys, .. }, Some(spill)) => {
                read_back(spill, shared, keys[0])?
            }
            (RangeStorage::Here(unit), _) => unit.shared.clone(),
            (RangeStorage::Spilled { .. }, None) => Vec::new(),
        };
        if keys.is_empty() {
            return Ok(keys);
        }
        let numbers = self.numbers.of(stored.dictionary)?;
        keys.iter_mut()
            .for_each(|key| *key = K::new(key.blot(), numbers[key.number() as usize]));
        Ok(keys)
    }

    /// Blots of one document, with its number. A unit that is on disk can be read once.
    pub fn single(&self, unit: usize) -> Result<Cow<'_, [K]>> {
        match (&self.units[unit].kept, &self.spill) {
            (RangeStorage::Spilled { single, keys, .. }, Some(spill)) => {
                read_back(spill, single, keys[1]).map(Cow::Owned)
            }
            (RangeStorage::Here(unit), _) => Ok(Cow::Borrowed(&unit.single)),
            (RangeStorage::Spilled { .. }, None) => Ok(Cow::Borrowed(&[])),
        }
    }
}

fn read_back<K: Key>(spill: &TempFile, range: &Range<u64>, count: u64) -> Result<Vec<K>> {
    let mut keys = Vec::with_capacity(count as usize);
    read_keys(spill, range, &mut keys)?;
    spill.release(range);
    Ok(keys)
}

/// What becomes of the ranges, in memory or on disk.
struct RangeStore<K> {
    stored: Vec<StoredRange<K>>,
    spill: Option<TempFile>,
    shared: u64,
    single: u64,
}

impl<K> RangeStore<K> {
    fn push(&mut self, bucket: usize, dictionary: [usize; 2], made: RangeOutput<K>) -> Result<()> {
        let (keys, kept) = match (made, &mut self.spill) {
            (
                RangeOutput::Packed {
                    keys,
                    shared,
                    single,
                },
                Some(spill),
            ) => (
                keys,
                RangeStorage::Spilled {
                    keys,
                    shared: spill.append(&shared)?,
                    single: spill.append(&single)?,
                },
            ),
            (RangeOutput::Packed { keys, .. }, None) => (
                keys,
                RangeStorage::Spilled {
                    keys,
                    shared: 0..0,
                    single: 0..0,
                },
            ),
            (RangeOutput::InvertedRange(unit), _) => (
                [unit.shared.len() as u64, unit.single.len() as u64],
                RangeStorage::Here(unit),
            ),
        };
        self.shared += keys[0];
        self.single += keys[1];
        self.stored.push(StoredRange {
            bucket,
            dictionary,
            kept,
        });
        Ok(())
    }
}

/// Sorts what was collected.
struct KeySorter<'a, K> {
    sources: &'a KeySources<K>,
    grouper: Grouper,
    keeps_single: Option<&'a (dyn Fn(&K) -> bool + Sync)>,
    dropped: &'a BlotCounts,
}

impl<K: Key> InvertRanges<K> for KeySorter<'_, K> {
    fn unit(&mut self, slices: &Range<usize>) -> Result<InvertedRange<K>> {
        let mut unit = self.grouper.group(&self.sources.sorted(slices)?);
        if let Some(keeps) = self.keeps_single {
            let dropped: Vec<K> = unit.single.extract_if(.., |key| !keeps(key)).collect();
            self.dropped.count(&dropped);
        }
        Ok(unit)
    }

    fn dictionary(&self) -> &SetDictionary {
        &self.grouper.dictionary
    }

    fn take_dictionary(&mut self) -> SetDictionary {
        std::mem::take(&mut self.grouper.dictionary)
    }
}

/// Puts the documents of each blot together.
#[derive(Default)]
pub(super) struct Grouper {
    pub dictionary: SetDictionary,
    set: Vec<u32>,
}

impl Grouper {
    pub fn group<K: Key>(&mut self, keys: &[K]) -> InvertedRange<K> {
        let mut unit = InvertedRange {
            shared: Vec::new(),
            single: Vec::new(),
        };
        for group in keys.chunk_by(|one, two| one.blot() == two.blot()) {
            if let [key] = group {
                unit.single.push(*key);
                continue;
            }
            self.set.clear();
            self.set.extend(group.iter().map(|key| key.number()));
            unit.shared
                .push(K::new(group[0].blot(), self.dictionary.number(&self.set)));
        }
        unit
    }
}

/// Where sorted keys come from.
struct KeySources<K> {
    buckets: Vec<Mutex<KeyBucket<K>>>,
    /// Of what is in the buckets.
    tally: BlotCounts,
    /// If all are on disk.
    spilled: Option<(TempFile, Vec<KeyRunTable>)>,
    /// How many ranges of each bucket were not yet read.
    unread: Vec<AtomicUsize>,
}

impl<K: Key> KeySources<K> {
    fn new(
        buckets: Vec<KeyBucket<K>>,
        tally: BlotCounts,
        spilled: Option<(TempFile, Vec<KeyRunTable>)>,
        ranges: &[Range<usize>],
    ) -> Self {
        let ranges_of = |bucket| {
            ranges
                .iter()
                .filter(|range| bucket_of_slice(range.start) == bucket)
                .count()
        };
        let unread = (0..BUCKETS)
            .map(|bucket| AtomicUsize::new(ranges_of(bucket)))
            .collect();
        Self {
            buckets: buckets.into_iter().map(Mutex::new).collect(),
            tally,
            spilled,
            unread,
        }
    }

    fn sorted(&self, slices: &Range<usize>) -> Result<Vec<K>> {
        let bucket = bucket_of_slice(slices.start);
        let Some((file, runs)) = &self.spilled else {
            return Ok(self.buckets[bucket]
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .sorted(&self.tally));
        };
        let mut keys = Vec::with_capacity(runs.iter().map(|run| run.keys(slices) as usize).sum());
        for run in runs {
            read_keys(file, &run.place(slices), &mut keys)?;
        }
        if self.unread[bucket].fetch_sub(1, Ordering::AcqRel) == 1 {
            runs.iter()
                .for_each(|run| file.release(&run.place(&slices_of(bucket))));
        }
        Ok(sorted(&[keys]))
    }
}

fn bucket_of_slice(slice: usize) -> usize {
    slice / (SLICES / BUCKETS)
}

pub(super) fn slices_of(bucket: usize) -> Range<usize> {
    let width = SLICES / BUCKETS;
    bucket * width..(bucket + 1) * width
}

/// The slices of each bucket.
pub fn whole_buckets() -> Vec<Range<usize>> {
    (0..BUCKETS).map(slices_of).collect()
}

/// Neighbouring slices of a bucket, as many as fit; without a limit all of them.
pub(super) fn ranges_of(
    slices: Range<usize>,
    keys_in: impl Fn(&Range<usize>) -> u64,
    keys_limit: Option<u64>,
) -> Vec<Range<usize>> {
    let limit = keys_limit.map_or(u64::MAX, |limit| limit.clamp(UNIT_KEYS, MOST_UNIT_KEYS));
    let mut ranges: Vec<(Range<usize>, u64)> = Vec::new();
    for slice in slices {
        let more = keys_in(&(slice..slice + 1));
        match ranges.last_mut() {
            Some((range, have)) if slice % (SLICES / BUCKETS) != 0 && *have + more <= limit => {
                range.end = slice + 1;
                *have += more;
            }
            _ => ranges.push((slice..slice + 1, more)),
        }
    }
    ranges.into_iter().map(|(range, _)| range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::files::TempDir,
        index::posting::{NARROW_BITS, Postings, first_blot},
    };
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    type Simple = BTreeMap<u64, Vec<u32>>;

    fn inverted<K: Key>(
        documents: &[Vec<u64>],
        bits: u8,
        memory: u64,
        threads: usize,
    ) -> (Simple, Vec<u32>, Vec<Vec<u32>>) {
        let mut collector = Collector::<K>::new(bits, memory, threads, TempDir(None));
        for (first, pair) in documents.chunks(2).enumerate() {
            let mut end = 0;
            let ends = pair.iter().map(|blots| {
                end += blots.len();
                end
            });
            let postings = Postings::<K>::new(&pair.concat(), &ends.collect::<Vec<_>>(), bits);
            collector
                .add(
                    &postings,
                    &[Some(2 * first as u32), Some(2 * first as u32 + 1)],
                )
                .unwrap();
        }
        let (inverted, blots_of) = invert(collector, documents.len() as u32, memory, None).unwrap();
        let mut sets = Vec::new();
        let each = |set: &[u32]| {
            sets.push(set.to_vec());
            Ok(())
        };
        inverted.sets.for_each(each).unwrap();
        let is_closed = matches!(inverted.numbers, FinalSetNumbers::Spilled(_));
        assert!(!is_closed || memory <= 200);
        assert!(is_closed || memory > 1 || sets.is_empty());
        assert_eq!(sets.len(), inverted.sets.len());
        let mut found = Vec::new();
        for unit in inverted.units_in(&(0..BUCKETS)) {
            let blot = |key: &K| first_blot(inverted.bucket(unit), bits) | key.blot();
            let shared = inverted.shared(unit).unwrap();
            found.extend(
                shared
                    .iter()
                    .map(|key| (blot(key), sets[key.number() as usize].clone())),
            );
            found.extend(
                inverted
                    .single(unit)
                    .unwrap()
                    .iter()
                    .map(|key| (blot(key), vec![key.number()])),
            );
        }
        assert_eq!(found.len() as u64, inverted.shared + inverted.single);
        (found.into_iter().collect(), blots_of, sets)
    }

    fn simple(documents: &[Vec<u64>]) -> (Simple, Vec<u32>) {
        let mut found = Simple::new();
        let distinct: Vec<BTreeSet<u64>> = documents
            .iter()
            .map(|blots| blots.iter().copied().collect())
            .collect();
        for (number, blots) in distinct.iter().enumerate() {
            blots
                .iter()
                .for_each(|&blot| found.entry(blot).or_default().push(number as u32));
        }
        (
            found,
            distinct.iter().map(|blots| blots.len() as u32).collect(),
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn it_is_the_simple_inverted_index(
            documents in prop::collection::vec(prop::collection::vec(0_u64..60, 0..40), 0..12), bits in prop::sample::select(vec![16_u8, 32, 37, 40, 41, 64]),
        ) {
            let spread: Vec<Vec<u64>> = documents.iter().map(|blots| blots.iter().map(|blot| blot.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)).collect()).collect();
            let mut sets = None;
            for (memory, threads) in [(1, 1), (200, 2), (1 << 20, 3)] {
                let (found, counts, numbered) = if bits <= NARROW_BITS { inverted::<u64>(&spread, bits, memory, threads) } else { inverted::<u128>(&spread, bits, memory, threads) };
                prop_assert_eq!((&found, &counts), (&simple(&spread).0, &simple(&spread).1));
                prop_assert_eq!(sets.get_or_insert(numbered.clone()), &numbered);
            }
        }
    }
}
