//! Whose rows in a table may change when some contents do.

use super::{
    discovery::Discovery,
    join::{Join, JoinScratch},
    pair_counts::{RecomputedPairs, long_blots},
    scores::{Measure, Overlap, Score},
};
use crate::base::error::Result;
use crate::base::num::{ToU32, ToU64, ToUsize};

impl Discovery<'_> {
    /// By content: whether its documents may have other rows than before, if the first `changed` contents are those that changed.
    ///
    /// No content is left out that has to be in; some may be in whose rows stay as they are: what is shared with a changed content in long sets is not
    /// counted pair by pair, but taken for all that the content has in long sets of changed ones. `counted`: what changed contents share, if that is known.
    pub fn affected(&self, changed: u32, counted: Option<&RecomputedPairs>) -> Result<Vec<bool>> {
        let first_long = self.first_long();
        let long = match counted {
            Some(counted) => long_blots(&counted.long_sets, self.lists.contents()),
            None => self.long_blots_of(changed, first_long),
        };
        let side = |content: u32| self.lists.side(self.lists.rank_of(content));
        let reaches = |content: u32, other: u32, shared: u32| {
            let most = Overlap {
                shared: shared.saturating_add(long[content.to_usize()]),
                rarity: 0.0,
            };
            self.options
                .measure
                .can_reach(side(content), side(other), most)
        };
        let mut is_affected: Vec<bool> = (0..self.lists.contents().to_u32())
            .map(|content| content < changed || reaches(content, content, 0))
            .collect();
        if let Some(counted) = counted {
            counted.for_each(&mut |one, two, shared| {
                for [one, two] in [[one, two], [two, one]] {
                    is_affected[one.to_usize()] |= reaches(one, two, shared);
                }
            })?;
            return Ok(is_affected);
        }
        // What either has of the other: more than is wanted, and found by what the changed one has.
        let either = Measure {
            score: Score::Containment,
            ..self.options.measure
        };
        let itself = |item: usize, each: &mut dyn FnMut(u32)| each(item.to_u32());
        let work =
            |join: &Join<'_>, scratch: &mut JoinScratch, item: usize, found: &mut Vec<u32>| {
                let join = Join {
                    measure: &either,
                    ..*join
                };
                join.for_each_short(scratch, item.to_u32(), first_long, |other, shared| {
                    if reaches(other, item.to_u32(), shared) {
                        found.push(other);
                    }
                });
            };
        self.in_lots(
            changed.to_usize(),
            itself,
            work,
            |found| 4 * found.len().to_u64(),
            |found: Vec<u32>| {
                found
                    .into_iter()
                    .for_each(|content| is_affected[content.to_usize()] = true);
                Ok(())
            },
        )?;
        Ok(is_affected)
    }

    /// Sets from this one on are long.
    fn first_long(&self) -> u32 {
        let sets = self.lists.sets();
        (0..sets)
            .find(|&set| self.lists.members(set).len() > self.long_set)
            .unwrap_or(sets)
    }

    /// Of each content, how many blots it has of long sets that have a changed content.
    fn long_blots_of(&self, changed: u32, first_long: u32) -> Vec<u32> {
        let mut blots = vec![0_u32; self.lists.contents()];
        for set in first_long..self.lists.sets() {
            let members = self.lists.members(set);
            if members
                .iter()
                .any(|&rank| self.lists.content_of_rank(rank) < changed)
            {
                for &rank in members {
                    let blots = &mut blots[self.lists.content_of_rank(rank).to_usize()];
                    *blots = blots.saturating_add(self.lists.weight(set));
                }
            }
        }
        blots
    }
}

impl Join<'_> {
    /// Calls `each` with every partner that may count, and what it shares in short sets.
    fn for_each_short(
        &self,
        scratch: &mut JoinScratch,
        content: u32,
        first_long: u32,
        mut each: impl FnMut(u32, u32),
    ) {
        scratch.prepare(self);
        let rank = self.lists.rank_of(content);
        let sets = self.forward.of(rank);
        self.count(
            scratch,
            rank,
            sets,
            sets.partition_point(|&set| set < first_long),
        );
        scratch.drain(|other, shared| each(self.lists.content_of_rank(other), shared));
    }
}
