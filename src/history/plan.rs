//! What is looked up, and what is looked at one entry after the other: whatever takes least.

use super::{
    keys::{PARTS, ball},
    search::{Asked, Searched},
    segment::GROUPS,
};
use crate::format::PRINT_BITS;
use std::ops::Range;

/// What it takes to look up an address, if looking at the next print takes 1.
const LOOKUP_COST: u64 = 30;
/// What it takes to look at a print somewhere. Parts of real prints are not as random as their bits: there are several times as many.
const CANDIDATE_COST: u64 = 4 * 30;
/// What it takes to look up an address of part 0, with the prints that are there.
const ORDERED_COST: u64 = 60;
/// How many bits of part 0 may be changed at most, about.
const ORDERED_CHANGES: u32 = 5;

/// How a request is searched for among entries, and what may still be among its best.
///
/// If every table is looked up with some of its bits changed, entries that differ in fewer bits than the sum of these and one more for
/// each table are found. Where prints are ordered by part 0, as many bits of it are changed as are missing: for each of the buckets of
/// cardinality, as what may differ depends on it. Where that would take longer than to look at all entries of a bucket, these are looked at.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Buckets of cardinality, and their entries.
    pub groups: Range<usize>,
    pub entries: Range<u32>,
    /// A bit for each bucket of which all entries are looked at.
    pub scanned: u32,
    /// How many bits may differ in the others.
    pub reach: u32,
    /// Of the bits that are changed in all tables, and one more for each.
    pub sum: u32,
}

impl Plan {
    /// The cheapest.
    pub fn new<S: Searched>(source: &S, asked: &Asked<'_>) -> Self {
        let (limit, cardinality) = (asked.best.limit(), asked.cardinality);
        let groups = source.groups(limit, cardinality);
        // It rises with the cardinality.
        let reach = source.reach(limit, cardinality, groups.end - 1);
        let mut best = Self { entries: source.entries_of(groups.clone()), groups, scanned: 0, reach, sum: 0 };
        let mut reaches = [0; GROUPS as usize];
        best.groups.clone().for_each(|group| reaches[group] = source.reach(limit, cardinality, group));
        let (mut least, most_sum) = (u64::MAX, reach + 1);
        for sum in (most_sum.saturating_sub(ORDERED_CHANGES).max(1)..=most_sum).rev().chain([0]) {
            let Some(mut cost) = source.table_cost(sum) else { continue };
            let mut scanned = 0;
            for group in best.groups.clone() {
                let Some(missing) = reaches[group].checked_sub(sum) else { continue };
                let entries = u64::from(source.entries_of(group..group + 1).len() as u32);
                let looked_up =
                    if S::TABLES == PARTS { u64::MAX } else { ball(source.group(group).0, missing).saturating_mul(ORDERED_COST) };
                scanned |= u32::from(entries <= looked_up) << group;
                cost += entries.min(looked_up);
            }
            if cost < least {
                (least, best.sum, best.scanned) = (cost, sum, scanned);
            }
        }
        best
    }

    /// For what is worth it now. What was looked up with more changes than the plan has then is all the better.
    pub fn shrink<S: Searched>(&mut self, source: &S, asked: &Asked<'_>) {
        let (limit, cardinality) = (asked.best.limit(), asked.cardinality);
        self.groups = source.groups(limit, cardinality);
        self.entries = source.entries_of(self.groups.clone());
        self.reach = source.reach(limit, cardinality, self.groups.end - 1);
        self.sum = self.sum.min(self.reach + 1);
    }
}

/// How many bits are changed of a table, if they are so many in all tables with one more for each; none if it need not be looked up.
#[inline(always)]
pub fn changes(sum: u32, table: usize, tables: usize) -> Option<u32> {
    ((sum as usize + tables - 1 - table) / tables).checked_sub(1).map(|changes| changes as u32)
}

/// What it takes to look up all tables, by the sum of changed bits and one more for each; as long as looking at all entries takes more.
pub fn table_costs<S: Searched>(address_bits: u32, key_bits: u32, entries: u32) -> Vec<u64> {
    let of_table = |most: u32| {
        let candidates = ball(key_bits, most).saturating_mul(u64::from(entries)) >> key_bits;
        (ball(address_bits, most) * LOOKUP_COST).saturating_add(candidates * CANDIDATE_COST)
    };
    let of_all = |sum| (0..S::TABLES).filter_map(|table| changes(sum, table, S::TABLES)).map(of_table).fold(0, u64::saturating_add);
    (0..=PRINT_BITS as u32 + 1).map(of_all).take_while(|&cost| cost <= u64::from(entries)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_falls_between_the_tables() {
        for (sum, tables) in (0..=257).flat_map(|sum| [(sum, 7), (sum, 8)]) {
            let more: Vec<u32> = (0..tables).map(|table| changes(sum, table, tables).map_or(0, |most| most + 1)).collect();
            assert!(more.iter().sum::<u32>() == sum && more.is_sorted_by(|one, two| one >= two), "{sum} {more:?}");
        }
        let of = |sum| (0..7).map(|table| changes(sum, table, 7)).collect::<Vec<_>>();
        assert_eq!(of(8), [Some(1), Some(0), Some(0), Some(0), Some(0), Some(0), Some(0)]);
        assert_eq!(of(2), [Some(0), Some(0), None, None, None, None, None]);
    }
}
