//! Finds the neighbours of a content: all others that score at least the threshold, exactly.
//!
//! The sets of the content are visited rarest first. A partner seen for the first time can share at
//! most the blots of the remaining sets, so it becomes a candidate only if they suffice. As members
//! are sorted by size, the partners for which they suffice are a range at the start of the set. In
//! the rest of the set only existing candidates are counted, by walking it or by looking each of
//! them up, whichever is cheaper, after dropping candidates that can no longer reach the threshold.
//! A long set comes late, when little is left to share: it costs one step, not its length.

use super::{
    ranked_sets::{ContentSets, RankedSets},
    scores::{DocumentSize, Measure, Overlap},
};
use crate::base::ids::{ContentNo, ContentRank, SetRank};
use crate::base::num::{ToU64, ToUsize};

/// A content that scores at least the threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbour {
    /// The content.
    pub content: ContentNo,
    /// The number of shared blots.
    pub shared: u32,
    /// The score.
    pub score: f64,
}

/// Finds neighbours.
#[derive(Clone, Copy)]
pub struct Join<'l> {
    /// All sets.
    pub ranked: &'l RankedSets,
    /// The sets of each content; must include every content that is asked for.
    pub content_sets: &'l ContentSets,
    /// The score and its threshold.
    pub measure: &'l Measure,
}

/// The buffers of a thread: four bytes per content, twelve if the score needs rarity.
#[derive(Default)]
pub struct JoinScratch {
    shared: Vec<u32>,
    rarity: Vec<f64>,
    candidates: Vec<ContentRank>,
    /// For each set: the overlap that this set and all after it can add.
    pub(super) remaining: Vec<Overlap>,
    /// The number of visited members of sets: where the time goes.
    pub work: u64,
}

impl JoinScratch {
    pub(super) fn prepare(&mut self, join: &Join<'_>) {
        self.shared.resize(join.ranked.contents(), 0);
        if join.measure.score.needs_rarity() {
            self.rarity.resize(join.ranked.contents(), 0.0);
        }
    }

    fn overlap(&self, rank: ContentRank) -> Overlap {
        Overlap {
            shared: self.shared[rank.index()],
            rarity: self.rarity.get(rank.index()).copied().unwrap_or_default(),
        }
    }

    fn clear(&mut self, rank: ContentRank) {
        self.shared[rank.index()] = 0;
        if let Some(rarity) = self.rarity.get_mut(rank.index()) {
            *rarity = 0.0;
        }
    }

    fn add(&mut self, rank: ContentRank, more: Overlap) {
        let shared = &mut self.shared[rank.index()];
        *shared = shared.wrapping_add(more.shared);
        if let Some(rarity) = self.rarity.get_mut(rank.index()) {
            *rarity += more.rarity;
        }
    }

    /// Calls `each` with every candidate and the blots it shares, and clears it.
    pub(super) fn drain_candidates(&mut self, mut each: impl FnMut(ContentRank, u32)) {
        let mut candidates = std::mem::take(&mut self.candidates);
        for rank in candidates.drain(..) {
            each(rank, self.shared[rank.index()]);
            self.clear(rank);
        }
        self.candidates = candidates;
    }

    /// Whether no other content is a candidate.
    pub(super) fn has_no_candidate_but(&self, rank: ContentRank) -> bool {
        self.candidates.iter().all(|&candidate| candidate == rank)
    }

    pub(super) fn has_candidates(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// Whether it is no candidate.
    pub(super) fn is_no_candidate(&self, rank: ContentRank) -> bool {
        self.shared[rank.index()] == 0
    }

    /// The number of blots that at least `count` candidates share; 0 if there are fewer candidates.
    pub(super) fn nth_shared(&self, count: usize) -> u32 {
        if count == 0 || self.candidates.len() < count {
            return 0;
        }
        let mut shared: Vec<u32> = self
            .candidates
            .iter()
            .map(|&rank| self.shared[rank.index()])
            .collect();
        *shared
            .select_nth_unstable_by(count - 1, |one, two| two.cmp(one))
            .1
    }

    /// Keeps the candidates for which `is_kept` is true, given the blots they share so far.
    pub(super) fn retain(&mut self, is_kept: impl Fn(u32) -> bool) {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.retain(|&rank| {
            let is_kept = is_kept(self.shared[rank.index()]);
            if !is_kept {
                self.clear(rank);
            }
            is_kept
        });
        self.candidates = candidates;
    }
}

impl Join<'_> {
    /// Replaces `out` by the neighbours of a content, sorted by number. The content itself is one
    /// if it has several documents.
    pub fn neighbours(
        &self,
        scratch: &mut JoinScratch,
        content: ContentNo,
        out: &mut Vec<Neighbour>,
    ) {
        self.neighbours_in(scratch, content, |_| true, out);
    }

