//! Decides which documents of a collection can be dropped, because nearly all of each is in a kept
//! one.
//!
//! Documents are visited in order of preference, and each is decided at once: it is kept unless
//! enough of it is in a single kept document. Only kept documents are compared, so there are no
//! chains, and a thousand copies of a text cost a thousand comparisons with the kept one.
//!
//! The sets of a document are visited rarest first. As long as the remaining blots suffice, the
//! kept documents of each set become candidates; after that, only candidates are counted. A
//! sentence that many documents have, and that is a small part of each, is never visited.
//!
//! Where the sets of all documents exceed the memory, documents are visited in lots: a lot has the
//! sets of its documents, and for each set the documents that were kept in earlier lots.

use super::{
    copy_lists::CopyLists,
    discovery::Discovery,
    ranked_sets::{ContentSets, RankedSets},
    scores::{DocumentSize, Measure, Overlap, Score},
};
use crate::base::error::Result;
use crate::base::ids::{ContentNo, ContentRank, SetRank};
use crate::base::num::{ToU32, ToU64, ToUsize};

/// The decision on a document. Kept documents are numbered in the order in which they were visited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DuplicateDecision {
    /// It is kept.
    Keep,
    /// A kept document has the same tokens.
    ExactDuplicate {
        /// The kept document.
        of: u32,
        /// The number of shared blots.
        shared: u32,
    },
    /// Enough of it is in a kept document: the one with the largest share, and among equals the first
    /// visited.
    NearDuplicate {
        /// The kept document.
        of: u32,
        /// The number of shared blots.
        shared: u32,
        /// The share of the dropped document that the kept one has.
        share: f64,
    },
}

/// Decides document by document.
///
/// Memory besides the sets of a lot: 8 bytes per member of a set, 16 per set and 20 per content.
pub struct DuplicateFilter<'l> {
    discovery: &'l Discovery<'l>,
    /// The contents, and all sets, unless they must be loaded.
    ranked: &'l RankedSets,
    measure: Measure,
    /// The sets of the lot, if not all are in memory.
    loaded: Option<RankedSets>,
    content_sets: ContentSets,
    /// The kept documents of each set, ascending; there is room for all members of a set.
    kept_members: Vec<u32>,
    starts: Vec<usize>,
    counts: Vec<u32>,
    /// The rank of each kept document.
    ranks: Vec<ContentRank>,
    /// For each content: the kept document with it.
    kept_of_content: Vec<Option<u32>>,
    /// The blots that each kept document shares with the visited one; 0 unless it is a candidate.
    shared: Vec<u32>,
    candidates: Vec<u32>,
    /// The kept document that is compared with the others.
    itself: Option<u32>,
    /// What was found elsewhere.
    copies: Option<&'l CopyLists>,
    listed: Vec<(ContentNo, u32)>,
    /// The number of visited members of sets.
    pub work: u64,
}

impl<'l> DuplicateFilter<'l> {
    /// Keeps all documents until they are visited. `measure`: [`Score::Inclusion`], the share of
    /// the dropped document, or [`Score::Jaccard`].
    pub fn new(discovery: &'l Discovery<'l>, measure: Measure) -> Self {
        let ranked = &discovery.sets;
        Self {
            discovery,
            ranked,
            measure,
            loaded: None,
            content_sets: ContentSets::default(),
            kept_members: Vec::new(),
            counts: Vec::new(),
            starts: Vec::new(),
            ranks: Vec::new(),
            kept_of_content: vec![None; ranked.contents()],
            shared: Vec::new(),
            candidates: Vec::new(),
            itself: None,
            copies: None,
            listed: Vec::new(),
            work: 0,
        }
    }

    /// Takes from these lists which documents have enough of which, as far as they say: decisions
    /// are the same without them.
    pub fn with_copies(self, copies: Option<&'l CopyLists>) -> Self {
        Self { copies, ..self }
    }

    /// Calls `visit` with the place of each of these contents, in order. Only these can be visited
    /// then.
    pub fn in_lots(
        &mut self,
        contents: &[ContentNo],
        mut visit: impl FnMut(&mut Self, usize),
    ) -> Result<()> {
        let mut next = 0;
        while next < contents.len() {
            let end = self.load(contents, next)?;
            (next..end).for_each(|place| visit(self, place));
            next = end;
        }
        Ok(())
    }

