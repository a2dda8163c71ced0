//! The best matches of many prints, in a segment or among the newest entries: exactly what a look at every entry would give.
//!
//! Requests are answered together, step by step, so that the memory is waited for once for many of them:
//! 1. entries with the same print, as many as are limits, are enough;
//! 2. each part as it is, then each with one bit changed: of what is alike, nearly all is found here, and there is less left to look for;
//! 3. if more bits may still differ, each part with all of them changed at once, a piece of its table after the other, each for all requests.
//!
//! 4. part 0, by which prints are ordered, for the rest: see [`SearchPlan`].

use super::{
    part_keys::{BitFlips, FLIP_BITS, NumbersWithOnes, PARTS, PartKey, PartKeys, PrintParts},
    part_table::{BucketSlots, SlotCursor},
    plan::{LookupSteps, SearchPlan},
    print_halves::{PrintBody, PrintHead, distance, head_distance, join},
    scan::{scan_anywhere, scan_whole},
    similarity::{BestMatches, Hit, HitLocation, PrintSimilarity, Ratio},
};
use crate::history::store::segment::EntrySource;
use crate::{base::error::Result, text::stream::Print};
use std::{collections::HashSet, ops::Range};

/// What counts of what is found.
#[derive(Debug, Clone, Copy)]
pub struct LiveFilter<'l> {
    /// What came before is forgotten.
    pub first_sequence: u64,
    /// The entry that is the document itself: neither it nor what came later counts.
    pub end_sequence: u64,
    pub first_time: u32,
    /// Sequence numbers that were removed.
    pub removed: &'l HashSet<u64>,
}

impl LiveFilter<'_> {
    pub fn has(&self, sequence: u64, time: u32) -> bool {
        (self.first_sequence..self.end_sequence).contains(&sequence)
            && time >= self.first_time
            && (self.removed.is_empty() || !self.removed.contains(&sequence))
    }
}

/// What is asked about, and the best that was found so far.
#[derive(Debug, Clone)]
pub struct SearchQuery<'l> {
    pub print: Print,
    pub cardinality: u32,
    pub live: LiveFilter<'l>,
    pub best: BestMatches,
}

impl<'l> SearchQuery<'l> {
    pub fn new(print: Print, live: LiveFilter<'l>, best: BestMatches) -> Self {
        Self {
            print,
            cardinality: print.cardinality(),
            live,
            best,
        }
    }

    /// How many bits may differ of an entry that is worth it.
    pub fn reach(&self) -> u32 {
        self.best.limit().reach(self.cardinality)
    }

    /// Offers an entry that is near enough.
    pub fn offer(&mut self, found: Hit, time: u32) {
        if found.likeness.reaches(self.best.limit()) && self.live.has(found.sequence, time) {
            self.best.offer(found);
        }
    }
}

/// The slots of an address of a part, and which of them is the next to be looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct BucketCursor {
    pub part: usize,
    pub slots: BucketSlots,
    pub next: u32,
}

