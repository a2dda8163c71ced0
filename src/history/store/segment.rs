//! Many prints that do not change any more, in a file, laid out for search.
//!
//! ```text
//! bodies of prints, by bucket of cardinality and then by the address of part 0 | where each address begins
//! | heads of prints | sequence numbers | times | ids | ids by hash | for each other part a table
//! ```
//!
//! What a search touches is 24 bytes of print and about 30 of tables an entry; the rest is for answers only.

use super::throttle::{give_way, politely};
use crate::history::search::{
    part_keys::{
        PART_BITS, PARTS, PartKey, PartKeys, PartMasks, PrintParts, are_valid_masks, parts_of,
    },
    part_table::{MOST_ADDRESS_BITS, PartTableReader, SlotCursor, TableSections},
    plan::{LookupSteps, SAMPLE},
    print_halves::{BODY_BYTES, HEAD_BYTES, PrintBody, PrintHead, bodies, join, split},
    searcher::{BucketCursor, SearchableEntries},
    similarity::{HitLocation, Ratio},
};
use crate::{
    base::{
        codec::Fields,
        error::{Error, Place, Result},
        files::Sealed,
    },
    text::stream::Print,
};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
    sync::OnceLock,
};
use xxhash_rust::xxh3::xxh3_64;

/// CardinalityRange of cardinality, as published.
pub const GROUPS: u32 = 27;
/// Ids that share an offset.
pub const ID_BLOCK: u32 = 4;
/// Bytes that are read of ids at first.
const FEW_BYTES: u64 = 256;
/// Slots that are looked at together, at most.
const SLOTS: u32 = 1 << 12;
/// No section of any file begins after so many bytes.
const FAR: u64 = 1 << 60;
/// Of so many entries one is in a sample, at least.
const WORTH_A_SAMPLE: u32 = 16;
const KIND: &str = "history segment";

/// The bucket of a cardinality: 256 bits at most.
pub fn group_of(cardinality: u32) -> usize {
    (cardinality * GROUPS / 257) as usize
}

/// The highest cardinality of a bucket.
fn top_of(group: usize) -> u32 {
    (257 * (group as u32 + 1)).div_ceil(GROUPS) - 1
}

/// What is where.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SegmentDescription {
    pub dedup: String,
    pub entries: u32,
    /// Bits of the addresses of tables, and those of part 0 at most.
    pub address_bits: u32,
    pub ordered_bits: u32,
    /// Of each part, the bits that make its address, and those that stand beside an entry.
    pub masks: Vec<PartMasks>,
    /// One more than there are.
    pub groups: Vec<CardinalityGroup>,
    /// Sequence numbers of the first and the last entry.
    pub sequences: [u64; 2],
    pub times: [u32; 2],
    pub bodies: u64,
    pub directory: u64,
    pub heads: u64,
    pub tables: Vec<TableSections>,
    pub numbers: u64,
    pub stamps: u64,
    pub id_blocks: u64,
    pub ids: [u64; 2],
    pub id_index: u64,
}

/// A bucket of cardinality.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct CardinalityGroup {
    pub start: u32,
    pub address_bits: u32,
    /// Where its addresses begin, in the directory of part 0.
    pub directory: u32,
}

impl SegmentDescription {
    pub fn new(entries: u32) -> Self {
        let none = [0, 0];
        Self {
            dedup: KIND.to_owned(),
            entries,
            address_bits: 0,
            ordered_bits: 0,
            masks: Vec::new(),
            groups: Vec::new(),
            sequences: none,
            times: [0, 0],
            bodies: 0,
            directory: 0,
            heads: 0,
            tables: Vec::new(),
            numbers: 0,
            stamps: 0,
            id_blocks: 0,
            ids: none,
            id_index: 0,
        }
    }

    /// How many bits the addresses of a part have.
    pub fn bits_of(&self, part: usize) -> u32 {
        if part == 0 {
            self.ordered_bits
        } else {
            self.address_bits
        }
    }

