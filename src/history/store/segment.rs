//! A segment: an immutable file of entries, sorted for search.
//!
//! ```text
//! bodies of prints, by group of cardinality and then by address of part 0 | directory of part 0
//! | heads of prints | sequence numbers | times | ids | ids by hash | a table for each other part
//! ```
//!
//! A search touches 24 bytes of print and about 30 of tables an entry; the rest is for answers.

use super::{segment_description::SegmentDescription, throttle::yield_now};
use crate::{
    base::{
        codec::Fields,
        error::{Error, Place, Result},
        files::Sealed,
        num::{ToU64, ToUsize},
    },
    history::search::{
        high_half,
        part_keys::{PartKey, PartKeys, PrintParts},
        plan::LookupSteps,
        print_halves::{HEAD_BYTES, PrintHead, join_print},
        searchable::{EntrySource, SearchableEntries},
    },
    text::stream::Print,
};
use std::{
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
    sync::OnceLock,
};
use xxhash_rust::xxh3::xxh3_64;

/// The ids that share an offset.
pub const ID_BLOCK: u32 = 4;
/// The bytes of ids that are read at first.
const FEW_BYTES: usize = 256;

/// An open segment file.
pub struct Segment {
    pub file: Sealed,
    /// The same file, for reading without mapping.
    pub(super) plain: File,
    pub description: SegmentDescription,
    pub(super) keys: PartKeys,
    pub steps: LookupSteps,
    /// Loaded on demand: see [`SearchableEntries::sample`].
    pub(super) sample: OnceLock<Vec<PrintParts>>,
    /// Segments of one level are merged into one of the next.
    pub level: u32,
}

impl Segment {
    /// Opens a file, in constant time.
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

    /// Checks every block and loads the sample, so that no request waits for that; leaves only the
    /// pages in memory that a search touches.
    pub fn warm_up(&self) -> Result<()> {
        self.file.verify_and(yield_now)?;
        self.sample()?;
        let SegmentDescription { heads, tables, .. } = &self.description;
        self.file
            .release_bytes(*heads..tables.first().map_or(*heads, |table| table.directory));
        Ok(())
    }

    /// The greatest sequence number of its entries.
    pub fn last_sequence(&self) -> u64 {
        self.description.sequences[1]
    }

    /// The time of its newest entry.
    pub fn last_time(&self) -> u32 {
        self.description.times[1]
    }

    /// Whether a sequence number is in its range.
    pub fn may_contain(&self, sequence: u64) -> bool {
        let [first, last] = self.description.sequences;
        (first..=last).contains(&sequence)
    }

    /// The path of its file.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(&**self.file.name())
    }

    #[inline(always)]
    pub(super) fn u32s<const N: usize>(&self, start: u64) -> Result<[u32; N]> {
        let (words, _) = self.file.bytes(start, 4 * N.to_u64())?.as_chunks::<4>();
        // There are as many words as asked for.
        Ok(std::array::from_fn(|at| {
            words.get(at).map_or(0, |&word| u32::from_le_bytes(word))
        }))
    }

    /// All entries with this id.
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

    /// A row of the id index: an entry, and the hash of its id, by which rows are sorted.
    pub fn id_row(&self, at: u32) -> Result<[u32; 2]> {
        self.u32s(self.description.id_index + 8 * u64::from(at))
    }

    /// The key of a print.
    pub fn key(&self, print: &Print, part: usize) -> PartKey {
        self.keys.key(print, part)
    }

    /// The entries of an address of part 0, by its place in the directory.
    pub fn entries_at(&self, place: u32) -> Result<Range<u32>> {
        self.ordered(place)
    }

    /// All entries with this id and this print. The id is looked up only if the print exists.
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

    pub(super) fn damaged(&self, what: &str) -> Error {
        self.file.damaged(self.description.ids[0], what)
    }
}

/// The hash by which ids are looked up.
pub fn id_hash(id: &str) -> u32 {
    high_half(xxh3_64(id.as_bytes()))
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
        Ok(join_print(self.mapped_head(entry)?, body))
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
        // A block of ids is short unless an id is long.
        let few = find_id(
            self.file.bytes(start, length.min(FEW_BYTES.to_u64()))?,
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

/// The id after `after` others.
fn find_id(bytes: &[u8], after: u32) -> Result<&[u8], String> {
    let mut fields = Fields::new(bytes);
    for _ in 0..after {
        let length = fields.varint("length of an id")?;
        fields.take(length, "id")?;
    }
    let length = fields.varint("length of an id")?;
    fields.take(length, "id")
}

/// Fields that only answers need are read, not mapped: mapped pages would take memory, and time to
/// release.
impl Segment {
    /// The sequence number of an entry, and its time if needed.
    pub fn read_arrival(&self, entry: u32, with_time: bool) -> Result<(u64, u32)> {
        let number = self.read_u32(self.description.numbers + 4 * u64::from(entry))?;
        let time = if with_time {
            self.read_u32(self.description.stamps + 4 * u64::from(entry))?
        } else {
            0
        };
        Ok((self.description.sequences[0] + u64::from(number), time))
    }

    /// As [`EntrySource::id`].
    pub fn read_id(&self, entry: u32) -> Result<String> {
        let mut block = [0; 8];
        self.file.read_from(
            &self.plain,
            self.description.id_blocks + 8 * u64::from(entry / ID_BLOCK),
            &mut block,
        )?;
        let start = self.description.ids[0].saturating_add(u64::from_le_bytes(block));
        let length = self.ids_from(start)?;
        let mut few = [0; FEW_BYTES];
        let few = &mut few[..length.min(FEW_BYTES.to_u64()).to_usize()];
        self.file.read_from(&self.plain, start, few)?;
        match find_id(few, entry % ID_BLOCK) {
            Ok(id) => self.text(id).map(str::to_owned),
            // A long id is mapped.
            Err(_) => self.id(entry).map(str::to_owned),
        }
    }

    pub(super) fn mapped_head(&self, entry: u32) -> Result<PrintHead> {
        let [head] = self.heads(entry..entry + 1)? else {
            return Err(self.damaged("no print"));
        };
        Ok(*head)
    }

    /// As [`Self::mapped_head`], read from the file.
    pub(super) fn read_head(&self, entry: u32) -> Result<PrintHead> {
        let mut bytes = [0; HEAD_BYTES];
        self.file.read_from(
            &self.plain,
            self.description.heads + HEAD_BYTES.to_u64() * u64::from(entry),
            &mut bytes,
        )?;
        Ok(bytes)
    }

    fn read_u32(&self, start: u64) -> Result<u32> {
        let mut bytes = [0; 4];
        self.file.read_from(&self.plain, start, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// The number of bytes of ids from an offset on.
    fn ids_from(&self, start: u64) -> Result<u64> {
        self.description.ids[1]
            .checked_sub(start)
            .ok_or_else(|| self.damaged("an id lies outside of the ids"))
    }
}