/// Entries that can be found by the addresses of their parts.
pub trait SearchableEntries: EntrySource {
    /// Where an entry of the one with this number is.
    fn at(number: usize, entry: u32) -> HitLocation;
    /// Its sequence number, and its time if somebody wants to know it.
    fn arrival(&self, entry: u32, with_time: bool) -> Result<(u64, u32)>;
    /// None if there are too few to be worth it.
    fn keys(&self) -> Option<&PartKeys>;
    fn address_bits(&self) -> u32;
    /// To which tables steps go if nothing is known about a request.
    fn steps(&self) -> &LookupSteps;
    /// Parts of some prints, as they are; none if there are too few entries to be worth it.
    fn sample(&self) -> Result<&[PrintParts]>;
    /// The buckets of cardinality that may have entries that are so alike.
    fn groups(&self, limit: Ratio, cardinality: u32) -> Range<usize>;
    fn entries_of(&self, groups: Range<usize>) -> Range<u32>;
    /// How many bits may differ of an entry in a bucket of cardinality.
    fn reach(&self, limit: Ratio, cardinality: u32, group: usize) -> u32;
    fn bodies(&self, entries: Range<u32>) -> Result<&[PrintBody]>;
    fn prefetch_body(&self, entry: u32);
    /// The head of a print. Few are read, many are mapped.
    fn head(&self, entry: u32, is_one_of_many: bool) -> Result<PrintHead>;
    fn heads(&self, entries: Range<u32>) -> Result<&[PrintHead]>;
    /// Asks for what [`Self::prefetch_equals`] looks at.
    fn prefetch_place(&self, cardinality: u32, key: &PartKey);
    /// Asks for what [`Self::equals`] looks at.
    fn prefetch_equals(&self, cardinality: u32, key: &PartKey) -> Result<()>;
    /// Calls with entries whose print is that one, the first to come first, until it is told that they are enough.
    fn equals(
        &self,
        print: &Print,
        key: &PartKey,
        call: &mut dyn FnMut(u32) -> Result<bool>,
    ) -> Result<()>;
    /// How many parts have tables: all, or all but part 0, as the prints themselves are ordered by it, in each of the buckets of cardinality.
    const TABLES: usize;
    /// How many bits the addresses of part 0 have in a bucket of cardinality, and where in the directory they begin.
    fn group(&self, group: usize) -> (u32, u32);
    /// The entries that an address of part 0 has, by its place in the directory.
    fn ordered(&self, place: u32) -> Result<Range<u32>>;
    fn prefetch_address(&self, part: usize, address: u32);
    /// Also asks for its first slots.
    fn bucket(&self, part: usize, address: u32) -> Result<BucketCursor>;
    /// Calls with the next slots of a bucket whose rest differs from one in at most so many bits. Whether there are more to look at.
    fn near<const AVX2: bool>(
        &self,
        bucket: &mut BucketCursor,
        rest: u32,
        most: u32,
        call: impl FnMut(u32),
    ) -> Result<bool>;
    /// Asks for what [`Self::entry`] looks at.
    fn prefetch_slot(&self, bucket: &BucketCursor, slot: u32);
    /// The entry of a slot, if its rest, all of it, differs from that one in at most so many bits; slots of a bucket are asked for in their
    /// order, with one cursor.
    fn entry<const AVX2: bool>(
        &self,
        bucket: &BucketCursor,
        slot: u32,
        rest: u32,
        most: u32,
        cursor: &mut SlotCursor,
    ) -> Result<Option<u32>>;
}

/// Addresses that are looked up together, so that the memory is waited for once.
const TOGETHER: usize = 64;
/// Bits of an address whose buckets are a piece of a table: together they fit into a cache.
const PIECE_BITS: u32 = FLIP_BITS;
/// As many requests make it worth to go through a table piece by piece.
const MANY: usize = 8;
/// Slots that wait at most, about: an address may have very many.
const MANY_SLOTS: usize = 1 << 12;
/// If so many bits may differ, hardly any body tells that a print is too far: heads are looked at with them.
const FAR: u32 = 40;
/// Prints that are looked at for all requests in turn.
const SCANNED: u32 = 4096;

/// If a request looks at more heads than that, it will look at many.
const FEW_HEADS: u32 = 16;

/// Buffers that are used again and again.
#[derive(Debug, Default)]
pub struct SearchScratch {
    probes: Vec<Probe>,
    /// Slots whose entries may be near enough, each with the number of its probe.
    slots: Vec<(usize, u32)>,
    ordered: Vec<(usize, u32)>,
    /// Requests, and entries that may be near enough.
    candidates: Vec<(u32, u32)>,
    keys: Vec<[PartKey; PARTS]>,
    plans: Vec<SearchPlan>,
}

/// An address that is looked up for a request, and in how many of the bits beside them its entries may differ.
#[derive(Debug, Clone)]
struct Probe {
    asked: usize,
    address: u32,
    most: u32,
    bucket: BucketCursor,
}

/// The part that a table is of.
const fn part_of_table<S: SearchableEntries>(table: usize) -> usize {
    PARTS - S::TABLES + table
}