    fn is_sound(&self) -> bool {
        self.dedup == KIND
            && self.entries > 0
            && self.address_bits <= MOST_ADDRESS_BITS
            && self.ordered_bits <= 30
            && are_valid_masks(&self.masks, |part| self.bits_of(part), PART_BITS as u32)
            && self.tables.len() == PARTS - 1
            && self.groups.len() == GROUPS as usize + 1
            && self.groups.iter().is_sorted_by_key(|group| group.start)
            && self
                .groups
                .iter()
                .all(|group| group.address_bits <= self.ordered_bits && group.start <= self.entries)
            && self.sequences[0] <= self.sequences[1]
            && self
                .tables
                .iter()
                .flat_map(|table| [table.directory, table.buckets])
                .all(|at| at <= FAR)
            && [
                self.bodies,
                self.directory,
                self.heads,
                self.numbers,
                self.stamps,
                self.id_blocks,
                self.id_index,
            ]
            .iter()
            .all(|&at| at <= FAR)
    }
}

/// Entries that a segment is made of.
pub trait EntrySource: Sync {
    fn count(&self) -> u32;
    fn print(&self, entry: u32) -> Result<Print>;
    fn sequence(&self, entry: u32) -> Result<u64>;
    fn time(&self, entry: u32) -> Result<u32>;
    fn id(&self, entry: u32) -> Result<&str>;
}

pub struct Segment {
    pub file: Sealed,
    /// The same file, to read from.
    plain: File,
    pub description: SegmentDescription,
    keys: PartKeys,
    pub steps: LookupSteps,
    /// Made when it is needed: see [`SearchableEntries::sample`].
    sample: OnceLock<Vec<PrintParts>>,
    /// How often it was merged: segments of one level are merged into one of the next.
    pub level: u32,
}

impl Segment {
    /// Opens a file, whatever its size in the same time.
    pub fn open(path: &Path, level: u32) -> Result<Self> {
        let plain = File::open(path).map_err(|error| Error::io(path.display(), error))?;
        let file = Sealed::open(path)?;
        let description: SegmentDescription = file.describe()?;
        if !description.is_sound() {
            return Err(Error::damaged(
                Place::file(file.name().clone()),
                "not a segment of a history, or one of another version",
            ));
        }
        let keys = PartKeys::new(&description.masks);
        let steps = LookupSteps::usual::<Self>(description.address_bits, description.entries);
        Ok(Self {
            file,
            plain,
            description,
            keys,
            steps,
            sample: OnceLock::new(),
            level,
        })
    }

    /// Checks every block, and takes the sample: nobody who asks waits for that, and what a search touches is in memory then, and nothing else.
    pub fn warm_up(&self) -> Result<()> {
        self.file.verify_and(give_way)?;
        self.sample()?;
        let SegmentDescription { heads, tables, .. } = &self.description;
        self.file
            .release_bytes(*heads..tables.first().map_or(*heads, |table| table.directory));
        Ok(())
    }

    pub fn path(&self) -> PathBuf {
        PathBuf::from(&**self.file.name())
    }

    #[inline(always)]
    fn u32s<const N: usize>(&self, start: u64) -> Result<[u32; N]> {
        let (words, _) = self.file.bytes(start, 4 * N as u64)?.as_chunks::<4>();
        // As many as were asked for.
        Ok(std::array::from_fn(|at| {
            words.get(at).map_or(0, |&word| u32::from_le_bytes(word))
        }))
    }

    /// All entries that have this id.
    pub fn with_id(&self, id: &str) -> Result<Vec<u32>> {
        let (hash, mut found) = (id_hash(id), Vec::new());
        let row = |at: u32| self.id_row(at);
        let (mut low, mut high) = (0, self.description.entries);
        while low < high {
            let middle = low + (high - low) / 2;
            if row(middle)?[1] < hash {
                low = middle + 1
            } else {
                high = middle
            }
        }
        for at in low..self.description.entries {
            let [entry, of] = row(at)?;
            if of != hash {
                break;
            }
            if self.id(entry)? == id {
                found.push(entry);
            }
        }
        Ok(found)
    }

    /// A row of the index of ids: an entry, and the hash of its id, by which rows are ordered.
    pub fn id_row(&self, at: u32) -> Result<[u32; 2]> {
        self.u32s(self.description.id_index + 8 * u64::from(at))
    }