    /// Whether finding the neighbours of a content by [`Join::neighbours`] visits at most this many
    /// members of sets before it only counts those that it has found.
    pub(super) fn visits_at_most(&self, content: ContentNo, most: u64) -> bool {
        let rank = self.ranked.rank_of(content);
        let partners = self.ranked.large_enough(rank, self.measure);
        if partners.is_empty() {
            return true;
        }
        let [size, smallest] = [rank, partners.start].map(|rank| self.ranked.size(rank));
        let sets = self.content_sets.of(rank);
        let weight = |&set: &SetRank| u64::from(self.ranked.weight(set));
        let mut remaining: u64 = sets.iter().map(weight).sum();
        let mut visited = 0;
        for set in sets {
            let most_shared = Overlap::of_blots(u32::try_from(remaining).unwrap_or(u32::MAX));
            if visited > most || !self.measure.can_reach(size, smallest, most_shared) {
                break;
            }
            visited += self.ranked.members(*set).len().to_u64();
            remaining -= weight(set);
        }
        visited <= most
    }

    /// As [`Join::neighbours`], by some sets alone.
    pub(super) fn neighbours_in(
        &self,
        scratch: &mut JoinScratch,
        content: ContentNo,
        is_used: impl Fn(SetRank) -> bool,
        out: &mut Vec<Neighbour>,
    ) {
        out.clear();
        scratch.prepare(self);
        let rank = self.ranked.rank_of(content);
        let all = self.content_sets.of(rank);
        let used: Vec<SetRank>;
        let sets = if all.iter().all(|&set| is_used(set)) {
            all
        } else {
            used = all.iter().copied().filter(|&set| is_used(set)).collect();
            &used
        };
        self.count(scratch, rank, sets, sets.len());
        self.accept_candidates(scratch, rank, out);
    }

