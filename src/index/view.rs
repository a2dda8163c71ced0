//! The live documents and contents of an index, or of several as if they were one, and which
//! contents have which postings.
//!
//! Documents are counted in the order of their numbers, which is the order of the corpus in an
//! index that nothing was added to. Contents are distinct texts, each posted once, counted in the
//! order of their first document.

use super::{
    document_row::DocumentRow,
    document_table::DocumentTable,
    merge::{
        CountSets, CountSetsBesideLargest, CountSetsWithout, ExcludedBlots, MergedTarget, Merger,
        NONE,
    },
    open::{Index, RowLocation, Segment},
    set_source::StoredSetSource,
    view_builder::{ViewBuilder, members_of},
    width::WidthFit,
    word_file::WordMerger,
};
use crate::{
    base::{
        error::Result,
        files::TempDir,
        ids::{Blot, ContentNo, DocNo},
        num::ToU64,
        parallel::{self, Limits},
    },
    index::posting::{
        BUCKETS, FINE_POSTINGS, Inversion, SLICES, Sets, SpillTo, StoredSets, whole_buckets,
    },
};
use std::ops::Range;

/// A range has about this many blots, where there are many.
const RANGE_BLOTS: u64 = 1 << 15;
/// Looking one blot up costs about as much as merging this many.
const LOOK_UP: u64 = 16;
/// A set takes about this much in memory.
const SET_BYTES: u64 = 100;

/// The content of a document whose postings stand in another segment, which the view does not have.
pub(super) const NO_CONTENT: ContentNo = ContentNo::new(NONE);

/// The live documents and contents of one index, or of several as if they were one.
///
/// Memory: some 70 bytes a document, in large blocks, which go to temporary files where memory is
/// limited (see [`SpillingAllocator`](crate::base::files::SpillingAllocator)); while several indexes
/// become one, some 80 more.
pub struct View<'i> {
    pub(super) bits: u8,
    pub(super) segments: Vec<&'i Segment>,
    pub(super) documents: Vec<ViewRow>,
    pub(super) contents: Vec<ContentInfo>,
    /// The documents of all contents, one after the other, and where each content's end.
    pub(super) members: Vec<DocNo>,
    pub(super) ends: Vec<usize>,
    /// For each segment and place, the content whose postings stand there; `NONE` if they do not
    /// count any more.
    pub(super) content_at: Vec<Vec<u32>>,
    pub(super) numbering: Renumbering,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ViewRow {
    /// Its segment.
    pub segment: u32,
    /// Its place there.
    pub place: u32,
    /// Its content.
    pub content: ContentNo,
}

/// A distinct text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentInfo {
    /// Its number of tokens.
    pub tokens: u32,
    /// Its distinct blots, also those that an index of shared chunks does not hold.
    pub blots: u32,
    /// Those of them that the index holds.
    pub posted: u32,
    /// The hash of its tokens, if it is known.
    pub hash: Option<u128>,
}

/// What numbers documents get when they are rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renumbering {
    /// From 0, without gaps.
    Dense,
    /// Those they have: there are older segments, which are left as they are.
    Kept,
    /// The same, and representatives are what they are: there are newer segments, too.
    Fixed(RowFilter),
}

/// Which rows of segments that newer ones follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowFilter {
    /// Documents.
    Documented,
    /// Contents that are posted, and whose own document is gone.
    Undocumented,
}

impl Renumbering {
    /// Whether the postings of a row are taken, and whether the row is.
    pub(super) fn takes(self, is_posted: bool, is_listed: bool) -> (bool, bool) {
        match self {
            Self::Dense | Self::Kept => (is_posted, is_listed),
            Self::Fixed(RowFilter::Documented) => (is_posted && is_listed, is_listed),
            Self::Fixed(RowFilter::Undocumented) => {
                (is_posted && !is_listed, is_posted && !is_listed)
            }
        }
    }
}

impl<'i> View<'i> {
    /// The documents and contents of one index.
    pub fn of(index: &'i Index) -> Result<Self> {
        Self::over(&[index], &mut |_, _| {})
    }

