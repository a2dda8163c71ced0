//! Inverted postings, unit by unit, in memory or in a temporary file.

use super::{
    key::Key,
    packed_keys::{put_keys, read_keys},
    sets::Sets,
    spilled_sets::{DictionaryId, FinalSetNumbers, SpillTo},
};
use crate::base::{
    error::Result,
    files::TempFile,
    num::{ToU64, ToUsize},
};
use std::{borrow::Cow, ops::Range};

/// The blots of a range of the blot space, in order.
#[derive(Debug, Default)]
pub struct InvertedRange<K> {
    /// Blots of several documents, with the number of their set.
    pub shared: Vec<K>,
    /// Blots of a single document, with its number.
    pub single: Vec<K>,
}

impl<K> InvertedRange<K> {
    /// The number of shared and of single blots.
    fn lengths(&self) -> [u64; 2] {
        [self.shared.len().to_u64(), self.single.len().to_u64()]
    }
}

/// All inverted postings, in units: ranges of the blot space that are worked on one by one.
///
/// A unit never crosses the border of a bucket. If there are fewer than
/// [`FINE_POSTINGS`](super::FINE_POSTINGS) postings, a unit is a whole bucket.
pub struct Inverted<K> {
    /// The bits of a blot.
    pub bits: u8,
    /// The number of documents.
    pub documents: u32,
    /// The document sets of the shared blots.
    pub sets: Sets,
    /// The number of pairs of a blot and a document.
    pub postings: u64,
    /// The number of blots of several documents.
    pub shared: u64,
    /// The number of blots of a single document.
    pub single: u64,
    units: Vec<StoredRange<K>>,
    spill: Option<TempFile>,
    pub(super) numbers: FinalSetNumbers,
}

struct StoredRange<K> {
    bucket: usize,
    /// The dictionary whose set numbers the shared blots carry.
    dictionary: DictionaryId,
    storage: RangeStorage<K>,
}

enum RangeStorage<K> {
    InMemory(InvertedRange<K>),
    Spilled {
        lengths: [u64; 2],
        shared: Range<u64>,
        single: Range<u64>,
    },
}

/// A unit as a worker passes it on: as it stays in memory, or packed for the temporary file.
pub(super) enum RangeOutput<K> {
    InMemory(InvertedRange<K>),
    Packed {
        lengths: [u64; 2],
        shared: Vec<u8>,
        single: Vec<u8>,
    },
}

impl<K: Key> RangeOutput<K> {
    pub fn new(unit: InvertedRange<K>, is_spilled: bool) -> Self {
        if !is_spilled {
            return Self::InMemory(unit);
        }
        let [mut shared, mut single] = [Vec::new(), Vec::new()];
        put_keys(&mut shared, &unit.shared);
        put_keys(&mut single, &unit.single);
        Self::Packed {
            lengths: unit.lengths(),
            shared,
            single,
        }
    }
}

impl<K: Key> Inverted<K> {
    /// The numbers of the units of some buckets.
    pub fn units_in(&self, buckets: &Range<usize>) -> Range<usize> {
        let first = |bucket: usize| self.units.partition_point(|unit| unit.bucket < bucket);
        first(buckets.start)..first(buckets.end)
    }

    /// The number of shared and of single blots of a unit.
    pub fn lengths(&self, unit: usize) -> [u64; 2] {
        match &self.units[unit].storage {
            RangeStorage::InMemory(unit) => unit.lengths(),
            RangeStorage::Spilled { lengths, .. } => *lengths,
        }
    }

    /// The bucket of a unit.
    pub fn bucket(&self, unit: usize) -> usize {
        self.units[unit].bucket
    }

