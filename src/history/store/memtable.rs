//! The memtable: the newest entries, in memory until they are written to a segment.
//!
//! The first entries are scanned one by one. Once there are enough to tell which bits distinguish
//! prints, each part gets a table: for each address a chain of blocks of slots, in order of
//! arrival.

use super::{id_map::IdMap, segment::id_hash};
use crate::{
    base::{
        error::{Error, Place, Result},
        files::prefetch,
        num::{ToU32, ToU64, ToUsize},
    },
    history::search::{
        part_keys::{BitCounts, PARTS, PartKey, PartKeys, PrintParts},
        part_table::{BucketSlots, SlotCursor},
        plan::LookupSteps,
        print_halves::{BODY_BYTES, HEAD_BYTES, PrintBody, PrintHead, join_print, split_print},
        scan::{NearSlots, Slot},
        searchable::{BucketCursor, EntrySource, SearchableEntries},
        similarity::{HitLocation, Ratio},
    },
    text::stream::Print,
};
use std::{ops::Range, sync::LazyLock};

/// A new entry of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    pub print: Print,
    pub sequence: u64,
    /// The time of arrival, in seconds since 1970.
    pub time: u32,
    pub id: Box<str>,
}

/// The greatest number of entries.
pub const MAX_MEMTABLE_ENTRIES: u32 = 1 << ENTRY_BITS;
/// The bits of a slot for the number of the entry.
const ENTRY_BITS: u32 = 18;
/// The number of entries that are scanned without tables.
const UNINDEXED_ENTRIES: usize = 2048;
/// The expected length of an id.
const ID_BYTES: usize = 16;
/// The bits of an address: about eight entries share one, so nearly all addresses have one block.
const ADDRESS_BITS: u32 = 15;
const ADDRESSES: usize = 1 << ADDRESS_BITS;
/// The bits of a slot for the rest of the key.
const REST_BITS: u32 = u32::BITS - ENTRY_BITS;
/// The slots of a block.
const BLOCK_SLOTS: usize = 14;

/// Entries in order of arrival, with tables for search.
#[derive(Debug, Default)]
pub struct Memtable {
    first_sequence: u64,
    heads: Vec<PrintHead>,
    bodies: Vec<PrintBody>,
    times: Vec<u32>,
    ids: String,
    id_ends: Vec<usize>,
    by_id: IdMap,
    /// Built when there are more than a few entries, if not at once.
    tables: Option<MemtableTables>,
}

#[derive(Debug)]
struct MemtableTables {
    keys: PartKeys,
    parts: Vec<SlotChains>,
}

/// The slots of each address of a part.
#[derive(Debug)]
struct SlotChains {
    /// The first and the last block of each address.
    ends: Vec<[u32; 2]>,
    /// The first block is unused: 0 means none.
    blocks: Vec<SlotBlock>,
}

#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct SlotBlock {
    slots: [Slot; BLOCK_SLOTS],
    used: u32,
    /// 0 for none.
    next: u32,
}

impl Memtable {
    /// With capacity for this number of entries, and with tables if their keys are known. The first
    /// access to fresh memory is slow, so all of it is written to here, on the thread that prepares
    /// it.
    pub fn with_capacity(entries: u32, keys: Option<PartKeys>) -> Self {
        let entries = entries.to_usize();
        Self {
            first_sequence: 0,
            heads: preallocate(entries, [0; HEAD_BYTES]),
            bodies: preallocate(entries, [0; BODY_BYTES]),
            times: preallocate(entries, 0),
            // Zero bytes are valid UTF-8.
            ids: String::from_utf8(preallocate(ID_BYTES * entries, 0)).unwrap_or_default(),
            id_ends: preallocate(entries, 0),
            by_id: IdMap::with_capacity(entries),
            tables: keys.map(|keys| MemtableTables {
                keys,
                parts: (0..PARTS)
                    .map(|_| SlotChains::with_capacity(entries))
                    .collect(),
            }),
        }
    }

