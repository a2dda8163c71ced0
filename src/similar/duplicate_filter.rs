//! Which documents of a collection can go, because nearly all of each is in one that stays.
//!
//! Documents are visited in order of preference, and each is decided at once: it stays, unless enough of it is in a single document that stays.
//! Only documents that stay are looked at, so there are no chains, and a thousand copies of a text cost a thousand comparisons with the one that stays.
//!
//! The sets of a document are taken rarest first. Before so much was passed over that what is left cannot be enough, the documents that stay in each set become
//! candidates; after that they are only counted on. A sentence that many documents have, and that is little of each, is never looked at.

use super::{
    ranked_sets::{ContentSets, RankedSets},
    scores::{DocumentSize, Measure, Overlap, Score},
};
use crate::base::num::{ToU32, ToU64, ToUsize};

/// What becomes of a document. Documents that stay are numbered in the order in which they were visited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DuplicateDecision {
    Keep,
    /// A document that stays has the same tokens.
    ExactDuplicate {
        of: u32,
        shared: u32,
    },
    /// Enough of it is in a document that stays; of several, that which has most of it, and of these the one visited first.
    NearDuplicate {
        of: u32,
        shared: u32,
        share: f64,
    },
}

/// Decides one document after the other.
///
/// Memory: beside the lists 8 bytes for each member of a set, 16 for each set and 20 for each content.
pub struct DuplicateFilter<'l> {
    lists: &'l RankedSets,
    measure: Measure,
    forward: ContentSets,
    /// The documents that stay, set by set, by rising number; there is room for all members of a set.
    staying: Vec<u32>,
    starts: Vec<usize>,
    counts: Vec<u32>,
    /// The rank of each document that stays.
    ranks: Vec<u32>,
    /// For each content the document with it that stays.
    stays: Vec<Option<u32>>,
    /// What each document that stays shares with the one that is visited; 0 but for candidates.
    shared: Vec<u32>,
    candidates: Vec<u32>,
    /// Members of sets that were looked at.
    pub work: u64,
}

impl<'l> DuplicateFilter<'l> {
    /// `measure`: [`Score::Inclusion`], the share of the document that goes, or [`Score::Jaccard`].
    pub fn new(lists: &'l RankedSets, measure: Measure) -> Self {
        let starts: Vec<usize> = (0..lists.sets())
            .scan(0, |end, set| {
                let start = *end;
                *end += lists.members(set).len();
                Some(start)
            })
            .collect();
        Self {
            lists,
            measure,
            forward: lists.content_sets(|_| true),
            staying: vec![0; lists.members_count().to_usize()],
            counts: vec![0; starts.len()],
            starts,
            ranks: Vec::new(),
            stays: vec![None; lists.contents()],
            shared: Vec::new(),
            candidates: Vec::new(),
            work: 0,
        }
    }

    /// Decides the next document, by its content.
    pub fn visit(&mut self, content: u32) -> DuplicateDecision {
        let rank = self.lists.rank_of(content);
        if let Some(of) = self.stays[content.to_usize()] {
            return DuplicateDecision::ExactDuplicate {
                of,
                shared: self.lists.size(rank).blots,
            };
        }
        let verdict = self.nearest(rank);
        if verdict == DuplicateDecision::Keep {
            self.keep(rank, content);
        }
        verdict
    }

    fn keep(&mut self, rank: u32, content: u32) {
        let number = self.ranks.len().to_u32();
        self.stays[content.to_usize()] = Some(number);
        self.ranks.push(rank);
        self.shared.push(0);
        for &set in self.forward.of(rank) {
            let count = &mut self.counts[set.to_usize()];
            self.staying[self.starts[set.to_usize()] + count.to_usize()] = number;
            *count += 1;
        }
    }

    /// Finds the document that stays and has most of this one, if it is enough.
    fn nearest(&mut self, rank: u32) -> DuplicateDecision {
        let forward = std::mem::take(&mut self.forward);
        let verdict = self.nearest_in(self.lists.size(rank), forward.of(rank));
        self.forward = forward;
        verdict
    }

    fn nearest_in(&mut self, size: DocumentSize, sets: &[u32]) -> DuplicateDecision {
        let mut left: u32 = sets
            .iter()
            .fold(0, |sum, &set| sum.saturating_add(self.lists.weight(set)));
        let mut candidates = std::mem::take(&mut self.candidates);
        for &set in sets {
            let can_begin = self.can_be_enough(size, left);
            if !can_begin && candidates.is_empty() {
                break;
            }
            let start = self.starts[set.to_usize()];
            let staying = &self.staying[start..start + self.counts[set.to_usize()].to_usize()];
            let weight = self.lists.weight(set);
            if can_begin {
                self.work += staying.len().to_u64();
                begin(staying, weight, &mut self.shared, &mut candidates);
            } else {
                self.work += count_on(staying, weight, &mut self.shared, &candidates);
            }
            left -= weight.min(left);
            if !can_begin || !self.can_be_enough(size, left) {
                self.drop_hopeless(size, left, &mut candidates);
            }
        }
        let verdict = self.best(size, &candidates);
        candidates
            .drain(..)
            .for_each(|number| self.shared[number.to_usize()] = 0);
        self.candidates = candidates;
        verdict
    }

    /// Whether any document can have enough of this one with so much in common: both measures are at most the share of this one.
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

    fn drop_hopeless(&mut self, size: DocumentSize, left: u32, candidates: &mut Vec<u32>) {
        candidates.retain(|&number| {
            let (other, have) = (
                self.lists.size(self.ranks[number.to_usize()]),
                &mut self.shared[number.to_usize()],
            );
            let most = have.saturating_add(left).min(other.blots);
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

    fn best(&self, size: DocumentSize, candidates: &[u32]) -> DuplicateDecision {
        let is_enough = |&&number: &&u32| {
            let (other, shared) = (
                self.lists.size(self.ranks[number.to_usize()]),
                self.shared[number.to_usize()],
            );
            self.measure.accepts(
                size,
                other,
                Overlap {
                    shared,
                    rarity: 0.0,
                },
            )
        };
        let best = candidates
            .iter()
            .filter(is_enough)
            .max_by_key(|&&number| (self.shared[number.to_usize()], std::cmp::Reverse(number)));
        best.map_or(DuplicateDecision::Keep, |&of| {
            let shared = self.shared[of.to_usize()];
            DuplicateDecision::NearDuplicate {
                of,
                shared,
                share: f64::from(shared) / f64::from(size.blots),
            }
        })
    }
}

/// Counts a set for all documents of it, which become candidates.
fn begin(staying: &[u32], weight: u32, shared: &mut [u32], candidates: &mut Vec<u32>) {
    for &number in staying {
        let count = &mut shared[number.to_usize()];
        if *count == 0 {
            candidates.push(number);
        }
        *count = count.saturating_add(weight);
    }
}

/// Counts a set for those of its documents that are candidates, by walking it or by looking each of them up; gives the steps that it took.
fn count_on(staying: &[u32], weight: u32, shared: &mut [u32], candidates: &[u32]) -> u64 {
    let steps = candidates.len() * (staying.len().max(1).ilog2().to_usize() + 2);
    if steps >= staying.len() {
        for &number in staying {
            let count = &mut shared[number.to_usize()];
            *count = if *count > 0 {
                count.saturating_add(weight)
            } else {
                0
            };
        }
        return staying.len().to_u64();
    }
    for &number in candidates {
        if staying.binary_search(&number).is_ok() {
            shared[number.to_usize()] = shared[number.to_usize()].saturating_add(weight);
        }
    }
    steps.to_u64()
}