    /// The key of a print.
    pub fn key(&self, print: &Print, part: usize) -> PartKey {
        self.keys.key(print, part)
    }

    /// The entries that an address of part 0 has, by its place in the directory.
    pub fn entries_at(&self, place: u32) -> Result<Range<u32>> {
        self.ordered(place)
    }

    /// All entries that have this id and this print. Ids are looked up only where the print is.
    pub fn with_id_and_print(&self, id: &str, print: &Print) -> Result<Vec<u32>> {
        let mut has_print = false;
        self.equals(print, &self.key(print, 0), &mut |_| {
            has_print = true;
            Ok(true)
        })?;
        let entries = if has_print {
            self.with_id(id)?
        } else {
            Vec::new()
        };
        entries
            .into_iter()
            .filter_map(|entry| {
                self.print(entry)
                    .map(|other| (other == *print).then_some(entry))
                    .transpose()
            })
            .collect()
    }

    fn text<'i>(&self, id: &'i [u8]) -> Result<&'i str> {
        std::str::from_utf8(id).map_err(|_| self.damaged("an id is not UTF-8"))
    }

    fn damaged(&self, what: &str) -> Error {
        self.file.damaged(self.description.ids[0], what)
    }
}

/// By which ids are found.
pub fn id_hash(id: &str) -> u32 {
    (xxh3_64(id.as_bytes()) >> 32) as u32
}

impl EntrySource for Segment {
    fn count(&self) -> u32 {
        self.description.entries
    }

    #[inline(always)]
    fn print(&self, entry: u32) -> Result<Print> {
        let [body] = self.bodies(entry..entry + 1)? else {
            return Err(self.damaged("no print"));
        };
        Ok(join(self.mapped_head(entry)?, body))
    }

    fn sequence(&self, entry: u32) -> Result<u64> {
        let [number] = self.u32s(self.description.numbers + 4 * u64::from(entry))?;
        Ok(self.description.sequences[0] + u64::from(number))
    }

    fn time(&self, entry: u32) -> Result<u32> {
        let [time] = self.u32s(self.description.stamps + 4 * u64::from(entry))?;
        Ok(time)
    }

    fn id(&self, entry: u32) -> Result<&str> {
        let [low, high] =
            self.u32s(self.description.id_blocks + 8 * u64::from(entry / ID_BLOCK))?;
        let start = self.description.ids[0].saturating_add(u64::from(low) | u64::from(high) << 32);
        let length = self.ids_from(start)?;
        // A block of ids is short, but for ids that are long.
        let few = find_id(
            self.file.bytes(start, length.min(FEW_BYTES))?,
            entry % ID_BLOCK,
        );
        let id = match few {
            Ok(id) => id,
            Err(_) => find_id(self.file.bytes(start, length)?, entry % ID_BLOCK)
                .map_err(|what| self.damaged(&what))?,
        };
        self.text(id)
    }
}

/// An id after so many others.
fn find_id(bytes: &[u8], after: u32) -> Result<&[u8], String> {
    let mut fields = Fields::new(bytes);
    for _ in 0..after {
        let length = fields.varint("length of an id")?;
        fields.take(length, "id")?;
    }
    let length = fields.varint("length of an id")?;
    fields.take(length, "id")
}

/// What only answers need is read, not mapped: it would take memory, and time to let go of it.
impl Segment {
    /// When an entry came: its sequence number, and the time if somebody wants to know it.
    pub fn read_arrival(&self, entry: u32, with_time: bool) -> Result<(u64, u32)> {
        let number = self.read_u32(self.description.numbers + 4 * u64::from(entry))?;
        let time = if with_time {
            self.read_u32(self.description.stamps + 4 * u64::from(entry))?
        } else {
            0
        };
        Ok((self.description.sequences[0] + u64::from(number), time))
    }

