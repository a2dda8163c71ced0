//! Cuts a large file where records begin, so that several tasks can read it.
//!
//! Each part notes how many lines and records come before it, so that ids and messages are those of the whole file.
//! For that all of the file is read once: lines are counted on all cores. Only the footer of a Parquet table is read.

#[cfg(feature = "parquet")]
use super::sequence::{FieldNames, ParquetTable};
mod frames;
mod table;
#[cfg(test)]
mod tests;

use super::{
    Options,
    format::Records,
    opener::{Candidate, Opener, Recognised},
    part::{Extents, FilePart, UnpackedPlace},
    sniff::Sniffed,
    unpack::{Packing, decoder, inner_name, is_packed_twice},
    walk::FileEntry,
};
use crate::base::num::ToU64;
use frames::starts_near;
use memchr::{memchr_iter, memmem};
use rayon::prelude::*;
use std::{
    fs::File,
    io::{self, BufReader, Read},
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use table::{RowBegin, TableCut, cut_table};

const READ_BYTES: usize = 1 << 18;

/// How files are cut.
#[derive(Debug, Clone, Copy)]
pub struct CutSize {
    /// About how many bytes of the file a part has.
    pub part_bytes: u64,
    /// The parts are also written again, and put together: only text that is not packed can be.
    pub is_written: bool,
}

/// A file that one task must read alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncutFile {
    /// The file.
    pub file: Arc<str>,
    /// Its size.
    pub bytes: u64,
    /// Why it is not cut.
    pub why: String,
    /// What the user can do about it.
    pub remedy: &'static str,
}

/// Why a file is not cut, and what the user can do about it; nothing if it is one document, or reading reports what is wrong.
type Whole = Option<(String, &'static str)>;

/// Cuts a file into parts. The error says why that cannot be done, if it is worth saying.
pub fn cut_file(
    entry: &FileEntry,
    options: &Options,
    size: CutSize,
) -> Result<Vec<FilePart>, Option<UncutFile>> {
    cut(entry, options, size).map_err(|whole| {
        whole.map(|(why, remedy)| UncutFile {
            file: entry.name(),
            bytes: entry.bytes,
            why,
            remedy,
        })
    })
}

fn whole<T>(why: impl Into<String>, remedy: &'static str) -> Result<T, Whole> {
    Err(Some((why.into(), remedy)))
}

fn cut(entry: &FileEntry, options: &Options, size: CutSize) -> Result<Vec<FilePart>, Whole> {
    let sniffed = Sniffed::open(entry, options).map_err(|_| None)?;
    let packing = sniffed.packing;
    let has_header = sniffed.head.starts_with(b"{\"dedup\":");
    let records = recognise(entry, options, sniffed)?;
    if has_header && records == Records::Ndjson {
        return whole(
            "a stream of tokens or blots, which is not cut",
            "give the documents, or several streams",
        );
    }
    if packing != Packing::Plain {
        ensure_packing(entry, packing, size.is_written)?;
    }
    let is_packed = packing != Packing::Plain;
    let cut = FileCut {
        entry,
        records,
        packing,
        size,
    };
    match records {
        Records::Ndjson | Records::Lines => cut.cut_text(b"\n"),
        Records::Fasta => cut.cut_text(b"\n>"),
        Records::Csv | Records::Tsv if is_packed => whole(
            "a packed table, which is not cut",
            "unpack it, or give it as several files, for more tasks",
        ),
        Records::Csv => cut.cut_rows(b',', options),
        Records::Tsv => cut.cut_rows(b'\t', options),
        Records::Parquet if is_packed => whole(
            "a packed table, which is not cut",
            "unpack it, for more tasks",
        ),
        Records::Parquet if size.is_written => whole(
            "a Parquet table, which one task writes again",
            "give it as several files, for more tasks",
        ),
        Records::Parquet => cut.cut_groups(options),
        Records::Json => whole(
            "a JSON array, which is not cut",
            "write an object a line, for more tasks",
        ),
        Records::Warc => whole(
            "a web archive, which is not cut",
            "give it as several files, for more tasks",
        ),
        Records::Text => Err(None),
    }
}

/// The format of the records, if they are UTF-8.
fn recognise(entry: &FileEntry, options: &Options, sniffed: Sniffed) -> Result<Records, Whole> {
    let opener = Opener::new(options.clone()).map_err(|_| None)?;
    let candidate = Candidate {
        id: entry.id.clone(),
        file: entry.name(),
        name: inner_name(&entry.path),
        sniffed,
        disk: None,
        is_regular: entry.is_regular,
        is_named: entry.is_named,
        depth: 0,
    };
    match opener.recognise(&candidate) {
        Recognised::Records {
            records,
            encoding: None,
        } => Ok(records),
        Recognised::Records {
            encoding: Some(encoding),
            ..
        } => whole(
            format!("text in {}, which is not cut", encoding.name()),
            "convert it to UTF-8 with iconv, for more tasks",
        ),
        Recognised::Archive(format) => whole(
            format!("a {} archive, which is not cut", format.name()),
            "unpack it, and give the directory, for more tasks",
        ),
        Recognised::Stream => whole(
            "a stream of tokens or blots, which is not cut",
            "give the documents, or several streams",
        ),
        Recognised::Converted | Recognised::Text | Recognised::Skipped(_) => Err(None),
    }
}

fn ensure_packing(entry: &FileEntry, packing: Packing, is_written: bool) -> Result<(), Whole> {
    if is_written {
        return whole(
            "a packed file, which one task writes again",
            "give it as several files, for more tasks",
        );
    }
    if is_packed_twice(entry).map_err(|_| None)? {
        return whole("packed twice", "unpack it once, for more tasks");
    }
    match packing {
        Packing::Plain | Packing::Gzip | Packing::Zstd => Ok(()),
        Packing::Xz | Packing::Bzip2 | Packing::Lz4 => whole(
            format!("{}, which is not cut", packing.name()),
            "pack it with bgzip or pzstd, or as several files, for more tasks",
        ),
    }
}

/// A file that is cut.
struct FileCut<'a> {
    entry: &'a FileEntry,
    records: Records,
    packing: Packing,
    size: CutSize,
}

