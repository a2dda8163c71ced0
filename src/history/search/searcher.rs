//! The search itself: exactly what a comparison with every entry would find.
//!
//! Queries are searched together, step by step, so that memory latency is paid once for many:
//!
//! 1. Look up entries with the same print; as many as the query wants are enough.
//! 2. Look up each part unchanged, then with one bit flipped: this finds nearly all similar entries,
//!    which raises the threshold for the rest.
//! 3. If more bits may still differ, look up each part with all of these flips at once, one piece of
//!    its table after the other, each for all queries.
//! 4. Look up part 0, by which prints are sorted, for the distances that are left: see
//!    [`SearchPlan`].
//!
//! [`super::probes`] collects the lookups and executes them many at a time.

use super::{
    part_keys::{BitFlips, FLIP_BITS, NumbersWithOnes, PARTS, PartKey},
    plan::SearchPlan,
    probes::Probe,
    scan::{scan_inline, scan_whole},
    searchable::{SearchQuery, SearchableEntries},
};
use crate::base::{error::Result, num::ToU32};
use std::ops::Range;

/// The address bits whose buckets are a piece of a table: together they fit into a cache.
const PIECE_BITS: u32 = FLIP_BITS;
/// The number of queries from which a table is searched piece by piece.
const MIN_QUERIES_FOR_PIECES: usize = 8;
/// From this distance on bodies rule out hardly any print, so heads are compared with them.
const MIN_DISTANCE_FOR_HEADS: u32 = 40;
/// The prints that are scanned for all queries in turn.
const SCAN_PIECE: u32 = 4096;

/// Buffers of a search, for reuse.
#[derive(Debug, Default)]
pub struct SearchScratch {
    pub(super) probes: Vec<Probe>,
    /// Slots whose entries may be near enough, each with the number of its probe.
    pub(super) slots: Vec<(usize, u32)>,
    /// Lookups of part 0: the number of the query, and the place in the directory.
    pub(super) ordered: Vec<(usize, u32)>,
    /// The numbers of queries, and entries that may be near enough.
    pub(super) candidates: Vec<(u32, u32)>,
    pub(super) keys: Vec<[PartKey; PARTS]>,
    pub(super) plans: Vec<SearchPlan>,
}

/// The part of a table.
pub(super) const fn part_of_table<S: SearchableEntries>(table: usize) -> usize {
    PARTS - S::TABLES + table
}

/// Offers to each query the entries of a source that may be among its best.
pub fn search<S: SearchableEntries>(
    source: &S,
    number: usize,
    queries: &mut [SearchQuery<'_>],
    scratch: &mut SearchScratch,
) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
    {
        let searcher = Searcher {
            source,
            number,
            queries,
            scratch,
        };
        // SAFETY: the processor has these features.
        return unsafe { search_avx2(searcher) };
    }
    Searcher::<S, false> {
        source,
        number,
        queries,
        scratch,
    }
    .search()
}

/// The same code, compiled with instructions that count bits and compare many numbers at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
fn search_avx2<S: SearchableEntries>(searcher: Searcher<'_, '_, S, true>) -> Result<()> {
    searcher.search()
}

/// The state of a search. `AVX2`: the caller is compiled for it.
pub(super) struct Searcher<'s, 'l, S, const AVX2: bool> {
    pub(super) source: &'s S,
    pub(super) number: usize,
    pub(super) queries: &'s mut [SearchQuery<'l>],
    pub(super) scratch: &'s mut SearchScratch,
}

impl<S: SearchableEntries, const AVX2: bool> Searcher<'_, '_, S, AVX2> {
    #[inline(always)]
    fn search(mut self) -> Result<()> {
        let scanned = self.plan_queries()?;
        self.scan(&scanned)?;
        let Some(keys) = self.source.keys() else {
            return Ok(());
        };
        self.scratch.keys.clear();
        self.scratch
            .keys
            .extend(self.queries.iter().map(|query| keys.all(&query.print)));
        self.look_up_equals()?;
        self.look_up_all(0)?;
        self.look_up_all(1)?;
        self.look_up_many_flips()?;
        self.look_up_part_0()
    }