/// Offers to each request whatever may be among its best.
pub fn search<S: SearchableEntries>(
    source: &S,
    number: usize,
    asked: &mut [SearchQuery<'_>],
    scratch: &mut SearchScratch,
) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
    {
        // SAFETY: the processor was just asked for all of them.
        return unsafe {
            search_avx2(Searcher {
                source,
                number,
                asked,
                scratch,
            })
        };
    }
    Searcher::<S, false> {
        source,
        number,
        asked,
        scratch,
    }
    .search()
}

/// The same code, with instructions that count and find ones, and look at many numbers at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
fn search_avx2<S: SearchableEntries>(searcher: Searcher<'_, '_, S, true>) -> Result<()> {
    searcher.search()
}

/// `AVX2`: what it is called from is compiled for that.
struct Searcher<'s, 'l, S, const AVX2: bool> {
    source: &'s S,
    number: usize,
    asked: &'s mut [SearchQuery<'l>],
    scratch: &'s mut SearchScratch,
}

impl<S: SearchableEntries, const AVX2: bool> Searcher<'_, '_, S, AVX2> {
    #[inline(always)]
    fn search(mut self) -> Result<()> {
        let scanned = self.begin()?;
        self.scan(&scanned)?;
        let Some(keys) = self.source.keys() else {
            return Ok(());
        };
        self.scratch.keys.clear();
        self.scratch
            .keys
            .extend(self.asked.iter().map(|asked| keys.all(&asked.print)));
        self.look_up_equals()?;
        self.look_up_all(0)?;
        self.look_up_all(1)?;
        self.look_deep()?;
        self.look_up_ordered()
    }