    /// The same as [`EntrySource::id`].
    pub fn read_id(&self, entry: u32) -> Result<String> {
        let mut block = [0; 8];
        self.file.read_from(
            &self.plain,
            self.description.id_blocks + 8 * u64::from(entry / ID_BLOCK),
            &mut block,
        )?;
        let start = self.description.ids[0].saturating_add(u64::from_le_bytes(block));
        let length = self.ids_from(start)?;
        let mut few = [0; FEW_BYTES as usize];
        let few = &mut few[..length.min(FEW_BYTES) as usize];
        self.file.read_from(&self.plain, start, few)?;
        match find_id(few, entry % ID_BLOCK) {
            Ok(id) => self.text(id).map(str::to_owned),
            // A long one is mapped.
            Err(_) => self.id(entry).map(str::to_owned),
        }
    }

    fn mapped_head(&self, entry: u32) -> Result<PrintHead> {
        let [head] = self.heads(entry..entry + 1)? else {
            return Err(self.damaged("no print"));
        };
        Ok(*head)
    }

    /// The same, not mapped.
    fn read_head(&self, entry: u32) -> Result<PrintHead> {
        let mut bytes = [0; HEAD_BYTES];
        self.file.read_from(
            &self.plain,
            self.description.heads + HEAD_BYTES as u64 * u64::from(entry),
            &mut bytes,
        )?;
        Ok(bytes)
    }

    fn read_u32(&self, start: u64) -> Result<u32> {
        let mut bytes = [0; 4];
        self.file.read_from(&self.plain, start, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// How many bytes of ids there are from a place on.
    fn ids_from(&self, start: u64) -> Result<u64> {
        self.description.ids[1]
            .checked_sub(start)
            .ok_or_else(|| self.damaged("an id lies outside of the ids"))
    }
}

impl Segment {
    /// Where in the directory a print's address of part 0 is.
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
    fn at(number: usize, entry: u32) -> HitLocation {
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
        // As prints are in order, they are from everywhere.
        let step = self.description.entries / SAMPLE;
        let entries = if step < WORTH_A_SAMPLE { 0 } else { SAMPLE };
        let parts = |entry: u32| {
            let [body] = self.bodies(entry..entry + 1)? else {
                return Err(self.damaged("no print"));
            };
            Ok(parts_of(&join(self.read_head(entry)?, body)))
        };
        let sample = politely(0..entries)
            .map(|at| parts(at * step))
            .collect::<Result<Vec<PrintParts>>>()?;
        Ok(self.sample.get_or_init(|| sample))
    }

    fn groups(&self, limit: Ratio, cardinality: u32) -> Range<usize> {
        let allowed = limit.cardinalities(cardinality);
        group_of(*allowed.start())..group_of(*allowed.end()) + 1
    }

    fn entries_of(&self, groups: Range<usize>) -> Range<u32> {
        self.description.groups[groups.start].start..self.description.groups[groups.end].start
    }

    fn reach(&self, limit: Ratio, cardinality: u32, group: usize) -> u32 {
        limit.reach_to(cardinality, top_of(group))
    }

    #[inline(always)]
    fn bodies(&self, entries: Range<u32>) -> Result<&[PrintBody]> {
        let bytes = |entries: u32| BODY_BYTES as u64 * u64::from(entries);
        self.file
            .bytes(
                self.description.bodies + bytes(entries.start),
                bytes(entries.end - entries.start),
            )
            .map(bodies)
    }

    #[inline(always)]
    fn prefetch_body(&self, entry: u32) {
        let start = self.description.bodies + BODY_BYTES as u64 * u64::from(entry);
        self.file.prefetch(start);
        // Every fourth is in two lines of the cache.
        self.file.prefetch(start + BODY_BYTES as u64 - 1);
    }

    fn head(&self, entry: u32, is_one_of_many: bool) -> Result<PrintHead> {
        if is_one_of_many {
            self.mapped_head(entry)
        } else {
            self.read_head(entry)
        }
    }

    fn heads(&self, entries: Range<u32>) -> Result<&[PrintHead]> {
        let bytes = |entries: u32| HEAD_BYTES as u64 * u64::from(entries);
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
        // After a few lines of the cache the processor fetches the next by itself.
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
        let (head, body) = split(print);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_tops() {
        for cardinality in 0..=256 {
            let group = group_of(cardinality);
            assert!(cardinality <= top_of(group) && group_of(top_of(group)) == group);
        }
    }
}
