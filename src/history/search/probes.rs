//! The lookups of a search, collected and executed many at a time.
//!
//! A lookup reads memory that is in no cache. So the searcher collects lookups and prefetches what
//! they will read; when there are [`LOOKUPS_TOGETHER`] of them, they are executed in rounds: find
//! the buckets, filter their slots, find the entries of slots, compare the prints.

use super::{
    part_keys::BitFlips,
    part_table::SlotCursor,
    print_halves::{PrintHead, body_distance, head_distance, join_print},
    searchable::{BucketCursor, SearchableEntries},
    searcher::{Searcher, part_of_table},
    similarity::{Hit, PrintSimilarity},
};
use crate::base::{
    error::Result,
    num::{ToU32, ToUsize},
};
use std::ops::Range;

/// The lookups that are executed together.
const LOOKUPS_TOGETHER: usize = 64;
/// About the greatest number of collected slots: an address may have very many.
const MAX_SLOTS: usize = 1 << 12;
/// After this number of heads a query is expected to need many.
const FEW_HEADS: u32 = 16;

/// The lookup of an address for a query.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    query: usize,
    address: u32,
    /// How many bits of the rest may differ.
    max_distance: u32,
    bucket: BucketCursor,
}

impl<S: SearchableEntries, const AVX2: bool> Searcher<'_, '_, S, AVX2> {
    #[inline(always)]
    pub(super) fn probe(
        &mut self,
        number: usize,
        table: usize,
        base: u32,
        max_distance: u32,
        flips: &BitFlips,
    ) -> Result<()> {
        let part = part_of_table::<S>(table);
        for &flip in flips.up_to(max_distance) {
            let (address, max_distance) = (base ^ flip, max_distance - flip.count_ones());
            self.source.prefetch_address(part, address);
            self.scratch.probes.push(Probe {
                query: number,
                address,
                max_distance,
                bucket: BucketCursor {
                    part,
                    ..BucketCursor::default()
                },
            });
            if self.scratch.probes.len() == LOOKUPS_TOGETHER {
                self.execute_probes()?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn probe_ordered(&mut self, number: usize, place: u32) -> Result<()> {
        self.source.prefetch_address(0, place);
        self.scratch.ordered.push((number, place));
        if self.scratch.ordered.len() == LOOKUPS_TOGETHER {
            self.scan_ordered()
        } else {
            Ok(())
        }
    }

    /// Executes all collected lookups.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.execute_probes()?;
        self.scan_ordered()?;
        self.compare_candidates()
    }

    /// Executes the collected probes: finds entries that may be near enough.
    fn execute_probes(&mut self) -> Result<()> {
        #[cfg(target_arch = "x86_64")]
        if AVX2 {
            // SAFETY: `AVX2` is true only if the processor has these features.
            return unsafe { self.execute_probes_avx2() };
        }
        self.execute_probes_inline()
    }

    /// Not inlined: its code would be repeated in all callers.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
    fn execute_probes_avx2(&mut self) -> Result<()> {
        self.execute_probes_inline()
    }

    #[inline(always)]
    fn execute_probes_inline(&mut self) -> Result<()> {
        let (source, mut probes) = (self.source, std::mem::take(&mut self.scratch.probes));
        for probe in &mut probes {
            probe.bucket = source.bucket(probe.bucket.part, probe.address)?;
        }
        let mut last = (0, SlotCursor::default());
        for (at, probe) in probes.iter().enumerate() {
            let rest = self.scratch.keys[probe.query][probe.bucket.part].rest;
            let (mut bucket, mut more) = (probe.bucket, true);
            while more {
                let slots = &mut self.scratch.slots;
                more = source.near::<AVX2>(&mut bucket, rest, probe.max_distance, |slot| {
                    source.prefetch_slot(&probe.bucket, slot);
                    slots.push((at, slot));
                })?;
                if slots.len() >= MAX_SLOTS {
                    self.resolve_slots(&probes, &mut last)?;
                    self.compare_candidates()?;
                }
            }
        }
        self.resolve_slots(&probes, &mut last)?;
        probes.clear();
        self.scratch.probes = probes;
        if self.scratch.candidates.len() >= LOOKUPS_TOGETHER {
            self.compare_candidates()
        } else {
            Ok(())
        }
    }

    /// Finds the entries of slots. `last` is the probe of the last slot, and how far its bucket was
    /// read.
    #[inline(always)]
    fn resolve_slots(&mut self, probes: &[Probe], last: &mut (usize, SlotCursor)) -> Result<()> {
        let Self {
            source, scratch, ..
        } = self;
        for (at, slot) in scratch.slots.drain(..) {
            if last.0 != at {
                *last = (at, SlotCursor::default());
            }
            let Probe {
                query,
                max_distance,
                bucket,
                ..
            } = &probes[at];
            let rest = scratch.keys[*query][bucket.part].rest;
            if let Some(entry) =
                source.entry::<AVX2>(bucket, slot, rest, *max_distance, &mut last.1)?
                && scratch.plans[*query].entries.contains(&entry)
            {
                scratch.candidates.push((query.to_u32(), entry));
            }
        }
        Ok(())
    }

    /// Scans the prints of the collected addresses of part 0.
    fn scan_ordered(&mut self) -> Result<()> {
        #[cfg(target_arch = "x86_64")]
        if AVX2 {
            // SAFETY: `AVX2` is true only if the processor has these features.
            return unsafe { self.scan_ordered_avx2() };
        }
        self.scan_ordered_inline()
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
    fn scan_ordered_avx2(&mut self) -> Result<()> {
        self.scan_ordered_inline()
    }

    #[inline(always)]
    fn scan_ordered_inline(&mut self) -> Result<()> {
        let mut waiting = std::mem::take(&mut self.scratch.ordered);
        let mut ranges: [Range<u32>; LOOKUPS_TOGETHER] = std::array::from_fn(|_| 0..0);
        for (&(_, place), range) in waiting.iter().zip(&mut ranges) {
            *range = self.source.ordered(place)?;
            self.source.prefetch_body(range.start);
        }
        for (&(number, _), range) in waiting.iter().zip(ranges) {
            self.scan_range(number, range)?;
        }
        waiting.clear();
        self.scratch.ordered = waiting;
        Ok(())
    }

    /// Compares the prints of the candidates.
    fn compare_candidates(&mut self) -> Result<()> {
        #[cfg(target_arch = "x86_64")]
        if AVX2 {
            // SAFETY: `AVX2` is true only if the processor has these features.
            return unsafe { self.compare_candidates_avx2() };
        }
        self.compare_candidates_inline()
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
    fn compare_candidates_avx2(&mut self) -> Result<()> {
        self.compare_candidates_inline()
    }

    #[inline(always)]
    fn compare_candidates_inline(&mut self) -> Result<()> {
        let mut candidates = std::mem::take(&mut self.scratch.candidates);
        for some in candidates.chunks(LOOKUPS_TOGETHER) {
            // A loop of its own: the processor then overlaps all cache misses.
            some.iter()
                .for_each(|&(_, entry)| self.source.prefetch_body(entry));
            for &(number, entry) in some {
                let number = number.to_usize();
                let [body] = self.source.bodies(entry..entry + 1)? else {
                    continue;
                };
                let at_least = body_distance(body, &self.queries[number].print);
                if at_least <= self.scratch.plans[number].max_distance {
                    self.check_entry(number, entry, at_least)?;
                }
            }
        }
        candidates.clear();
        self.scratch.candidates = candidates;
        Ok(())
    }

    /// Compares the head of an entry whose body is near enough.
    pub(super) fn check_entry(&mut self, number: usize, entry: u32, at_least: u32) -> Result<()> {
        let (source, query, plan) = (
            self.source,
            &self.queries[number],
            &mut self.scratch.plans[number],
        );
        plan.heads_read += 1;
        let (head, max_distance) = (
            source.head(entry, plan.heads_read > FEW_HEADS)?,
            plan.max_distance,
        );
        let distance = at_least + head_distance(head, &query.print);
        if distance > max_distance {
            Ok(())
        } else {
            self.offer_entry(number, entry, head, distance)
        }
    }

    #[cold]
    pub(super) fn offer_entry(
        &mut self,
        number: usize,
        entry: u32,
        head: PrintHead,
        distance: u32,
    ) -> Result<()> {
        let (source, query) = (self.source, &mut self.queries[number]);
        let [body] = source.bodies(entry..entry + 1)? else {
            return Ok(());
        };
        let similarity = PrintSimilarity::new(
            query.cardinality + join_print(head, body).cardinality(),
            distance,
        );
        if similarity.is_at_least(query.best.threshold()) {
            let (sequence, time) = source.arrival(entry, query.live.first_time > 0)?;
            query.offer(
                Hit {
                    similarity,
                    sequence,
                    location: S::location(self.number, entry),
                },
                time,
            );
            self.scratch.plans[number].shrink(source, query);
        }
        Ok(())
    }
}
