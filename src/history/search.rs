//! The best matches of many prints, in a segment or among the newest entries: exactly what a look at every entry would give.
//!
//! Requests are answered together, step by step, so that the memory is waited for once for many of them:
//! 1. entries with the same print, as many as are wanted, are enough;
//! 2. each part as it is, then each with one bit changed: of what is alike, nearly all is found here, and there is less left to look for;
//! 3. if more bits may still differ, each part with all of them changed at once, a piece of its table after the other, each for all requests.
//!
//! Parts are looked up in [`ORDER`]. See [`changes`] for how many bits of each are changed.

use super::{
    keys::{FLIP_BITS, Flips, Key, Keys, PARTS, WithOnes, sphere},
    likeness::{At, Best, Found, Likeness, Ratio},
    scan::{Near, Slot, scan_anywhere},
    segment::Entries,
};
use crate::{error::Result, format::Print};
use std::{collections::HashSet, ops::Range};

/// What counts of what is found.
#[derive(Debug, Clone, Copy)]
pub struct Live<'l> {
    /// What came before is forgotten.
    pub first_sequence: u64,
    pub first_time: u32,
    /// Sequence numbers that were removed.
    pub removed: &'l HashSet<u64>,
}

impl Live<'_> {
    pub fn has(&self, sequence: u64, time: u32) -> bool {
        sequence >= self.first_sequence && time >= self.first_time && (self.removed.is_empty() || !self.removed.contains(&sequence))
    }
}

/// What is asked about, and the best that was found so far.
#[derive(Debug, Clone)]
pub struct Asked<'l> {
    pub print: Print,
    pub cardinality: u32,
    pub live: Live<'l>,
    pub best: Best,
}

impl<'l> Asked<'l> {
    pub fn new(print: Print, live: Live<'l>, best: Best) -> Self {
        Self { print, cardinality: print.cardinality(), live, best }
    }

    /// How many bits may differ of an entry that is worth it.
    pub fn reach(&self) -> u32 {
        self.best.limit().reach(self.cardinality)
    }

    /// Offers an entry that is near enough.
    pub fn offer(&mut self, found: Found, time: u32) {
        if found.likeness.reaches(self.best.limit()) && self.live.has(found.sequence, time) {
            self.best.offer(found);
        }
    }
}

/// What may still be among the best of a request: how many bits may differ, the buckets of cardinality, and their entries.
#[derive(Debug, Clone, Default)]
pub struct Bounds {
    pub reach: u32,
    pub groups: Range<usize>,
    pub entries: Range<u32>,
    /// Buckets from here on are looked at one entry after the other, as they are few and would take the most steps.
    pub cut: usize,
}

/// The slots of an address.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bucket {
    pub part: usize,
    pub start: u32,
    pub end: u32,
}

/// Entries that can be found by the addresses of their parts.
pub trait Searched: Entries {
    /// Where an entry of the one with this number is.
    fn at(number: usize, entry: u32) -> At;
    /// Its sequence number, and its time if somebody wants to know it.
    fn arrival(&self, entry: u32, with_time: bool) -> Result<(u64, u32)>;
    /// None if there are too few to be worth it.
    fn keys(&self) -> Option<&Keys>;
    fn address_bits(&self) -> u32;
    /// How many bits of a slot say which entry.
    fn entry_bits(&self) -> u32;
    /// How many addresses are to be looked up, if so many bits may differ. None: more than there are entries.
    fn lookups(&self, reach: u32) -> Option<u64>;
    /// What may be in buckets of cardinality before the `cut`, and the entries of those from it on.
    fn bounds(&self, limit: Ratio, cardinality: u32, cut: usize) -> (Bounds, Range<u32>);
    /// 32 bytes each.
    fn prints(&self, entries: Range<u32>) -> Result<&[u8]>;
    fn prefetch_print(&self, entry: u32);
    /// Asks for what [`Self::prefetch_equals`] looks at.
    fn prefetch_place(&self, cardinality: u32, key: &Key);
    /// Asks for what [`Self::equals`] looks at.
    fn prefetch_equals(&self, cardinality: u32, key: &Key) -> Result<()>;
    /// Calls with entries whose print is that one, the first to come first, until it is told that they are enough.
    fn equals(&self, print: &Print, key: &Key, call: &mut dyn FnMut(u32) -> Result<bool>) -> Result<()>;
    /// Whether part 0 has no table, as the prints themselves are ordered by it, in each of the buckets of cardinality.
    const IS_ORDERED: bool;
    /// How many bits the addresses of part 0 have in a bucket of cardinality, and where in the directory they begin.
    fn group(&self, group: usize) -> (u32, u32);
    /// The entries that an address of part 0 has, by its place in the directory.
    fn ordered(&self, place: u32) -> Result<Range<u32>>;
    fn prefetch_address(&self, part: usize, address: u32);
    /// Also asks for its first slots.
    fn bucket(&self, part: usize, address: u32) -> Result<Bucket>;
    /// Slots of a bucket, and moves on to the next ones.
    fn slots(&self, bucket: &mut Bucket) -> Result<Option<&[Slot]>>;
    /// So many addresses of a part, from this one on; only where it is ordered.
    fn piece(&self, part: usize, first: u32, count: u32) -> Result<Piece<'_>>;
}