    /// Adds shared blots to a content, which becomes a candidate.
    pub(super) fn add_candidate(&self, scratch: &mut JoinScratch, rank: ContentRank, shared: u32) {
        if scratch.shared[rank.index()] == 0 {
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

    /// Adds the accepted candidates to `out`, and the content itself if it has several documents;
    /// sorts `out` by content and clears all candidates.
    pub(super) fn accept_candidates(
        &self,
        scratch: &mut JoinScratch,
        rank: ContentRank,
        out: &mut Vec<Neighbour>,
    ) {
        let mut candidates = std::mem::take(&mut scratch.candidates);
        for other in candidates.drain(..) {
            if other != rank {
                self.accept(rank, other, scratch.overlap(other), out);
            }
            scratch.clear(other);
        }
        scratch.candidates = candidates;
        if self.ranked.copies(rank) > 1 {
            self.accept(rank, rank, self.self_overlap(rank), out);
        }
        out.sort_unstable_by_key(|neighbour| neighbour.content);
    }

    /// The neighbour that a content is to itself, whether or not it is accepted.
    pub fn self_neighbour(&self, content: ContentNo) -> Neighbour {
        let rank = self.ranked.rank_of(content);
        let (size, overlap) = (self.ranked.size(rank), self.self_overlap(rank));
        Neighbour {
            content,
            shared: overlap.shared,
            score: self.measure.score(size, size, overlap),
        }
    }

    fn self_overlap(&self, rank: ContentRank) -> Overlap {
        let rarity = self
            .content_sets
            .of(rank)
            .iter()
            .fold(self.ranked.own_rarity(rank), |sum, &set| {
                sum + self.ranked.rarity(set)
            });
        Overlap {
            shared: self.ranked.size(rank).blots,
            rarity,
        }
    }

    /// Adds a candidate to `out` if it reaches the threshold.
    fn accept(
        &self,
        rank: ContentRank,
        other: ContentRank,
        overlap: Overlap,
        out: &mut Vec<Neighbour>,
    ) {
        let sizes = [self.ranked.size(rank), self.ranked.size(other)];
        if self.measure.accepts(sizes[0], sizes[1], overlap) {
            let score = self.measure.score(sizes[0], sizes[1], overlap);
            out.push(Neighbour {
                content: self.ranked.content_of_rank(other),
                shared: overlap.shared,
                score,
            });
        }
    }

    /// Counts the blots shared in the first `count` sets, for every partner that can still reach
    /// the threshold.
    pub(super) fn count(
        &self,
        scratch: &mut JoinScratch,
        rank: ContentRank,
        sets: &[SetRank],
        count: usize,
    ) {
        let size = self.ranked.size(rank);
        let partners = self.ranked.large_enough(rank, self.measure);
        self.find_remaining(scratch, sets);
        let Some(smallest) = (!partners.is_empty()).then(|| self.ranked.size(partners.start))
        else {
            return;
        };
        for (at, &set) in sets.iter().enumerate().take(count) {
            let remaining = scratch.remaining[at];
            if scratch.candidates.is_empty() && !self.measure.can_reach(size, smallest, remaining) {
                return;
            }
            let members = self.ranked.members(set);
            let members = &members[members.partition_point(|&other| other < partners.start)..];
            let more = Overlap {
                shared: self.ranked.weight(set),
                rarity: self.ranked.rarity(set),
            };
            let (new_members, rest) =
                members.split_at(self.reachable_members(size, members, remaining));
            scratch.work += 1 + new_members.len().to_u64();
            for &other in new_members {
                if scratch.shared[other.index()] == 0 {
                    scratch.candidates.push(other);
                }
                scratch.add(other, more);
            }
            if !rest.is_empty() && !scratch.candidates.is_empty() {
                self.count_candidates(scratch, size, rest, remaining, more);
            }
        }
    }

    /// Fills `scratch.remaining` for these sets.
    pub(super) fn find_remaining(&self, scratch: &mut JoinScratch, sets: &[SetRank]) {
        let mut remaining = Overlap::default();
        scratch.remaining.clear();
        scratch.remaining.extend(sets.iter().rev().map(|&set| {
            remaining.shared = remaining.shared.saturating_add(self.ranked.weight(set));
            remaining.rarity += self.ranked.rarity(set);
            remaining
        }));
        scratch.remaining.reverse();
    }

    /// The number of members that can reach the threshold with the remaining overlap alone.
    fn reachable_members(
        &self,
        size: DocumentSize,
        members: &[ContentRank],
        remaining: Overlap,
    ) -> usize {
        let can_reach = |&other: &ContentRank| {
            self.measure
                .can_reach(size, self.ranked.size(other), remaining)
        };
        match members {
            [.., last] if can_reach(last) => members.len(),
            _ => members.partition_point(can_reach),
        }
    }

    /// Counts a set for the candidates among members that cannot become candidates any more.
    pub(super) fn count_candidates(
        &self,
        scratch: &mut JoinScratch,
        size: DocumentSize,
        members: &[ContentRank],
        remaining: Overlap,
        more: Overlap,
    ) {
        if members.len() > scratch.candidates.len() {
            self.drop_hopeless(scratch, size, remaining);
        }
        let steps = scratch.candidates.len() * (members.len().ilog2().to_usize() + 2);
        scratch.work += steps.min(members.len()).to_u64();
        if steps >= members.len() {
            for &other in members {
                if scratch.shared[other.index()] > 0 {
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

    /// Drops the candidates that cannot reach the threshold any more. They never come back, as
    /// later sets leave even less to share.
    fn drop_hopeless(&self, scratch: &mut JoinScratch, size: DocumentSize, remaining: Overlap) {
        let mut candidates = std::mem::take(&mut scratch.candidates);
        candidates.retain(|&other| {
            let have = scratch.overlap(other);
            let most = Overlap {
                shared: have.shared.saturating_add(remaining.shared),
                rarity: have.rarity + remaining.rarity,
            };
            let is_kept = self.measure.can_reach(size, self.ranked.size(other), most);
            if !is_kept {
                scratch.clear(other);
            }
            is_kept
        });
        scratch.candidates = candidates;
    }
}
