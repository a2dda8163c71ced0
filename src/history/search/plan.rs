//! The plan of a search: which tables to look up, with how many bits flipped, and what to scan.

use super::{
    part_keys::{PART_BITS, PARTS, PrintParts, hamming_ball_size, parts_of},
    searchable::{SearchQuery, SearchableEntries},
};
use crate::{
    base::{
        error::Result,
        num::{ToF64, ToU32, ToUsize},
    },
    history::store::segment_description::GROUPS,
    text::stream::Print,
};
use std::ops::Range;

/// The cost of looking up an address; scanning one print costs 1.
const LOOKUP_COST: u64 = 30;
/// The cost of comparing a print at a random place.
const CANDIDATE_COST: f64 = 30.0;
/// The cost of looking up an address of part 0 and scanning its prints.
const ORDERED_COST: u64 = 60;
/// About the greatest number of bits to flip in part 0.
const ORDERED_CHANGES: u32 = 5;
/// Parts of real prints are not as random as their bits: without a sample, assume this many times
/// more neighbours.
const USUAL_CROWD: f64 = 4.0;
/// The number of prints in a sample.
pub const SAMPLE: u32 = 1 << 12;
/// From this cost on, evaluating a sample is a small part of the whole.
const WORTH_A_SAMPLE: u64 = 16 * SAMPLE as u64;

/// How to search for a query among some entries.
///
/// A *step* is to look up a table unchanged, or to flip one more bit in it. With n steps in all
/// tables, all entries that differ in fewer than n bits are found. Where prints are sorted by part
/// 0, the missing flips are made there: for each group of cardinality separately, as the allowed
/// distance depends on it. A group is scanned instead if that is cheaper.
#[derive(Debug, Clone, Default)]
pub struct SearchPlan {
    /// The groups of cardinality to search, and their entries.
    pub groups: Range<usize>,
    pub entries: Range<u32>,
    /// A bit for each group that is scanned.
    pub scanned_groups: u32,
    /// The greatest allowed distance in the other groups.
    pub max_distance: u32,
    /// How many heads were read.
    pub heads_read: u32,
    /// The number of steps.
    pub steps_taken: u32,
    order: StepOrder,
    /// The number of steps of each table.
    steps_per_table: [u8; PARTS],
    cost: u64,
}

impl SearchPlan {
    /// The cheapest plan. If it is expensive, a sample tells which parts of the query are rare.
    #[inline(always)]
    pub fn new<S: SearchableEntries>(source: &S, query: &SearchQuery<'_>) -> Result<Self> {
        let plan = Self::with_steps(source, query, source.steps());
        if plan.cost < WORTH_A_SAMPLE {
            return Ok(plan);
        }
        let sample = source.sample()?;
        if sample.is_empty() {
            return Ok(plan);
        }
        Ok(Self::with_steps(
            source,
            query,
            &LookupSteps::new::<S>(
                source.address_bits(),
                source.count(),
                &crowding(sample, &query.print),
            ),
        ))
    }

    fn with_steps<S: SearchableEntries>(
        source: &S,
        query: &SearchQuery<'_>,
        steps: &LookupSteps,
    ) -> Self {
        let (threshold, cardinality) = (query.best.threshold(), query.cardinality);
        let groups = source.groups(threshold, cardinality);
        // It rises with the cardinality.
        let max_distance = source.max_distance(threshold, cardinality, groups.end - 1);
        let mut best = Self {
            entries: source.entries_of(groups.clone()),
            groups,
            max_distance,
            cost: u64::MAX,
            ..Self::default()
        };
        let mut max_distances = [0; GROUPS];
        best.groups.clone().for_each(|group| {
            max_distances[group] = source.max_distance(threshold, cardinality, group)
        });
        let most_sum = max_distance + 1;
        for steps_taken in (most_sum.saturating_sub(ORDERED_CHANGES).max(1)..=most_sum)
            .rev()
            .chain([0])
        {
            let Some(mut cost) = steps.cost(steps_taken) else {
                continue;
            };
            let mut scanned_groups = 0;
            for group in best.groups.clone() {
                let Some(missing) = max_distances[group].checked_sub(steps_taken) else {
                    continue;
                };
                let entries = u64::from(source.entries_of(group..group + 1).len().to_u32());
                let looked_up = if S::TABLES == PARTS {
                    u64::MAX
                } else {
                    hamming_ball_size(source.group(group).0, missing).saturating_mul(ORDERED_COST)
                };
                scanned_groups |= u32::from(entries <= looked_up) << group;
                cost += entries.min(looked_up);
            }
            if cost < best.cost {
                (best.cost, best.steps_taken, best.scanned_groups) =
                    (cost, steps_taken, scanned_groups);
            }
        }
        best.order = steps.order;
        best.order.0[..best.steps_taken.to_usize()]
            .iter()
            .for_each(|&table| best.steps_per_table[usize::from(table)] += 1);
        best
    }

