//! Searches an index for documents that share text with one document, ranked.
//!
//! Blots are looked up one by one. Those that lead to the same set are counted together, so a set
//! is walked once, however many windows of a passage lead to it.

use super::scores::{DocumentSize, Measure, Overlap};
use crate::base::ids::{Blot, SetNo};
use crate::base::num::{ToF64, ToU32, ToUsize};
use crate::{
    base::error::Result,
    index::{BlotTarget, Index, RowLocation},
};
use std::{
    borrow::Cow,
    collections::{BinaryHeap, HashMap, HashSet},
};

/// A document of the index that shares text with the query.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchMatch {
    /// The document.
    pub document: RowLocation,
    /// The number of shared blots.
    pub shared: u32,
    /// The number of its blots that count.
    pub blots: u32,
    /// The score.
    pub score: f64,
}

/// A search in an index.
pub struct IndexSearch<'i> {
    /// The index.
    pub index: &'i Index,
    /// The score and its threshold.
    pub measure: Measure,
    /// The most matches to return.
    pub top: usize,
    /// Blots of more documents are ignored.
    pub max_df: u64,
    /// Blots that are ignored.
    pub excluded: ExcludedBlots<'i>,
}

/// Blots that are ignored.
#[derive(Default)]
pub struct ExcludedBlots<'i> {
    blots: HashSet<u64>,
    /// The number of these blots that each content has.
    of: HashMap<RowLocation, u32>,
    indexes: &'i [Index],
}

impl<'i> ExcludedBlots<'i> {
    /// Ignores these blots, and those of whole indexes. Only the former can be subtracted from the
    /// documents of `index`.
    pub fn new(index: &Index, blots: HashSet<u64>, indexes: &'i [Index]) -> Result<Self> {
        let (mut of, mut found) = (HashMap::new(), Vec::new());
        for &blot in &blots {
            index.find(Blot::new(blot), &mut found)?;
            found.iter().for_each(|&at| *of.entry(at).or_default() += 1);
        }
        Ok(Self { blots, of, indexes })
    }