    /// Loads the sets of contents from a place on, as many as memory allows, and the kept documents
    /// of these sets. Returns the place after them.
    fn load(&mut self, contents: &[ContentNo], start: usize) -> Result<usize> {
        let (lot, is_wanted) = if self.ranked.is_partial() {
            let of_place = |place: usize, each: &mut dyn FnMut(ContentNo)| each(contents[place]);
            self.discovery.next_lot(start..contents.len(), &of_place)
        } else {
            (start..contents.len(), vec![true; self.ranked.contents()])
        };
        // The sets of the lot before go first.
        self.loaded = None;
        self.content_sets = ContentSets::default();
        let is_wanted = |rank: ContentRank| is_wanted[rank.index()];
        self.loaded = self.discovery.load_lot(is_wanted)?;
        let ranked = self.loaded.as_ref().unwrap_or(self.ranked);
        self.content_sets = ranked.content_sets(is_wanted);
        self.kept_members.clear();
        self.starts.clear();
        self.counts.clear();
        for set in ranked.sets() {
            let (start, members) = (self.kept_members.len(), ranked.members(set));
            let kept = members
                .iter()
                .filter_map(|&rank| self.kept_of_content[ranked.content_of_rank(rank).index()]);
            self.kept_members.extend(kept);
            self.kept_members[start..].sort_unstable();
            self.starts.push(start);
            self.counts.push((self.kept_members.len() - start).to_u32());
            self.kept_members.resize(start + members.len(), 0);
        }
        Ok(lot.end)
    }

    /// The sets of the lot.
    fn sets(&self) -> &RankedSets {
        self.loaded.as_ref().unwrap_or(self.ranked)
    }

    /// Decides on the next document, given its content.
    pub fn visit(&mut self, content: ContentNo) -> DuplicateDecision {
        let rank = self.ranked.rank_of(content);
        if let Some(of) = self.kept_of_content[content.index()] {
            return DuplicateDecision::ExactDuplicate {
                of,
                shared: self.ranked.size(rank).blots,
            };
        }
        let decision = self.nearest(content);
        if decision == DuplicateDecision::Keep {
            self.keep(rank, content);
        }
        decision
    }

    /// Keeps a content without comparing it: a document of another collection, or one of many that are all compared with each other.
    /// Returns its number among the kept ones.
    pub fn keep_always(&mut self, content: ContentNo) -> u32 {
        if let Some(number) = self.kept_of_content[content.index()] {
            return number;
        }
        self.keep(self.ranked.rank_of(content), content);
        self.ranks.len().to_u32() - 1
    }

    /// Finds the kept document that has most of one that is kept itself, if that is enough.
    pub fn nearest_other(&mut self, content: ContentNo) -> DuplicateDecision {
        self.itself = self.kept_of_content[content.index()];
        let decision = self.nearest(content);
        self.itself = None;
        decision
    }

    fn keep(&mut self, rank: ContentRank, content: ContentNo) {
        let number = self.ranks.len().to_u32();
        self.kept_of_content[content.index()] = Some(number);
        self.ranks.push(rank);
        self.shared.push(0);
        // Before the first lot there are no sets.
        for &set in self.content_sets.of_known(rank) {
            let count = &mut self.counts[set.index()];
            self.kept_members[self.starts[set.index()] + count.to_usize()] = number;
            *count += 1;
        }
    }

    /// Finds the kept document that has most of this one, if that is enough.
    fn nearest(&mut self, content: ContentNo) -> DuplicateDecision {
        let rank = self.ranked.rank_of(content);
        let mut listed = std::mem::take(&mut self.listed);
        let is_listed = self
            .copies
            .is_some_and(|copies| copies.read(content, &mut listed));
        let decision = if is_listed {
            self.work += listed.len().to_u64();
            let kept = listed.iter().filter_map(|&(other, shared)| {
                Some((self.kept_of_content[other.index()]?, shared))
            });
            self.best(self.ranked.size(rank), kept)
        } else {
            self.nearest_by_sets(rank)
        };
        self.listed = listed;
        decision
    }

    fn nearest_by_sets(&mut self, rank: ContentRank) -> DuplicateDecision {
        let content_sets = std::mem::take(&mut self.content_sets);
        let decision = self.nearest_in(self.ranked.size(rank), content_sets.of(rank));
        self.content_sets = content_sets;
        decision
    }