    /// Adds an entry. Sequence numbers rise without gaps.
    pub fn push(&mut self, added: &NewEntry) {
        if self.times.is_empty() {
            self.first_sequence = added.sequence;
        }
        let entry = self.count();
        let (head, body) = split_print(&added.print);
        self.heads.push(head);
        self.bodies.push(body);
        self.times.push(added.time);
        self.ids.push_str(&added.id);
        self.id_ends.push(self.ids.len());
        self.by_id.push(id_hash(&added.id));
        match &mut self.tables {
            Some(tables) => tables.add(entry, &added.print),
            None if self.times.len() == UNINDEXED_ENTRIES => {
                self.tables = Some(MemtableTables::new(&self.heads, &self.bodies))
            }
            None => {}
        }
    }

    /// Prefetches the memory that entries with these prints will be written to, for a few at once.
    pub fn prefetch_slots(&self, prints: impl Iterator<Item = Print> + Clone) {
        let Some(MemtableTables { keys, parts }) = &self.tables else {
            return;
        };
        let places = || {
            prints.clone().flat_map(|print| {
                parts
                    .iter()
                    .zip(keys.all(&print))
                    .map(|(chains, key)| (chains, key.address))
            })
        };
        places().for_each(|(chains, address)| prefetch(&chains.ends, u64::from(address)));
        for (chains, address) in places() {
            let [_, last] = chains.ends[address.to_usize()];
            prefetch(&chains.blocks, u64::from(last));
        }
    }

    /// The sequence number and the time of the last entry, which are the greatest.
    pub fn last(&self) -> Option<(u64, u32)> {
        let last = self.times.len().checked_sub(1)?;
        Some((self.first_sequence + last.to_u64(), self.times[last]))
    }

    /// All entries with this id.
    pub fn with_id(&self, id: &str) -> Result<Vec<u32>> {
        let mut found = Vec::new();
        for entry in self.by_id.with_hash(id_hash(id)) {
            if self.id(entry)? == id {
                found.push(entry);
            }
        }
        found.reverse();
        Ok(found)
    }
}

/// An empty vector with this capacity, in memory that was written to.
fn preallocate<T: Clone>(count: usize, value: T) -> Vec<T> {
    let mut vector = Vec::with_capacity(count);
    vector.resize(count, value);
    vector.clear();
    vector
}

impl MemtableTables {
    fn new(heads: &[PrintHead], bodies: &[PrintBody]) -> Self {
        let mut ones = BitCounts::new();
        let each = || {
            heads
                .iter()
                .zip(bodies)
                .map(|(&head, body)| join_print(head, body))
        };
        each().for_each(|print| ones.count(&print));
        let keys = PartKeys::new(&ones.masks(|_| ADDRESS_BITS, REST_BITS));
        let mut tables = Self {
            keys,
            parts: (0..PARTS).map(|_| SlotChains::new()).collect(),
        };
        (0..)
            .zip(each())
            .for_each(|(entry, print)| tables.add(entry, &print));
        tables
    }

    fn add(&mut self, entry: u32, print: &Print) {
        for (part, chains) in self.parts.iter_mut().enumerate() {
            let PartKey { address, rest } = self.keys.key(print, part);
            chains.add(
                address.to_usize(),
                (entry | rest << ENTRY_BITS).to_le_bytes(),
            );
        }
    }
}

impl SlotChains {
    /// Reserves memory for a full memtable at once: moving the blocks later would take
    /// milliseconds.
    fn new() -> Self {
        let mut blocks = Vec::with_capacity(blocks_for(MAX_MEMTABLE_ENTRIES.to_usize()));
        blocks.push(SlotBlock::default());
        Self {
            ends: vec![[0; 2]; ADDRESSES],
            blocks,
        }
    }

