//! A file of sorted postings of a range of buckets, for another process to invert.
//!
//! A run is a block of packed keys for each slice. A file has one run for each time that the memory
//! was full, one after the other; then for each run the start of each slice and the end of the last
//! one, 8 bytes each, and the number of keys of each slice, 4 bytes each.

use super::{
    bucket_range::BucketRange,
    collect::{KeyRunTable, PackedBucket, SLICES},
    invert::{Grouper, Inversion, InvertRanges},
    inverted::{Inverted, InvertedRange},
    key::{BUCKETS, Key},
    packed_keys::take_keys_as,
    ranges::{FINE_POSTINGS, ranges_of, slices_of},
    sets::SetDictionary,
    sort::sorted,
};
use crate::{
    base::{
        error::{Error, Result},
        files::{Sealed, SealedWriter, TempDir, TempFile},
        num::ToU64,
    },
    index::posting::SpillTo,
    text::scheme::BlotScheme,
};
use serde::{Deserialize, Serialize};
use std::{fs::File, io::BufWriter, io::Write, ops::Range, path::Path, path::PathBuf};

const KIND: &str = "runs";
/// The target of a document whose postings are dropped.
const NONE: u32 = u32::MAX;
/// Spilled runs are copied in pieces of this size.
const PIECE_BYTES: u64 = 1 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct RunFileDescription {
    kind: String,
    scheme: String,
    bits: u8,
    /// The first bucket, and the one after the last.
    buckets: BucketRange,
    /// Numbers are less than this.
    documents: u32,
    runs: u64,
    /// The offset of the table of slices.
    borders: u64,
}

/// Writes a [`RunFile`].
pub(super) struct RunWriter {
    path: PathBuf,
    out: SealedWriter<BufWriter<File>>,
    scheme: String,
    bits: u8,
    buckets: Range<usize>,
    documents: u32,
    runs: Vec<KeyRunTable>,
}

impl RunWriter {
    pub fn create(
        path: &Path,
        scheme: &BlotScheme,
        buckets: Range<usize>,
        documents: u32,
    ) -> Result<Self> {
        let out = SealedWriter::create(path).map_err(|error| Error::io(path.display(), error))?;
        Ok(Self {
            path: path.to_owned(),
            out,
            scheme: scheme.to_string(),
            bits: scheme.bits,
            buckets,
            documents,
            runs: Vec::new(),
        })
    }

    /// Begins a run; its buckets follow.
    pub fn start(&mut self) {
        self.runs.push(KeyRunTable {
            starts: vec![self.out.position()],
            keys: Vec::new(),
        });
    }

    /// Writes the next bucket of the run.
    pub fn push(&mut self, packed: &PackedBucket) -> Result<()> {
        if let Some(run) = self.runs.last_mut() {
            run.push(packed);
        }
        self.out
            .write_all(&packed.bytes)
            .map_err(|error| Error::io(self.path.display(), error))
    }

    /// Copies the buckets of the range from a spilled run.
    pub fn copy(&mut self, run: &KeyRunTable, file: &TempFile) -> Result<()> {
        let slices = slices_of_all(&self.buckets);
        let mut place = run.place(&slices);
        let start = self.out.position();
        let starts = run.starts[slices.start..=slices.end]
            .iter()
            .map(|at| at - place.start + start)
            .collect();
        self.runs.push(KeyRunTable {
            starts,
            keys: run.keys[slices].to_vec(),
        });
        let mut piece = Vec::new();
        while !place.is_empty() {
            piece.resize((place.end - place.start).min(PIECE_BYTES) as usize, 0);
            file.read_at(&mut piece, place.start)?;
            place.start += piece.len() as u64;
            self.out
                .write_all(&piece)
                .map_err(|error| Error::io(self.path.display(), error))?;
        }
        Ok(())
    }

    /// Writes the table of slices and the description.
    pub fn finish(mut self) -> Result<()> {
        let path = self.path;
        let failed = |error| Error::io(path.display(), error);
        let borders = self.out.position();
        for KeyRunTable { starts, keys } in &self.runs {
            let bytes: Vec<u8> = starts
                .iter()
                .flat_map(|at| at.to_le_bytes())
                .chain(keys.iter().flat_map(|keys| keys.to_le_bytes()))
                .collect();
            self.out.write_all(&bytes).map_err(failed)?;
        }
        let description = RunFileDescription {
            kind: KIND.to_owned(),
            scheme: self.scheme,
            bits: self.bits,
            buckets: BucketRange::from(&self.buckets),
            documents: self.documents,
            runs: self.runs.len().to_u64(),
            borders,
        };
        self.out.finish(&description).map(drop).map_err(failed)
    }
}

/// The slices of some buckets.
fn slices_of_all(buckets: &Range<usize>) -> Range<usize> {
    slices_of(buckets.start).start..slices_of(buckets.end).start
}

/// A file of sorted postings. Keys are read on demand.
///
/// Memory: twelve bytes for each slice of each run.
pub struct RunFile {
    file: Sealed,
    description: RunFileDescription,
    runs: Vec<KeyRunTable>,
}

