//! Many prints that do not change any more, in a file or in memory, laid out for search.
//!
//! ```text
//! prints, by bucket of cardinality and then by the address of part 0 | where each address begins
//! | for each other part: where each address begins, and entries by address | sequence numbers | times | ids | ids by hash
//! ```
//!
//! What a search touches is 32 bytes of print, 24 of tables and about 2 of directories an entry; the rest is for answers only.

use super::{
    keys::{Key, Keys, PARTS, are_masks, sphere},
    likeness::Ratio,
};
use crate::{
    error::{Error, Place, Result},
    format::{Fields, PRINT_BYTES, Print, Sealed, prefetch},
};
use serde::{Deserialize, Serialize};
use std::{
    ops::Range,
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_64;

/// Buckets of cardinality, as published.
pub const GROUPS: u32 = 27;
/// Ids that share an offset.
pub const ID_BLOCK: u32 = 4;
const KIND: &str = "history segment";

/// The bucket of a cardinality: 256 bits at most.
pub fn group_of(cardinality: u32) -> usize {
    (cardinality * GROUPS / 257) as usize
}

/// What is where.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Shape {
    pub dedup: String,
    pub entries: u32,
    pub address_bits: u32,
    /// Of each part, the bits that make its address.
    pub masks: Vec<u64>,
    /// One more than there are.
    pub groups: Vec<Group>,
    /// Sequence numbers of the first and the last entry.
    pub sequences: [u64; 2],
    pub times: [u32; 2],
    pub prints: u64,
    pub directory: u64,
    pub tables: Vec<Table>,
    pub numbers: u64,
    pub stamps: u64,
    pub id_blocks: u64,
    pub ids: [u64; 2],
    pub id_index: u64,
}

/// A bucket of cardinality.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Group {
    pub start: u32,
    pub address_bits: u32,
    /// Where its addresses begin, in the directory of part 0.
    pub directory: u32,
}

/// Where the table of a part is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Table {
    pub directory: u64,
    pub slots: u64,
}

impl Shape {
    pub fn new(entries: u32) -> Self {
        let none = [0, 0];
        Self {
            dedup: KIND.to_owned(),
            entries,
            address_bits: 0,
            masks: Vec::new(),
            groups: Vec::new(),
            sequences: none,
            times: [0, 0],
            prints: 0,
            directory: 0,
            tables: Vec::new(),
            numbers: 0,
            stamps: 0,
            id_blocks: 0,
            ids: none,
            id_index: 0,
        }
    }

    fn is_sound(&self) -> bool {
        self.dedup == KIND
            && self.entries > 0
            && self.address_bits <= 30
            && are_masks(&self.masks, self.address_bits)
            && self.tables.len() == PARTS - 1
            && self.groups.len() == GROUPS as usize + 1
            && self.groups.iter().is_sorted_by_key(|group| group.start)
            && self.groups.iter().all(|group| group.address_bits <= self.address_bits && group.start <= self.entries)
            && self.sequences[0] <= self.sequences[1]
    }
}

/// The bytes of a segment.
pub enum Store {
    Memory(Vec<u8>),
    File(Box<Sealed>),
}

impl Store {
    #[inline(always)]
    pub fn bytes(&self, start: u64, length: u64) -> Result<&[u8]> {
        match self {
            Self::Memory(bytes) => {
                bytes.get(start as usize..(start + length) as usize).ok_or_else(|| Error::damaged(Place::file("memory"), "out of bounds"))
            }
            Self::File(file) => file.bytes(start, length),
        }
    }

    #[inline(always)]
    pub fn prefetch(&self, at: u64) {
        match self {
            Self::Memory(bytes) => prefetch(bytes, at),
            Self::File(file) => file.prefetch(at),
        }
    }

    #[inline(always)]
    pub fn u32s<const N: usize>(&self, start: u64) -> Result<[u32; N]> {
        let (mut numbers, bytes) = ([0; N], self.bytes(start, 4 * N as u64)?);
        for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(4)) {
            *number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Ok(numbers)
    }
}

/// Entries that a segment is made of.
pub trait Entries: Sync {
    fn count(&self) -> u32;
    fn print(&self, entry: u32) -> Result<Print>;
    fn sequence(&self, entry: u32) -> Result<u64>;
    fn time(&self, entry: u32) -> Result<u32>;
    fn id(&self, entry: u32) -> Result<&str>;
}

pub struct Segment {
    pub store: Store,
    pub shape: Shape,
    pub keys: Keys,
    /// Addresses to look up, for so many bits that may differ; as far as it is worth it.
    pub lookups: Vec<u32>,
    /// How often it was merged: segments of one level are merged into one of the next.
    pub level: u32,
}

impl Segment {
    /// Opens a file, whatever its size in the same time.
    pub fn open(file: Sealed, level: u32) -> Result<Self> {
        let shape: Shape = file.describe()?;
        if !shape.is_sound() {
            return Err(Error::damaged(Place::file(file.name().clone()), "not a segment of a history, or one of another version"));
        }
        Ok(Self::new(Store::File(Box::new(file)), shape, level))
    }

