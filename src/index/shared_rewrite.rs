//! Writes an index of shared chunks again after a change: what it had, and the postings of changed
//! documents, which a segment of their own holds.
//!
//! The result is, byte for byte, the index that a full run over all documents writes.

use super::{
    document_row::DocumentRow,
    document_table::DocumentTable,
    documents::CommitEffects,
    manifest::SegmentEntry,
    merge::{MergedTarget, Merger},
    number_set::NumberSet,
    open::Segment,
    segment::{Resources, SegmentFiles},
};
use crate::{
    base::{
        error::Result,
        num::{ToU32, ToU64, ToUsize},
    },
    index::posting::{
        FINE_POSTINGS, Inversion, InvertRanges, InvertedRange, Key, NARROW_BITS, SLICES,
        SetDictionary, SpillTo, whole_buckets,
    },
};
use std::ops::Range;

/// A range has about this many blots, where there are many.
const RANGE_BLOTS: u64 = 1 << 15;

/// All documents after a change, and the segments that have their postings.
pub struct SharedRewrite<'a> {
    /// The bits of a blot.
    pub bits: u8,
    /// The segments: that of the index first, which is large.
    pub segments: Vec<&'a Segment>,
    /// For each segment and place, the number of the document that its postings are for;
    /// `u32::MAX` if they do not count any more. Several places may lead to one document.
    pub targets: Vec<Vec<u32>>,
    /// All documents by number, with the representative and all blots of each.
    pub documents: DocumentTable,
}

impl SharedRewrite<'_> {
    /// Writes the segment: blots of several documents, exact duplicates included.
    pub fn write(self, files: &SegmentFiles<'_>, resources: &Resources) -> Result<SegmentEntry> {
        if self.bits <= NARROW_BITS {
            self.write_as::<u64>(files, resources)
        } else {
            self.write_as::<u128>(files, resources)
        }
    }

    fn write_as<K: Key>(
        mut self,
        files: &SegmentFiles<'_>,
        resources: &Resources,
    ) -> Result<SegmentEntry> {
        let threads = resources.threads;
        let stored = self.stored_blots();
        let is_large = stored.saturating_mul(size_of::<K>().to_u64()) > resources.memory_bytes / 2;
        let share_bytes = resources.memory_bytes / (8 * threads.to_u64());
        let most_known = if is_large {
            share_bytes.to_usize() / 8
        } else {
            usize::MAX
        };
        let has_alias: NumberSet = self
            .documents
            .rows()
            .filter(DocumentRow::is_alias)
            .map(|row| row.representative)
            .collect();
        let inversion = Inversion {
            bits: self.bits,
            documents: self.documents.len().to_u32(),
            threads,
            ranges: &ranges_for(stored),
            spill: is_large.then_some(SpillTo {
                directory: &resources.tmp_dir,
                set_bytes: share_bytes,
            }),
        };
        let (mut inverted, mergers) = inversion.run::<K, _>(|| SharedMerger {
            merger: Merger::new(self.bits, &self.segments, &self.targets).remembering(most_known),
            has_alias: &has_alias,
            singles: vec![0; self.documents.len()],
        })?;
        let mut posted = vec![0_u64; self.documents.len()];
        for merger in mergers {
            posted
                .iter_mut()
                .zip(&merger.singles)
                .for_each(|(sum, single)| *sum += u64::from(*single));
        }
        inverted.sets.for_each_used(|set, uses| {
            set.iter()
                .for_each(|number| posted[number.to_usize()] += uses);
        })?;
        inverted.postings = posted.iter().sum();
        for place in 0..self.documents.len() {
            let row = self.documents.row(place);
            let posted = posted[row.representative.to_usize()];
            let row = row.with_posted(row.blots, posted as u32);
            self.documents.set_row(place, &row);
        }
        let effects = CommitEffects::default();
        files.write(self.documents, &effects, &inverted, None, threads)
    }

    fn stored_blots(&self) -> u64 {
        let parts = self.segments.iter().flat_map(|segment| &segment.parts);
        parts
            .map(|part| part.shared_blots() + part.single_blots())
            .sum()
    }
}

/// Ranges that are merged one by one.
fn ranges_for(blots: u64) -> Vec<Range<usize>> {
    if blots < FINE_POSTINGS {
        return whole_buckets();
    }
    let width = (SLICES.to_u64() * RANGE_BLOTS / blots).clamp(1, 16).ilog2();
    (0..SLICES >> width)
        .map(|range| range << width..(range + 1) << width)
        .collect()
}

/// Merges the segments, and drops the blots of single documents without exact duplicates.
struct SharedMerger<'v> {
    merger: Merger<'v>,
    has_alias: &'v NumberSet,
    /// Of each document, the blots that no other content has.
    singles: Vec<u32>,
}

impl<K: Key> InvertRanges<K> for SharedMerger<'_> {
    fn unit(&mut self, slices: &Range<usize>) -> Result<InvertedRange<K>> {
        let mut unit = InvertedRange {
            shared: Vec::new(),
            single: Vec::new(),
        };
        let (has_alias, singles) = (self.has_alias, &mut self.singles);
        // The first segment is that of the index.
        self.merger.for_each_beside(0, slices, |blot, found, _| {
            match found {
                MergedTarget::One(number) if has_alias.contains(number) => {
                    singles[number.to_usize()] += 1;
                    unit.single.push(K::new(blot, number));
                }
                MergedTarget::One(_) => {}
                MergedTarget::Set(set) => unit.shared.push(K::new(blot, set.get())),
            }
            Ok(())
        })?;
        Ok(unit)
    }

    fn dictionary(&self) -> &SetDictionary {
        InvertRanges::<K>::dictionary(&self.merger)
    }

    fn take_dictionary(&mut self) -> SetDictionary {
        InvertRanges::<K>::take_dictionary(&mut self.merger)
    }
}