/// A piece of a table: where the slots of each address begin, and the slots.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'p> {
    /// One more than there are addresses.
    pub starts: &'p [Slot],
    pub slots: &'p [Slot],
}

impl<'p> Piece<'p> {
    fn start(&self, at: u32) -> u32 {
        self.starts.get(at as usize).map_or(0, |&start| u32::from_le_bytes(start))
    }

    /// Those of an address, counted from the first of the piece. None where the file was altered, which its checksum did not tell.
    #[inline(always)]
    fn slots(&self, address: u32) -> &'p [Slot] {
        let first = self.start(0);
        let [start, end] = [address, address + 1].map(|at| self.start(at).wrapping_sub(first) as usize);
        self.slots.get(start..end).unwrap_or_default()
    }
}

/// The order in which parts are looked up.
const ORDER: [usize; PARTS] = [1, 2, 3, 4, 5, 6, 0];
/// Addresses that are looked up together, so that the memory is waited for once.
const TOGETHER: usize = 64;
/// What it takes to look up an address, if looking at the next print takes 1.
const LOOKUP_COST: u64 = 30;
/// Bits of an address whose buckets are a piece of a table: together they fit into a cache.
const PIECE_BITS: u32 = FLIP_BITS;
/// As many requests make it worth to go through a table piece by piece.
const MANY: usize = 8;
/// Prints that are looked at for all requests in turn.
const SCANNED: u32 = 4096;

/// Buffers that are used again and again.
#[derive(Debug, Default)]
pub struct Scratch {
    probes: Vec<Probe>,
    ordered: Vec<(usize, u32)>,
    candidates: Vec<(usize, u32)>,
    keys: Vec<[Key; PARTS]>,
    bounds: Vec<Bounds>,
}

/// An address that is looked up for a request, and in how many of the bits beside them its entries may differ.
#[derive(Debug, Clone)]
struct Probe {
    asked: usize,
    address: u32,
    most: u32,
    bucket: Bucket,
}

/// How many bits are changed of the part at a place in the order, if so many may differ in all; none if it need not be looked up.
///
/// With one bit more than that in each part they would be more than may differ. The last part is looked up first in thought: it takes
/// its seventh; where prints are ordered by it each of its addresses is dear, and from three bits on it takes one less than its seventh.
#[inline(always)]
fn changes(reach: u32, place: u32, is_ordered: bool) -> Option<u32> {
    let (others, all) = (PARTS as u32 - 1, PARTS as u32);
    // One more than its changes: none may be.
    let seventh = (reach + 1) / all;
    let last = if is_ordered && seventh > 3 { seventh - 1 } else { seventh };
    if place == others { last.checked_sub(1) } else { ((reach + 1 - last + others - 1 - place) / others).checked_sub(1) }
}

/// How many addresses are looked up in all parts, if so many bits may differ.
pub fn lookups(address_bits: u32, reach: u32, is_ordered: bool) -> u64 {
    let of_part = |place: u32| changes(reach, place, is_ordered).map(|most| (0..=most).map(|ones| sphere(address_bits, ones)));
    (0..PARTS as u32).filter_map(of_part).flatten().fold(0, u64::saturating_add)
}

