//! Makes a segment of entries, or of other segments.
//!
//! Memory: four bytes an entry for their order, or sixteen for the hashes of their ids, or twelve for a table, one after the other.

use super::{
    segment::{
        CardinalityGroup, EntrySource, GROUPS, ID_BLOCK, Segment, SegmentDescription, group_of,
        id_hash,
    },
    throttle::{STEP, give_way, politely},
};
use crate::history::search::{
    part_keys::{BitCounts, PART_BITS, PARTS, PartKeys, address_bits},
    part_table::{BuiltTable, MOST_ADDRESS_BITS, TableSections},
    print_halves::{BODY_BYTES, HEAD_BYTES, bodies, join, split},
};
use crate::{
    base::{
        codec::put_varint,
        error::{Error, Result},
        files::{Mapping, SealedWriter},
    },
    text::stream::Print,
};
use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

/// Which entries are kept: by sequence number and time.
pub type Keep<'k> = dyn Fn(u64, u32) -> bool + Sync + 'k;

/// Prints that are looked at to choose the bits of addresses.
const SAMPLE: u32 = 1 << 10;
/// Entries of an address in a table, at least, if there are so many.
const BUCKET_ENTRIES: u32 = 30;
/// Prints of an address of part 0: fewer, as each of them is looked at.
const ORDERED_ENTRIES: u32 = 12;
/// Bytes that are written together: what is whole can be mapped while the rest is written.
const BLOCK_BYTES: u64 = 1 << 14;

/// Makes a segment in a file, which is not yet sure to be on disk; none, and no file, if no entry is kept.
pub fn write_segment(
    sources: &[&dyn EntrySource],
    keep: &Keep<'_>,
    level: u32,
    path: &Path,
    stop: &AtomicBool,
) -> Result<Option<Segment>> {
    let Some(order) = SegmentBuilder::new(sources, keep, stop)? else {
        return Ok(None);
    };
    let failed = |error| Error::io(path.display(), error);
    let mut out = SegmentOutput {
        out: SealedWriter::create(path).map_err(failed)?,
        path: path.to_owned(),
    };
    let description = order.write(&mut out)?;
    out.out.finish(&description).map_err(failed)?;
    Segment::open(path, level).map(Some)
}

/// Where a segment is written to.
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
            give_way();
            bytes.clear();
            chunk
                .iter()
                .for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
            self.put(&bytes)?;
        }
        Ok(())
    }

    /// What was written so far.
    fn map(&mut self) -> Result<Mapping> {
        let failed = |error| Error::io(self.path.display(), error);
        let padding = self.out.position().next_multiple_of(BLOCK_BYTES) - self.out.position();
        self.out
            .write_all(&vec![0; padding as usize])
            .and_then(|()| self.out.flush())
            .map_err(failed)?;
        let file = File::open(&self.path).map_err(failed)?;
        // What is written is never written again.
        Mapping::of(&file, &self.path).map_err(failed)
    }
}

/// Which entries of which sources come in which order.
struct SegmentBuilder<'s> {
    sources: &'s [&'s dyn EntrySource],
    /// Where each source begins, if all entries are counted through.
    bases: Vec<u32>,
    description: SegmentDescription,
    keys: PartKeys,
    /// Entries, counted through, as they will stand.
    order: Vec<u32>,
    /// Where the addresses of part 0 begin, and the end.
    directory: Vec<u32>,
    /// Set when nobody wants it any more.
    stop: &'s AtomicBool,
}