    /// The blots that count.
    fn without<'b>(
        &self,
        blots: &'b [u64],
        found: &mut Vec<RowLocation>,
    ) -> Result<Cow<'b, [u64]>> {
        if self.blots.is_empty() && self.indexes.is_empty() {
            return Ok(Cow::Borrowed(blots));
        }
        let mut kept = Vec::with_capacity(blots.len());
        for &blot in blots {
            if !self.contains(Blot::new(blot), found)? {
                kept.push(blot);
            }
        }
        Ok(Cow::Owned(kept))
    }

    fn contains(&self, blot: Blot, found: &mut Vec<RowLocation>) -> Result<bool> {
        if self.blots.contains(&blot.get()) {
            return Ok(true);
        }
        for index in self.indexes {
            index.find(blot, found)?;
            if !found.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether to report a document with this id.
pub type IdFilter<'w> = dyn Fn(&str) -> bool + 'w;

/// The buffers of a thread: four bytes per document, twelve if the score needs rarity; only touched
/// where something is found.
#[derive(Default)]
pub struct SearchScratch {
    segments: Vec<SegmentCounts>,
    /// The set or document of each blot, as one number.
    posted: Vec<u64>,
    places: Vec<u32>,
    copies: HashMap<RowLocation, u32>,
    found: Vec<RowLocation>,
}

/// A content that reaches the threshold.
struct ScoredContent {
    score: f64,
    content: RowLocation,
    shared: u32,
    blots: u32,
}

/// The shared blots of the documents of a segment.
#[derive(Default)]
struct SegmentCounts {
    shared: Vec<u32>,
    rarity: Vec<f64>,
    touched: Vec<u32>,
}

impl SegmentCounts {
    fn add(&mut self, place: u32, weight: u32, rarity: f64) {
        let shared = &mut self.shared[place.to_usize()];
        if *shared == 0 {
            self.touched.push(place);
        }
        *shared += weight;
        if let Some(sum) = self.rarity.get_mut(place.to_usize()) {
            *sum += rarity;
        }
    }
}

/// The number of blots to look up at once; after that, mapped memory may be released.
const LOOKUP_CHUNK: usize = 64;
/// The number of blots whose postings are in memory at once: 2 MB.
const POSTINGS_CHUNK: usize = 1 << 18;

impl IndexSearch<'_> {
    /// The best matches of a document with these distinct blots, and the number of its blots that
    /// count. `size` may include blots that no document of the index has, which are not given.
    /// Equal scores are sorted by id.
    ///
    /// `is_lean`: saves memory rather than time. `wanted`: skips other documents.
    pub fn matches(
        &self,
        blots: &[u64],
        size: DocumentSize,
        scratch: &mut SearchScratch,
        is_lean: bool,
        wanted: Option<&IdFilter<'_>>,
    ) -> Result<(Vec<SearchMatch>, u32)> {
        self.prepare(scratch);
        let kept = self.excluded.without(blots, &mut scratch.found)?;
        let mut counted = size
            .blots
            .saturating_sub((blots.len() - kept.len()).to_u32());
        if self.measure.score.needs_rarity() || self.max_df < u64::MAX {
            self.count_with_df(&kept, &mut counted, scratch)?;
        } else {
            for segment in 0..self.index.segments.len() {
                self.count(segment, &kept, scratch, is_lean)?;
            }
        }
        let size = DocumentSize { blots: counted };
        let found = self.accepted(size, scratch)?;
        Ok((self.ranked(found, wanted)?, counted))
    }

    fn prepare(&self, scratch: &mut SearchScratch) {
        if !scratch.segments.is_empty() {
            return;
        }
        for segment in &self.index.segments {
            let documents = segment.documents.len().to_usize();
            let rarity = if self.measure.score.needs_rarity() {
                vec![0.0; documents]
            } else {
                Vec::new()
            };
            scratch.segments.push(SegmentCounts {
                shared: vec![0; documents],
                rarity,
                touched: Vec::new(),
            });
        }
    }

    /// Looks up all blots in a segment, and counts their documents.
    fn count(
        &self,
        segment: usize,
        blots: &[u64],
        scratch: &mut SearchScratch,
        is_lean: bool,
    ) -> Result<()> {
        // A document of hundreds of megabytes has millions of blots.
        blots
            .chunks(POSTINGS_CHUNK)
            .try_for_each(|blots| self.count_chunk(segment, blots, scratch, is_lean))
    }

    fn count_chunk(
        &self,
        segment: usize,
        blots: &[u64],
        scratch: &mut SearchScratch,
        is_lean: bool,
    ) -> Result<()> {
        let searched = &self.index.segments[segment];
        let mut found = Vec::with_capacity(LOOKUP_CHUNK);
        scratch.posted.clear();
        for some in blots.chunks(LOOKUP_CHUNK) {
            found.clear();
            searched.find_all(some, self.index.scheme.bits, &mut found)?;
            scratch
                .posted
                .extend(found.iter().flatten().map(|posted| match *posted {
                    BlotTarget::Set(set) => u64::from(set.get()) << 1,
                    BlotTarget::One(place) => u64::from(place) << 1 | 1,
                }));
            if is_lean {
                self.index.release();
            }
        }
        scratch.posted.sort_unstable();
        let posted = std::mem::take(&mut scratch.posted);
        for group in posted.chunk_by(|one, two| one == two) {
            let (key, weight) = (group[0], group.len().to_u32());
            let of = if key & 1 == 1 {
                BlotTarget::One((key >> 1).to_u32())
            } else {
                BlotTarget::Set(SetNo::new((key >> 1).to_u32()))
            };
            searched.places(of, &mut scratch.places)?;
            let counts = &mut scratch.segments[segment];
            scratch
                .places
                .iter()
                .for_each(|&place| counts.add(place, weight, 0.0));
        }
        scratch.posted = posted;
        Ok(())
    }

    /// SegmentCounts blot by blot, for scores and limits that depend on the df of each blot.
    fn count_with_df(
        &self,
        blots: &[u64],
        counted: &mut u32,
        scratch: &mut SearchScratch,
    ) -> Result<()> {
        let mut found = std::mem::take(&mut scratch.found);
        for &blot in blots {
            self.index.find(Blot::new(blot), &mut found)?;
            let mut df = 0;
            for &at in &found {
                df += u64::from(self.copies(at, scratch)?);
            }
            if df > self.max_df {
                *counted -= 1;
                continue;
            }
            found
                .iter()
                .for_each(|at| scratch.segments[at.segment].add(at.place, 1, 1.0 / df.to_f64()));
        }
        scratch.found = found;
        Ok(())
    }

    /// The number of documents of a content.
    fn copies(&self, at: RowLocation, scratch: &mut SearchScratch) -> Result<u32> {
        if let Some(&copies) = scratch.copies.get(&at) {
            return Ok(copies);
        }
        let copies = self.index.documents_of(at)?.len().to_u32();
        scratch.copies.insert(at, copies);
        Ok(copies)
    }

    /// The contents that reach the threshold; resets all counts.
    fn accepted(
        &self,
        size: DocumentSize,
        scratch: &mut SearchScratch,
    ) -> Result<Vec<ScoredContent>> {
        let mut found = Vec::new();
        for (segment, counts) in scratch.segments.iter_mut().enumerate() {
            for place in counts.touched.drain(..) {
                let shared = std::mem::take(&mut counts.shared[place.to_usize()]);
                let rarity = counts
                    .rarity
                    .get_mut(place.to_usize())
                    .map(std::mem::take)
                    .unwrap_or_default();
                let at = RowLocation { segment, place };
                let row = self.index.row(at)?;
                if !self.index.is_posted(segment, row.number)? {
                    continue;
                }
                let blots = row
                    .blots
                    .saturating_sub(self.excluded.of.get(&at).copied().unwrap_or_default())
                    .max(shared);
                let (other, overlap) = (DocumentSize { blots }, Overlap { shared, rarity });
                if self.measure.accepts(size, other, overlap) {
                    let score = self.measure.score(size, other, overlap);
                    // Sums in another order differ in their last digits, but equally good documents
                    // must have equal scores.
                    let score = if self.measure.score.needs_rarity() {
                        (score * 1e9).round() / 1e9
                    } else {
                        score
                    };
                    found.push(ScoredContent {
                        score,
                        content: at,
                        shared,
                        blots,
                    });
                }
            }
        }
        Ok(found)
    }

    /// The best matches with all their documents, by falling score, then by id.
    fn ranked(
        &self,
        mut found: Vec<ScoredContent>,
        wanted: Option<&IdFilter<'_>>,
    ) -> Result<Vec<SearchMatch>> {
        found.sort_unstable_by(|one, two| two.score.total_cmp(&one.score));
        let mut matches = Vec::new();
        for tied in found.chunk_by(|one, two| one.score == two.score) {
            matches.extend(self.first_by_id(tied, self.top - matches.len(), wanted)?);
            if matches.len() >= self.top {
                break;
            }
        }
        Ok(matches)
    }

    /// The first `count` documents of some contents, by id. Memory: at most `count` ids, however
    /// many documents there are.
    fn first_by_id(
        &self,
        contents: &[ScoredContent],
        count: usize,
        wanted: Option<&IdFilter<'_>>,
    ) -> Result<Vec<SearchMatch>> {
        let mut first: BinaryHeap<(String, usize, RowLocation)> = BinaryHeap::new();
        for (which, candidate) in contents.iter().enumerate() {
            for document in self.index.documents_of(candidate.content)? {
                let id = self.index.id(document)?;
                let is_late = first.len() >= count && first.peek().is_some_and(|last| last.0 <= id);
                if is_late || wanted.is_some_and(|wanted| !wanted(&id)) {
                    continue;
                }
                first.push((id, which, document));
                if first.len() > count {
                    first.pop();
                }
            }
        }
        let to_match = |(_, which, document): (String, usize, RowLocation)| {
            let ScoredContent {
                score,
                shared,
                blots,
                ..
            } = contents[which];
            SearchMatch {
                document,
                shared,
                blots,
                score,
            }
        };
        Ok(first.into_sorted_vec().into_iter().map(to_match).collect())
    }
}