    /// Several indexes as one. Of documents with one id the first is kept; `refused` is called with
    /// each later one that has another content.
    pub fn over(indexes: &[&'i Index], refused: &mut dyn FnMut(&Index, &str)) -> Result<Self> {
        let mut building = ViewBuilder::new(
            indexes.iter().map(|index| (*index, 0)).collect(),
            Renumbering::Dense,
        );
        for number in 0..indexes.len() {
            building.list(number, refused)?;
        }
        building.finish()
    }

    /// Range parts of one index, which have the same documents.
    pub fn of_parts(indexes: &[&'i Index]) -> Result<Self> {
        let mut view = Self::of(indexes[0])?;
        for index in &indexes[1..] {
            view.segments.extend(&index.segments);
            view.content_at.push(view.content_at[0].clone());
        }
        Ok(view)
    }

    /// The segments from one on, which are to become one.
    pub(super) fn of_newest(index: &'i Index, from: usize) -> Result<Self> {
        let numbering = if from == 0 {
            Renumbering::Dense
        } else {
            Renumbering::Kept
        };
        let mut building = ViewBuilder::new(vec![(index, from)], numbering);
        building.list(0, &mut |_, _| {})?;
        building.finish()
    }

    /// The documents of the segments from one on, in an index that was cut off after them: newer
    /// segments rely on numbers and representatives. Contents of documents that are gone are left
    /// out.
    pub(super) fn of_documented(index: &'i Index, from: usize) -> Result<Self> {
        Self::of_fixed(index, from, RowFilter::Documented)
    }

    /// What [`View::of_documented`] leaves out: a row for each content whose own document is gone.
    pub(super) fn of_undocumented(index: &'i Index, from: usize) -> Result<Self> {
        Self::of_fixed(index, from, RowFilter::Undocumented)
    }

    fn of_fixed(index: &'i Index, from: usize, rows: RowFilter) -> Result<Self> {
        let mut building = ViewBuilder::new(vec![(index, from)], Renumbering::Fixed(rows));
        building.list(0, &mut |_, _| {})?;
        building.finish()
    }

    /// The numbers of all documents.
    pub(super) fn numbers(&self) -> Result<impl Iterator<Item = u32>> {
        let numbers = DocNo::first(self.documents())
            .map(|document| Ok(self.row(document)?.number))
            .collect::<Result<Vec<_>>>()?;
        Ok(numbers.into_iter())
    }

    /// The same segments with other documents and contents, which are posted elsewhere.
    pub(super) fn with(
        &self,
        documents: Vec<ViewRow>,
        contents: Vec<ContentInfo>,
        content_at: Vec<Vec<u32>>,
    ) -> Self {
        let (members, ends) = members_of(&documents, contents.len());
        let (bits, segments, numbering) = (self.bits, self.segments.clone(), self.numbering);
        Self {
            bits,
            segments,
            documents,
            contents,
            members,
            ends,
            content_at,
            numbering,
        }
    }

    /// The contents by number, in the order of their first document.
    pub fn contents(&self) -> &[ContentInfo] {
        &self.contents
    }

    /// How many documents there are; they are numbered from 0.
    pub fn documents(&self) -> usize {
        self.documents.len()
    }

    /// Where the row of a document is.
    pub fn at(&self, document: DocNo) -> RowLocation {
        let ViewRow { segment, place, .. } = self.documents[document.index()];
        RowLocation {
            segment: segment as usize,
            place,
        }
    }

    /// The content of a document.
    pub fn content_of(&self, document: DocNo) -> ContentNo {
        self.documents[document.index()].content
    }

    /// The documents of a content in rising order, at least one; the first is the representative.
    pub fn documents_of(&self, content: ContentNo) -> &[DocNo] {
        let at = content.index();
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.members[start..self.ends[at]]
    }

    /// The id of a document.
    pub fn id(&self, document: DocNo) -> Result<String> {
        let ViewRow { segment, place, .. } = self.documents[document.index()];
        self.segments[segment as usize].documents.id(place)
    }

    /// The row of a document.
    pub fn row(&self, document: DocNo) -> Result<DocumentRow> {
        let ViewRow { segment, place, .. } = self.documents[document.index()];
        self.segments[segment as usize].documents.row(place)
    }

    /// All sets of two or more contents, each with the number of blots that lead to it.
    pub fn sets(&self, threads: usize) -> Result<Sets> {
        if let Some(sets) = self.stored_sets(threads)? {
            return Ok(sets);
        }
        self.sets_in(&(0..BUCKETS), threads)
    }

    /// As [`View::sets`]. If there may be too many, sets of one blot are in a temporary file, and
    /// can only be visited in order.
    pub(super) fn sets_within(&self, limits: Limits) -> Result<Sets> {
        let stored: u64 = self.segments.iter().map(|segment| segment.sets.len()).sum();
        let by_chance = WidthFit::new(self.bits, self.stored_blots()).chance_matches;
        let most_bytes = SET_BYTES.saturating_mul(stored.saturating_add(by_chance));
        if most_bytes <= limits.memory_bytes / 2 {
            return self.sets(limits.threads);
        }
        let directory = TempDir(None);
        let ranges = self.ranges();
        let sorting = Inversion {
            bits: self.bits,
            documents: 0,
            threads: limits.threads,
            ranges: &ranges,
            spill: Some(SpillTo {
                directory: &directory,
                set_bytes: limits.memory_bytes / (4 * limits.threads.to_u64()),
            }),
        };
        Ok(sorting.run::<u64, _>(|| CountSets(self.merger()))?.0.sets)
    }

    /// The sets of a range of blots, by their top eight bits: only the parts that have them need be
    /// open.
    pub fn sets_in(&self, buckets: &Range<usize>, threads: usize) -> Result<Sets> {
        let mut ranges = self.ranges();
        ranges.retain(|slices| buckets.contains(&(slices.start / (SLICES / BUCKETS))));
        let sorting = Inversion {
            bits: self.bits,
            documents: 0,
            threads,
            ranges: &ranges,
            spill: None,
        };
        match self.largest_by_far() {
            Some(largest) => CountSetsBesideLargest::join(
                sorting
                    .run::<u64, _>(|| CountSetsBesideLargest::new(self.merger(), largest))?
                    .1,
            ),
            None => Ok(sorting.run::<u64, _>(|| CountSets(self.merger()))?.0.sets),
        }
    }

    /// The largest segment, if the others are so small that looking their blots up in it is faster
    /// than merging with it.
    fn largest_by_far(&self) -> Option<usize> {
        let blots = |segment: &Segment| {
            segment
                .parts
                .iter()
                .map(|part| part.shared_blots() + part.single_blots())
                .sum::<u64>()
        };
        let (blots, largest) = (0..self.segments.len())
            .map(|segment| (blots(self.segments[segment]), segment))
            .max()?;
        (LOOK_UP * (self.stored_blots() - blots) <= blots).then_some(largest)
    }

    /// The stored sets, if no set of the view differs from them; else `None`.
    fn stored_sets(&self, threads: usize) -> Result<Option<Sets>> {
        let limits = Limits::new(threads, u64::MAX);
        let Some(stored) = StoredSetSource::of(self, limits)? else {
            return Ok(None);
        };
        let (mut sets, is_ordered) = (StoredSets::default(), stored.is_ordered());
        stored.for_each(|_, uses, contents| sets.push(contents, uses))?;
        Ok(Some(if is_ordered {
            sets.done()
        } else {
            sets.reordered()
        }))
    }

    /// Whether contents stand in the order of the places of the one segment, so that its sets are
    /// in order, too.
    pub(super) fn has_stored_order(&self) -> bool {
        self.content_at.iter().all(|places| {
            places
                .iter()
                .filter(|&&content| content != NONE)
                .is_sorted_by(|one, two| one < two)
        })
    }

    /// All sets, leaving out some blots, and how many blots of each content were left out.
    pub fn sets_without(
        &self,
        left_out: &ExcludedBlots<'_>,
        threads: usize,
    ) -> Result<(Sets, Vec<u32>)> {
        let ranges = self.ranges();
        let sorting = Inversion {
            bits: self.bits,
            documents: 0,
            threads,
            ranges: &ranges,
            spill: None,
        };
        let counter = || CountSetsWithout {
            merger: self.merger(),
            left_out,
            of: vec![0; self.contents.len()],
        };
        let (inverted, counters) = sorting.run::<u64, _>(counter)?;
        let mut of = vec![0; self.contents.len()];
        for counter in counters {
            of.iter_mut()
                .zip(counter.of)
                .for_each(|(sum, more)| *sum += more);
        }
        Ok((inverted.sets, of))
    }

    /// Calls `each` with every blot and its contents, one or more, in rising order of both.
    pub fn for_each_blot(&self, mut each: impl FnMut(Blot, &[u32]) -> Result<()>) -> Result<()> {
        let mut merger = self.merger();
        for slices in self.ranges() {
            merger.for_each(&slices, |blot, found, dictionary| match found {
                MergedTarget::One(content) => each(Blot::new(blot), &[content]),
                MergedTarget::Set(set) => each(Blot::new(blot), dictionary.get(set)),
            })?;
        }
        Ok(())
    }

    /// Calls `each` with every blot of several contents in rising order, and with what `of` makes
    /// of these contents; `of` runs on many threads.
    pub fn for_each_shared<T: Send>(
        &self,
        threads: usize,
        of: impl Fn(&[u32]) -> T + Sync,
        mut each: impl FnMut(Blot, T) -> Result<()>,
    ) -> Result<()> {
        let (ranges, of) = (self.ranges(), &of);
        let worker = || {
            let mut merger = self.merger();
            move |slices: &Range<usize>| -> Result<Vec<(Blot, T)>> {
                let mut found = Vec::new();
                merger.for_each(slices, |blot, posted, sets| {
                    if let MergedTarget::Set(set) = posted {
                        found.push((Blot::new(blot), of(sets.get(set))));
                    }
                    Ok(())
                })?;
                Ok(found)
            }
        };
        // Not a rayon iterator: `each` takes the blots in order while later ones are merged, so that
        // few are in memory at once.
        let source = ranges.iter();
        parallel::ordered_items(threads, source, worker, |found: Result<Vec<_>>| {
            found?.into_iter().try_for_each(|(blot, of)| each(blot, of))
        })
    }

    /// The dictionary, if there is one, with the numbers of contents.
    pub fn words(&self) -> Option<WordMerger<'_>> {
        WordMerger::new(&self.segments, &self.content_at)
    }

    /// Merges blots with the numbers of contents.
    pub(super) fn merger(&self) -> Merger<'_> {
        Merger::new(self.bits, &self.segments, &self.content_at)
    }

