//! What was decided about each record, between deciding and writing: a file with a line for each record that does not just stay, shard by shard.

use super::shards::{Shard, SliceShard, changed};
use crate::{
    base::{
        error::{Error, Place, Result},
        num::ToU64,
    },
    text::{
        corpus::rewrite::{RecordChange, RecordFate, RecordFates},
        stream::Span,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Take, Write},
    ops::Range,
    path::{Path, PathBuf},
};

/// A line of the file. Without cuts and note the record is left out.
#[derive(Debug, Serialize, Deserialize)]
struct FateLine {
    record: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cuts: Vec<[u32; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<Box<RawValue>>,
}

/// Writes the fates of all records, in the order of the input.
pub struct FateWriter {
    out: BufWriter<File>,
    at: u64,
    /// Where the lines of each shard are.
    shards: Vec<Range<u64>>,
}

impl FateWriter {
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|error| Error::io(path.display(), error))?;
        Ok(Self {
            out: BufWriter::new(file),
            at: 0,
            shards: Vec::new(),
        })
    }

    /// The record is left out.
    pub fn drop(&mut self, shard: usize, record: u64) -> Result<()> {
        self.put(
            shard,
            &FateLine {
                record,
                cuts: Vec::new(),
                note: None,
            },
        )
    }

    /// Passages are cut out of the record.
    pub fn cut(&mut self, shard: usize, record: u64, cuts: &[Span]) -> Result<()> {
        let cuts = cuts.iter().map(|cut| [cut.start, cut.end]).collect();
        let note = None;
        self.put(shard, &FateLine { record, cuts, note })
    }

    /// The record gets a field.
    pub fn note(&mut self, shard: usize, record: u64, note: &impl Serialize) -> Result<()> {
        let note = serde_json::value::to_raw_value(note)
            .map_err(|error| Error::output(io::Error::other(error)))?;
        let (cuts, note) = (Vec::new(), Some(note));
        self.put(shard, &FateLine { record, cuts, note })
    }

    fn put(&mut self, shard: usize, line: &FateLine) -> Result<()> {
        while self.shards.len() <= shard {
            self.shards.push(self.at..self.at);
        }
        let mut bytes =
            serde_json::to_vec(line).map_err(|error| Error::output(io::Error::other(error)))?;
        bytes.push(b'\n');
        self.out.write_all(&bytes).map_err(Error::output)?;
        self.at += bytes.len().to_u64();
        self.shards[shard].end = self.at;
        Ok(())
    }

    /// Syncs the file. Returns where the lines of each shard are; shards at the end may have none.
    pub fn finish(self) -> Result<Vec<Range<u64>>> {
        let file = self
            .out
            .into_inner()
            .map_err(|error| Error::output(error.into_error()))?;
        file.sync_all().map_err(Error::output)?;
        Ok(self.shards)
    }
}

/// The fates of the records of one slice, as a file: a line that says where those of each shard are, and these.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SliceFates {
    /// The number of each shard in the slice, and where its fates are in the file.
    pub shards: Vec<(usize, Range<u64>)>,
}

impl SliceFates {
    /// Reads where the fates of each shard are.
    pub fn read(path: &Path) -> Result<Self> {
        let failed = |error| Error::io(path.display(), error);
        let mut head = String::new();
        BufReader::new(File::open(path).map_err(failed)?)
            .read_line(&mut head)
            .map_err(failed)?;
        let mut fates: Self = serde_json::from_str(&head).map_err(|error| {
            Error::damaged(
                Place::path(path),
                format!("not the fates of a slice: {error}"),
            )
        })?;
        let start = head.len().to_u64();
        for (_, range) in &mut fates.shards {
            *range = range.start.saturating_add(start)..range.end.saturating_add(start);
        }
        Ok(fates)
    }
}