    pub fn open_path(path: &Path, level: u32) -> Result<Self> {
        Self::open(Sealed::open(path)?, level)
    }

    pub fn in_memory(bytes: Vec<u8>, shape: Shape, level: u32) -> Self {
        Self::new(Store::Memory(bytes), shape, level)
    }

    fn new(store: Store, shape: Shape, level: u32) -> Self {
        let (keys, mut lookups, mut sum) = (Keys::new(&shape.masks), Vec::new(), 0_u64);
        for differ in 0..=256 {
            sum = (0..=differ / PARTS as u32).map(|ones| sphere(shape.address_bits, ones)).fold(sum, u64::saturating_add);
            if sum > u64::from(shape.entries) {
                break;
            }
            lookups.push(sum as u32);
        }
        Self { store, shape, keys, lookups, level }
    }

    pub fn is_file(&self) -> bool {
        matches!(self.store, Store::File(_))
    }

    /// None if it is in memory.
    pub fn path(&self) -> Option<PathBuf> {
        match &self.store {
            Store::File(file) => Some(PathBuf::from(&**file.name())),
            Store::Memory(_) => None,
        }
    }

    /// Entries whose cardinality may do.
    pub fn admissible(&self, limit: Ratio, cardinality: u32) -> (Range<usize>, Range<u32>) {
        let allowed = limit.cardinalities(cardinality);
        let groups = group_of(*allowed.start())..group_of(*allowed.end()) + 1;
        (groups.clone(), self.shape.groups[groups.start].start..self.shape.groups[groups.end].start)
    }

    pub fn all_keys(&self, print: &Print) -> [Key; PARTS] {
        std::array::from_fn(|part| self.keys.key(print, part))
    }

    /// All entries that have this id.
    pub fn with_id(&self, id: &str) -> Result<Vec<u32>> {
        let (hash, mut found) = (id_hash(id), Vec::new());
        let row = |at: u32| self.store.u32s::<2>(self.shape.id_index + 8 * u64::from(at));
        let (mut low, mut high) = (0, self.shape.entries);
        while low < high {
            let middle = low + (high - low) / 2;
            if row(middle)?[1] < hash { low = middle + 1 } else { high = middle }
        }
        for at in low..self.shape.entries {
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

    fn damaged(&self, what: &str) -> Error {
        match &self.store {
            Store::File(file) => file.damaged(self.shape.ids[0], what),
            Store::Memory(_) => Error::damaged(Place::file("memory"), what),
        }
    }
}

/// By which ids are found.
pub fn id_hash(id: &str) -> u32 {
    (xxh3_64(id.as_bytes()) >> 32) as u32
}

impl Entries for Segment {
    fn count(&self) -> u32 {
        self.shape.entries
    }

    #[inline(always)]
    fn print(&self, entry: u32) -> Result<Print> {
        let bytes = self.store.bytes(self.shape.prints + PRINT_BYTES as u64 * u64::from(entry), PRINT_BYTES as u64)?;
        Ok(Print::from_slice(bytes))
    }

    fn sequence(&self, entry: u32) -> Result<u64> {
        let [number] = self.store.u32s(self.shape.numbers + 4 * u64::from(entry))?;
        Ok(self.shape.sequences[0] + u64::from(number))
    }

    fn time(&self, entry: u32) -> Result<u32> {
        let [time] = self.store.u32s(self.shape.stamps + 4 * u64::from(entry))?;
        Ok(time)
    }

    fn id(&self, entry: u32) -> Result<&str> {
        let [low, high] = self.store.u32s(self.shape.id_blocks + 8 * u64::from(entry / ID_BLOCK))?;
        let start = self.shape.ids[0] + (u64::from(low) | u64::from(high) << 32);
        // A block of ids is short; one with long ids is read in one go all the same.
        let length = self.shape.ids[1].checked_sub(start).ok_or_else(|| self.damaged("an id lies outside of the ids"))?;
        let mut fields = Fields::new(self.store.bytes(start, length.min(4096))?);
        if self.skip_to(&mut fields, entry % ID_BLOCK).is_err() {
            fields = Fields::new(self.store.bytes(start, length)?);
            self.skip_to(&mut fields, entry % ID_BLOCK).map_err(|what| self.damaged(&what))?;
        }
        let length_of = |fields: &mut Fields<'_>| fields.varint("length of an id");
        let mut again = fields.clone();
        let id = length_of(&mut again).and_then(|length| again.take(length, "id")).or_else(|_| {
            let mut whole = Fields::new(self.store.bytes(start, length).map_err(|error| error.to_string())?);
            self.skip_to(&mut whole, entry % ID_BLOCK)?;
            let length = length_of(&mut whole)?;
            whole.take(length, "id")
        });
        let id = id.map_err(|what| self.damaged(&what))?;
        std::str::from_utf8(id).map_err(|_| self.damaged("an id is not UTF-8"))
    }
}

impl Segment {
    fn skip_to(&self, fields: &mut Fields<'_>, count: u32) -> Result<(), String> {
        for _ in 0..count {
            let length = fields.varint("length of an id")?;
            fields.take(length, "id")?;
        }
        Ok(())
    }
}
