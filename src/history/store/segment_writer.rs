//! Writes a segment from a memtable, or from other segments.
//!
//! Memory: four bytes an entry for their order, then sixteen for the hashes of their ids, then
//! twelve for a table, one after the other.

use super::{
    segment::{ID_BLOCK, Segment, id_hash},
    segment_description::{CardinalityGroup, GROUPS, SegmentDescription, group_of},
    throttle::{YIELD_INTERVAL, throttled, yield_now},
};
use crate::{
    base::{
        codec::put_varint,
        error::{Error, Result},
        files::{Mapping, SealedWriter},
        num::{ToU32, ToU64, ToUsize},
    },
    history::search::{
        high_half, low_half,
        part_keys::{BitCounts, PART_BITS, PARTS, PartKeys, address_bits},
        part_table::{BuiltTable, MAX_ADDRESS_BITS, TableSections},
        print_halves::{BODY_BYTES, HEAD_BYTES, as_bodies, join_print, split_print},
        searchable::EntrySource,
    },
    text::stream::Print,
};
use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

/// Which entries to keep, by sequence number and time.
pub type Keep<'k> = dyn Fn(u64, u32) -> bool + Sync + 'k;

/// The prints that are counted to choose the bits of addresses.
const SAMPLE: u32 = 1 << 10;
/// The least average number of entries of an address in a table.
const BUCKET_ENTRIES: u32 = 30;
/// The same for part 0: fewer, as all their prints are scanned.
const ORDERED_ENTRIES: u32 = 12;
/// The unit of writing: complete blocks can be mapped while the rest is written.
const BLOCK_BYTES: u64 = 1 << 14;

/// Writes a segment to a file, without syncing it; `None`, and no file, if no entry is kept.
pub fn write_segment(
    sources: &[&dyn EntrySource],
    keep: &Keep<'_>,
    level: u32,
    path: &Path,
    stop: &AtomicBool,
) -> Result<Option<Segment>> {
    let Some(builder) = SegmentBuilder::new(sources, keep, stop)? else {
        return Ok(None);
    };
    let failed = |error| Error::io(path.display(), error);
    let mut out = SegmentOutput {
        out: SealedWriter::create(path).map_err(failed)?,
        path: path.to_owned(),
    };
    let description = builder.write(&mut out)?;
    out.out.finish(&description).map_err(failed)?;
    Segment::open(path, level).map(Some)
}

/// The file of a segment that is being written.
struct SegmentOutput {
    out: SealedWriter<BufWriter<File>>,
    path: PathBuf,
}

impl SegmentOutput {
    fn position(&self) -> u64 {
        self.out.position()
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.out
            .write_all(bytes)
            .map_err(|error| Error::io(self.path.display(), error))
    }

    fn put_u32s(&mut self, numbers: &[u32]) -> Result<()> {
        let mut bytes = Vec::with_capacity(1 << 16);
        for chunk in numbers.chunks(1 << 14) {
            yield_now();
            bytes.clear();
            chunk
                .iter()
                .for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
            self.put(&bytes)?;
        }
        Ok(())
    }

    /// Maps what was written so far.
    fn map(&mut self) -> Result<Mapping> {
        let failed = |error| Error::io(self.path.display(), error);
        let padding = self.out.position().next_multiple_of(BLOCK_BYTES) - self.out.position();
        self.out
            .write_all(&vec![0; padding.to_usize()])
            .and_then(|()| self.out.flush())
            .map_err(failed)?;
        let file = File::open(&self.path).map_err(failed)?;
        // Written bytes never change.
        Mapping::of(&file, &self.path).map_err(failed)
    }
}

/// The entries of a new segment in their order.
struct SegmentBuilder<'s> {
    sources: &'s [&'s dyn EntrySource],
    /// The number of the first entry of each source, if all entries are numbered through; and the
    /// end.
    bases: Vec<u32>,
    description: SegmentDescription,
    keys: PartKeys,
    /// The entries, numbered through, in the order of the segment.
    order: Vec<u32>,
    /// Where the entries of each address of part 0 begin, and the end.
    directory: Vec<u32>,
    /// Set to give up.
    stop: &'s AtomicBool,
}