    /// Plans each query; returns the entries to scan, each range with the number of its query.
    #[inline(always)]
    fn plan_queries(&mut self) -> Result<Vec<(usize, Range<u32>)>> {
        let Self {
            source,
            queries,
            scratch,
            ..
        } = self;
        scratch.probes.clear();
        scratch.slots.clear();
        scratch.ordered.clear();
        scratch.candidates.clear();
        scratch.plans.clear();
        let mut scanned = Vec::new();
        for (number, query) in queries.iter().enumerate() {
            let plan = if query.best.is_final() {
                SearchPlan::default()
            } else {
                SearchPlan::new(*source, query)?
            };
            let is_scanned = |group: &usize| plan.scanned_groups >> group & 1 == 1;
            let groups = plan
                .groups
                .clone()
                .filter(is_scanned)
                .map(|group| source.entries_of(group..group + 1));
            scanned.extend(
                groups
                    .filter(|entries| !entries.is_empty())
                    .map(|entries| (number, entries)),
            );
            scratch.plans.push(plan);
        }
        Ok(scanned)
    }

    /// Scans the ranges, one piece after the other for all queries in turn.
    #[inline(always)]
    fn scan(&mut self, ranges: &[(usize, Range<u32>)]) -> Result<()> {
        let (first, end) = ranges
            .iter()
            .fold((u32::MAX, 0), |(first, end), (_, range)| {
                (first.min(range.start), end.max(range.end))
            });
        let mut start = first;
        while start < end {
            let next = end.min(start + SCAN_PIECE);
            for (number, range) in ranges {
                self.scan_range(*number, range.start.max(start)..range.end.min(next))?;
            }
            start = next;
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn scan_range(&mut self, number: usize, entries: Range<u32>) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let bodies = self.source.bodies(entries.clone())?;
        let (print, max_distance) = (
            self.queries[number].print,
            self.queries[number].max_distance(),
        );
        if max_distance >= MIN_DISTANCE_FOR_HEADS {
            let heads = self.source.heads(entries.clone())?;
            return scan_whole(heads, bodies, &print, max_distance, &mut |at, distance| {
                self.offer_entry(number, entries.start + at.to_u32(), heads[at], distance)?;
                Ok(self.queries[number].max_distance())
            });
        }
        scan_inline(bodies, &print, max_distance, &mut |at, at_least| {
            self.check_entry(number, entries.start + at.to_u32(), at_least)?;
            Ok(self.queries[number].max_distance())
        })
    }

    fn look_up_equals(&mut self) -> Result<()> {
        let each = || self.queries.iter().zip(&self.scratch.keys);
        each().for_each(|(query, keys)| self.source.prefetch_place(query.cardinality, &keys[0]));
        each().try_for_each(|(query, keys)| {
            self.source.prefetch_equals(query.cardinality, &keys[0])
        })?;
        for number in 0..self.queries.len() {
            if self.needs_lookups(number) {
                let (source, print, key) = (
                    self.source,
                    self.queries[number].print,
                    self.scratch.keys[number][0],
                );
                source.equals(&print, &key, &mut |entry| {
                    self.check_entry(number, entry, 0)?;
                    Ok(self.queries[number].best.is_final())
                })?;
            }
        }
        Ok(())
    }

    fn needs_lookups(&self, number: usize) -> bool {
        !self.scratch.plans[number].entries.is_empty() && !self.queries[number].best.is_final()
    }

    /// How many bits to flip in a table; `None` if it needs no lookup.
    #[inline(always)]
    fn max_flips(&self, number: usize, table: usize) -> Option<u32> {
        if self.needs_lookups(number) {
            self.scratch.plans[number].max_flips(table)
        } else {
            None
        }
    }

    /// Looks up each part of each query with up to `flips` bits flipped, where the plan asks for it.
    #[inline(always)]
    fn look_up_all(&mut self, flips: u32) -> Result<()> {
        for number in 0..self.queries.len() {
            for table in 0..S::TABLES {
                if self
                    .max_flips(number, table)
                    .is_some_and(|max| max >= flips)
                {
                    self.look_up(number, table, flips)?;
                }
            }
        }
        self.flush()
    }

    /// Looks up the parts in which two or more bits are to be flipped.
    #[inline(always)]
    fn look_up_many_flips(&mut self) -> Result<()> {
        for table in 0..S::TABLES {
            let deep = |number: &usize| {
                self.max_flips(*number, table)
                    .is_some_and(|flips| flips >= 2)
            };
            let deep: Vec<usize> = (0..self.queries.len()).filter(deep).collect();
            if deep.len() < MIN_QUERIES_FOR_PIECES {
                for number in deep {
                    if let Some(flips) = self.max_flips(number, table) {
                        self.look_up(number, table, flips)?;
                    }
                }
            } else {
                self.look_up_pieces(&deep, table)?;
            }
            self.flush()?;
        }
        Ok(())
    }

    /// Looks up a table for many queries, one piece of it after the other.
    #[inline(always)]
    fn look_up_pieces(&mut self, numbers: &[usize], table: usize) -> Result<()> {
        let bits = self.source.address_bits();
        let low = bits.min(PIECE_BITS);
        for high in 0..1_u32 << (bits - low) {
            for &number in numbers {
                // Hits found meanwhile may have raised the threshold.
                let Some(flips) = self.max_flips(number, table).filter(|&flips| flips >= 2) else {
                    continue;
                };
                let address = self.scratch.keys[number][part_of_table::<S>(table)].address;
                let Some(left) = flips.checked_sub((address >> low ^ high).count_ones()) else {
                    continue;
                };
                self.probe(
                    number,
                    table,
                    high << low | address & ((1 << low) - 1),
                    left,
                    BitFlips::of(low),
                )?;
            }
        }
        Ok(())
    }

    /// Looks up a table with up to `flips` bits flipped.
    #[inline(always)]
    fn look_up(&mut self, number: usize, table: usize, flips: u32) -> Result<()> {
        let (bits, address) = (
            self.source.address_bits(),
            self.scratch.keys[number][part_of_table::<S>(table)].address,
        );
        let low = bits.min(PIECE_BITS);
        for changed in 0..=flips.min(bits - low) {
            for change in NumbersWithOnes::new(bits - low, changed) {
                self.probe(
                    number,
                    table,
                    address ^ change << low,
                    flips - changed,
                    BitFlips::of(low),
                )?;
            }
        }
        Ok(())
    }

    /// Looks up part 0, by which the prints are sorted, with the flips that the tables lack.
    #[inline(always)]
    fn look_up_part_0(&mut self) -> Result<()> {
        if S::TABLES == PARTS {
            return Ok(());
        }
        for number in 0..self.queries.len() {
            let address = self.scratch.keys[number][0].address;
            for group in self.scratch.plans[number].groups.clone() {
                // Hits found meanwhile may have raised the threshold.
                let Some(flips) = self.missing_flips(number, group) else {
                    continue;
                };
                let (bits, first) = self.source.group(group);
                let address = address & ((1 << bits) - 1);
                for change in
                    (0..=flips.min(bits)).flat_map(|ones| NumbersWithOnes::new(bits, ones))
                {
                    self.probe_ordered(number, first + (address ^ change))?;
                }
            }
        }
        self.flush()
    }

    /// How many bits of part 0 to flip in a group.
    pub(super) fn missing_flips(&self, number: usize, group: usize) -> Option<u32> {
        let (plan, query) = (&self.scratch.plans[number], &self.queries[number]);
        if !self.needs_lookups(number)
            || !plan.groups.contains(&group)
            || plan.scanned_groups >> group & 1 == 1
        {
            return None;
        }
        self.source
            .max_distance(query.best.threshold(), query.cardinality, group)
            .checked_sub(plan.steps_taken)
    }
}
