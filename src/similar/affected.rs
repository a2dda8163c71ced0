//! Finds the contents whose table rows may change when other contents change.

use super::{
    discovery::Discovery,
    join::{Join, JoinScratch},
    pair_counts::{RecomputedPairs, blots_in_sets},
    scores::{Measure, Overlap, Score},
};
use crate::base::error::Result;
use crate::base::ids::{ContentNo, SetRank};
use crate::base::num::{ToU64, ToUsize};

impl Discovery<'_> {
    /// For each content: whether its documents may have other rows than before, if the first
    /// `changed` contents are the changed ones.
    ///
    /// No content is missing that must be included; some may be included whose rows stay the same,
    /// because blots of long sets are not counted pair by pair: a content counts all its blots in
    /// long sets that have a changed content. `counted`: the blots that changed contents share, if
    /// they were counted before.
    pub fn affected(&self, changed: u32, counted: Option<&RecomputedPairs>) -> Result<Vec<bool>> {
        let first_long = self.sets.first_long(self.long_set);
        let long = match counted {
            Some(counted) => blots_in_sets(&counted.long_sets, self.sets.contents()),
            None => self.long_blots_of(changed, first_long),
        };
        let size = |content: ContentNo| self.sets.size(self.sets.rank_of(content));
        let reaches = |content: ContentNo, other: ContentNo, shared: u32| {
            let most = Overlap {
                shared: shared.saturating_add(long[content.index()]),
                rarity: 0.0,
            };
            self.options
                .measure
                .can_reach(size(content), size(other), most)
        };
        let mut is_affected: Vec<bool> = ContentNo::first(self.sets.contents())
            .map(|content| content.get() < changed || reaches(content, content, 0))
            .collect();
        if let Some(counted) = counted {
            counted.for_each(&mut |one, two, shared| {
                for [one, two] in [[one, two], [two, one]] {
                    is_affected[one.index()] |= reaches(one, two, shared);
                }
            })?;
            return Ok(is_affected);
        }
        // Containment accepts more pairs than needed, and finds them from the changed content.
        let either = Measure {
            score: Score::Containment,
            ..self.options.measure
        };
        let itself =
            |item: usize, each: &mut dyn FnMut(ContentNo)| each(ContentNo::from_index(item));
        let work = |join: &Join<'_>,
                    scratch: &mut JoinScratch,
                    item: usize,
                    found: &mut Vec<ContentNo>| {
            let content = ContentNo::from_index(item);
            let join = Join {
                measure: &either,
                ..*join
            };
            let first_long = join.ranked.first_held().unwrap_or(first_long);
            join.for_each_short(scratch, content, first_long, |other, shared| {
                if reaches(other, content, shared) {
                    found.push(other);
                }
            });
        };
        self.in_lots(
            changed.to_usize(),
            itself,
            work,
            |found| 4 * found.len().to_u64(),
            |found: Vec<ContentNo>| {
                found
                    .into_iter()
                    .for_each(|content| is_affected[content.index()] = true);
                Ok(())
            },
        )?;
        Ok(is_affected)
    }

    /// For each content: the number of its blots in long sets that have a changed content.
    fn long_blots_of(&self, changed: u32, first_long: SetRank) -> Vec<u32> {
        let mut blots = vec![0_u32; self.sets.contents()];
        for set in self.sets.sets().skip(first_long.index()) {
            let members = self.sets.members(set);
            if members
                .iter()
                .any(|&rank| self.sets.content_of_rank(rank).get() < changed)
            {
                for &rank in members {
                    let blots = &mut blots[self.sets.content_of_rank(rank).index()];
                    *blots = blots.saturating_add(self.sets.weight(set));
                }
            }
        }
        blots
    }
}

impl Join<'_> {
    /// Calls `each` with every partner that may count, and the blots it shares in short sets.
    fn for_each_short(
        &self,
        scratch: &mut JoinScratch,
        content: ContentNo,
        first_long: SetRank,
        mut each: impl FnMut(ContentNo, u32),
    ) {
        scratch.prepare(self);
        let rank = self.ranked.rank_of(content);
        let sets = self.content_sets.of(rank);
        self.count(
            scratch,
            rank,
            sets,
            sets.partition_point(|&set| set < first_long),
        );
        scratch.drain_candidates(|other, shared| each(self.ranked.content_of_rank(other), shared));
    }
}
