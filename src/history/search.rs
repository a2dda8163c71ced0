//! The best matches of a print in a segment: exactly what a look at every entry would give.

use super::{
    build::entry_bits,
    keys::{Key, PARTS, each_with_ones},
    likeness::{At, Best, Found, Likeness},
    segment::{Entries, Segment, group_of},
};
use crate::{
    error::Result,
    format::{PRINT_BYTES, Print},
};
use std::ops::Range;

/// What counts of what is found.
#[derive(Debug, Clone, Copy)]
pub struct Live<'l> {
    /// What came before is forgotten.
    pub first_sequence: u64,
    pub first_time: u32,
    /// Sequence numbers that were removed.
    pub removed: &'l std::collections::HashSet<u64>,
}

impl Live<'_> {
    pub fn has(&self, sequence: u64, time: u32) -> bool {
        sequence >= self.first_sequence && time >= self.first_time && (self.removed.is_empty() || !self.removed.contains(&sequence))
    }
}

/// What is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Query {
    pub print: Print,
    pub cardinality: u32,
}

impl Query {
    pub fn new(print: Print) -> Self {
        Self { print, cardinality: print.cardinality() }
    }
}

/// Buffers that are used again and again.
#[derive(Debug, Default)]
pub struct Scratch {
    probes: Vec<Probe>,
    ranges: Vec<Range<u32>>,
    candidates: Vec<u32>,
}

/// An address of a part, or the slots that it has; and in how many of the bits that are not in it entries must differ.
#[derive(Debug, Clone)]
struct Probe {
    part: usize,
    apart: u32,
    place: Range<u32>,
}

/// Addresses that are looked up together, so that the memory is waited for once.
const TOGETHER: usize = 64;
/// Prints that have nothing to do with each other differ in 20 to 35 bits of a quarter.
const NEAR: u32 = 16;
/// What it takes to look up an address, if looking at the next print takes 1.
const LOOKUP_COST: u64 = 30;

/// Offers to `best` whatever in the segment may belong there.
pub fn search(segment: &Segment, number: usize, query: &Query, live: &Live<'_>, best: &mut Best, scratch: &mut Scratch) -> Result<()> {
    let mut searcher = Searcher { segment, number, query, live, bounds: Bounds::default() };
    searcher.bound(best);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor was just asked for it.
        return unsafe { search_popcnt(&mut searcher, best, scratch) };
    }
    searcher.search(best, scratch)
}

/// The same code, with the instruction that counts ones.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt")]
fn search_popcnt(searcher: &mut Searcher<'_>, best: &mut Best, scratch: &mut Scratch) -> Result<()> {
    searcher.search(best, scratch)
}

/// Calls with the number and the distance of each print that is near enough; `call` says how near from then on.
pub fn scan(prints: &[u8], print: &Print, reach: u32, call: &mut dyn FnMut(usize, u32) -> Result<u32>) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor was just asked for it.
        return unsafe { scan_popcnt(prints, print, reach, call) };
    }
    scan_anywhere(prints, print, reach, call)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt")]
fn scan_popcnt(prints: &[u8], print: &Print, reach: u32, call: &mut dyn FnMut(usize, u32) -> Result<u32>) -> Result<()> {
    scan_anywhere(prints, print, reach, call)
}

#[inline(always)]
fn scan_anywhere(prints: &[u8], print: &Print, mut reach: u32, call: &mut dyn FnMut(usize, u32) -> Result<u32>) -> Result<()> {
    let [a, b, c, d] = print.0;
    let (prints, _) = prints.as_chunks::<PRINT_BYTES>();
    for (number, bytes) in prints.iter().enumerate() {
        let (words, _) = bytes.as_chunks::<8>();
        let apart = |at: usize, word: u64| (u64::from_le_bytes(words[at]) ^ word).count_ones();
        // A half of the bits tells nearly all that are too far; a quarter does so if few may differ, and else is a guess.
        let mut distance = apart(0, a);
        if reach < NEAR && distance > reach {
            continue;
        }
        distance += apart(1, b);
        if distance > reach {
            continue;
        }
        distance += apart(2, c) + apart(3, d);
        if distance <= reach {
            reach = call(number, distance)?;
        }
    }
    Ok(())
}