/// The first pass over all entries: which to keep, and the statistics of those.
struct EntryCensus {
    /// The entries that are not kept, numbered through.
    dropped: BitSet,
    kept: u32,
    bit_counts: BitCounts,
    /// The number of entries of each group of cardinality.
    groups: [u32; GROUPS],
    times: [u32; 2],
    sequences: [u64; 2],
}

impl EntryCensus {
    fn new(sources: &[&dyn EntrySource], bases: &[u32], keep: &Keep<'_>) -> Result<Self> {
        let all = bases.last().copied().unwrap_or_default();
        let step = (all / SAMPLE).max(1);
        let mut census = Self {
            dropped: BitSet::new(all),
            kept: 0,
            bit_counts: BitCounts::new(),
            groups: [0; GROUPS],
            times: [u32::MAX, 0],
            sequences: [u64::MAX, 0],
        };
        for (source, &base) in sources.iter().zip(bases) {
            for entry in throttled(0..source.count()) {
                let sequence = source.sequence(entry)?;
                let time = source.time(entry)?;
                if !keep(sequence, time) {
                    census.dropped.insert(base + entry);
                    continue;
                }
                let print = source.print(entry)?;
                census.count(&print, sequence, time);
                if (base + entry) % step == 0 {
                    census.bit_counts.count(&print);
                }
            }
        }
        Ok(census)
    }

    fn count(&mut self, print: &Print, sequence: u64, time: u32) {
        self.kept += 1;
        self.groups[group_of(print.cardinality())] += 1;
        let [first, last] = self.times;
        self.times = [first.min(time), last.max(time)];
        let [first, last] = self.sequences;
        self.sequences = [first.min(sequence), last.max(sequence)];
    }

    /// The description of the segment, without the places of its sections.
    fn description(&self) -> SegmentDescription {
        let mut description = SegmentDescription::new(self.kept);
        description.sequences = self.sequences;
        description.times = self.times;
        description.address_bits = address_bits(self.kept, BUCKET_ENTRIES).min(MAX_ADDRESS_BITS);
        description.ordered_bits = address_bits(self.kept, ORDERED_ENTRIES);
        description.masks =
            (self.bit_counts).masks(|part| description.bits_of(part), PART_BITS.to_u32());
        description.groups = lay_out(&self.groups, description.ordered_bits);
        description
    }
}

/// The number of the first entry of each source if all are numbered through, and the end.
fn number_through(sources: &[&dyn EntrySource]) -> Result<Vec<u32>> {
    let mut bases = vec![0_u32];
    let mut end = 0_u32;
    for source in sources {
        end = end
            .checked_add(source.count())
            .ok_or_else(|| Error::Usage("a history of more than four billion prints".to_owned()))?;
        bases.push(end);
    }
    Ok(bases)
}