/// Cuts the file of all fates into one for each slice.
///
/// `ranges`: where the fates of each shard are; `slices`: the shards of each slice, or parts of them, in order.
pub fn split_fates(
    fates: &Path,
    ranges: &[Range<u64>],
    slices: &[Vec<SliceShard>],
    target: impl Fn(usize) -> PathBuf,
) -> Result<()> {
    let failed = |error| Error::io(fates.display(), error);
    let mut input = BufReader::new(File::open(fates).map_err(failed)?);
    // How far the fates of a shard in several slices were read.
    let mut rest = (usize::MAX, 0..0);
    for (slice, shards) in slices.iter().enumerate() {
        let (mut head, mut bytes) = (SliceFates::default(), Vec::new());
        for shard in shards {
            if rest.0 != shard.number {
                rest = (
                    shard.number,
                    ranges.get(shard.number).cloned().unwrap_or_default(),
                );
            }
            let (start, range) = (bytes.len().to_u64(), &mut rest.1);
            input.seek(SeekFrom::Start(range.start)).map_err(failed)?;
            match shard.records_end {
                None => {
                    let mut lines = input.by_ref().take(range.end - range.start);
                    lines.read_to_end(&mut bytes).map_err(failed)?;
                    range.start = range.end;
                }
                Some(end) => read_fates_before(&mut input, range, end, &mut bytes)?,
            }
            head.shards.push((shard.line, start..bytes.len().to_u64()));
        }
        let path = target(slice);
        let mut text =
            serde_json::to_vec(&head).map_err(|error| Error::output(io::Error::other(error)))?;
        text.push(b'\n');
        text.extend(bytes);
        fs::write(&path, text).map_err(|error| Error::io(path.display(), error))?;
    }
    Ok(())
}

/// Appends the fates of records before `end`, and takes them from the range that is still to be read.
fn read_fates_before(
    input: &mut BufReader<File>,
    range: &mut Range<u64>,
    end: u64,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    let mut line = Vec::new();
    while range.start < range.end {
        line.clear();
        input.read_until(b'\n', &mut line).map_err(Error::output)?;
        let fate: FateLine = serde_json::from_slice(&line)
            .map_err(|error| Error::output(io::Error::other(error)))?;
        if fate.record >= end {
            break;
        }
        range.start += line.len().to_u64();
        bytes.extend_from_slice(&line);
    }
    Ok(())
}

/// The fates of the records of one shard.
pub struct ShardFates<'s> {
    shard: &'s Shard,
    lines: Take<BufReader<File>>,
    /// The line that was read last, and not used yet.
    next: Option<FateLine>,
    /// Of the line that was used last.
    cuts: Vec<Span>,
    note: Option<Box<RawValue>>,
    /// Every record gets a field.
    has_notes: bool,
}

impl<'s> ShardFates<'s> {
    /// Reads the fates of a shard. `range`: where its lines are; none if all of its records stay.
    pub fn open(
        path: &Path,
        shard: &'s Shard,
        range: Option<&Range<u64>>,
        has_notes: bool,
    ) -> Result<Self> {
        let failed = |error| Error::io(path.display(), error);
        let mut file = File::open(path).map_err(failed)?;
        let range = range.cloned().unwrap_or_default();
        file.seek(SeekFrom::Start(range.start)).map_err(failed)?;
        let mut fates = Self {
            shard,
            lines: BufReader::new(file).take(range.end - range.start),
            next: None,
            cuts: Vec::new(),
            note: None,
            has_notes,
        };
        fates.advance()?;
        Ok(fates)
    }

    fn advance(&mut self) -> Result<()> {
        let mut line = String::new();
        self.lines.read_line(&mut line).map_err(Error::output)?;
        self.next = if line.is_empty() {
            None
        } else {
            Some(
                serde_json::from_str(&line)
                    .map_err(|error| Error::output(io::Error::other(error)))?,
            )
        };
        Ok(())
    }

    /// Whether all of the file is left out, if it is one document.
    pub fn is_dropped(&self) -> bool {
        let is_drop = |line: &FateLine| line.cuts.is_empty() && line.note.is_none();
        self.shard.is_document() && self.next.as_ref().is_some_and(is_drop)
    }

    /// Refuses a file that no longer has all records that were decided about.
    pub fn ensure_all_used(mut self) -> Result<()> {
        self.fate(u64::MAX).map(drop)
    }
}

impl RecordFates for ShardFates<'_> {
    fn fate(&mut self, record: u64) -> Result<RecordFate<'_>> {
        match &self.next {
            Some(line) if line.record < record => return Err(changed(&self.shard.entry)),
            Some(line) if line.record == record => {}
            Some(_) | None => return Ok(RecordFate::Keep),
        }
        let Some(line) = self.next.take() else {
            return Ok(RecordFate::Keep);
        };
        self.advance()?;
        if line.cuts.is_empty() && line.note.is_none() {
            return Ok(RecordFate::Drop);
        }
        self.cuts.clear();
        self.cuts
            .extend(line.cuts.iter().map(|&[start, end]| Span { start, end }));
        self.note = line.note;
        Ok(RecordFate::Change(RecordChange {
            cuts: &self.cuts,
            note: self.note.as_deref().map(RawValue::get),
        }))
    }

    fn has_notes(&self) -> bool {
        self.has_notes
    }
}
