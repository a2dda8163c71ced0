//! The neighbours of a content: all others that score at least the threshold, exactly.
//!
//! The sets of the content are taken rarest first. A partner that is met for the first time can share no more than what is left of the content, so it
//! is begun only if that would do; the contents for which it does are a range at the beginning of the set. In what is left of a set only partners
//! that were begun before are counted on, by walking it or by looking each of them up, whichever is cheaper; those that
//! cannot reach the threshold any more are dropped first. A long set comes late, when little is left to share: it costs a step, not its length.

use super::{
    ranked_sets::{ContentSets, RankedSets},
    scores::{DocumentSize, Measure, Overlap},
};
use crate::base::num::{ToU64, ToUsize};

/// A content that scores at least the threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbour {
    pub content: u32,
    pub shared: u32,
    pub score: f64,
}

/// Finds neighbours.
#[derive(Clone, Copy)]
pub struct Join<'l> {
    pub lists: &'l RankedSets,
    /// Must hold every content that is asked for.
    pub forward: &'l ContentSets,
    pub measure: &'l Measure,
}

/// What a thread works with: four bytes a content, twelve for s4.
#[derive(Default)]
pub struct JoinScratch {
    shared: Vec<u32>,
    rarity: Vec<f64>,
    candidates: Vec<u32>,
    /// What is left to share from each set on.
    pub(super) left: Vec<Overlap>,
    /// Members of sets that were looked at: what the time goes into.
    pub work: u64,
}

impl JoinScratch {
    pub(super) fn prepare(&mut self, join: &Join<'_>) {
        self.shared.resize(join.lists.contents(), 0);
        if join.measure.score.needs_rarity() {
            self.rarity.resize(join.lists.contents(), 0.0);
        }
    }

    fn overlap(&self, rank: u32) -> Overlap {
        Overlap {
            shared: self.shared[rank.to_usize()],
            rarity: self
                .rarity
                .get(rank.to_usize())
                .copied()
                .unwrap_or_default(),
        }
    }

    fn forget(&mut self, rank: u32) {
        self.shared[rank.to_usize()] = 0;
        if let Some(rarity) = self.rarity.get_mut(rank.to_usize()) {
            *rarity = 0.0;
        }
    }

    fn add(&mut self, rank: u32, more: Overlap) {
        let shared = &mut self.shared[rank.to_usize()];
        *shared = shared.wrapping_add(more.shared);
        if let Some(rarity) = self.rarity.get_mut(rank.to_usize()) {
            *rarity += more.rarity;
        }
    }

    /// Calls `each` with every candidate and what it shares, and forgets it.
    pub(super) fn drain(&mut self, mut each: impl FnMut(u32, u32)) {
        let mut candidates = std::mem::take(&mut self.candidates);
        for rank in candidates.drain(..) {
            each(rank, self.shared[rank.to_usize()]);
            self.forget(rank);
        }
        self.candidates = candidates;
    }

    /// Whether no other content was met.
    pub(super) fn has_none_but(&self, rank: u32) -> bool {
        self.candidates.iter().all(|&candidate| candidate == rank)
    }

    pub(super) fn has_candidates(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// Whether it was not met, or was dropped.
    pub(super) fn is_unseen(&self, rank: u32) -> bool {
        self.shared[rank.to_usize()] == 0
    }

    /// The number of blots that `count` candidates share, or more; 0 if there are fewer.
    pub(super) fn nth_shared(&self, count: usize) -> u32 {
        if count == 0 || self.candidates.len() < count {
            return 0;
        }
        let mut shared: Vec<u32> = self
            .candidates
            .iter()
            .map(|&rank| self.shared[rank.to_usize()])
            .collect();
        *shared
            .select_nth_unstable_by(count - 1, |one, two| two.cmp(one))
            .1
    }

    /// Drops the candidates of which `is_kept` is false, given what they share so far.
    pub(super) fn retain(&mut self, is_kept: impl Fn(u32) -> bool) {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.retain(|&rank| {
            let is_kept = is_kept(self.shared[rank.to_usize()]);
            if !is_kept {
                self.forget(rank);
            }
            is_kept
        });
        self.candidates = candidates;
    }
}

impl Join<'_> {
    /// Replaces `out` by the neighbours of a content, by rising number; itself among them if it has several documents.
    pub fn neighbours(&self, scratch: &mut JoinScratch, content: u32, out: &mut Vec<Neighbour>) {
        self.neighbours_in(scratch, content, |_| true, out);
    }

    /// The same by some sets alone.
    pub(super) fn neighbours_in(
        &self,
        scratch: &mut JoinScratch,
        content: u32,
        is_used: impl Fn(u32) -> bool,
        out: &mut Vec<Neighbour>,
    ) {
        out.clear();
        scratch.prepare(self);
        let rank = self.lists.rank_of(content);
        let all = self.forward.of(rank);
        let used: Vec<u32>;
        let sets = if all.iter().all(|&set| is_used(set)) {
            all
        } else {
            used = all.iter().copied().filter(|&set| is_used(set)).collect();
            &used
        };
        self.count(scratch, rank, sets, sets.len());
        self.accept_candidates(scratch, rank, out);
    }

    /// Makes a content a candidate that shares this number of blots.
    pub(super) fn begin(&self, scratch: &mut JoinScratch, rank: u32, shared: u32) {
        if scratch.shared[rank.to_usize()] == 0 {
            scratch.candidates.push(rank);
        }
        scratch.add(
            rank,
            Overlap {
                shared,
                rarity: 0.0,
            },
        );
    }