    /// In memory that was written to.
    fn with_capacity(entries: usize) -> Self {
        let mut blocks = preallocate(blocks_for(entries), SlotBlock::default());
        blocks.push(SlotBlock::default());
        let mut ends = Vec::with_capacity(ADDRESSES);
        ends.resize(ADDRESSES, [0; 2]);
        Self { ends, blocks }
    }

    fn add(&mut self, address: usize, slot: Slot) {
        let [first, last] = &mut self.ends[address];
        if *last == 0 || self.blocks[last.to_usize()].used.to_usize() == BLOCK_SLOTS {
            let new = self.blocks.len().to_u32();
            self.blocks.push(SlotBlock::default());
            if *last == 0 {
                *first = new;
            } else {
                self.blocks[last.to_usize()].next = new;
            }
            *last = new;
        }
        let block = &mut self.blocks[last.to_usize()];
        block.slots[block.used.to_usize()] = slot;
        block.used += 1;
    }
}

/// The number of blocks: nearly all addresses have one, some have more.
fn blocks_for(entries: usize) -> usize {
    1 + ADDRESSES + entries / BLOCK_SLOTS
}

impl EntrySource for Memtable {
    fn count(&self) -> u32 {
        self.times.len().to_u32()
    }

    fn print(&self, entry: u32) -> Result<Print> {
        let both = self
            .heads
            .get(entry.to_usize())
            .zip(self.bodies.get(entry.to_usize()));
        both.map(|(&head, body)| join_print(head, body))
            .ok_or_else(out_of_bounds)
    }

    fn sequence(&self, entry: u32) -> Result<u64> {
        Ok(self.first_sequence + u64::from(entry))
    }

    fn time(&self, entry: u32) -> Result<u32> {
        self.times
            .get(entry.to_usize())
            .copied()
            .ok_or_else(out_of_bounds)
    }

    fn id(&self, entry: u32) -> Result<&str> {
        let end = self
            .id_ends
            .get(entry.to_usize())
            .ok_or_else(out_of_bounds)?;
        let start = if entry == 0 {
            0
        } else {
            self.id_ends[entry.to_usize() - 1]
        };
        self.ids.get(start..*end).ok_or_else(out_of_bounds)
    }
}

#[cold]
fn out_of_bounds() -> Error {
    Error::damaged(Place::file("memory"), "out of bounds")
}

impl SearchableEntries for Memtable {
    fn location(number: usize, entry: u32) -> HitLocation {
        HitLocation::Memtable(number, entry)
    }

    fn arrival(&self, entry: u32, _: bool) -> Result<(u64, u32)> {
        Ok((self.sequence(entry)?, self.time(entry)?))
    }

    fn keys(&self) -> Option<&PartKeys> {
        self.tables.as_ref().map(|tables| &tables.keys)
    }

    fn address_bits(&self) -> u32 {
        ADDRESS_BITS
    }

    fn steps(&self) -> &LookupSteps {
        static NONE: LazyLock<LookupSteps> =
            LazyLock::new(|| LookupSteps::usual::<Memtable>(ADDRESS_BITS, 0));
        static SOME: LazyLock<LookupSteps> =
            LazyLock::new(|| LookupSteps::usual::<Memtable>(ADDRESS_BITS, MAX_MEMTABLE_ENTRIES));
        if self.tables.is_some() { &SOME } else { &NONE }
    }

    fn sample(&self) -> Result<&[PrintParts]> {
        Ok(&[])
    }

    /// All entries are in one group.
    fn groups(&self, _: Ratio, _: u32) -> Range<usize> {
        0..1
    }

    fn entries_of(&self, groups: Range<usize>) -> Range<u32> {
        if groups.is_empty() {
            0..0
        } else {
            0..self.count()
        }
    }

    fn max_distance(&self, threshold: Ratio, cardinality: u32, _: usize) -> u32 {
        threshold.max_distance(cardinality)
    }

