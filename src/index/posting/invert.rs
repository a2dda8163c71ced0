//! Turns collected postings into sorted blots with their sets of documents.

use super::{
    blot_counts::BlotCounts,
    collect::{Collector, KeyBucket, KeyRunTable, SLICES},
    inverted::{Inverted, InvertedRange, RangeOutput, RangeStore},
    key::{BUCKETS, Key},
    packed_keys::read_keys,
    ranges::{FINE_POSTINGS, bucket_of_slice, ranges_of, slices_of, whole_buckets},
    sets::{ListBatch, SetDictionary, Sets},
    sort::sorted,
    spilled_sets::{self, DictionaryId, FinalSetNumbers, SpillTo, SpilledDictionaries},
};
use crate::base::{
    error::Result,
    files::TempFile,
    ids::SetNo,
    num::{ToU64, ToUsize},
    parallel,
};
use std::{
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The number of blots of each document.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DocumentBlots {
    /// All distinct blots.
    pub distinct: Vec<u32>,
    /// Those that are posted: without the dropped ones.
    pub posted: Vec<u32>,
}

impl DocumentBlots {
    /// The counts of documents whose blots are all posted.
    pub fn all_posted(distinct: Vec<u32>) -> Self {
        Self {
            posted: distinct.clone(),
            distinct,
        }
    }
}

/// Inverts all postings within about `memory_bytes`, and counts the blots of each document.
///
/// Every spilled range is read back once. If nothing was spilled, the sets take memory on top of
/// `memory_bytes`; otherwise only the sets of several blots do.
///
/// If `keeps_single` is set, it decides which blots of a single document are kept.
pub fn invert<K: Key>(
    mut collector: Collector<K>,
    documents: u32,
    memory_bytes: u64,
    keeps_single: Option<&(dyn Fn(&K) -> bool + Sync)>,
) -> Result<(Inverted<K>, DocumentBlots)> {
    let threads = collector.threads;
    let bits = collector.bits;
    let is_spilled = collector.file.is_some();
    if is_spilled {
        collector.spill()?;
    }
    let share_bytes = memory_bytes / (4 * threads.to_u64());
    let ranges = if is_spilled {
        spilled_ranges(&collector.runs, share_bytes / size_of::<K>().to_u64())
    } else {
        whole_buckets()
    };
    let directory = collector.directory.clone();
    let mut blots_of = std::mem::take(&mut collector.blots_of);
    let sources = KeySources::new(collector, &ranges);
    let dropped = BlotCounts::new(0..documents);
    let sorter = || KeySorter {
        sources: &sources,
        grouper: Grouper::default(),
        keeps_single,
        dropped: &dropped,
    };
    let inversion = Inversion {
        bits,
        documents,
        threads,
        ranges: &ranges,
        spill: is_spilled.then_some(SpillTo {
            directory: &directory,
            set_bytes: share_bytes,
        }),
    };
    let (mut inverted, _) = inversion.run(sorter)?;
    sources.counts.add_to(&mut blots_of);
    blots_of.resize(documents.to_usize(), 0);
    let blots = DocumentBlots {
        posted: without(&blots_of, dropped),
        distinct: blots_of,
    };
    inverted.postings = blots.posted.iter().map(|&count| u64::from(count)).sum();
    Ok((inverted, blots))
}

/// The ranges of postings that are all on disk.
fn spilled_ranges(runs: &[KeyRunTable], keys_limit: u64) -> Vec<Range<usize>> {
    let keys_in = |slices: &Range<usize>| runs.iter().map(|run| run.keys(slices)).sum::<u64>();
    let is_fine = keys_in(&(0..SLICES)) >= FINE_POSTINGS;
    ranges_of(0..SLICES, keys_in, is_fine.then_some(keys_limit))
}

/// The counts of all documents, less the dropped blots.
fn without(blots_of: &[u32], dropped: BlotCounts) -> Vec<u32> {
    let mut dropped_of = Vec::new();
    dropped.add_to(&mut dropped_of);
    let pairs = blots_of.iter().zip(dropped_of);
    pairs.map(|(blots, dropped)| blots - dropped).collect()
}

/// Inverts ranges one by one; each thread has its own inverter, with its own dictionary.
pub trait InvertRanges<K>: Send {
    /// The blots of some slices, with sets numbered as in the dictionary.
    fn unit(&mut self, slices: &Range<usize>) -> Result<InvertedRange<K>>;

    /// The sets of the units so far.
    fn dictionary(&self) -> &SetDictionary;

    /// Returns the dictionary and continues with an empty one.
    fn take_dictionary(&mut self) -> SetDictionary;
}

/// Runs [`InvertRanges`] on many threads, for any source of postings.
pub struct Inversion<'a> {
    /// The bits of a blot.
    pub bits: u8,
    /// The number of documents.
    pub documents: u32,
    /// The number of threads.
    pub threads: usize,
    /// Slices of the blot space, in rising order; see [`Inverted`].
    pub ranges: &'a [Range<usize>],
    /// Where units and sets go, unless they stay in memory.
    pub spill: Option<SpillTo<'a>>,
}

