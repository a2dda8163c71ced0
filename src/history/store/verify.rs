//! Verifies a history, and counts what it holds. Both only read, and take no lock.

use super::{
    history::{History, StoreOptions},
    journal::JournalLength,
    manifest::journal_path,
    memtable::Memtable,
    segment::{Segment, id_hash},
    segment_description::{GROUPS, group_of},
};
use crate::{
    base::{
        error::{Error, Place, Result},
        num::{ToU32, ToUsize},
    },
    history::search::{part_keys::PARTS, part_table::SlotCursor, searchable::EntrySource},
    text::stream::Print,
};
use serde::Serialize;
use std::{collections::HashMap, path::Path};

/// The contents of a history in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HistoryStats {
    /// The scheme of the prints.
    pub scheme: String,
    /// The version of the file format.
    pub version: u32,
    /// What tells it, with its copies and parts, from all others.
    pub identity: String,
    /// The cardinalities of the prints that it keeps.
    pub buckets: String,
    /// Documents that a search finds.
    pub entries: u64,
    /// Removed and forgotten entries that are still in a file.
    pub removed: u64,
    /// All entries ever added; some may be forgotten by now.
    pub arrived: u64,
    /// When the first entry arrived, in seconds since 1970.
    pub first_time: Option<u32>,
    /// When the last entry arrived, in seconds since 1970.
    pub last_time: Option<u32>,
    /// The size of all files.
    pub bytes: u64,
    /// The segments, oldest first.
    pub segments: Vec<SegmentStats>,
    /// The journals, oldest first.
    pub journals: Vec<JournalStats>,
    /// The log that it follows, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogStats>,
}

/// The log that a history follows, and how far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogStats {
    /// What tells the log from all others.
    pub identity: String,
    /// The last of its entries that was applied.
    pub position: u64,
}

/// The contents of a segment in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SegmentStats {
    /// The name of the file.
    pub file: String,
    /// 0 if written from a journal; after a merge one more than its sources.
    pub level: u32,
    /// The number of entries, with removed ones.
    pub entries: u32,
    /// The size of the file.
    pub bytes: u64,
}

/// The contents of a journal in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JournalStats {
    /// The name of the file.
    pub file: String,
    /// The number of complete entries.
    pub entries: u32,
    /// The size of the file.
    pub bytes: u64,
    /// The bytes of an incomplete group at its end; the next writer drops them.
    pub unfinished_bytes: u64,
}

/// Verifies everything; the error is the first problem, with file and byte.
pub fn verify(directory: &Path) -> Result<HistoryStats> {
    let mut first = None;
    let counted = verify_all(directory, &mut |problem| {
        first.get_or_insert(problem);
    })?;
    match (first, counted) {
        (Some(problem), _) => Err(problem),
        (None, Some(counted)) => Ok(counted),
        (None, None) => stats(directory),
    }
}

/// Verifies everything, and reports a problem of each damaged file. Memory: four bytes an entry of
/// the largest segment.
///
/// The contents can be counted only if nothing is damaged.
pub fn verify_all(directory: &Path, report: &mut dyn FnMut(Error)) -> Result<Option<HistoryStats>> {
    let history = open(directory)?;
    let mut damages = 0;
    let mut report = |error| {
        damages += 1;
        report(error);
    };
    let manifest = Place::path(&directory.join(super::manifest::NAME));
    if !history.manifest.removed.is_sorted_by(|one, two| one < two) {
        let what = "the entries that were removed are not in order";
        report(Error::damaged(manifest.clone(), what));
    }
    let mut next_sequence = 0;
    for held in &history.segments {
        if let Err(error) = verify_segment(&held.segment) {
            report(error);
        }
        let [first, last] = held.segment.description.sequences;
        if first < next_sequence {
            let what = format!(
                "{}: starts with entry {first}, expected {next_sequence} or later",
                held.segment.path().display()
            );
            report(Error::damaged(manifest.clone(), what));
        }
        next_sequence = last + 1;
    }
    if damages > 0 {
        return Ok(None);
    }
    stats_of(&history).map(Some)
}