    fn nearest_in(&mut self, size: DocumentSize, sets: &[SetRank]) -> DuplicateDecision {
        let mut remaining: u32 = sets
            .iter()
            .fold(0, |sum, &set| sum.saturating_add(self.sets().weight(set)));
        let mut candidates = std::mem::take(&mut self.candidates);
        for &set in sets {
            let can_add = self.can_be_enough(size, remaining);
            if !can_add && candidates.is_empty() {
                break;
            }
            let start = self.starts[set.index()];
            let kept_members =
                &self.kept_members[start..start + self.counts[set.index()].to_usize()];
            let weight = self.sets().weight(set);
            if can_add {
                self.work += kept_members.len().to_u64();
                add_candidates(kept_members, weight, &mut self.shared, &mut candidates);
            } else {
                self.work += count_candidates(kept_members, weight, &mut self.shared, &candidates);
            }
            remaining -= weight.min(remaining);
            if !can_add || !self.can_be_enough(size, remaining) {
                self.drop_hopeless(size, remaining, &mut candidates);
            }
        }
        let shared = |&number: &u32| (number, self.shared[number.to_usize()]);
        let decision = self.best(size, candidates.iter().map(shared));
        candidates
            .drain(..)
            .for_each(|number| self.shared[number.to_usize()] = 0);
        self.candidates = candidates;
        decision
    }

    /// Whether any document can have enough of this one with this many shared blots: both measures
    /// are at most the share of this one.
    fn can_be_enough(&self, size: DocumentSize, shared: u32) -> bool {
        let of_itself = Measure {
            score: Score::Inclusion,
            ..self.measure
        };
        of_itself.accepts(
            size,
            size,
            Overlap {
                shared,
                rarity: 0.0,
            },
        )
    }

    fn drop_hopeless(&mut self, size: DocumentSize, remaining: u32, candidates: &mut Vec<u32>) {
        candidates.retain(|&number| {
            let (other, have) = (
                self.ranked.size(self.ranks[number.to_usize()]),
                &mut self.shared[number.to_usize()],
            );
            let most = have.saturating_add(remaining).min(other.blots);
            let is_kept = self.measure.accepts(
                size,
                other,
                Overlap {
                    shared: most,
                    rarity: 0.0,
                },
            );
            if !is_kept {
                *have = 0;
            }
            is_kept
        });
    }

    /// Of kept documents, and the blots that each shares with this one, the one that has most of it.
    fn best(
        &self,
        size: DocumentSize,
        candidates: impl Iterator<Item = (u32, u32)>,
    ) -> DuplicateDecision {
        let is_enough = |&(number, shared): &(u32, u32)| {
            let other = self.ranked.size(self.ranks[number.to_usize()]);
            self.measure.accepts(size, other, Overlap::of_blots(shared))
        };
        let best = candidates
            .filter(|(number, _)| self.itself != Some(*number))
            .filter(is_enough)
            .max_by_key(|&(number, shared)| (shared, std::cmp::Reverse(number)));
        best.map_or(DuplicateDecision::Keep, |(of, shared)| {
            DuplicateDecision::NearDuplicate {
                of,
                shared,
                share: f64::from(shared) / f64::from(size.blots),
            }
        })
    }
}

/// Counts a set for all its kept documents, which become candidates.
fn add_candidates(
    kept_members: &[u32],
    weight: u32,
    shared: &mut [u32],
    candidates: &mut Vec<u32>,
) {
    for &number in kept_members {
        let count = &mut shared[number.to_usize()];
        if *count == 0 {
            candidates.push(number);
        }
        *count = count.saturating_add(weight);
    }
}

/// Counts a set for its candidates, by walking it or by looking each of them up; returns the steps
/// that it took.
fn count_candidates(
    kept_members: &[u32],
    weight: u32,
    shared: &mut [u32],
    candidates: &[u32],
) -> u64 {
    let steps = candidates.len() * (kept_members.len().max(1).ilog2().to_usize() + 2);
    if steps >= kept_members.len() {
        for &number in kept_members {
            let count = &mut shared[number.to_usize()];
            *count = if *count > 0 {
                count.saturating_add(weight)
            } else {
                0
            };
        }
        return kept_members.len().to_u64();
    }
    for &number in candidates {
        if kept_members.binary_search(&number).is_ok() {
            shared[number.to_usize()] = shared[number.to_usize()].saturating_add(weight);
        }
    }
    steps.to_u64()
}
