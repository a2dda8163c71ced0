//! One document against an index: which others share text with it, ranked.
//!
//! Blots are looked up one by one; those that lead to the same set are counted together, so that a set is walked once, however many
//! windows of a passage lead to it.

use super::scores::{DocumentSize, Measure, Overlap};
use crate::base::num::{ToF64, ToU32, ToUsize};
use crate::{
    base::error::Result,
    index::{At, Index, Posted},
};
use std::{
    borrow::Cow,
    collections::{BinaryHeap, HashMap, HashSet},
};

/// A document that shares text with the one that was asked about.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchMatch {
    pub document: At,
    pub shared: u32,
    /// Its blots that count.
    pub blots: u32,
    pub score: f64,
}

/// What to look for.
pub struct IndexSearch<'i> {
    pub index: &'i Index,
    pub measure: Measure,
    /// The best so many.
    pub top: usize,
    /// Blots of more documents do not count.
    pub max_df: u64,
    pub excluded: ExcludedBlots<'i>,
}

/// Text that does not count.
#[derive(Default)]
pub struct ExcludedBlots<'i> {
    blots: HashSet<u64>,
    /// How many of these blots each content has.
    of: HashMap<At, u32>,
    indexes: &'i [Index],
}

impl<'i> ExcludedBlots<'i> {
    /// Leaves out these blots, and those of whole indexes. Of the documents in `index` only the former can be taken off.
    pub fn new(index: &Index, blots: HashSet<u64>, indexes: &'i [Index]) -> Result<Self> {
        let (mut of, mut found) = (HashMap::new(), Vec::new());
        for &blot in &blots {
            index.find(blot, &mut found)?;
            found.iter().for_each(|&at| *of.entry(at).or_default() += 1);
        }
        Ok(Self { blots, of, indexes })
    }