    /// All slices, in ranges to be worked on one by one; none crosses the border of a bucket.
    pub(super) fn ranges(&self) -> Vec<Range<usize>> {
        if self.postings() < FINE_POSTINGS {
            return whole_buckets();
        }
        let width = (SLICES as u64 * RANGE_BLOTS / self.stored_blots().max(1))
            .clamp(1, (SLICES / BUCKETS) as u64)
            .ilog2();
        (0..SLICES >> width)
            .map(|range| range << width..(range + 1) << width)
            .collect()
    }

    /// Blots of all segments, whether they still count or not.
    pub fn stored_blots(&self) -> u64 {
        self.segments
            .iter()
            .flat_map(|segment| &segment.parts)
            .map(|part| part.shared_blots() + part.single_blots())
            .sum()
    }

    /// All documents in order, as they are rewritten.
    pub(super) fn to_documents(&self) -> Result<DocumentTable> {
        let first = |content: ContentNo| self.documents_of(content)[0];
        let mut documents = DocumentTable::default();
        for document in DocNo::first(self.documents.len()) {
            let (row, content) = (self.row(document)?, self.content_of(document));
            let row = match self.numbering {
                // A document that is gone is never looked up, and two of them may have had one id.
                Renumbering::Fixed(RowFilter::Undocumented) => {
                    documents.push(&row.number.to_string(), &row);
                    continue;
                }
                Renumbering::Fixed(RowFilter::Documented) => row,
                Renumbering::Dense => row.numbered(document.get(), first(content).get()),
                Renumbering::Kept if content == NO_CONTENT => row,
                Renumbering::Kept => row.numbered(row.number, self.row(first(content))?.number),
            };
            documents.push(&self.id(document)?, &row);
        }
        Ok(documents)
    }