    /// Adds the candidates that count to `out`, which is then sorted by content, and the content itself if it has several documents; forgets all of them.
    pub(super) fn accept_candidates(
        &self,
        scratch: &mut JoinScratch,
        rank: u32,
        out: &mut Vec<Neighbour>,
    ) {
        let mut candidates = std::mem::take(&mut scratch.candidates);
        for other in candidates.drain(..) {
            if other != rank {
                self.accept(rank, other, scratch.overlap(other), out);
            }
            scratch.forget(other);
        }
        scratch.candidates = candidates;
        if self.lists.copies(rank) > 1 {
            self.accept(rank, rank, self.overlap_with_itself(rank), out);
        }
        out.sort_unstable_by_key(|neighbour| neighbour.content);
    }

    /// What two documents of one content share, whether or not it is enough.
    pub fn itself(&self, content: u32) -> Neighbour {
        let rank = self.lists.rank_of(content);
        let (side, overlap) = (self.lists.side(rank), self.overlap_with_itself(rank));
        Neighbour {
            content,
            shared: overlap.shared,
            score: self.measure.score(side, side, overlap),
        }
    }

    fn overlap_with_itself(&self, rank: u32) -> Overlap {
        let rarity = self
            .forward
            .of(rank)
            .iter()
            .fold(self.lists.own_rarity(rank), |sum, &set| {
                sum + self.lists.rarity(set)
            });
        Overlap {
            shared: self.lists.side(rank).blots,
            rarity,
        }
    }

    fn accept(&self, rank: u32, other: u32, overlap: Overlap, out: &mut Vec<Neighbour>) {
        let sides = [self.lists.side(rank), self.lists.side(other)];
        if self.measure.accepts(sides[0], sides[1], overlap) {
            let score = self.measure.score(sides[0], sides[1], overlap);
            out.push(Neighbour {
                content: self.lists.content_of_rank(other),
                shared: overlap.shared,
                score,
            });
        }
    }

    /// Counts what is shared in the first `count` of its sets with every partner that can still reach the threshold.
    pub(super) fn count(&self, scratch: &mut JoinScratch, rank: u32, sets: &[u32], count: usize) {
        let side = self.lists.side(rank);
        let partners = self.lists.large_enough(rank, self.measure);
        self.find_left(scratch, sets);
        let Some(smallest) = (!partners.is_empty()).then(|| self.lists.side(partners.start)) else {
            return;
        };
        for (at, &set) in sets.iter().enumerate().take(count) {
            let left = scratch.left[at];
            if scratch.candidates.is_empty() && !self.measure.can_reach(side, smallest, left) {
                return;
            }
            let members = self.lists.members(set);
            let members = &members[members.partition_point(|&other| other < partners.start)..];
            let more = Overlap {
                shared: self.lists.weight(set),
                rarity: self.lists.rarity(set),
            };
            let (begun, rest) = members.split_at(self.reachable(side, members, left));
            scratch.work += 1 + begun.len().to_u64();
            for &other in begun {
                if scratch.shared[other.to_usize()] == 0 {
                    scratch.candidates.push(other);
                }
                scratch.add(other, more);
            }
            if !rest.is_empty() && !scratch.candidates.is_empty() {
                self.count_on(scratch, side, rest, left, more);
            }
        }
    }

    pub(super) fn find_left(&self, scratch: &mut JoinScratch, sets: &[u32]) {
        let mut left = Overlap::default();
        scratch.left.clear();
        scratch.left.extend(sets.iter().rev().map(|&set| {
            left.shared = left.shared.saturating_add(self.lists.weight(set));
            left.rarity += self.lists.rarity(set);
            left
        }));
        scratch.left.reverse();
    }

    /// How many members can reach the threshold with no more than what is left.
    fn reachable(&self, side: DocumentSize, members: &[u32], left: Overlap) -> usize {
        let can_reach = |&other: &u32| self.measure.can_reach(side, self.lists.side(other), left);
        match members {
            [.., last] if can_reach(last) => members.len(),
            _ => members.partition_point(can_reach),
        }
    }

    /// Adds a set to the candidates among its members that cannot be begun any more.
    pub(super) fn count_on(
        &self,
        scratch: &mut JoinScratch,
        side: DocumentSize,
        members: &[u32],
        left: Overlap,
        more: Overlap,
    ) {
        if members.len() > scratch.candidates.len() {
            self.drop_hopeless(scratch, side, left);
        }
        let steps = scratch.candidates.len() * (members.len().ilog2().to_usize() + 2);
        scratch.work += steps.min(members.len()).to_u64();
        if steps >= members.len() {
            for &other in members {
                if scratch.shared[other.to_usize()] > 0 {
                    scratch.add(other, more);
                }
            }
            return;
        }
        for at in 0..scratch.candidates.len() {
            let other = scratch.candidates[at];
            if members.binary_search(&other).is_ok() {
                scratch.add(other, more);
            }
        }
    }

    /// Those that are dropped are never begun again: with still less left it cannot do.
    fn drop_hopeless(&self, scratch: &mut JoinScratch, side: DocumentSize, left: Overlap) {
        let mut candidates = std::mem::take(&mut scratch.candidates);
        candidates.retain(|&other| {
            let have = scratch.overlap(other);
            let most = Overlap {
                shared: have.shared.saturating_add(left.shared),
                rarity: have.rarity + left.rarity,
            };
            let is_kept = self.measure.can_reach(side, self.lists.side(other), most);
            if !is_kept {
                scratch.forget(other);
            }
            is_kept
        });
        scratch.candidates = candidates;
    }
}
