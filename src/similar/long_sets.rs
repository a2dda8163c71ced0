//! Finds the contents that share most with a content, exactly, without visiting everything that
//! shares little with it.
//!
//! A table needs the first `count` documents of each, by falling number of shared blots, then by
//! id. The sets of a content are of two kinds. *Short* sets are walked, as [`Join`] does; this
//! finds all *seen* partners. A *long* set, such as the set of a licence, is too large for
//! that: walking it for each of its members would be quadratic. A partner shares blots of short sets and of long
//! ones, so
//!
//! - the long sets of a seen partner are looked up, unless `count` others share more than it can
//!   reach;
//! - an unseen partner shares long sets only. The first `count + 1` contents by blots of long sets
//!   alone are enough: any other unseen one comes after at least `count` of them (one may be the
//!   content itself), as they share as much in all as in long sets, or more.
//!
//! These first ones depend only on the collection of long sets. Documents of one template have the
//! same long sets, so they are found once ([`LongSets::best`]).
//!
//! To find them, the members of long sets are sorted in the order that breaks ties, and the sets
//! are walked together from the start, block by block. As soon as `count + 1` contents are found
//! that share at least `least` blots each, a later one must share more. It cannot be only in the
//! longest sets that have at most `least` blots together: these sets are no longer walked, only
//! looked up. The walk ends when this holds for all sets. With one long set it takes `count + 1`
//! steps.

use super::{
    join::{Join, JoinScratch, Neighbour},
    pair_counts::PairCounts,
    ranked_sets::RankedSets,
    scores::Overlap,
};
use crate::base::ids::{ContentNo, SetRank};
use crate::base::num::{ToU32, ToUsize};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

/// A set with more members is long. Walking a shorter one costs less than caching its best members.
pub const LONG_SET_MEMBERS: usize = 1 << 9;
/// The width of the first block of places that are walked at a time.
const FIRST_BLOCK: usize = 1 << 8;
/// The width of the largest block.
const LARGEST_BLOCK: usize = 1 << 13;

/// The place of a content in the order that breaks ties, and its number of blots in long sets.
type Placed = (u32, u32);

/// The long sets of [`RankedSets`], with their members in the order that breaks ties.
///
/// Memory: 4 bytes per member of a long set, 8 per content, and the cache.
pub struct LongSets {
    /// The first long set; all after it are long.
    first: SetRank,
    places: Vec<u32>,
    ends: Vec<usize>,
    /// The content of each place.
    content_at: Vec<ContentNo>,
    /// The place of each content; [`ABSENT`] for contents that are no partners.
    place_of: Vec<u32>,
    /// The number of contents to find.
    count: usize,
    remembered: BestPartnersCache,
}

const ABSENT: u32 = u32::MAX;

/// The contents that share most blots of a collection of long sets.
#[derive(Clone)]
struct BestPartners {
    /// Best first.
    placed: Arc<[Placed]>,
    /// The same, sorted by content, without scores: the neighbours of every content with these long
    /// sets that shares no short set.
    neighbours: Arc<[Neighbour]>,
}

/// The best partners of each collection of long sets.
struct BestPartnersCache {
    most_bytes: usize,
    best: Mutex<HashMap<Box<[SetRank]>, BestPartners>>,
}

impl LongSets {
    /// Sets of more than `long` members are long. `order`: the contents that may be partners, in
    /// the order that breaks ties. A table has `count` rows.
    pub fn new(
        lists: &RankedSets,
        long: usize,
        order: Vec<ContentNo>,
        count: usize,
        memory_bytes: u64,
    ) -> Self {
        let mut place_of = vec![ABSENT; lists.contents()];
        (0..)
            .zip(&order)
            .for_each(|(place, content)| place_of[content.index()] = place);
        let first = lists.first_long(long);
        let (mut places, mut ends) = (Vec::new(), Vec::new());
        for set in lists.sets().skip(first.index()) {
            let start = places.len();
            places.extend(
                lists
                    .members(set)
                    .iter()
                    .map(|&rank| place_of[lists.content_of_rank(rank).index()])
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
            content_at: order,
            place_of,
            count: count.saturating_add(1),
            remembered,
        }
    }

    /// The number of short sets among the sets of a content, which are sorted rarest first.
    fn short(&self, lists: &RankedSets, sets: &[SetRank]) -> usize {
        let first = self.first_in(lists);
        sets.partition_point(|&set| set < first)
    }

    /// The first long set of these lists, which may be those of a lot.
    fn first_in(&self, lists: &RankedSets) -> SetRank {
        lists.first_held().unwrap_or(self.first)
    }

    /// The members of a long set, by its place among them.
    fn places(&self, at: usize) -> &[u32] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.places[start..self.ends[at]]
    }

    /// Whether every content may be a partner.
    fn has_all(&self) -> bool {
        self.content_at.len() == self.place_of.len()
    }