/// Where a record begins, and what comes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RecordBegin {
    /// The place in the file where unpacking starts.
    packed: u64,
    /// How many unpacked bytes come from there to the record.
    skip: u64,
    /// How many packed bytes are read for these.
    skip_packed: u64,
    /// The unpacked bytes of the file before the record.
    at: u64,
    /// The lines of the file before the record.
    lines: u64,
}

impl FileCut<'_> {
    /// Where the file would be cut if it had no records.
    fn wanted(&self) -> Vec<u64> {
        let (bytes, count) = (self.entry.bytes, self.count());
        (1..count)
            .map(|number| {
                let at = u128::from(bytes) * u128::from(number) / u128::from(count);
                u64::try_from(at).unwrap_or(bytes)
            })
            .collect()
    }

    fn count(&self) -> u64 {
        self.entry.bytes.div_ceil(self.size.part_bytes.max(1))
    }

    fn whole(&self, why: &io::Error) -> Whole {
        // Reading reports damage, too.
        Some((
            format!("it cannot be cut ({why})"),
            "repair it, or give it as several files",
        ))
    }

    fn cut_text(&self, border: &'static [u8]) -> Result<Vec<FilePart>, Whole> {
        let file = self.entry.open().map_err(|_| None)?;
        let failed = |error: io::Error| self.whole(&error);
        let starts = match self.packing {
            Packing::Plain => self.wanted(),
            packing => {
                starts_near(&file, self.entry.bytes, packing, &self.wanted()).map_err(failed)?
            }
        };
        if starts.is_empty() {
            return match self.packing {
                Packing::Gzip => whole(
                    "one stream that cannot be cut",
                    "pack it with bgzip, or as several files, for more tasks",
                ),
                Packing::Zstd => whole(
                    "one frame that cannot be cut",
                    "pack it with pzstd, or as several files, for more tasks",
                ),
                _ => Err(None),
            };
        }
        let ends = starts.iter().copied().chain([self.entry.bytes]);
        let segments: Vec<Range<u64>> = [0]
            .into_iter()
            .chain(starts.iter().copied())
            .zip(ends)
            .map(|(start, end)| start..end)
            .collect();
        let scan = |segment: &Range<u64>| scan(&file, segment, self.packing, border);
        let scanned: Vec<Segment> = segments
            .par_iter()
            .map(scan)
            .collect::<io::Result<_>>()
            .map_err(failed)?;
        let (begins, end) = begins_of(&segments, &scanned, border);
        Ok(self.text_parts(&begins, end))
    }

    /// `end`: where a record behind the last one would begin.
    fn text_parts(&self, begins: &[RecordBegin], end: RecordBegin) -> Vec<FilePart> {
        let nexts = begins.iter().skip(1).chain([&end]);
        let part = |(number, (begin, next)): (usize, (&RecordBegin, &RecordBegin))| {
            let is_plain = self.packing == Packing::Plain;
            let extent = if is_plain {
                [begin.at, next.at]
            } else {
                let end = next.packed.saturating_add(next.skip_packed);
                [begin.packed, end.min(self.entry.bytes)]
            };
            FilePart {
                number,
                count: begins.len(),
                records: self.records,
                numbers: [begin.lines + 1, next.lines + 1],
                line: begin.lines + 1,
                extents: vec![extent],
                has_header: false,
                unpacked: (!is_plain).then(|| UnpackedPlace {
                    skip: begin.skip,
                    bytes: next.at - begin.at,
                }),
                row_groups: None,
            }
        };
        begins.iter().zip(nexts).enumerate().map(part).collect()
    }

    fn cut_rows(&self, delimiter: u8, options: &Options) -> Result<Vec<FilePart>, Whole> {
        let file = self.entry.open().map_err(|_| None)?;
        let TableCut { header_end, begins } =
            cut_table(file, self.entry, delimiter, options, &self.wanted())
                .map_err(|error| error.and_then(|error| self.whole(&error)))?;
        let nexts = begins.iter().skip(1);
        let part = |(number, (begin, next)): (usize, (&RowBegin, &RowBegin))| {
            let has_header = number > 0;
            let header = has_header.then_some([0, header_end]);
            FilePart {
                number,
                count: begins.len() - 1,
                records: self.records,
                numbers: [begin.record, next.record],
                line: begin.line,
                extents: header.into_iter().chain([[begin.at, next.at]]).collect(),
                has_header,
                unpacked: None,
                row_groups: None,
            }
        };
        Ok(begins.iter().zip(nexts).enumerate().map(part).collect())
    }

    #[cfg(feature = "parquet")]
    fn cut_groups(&self, options: &Options) -> Result<Vec<FilePart>, Whole> {
        let file = self.entry.open().map_err(|_| None)?;
        let table = ParquetTable::open(file).map_err(|_| None)?;
        let fields = FieldNames {
            id: &options.fields.id_field,
            text: &options.fields.text_field,
        };
        // Reading reports a table without texts.
        let columns = table
            .select(&fields, options.max_document)
            .map_err(|_| None)?;
        let groups = columns.row_groups();
        if groups.len() < 2 {
            return whole(
                "one row group that cannot be cut",
                "write it with smaller row groups, for more tasks",
            );
        }
        let total: u64 = groups.iter().map(|group| group.packed_bytes).sum();
        let count = self.count().min(groups.len().to_u64());
        let (mut starts, mut before) = (vec![0], 0);
        for (number, group) in groups.iter().enumerate() {
            let share =
                |bytes: u64| u128::from(bytes) * u128::from(count) / u128::from(total.max(1));
            // A part begins with the first group whose middle is behind the place where the part would begin.
            if number > 0
                && share(before + group.packed_bytes / 2) >= u128::from(starts.len().to_u64())
            {
                starts.push(number);
            }
            before += group.packed_bytes;
        }
        let ends = starts.iter().skip(1).copied().chain([groups.len()]);
        let part = |(number, (start, end)): (usize, (usize, usize))| {
            Ok(FilePart {
                number,
                count: starts.len(),
                records: Records::Parquet,
                numbers: [table.rows_before(start) + 1, table.rows_before(end) + 1],
                line: 0,
                extents: columns.extents(start..end)?,
                has_header: false,
                unpacked: None,
                row_groups: Some([start, end]),
            })
        };
        let places = starts.iter().copied().zip(ends).enumerate();
        // Reading reports what is wrong with the table.
        places
            .map(part)
            .collect::<Result<_, String>>()
            .map_err(|_| None)
    }

    #[cfg(not(feature = "parquet"))]
    fn cut_groups(&self, _: &Options) -> Result<Vec<FilePart>, Whole> {
        Err(None)
    }
}