/// The inverter of a thread, and the dictionaries that it has spilled.
struct InversionWorker<'a, M> {
    inverter: M,
    /// None if dictionaries stay in memory.
    spilled: Option<SpilledDictionaries<'a>>,
}

impl<M> InversionWorker<'_, M> {
    /// The unit of some slices, and the number of its dictionary among those of this thread.
    fn unit<K>(&mut self, slices: &Range<usize>) -> Result<(usize, InvertedRange<K>)>
    where
        M: InvertRanges<K>,
    {
        let unit = self.inverter.unit(slices)?;
        let Some(spilled) = &mut self.spilled else {
            return Ok((0, unit));
        };
        let dictionary = spilled.len();
        if self.inverter.dictionary().bytes() > spilled.to.set_bytes {
            spilled.push(self.inverter.take_dictionary())?;
        }
        Ok((dictionary, unit))
    }
}

impl Inversion<'_> {
    /// Inverts all ranges in parallel, and returns the units and the inverters.
    ///
    /// The number of postings is left at 0.
    pub fn run<K: Key, M: InvertRanges<K>>(
        &self,
        inverter: impl Fn() -> M,
    ) -> Result<(Inverted<K>, Vec<M>)> {
        let worker = |_| {
            Ok(Mutex::new(InversionWorker {
                inverter: inverter(),
                spilled: self.spill.map(SpilledDictionaries::new).transpose()?,
            }))
        };
        let workers = (0..self.threads).map(worker).collect::<Result<Vec<_>>>()?;
        let store = self.run_workers(&workers)?;
        let workers = workers
            .into_iter()
            .map(|worker| worker.into_inner().unwrap_or_else(PoisonError::into_inner))
            .collect();
        let (sets, numbers, inverters) = self.join(workers)?;
        let inverted = store.finish(self.bits, self.documents, sets, numbers);
        Ok((inverted, inverters))
    }

    /// Stores the units of all ranges, in order.
    fn run_workers<K: Key, M: InvertRanges<K>>(
        &self,
        workers: &[Mutex<InversionWorker<'_, M>>],
    ) -> Result<RangeStore<K>> {
        let is_spilled = self.spill.is_some();
        let next = AtomicUsize::new(0);
        let work = || {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let worker = &workers[index];
            move |range: &Range<usize>| -> Result<(usize, DictionaryId, RangeOutput<K>)> {
                let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
                let (number, unit) = worker.unit(range)?;
                let dictionary = DictionaryId {
                    worker: index,
                    number,
                };
                let output = RangeOutput::new(unit, is_spilled);
                Ok((bucket_of_slice(range.start), dictionary, output))
            }
        };
        let mut store = RangeStore::new(self.spill)?;
        // Not a rayon iterator: units go to the temporary file in order while later ones are
        // sorted, so that few are in memory at once.
        let source = self.ranges.iter();
        parallel::ordered_items(self.threads, source, work, |output: Result<_>| {
            let (bucket, dictionary, output) = output?;
            store.push(bucket, dictionary, output)
        })?;
        Ok(store)
    }

    /// Joins the dictionaries of all threads: if one thread has spilled any, all are spilled.
    fn join<K: Key, M: InvertRanges<K>>(
        &self,
        workers: Vec<InversionWorker<'_, M>>,
    ) -> Result<(Sets, FinalSetNumbers, Vec<M>)> {
        let (mut inverters, spilled): (Vec<M>, Vec<_>) = workers
            .into_iter()
            .map(|worker| (worker.inverter, worker.spilled))
            .unzip();
        let mut spilled: Vec<SpilledDictionaries<'_>> = spilled.into_iter().flatten().collect();
        let open = inverters.iter_mut().map(M::take_dictionary);
        let (sets, numbers) = if spilled.iter().all(|spilled| spilled.len() == 0) {
            let (sets, numbers) = Sets::join(open.collect());
            let numbers = numbers.into_iter().map(Arc::new).collect();
            (sets, FinalSetNumbers::InMemory(numbers))
        } else {
            spilled
                .iter_mut()
                .zip(open)
                .try_for_each(|(spilled, open)| spilled.push(open))?;
            spilled_sets::join(spilled)?
        };
        Ok((sets, numbers, inverters))
    }
}