    #[inline(always)]
    fn bodies(&self, entries: Range<u32>) -> Result<&[PrintBody]> {
        self.bodies
            .get(entries.start.to_usize()..entries.end.to_usize())
            .ok_or_else(out_of_bounds)
    }

    #[inline(always)]
    fn prefetch_body(&self, entry: u32) {
        prefetch(&self.bodies, u64::from(entry));
    }

    fn head(&self, entry: u32, _: bool) -> Result<PrintHead> {
        self.heads
            .get(entry.to_usize())
            .copied()
            .ok_or_else(out_of_bounds)
    }

    fn heads(&self, entries: Range<u32>) -> Result<&[PrintHead]> {
        self.heads
            .get(entries.start.to_usize()..entries.end.to_usize())
            .ok_or_else(out_of_bounds)
    }

    fn prefetch_place(&self, _: u32, key: &PartKey) {
        self.prefetch_address(0, key.address);
    }

    fn prefetch_equals(&self, _: u32, key: &PartKey) -> Result<()> {
        self.bucket(0, key.address).map(drop)
    }

    fn equals(
        &self,
        print: &Print,
        key: &PartKey,
        call: &mut dyn FnMut(u32) -> Result<bool>,
    ) -> Result<()> {
        let mut bucket = self.bucket(0, key.address)?;
        while bucket.next != 0 {
            for slot in self
                .next_slots(&mut bucket)?
                .iter()
                .map(|&slot| u32::from_le_bytes(slot))
            {
                let entry = slot & (MAX_MEMTABLE_ENTRIES - 1);
                if slot >> ENTRY_BITS == key.rest && self.print(entry)? == *print && call(entry)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    const TABLES: usize = PARTS;

    fn group(&self, _: usize) -> (u32, u32) {
        (0, 0)
    }

    fn ordered(&self, _: u32) -> Result<Range<u32>> {
        Ok(0..0)
    }

    #[inline(always)]
    fn prefetch_address(&self, part: usize, address: u32) {
        if let Some(MemtableTables { parts, .. }) = &self.tables {
            prefetch(&parts[part].ends, u64::from(address));
        }
    }

    #[inline(always)]
    fn bucket(&self, part: usize, address: u32) -> Result<BucketCursor> {
        let chains = self.chains(part)?;
        let [start, end] = chains.ends[address.to_usize()];
        prefetch(&chains.blocks, u64::from(start));
        if end != start {
            prefetch(&chains.blocks, u64::from(end));
        }
        Ok(BucketCursor {
            part,
            slots: BucketSlots::default(),
            next: start,
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
        let near = NearSlots {
            asked: rest << ENTRY_BITS,
            mask: !(MAX_MEMTABLE_ENTRIES - 1),
            most,
        };
        near.each_with::<AVX2>(self.next_slots(bucket)?, call);
        Ok(bucket.next != 0)
    }

    #[inline(always)]
    fn prefetch_slot(&self, _: &BucketCursor, entry: u32) {
        self.prefetch_body(entry);
    }

    /// A slot contains the number of its entry.
    #[inline(always)]
    fn entry<const AVX2: bool>(
        &self,
        _: &BucketCursor,
        entry: u32,
        _: u32,
        _: u32,
        _: &mut SlotCursor,
    ) -> Result<Option<u32>> {
        Ok(Some(entry))
    }
}

impl Memtable {
    #[inline(always)]
    fn chains(&self, part: usize) -> Result<&SlotChains> {
        self.tables
            .as_ref()
            .and_then(|tables| tables.parts.get(part))
            .ok_or_else(out_of_bounds)
    }

    /// The slots of the next block of a chain; block 0 has none.
    #[inline(always)]
    fn next_slots(&self, bucket: &mut BucketCursor) -> Result<&[Slot]> {
        let block = &self.chains(bucket.part)?.blocks[bucket.next.to_usize()];
        bucket.next = block.next;
        Ok(&block.slots[..block.used.to_usize()])
    }
}