impl RunFile {
    /// Opens a file and checks its description.
    pub fn open(path: &Path) -> Result<Self> {
        let file = Sealed::open(path)?;
        let description: RunFileDescription = file.describe()?;
        let wrong = || file.damaged(0, "the description of the runs contradicts itself");
        let RunFileDescription {
            kind,
            bits,
            buckets,
            runs,
            borders,
            ..
        } = &description;
        if kind != KIND || !buckets.is_valid_for(*bits) {
            return Err(wrong());
        }
        let slices = buckets.range().len() * (SLICES / BUCKETS);
        let run_bytes = 8 * (slices as u64 + 1) + 4 * slices as u64;
        let table = file.bytes(*borders, runs.checked_mul(run_bytes).ok_or_else(wrong)?)?;
        let read = |bytes: &[u8]| -> Option<KeyRunTable> {
            let (starts, keys) = bytes.split_at_checked(8 * (slices + 1))?;
            let starts: Vec<u64> = starts
                .as_chunks()
                .0
                .iter()
                .map(|bytes| u64::from_le_bytes(*bytes))
                .collect();
            let keys = keys
                .as_chunks()
                .0
                .iter()
                .map(|bytes| u32::from_le_bytes(*bytes))
                .collect();
            starts.is_sorted().then_some(KeyRunTable { starts, keys })
        };
        let runs = table
            .chunks_exact(run_bytes as usize)
            .map(read)
            .collect::<Option<Vec<_>>>()
            .ok_or_else(wrong)?;
        Ok(Self {
            file,
            description,
            runs,
        })
    }

    /// The file itself.
    pub fn file(&self) -> &Sealed {
        &self.file
    }

    /// The bits of a blot.
    pub fn bits(&self) -> u8 {
        self.description.bits
    }

    /// The scheme of the blots.
    pub fn scheme(&self) -> &str {
        &self.description.scheme
    }

    /// Documents are numbered from 0 to one less than this.
    pub fn documents(&self) -> u32 {
        self.description.documents
    }

    /// The buckets of the file.
    pub fn buckets(&self) -> Range<usize> {
        self.description.buckets.range()
    }

    /// Slices of the blot space as slices of this file.
    fn own(&self, slices: &Range<usize>) -> Range<usize> {
        let first = slices_of(self.buckets().start).start;
        slices.start - first..slices.end - first
    }

    fn keys(&self, slices: &Range<usize>) -> u64 {
        let own = self.own(slices);
        self.runs.iter().map(|run| run.keys(&own)).sum()
    }

    /// Appends the keys of some slices, with the new numbers in `targets`.
    fn read<K: Key>(&self, slices: &Range<usize>, targets: &[u32], out: &mut Vec<K>) -> Result<()> {
        let own = self.own(slices);
        for run in &self.runs {
            let place = run.place(&own);
            let mut rest = self.file.bytes(place.start, place.end - place.start)?;
            let number_of = |number: u32| {
                targets
                    .get(number as usize)
                    .map(|&target| (target != NONE).then_some(target))
            };
            while !rest.is_empty() {
                rest = take_keys_as(rest, out, number_of).ok_or_else(|| {
                    self.file
                        .damaged(place.start, "not keys, or of a missing document")
                })?;
            }
        }
        Ok(())
    }
}

/// Sorts the keys of several files of the same range.
struct RunSorter<'a> {
    files: &'a [(RunFile, Vec<u32>)],
    grouper: Grouper,
}

impl<K: Key> InvertRanges<K> for RunSorter<'_> {
    fn unit(&mut self, slices: &Range<usize>) -> Result<InvertedRange<K>> {
        let keys_in = self
            .files
            .iter()
            .map(|(file, _)| file.keys(slices))
            .sum::<u64>();
        let mut keys = Vec::with_capacity(keys_in.min(1 << 24) as usize);
        self.files
            .iter()
            .try_for_each(|(file, targets)| file.read::<K>(slices, targets, &mut keys))?;
        let mut keys = sorted(&[keys]);
        keys.dedup();
        Ok(self.grouper.group(&keys))
    }

    fn dictionary(&self) -> &SetDictionary {
        &self.grouper.dictionary
    }

    fn take_dictionary(&mut self) -> SetDictionary {
        std::mem::take(&mut self.grouper.dictionary)
    }
}

/// The files that have the postings of one range.
pub struct RangeRuns<'a> {
    /// Each file with the new numbers of its documents, or `u32::MAX` for those to drop.
    pub files: &'a [(RunFile, Vec<u32>)],
    /// The bits of a blot.
    pub bits: u8,
    /// The buckets of the range.
    pub buckets: Range<usize>,
    /// The number of documents of the whole index: new numbers are less than this.
    pub documents: u32,
    /// The number of postings of the whole index.
    pub postings: u64,
}

impl RangeRuns<'_> {
    /// Inverts all postings of the range, within about `memory_bytes`.
    pub fn invert<K: Key>(
        &self,
        memory_bytes: u64,
        directory: &TempDir,
        threads: usize,
    ) -> Result<Inverted<K>> {
        let keys_in = |slices: &Range<usize>| {
            self.files
                .iter()
                .map(|(file, _)| file.keys(slices))
                .sum::<u64>()
        };
        let slices = slices_of_all(&self.buckets);
        let is_large = keys_in(&slices).saturating_mul(size_of::<K>() as u64) > memory_bytes / 2;
        let share_bytes = memory_bytes / (4 * threads as u64);
        let keys_limit =
            (self.postings >= FINE_POSTINGS).then_some(share_bytes / size_of::<K>() as u64);
        let ranges = ranges_of(slices, keys_in, keys_limit);
        let spill = is_large.then_some(SpillTo {
            directory,
            set_bytes: share_bytes,
        });
        let sorting = Inversion {
            bits: self.bits,
            documents: self.documents,
            threads,
            ranges: &ranges,
            spill,
        };
        let (mut inverted, _) = sorting.run::<K, _>(|| RunSorter {
            files: self.files,
            grouper: Grouper::default(),
        })?;
        inverted.postings = self.postings;
        Ok(inverted)
    }
}
