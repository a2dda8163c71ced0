//! The contents that share most with one, exactly, without walking through everything that shares little with it.
//!
//! A table wants the first `count` documents of each, by falling number of shared blots, then by id. The sets of a content are of two kinds. *Short* ones
//! are walked, as [`Join`] does: that finds all *seen* partners. A *long* one, such as the set of a licence, has so many members that walking it for each of
//! them would be quadratic. What a partner shares is what its short sets give and what its long ones give, so
//!
//! - of a seen partner the long sets are looked up, unless `count` others have more than it can reach;
//! - a partner that is not seen shares only long sets. The first `count + 1` contents by what they share in long sets alone are enough: any other unseen
//!   one has at least `count` before it (one may be the content itself), since those share as much in all as in long sets, or more.
//!
//! These first ones depend on nothing but which long sets there are. So documents of one template have them in common, and they are found once
//! ([`LongSets::best`]).
//!
//! To find them, long sets are kept in the order in which ties are broken, and walked together from the beginning, block by block. As soon as `count + 1`
//! contents are found of which each shares at least `least` blots, a later one must share more than that. Then it cannot be in the longest sets alone
//! that together have no more than `least` blots: these are not walked any more, only looked up. When that is all of them, the search is over. With one long
//! set it takes `count + 1` steps.

use super::{
    join::{Join, JoinScratch, Neighbour},
    pair_counts::PairCounts,
    ranked_sets::RankedSets,
    scores::Overlap,
};
use crate::base::num::{ToU32, ToUsize};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

/// A set with more members is long. Walking shorter ones costs less than remembering what is in them.
pub const LONG_SET_MEMBERS: usize = 1 << 9;
/// Blocks of places that are walked at a time: the first, and the largest.
const FIRST_BLOCK: usize = 1 << 8;
const LARGEST_BLOCK: usize = 1 << 13;

/// A content by its place in the order of ties, and how many blots of long sets it has.
type Placed = (u32, u32);

/// The long sets of [`RankedSets`], with their members in the order in which ties are broken.
///
/// Memory: 4 bytes for each member of a long set, 8 for each content, and what may be remembered.
pub struct LongSets {
    /// Sets from this one on are long.
    first: u32,
    places: Vec<u32>,
    ends: Vec<usize>,
    /// By place.
    content_of_rank: Vec<u32>,
    /// By content; [`ABSENT`] for contents that are no partners.
    place_of: Vec<u32>,
    /// How many contents are found.
    count: usize,
    remembered: BestPartnersCache,
}

const ABSENT: u32 = u32::MAX;

/// The contents that share most in a collection of long sets.
#[derive(Clone)]
struct BestPartners {
    /// The best first.
    placed: Arc<[Placed]>,
    /// The same by rising content, without scores: the neighbours of every content with these long sets that shares no short one.
    neighbours: Arc<[Neighbour]>,
}

/// The best of collections of long sets.
struct BestPartnersCache {
    most_bytes: usize,
    best: Mutex<HashMap<Box<[u32]>, BestPartners>>,
}

impl LongSets {
    /// Sets of more than `long` members are long. `order`: the contents that may be partners, in the order in which ties are broken. A table has `count` rows.
    pub fn new(
        lists: &RankedSets,
        long: usize,
        order: Vec<u32>,
        count: usize,
        memory_bytes: u64,
    ) -> Self {
        let mut place_of = vec![ABSENT; lists.contents()];
        (0..)
            .zip(&order)
            .for_each(|(place, &content)| place_of[content.to_usize()] = place);
        let sets = lists.sets();
        let first = (0..sets)
            .find(|&set| lists.members(set).len() > long)
            .unwrap_or(sets);
        let (mut places, mut ends) = (Vec::new(), Vec::new());
        for set in first..sets {
            let start = places.len();
            places.extend(
                lists
                    .members(set)
                    .iter()
                    .map(|&rank| place_of[lists.content_of_rank(rank).to_usize()])
                    .filter(|&place| place != ABSENT),
            );
            places[start..].sort_unstable();
            ends.push(places.len());
        }
        let remembered = BestPartnersCache {
            most_bytes: memory_bytes.to_usize(),
            best: Mutex::default(),
        };
        Self {
            first,
            places,
            ends,
            content_of_rank: order,
            place_of,
            count: count.saturating_add(1),
            remembered,
        }
    }

    /// How many of a content's sets, which are given rarest first, are short.
    fn short(&self, sets: &[u32]) -> usize {
        sets.partition_point(|&set| set < self.first)
    }

    fn places(&self, set: u32) -> &[u32] {
        let at = (set - self.first).to_usize();
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.places[start..self.ends[at]]
    }

    /// Whether every content may be a partner.
    fn has_all(&self) -> bool {
        self.content_of_rank.len() == self.place_of.len()
    }