    /// The blots of several documents of a unit, with the final numbers of their sets.
    ///
    /// A spilled unit can be read once.
    pub fn shared(&self, unit: usize) -> Result<Vec<K>> {
        let stored = &self.units[unit];
        let mut keys = match (&stored.storage, &self.spill) {
            (
                RangeStorage::Spilled {
                    shared, lengths, ..
                },
                Some(spill),
            ) => read_back(spill, shared, lengths[0])?,
            (RangeStorage::InMemory(unit), _) => unit.shared.clone(),
            (RangeStorage::Spilled { .. }, None) => Vec::new(),
        };
        if keys.is_empty() {
            return Ok(keys);
        }
        let numbers = self.numbers.of(stored.dictionary)?;
        keys.iter_mut()
            .for_each(|key| *key = K::new(key.blot(), numbers[key.number().to_usize()].get()));
        Ok(keys)
    }

    /// The blots of a single document of a unit, with the number of the document.
    ///
    /// A spilled unit can be read once.
    pub fn single(&self, unit: usize) -> Result<Cow<'_, [K]>> {
        match (&self.units[unit].storage, &self.spill) {
            (
                RangeStorage::Spilled {
                    single, lengths, ..
                },
                Some(spill),
            ) => read_back(spill, single, lengths[1]).map(Cow::Owned),
            (RangeStorage::InMemory(unit), _) => Ok(Cow::Borrowed(&unit.single)),
            (RangeStorage::Spilled { .. }, None) => Ok(Cow::Borrowed(&[])),
        }
    }
}

impl<K: Key> Inverted<K> {
    /// As [`Inverted::single`], and the unit can be read again.
    pub fn peek_single(&self, unit: usize) -> Result<Cow<'_, [K]>> {
        match (&self.units[unit].storage, &self.spill) {
            (
                RangeStorage::Spilled {
                    single, lengths, ..
                },
                Some(spill),
            ) => {
                let mut keys = Vec::with_capacity(lengths[1].to_usize());
                read_keys(spill, single, &mut keys)?;
                Ok(Cow::Owned(keys))
            }
            _ => self.single(unit),
        }
    }
}

/// Reads the keys of a spilled unit and frees their room on disk.
fn read_back<K: Key>(spill: &TempFile, range: &Range<u64>, count: u64) -> Result<Vec<K>> {
    let mut keys = Vec::with_capacity(count.to_usize());
    read_keys(spill, range, &mut keys)?;
    spill.release(range);
    Ok(keys)
}

/// Stores units as they come, in memory or in a temporary file.
pub(super) struct RangeStore<K> {
    stored: Vec<StoredRange<K>>,
    spill: Option<TempFile>,
    shared: u64,
    single: u64,
}

impl<K> RangeStore<K> {
    pub fn new(spill: Option<SpillTo<'_>>) -> Result<Self> {
        let spill = spill.map(|spill| TempFile::new(spill.directory));
        Ok(Self {
            stored: Vec::new(),
            spill: spill.transpose()?,
            shared: 0,
            single: 0,
        })
    }

    /// Stores the next unit.
    pub fn push(
        &mut self,
        bucket: usize,
        dictionary: DictionaryId,
        output: RangeOutput<K>,
    ) -> Result<()> {
        let (lengths, storage) = match output {
            RangeOutput::InMemory(unit) => (unit.lengths(), RangeStorage::InMemory(unit)),
            RangeOutput::Packed {
                lengths,
                shared,
                single,
            } => {
                let storage = RangeStorage::Spilled {
                    lengths,
                    shared: self.append(&shared)?,
                    single: self.append(&single)?,
                };
                (lengths, storage)
            }
        };
        self.shared += lengths[0];
        self.single += lengths[1];
        self.stored.push(StoredRange {
            bucket,
            dictionary,
            storage,
        });
        Ok(())
    }

    fn append(&mut self, packed: &[u8]) -> Result<Range<u64>> {
        match &mut self.spill {
            Some(spill) => spill.append(packed),
            None => Ok(0..0),
        }
    }

    /// All units, with their sets. The number of postings is left at 0.
    pub fn finish(
        self,
        bits: u8,
        documents: u32,
        sets: Sets,
        numbers: FinalSetNumbers,
    ) -> Inverted<K> {
        Inverted {
            bits,
            documents,
            sets,
            postings: 0,
            shared: self.shared,
            single: self.single,
            units: self.stored,
            spill: self.spill,
            numbers,
        }
    }
}
