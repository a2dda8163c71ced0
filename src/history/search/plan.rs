//! What is looked up, and what is looked at one entry after the other: whatever takes least.

use super::{
    part_keys::{PART_BITS, PARTS, PrintParts, hamming_ball_size, parts_of},
    searcher::{SearchQuery, SearchableEntries},
};
use crate::history::store::segment::GROUPS;
use crate::{base::error::Result, text::stream::Print};
use std::ops::Range;

/// What it takes to look up an address, if looking at the next print takes 1.
const LOOKUP_COST: u64 = 30;
/// What it takes to look at a print somewhere.
const CANDIDATE_COST: f64 = 30.0;
/// What it takes to look up an address of part 0, with the prints that are there.
const ORDERED_COST: u64 = 60;
/// How many bits of part 0 may be changed at most, about.
const ORDERED_CHANGES: u32 = 5;
/// Parts of real prints are not as random as their bits: so many times as many are near one another, if nobody looks.
const USUAL_CROWD: f64 = 4.0;
/// Prints of a sample.
pub const SAMPLE: u32 = 1 << 12;
/// What it takes to look at a sample is a small part of plans that take so much.
const WORTH_A_SAMPLE: u64 = 16 * SAMPLE as u64;

/// How a request is searched for among entries, and what may still be among its best.
///
/// If every table is looked up with some of its bits changed, entries that differ in fewer bits than the sum of these and one more for
/// each table are found. Where prints are ordered by part 0, as many bits of it are changed as are missing: for each of the buckets of
/// cardinality, as what may differ depends on it. Where that would take longer than to look at all entries of a bucket, these are looked at.
#[derive(Debug, Clone, Default)]
pub struct SearchPlan {
    /// CardinalityRange of cardinality, and their entries.
    pub groups: Range<usize>,
    pub entries: Range<u32>,
    /// A bit for each bucket of which all entries are looked at.
    pub scanned: u32,
    /// How many bits may differ in the others.
    pub reach: u32,
    /// How many heads were looked at.
    pub heads: u32,
    /// Of the bits that are changed in all tables, and one more for each.
    pub sum: u32,
    order: StepOrder,
    /// How many steps go to each table.
    taken: [u8; PARTS],
    cost: u64,
}

impl SearchPlan {
    /// The cheapest. If that takes long, a sample says which parts of the request are rare.
    #[inline(always)]
    pub fn new<S: SearchableEntries>(source: &S, asked: &SearchQuery<'_>) -> Result<Self> {
        let plan = Self::with_steps(source, asked, source.steps());
        if plan.cost < WORTH_A_SAMPLE {
            return Ok(plan);
        }
        let sample = source.sample()?;
        if sample.is_empty() {
            return Ok(plan);
        }
        Ok(Self::with_steps(
            source,
            asked,
            &LookupSteps::new::<S>(
                source.address_bits(),
                source.count(),
                &crowds(sample, &asked.print),
            ),
        ))
    }

    fn with_steps<S: SearchableEntries>(
        source: &S,
        asked: &SearchQuery<'_>,
        steps: &LookupSteps,
    ) -> Self {
        let (limit, cardinality) = (asked.best.limit(), asked.cardinality);
        let groups = source.groups(limit, cardinality);
        // It rises with the cardinality.
        let reach = source.reach(limit, cardinality, groups.end - 1);
        let mut best = Self {
            entries: source.entries_of(groups.clone()),
            groups,
            reach,
            cost: u64::MAX,
            ..Self::default()
        };
        let mut reaches = [0; GROUPS as usize];
        best.groups
            .clone()
            .for_each(|group| reaches[group] = source.reach(limit, cardinality, group));
        let most_sum = reach + 1;
        for sum in (most_sum.saturating_sub(ORDERED_CHANGES).max(1)..=most_sum)
            .rev()
            .chain([0])
        {
            let Some(mut cost) = steps.cost(sum) else {
                continue;
            };
            let mut scanned = 0;
            for group in best.groups.clone() {
                let Some(missing) = reaches[group].checked_sub(sum) else {
                    continue;
                };
                let entries = u64::from(source.entries_of(group..group + 1).len() as u32);
                let looked_up = if S::TABLES == PARTS {
                    u64::MAX
                } else {
                    hamming_ball_size(source.group(group).0, missing).saturating_mul(ORDERED_COST)
                };
                scanned |= u32::from(entries <= looked_up) << group;
                cost += entries.min(looked_up);
            }
            if cost < best.cost {
                (best.cost, best.sum, best.scanned) = (cost, sum, scanned);
            }
        }
        best.order = steps.order;
        best.order.0[..best.sum as usize]
            .iter()
            .for_each(|&table| best.taken[table as usize] += 1);
        best
    }

    /// How many bits are changed of a table; none if it need not be looked up.
    #[inline(always)]
    pub fn changes(&self, table: usize) -> Option<u32> {
        self.taken[table].checked_sub(1).map(u32::from)
    }

    /// For what is worth it now. What was looked up with more changes than the plan has then is all the better.
    pub fn shrink<S: SearchableEntries>(&mut self, source: &S, asked: &SearchQuery<'_>) {
        let (limit, cardinality) = (asked.best.limit(), asked.cardinality);
        self.groups = source.groups(limit, cardinality);
        self.entries = source.entries_of(self.groups.clone());
        self.reach = source.reach(limit, cardinality, self.groups.end - 1);
        while self.sum > self.reach + 1 {
            self.sum -= 1;
            self.taken[self.order.0[self.sum as usize] as usize] -= 1;
        }
    }
}