    /// The contents that share most in some long sets alone.
    fn best(&self, lists: &RankedSets, sets: &[u32]) -> BestPartners {
        if let Some(found) = self.remembered.get(sets) {
            return found;
        }
        let walked = sets
            .iter()
            .map(|&set| SetCursor {
                places: self.places(set),
                weight: lists.weight(set),
            })
            .collect();
        let placed = LongSetWalk::new(walked, self.count).run();
        let neighbour = |&(place, shared): &Placed| Neighbour {
            content: self.content_of_rank[place.to_usize()],
            shared,
            score: 0.0,
        };
        let mut neighbours: Vec<Neighbour> = placed.iter().map(neighbour).collect();
        neighbours.sort_unstable_by_key(|neighbour| neighbour.content);
        let found = BestPartners {
            placed: placed.into(),
            neighbours: neighbours.into(),
        };
        self.remembered.put(sets, &found);
        found
    }
}

impl BestPartnersCache {
    fn get(&self, sets: &[u32]) -> Option<BestPartners> {
        self.best
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(sets)
            .cloned()
    }

    /// When there is no more memory, all is forgotten: documents with the same long sets mostly stand near each other.
    fn put(&self, sets: &[u32], found: &BestPartners) {
        let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = 4 * sets.len()
            + size_of_val(&found.placed[..])
            + size_of_val(&found.neighbours[..])
            + 100;
        if (best.len() + 1) * bytes > self.most_bytes {
            best.clear();
        }
        best.insert(sets.into(), found.clone());
    }
}

/// What is left to walk of a set.
struct SetCursor<'s> {
    places: &'s [u32],
    weight: u32,
}

impl SetCursor<'_> {
    fn skip_to(&mut self, place: u32) {
        if self.places.first().is_some_and(|&first| first < place) {
            self.places = &self.places[self.places.partition_point(|&other| other < place)..];
        }
    }
}

/// Walks long sets together; see the top of this file.
struct LongSetWalk<'s> {
    /// The longest first.
    sets: Vec<SetCursor<'s>>,
    count: usize,
    /// The best so far, the worst of them on top.
    best: BinaryHeap<Reverse<(u32, Reverse<u32>)>>,
    /// Of each place of a block, and which of them are not 0.
    shared: Vec<u32>,
    touched: Vec<u32>,
}

impl<'s> LongSetWalk<'s> {
    fn new(mut sets: Vec<SetCursor<'s>>, count: usize) -> Self {
        sets.sort_by_key(|set| Reverse(set.places.len()));
        Self {
            sets,
            count,
            best: BinaryHeap::new(),
            shared: vec![0; LARGEST_BLOCK],
            touched: Vec::new(),
        }
    }

    /// The best, by falling number of blots, then by place.
    fn run(mut self) -> Vec<Placed> {
        let mut width = FIRST_BLOCK;
        loop {
            let passive = self.passive();
            let Some(start) = self.sets[passive..]
                .iter()
                .filter_map(|set| set.places.first())
                .min()
                .copied()
            else {
                break;
            };
            self.walk_block(start..start.saturating_add(width.to_u32()), passive);
            width = (2 * width).min(LARGEST_BLOCK);
        }
        let mut best: Vec<Placed> = self
            .best
            .into_iter()
            .map(|Reverse((shared, Reverse(place)))| (place, shared))
            .collect();
        best.sort_unstable_by_key(|&(place, shared)| (Reverse(shared), place));
        best
    }

    /// What a place further on must have more of; 0 if any will do.
    fn least(&self) -> u32 {
        if self.best.len() < self.count {
            0
        } else {
            self.best.peek().map_or(0, |Reverse((shared, _))| *shared)
        }
    }

    /// How many of the longest sets cannot make up what is needed by themselves.
    fn passive(&self) -> usize {
        let (least, mut sum) = (self.least(), 0_u32);
        self.sets
            .iter()
            .take_while(|set| {
                sum = sum.saturating_add(set.weight);
                sum <= least
            })
            .count()
    }

    fn walk_block(&mut self, block: Range<u32>, passive: usize) {
        let start = block.start;
        for set in &mut self.sets[passive..] {
            let inside = set.places.partition_point(|&place| place < block.end);
            for &place in &set.places[..inside] {
                let shared = &mut self.shared[(place - start).to_usize()];
                if *shared == 0 {
                    self.touched.push(place);
                }
                *shared = shared.saturating_add(set.weight);
            }
            set.places = &set.places[inside..];
        }
        let mut more = 0_u32;
        for set in &mut self.sets[..passive] {
            set.skip_to(start);
            more = more.saturating_add(set.weight);
        }
        let mut touched = std::mem::take(&mut self.touched);
        for place in touched.drain(..) {
            let shared = std::mem::take(&mut self.shared[(place - start).to_usize()]);
            if shared.saturating_add(more) >= self.least() {
                let passive = self.sets[..passive]
                    .iter()
                    .filter(|set| set.places.binary_search(&place).is_ok());
                self.add(
                    place,
                    passive.fold(shared, |sum, set| sum.saturating_add(set.weight)),
                );
            }
        }
        self.touched = touched;
    }

    fn add(&mut self, place: u32, shared: u32) {
        let entry = Reverse((shared, Reverse(place)));
        if self.best.len() < self.count {
            self.best.push(entry);
        } else if self.best.peek().is_some_and(|worst| entry < *worst) {
            self.best.pop();
            self.best.push(entry);
        }
    }
}