/// Offers to each request whatever may be among its best.
pub fn search<S: Searched>(source: &S, number: usize, asked: &mut [Asked<'_>], scratch: &mut Scratch) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor was just asked for both.
        return unsafe { search_avx2(Searcher { source, number, asked, scratch }) };
    }
    Searcher::<S, false> { source, number, asked, scratch }.search()
}

/// The same code, with instructions that count ones and look at eight numbers at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn search_avx2<S: Searched>(searcher: Searcher<'_, '_, S, true>) -> Result<()> {
    searcher.search()
}

/// `AVX2`: what it is called from is compiled for that.
struct Searcher<'s, 'l, S, const AVX2: bool> {
    source: &'s S,
    number: usize,
    asked: &'s mut [Asked<'l>],
    scratch: &'s mut Scratch,
}

impl<S: Searched, const AVX2: bool> Searcher<'_, '_, S, AVX2> {
    #[inline(always)]
    fn search(mut self) -> Result<()> {
        let scanned = self.begin();
        self.scan(&scanned)?;
        let Some(keys) = self.source.keys() else { return Ok(()) };
        self.scratch.keys.clear();
        self.scratch.keys.extend(self.asked.iter().map(|asked| keys.all(&asked.print)));
        self.look_up_equals()?;
        self.look_up_all(0)?;
        self.look_up_all(1)?;
        self.look_deep()
    }

    /// Decides for each request which entries are looked at one after the other; the others are found by their parts.
    fn begin(&mut self) -> Vec<(usize, Range<u32>)> {
        let Self { source, asked, scratch, .. } = self;
        scratch.probes.clear();
        scratch.ordered.clear();
        scratch.candidates.clear();
        scratch.bounds.clear();
        let mut scanned = Vec::new();
        for (number, asked) in asked.iter().enumerate() {
            let (limit, cardinality) = (asked.best.limit(), asked.cardinality);
            let (all, _) = source.bounds(limit, cardinality, usize::MAX);
            if asked.best.is_full_of_equals() || all.entries.is_empty() {
                scratch.bounds.push(Bounds::default());
                continue;
            }
            let cost = |cut: usize| {
                let (bounds, after) = source.bounds(limit, cardinality, cut);
                let found = if bounds.entries.is_empty() { Some(0) } else { source.lookups(bounds.reach) };
                found.map_or(u64::MAX, |lookups| lookups * LOOKUP_COST + u64::from(after.end - after.start))
            };
            // Of equals the last: fewer entries are looked at.
            let cut = (all.groups.start..=all.groups.end).rev().min_by_key(|&cut| cost(cut)).unwrap_or_default();
            let (bounds, after) = source.bounds(limit, cardinality, cut);
            if !after.is_empty() {
                scanned.push((number, after));
            }
            scratch.bounds.push(bounds);
        }
        scanned
    }

    /// Looks at every entry of the ranges, a piece after the other for all requests in turn.
    #[inline(always)]
    fn scan(&mut self, ranges: &[(usize, Range<u32>)]) -> Result<()> {
        let (first, end) = ranges.iter().fold((u32::MAX, 0), |(first, end), (_, range)| (first.min(range.start), end.max(range.end)));
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
        let prints = self.source.prints(entries.clone())?;
        let (print, reach) = (self.asked[number].print, self.asked[number].reach());
        scan_anywhere(prints, &print, reach, &mut |at, distance| {
            self.consider(number, entries.start + at as u32, distance)?;
            Ok(self.asked[number].reach())
        })
    }

    fn look_up_equals(&mut self) -> Result<()> {
        let each = || self.asked.iter().zip(&self.scratch.keys);
        each().for_each(|(asked, keys)| self.source.prefetch_place(asked.cardinality, &keys[0]));
        each().try_for_each(|(asked, keys)| self.source.prefetch_equals(asked.cardinality, &keys[0]))?;
        for number in 0..self.asked.len() {
            if self.is_open(number) {
                let (source, print, key) = (self.source, self.asked[number].print, self.scratch.keys[number][0]);
                source.equals(&print, &key, &mut |entry| {
                    self.consider(number, entry, 0)?;
                    Ok(self.asked[number].best.is_full_of_equals())
                })?;
            }
        }
        Ok(())
    }

    fn is_open(&self, number: usize) -> bool {
        !self.scratch.bounds[number].entries.is_empty() && !self.asked[number].best.is_full_of_equals()
    }