impl<'s> SegmentBuilder<'s> {
    /// `None` if no entry is kept.
    fn new(
        sources: &'s [&'s dyn EntrySource],
        keep: &Keep<'_>,
        stop: &'s AtomicBool,
    ) -> Result<Option<Self>> {
        let bases = number_through(sources)?;
        let census = EntryCensus::new(sources, &bases, keep)?;
        if census.kept == 0 {
            return Ok(None);
        }
        let description = census.description();
        let mut builder = Self {
            sources,
            bases,
            keys: PartKeys::new(&description.masks),
            description,
            order: Vec::new(),
            directory: Vec::new(),
            stop,
        };
        builder.sort(&census.dropped)?;
        Ok(Some(builder))
    }

    /// Sorts entries by group of cardinality and address; stable, so that equal prints stay in
    /// order of arrival.
    fn sort(&mut self, dropped: &BitSet) -> Result<()> {
        let place = |print: &Print| {
            let group = &self.description.groups[group_of(print.cardinality())];
            group.directory + (self.keys.key(print, 0).address & ((1 << group.address_bits) - 1))
        };
        let each = |call: &mut dyn FnMut(u32, u32)| {
            for (source, &base) in self.sources.iter().zip(&self.bases) {
                for entry in
                    throttled(0..source.count()).filter(|entry| !dropped.contains(base + entry))
                {
                    call(place(&source.print(entry)?), base + entry);
                }
            }
            Ok::<_, Error>(())
        };
        let addresses = self.description.groups[GROUPS].directory.to_usize();
        let mut starts = vec![0_u32; addresses + 1];
        each(&mut |place, _| starts[place.to_usize() + 1] += 1)?;
        throttled(0..addresses).for_each(|at| starts[at + 1] += starts[at]);
        let mut next = starts.clone();
        let mut order = vec![0; self.description.entries.to_usize()];
        each(&mut |place, entry| {
            order[next[place.to_usize()].to_usize()] = entry;
            next[place.to_usize()] += 1;
        })?;
        self.order = order;
        self.directory = starts;
        Ok(())
    }

    fn ensure_not_stopped(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Usage("the job was stopped".to_owned()));
        }
        Ok(())
    }

    /// The source of an entry, and its number there.
    fn find(&self, entry: u32) -> (&dyn EntrySource, u32) {
        let source = self.bases.partition_point(|&base| base <= entry) - 1;
        (self.sources[source], entry - self.bases[source])
    }

    fn write(mut self, out: &mut SegmentOutput) -> Result<SegmentDescription> {
        self.description.bodies = out.position();
        self.put_each(out, |source, entry, bytes| {
            bytes.extend_from_slice(&split_print(&source.print(entry)?).1);
            Ok(())
        })?;
        self.description.directory = out.position();
        out.put_u32s(&self.directory)?;
        self.directory = Vec::new();
        self.description.heads = out.position();
        self.put_each(out, |source, entry, bytes| {
            bytes.extend_from_slice(&split_print(&source.print(entry)?).0);
            Ok(())
        })?;
        self.description.numbers = out.position();
        let first = self.description.sequences[0];
        self.put_each(out, |source, entry, bytes| {
            bytes.extend_from_slice(&(source.sequence(entry)? - first).to_u32().to_le_bytes());
            Ok(())
        })?;
        self.description.stamps = out.position();
        self.put_each(out, |source, entry, bytes| {
            bytes.extend_from_slice(&source.time(entry)?.to_le_bytes());
            Ok(())
        })?;
        self.write_ids(out)?;
        self.order = Vec::new();
        for part in 1..PARTS {
            self.ensure_not_stopped()?;
            let made = self.make_table(part, &out.map()?);
            let directory = out.position();
            out.put_u32s(&made.directory)?;
            self.description.tables.push(TableSections {
                directory,
                buckets: out.position(),
            });
            for chunk in made.buckets.chunks(BLOCK_BYTES.to_usize()) {
                yield_now();
                out.put(chunk)?;
            }
        }
        Ok(self.description)
    }

    /// Builds a table from the prints that were written.
    fn make_table(&self, part: usize, written: &[u8]) -> BuiltTable {
        let entries = self.description.entries.to_usize();
        let section = |start: u64, bytes: usize| {
            &written[start.to_usize()..start.to_usize() + bytes * entries]
        };
        let (heads, _) = section(self.description.heads, HEAD_BYTES).as_chunks();
        let bodies = as_bodies(section(self.description.bodies, BODY_BYTES));
        let key = |entry: u32| {
            self.keys.key(
                &join_print(heads[entry.to_usize()], &bodies[entry.to_usize()]),
                part,
            )
        };
        BuiltTable::new(self.description.entries, self.description.address_bits, key)
    }

    fn put_each(
        &self,
        out: &mut SegmentOutput,
        mut put: impl FnMut(&dyn EntrySource, u32, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let mut bytes = Vec::with_capacity(1 << 16);
        for chunk in self.order.chunks(YIELD_INTERVAL) {
            self.ensure_not_stopped()?;
            yield_now();
            bytes.clear();
            for &entry in chunk {
                let (source, entry) = self.find(entry);
                put(source, entry, &mut bytes)?;
            }
            out.put(&bytes)?;
        }
        Ok(())
    }

    fn write_ids(&mut self, out: &mut SegmentOutput) -> Result<()> {
        let (mut blocks, mut at, mut index) =
            (Vec::new(), 0_u64, Vec::with_capacity(self.order.len()));
        self.description.ids[0] = out.position();
        let mut entry_now = 0_u32;
        self.put_each(out, |source, entry, bytes| {
            let (id, before) = (source.id(entry)?, bytes.len());
            if entry_now.is_multiple_of(ID_BLOCK) {
                blocks.extend([low_half(at), high_half(at)]);
            }
            index.push(u64::from(id_hash(id)) << 32 | u64::from(entry_now));
            put_varint(bytes, id.len().to_u64());
            bytes.extend_from_slice(id.as_bytes());
            at += (bytes.len() - before).to_u64();
            entry_now += 1;
            Ok(())
        })?;
        self.description.ids[1] = out.position();
        self.description.id_blocks = out.position();
        out.put_u32s(&blocks)?;
        sort_by_hash(&mut index);
        self.description.id_index = out.position();
        for chunk in index.chunks(YIELD_INTERVAL) {
            yield_now();
            let words: Vec<u32> = chunk
                .iter()
                .flat_map(|&row| [low_half(row), high_half(row)])
                .collect();
            out.put_u32s(&words)?;
        }
        Ok(())
    }
}