    /// For each segment and place, the document that its postings are written for; `u32::MAX` if
    /// they do not count any more.
    pub(super) fn targets(&self) -> Result<Vec<Vec<u32>>> {
        if !matches!(self.numbering, Renumbering::Fixed(_)) {
            return Ok(self.document_at());
        }
        let mut targets: Vec<Vec<u32>> = self
            .content_at
            .iter()
            .map(|places| vec![NONE; places.len()])
            .collect();
        for (document, listed) in DocNo::first(self.documents.len())
            .zip(&self.documents)
            .filter(|(_, listed)| listed.content != NO_CONTENT)
        {
            if !self.row(document)?.is_alias() {
                targets[listed.segment as usize][listed.place as usize] = document.get();
            }
        }
        Ok(targets)
    }

    /// For each segment and place, the first document of the content there; `u32::MAX` if its
    /// postings do not count any more.
    pub fn document_at(&self) -> Vec<Vec<u32>> {
        let of = |&content: &u32| {
            if content == NONE {
                NONE
            } else {
                self.documents_of(ContentNo::new(content))[0].get()
            }
        };
        self.content_at
            .iter()
            .map(|places| places.iter().map(of).collect())
            .collect()
    }

    /// Pairs of a content and a blot that it has in the index.
    pub fn postings(&self) -> u64 {
        self.contents
            .iter()
            .map(|content| u64::from(content.posted))
            .sum()
    }
}
