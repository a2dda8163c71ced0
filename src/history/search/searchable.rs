//! What a search needs: the query, the filter of live entries, and the entries as a trait.

use super::{
    part_keys::{PartKey, PartKeys, PrintParts},
    part_table::{BucketSlots, SlotCursor},
    plan::LookupSteps,
    print_halves::{PrintBody, PrintHead},
    similarity::{BestMatches, Hit, HitLocation, Ratio},
};
use crate::{base::error::Result, text::stream::Print};
use std::{collections::HashSet, ops::Range};

/// Entries that are neither forgotten nor removed.
#[derive(Debug, Clone, Copy)]
pub struct LiveFilter<'l> {
    /// Entries with lower sequence numbers are forgotten.
    pub first_sequence: u64,
    /// The sequence number of the queried document if it is stored: neither it nor later entries
    /// count.
    pub end_sequence: u64,
    /// Older entries are forgotten.
    pub first_time: u32,
    /// The sequence numbers of removed entries.
    pub removed: &'l HashSet<u64>,
}

impl LiveFilter<'_> {
    /// Whether an entry counts.
    pub fn contains(&self, sequence: u64, time: u32) -> bool {
        (self.first_sequence..self.end_sequence).contains(&sequence)
            && time >= self.first_time
            && (self.removed.is_empty() || !self.removed.contains(&sequence))
    }

    /// Whether any entry may count of a file with this last sequence number and time.
    pub fn may_contain(&self, last_sequence: u64, last_time: u32) -> bool {
        last_sequence >= self.first_sequence && last_time >= self.first_time
    }
}

/// A print to search for, and its best hits so far.
#[derive(Debug, Clone)]
pub struct SearchQuery<'l> {
    /// The print.
    pub print: Print,
    /// The number of its one bits.
    pub cardinality: u32,
    /// The entries that count.
    pub live: LiveFilter<'l>,
    /// The best hits so far.
    pub best: BestMatches,
}

impl<'l> SearchQuery<'l> {
    /// A query without hits.
    pub fn new(print: Print, live: LiveFilter<'l>, best: BestMatches) -> Self {
        Self {
            print,
            cardinality: print.cardinality(),
            live,
            best,
        }
    }

    /// The greatest number of differing bits of a hit that can still be among the best.
    pub fn max_distance(&self) -> u32 {
        self.best.threshold().max_distance(self.cardinality)
    }

    /// Adds a hit if it is live and among the best.
    pub fn offer(&mut self, hit: Hit, time: u32) {
        if hit.similarity.is_at_least(self.best.threshold())
            && self.live.contains(hit.sequence, time)
        {
            self.best.offer(hit);
        }
    }
}

/// Stored entries, numbered from 0.
pub trait EntrySource: Sync {
    /// The number of entries.
    fn count(&self) -> u32;
    /// The print of an entry.
    fn print(&self, entry: u32) -> Result<Print>;
    /// The sequence number of an entry.
    fn sequence(&self, entry: u32) -> Result<u64>;
    /// The time of arrival of an entry, in seconds since 1970.
    fn time(&self, entry: u32) -> Result<u32>;
    /// The id of an entry.
    fn id(&self, entry: u32) -> Result<&str>;
}

/// The slots of one address of a part, and the next one to read.
#[derive(Debug, Clone, Copy, Default)]
pub struct BucketCursor {
    /// The part of the print.
    pub part: usize,
    /// The slots of the address.
    pub slots: BucketSlots,
    /// The next slot, or the next block of a chain.
    pub next: u32,
}

/// Entries that can be looked up by the addresses of their parts.
///
/// Entries are divided into groups by cardinality. Parts have tables from address to slots; a slot
/// has the number of its entry and further bits of the part, the *rest*, which rule out most entries
/// without reading their prints. Where prints are sorted by part 0, that part needs no table.
pub trait SearchableEntries: EntrySource {
    /// The number of parts with tables: all, or all but part 0 if the prints of each group are
    /// sorted by it.
    const TABLES: usize;
    /// The location of an entry of the source with this number.
    fn location(number: usize, entry: u32) -> HitLocation;
    /// The sequence number of an entry, and its time if that is needed.
    fn arrival(&self, entry: u32, with_time: bool) -> Result<(u64, u32)>;
    /// The keys of the tables; `None` if there are too few entries for tables.
    fn keys(&self) -> Option<&PartKeys>;
    /// The number of bits of the addresses of tables.
    fn address_bits(&self) -> u32;
    /// The order of lookups for a query about which nothing is known.
    fn steps(&self) -> &LookupSteps;
    /// The parts of some prints; empty if there are too few entries for a sample.
    fn sample(&self) -> Result<&[PrintParts]>;
    /// The groups that may contain entries of this similarity.
    fn groups(&self, threshold: Ratio, cardinality: u32) -> Range<usize>;
    /// The entries of some groups.
    fn entries_of(&self, groups: Range<usize>) -> Range<u32>;
    /// The greatest distance of an entry of a group that has this similarity.
    fn max_distance(&self, threshold: Ratio, cardinality: u32, group: usize) -> u32;
    /// The bodies of some prints.
    fn bodies(&self, entries: Range<u32>) -> Result<&[PrintBody]>;
    /// Prefetches the body of a print.
    fn prefetch_body(&self, entry: u32);
    /// The head of a print: read from the file, or from the mapping if many are needed.
    fn head(&self, entry: u32, is_one_of_many: bool) -> Result<PrintHead>;
    /// The heads of some prints.
    fn heads(&self, entries: Range<u32>) -> Result<&[PrintHead]>;
    /// Prefetches what [`Self::prefetch_equals`] reads.
    fn prefetch_place(&self, cardinality: u32, key: &PartKey);
    /// Prefetches what [`Self::equals`] reads.
    fn prefetch_equals(&self, cardinality: u32, key: &PartKey) -> Result<()>;
    /// Calls with the entries that have this print, in order of arrival, until `call` returns true.
    fn equals(
        &self,
        print: &Print,
        key: &PartKey,
        call: &mut dyn FnMut(u32) -> Result<bool>,
    ) -> Result<()>;
    /// The number of bits of the addresses of part 0 in a group, and its start in the directory.
    fn group(&self, group: usize) -> (u32, u32);
    /// The entries of an address of part 0, by its place in the directory.
    fn ordered(&self, place: u32) -> Result<Range<u32>>;
    /// Prefetches what [`Self::bucket`] reads.
    fn prefetch_address(&self, part: usize, address: u32);
    /// The slots of an address, of which it prefetches the first.
    fn bucket(&self, part: usize, address: u32) -> Result<BucketCursor>;
    /// Calls with the next slots of a bucket whose rest differs from `rest` in at most
    /// `max_distance` bits, as far as it can tell quickly. Returns whether slots are left.
    fn near<const AVX2: bool>(
        &self,
        bucket: &mut BucketCursor,
        rest: u32,
        max_distance: u32,
        call: impl FnMut(u32),
    ) -> Result<bool>;
    /// Prefetches what [`Self::entry`] reads.
    fn prefetch_slot(&self, bucket: &BucketCursor, slot: u32);
    /// The entry of a slot if its whole rest differs from `rest` in at most `max_distance` bits.
    /// The slots of a bucket are read in order, with one cursor.
    fn entry<const AVX2: bool>(
        &self,
        bucket: &BucketCursor,
        slot: u32,
        rest: u32,
        max_distance: u32,
        cursor: &mut SlotCursor,
    ) -> Result<Option<u32>>;
}