    /// The blots that count.
    fn without<'b>(&self, blots: &'b [u64], found: &mut Vec<At>) -> Result<Cow<'b, [u64]>> {
        if self.blots.is_empty() && self.indexes.is_empty() {
            return Ok(Cow::Borrowed(blots));
        }
        let mut kept = Vec::with_capacity(blots.len());
        for &blot in blots {
            if !self.contains(blot, found)? {
                kept.push(blot);
            }
        }
        Ok(Cow::Owned(kept))
    }

    fn contains(&self, blot: u64, found: &mut Vec<At>) -> Result<bool> {
        if self.blots.contains(&blot) {
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

/// Says by its id whether a document is wanted.
pub type IdFilter<'w> = dyn Fn(&str) -> bool + 'w;

/// What a thread works with: four bytes a document, twelve for s4; touched only where something is found.
#[derive(Default)]
pub struct SearchScratch {
    segments: Vec<Counts>,
    /// What blots lead to, as one number each.
    posted: Vec<u64>,
    places: Vec<u32>,
    copies: HashMap<At, u32>,
    found: Vec<At>,
}

/// A content that reaches the threshold.
struct Candidate {
    score: f64,
    content: At,
    shared: u32,
    blots: u32,
}

#[derive(Default)]
struct Counts {
    shared: Vec<u32>,
    rarity: Vec<f64>,
    touched: Vec<u32>,
}

impl Counts {
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

/// So many blots are looked up at once. After that, memory that was mapped for them may be let go of.
const AT_ONCE: usize = 64;
/// For how many blots at once the postings are kept in memory: 2 MB.
const MOST_POSTED: usize = 1 << 18;

impl IndexSearch<'_> {
    /// The best matches of a document with these distinct blots, and how many of its blots count. `side` is the document; it may have
    /// more blots than are given, which no document of the index has. Those of equal score stand in the order of their ids.
    ///
    /// `is_lean`: little memory is worth more than speed. `wanted`: others are passed over.
    pub fn matches(
        &self,
        blots: &[u64],
        side: DocumentSize,
        scratch: &mut SearchScratch,
        is_lean: bool,
        wanted: Option<&IdFilter<'_>>,
    ) -> Result<(Vec<SearchMatch>, u32)> {
        self.prepare(scratch);
        let kept = self.excluded.without(blots, &mut scratch.found)?;
        let mut counted = side
            .blots
            .saturating_sub((blots.len() - kept.len()).to_u32());
        if self.measure.score.needs_rarity() || self.max_df < u64::MAX {
            self.count_with_df(&kept, &mut counted, scratch)?;
        } else {
            for segment in 0..self.index.segments.len() {
                self.count(segment, &kept, scratch, is_lean)?;
            }
        }
        let side = DocumentSize { blots: counted };
        let found = self.accepted(side, scratch)?;
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
            scratch.segments.push(Counts {
                shared: vec![0; documents],
                rarity,
                touched: Vec::new(),
            });
        }
    }

    /// Looks up all blots in a segment, and counts what they lead to.
    fn count(
        &self,
        segment: usize,
        blots: &[u64],
        scratch: &mut SearchScratch,
        is_lean: bool,
    ) -> Result<()> {
        // A document of hundreds of megabytes has millions of blots.
        blots
            .chunks(MOST_POSTED)
            .try_for_each(|blots| self.count_some(segment, blots, scratch, is_lean))
    }

    fn count_some(
        &self,
        segment: usize,
        blots: &[u64],
        scratch: &mut SearchScratch,
        is_lean: bool,
    ) -> Result<()> {
        let searched = &self.index.segments[segment];
        let mut found = Vec::with_capacity(AT_ONCE);
        scratch.posted.clear();
        for some in blots.chunks(AT_ONCE) {
            found.clear();
            searched.find_all(some, self.index.scheme.bits, &mut found)?;
            scratch
                .posted
                .extend(found.iter().flatten().map(|posted| match *posted {
                    Posted::Set(set) => u64::from(set) << 1,
                    Posted::One(place) => u64::from(place) << 1 | 1,
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
                Posted::One((key >> 1).to_u32())
            } else {
                Posted::Set((key >> 1).to_u32())
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

    /// The same blot by blot, where it counts how many documents each has.
    fn count_with_df(
        &self,
        blots: &[u64],
        counted: &mut u32,
        scratch: &mut SearchScratch,
    ) -> Result<()> {
        let mut found = std::mem::take(&mut scratch.found);
        for &blot in blots {
            self.index.find(blot, &mut found)?;
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

    /// How many documents have a content.
    fn copies(&self, at: At, scratch: &mut SearchScratch) -> Result<u32> {
        if let Some(&copies) = scratch.copies.get(&at) {
            return Ok(copies);
        }
        let copies = self.index.documents_of(at)?.len().to_u32();
        scratch.copies.insert(at, copies);
        Ok(copies)
    }

    /// Contents that reach the threshold; the counts are at zero again.
    fn accepted(&self, side: DocumentSize, scratch: &mut SearchScratch) -> Result<Vec<Candidate>> {
        let mut found = Vec::new();
        for (segment, counts) in scratch.segments.iter_mut().enumerate() {
            for place in counts.touched.drain(..) {
                let shared = std::mem::take(&mut counts.shared[place.to_usize()]);
                let rarity = counts
                    .rarity
                    .get_mut(place.to_usize())
                    .map(std::mem::take)
                    .unwrap_or_default();
                let at = At { segment, place };
                let row = self.index.row(at)?;
                if !self.index.is_posted(segment, row.number)? {
                    continue;
                }
                let blots = row
                    .blots
                    .saturating_sub(self.excluded.of.get(&at).copied().unwrap_or_default())
                    .max(shared);
                let (other, overlap) = (DocumentSize { blots }, Overlap { shared, rarity });
                if self.measure.accepts(side, other, overlap) {
                    let score = self.measure.score(side, other, overlap);
                    // Sums of the same in another order differ in their last digits; documents that are equally good must be so.
                    let score = if self.measure.score.needs_rarity() {
                        (score * 1e9).round() / 1e9
                    } else {
                        score
                    };
                    found.push(Candidate {
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

    /// The best ones, each with all its documents: by falling score, then by id.
    fn ranked(
        &self,
        mut found: Vec<Candidate>,
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

    /// The first `count` documents of some contents, by id. Memory: no more than `count` ids, however many documents there are.
    fn first_by_id(
        &self,
        contents: &[Candidate],
        count: usize,
        wanted: Option<&IdFilter<'_>>,
    ) -> Result<Vec<SearchMatch>> {
        let mut first: BinaryHeap<(String, usize, At)> = BinaryHeap::new();
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
        let to_match = |(_, which, document): (String, usize, At)| {
            let Candidate {
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