impl<'s> SegmentBuilder<'s> {
    fn new(
        sources: &'s [&'s dyn EntrySource],
        keep: &Keep<'_>,
        stop: &'s AtomicBool,
    ) -> Result<Option<Self>> {
        let mut bases = vec![0_u32];
        for source in sources {
            let next = bases[bases.len() - 1].checked_add(source.count());
            bases.push(next.ok_or_else(|| {
                Error::Usage("a history of more than four billion prints".to_owned())
            })?);
        }
        let all = bases[bases.len() - 1];
        let (mut dead, mut ones, mut groups, mut kept) = (
            BitSet::new(all),
            BitCounts::new(),
            [0_u32; GROUPS as usize],
            0,
        );
        let (mut times, mut sequences, step) =
            ([u32::MAX, 0], [u64::MAX, 0], (all / SAMPLE).max(1));
        for (source, &base) in sources.iter().zip(&bases) {
            for entry in politely(0..source.count()) {
                let (sequence, time) = (source.sequence(entry)?, source.time(entry)?);
                if !keep(sequence, time) {
                    dead.set(base + entry);
                    continue;
                }
                let print = source.print(entry)?;
                groups[group_of(print.cardinality())] += 1;
                kept += 1;
                times = [times[0].min(time), times[1].max(time)];
                sequences = [sequences[0].min(sequence), sequences[1].max(sequence)];
                if (base + entry) % step == 0 {
                    ones.count(&print);
                }
            }
        }
        if kept == 0 {
            return Ok(None);
        }
        let mut description = SegmentDescription::new(kept);
        description.sequences = sequences;
        description.times = times;
        description.address_bits = address_bits(kept, BUCKET_ENTRIES).min(MOST_ADDRESS_BITS);
        description.ordered_bits = address_bits(kept, ORDERED_ENTRIES);
        description.masks = ones.masks(|part| description.bits_of(part), PART_BITS as u32);
        description.groups = lay_out(&groups, description.ordered_bits);
        let keys = PartKeys::new(&description.masks);
        let mut order = Self {
            sources,
            bases,
            description,
            keys,
            order: Vec::new(),
            directory: Vec::new(),
            stop,
        };
        order.sort(&dead)?;
        Ok(Some(order))
    }

    /// Orders entries by bucket of cardinality and address; those of one address as they come, so that equal prints stay in order of arrival.
    fn sort(&mut self, dead: &BitSet) -> Result<()> {
        let place = |print: &Print| {
            let group = &self.description.groups[group_of(print.cardinality())];
            group.directory + (self.keys.key(print, 0).address & ((1 << group.address_bits) - 1))
        };
        let each = |call: &mut dyn FnMut(u32, u32)| {
            for (source, &base) in self.sources.iter().zip(&self.bases) {
                for entry in politely(0..source.count()).filter(|entry| !dead.has(base + entry)) {
                    call(place(&source.print(entry)?), base + entry);
                }
            }
            Ok::<_, Error>(())
        };
        let addresses = self.description.groups[GROUPS as usize].directory as usize;
        let mut starts = vec![0_u32; addresses + 1];
        each(&mut |place, _| starts[place as usize + 1] += 1)?;
        politely(0..addresses).for_each(|at| starts[at + 1] += starts[at]);
        let (mut next, mut order) = (starts.clone(), vec![0; self.description.entries as usize]);
        each(&mut |place, entry| {
            order[next[place as usize] as usize] = entry;
            next[place as usize] += 1;
        })?;
        (self.order, self.directory) = (order, starts);
        Ok(())
    }

    fn ensure_wanted(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Usage("given up".to_owned()));
        }
        Ok(())
    }

    /// The source of an entry, and which of its entries it is.
    fn find(&self, entry: u32) -> (&dyn EntrySource, u32) {
        let source = self.bases.partition_point(|&base| base <= entry) - 1;
        (self.sources[source], entry - self.bases[source])
    }

    fn write(mut self, out: &mut SegmentOutput) -> Result<SegmentDescription> {
        self.description.bodies = out.position();
        self.put_each(out, |source, entry, bytes| {
            bytes.extend_from_slice(&split(&source.print(entry)?).1);
            Ok(())
        })?;
        self.description.directory = out.position();
        out.put_u32s(&self.directory)?;
        self.directory = Vec::new();
        self.description.heads = out.position();
        self.put_each(out, |source, entry, bytes| {
            bytes.extend_from_slice(&split(&source.print(entry)?).0);
            Ok(())
        })?;
        self.description.numbers = out.position();
        let first = self.description.sequences[0];
        self.put_each(out, |source, entry, bytes| {
            bytes.extend_from_slice(&((source.sequence(entry)? - first) as u32).to_le_bytes());
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
            self.ensure_wanted()?;
            let made = self.make_table(part, &out.map()?);
            let directory = out.position();
            out.put_u32s(&made.directory)?;
            self.description.tables.push(TableSections {
                directory,
                buckets: out.position(),
            });
            for chunk in made.buckets.chunks(BLOCK_BYTES as usize) {
                give_way();
                out.put(chunk)?;
            }
        }
        Ok(self.description)
    }

    /// Of prints that were written.
    fn make_table(&self, part: usize, written: &[u8]) -> BuiltTable {
        let entries = self.description.entries as usize;
        let section =
            |start: u64, bytes: usize| &written[start as usize..start as usize + bytes * entries];
        let (heads, _) = section(self.description.heads, HEAD_BYTES).as_chunks();
        let bodies = bodies(section(self.description.bodies, BODY_BYTES));
        let key = |entry: u32| {
            self.keys
                .key(&join(heads[entry as usize], &bodies[entry as usize]), part)
        };
        BuiltTable::new(self.description.entries, self.description.address_bits, key)
    }

    fn put_each(
        &self,
        out: &mut SegmentOutput,
        mut put: impl FnMut(&dyn EntrySource, u32, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let mut bytes = Vec::with_capacity(1 << 16);
        for chunk in self.order.chunks(STEP) {
            self.ensure_wanted()?;
            give_way();
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
                blocks.extend([at as u32, (at >> 32) as u32]);
            }
            index.push(u64::from(id_hash(id)) << 32 | u64::from(entry_now));
            put_varint(bytes, id.len() as u64);
            bytes.extend_from_slice(id.as_bytes());
            at += (bytes.len() - before) as u64;
            entry_now += 1;
            Ok(())
        })?;
        self.description.ids[1] = out.position();
        self.description.id_blocks = out.position();
        out.put_u32s(&blocks)?;
        sort_by_hash(&mut index);
        self.description.id_index = out.position();
        for chunk in index.chunks(STEP) {
            give_way();
            let words: Vec<u32> = chunk
                .iter()
                .flat_map(|&row| [row as u32, (row >> 32) as u32])
                .collect();
            out.put_u32s(&words)?;
        }
        Ok(())
    }
}

/// Orders rows by their upper half; those of one hash stay in their order. A byte after the other, as that can be done step by step.
fn sort_by_hash(rows: &mut Vec<u64>) {
    let mut sorted = vec![0; rows.len()];
    for shift in [32, 40, 48, 56] {
        let byte = |row: u64| (row >> shift) as usize & 0xff;
        let mut next = [0_usize; 257];
        politely(rows.iter()).for_each(|&row| next[byte(row) + 1] += 1);
        (0..256).for_each(|at| next[at + 1] += next[at]);
        for &row in politely(rows.iter()) {
            sorted[next[byte(row)]] = row;
            next[byte(row)] += 1;
        }
        std::mem::swap(rows, &mut sorted);
    }
}

/// Where each bucket of cardinality and its addresses begin.
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

/// A bit for each of many.
struct BitSet(Vec<u64>);

impl BitSet {
    fn new(count: u32) -> Self {
        Self(vec![0; (count as usize).div_ceil(64)])
    }

    fn set(&mut self, at: u32) {
        self.0[at as usize / 64] |= 1 << (at % 64);
    }

    fn has(&self, at: u32) -> bool {
        self.0[at as usize / 64] >> (at % 64) & 1 == 1
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
