//! Lookups in a segment: how a search reads its sections.

use super::{
    segment::Segment,
    segment_description::{CardinalityGroup, group_of, top_of},
    throttle::throttled,
};
use crate::{
    base::{error::Result, num::ToU64},
    history::search::{
        part_keys::{PARTS, PartKey, PartKeys, PrintParts, parts_of},
        part_table::{PartTableReader, SlotCursor},
        plan::{LookupSteps, SAMPLE},
        print_halves::{
            BODY_BYTES, HEAD_BYTES, PrintBody, PrintHead, as_bodies, join_print, split_print,
        },
        searchable::{BucketCursor, SearchableEntries},
        similarity::{HitLocation, Ratio},
    },
    text::stream::Print,
};
use std::ops::Range;

/// The greatest number of slots that are filtered together.
const SLOTS: u32 = 1 << 12;
/// A sample needs this many times as many entries.
const WORTH_A_SAMPLE: u32 = 16;

impl Segment {
    /// The place in the directory of a print's address of part 0.
    fn place_of(&self, cardinality: u32, key: &PartKey) -> u32 {
        let (bits, first) = self.group(group_of(cardinality));
        first + (key.address & ((1 << bits) - 1))
    }

    #[inline(always)]
    pub fn table(&self, part: usize) -> PartTableReader<'_> {
        PartTableReader::new(
            &self.file,
            &self.description.tables[part - 1],
            self.description.entries,
            self.description.address_bits,
        )
    }
}

impl SearchableEntries for Segment {
    fn location(number: usize, entry: u32) -> HitLocation {
        HitLocation::Segment(number, entry)
    }

    fn arrival(&self, entry: u32, with_time: bool) -> Result<(u64, u32)> {
        self.read_arrival(entry, with_time)
    }

    fn keys(&self) -> Option<&PartKeys> {
        Some(&self.keys)
    }

    fn address_bits(&self) -> u32 {
        self.description.address_bits
    }

    fn steps(&self) -> &LookupSteps {
        &self.steps
    }

    fn sample(&self) -> Result<&[PrintParts]> {
        if let Some(sample) = self.sample.get() {
            return Ok(sample);
        }
        // Prints are sorted, so equal steps cover all of them.
        let step = self.description.entries / SAMPLE;
        let entries = if step < WORTH_A_SAMPLE { 0 } else { SAMPLE };
        let parts = |entry: u32| {
            let [body] = self.bodies(entry..entry + 1)? else {
                return Err(self.damaged("no print"));
            };
            Ok(parts_of(&join_print(self.read_head(entry)?, body)))
        };
        let sample = throttled(0..entries)
            .map(|at| parts(at * step))
            .collect::<Result<Vec<PrintParts>>>()?;
        Ok(self.sample.get_or_init(|| sample))
    }

    fn groups(&self, threshold: Ratio, cardinality: u32) -> Range<usize> {
        let allowed = threshold.cardinality_range(cardinality);
        group_of(*allowed.start())..group_of(*allowed.end()) + 1
    }

    fn entries_of(&self, groups: Range<usize>) -> Range<u32> {
        self.description.groups[groups.start].start..self.description.groups[groups.end].start
    }

    fn max_distance(&self, threshold: Ratio, cardinality: u32, group: usize) -> u32 {
        threshold.max_distance_up_to(cardinality, top_of(group))
    }

    #[inline(always)]
    fn bodies(&self, entries: Range<u32>) -> Result<&[PrintBody]> {
        let bytes = |entries: u32| BODY_BYTES.to_u64() * u64::from(entries);
        self.file
            .bytes(
                self.description.bodies + bytes(entries.start),
                bytes(entries.end - entries.start),
            )
            .map(as_bodies)
    }

    #[inline(always)]
    fn prefetch_body(&self, entry: u32) {
        let start = self.description.bodies + BODY_BYTES.to_u64() * u64::from(entry);
        self.file.prefetch(start);
        // Every fourth body is in two cache lines.
        self.file.prefetch(start + BODY_BYTES.to_u64() - 1);
    }