/// Sorts rows by their upper half, stable. A radix sort, as that can be throttled.
fn sort_by_hash(rows: &mut Vec<u64>) {
    let mut sorted = vec![0; rows.len()];
    for shift in [32, 40, 48, 56] {
        let byte = |row: u64| (row >> shift).to_usize() & 0xff;
        let mut next = [0_usize; 257];
        throttled(rows.iter()).for_each(|&row| next[byte(row) + 1] += 1);
        (0..256).for_each(|at| next[at + 1] += next[at]);
        for &row in throttled(rows.iter()) {
            sorted[next[byte(row)]] = row;
            next[byte(row)] += 1;
        }
        std::mem::swap(rows, &mut sorted);
    }
}

/// Where each group of cardinality and its addresses begin.
fn lay_out(counts: &[u32], most_bits: u32) -> Vec<CardinalityGroup> {
    let (mut groups, mut next) = (Vec::new(), CardinalityGroup::default());
    for &count in counts {
        next.address_bits = address_bits(count, ORDERED_ENTRIES).min(most_bits);
        groups.push(next);
        next.start += count;
        next.directory += 1 << next.address_bits;
    }
    groups.push(CardinalityGroup {
        address_bits: 0,
        ..next
    });
    groups
}

/// A set of numbers, one bit each.
struct BitSet(Vec<u64>);

impl BitSet {
    fn new(count: u32) -> Self {
        Self(vec![0; (count.to_usize()).div_ceil(64)])
    }

    fn insert(&mut self, at: u32) {
        self.0[at.to_usize() / 64] |= 1 << (at % 64);
    }

    fn contains(&self, at: u32) -> bool {
        self.0[at.to_usize() / 64] >> (at % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_are_in_the_order_of_their_hashes(hashes in prop::collection::vec(any::<u32>().prop_map(|hash| hash & 0xff00_0103), 0..3000)) {
            let mut rows: Vec<u64> = (0..).zip(&hashes).map(|(entry, &hash)| u64::from(hash) << 32 | entry).collect();
            let mut expected = rows.clone();
            expected.sort_unstable();
            sort_by_hash(&mut rows);
            prop_assert_eq!(rows, expected);
        }
    }
}