    /// How many bits to flip in a table; `None` if it needs no lookup.
    #[inline(always)]
    pub fn max_flips(&self, table: usize) -> Option<u32> {
        self.steps_per_table[table].checked_sub(1).map(u32::from)
    }

    /// Adapts the plan to a higher threshold: fewer groups, fewer steps.
    pub fn shrink<S: SearchableEntries>(&mut self, source: &S, query: &SearchQuery<'_>) {
        let (threshold, cardinality) = (query.best.threshold(), query.cardinality);
        self.groups = source.groups(threshold, cardinality);
        self.entries = source.entries_of(self.groups.clone());
        self.max_distance = source.max_distance(threshold, cardinality, self.groups.end - 1);
        while self.steps_taken > self.max_distance + 1 {
            self.steps_taken -= 1;
            self.steps_per_table[usize::from(self.order.0[self.steps_taken.to_usize()])] -= 1;
        }
    }
}

/// The greatest number of steps.
const STEPS: usize = 64;

/// The table of each step.
#[derive(Debug, Clone, Copy)]
struct StepOrder([u8; STEPS]);

impl Default for StepOrder {
    fn default() -> Self {
        Self([0; STEPS])
    }
}

/// The order of steps, cheapest first, and their costs.
#[derive(Debug, Clone, Default)]
pub struct LookupSteps {
    order: StepOrder,
    /// The cost of the first n steps, as long as it is less than that of scanning all entries.
    costs: Vec<u64>,
}

impl LookupSteps {
    /// `crowding`: for each part how many times more neighbours it has than if bits were
    /// independent.
    pub fn new<S: SearchableEntries>(
        address_bits: u32,
        entries: u32,
        crowding: &[f64; PARTS],
    ) -> Self {
        let first = PARTS - S::TABLES;
        let step_cost = |table: usize, most: u32| {
            let more = |bits: u32| {
                hamming_ball_size(bits, most)
                    - most
                        .checked_sub(1)
                        .map_or(0, |fewer| hamming_ball_size(bits, fewer))
            };
            let candidates =
                more(PART_BITS.to_u32()).to_f64() * f64::from(entries) * crowding[first + table]
                    / (1_u64 << PART_BITS).to_f64();
            more(address_bits) * LOOKUP_COST + (candidates * CANDIDATE_COST) as u64
        };
        let (mut steps, mut steps_per_table, mut steps_taken) = (
            Self {
                costs: vec![0],
                ..Self::default()
            },
            [0; PARTS],
            0_u64,
        );
        for next in &mut steps.order.0 {
            let each =
                (0..S::TABLES).map(|table| (step_cost(table, steps_per_table[table]), table));
            let (cost, table) = each.min().unwrap_or_default();
            steps_taken = steps_taken.saturating_add(cost);
            if steps_taken > u64::from(entries) {
                break;
            }
            steps.costs.push(steps_taken);
            *next = table as u8;
            steps_per_table[table] += 1;
        }
        steps
    }

    /// The steps for a query about which nothing is known.
    pub fn usual<S: SearchableEntries>(address_bits: u32, entries: u32) -> Self {
        Self::new::<S>(address_bits, entries, &[USUAL_CROWD; PARTS])
    }

    /// `None` if scanning is cheaper.
    fn cost(&self, steps_taken: u32) -> Option<u64> {
        self.costs.get(steps_taken.to_usize()).copied()
    }
}