/// Steps at most.
const STEPS: usize = 64;

/// For each step the table that gets it: looks it up as it is, or changes one more of its bits.
#[derive(Debug, Clone, Copy)]
struct StepOrder([u8; STEPS]);

impl Default for StepOrder {
    fn default() -> Self {
        Self([0; STEPS])
    }
}

/// To which tables steps go, the cheapest first, and what they take.
#[derive(Debug, Clone, Default)]
pub struct LookupSteps {
    order: StepOrder,
    /// What it takes to look up all tables with so many steps; as long as looking at all entries takes more.
    costs: Vec<u64>,
}

impl LookupSteps {
    /// If each part is near so many times as many others as bits that are independent would be.
    pub fn new<S: SearchableEntries>(
        address_bits: u32,
        entries: u32,
        crowds: &[f64; PARTS],
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
                more(PART_BITS as u32) as f64 * f64::from(entries) * crowds[first + table]
                    / (1_u64 << PART_BITS) as f64;
            more(address_bits) * LOOKUP_COST + (candidates * CANDIDATE_COST) as u64
        };
        let (mut steps, mut taken, mut sum) = (
            Self {
                costs: vec![0],
                ..Self::default()
            },
            [0; PARTS],
            0_u64,
        );
        for next in &mut steps.order.0 {
            let each = (0..S::TABLES).map(|table| (step_cost(table, taken[table]), table));
            let (cost, table) = each.min().unwrap_or_default();
            sum = sum.saturating_add(cost);
            if sum > u64::from(entries) {
                break;
            }
            steps.costs.push(sum);
            *next = table as u8;
            taken[table] += 1;
        }
        steps
    }

    /// If nothing is known about a request.
    pub fn usual<S: SearchableEntries>(address_bits: u32, entries: u32) -> Self {
        Self::new::<S>(address_bits, entries, &[USUAL_CROWD; PARTS])
    }

    /// None: too much.
    fn cost(&self, sum: u32) -> Option<u64> {
        self.costs.get(sum as usize).copied()
    }
}

/// In how many bits a part of a print of the sample may differ to be counted: so many, or one more, until there are some that do.
const FEWEST: u32 = 4;
const NEARS: usize = 6;
/// So many tell enough.
const SOME: u32 = 8;

/// For each part of a print how many times as many prints are near it as if bits were independent, by a sample.
///
/// Prints that differ in the least bits are too few in a sample to be counted, so those are that differ in some more.
#[inline(always)]
fn crowds(sample: &[PrintParts], print: &Print) -> [f64; PARTS] {
    let (asked, mut nears) = (parts_of(print), [[0_u32; PARTS]; NEARS]);
    for parts in sample {
        for part in 0..PARTS {
            let apart = (parts[part] ^ asked[part]).count_ones();
            nears
                .iter_mut()
                .zip(FEWEST..)
                .for_each(|(near, most)| near[part] += u32::from(apart <= most));
        }
    }
    std::array::from_fn(|part| {
        let at = nears
            .iter()
            .position(|near| near[part] >= SOME)
            .unwrap_or(NEARS - 1);
        let expected = sample.len() as f64
            * hamming_ball_size(PART_BITS as u32, FEWEST + at as u32) as f64
            / (1_u64 << PART_BITS) as f64;
        (f64::from(nears[at][part]) + 0.5) / expected
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

    /// Only with a multiple of three steps.
    pub fn steps_by_three() -> LookupSteps {
        let costs = (0..40)
            .map(|sum| if sum % 3 == 0 { 0 } else { 1_000_000 })
            .collect();
        LookupSteps {
            costs,
            ..LookupSteps::usual::<Segment>(10, 1 << 30)
        }
    }

    #[test]
    fn steps_go_round_if_nothing_is_known() {
        let steps = LookupSteps::usual::<Segment>(18, 20_000_000);
        let tables = PARTS - 1;
        assert!(steps.costs.len() > 4 * tables && steps.costs.is_sorted());
        for (step, &table) in steps.order.0[..steps.costs.len() - 1].iter().enumerate() {
            assert_eq!(usize::from(table), step % tables, "{:?}", steps.order);
        }
    }

    #[test]
    fn crowded_parts_get_fewer_steps() {
        let mut crowds = [1.0; PARTS];
        crowds[3] = 1000.0;
        let steps = LookupSteps::new::<Segment>(18, 20_000_000, &crowds);
        // The parts that have tables begin with part 1.
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
    fn a_sample_tells_what_is_crowded() {
        let mut state = 7_u64;
        let mut next = || {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            (state ^ state >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd)
        };
        // All are alike in half the bits of part 5.
        let sample: Vec<PrintParts> = (0..SAMPLE)
            .map(|_| {
                let mut parts = parts_of(&Print([next(), next(), next(), next()]));
                parts[5] &= 0xffff;
                parts
            })
            .collect();
        let crowds = crowds(&sample, &Print([0; 4]));
        assert!(
            crowds
                .iter()
                .enumerate()
                .all(|(part, &crowd)| if part == 5 {
                    crowd > 100.0
                } else {
                    (0.3..3.0).contains(&crowd)
                }),
            "{crowds:?}"
        );
    }
}