/// Sorts the keys of a collector.
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

/// Groups sorted keys by blot, and numbers the sets of documents.
#[derive(Default)]
pub(super) struct Grouper {
    pub dictionary: SetDictionary,
    batch: ListBatch,
    numbers: Vec<SetNo>,
}

/// The number of blots whose sets are numbered together.
const BATCH_BLOTS: usize = 64;

impl Grouper {
    pub fn group<K: Key>(&mut self, keys: &[K]) -> InvertedRange<K> {
        let mut unit = InvertedRange {
            shared: Vec::new(),
            single: Vec::new(),
        };
        let mut groups = keys
            .chunk_by(|one, two| one.blot() == two.blot())
            .peekable();
        while groups.peek().is_some() {
            let first = unit.shared.len();
            self.batch.clear();
            self.numbers.clear();
            for group in groups.by_ref().take(BATCH_BLOTS) {
                if let [key] = group {
                    unit.single.push(*key);
                } else {
                    unit.shared.push(group[0]);
                    self.batch.push(group.iter().map(|key| key.number()));
                }
            }
            self.dictionary.number_all(&self.batch, &mut self.numbers);
            for (key, number) in unit.shared[first..].iter_mut().zip(&self.numbers) {
                *key = K::new(key.blot(), number.get());
            }
        }
        unit
    }
}

/// The collected keys, in memory or on disk.
struct KeySources<K> {
    buckets: Vec<Mutex<KeyBucket<K>>>,
    /// The blots of each document, of the keys in the buckets.
    counts: BlotCounts,
    /// The runs, if all keys are on disk.
    spilled: Option<(TempFile, Vec<KeyRunTable>)>,
    /// For each bucket the number of ranges that are still to be read.
    unread: Vec<AtomicUsize>,
}

impl<K: Key> KeySources<K> {
    fn new(collector: Collector<K>, ranges: &[Range<usize>]) -> Self {
        let mut ranges_in = vec![0; BUCKETS];
        for range in ranges {
            ranges_in[bucket_of_slice(range.start)] += 1;
        }
        let runs = collector.runs;
        Self {
            buckets: collector.buckets.into_iter().map(Mutex::new).collect(),
            counts: BlotCounts::new(collector.in_memory),
            spilled: collector.file.map(|file| (file, runs)),
            unread: ranges_in.into_iter().map(AtomicUsize::new).collect(),
        }
    }

    /// The keys of some slices, in order.
    fn sorted(&self, slices: &Range<usize>) -> Result<Vec<K>> {
        let bucket = bucket_of_slice(slices.start);
        let Some((file, runs)) = &self.spilled else {
            let mut bucket = self.buckets[bucket]
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            return Ok(bucket.sorted(&self.counts));
        };
        let count = runs.iter().map(|run| run.keys(slices)).sum::<u64>();
        let mut keys = Vec::with_capacity(count.to_usize());
        for run in runs {
            read_keys(file, &run.place(slices), &mut keys)?;
        }
        if self.unread[bucket].fetch_sub(1, Ordering::AcqRel) == 1 {
            let slices = slices_of(bucket);
            runs.iter()
                .for_each(|run| file.release(&run.place(&slices)));
        }
        Ok(sorted(&[keys]))
    }
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
        let is_spilled = matches!(inverted.numbers, FinalSetNumbers::Spilled(_));
        assert!(!is_spilled || memory <= 200);
        assert!(is_spilled || memory > 1 || sets.is_empty());
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
        assert_eq!(blots_of.distinct, blots_of.posted);
        (found.into_iter().collect(), blots_of.posted, sets)
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