/// The contents of a history.
pub fn stats(directory: &Path) -> Result<HistoryStats> {
    stats_of(&open(directory)?)
}

/// Opens a history read-only, which checks manifest, segments and journals against one another.
fn open(directory: &Path) -> Result<History> {
    Ok(History::open(
        directory,
        StoreOptions {
            read_only: true,
            ..StoreOptions::default()
        },
    )?
    .0)
}

fn stats_of(history: &History) -> Result<HistoryStats> {
    let name = |path: &Path| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let segment = |held: &super::history::SegmentState| {
        let Segment { file, level, .. } = &*held.segment;
        SegmentStats {
            file: name(&held.segment.path()),
            level: *level,
            entries: held.segment.count(),
            bytes: file.file_bytes(),
        }
    };
    let segments: Vec<SegmentStats> = history.segments.iter().map(segment).collect();
    let journal = |(read, memtable): (&JournalLength, &Memtable)| {
        let JournalLength {
            number,
            whole_bytes,
            unfinished_bytes,
        } = *read;
        let file = name(&journal_path(&history.directory, number));
        JournalStats {
            file,
            entries: memtable.count(),
            bytes: whole_bytes + unfinished_bytes,
            unfinished_bytes,
        }
    };
    let journals: Vec<JournalStats> = history
        .opened_journals
        .iter()
        .zip(history.memtables())
        .map(journal)
        .collect();
    let entries = history.searchable_entries()?;
    let times = history
        .segments
        .iter()
        .map(|held| held.segment.description.times);
    let in_memory = history
        .memtables()
        .filter_map(|memtable| Some([memtable.time(0).ok()?, memtable.last()?.1]));
    let times: Vec<[u32; 2]> = times.chain(in_memory).collect();
    Ok(HistoryStats {
        scheme: history.scheme.to_string(),
        version: history.manifest.version,
        identity: history.identity().to_owned(),
        buckets: history.cardinalities().to_string(),
        entries,
        removed: history.entries().saturating_sub(entries),
        arrived: history.next_sequence,
        first_time: times.iter().map(|times| times[0]).min(),
        last_time: times.iter().map(|times| times[1]).max(),
        bytes: segments
            .iter()
            .map(|segment| segment.bytes)
            .chain(journals.iter().map(|journal| journal.bytes))
            .sum(),
        segments,
        journals,
        log: history.log_cursor().map(|cursor| LogStats {
            identity: cursor.log.clone(),
            position: cursor.position,
        }),
    })
}

/// Checks all blocks, and that the sections agree about each entry.
fn verify_segment(segment: &Segment) -> Result<()> {
    segment.file.verify()?;
    verify_order(segment)?;
    verify_arrivals(segment)?;
    verify_ids(segment)?;
    (1..PARTS).try_for_each(|part| verify_table(segment, part))
}

/// Checks that prints are sorted by group of cardinality, address of part 0 and, if equal, arrival;
/// and that the directory says where each address begins.
fn verify_order(segment: &Segment) -> Result<()> {
    let description = &segment.description;
    let wrong = |what: String| Err(segment.file.damaged(description.directory, what));
    let mut next = 0;
    for group in 0..GROUPS {
        let (bits, first) = (
            description.groups[group].address_bits,
            description.groups[group].directory,
        );
        for address in 0..1_u32 << bits {
            let entries = segment.entries_at(first + address)?;
            if entries.start != next
                || entries.end < entries.start
                || entries.end > description.entries
            {
                return wrong(format!(
                    "prints {} to {} follow print {next}",
                    entries.start, entries.end
                ));
            }
            next = entries.end;
            let mut latest: HashMap<Print, u64> = HashMap::new();
            for entry in entries {
                let print = segment.print(entry)?;
                let has_address = segment.key(&print, 0).address & ((1 << bits) - 1) == address;
                if group_of(print.cardinality()) != group || !has_address {
                    return wrong(format!("print {entry} is not where it is looked for"));
                }
                let sequence = segment.sequence(entry)?;
                if latest
                    .insert(print, sequence)
                    .is_some_and(|before| before >= sequence)
                {
                    return wrong(format!(
                        "print {entry} came before an equal one that stands before it"
                    ));
                }
            }
        }
        if description.groups[group + 1].start != next {
            return wrong(format!(
                "a bucket of cardinality ends with print {next}, expected {}",
                description.groups[group + 1].start
            ));
        }
    }
    if next == description.entries {
        Ok(())
    } else {
        wrong(format!(
            "{next} prints are found, expected {}",
            description.entries
        ))
    }
}