    /// How many bits are changed of the part that is at this place in the order; none if it need not be looked up.
    #[inline(always)]
    fn changes(&self, number: usize, place: usize) -> Option<u32> {
        if self.is_open(number) { changes(self.scratch.bounds[number].reach, place as u32, S::IS_ORDERED) } else { None }
    }

    /// Looks up each part of each request with up to so many bits changed, where that is necessary.
    #[inline(always)]
    fn look_up_all(&mut self, ones: u32) -> Result<()> {
        for number in 0..self.asked.len() {
            for (place, part) in ORDER.into_iter().enumerate() {
                if self.changes(number, place).is_some_and(|most| most >= ones) {
                    self.look_up(number, part, ones)?;
                }
            }
        }
        self.flush()
    }

    /// Looks up parts of which more bits are to be changed, with all of them at once.
    #[inline(always)]
    fn look_deep(&mut self) -> Result<()> {
        for (place, part) in ORDER.into_iter().enumerate() {
            let deep = |number: &usize| self.changes(*number, place).is_some_and(|most| most >= 2);
            let deep: Vec<usize> = (0..self.asked.len()).filter(deep).collect();
            if deep.len() < MANY || !S::IS_ORDERED || part == 0 {
                for number in deep {
                    if let Some(most) = self.changes(number, place) {
                        self.look_up(number, part, most)?;
                    }
                }
            } else {
                self.look_up_pieces(&deep, place, part)?;
            }
            self.flush()?;
        }
        Ok(())
    }

    /// Looks up a part for many requests, a piece of its table after the other.
    #[inline(always)]
    fn look_up_pieces(&mut self, numbers: &[usize], place: usize, part: usize) -> Result<()> {
        let (bits, entry_bits) = (self.source.address_bits(), self.source.entry_bits());
        let low = bits.min(PIECE_BITS);
        let flips = Flips::of(low);
        let mask = !((1_u64 << entry_bits) as u32).wrapping_sub(1);
        for high in 0..1_u32 << (bits - low) {
            let piece = self.source.piece(part, high << low, 1 << low)?;
            for &number in numbers {
                // What was found meanwhile may have left less to do.
                let Some(most) = self.changes(number, place).filter(|&most| most >= 2) else { continue };
                let Key { address, rest } = self.scratch.keys[number][part];
                let Some(left) = most.checked_sub((address >> low ^ high).count_ones()) else { continue };
                let (address, asked) = (address & ((1 << low) - 1), (u64::from(rest) << entry_bits) as u32);
                let (source, scratch) = (self.source, &mut *self.scratch);
                let admissible = scratch.bounds[number].entries.clone();
                for ones in 0..=left.min(low) {
                    let near = Near { asked, mask, most: left - ones };
                    for &flip in flips.with(ones) {
                        near.each_with::<AVX2>(piece.slots(address ^ flip), |entry| {
                            if admissible.contains(&entry) {
                                source.prefetch_print(entry);
                                scratch.candidates.push((number, entry));
                            }
                        });
                    }
                }
                if self.scratch.candidates.len() >= TOGETHER {
                    self.verify()?;
                }
            }
        }
        Ok(())
    }