struct Searcher<'s> {
    segment: &'s Segment,
    number: usize,
    query: &'s Query,
    live: &'s Live<'s>,
    bounds: Bounds,
}

/// What may still be among the best: how many bits may differ, the buckets of cardinality, and their entries.
#[derive(Debug, Clone, Default)]
struct Bounds {
    reach: u32,
    groups: Range<usize>,
    entries: Range<u32>,
}

impl Searcher<'_> {
    fn bound(&mut self, best: &Best) {
        let (limit, cardinality) = (best.limit(), self.query.cardinality);
        let (groups, entries) = self.segment.admissible(limit, cardinality);
        self.bounds = Bounds { reach: limit.reach(cardinality), groups, entries };
    }

    #[inline(always)]
    fn search(&mut self, best: &mut Best, scratch: &mut Scratch) -> Result<()> {
        let entries = self.bounds.entries.clone();
        if entries.is_empty() || best.is_full_of_equals() {
            return Ok(());
        }
        let lookups = self.segment.lookups.get(self.bounds.reach as usize);
        if lookups.is_none_or(|&lookups| u64::from(lookups) * LOOKUP_COST > u64::from(entries.end - entries.start)) {
            return self.scan(entries, best);
        }
        let keys = self.segment.all_keys(&self.query.print);
        self.look_up_equals(&keys[0], best)?;
        // Step n is part n mod 7, in which n ÷ 7 bits may differ. After step n all entries that differ in up to n bits were seen;
        // what is found makes it end sooner.
        for level in 0.. {
            let first = level * PARTS as u32;
            if first > self.bounds.reach || best.is_full_of_equals() {
                return Ok(());
            }
            let steps = (self.bounds.reach - first + 1).min(PARTS as u32 - 1);
            self.look_up(&keys, 1..1 + steps as usize, level, best, scratch)?;
            if first + PARTS as u32 - 1 <= self.bounds.reach && !best.is_full_of_equals() {
                self.look_up_prints(&keys[0], level, best, scratch)?;
            }
        }
        Ok(())
    }

    /// Looks at every entry of a range.
    #[inline(always)]
    fn scan(&mut self, entries: Range<u32>, best: &mut Best) -> Result<()> {
        // In pieces, so that a file's blocks are checked while they are at hand.
        let mut start = entries.start;
        while start < entries.end {
            let end = entries.end.min(start + 4096);
            let at = self.segment.shape.prints + PRINT_BYTES as u64 * u64::from(start);
            let prints = self.segment.store.bytes(at, PRINT_BYTES as u64 * u64::from(end - start))?;
            let (query, reach) = (self.query, self.bounds.reach);
            scan_anywhere(prints, &query.print, reach, &mut |number, distance| {
                self.consider(start + number as u32, distance, best)?;
                Ok(self.bounds.reach)
            })?;
            start = end;
        }
        Ok(())
    }

    /// Looks at the entries of which one of the parts differs in exactly so many bits, as far as its table tells.
    #[inline(always)]
    fn look_up(&mut self, keys: &[Key], parts: Range<usize>, level: u32, best: &mut Best, scratch: &mut Scratch) -> Result<()> {
        let rest_bits = 32 - entry_bits(self.segment.shape.entries);
        scratch.probes.clear();
        for part in parts {
            for ones in level.saturating_sub(rest_bits)..=level {
                each_with_ones(self.segment.shape.address_bits, ones, |change| {
                    scratch.probes.push(Probe { part, apart: level - ones, place: keys[part].address ^ change..0 });
                    if scratch.probes.len() == TOGETHER {
                        self.look_up_together(keys, best, scratch)?;
                        scratch.probes.clear();
                    }
                    Ok(())
                })?;
            }
        }
        self.look_up_together(keys, best, scratch)
    }

    #[inline(always)]
    fn look_up_together(&mut self, keys: &[Key], best: &mut Best, scratch: &mut Scratch) -> Result<()> {
        let segment = self.segment;
        let (store, shape, admissible) = (&segment.store, &segment.shape, self.bounds.entries.clone());
        let directory = |probe: &Probe| shape.tables[probe.part - 1].directory + 4 * u64::from(probe.place.start);
        scratch.probes.iter().for_each(|probe| store.prefetch(directory(probe)));
        for probe in &mut scratch.probes {
            let [start, end] = store.u32s(directory(probe))?;
            store.prefetch(shape.tables[probe.part - 1].slots + 4 * u64::from(start));
            probe.place = start..end;
        }
        scratch.candidates.clear();
        let entry_bits = entry_bits(shape.entries);
        let entry_mask = ((1_u64 << entry_bits) as u32).wrapping_sub(1);
        for Probe { part, apart, place } in scratch.probes.iter().filter(|probe| probe.place.start < probe.place.end) {
            let rest = (u64::from(keys[*part].rest) << entry_bits) as u32;
            let slots = store.bytes(shape.tables[part - 1].slots + 4 * u64::from(place.start), 4 * u64::from(place.end - place.start))?;
            for slot in slots.chunks_exact(4) {
                let slot = u32::from_le_bytes([slot[0], slot[1], slot[2], slot[3]]);
                let entry = slot & entry_mask;
                if ((slot ^ rest) & !entry_mask).count_ones() == *apart && admissible.contains(&entry) {
                    store.prefetch(shape.prints + PRINT_BYTES as u64 * u64::from(entry));
                    scratch.candidates.push(entry);
                }
            }
        }
        for &entry in &scratch.candidates {
            let distance = segment.print(entry)?.distance(&self.query.print);
            if distance <= self.bounds.reach {
                self.consider(entry, distance, best)?;
            }
        }
        Ok(())
    }

    /// Looks at entries with the same print, the first ones first. There may be a million of them: as many as are wanted are enough.
    #[inline(always)]
    fn look_up_equals(&mut self, key: &Key, best: &mut Best) -> Result<()> {
        let (segment, shape) = (self.segment, &self.segment.shape);
        let group = &shape.groups[group_of(self.query.cardinality)];
        let address = key.address & ((1 << group.address_bits) - 1);
        let [start, end] = segment.store.u32s(shape.directory + 4 * (u64::from(group.directory) + u64::from(address)))?;
        for entry in start..end {
            if segment.print(entry)? == self.query.print {
                self.consider(entry, 0, best)?;
                if best.is_full_of_equals() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Looks at the entries whose address in part 0 differs in exactly so many bits: the prints themselves are ordered by it.
    #[inline(always)]
    fn look_up_prints(&mut self, key: &Key, level: u32, best: &mut Best, scratch: &mut Scratch) -> Result<()> {
        let (store, shape) = (&self.segment.store, &self.segment.shape);
        scratch.ranges.clear();
        for group in &shape.groups[self.bounds.groups.clone()] {
            let address = key.address & ((1 << group.address_bits) - 1);
            each_with_ones(group.address_bits, level, |change| {
                let at = u64::from(group.directory) + u64::from(address ^ change);
                let [start, end] = store.u32s(shape.directory + 4 * at)?;
                if start < end {
                    store.prefetch(shape.prints + PRINT_BYTES as u64 * u64::from(start));
                    scratch.ranges.push(start..end);
                }
                Ok::<_, crate::error::Error>(())
            })?;
        }
        let ranges = std::mem::take(&mut scratch.ranges);
        for range in &ranges {
            self.scan(range.clone(), best)?;
        }
        scratch.ranges = ranges;
        Ok(())
    }

    fn consider(&mut self, entry: u32, distance: u32, best: &mut Best) -> Result<()> {
        let likeness = Likeness::new(self.query.cardinality + self.segment.print(entry)?.cardinality(), distance);
        if !likeness.reaches(best.limit()) {
            return Ok(());
        }
        let sequence = self.segment.sequence(entry)?;
        if self.live.has(sequence, self.segment.time(entry)?) {
            best.offer(Found { likeness, sequence, at: At::Segment(self.number, entry) });
            self.bound(best);
        }
        Ok(())
    }
}