/// What is between two places where unpacking can start.
#[derive(Debug, Default)]
struct Segment {
    bytes: u64,
    lines: u64,
    /// The first record that begins behind the first byte.
    first: Option<FirstBegin>,
    first_byte: Option<u8>,
    last_byte: Option<u8>,
}

#[derive(Debug, Clone, Copy)]
struct FirstBegin {
    at: u64,
    lines: u64,
    /// How many bytes of the file were read up to it, at most.
    packed: u64,
}

/// Unpacks a segment, counts its lines and finds its first record. Memory: the buffers.
fn scan(file: &File, segment: &Range<u64>, packing: Packing, border: &[u8]) -> io::Result<Segment> {
    let read = Arc::new(AtomicU64::new(0));
    let counted = Counted {
        input: Extents::new(file.try_clone()?, &[[segment.start, segment.end]]),
        read: read.clone(),
    };
    let mut input: Box<dyn Read + Send> = Box::new(counted);
    if packing != Packing::Plain {
        input = decoder(BufReader::with_capacity(READ_BYTES, input), packing)?;
    }
    let (mut found, mut buffer) = (Segment::default(), vec![0; READ_BYTES]);
    // One byte of the last read stays, as a border may lie across two.
    let mut kept = 0;
    loop {
        let count = match input.read(&mut buffer[kept..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        if count == 0 {
            return Ok(found);
        }
        let bytes = &buffer[..kept + count];
        if found.first.is_none()
            && let Some(place) = memmem::find(bytes, border)
        {
            let start = found.bytes - kept.to_u64();
            let before = &bytes[kept..(place + 1).max(kept)];
            found.first = Some(FirstBegin {
                at: start + place.to_u64() + 1,
                lines: found.lines + memchr_iter(b'\n', before).count().to_u64(),
                packed: read.load(Ordering::Relaxed),
            });
        }
        found.first_byte = found.first_byte.or_else(|| bytes.first().copied());
        found.last_byte = bytes.last().copied();
        found.lines += memchr_iter(b'\n', &bytes[kept..]).count().to_u64();
        found.bytes += count.to_u64();
        buffer[0] = buffer[kept + count - 1];
        kept = 1;
    }
}

/// Counts the bytes that are read.
struct Counted<R> {
    input: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.read.fetch_add(count.to_u64(), Ordering::Relaxed);
        Ok(count)
    }
}

/// Where the records begin that the parts begin with, and the end of the file. A segment in which no record begins belongs to the part before it.
fn begins_of(
    segments: &[Range<u64>],
    scanned: &[Segment],
    border: &[u8],
) -> (Vec<RecordBegin>, RecordBegin) {
    let mut begins = Vec::new();
    let (mut at, mut lines, mut last_byte) = (0, 0, None);
    for (segment, found) in segments.iter().zip(scanned) {
        let is_start = begins.is_empty();
        // The border lies between the segments.
        let is_border = last_byte == Some(border[0])
            && (border.len() < 2 || found.first_byte == border.get(1).copied());
        let begin = |skip: u64, more: u64, skip_packed: u64| RecordBegin {
            packed: segment.start,
            skip,
            skip_packed,
            at: at + skip,
            lines: lines + more,
        };
        if is_start || is_border && found.bytes > 0 {
            begins.push(begin(0, 0, 0));
        } else if let Some(first) = found.first.filter(|first| first.at < found.bytes) {
            begins.push(begin(first.at, first.lines, first.packed));
        }
        at += found.bytes;
        lines += found.lines;
        last_byte = found.last_byte.or(last_byte);
    }
    let end = RecordBegin {
        packed: segments.last().map_or(0, |segment| segment.end),
        skip: 0,
        skip_packed: 0,
        at,
        // A last line without a line feed counts.
        lines: lines + u64::from(last_byte != Some(b'\n')),
    };
    (begins, end)
}