    /// Looks up a part with up to so many bits changed.
    #[inline(always)]
    fn look_up(&mut self, number: usize, part: usize, most: u32) -> Result<()> {
        let address = self.scratch.keys[number][part].address;
        if part == 0 && S::IS_ORDERED {
            for group in self.scratch.bounds[number].groups.clone() {
                let (bits, first) = self.source.group(group);
                let address = address & ((1 << bits) - 1);
                for change in (0..=most).flat_map(|ones| WithOnes::new(bits, ones)) {
                    self.probe_ordered(number, first + (address ^ change))?;
                }
            }
            return Ok(());
        }
        let bits = self.source.address_bits();
        let low = bits.min(PIECE_BITS);
        for changed in 0..=most.min(bits - low) {
            for change in WithOnes::new(bits - low, changed) {
                self.probe(number, part, address ^ change << low, most - changed, Flips::of(low))?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn probe(&mut self, number: usize, part: usize, base: u32, most: u32, flips: &Flips) -> Result<()> {
        for &flip in flips.up_to(most) {
            let (address, most) = (base ^ flip, most - flip.count_ones());
            self.source.prefetch_address(part, address);
            self.scratch.probes.push(Probe { asked: number, address, most, bucket: Bucket { part, ..Bucket::default() } });
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
        if self.scratch.ordered.len() == TOGETHER { self.find_ordered() } else { Ok(()) }
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
    #[target_feature(enable = "avx2,popcnt")]
    fn find_avx2(&mut self) -> Result<()> {
        self.find_anywhere()
    }

    #[inline(always)]
    fn find_anywhere(&mut self) -> Result<()> {
        let Self { source, scratch, .. } = self;
        for probe in &mut scratch.probes {
            probe.bucket = source.bucket(probe.bucket.part, probe.address)?;
        }
        let bits = source.entry_bits();
        let mask = !((1_u64 << bits) as u32).wrapping_sub(1);
        for Probe { asked, most, mut bucket, .. } in scratch.probes.drain(..) {
            let key = scratch.keys[asked][bucket.part];
            let near = Near { asked: (u64::from(key.rest) << bits) as u32, mask, most };
            let admissible = scratch.bounds[asked].entries.clone();
            while let Some(slots) = source.slots(&mut bucket)? {
                near.each_with::<AVX2>(slots, |entry| {
                    if admissible.contains(&entry) {
                        source.prefetch_print(entry);
                        scratch.candidates.push((asked, entry));
                    }
                });
            }
        }
        if self.scratch.candidates.len() >= TOGETHER { self.verify() } else { Ok(()) }
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
    #[target_feature(enable = "avx2,popcnt")]
    fn find_ordered_avx2(&mut self) -> Result<()> {
        self.find_ordered_anywhere()
    }

    #[inline(always)]
    fn find_ordered_anywhere(&mut self) -> Result<()> {
        let mut waiting = std::mem::take(&mut self.scratch.ordered);
        let mut ranges: [Range<u32>; TOGETHER] = std::array::from_fn(|_| 0..0);
        for (&(_, place), range) in waiting.iter().zip(&mut ranges) {
            *range = self.source.ordered(place)?;
            self.source.prefetch_print(range.start);
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
    #[target_feature(enable = "avx2,popcnt")]
    fn verify_avx2(&mut self) -> Result<()> {
        self.verify_anywhere()
    }

    #[inline(always)]
    fn verify_anywhere(&mut self) -> Result<()> {
        let mut candidates = std::mem::take(&mut self.scratch.candidates);
        for &(number, entry) in &candidates {
            let print = Print::from_slice(self.source.prints(entry..entry + 1)?);
            let distance = print.distance(&self.asked[number].print);
            if distance <= self.scratch.bounds[number].reach {
                self.consider(number, entry, distance)?;
            }
        }
        candidates.clear();
        self.scratch.candidates = candidates;
        Ok(())
    }

    #[cold]
    fn consider(&mut self, number: usize, entry: u32, distance: u32) -> Result<()> {
        let (source, asked) = (self.source, &mut self.asked[number]);
        let likeness = Likeness::new(asked.cardinality + source.print(entry)?.cardinality(), distance);
        if likeness.reaches(asked.best.limit()) {
            let (sequence, time) = source.arrival(entry, asked.live.first_time > 0)?;
            asked.offer(Found { likeness, sequence, at: S::at(self.number, entry) }, time);
            let cut = self.scratch.bounds[number].cut;
            (self.scratch.bounds[number], _) = source.bounds(asked.best.limit(), asked.cardinality, cut);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One bit more in each part would be more than may differ, and with one less somewhere it would not.
    #[test]
    fn nothing_falls_between_the_parts() {
        for reach in 0..=256 {
            for is_ordered in [false, true] {
                let more: Vec<u32> = (0..PARTS as u32).map(|place| changes(reach, place, is_ordered).map_or(0, |most| most + 1)).collect();
                assert_eq!(more.iter().sum::<u32>(), reach + 1, "{reach} {more:?}");
            }
        }
        let of = |reach| (0..7).map(|place| changes(reach, place, true).map_or(-1, |most| most as i32)).collect::<Vec<_>>();
        assert_eq!(of(8), [1, 1, 0, 0, 0, 0, 0]);
        assert_eq!(of(30), [4, 4, 4, 4, 3, 3, 2]);
    }
}