    fn head(&self, entry: u32, is_one_of_many: bool) -> Result<PrintHead> {
        if is_one_of_many {
            self.mapped_head(entry)
        } else {
            self.read_head(entry)
        }
    }

    fn heads(&self, entries: Range<u32>) -> Result<&[PrintHead]> {
        let bytes = |entries: u32| HEAD_BYTES.to_u64() * u64::from(entries);
        self.file
            .bytes(
                self.description.heads + bytes(entries.start),
                bytes(entries.end - entries.start),
            )
            .map(|bytes| bytes.as_chunks().0)
    }

    fn prefetch_place(&self, cardinality: u32, key: &PartKey) {
        self.prefetch_address(0, self.place_of(cardinality, key));
    }

    fn prefetch_equals(&self, cardinality: u32, key: &PartKey) -> Result<()> {
        // After a few cache lines the processor prefetches the next ones by itself.
        let entries = self.ordered(self.place_of(cardinality, key))?;
        entries
            .step_by(2)
            .take(5)
            .for_each(|entry| self.prefetch_body(entry));
        Ok(())
    }

    fn equals(
        &self,
        print: &Print,
        key: &PartKey,
        call: &mut dyn FnMut(u32) -> Result<bool>,
    ) -> Result<()> {
        let entries = self.ordered(self.place_of(print.cardinality(), key))?;
        let bodies = self.bodies(entries.start..entries.end.max(entries.start))?;
        let (head, body) = split_print(print);
        for (entry, _) in (entries.start..).zip(bodies).filter(|(_, of)| **of == body) {
            if self.read_head(entry)? == head && call(entry)? {
                break;
            }
        }
        Ok(())
    }

    const TABLES: usize = PARTS - 1;

    fn group(&self, group: usize) -> (u32, u32) {
        let CardinalityGroup {
            address_bits,
            directory,
            ..
        } = self.description.groups[group];
        (address_bits, directory)
    }

    #[inline(always)]
    fn ordered(&self, place: u32) -> Result<Range<u32>> {
        let [start, end] = self.u32s(self.description.directory + 4 * u64::from(place))?;
        Ok(start..end)
    }

    #[inline(always)]
    fn prefetch_address(&self, part: usize, address: u32) {
        if part == 0 {
            self.file
                .prefetch(self.description.directory + 4 * u64::from(address));
        } else {
            self.table(part).prefetch_address(address);
        }
    }

    #[inline(always)]
    fn bucket(&self, part: usize, address: u32) -> Result<BucketCursor> {
        let slots = self.table(part).slots(address)?;
        Ok(BucketCursor {
            part,
            slots,
            next: slots.start,
        })
    }

    #[inline(always)]
    fn near<const AVX2: bool>(
        &self,
        bucket: &mut BucketCursor,
        rest: u32,
        most: u32,
        call: impl FnMut(u32),
    ) -> Result<bool> {
        let (first, count) = (bucket.next, (bucket.slots.end - bucket.next).min(SLOTS));
        self.table(bucket.part)
            .near::<AVX2>(&bucket.slots, first, count, (rest, most), call)?;
        bucket.next += count;
        Ok(bucket.next < bucket.slots.end)
    }

    #[inline(always)]
    fn prefetch_slot(&self, bucket: &BucketCursor, slot: u32) {
        self.table(bucket.part).prefetch_slot(&bucket.slots, slot);
    }

    #[inline(always)]
    fn entry<const AVX2: bool>(
        &self,
        bucket: &BucketCursor,
        slot: u32,
        rest: u32,
        most: u32,
        cursor: &mut SlotCursor,
    ) -> Result<Option<u32>> {
        self.table(bucket.part)
            .entry::<AVX2>(&bucket.slots, slot, rest, most, cursor)
    }
}