    /// The contents that share most blots of some long sets alone.
    fn best(&self, lists: &RankedSets, sets: &[SetRank]) -> BestPartners {
        // In another lot, the same sets have other ranks.
        let first = self.first_in(lists).index();
        let among_long: Vec<SetRank> = sets
            .iter()
            .map(|set| SetRank::from_index(set.index() - first))
            .collect();
        if let Some(found) = self.remembered.get(&among_long) {
            return found;
        }
        let walked = sets
            .iter()
            .map(|&set| SetCursor {
                places: self.places(set.index() - first),
                weight: lists.weight(set),
            })
            .collect();
        let placed = LongSetWalk::new(walked, self.count).run();
        let neighbour = |&(place, shared): &Placed| Neighbour {
            content: self.content_at[place.to_usize()],
            shared,
            score: 0.0,
        };
        let mut neighbours: Vec<Neighbour> = placed.iter().map(neighbour).collect();
        neighbours.sort_unstable_by_key(|neighbour| neighbour.content);
        let found = BestPartners {
            placed: placed.into(),
            neighbours: neighbours.into(),
        };
        self.remembered.put(&among_long, &found);
        found
    }
}

impl BestPartnersCache {
    fn get(&self, sets: &[SetRank]) -> Option<BestPartners> {
        self.best
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(sets)
            .cloned()
    }

    /// Clears the cache when it is full: documents with the same long sets are mostly close to each
    /// other.
    fn put(&self, sets: &[SetRank], found: &BestPartners) {
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

/// The unvisited rest of a set.
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

/// Walks long sets together; see the module documentation.
struct LongSetWalk<'s> {
    /// Longest first.
    sets: Vec<SetCursor<'s>>,
    count: usize,
    /// The best so far; the worst of them is on top.
    best: BinaryHeap<Reverse<(u32, Reverse<u32>)>>,
    /// The number of shared blots of each place of a block.
    shared: Vec<u32>,
    /// The places of the block whose number is not 0.
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

    /// The best places, by falling number of blots, then by place.
    fn run(mut self) -> Vec<Placed> {
        let mut width = FIRST_BLOCK;
        loop {
            let unwalked = self.unwalked();
            let Some(start) = self.sets[unwalked..]
                .iter()
                .filter_map(|set| set.places.first())
                .min()
                .copied()
            else {
                break;
            };
            self.walk_block(start..start.saturating_add(width.to_u32()), unwalked);
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

    /// A later place must share more blots than this; 0 if there is no minimum yet.
    fn least(&self) -> u32 {
        if self.best.len() < self.count {
            0
        } else {
            self.best.peek().map_or(0, |Reverse((shared, _))| *shared)
        }
    }

    /// The number of longest sets that are too light together to reach the minimum alone.
    fn unwalked(&self) -> usize {
        let (least, mut sum) = (self.least(), 0_u32);
        self.sets
            .iter()
            .take_while(|set| {
                sum = sum.saturating_add(set.weight);
                sum <= least
            })
            .count()
    }

    fn walk_block(&mut self, block: Range<u32>, unwalked: usize) {
        let start = block.start;
        for set in &mut self.sets[unwalked..] {
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
        for set in &mut self.sets[..unwalked] {
            set.skip_to(start);
            more = more.saturating_add(set.weight);
        }
        let mut touched = std::mem::take(&mut self.touched);
        for place in touched.drain(..) {
            let shared = std::mem::take(&mut self.shared[(place - start).to_usize()]);
            if shared.saturating_add(more) >= self.least() {
                let unwalked = self.sets[..unwalked]
                    .iter()
                    .filter(|set| set.places.binary_search(&place).is_ok());
                self.add(
                    place,
                    unwalked.fold(shared, |sum, set| sum.saturating_add(set.weight)),
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

/// The source of partners that share short sets.
pub(super) enum ShortSetPartners<'s> {
    /// The join finds them.
    Joined,
    /// They were counted elsewhere.
    Counted(&'s PairCounts),
}

impl Join<'_> {
    /// The neighbours of a content, sorted by number: all that can be among the first rows of a
    /// table, in each of some orders. The content itself is among them if it has several documents,
    /// and may be if it has one. The measure must be [`super::Score::Inclusion`]; scores may be
    /// missing.
    pub(super) fn best_neighbours(
        &self,
        scratch: &mut JoinScratch,
        content: ContentNo,
        short_partners: &ShortSetPartners<'_>,
        orders: &[LongSets],
    ) -> Arc<[Neighbour]> {
        scratch.prepare(self);
        let (rank, Some(first)) = (self.ranked.rank_of(content), orders.first()) else {
            return Arc::default();
        };
        let sets = self.content_sets.of(rank);
        let short = first.short(self.ranked, sets);
        match short_partners {
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
        self.drop_low_ranked(scratch, orders, &best, left.shared);
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
                let other = self.ranked.rank_of(order.content_at[place.to_usize()]);
                if scratch.is_no_candidate(other) {
                    self.add_candidate(scratch, other, shared);
                }
            }
        }
        let mut found = Vec::new();
        self.accept_candidates(scratch, rank, &mut found);
        found.into()
    }

    /// Drops the candidates that come after `count` others in every order, even if they share all
    /// `most` blots of long sets.
    fn drop_low_ranked(
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
            (walk.unwalked(), walk.sets[0].places.len()),
            (1, 1_000_000 - FIRST_BLOCK)
        );
    }
}