/// Where the partners come from that share short sets.
pub(super) enum ShortSetPartners<'s> {
    /// From walking them.
    Joined,
    /// They were counted elsewhere.
    Counted(&'s PairCounts),
}

impl Join<'_> {
    /// Neighbours of a content, by rising number: all that can be among the first of a table, in each of some orders. Itself is among them
    /// if it has several documents, and may be if not. The measure must be [`super::Score::Inclusion`]; scores may be missing.
    pub(super) fn best_neighbours(
        &self,
        scratch: &mut JoinScratch,
        content: u32,
        seen: &ShortSetPartners<'_>,
        orders: &[LongSets],
    ) -> Arc<[Neighbour]> {
        scratch.prepare(self);
        let (rank, Some(first)) = (self.ranked.rank_of(content), orders.first()) else {
            return Arc::default();
        };
        let sets = self.content_sets.of(rank);
        let short = first.short(sets);
        match seen {
            ShortSetPartners::Joined => self.count(scratch, rank, sets, short),
            ShortSetPartners::Counted(counted) => {
                self.find_remaining(scratch, sets);
                counted.for_each(content, &mut |other, shared| {
                    self.add_candidate(scratch, self.ranked.rank_of(other), shared)
                });
            }
        }
        let left = scratch.remaining.get(short).copied().unwrap_or_default();
        let size = self.ranked.size(rank);
        let can_be_unseen = left.shared > 0 && self.measure.can_reach(size, size, left);
        let best: Vec<_> = orders
            .iter()
            .filter(|_| can_be_unseen)
            .map(|order| order.best(self.ranked, &sets[short..]))
            .collect();
        if let ([best], true) = (
            &best[..],
            scratch.has_no_candidate_but(rank) && self.ranked.copies(rank) == 1,
        ) && best.placed.last().is_some_and(|&(_, shared)| {
            self.measure.accepts(
                size,
                size,
                Overlap {
                    shared,
                    rarity: 0.0,
                },
            )
        }) {
            scratch.drain_candidates(|_, _| {});
            return best.neighbours.clone();
        }
        self.drop_late(scratch, orders, &best, left.shared);
        for (at, &set) in sets.iter().enumerate().skip(short) {
            if scratch.has_candidates() {
                let more = Overlap {
                    shared: self.ranked.weight(set),
                    rarity: 0.0,
                };
                let left = scratch.remaining[at];
                self.count_candidates(scratch, size, self.ranked.members(set), left, more);
            }
        }
        for (order, best) in orders.iter().zip(&best) {
            for &(place, shared) in best.placed.iter() {
                let other = self.ranked.rank_of(order.content_of_rank[place.to_usize()]);
                if scratch.is_no_candidate(other) {
                    self.add_candidate(scratch, other, shared);
                }
            }
        }
        let mut found = Vec::new();
        self.accept_candidates(scratch, rank, &mut found);
        found.into()
    }

    /// Drops the partners that come behind `count` others in every order, even if they share all `most` blots of long sets.
    fn drop_late(
        &self,
        scratch: &mut JoinScratch,
        orders: &[LongSets],
        best: &[BestPartners],
        most: u32,
    ) {
        let last_of = |(order, best): (&LongSets, &BestPartners)| match best.placed.last() {
            Some(last) if best.placed.len() >= order.count => last.1,
            _ => 0,
        };
        let mut least = orders
            .iter()
            .zip(best)
            .map(last_of)
            .min()
            .unwrap_or_default();
        if let [order] = orders
            && order.has_all()
        {
            least = least.max(scratch.nth_shared(order.count));
        }
        scratch.retain(|shared| shared.saturating_add(most) >= least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn walking_long_sets_finds_the_best(
            sets in prop::collection::vec((prop::collection::btree_set(0_u32..400, 0..300), 1_u32..6), 0..7), count in 1_usize..40, stride in 1_u32..200,
        ) {
            let sets: Vec<(Vec<u32>, u32)> = sets.into_iter().map(|(places, weight)| (places.into_iter().map(|place| place * stride).collect(), weight)).collect();
            let mut shared = BTreeMap::<u32, u32>::new();
            sets.iter().for_each(|(places, weight)| places.iter().for_each(|&place| *shared.entry(place).or_default() += weight));
            let mut expected: Vec<Placed> = shared.into_iter().collect();
            expected.sort_by_key(|&(place, shared)| (Reverse(shared), place));
            expected.truncate(count);
            let walked = sets.iter().map(|(places, weight)| SetCursor { places, weight: *weight }).collect();
            prop_assert_eq!(LongSetWalk::new(walked, count).run(), expected);
        }
    }

    #[test]
    fn one_long_set_is_left_after_its_beginning() {
        let places: Vec<u32> = (0..1_000_000).collect();
        let mut walk = LongSetWalk::new(
            vec![SetCursor {
                places: &places,
                weight: 7,
            }],
            101,
        );
        walk.walk_block(0..FIRST_BLOCK as u32, 0);
        assert_eq!(
            (walk.passive(), walk.sets[0].places.len()),
            (1, 1_000_000 - FIRST_BLOCK)
        );
    }
}