    /// Makes a plan for each request. Which entries are looked at one after the other, and for whom.
    #[inline(always)]
    fn begin(&mut self) -> Result<Vec<(usize, Range<u32>)>> {
        let Self {
            source,
            asked,
            scratch,
            ..
        } = self;
        scratch.probes.clear();
        scratch.slots.clear();
        scratch.ordered.clear();
        scratch.candidates.clear();
        scratch.plans.clear();
        let mut scanned = Vec::new();
        for (number, asked) in asked.iter().enumerate() {
            let plan = if asked.best.is_full_of_equals() {
                SearchPlan::default()
            } else {
                SearchPlan::new(*source, asked)?
            };
            let is_scanned = |group: &usize| plan.scanned >> group & 1 == 1;
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

    /// Looks at every entry of the ranges, a piece after the other for all requests in turn.
    #[inline(always)]
    fn scan(&mut self, ranges: &[(usize, Range<u32>)]) -> Result<()> {
        let (first, end) = ranges
            .iter()
            .fold((u32::MAX, 0), |(first, end), (_, range)| {
                (first.min(range.start), end.max(range.end))
            });
        let mut start = first;
        while start < end {
            let next = end.min(start + SCANNED);
            for (number, range) in ranges {
                self.scan_one(*number, range.start.max(start)..range.end.min(next))?;
            }
            start = next;
        }
        Ok(())
    }

    #[inline(always)]
    fn scan_one(&mut self, number: usize, entries: Range<u32>) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let bodies = self.source.bodies(entries.clone())?;
        let (print, reach) = (self.asked[number].print, self.asked[number].reach());
        if reach >= FAR {
            let heads = self.source.heads(entries.clone())?;
            return scan_whole(heads, bodies, &print, reach, &mut |at, distance| {
                self.consider_near(number, entries.start + at as u32, heads[at], distance)?;
                Ok(self.asked[number].reach())
            });
        }
        scan_anywhere(bodies, &print, reach, &mut |at, at_least| {
            self.consider(number, entries.start + at as u32, at_least)?;
            Ok(self.asked[number].reach())
        })
    }

    fn look_up_equals(&mut self) -> Result<()> {
        let each = || self.asked.iter().zip(&self.scratch.keys);
        each().for_each(|(asked, keys)| self.source.prefetch_place(asked.cardinality, &keys[0]));
        each().try_for_each(|(asked, keys)| {
            self.source.prefetch_equals(asked.cardinality, &keys[0])
        })?;
        for number in 0..self.asked.len() {
            if self.is_open(number) {
                let (source, print, key) = (
                    self.source,
                    self.asked[number].print,
                    self.scratch.keys[number][0],
                );
                source.equals(&print, &key, &mut |entry| {
                    self.consider(number, entry, 0)?;
                    Ok(self.asked[number].best.is_full_of_equals())
                })?;
            }
        }
        Ok(())
    }

    fn is_open(&self, number: usize) -> bool {
        !self.scratch.plans[number].entries.is_empty()
            && !self.asked[number].best.is_full_of_equals()
    }

    /// How many bits are changed of a table; none if it need not be looked up.
    #[inline(always)]
    fn changes(&self, number: usize, table: usize) -> Option<u32> {
        if self.is_open(number) {
            self.scratch.plans[number].changes(table)
        } else {
            None
        }
    }

    /// Looks up each part of each request with up to so many bits changed, where that is necessary.
    #[inline(always)]
    fn look_up_all(&mut self, ones: u32) -> Result<()> {
        for number in 0..self.asked.len() {
            for table in 0..S::TABLES {
                if self.changes(number, table).is_some_and(|most| most >= ones) {
                    self.look_up(number, table, ones)?;
                }
            }
        }
        self.flush()
    }

    /// Looks up parts of which more bits are to be changed, with all of them at once.
    #[inline(always)]
    fn look_deep(&mut self) -> Result<()> {
        for table in 0..S::TABLES {
            let deep = |number: &usize| self.changes(*number, table).is_some_and(|most| most >= 2);
            let deep: Vec<usize> = (0..self.asked.len()).filter(deep).collect();
            if deep.len() < MANY {
                for number in deep {
                    if let Some(most) = self.changes(number, table) {
                        self.look_up(number, table, most)?;
                    }
                }
            } else {
                self.look_up_pieces(&deep, table)?;
            }
            self.flush()?;
        }
        Ok(())
    }

    /// Looks up a table for many requests, a piece of it after the other.
    #[inline(always)]
    fn look_up_pieces(&mut self, numbers: &[usize], table: usize) -> Result<()> {
        let bits = self.source.address_bits();
        let low = bits.min(PIECE_BITS);
        for high in 0..1_u32 << (bits - low) {
            for &number in numbers {
                // What was found meanwhile may have left less to do.
                let Some(most) = self.changes(number, table).filter(|&most| most >= 2) else {
                    continue;
                };
                let address = self.scratch.keys[number][part_of_table::<S>(table)].address;
                let Some(left) = most.checked_sub((address >> low ^ high).count_ones()) else {
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

    /// Looks up a table with up to so many bits changed.
    #[inline(always)]
    fn look_up(&mut self, number: usize, table: usize, most: u32) -> Result<()> {
        let (bits, address) = (
            self.source.address_bits(),
            self.scratch.keys[number][part_of_table::<S>(table)].address,
        );
        let low = bits.min(PIECE_BITS);
        for changed in 0..=most.min(bits - low) {
            for change in NumbersWithOnes::new(bits - low, changed) {
                self.probe(
                    number,
                    table,
                    address ^ change << low,
                    most - changed,
                    BitFlips::of(low),
                )?;
            }
        }
        Ok(())
    }

    /// Where prints are ordered by part 0, looks it up with the changes that are missing in the tables.
    #[inline(always)]
    fn look_up_ordered(&mut self) -> Result<()> {
        if S::TABLES == PARTS {
            return Ok(());
        }
        for number in 0..self.asked.len() {
            let address = self.scratch.keys[number][0].address;
            for group in self.scratch.plans[number].groups.clone() {
                // What was found meanwhile may have left less to do.
                let Some(most) = self.missing(number, group) else {
                    continue;
                };
                let (bits, first) = self.source.group(group);
                let address = address & ((1 << bits) - 1);
                for change in (0..=most.min(bits)).flat_map(|ones| NumbersWithOnes::new(bits, ones))
                {
                    self.probe_ordered(number, first + (address ^ change))?;
                }
            }
        }
        self.flush()
    }

    /// How many bits of part 0 are to be changed in a bucket of cardinality.
    fn missing(&self, number: usize, group: usize) -> Option<u32> {
        let (plan, asked) = (&self.scratch.plans[number], &self.asked[number]);
        if !self.is_open(number) || !plan.groups.contains(&group) || plan.scanned >> group & 1 == 1
        {
            return None;
        }
        self.source
            .reach(asked.best.limit(), asked.cardinality, group)
            .checked_sub(plan.sum)
    }

    #[inline(always)]
    fn probe(
        &mut self,
        number: usize,
        table: usize,
        base: u32,
        most: u32,
        flips: &BitFlips,
    ) -> Result<()> {
        let part = part_of_table::<S>(table);
        for &flip in flips.up_to(most) {
            let (address, most) = (base ^ flip, most - flip.count_ones());
            self.source.prefetch_address(part, address);
            self.scratch.probes.push(Probe {
                asked: number,
                address,
                most,
                bucket: BucketCursor {
                    part,
                    ..BucketCursor::default()
                },
            });
            if self.scratch.probes.len() == TOGETHER {
                self.find()?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn probe_ordered(&mut self, number: usize, place: u32) -> Result<()> {
        self.source.prefetch_address(0, place);
        self.scratch.ordered.push((number, place));
        if self.scratch.ordered.len() == TOGETHER {
            self.find_ordered()
        } else {
            Ok(())
        }
    }

    /// Looks at whatever waits.
    fn flush(&mut self) -> Result<()> {
        self.find()?;
        self.find_ordered()?;
        self.verify()
    }

    /// Takes from the buckets that wait what may be near enough.
    fn find(&mut self) -> Result<()> {
        #[cfg(target_arch = "x86_64")]
        if AVX2 {
            // SAFETY: whoever says so has asked the processor.
            return unsafe { self.find_avx2() };
        }
        self.find_anywhere()
    }

    /// A function of its own: as a part of all that call it there would be too much of it.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
    fn find_avx2(&mut self) -> Result<()> {
        self.find_anywhere()
    }

    #[inline(always)]
    fn find_anywhere(&mut self) -> Result<()> {
        let (source, mut probes) = (self.source, std::mem::take(&mut self.scratch.probes));
        for probe in &mut probes {
            probe.bucket = source.bucket(probe.bucket.part, probe.address)?;
        }
        let mut last = (0, SlotCursor::default());
        for (at, probe) in probes.iter().enumerate() {
            let rest = self.scratch.keys[probe.asked][probe.bucket.part].rest;
            let (mut bucket, mut more) = (probe.bucket, true);
            while more {
                let slots = &mut self.scratch.slots;
                more = source.near::<AVX2>(&mut bucket, rest, probe.most, |slot| {
                    source.prefetch_slot(&probe.bucket, slot);
                    slots.push((at, slot));
                })?;
                if slots.len() >= MANY_SLOTS {
                    self.resolve(&probes, &mut last)?;
                    self.verify()?;
                }
            }
        }
        self.resolve(&probes, &mut last)?;
        probes.clear();
        self.scratch.probes = probes;
        if self.scratch.candidates.len() >= TOGETHER {
            self.verify()
        } else {
            Ok(())
        }
    }

    /// Finds the entries of slots. `last` is the last probe that any were of, and how far its bucket was read.
    #[inline(always)]
    fn resolve(&mut self, probes: &[Probe], last: &mut (usize, SlotCursor)) -> Result<()> {
        let Self {
            source, scratch, ..
        } = self;
        for (at, slot) in scratch.slots.drain(..) {
            if last.0 != at {
                *last = (at, SlotCursor::default());
            }
            let Probe {
                asked,
                most,
                bucket,
                ..
            } = &probes[at];
            let rest = scratch.keys[*asked][bucket.part].rest;
            if let Some(entry) = source.entry::<AVX2>(bucket, slot, rest, *most, &mut last.1)?
                && scratch.plans[*asked].entries.contains(&entry)
            {
                scratch.candidates.push((*asked as u32, entry));
            }
        }
        Ok(())
    }

    /// Looks at all prints of the addresses of part 0 that wait.
    fn find_ordered(&mut self) -> Result<()> {
        #[cfg(target_arch = "x86_64")]
        if AVX2 {
            // SAFETY: whoever says so has asked the processor.
            return unsafe { self.find_ordered_avx2() };
        }
        self.find_ordered_anywhere()
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
    fn find_ordered_avx2(&mut self) -> Result<()> {
        self.find_ordered_anywhere()
    }

    #[inline(always)]
    fn find_ordered_anywhere(&mut self) -> Result<()> {
        let mut waiting = std::mem::take(&mut self.scratch.ordered);
        let mut ranges: [Range<u32>; TOGETHER] = std::array::from_fn(|_| 0..0);
        for (&(_, place), range) in waiting.iter().zip(&mut ranges) {
            *range = self.source.ordered(place)?;
            self.source.prefetch_body(range.start);
        }
        for (&(number, _), range) in waiting.iter().zip(ranges) {
            self.scan_one(number, range)?;
        }
        waiting.clear();
        self.scratch.ordered = waiting;
        Ok(())
    }

    /// Looks at the prints of what may be near enough.
    fn verify(&mut self) -> Result<()> {
        #[cfg(target_arch = "x86_64")]
        if AVX2 {
            // SAFETY: whoever says so has asked the processor.
            return unsafe { self.verify_avx2() };
        }
        self.verify_anywhere()
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
    fn verify_avx2(&mut self) -> Result<()> {
        self.verify_anywhere()
    }

    #[inline(always)]
    fn verify_anywhere(&mut self) -> Result<()> {
        let mut candidates = std::mem::take(&mut self.scratch.candidates);
        for some in candidates.chunks(TOGETHER) {
            // In a short loop, as a processor may wait for the place of one while it asks for those of others.
            some.iter()
                .for_each(|&(_, entry)| self.source.prefetch_body(entry));
            for &(number, entry) in some {
                let number = number as usize;
                let [body] = self.source.bodies(entry..entry + 1)? else {
                    continue;
                };
                let at_least = distance(body, &self.asked[number].print);
                if at_least <= self.scratch.plans[number].reach {
                    self.consider(number, entry, at_least)?;
                }
            }
        }
        candidates.clear();
        self.scratch.candidates = candidates;
        Ok(())
    }

    /// Looks at the head of an entry whose body is near enough.
    fn consider(&mut self, number: usize, entry: u32, at_least: u32) -> Result<()> {
        let (source, asked, plan) = (
            self.source,
            &self.asked[number],
            &mut self.scratch.plans[number],
        );
        plan.heads += 1;
        let (head, reach) = (source.head(entry, plan.heads > FEW_HEADS)?, plan.reach);
        let distance = at_least + head_distance(head, &asked.print);
        if distance > reach {
            Ok(())
        } else {
            self.consider_near(number, entry, head, distance)
        }
    }

    #[cold]
    fn consider_near(
        &mut self,
        number: usize,
        entry: u32,
        head: PrintHead,
        distance: u32,
    ) -> Result<()> {
        let (source, asked) = (self.source, &mut self.asked[number]);
        let [body] = source.bodies(entry..entry + 1)? else {
            return Ok(());
        };
        let likeness =
            PrintSimilarity::new(asked.cardinality + join(head, body).cardinality(), distance);
        if likeness.reaches(asked.best.limit()) {
            let (sequence, time) = source.arrival(entry, asked.live.first_time > 0)?;
            asked.offer(
                Hit {
                    likeness,
                    sequence,
                    at: S::at(self.number, entry),
                },
                time,
            );
            self.scratch.plans[number].shrink(source, asked);
        }
        Ok(())
    }
}