/// Checks that sequence numbers are distinct, and within the described range; and the times.
fn verify_arrivals(segment: &Segment) -> Result<()> {
    let description = &segment.description;
    let (mut numbers, mut times) = (
        Vec::with_capacity(description.entries.to_usize()),
        [u32::MAX, 0],
    );
    for entry in 0..description.entries {
        numbers.push((segment.sequence(entry)? - description.sequences[0]).to_u32());
        let time = segment.time(entry)?;
        times = [times[0].min(time), times[1].max(time)];
    }
    numbers.sort_unstable();
    let ends = [numbers.first(), numbers.last()]
        .map(|number| number.map(|&number| description.sequences[0] + u64::from(number)));
    if !numbers.is_sorted_by(|one, two| one < two) || ends != description.sequences.map(Some) {
        return Err(segment.file.damaged(
            description.numbers,
            "a sequence number is given twice, or is outside of those of the file",
        ));
    }
    if times != description.times {
        return Err(segment.file.damaged(
            description.stamps,
            format!(
                "times are from {} to {}, expected {:?}",
                times[0], times[1], description.times
            ),
        ));
    }
    Ok(())
}

/// Checks that every entry is found by its id.
fn verify_ids(segment: &Segment) -> Result<()> {
    let description = &segment.description;
    let mut seen = vec![false; description.entries.to_usize()];
    let mut last = 0;
    for at in 0..description.entries {
        let [entry, hash] = segment.id_row(at)?;
        let is_first = seen
            .get_mut(entry.to_usize())
            .is_some_and(|seen| !std::mem::replace(seen, true));
        if !is_first || hash < last || id_hash(segment.id(entry)?) != hash {
            let what = format!("row {at} of the ids is out of order, or not that of entry {entry}");
            return Err(segment
                .file
                .damaged(description.id_index + 8 * u64::from(at), what));
        }
        last = hash;
    }
    Ok(())
}

/// Checks that every entry is in the table of a part once, at the address of its key and with its
/// rest. The entries of an address are sorted: so if there are as many slots as prints, all are
/// there.
fn verify_table(segment: &Segment, part: usize) -> Result<()> {
    let (description, table) = (&segment.description, segment.table(part));
    let wrong = |what: String| {
        Err(segment
            .file
            .damaged(description.tables[part - 1].directory, what))
    };
    let mut next = 0;
    for address in 0..1_u32 << description.address_bits {
        let slots = table.slots(address)?;
        if slots.start != next {
            return wrong(format!(
                "slots of address {address} begin at {}, expected {next}",
                slots.start
            ));
        }
        next = slots.end;
        let (mut before, mut cursor) = (None, SlotCursor::default());
        for slot in slots.start..slots.end {
            let entry = table.entry::<false>(&slots, slot, 0, u32::BITS, &mut cursor)?;
            let Some(entry) =
                entry.filter(|&entry| entry < description.entries && before < Some(entry))
            else {
                return wrong(format!(
                    "slot {slot} of part {part} names no entry, or one out of order"
                ));
            };
            let key = segment.key(&segment.print(entry)?, part);
            let has_rest = table
                .entry::<false>(&slots, slot, key.rest, 0, &mut cursor.clone())?
                .is_some();
            if key.address != address || !has_rest {
                return wrong(format!(
                    "slot {slot} of part {part} is not that of entry {entry}"
                ));
            }
            before = Some(entry);
        }
    }
    if next == description.entries {
        Ok(())
    } else {
        wrong(format!(
            "{next} slots of part {part}, expected {}",
            description.entries
        ))
    }
}