/// The distances at which neighbours in the sample are counted: the first one with enough of them.
const FEWEST: u32 = 4;
const NEARS: usize = 6;
/// Enough neighbours for an estimate.
const SOME: u32 = 8;

/// For each part of a print how many times more neighbours it has than if bits were independent,
/// estimated from a sample.
///
/// A sample has too few prints at the smallest distances, so larger ones are counted.
#[inline(always)]
fn crowding(sample: &[PrintParts], print: &Print) -> [f64; PARTS] {
    let (query, mut near_counts) = (parts_of(print), [[0_u32; PARTS]; NEARS]);
    for parts in sample {
        for part in 0..PARTS {
            let apart = (parts[part] ^ query[part]).count_ones();
            near_counts
                .iter_mut()
                .zip(FEWEST..)
                .for_each(|(near, most)| near[part] += u32::from(apart <= most));
        }
    }
    std::array::from_fn(|part| {
        let at = near_counts
            .iter()
            .position(|near| near[part] >= SOME)
            .unwrap_or(NEARS - 1);
        let expected = sample.len().to_f64()
            * hamming_ball_size(PART_BITS.to_u32(), FEWEST + at.to_u32()).to_f64()
            / (1_u64 << PART_BITS).to_f64();
        (f64::from(near_counts[at][part]) + 0.5) / expected
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::history::store::segment::Segment;
    use proptest::prelude::*;

    /// Steps in any order, at any cost.
    pub fn any_steps() -> impl Strategy<Value = LookupSteps> {
        let costs = prop::collection::vec(0_u64..500, 1..STEPS + 1);
        (prop::array::uniform32(0..PARTS as u8 - 1), costs).prop_map(|(order, costs)| {
            let at = |step: usize| order[step % order.len()];
            LookupSteps {
                order: StepOrder(std::array::from_fn(at)),
                costs,
            }
        })
    }

    /// Plans have a multiple of three steps.
    pub fn steps_by_three() -> LookupSteps {
        let costs = (0..40)
            .map(|steps_taken| if steps_taken % 3 == 0 { 0 } else { 1_000_000 })
            .collect();
        LookupSteps {
            costs,
            ..LookupSteps::usual::<Segment>(10, 1 << 30)
        }
    }

    #[test]
    fn steps_alternate_between_parts_without_statistics() {
        let steps = LookupSteps::usual::<Segment>(18, 20_000_000);
        let tables = PARTS - 1;
        assert!(steps.costs.len() > 4 * tables && steps.costs.is_sorted());
        for (step, &table) in steps.order.0[..steps.costs.len() - 1].iter().enumerate() {
            assert_eq!(usize::from(table), step % tables, "{:?}", steps.order);
        }
    }

    #[test]
    fn crowded_parts_get_fewer_steps() {
        let mut crowding = [1.0; PARTS];
        crowding[3] = 1000.0;
        let steps = LookupSteps::new::<Segment>(18, 20_000_000, &crowding);
        // The parts with tables begin with part 1.
        let given = |table: u8| {
            steps.order.0[..25]
                .iter()
                .filter(|&&of| of == table)
                .count()
        };
        assert!(
            (0..7).all(|table| if table == 2 {
                given(2) < 3
            } else {
                given(table) >= 3
            }),
            "{:?}",
            steps.order
        );
    }

    #[test]
    fn a_sample_finds_crowded_parts() {
        let mut state = 7_u64;
        let mut next = || {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            (state ^ state >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd)
        };
        // All prints agree in half the bits of part 5.
        let sample: Vec<PrintParts> = (0..SAMPLE)
            .map(|_| {
                let mut parts = parts_of(&Print([next(), next(), next(), next()]));
                parts[5] &= 0xffff;
                parts
            })
            .collect();
        let crowding = crowding(&sample, &Print([0; 4]));
        assert!(
            crowding
                .iter()
                .enumerate()
                .all(|(part, &factor)| if part == 5 {
                    factor > 100.0
                } else {
                    (0.3..3.0).contains(&factor)
                }),
            "{crowding:?}"
        );
    }
}
