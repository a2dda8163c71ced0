//! Turns a chunk into documents, on a worker's thread.

use super::{
    Options, Records,
    account::{Account, RecordWithoutText, SkippedFile, SkippedInput, too_large},
    chunk::{Chunk, Container},
    convert::{Conversion, Converter},
    document::ExtractError,
    encoding::{Decoded, TextEncoding, wrong_bytes},
    format::RecordPiece,
    placed_id::PlacedId,
    sequence::{RecordFault, SequenceRecord},
    skipped_kind::{HEAD_BYTES, SkippedKind, is_binary},
    unpack::{Packing, inner_name, read_bounded, unpack},
    walk::FileEntry,
};
use crate::base::num::{ToU64, ToUsize};
use crate::{
    base::{
        codec::clear_buffer,
        error::{Error, Place, Problem, Result},
    },
    text::stream::{
        BlotCodec, Blots, LineParser, PrintCodec, Printed, StreamBlock, StreamKind, TokenCodec,
        Tokens,
    },
};
use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
    sync::Arc,
};

/// One document: its text, or the tokens, blots or print that another program made.
#[derive(Debug)]
pub struct InputDocument<'a> {
    /// Its id.
    pub id: &'a str,
    /// The file it is from.
    pub file: &'a Arc<str>,
    /// Where a file holds many documents.
    pub line: Option<u64>,
    /// Which record of the file it is, from 1: the line, where a record starts with a line, or its number. 0 if the file is one document.
    pub record: u64,
    /// The size of the text, where it is known.
    pub bytes: Option<u64>,
    /// The hash over its tokens, where a stream has it.
    pub hash: Option<u128>,
    /// Its text, or what was made from it.
    pub content: Content<'a>,
}

/// What is known of a document.
#[derive(Debug)]
pub enum Content<'a> {
    /// Its text.
    Text(&'a str),
    /// Its tokens.
    Tokens(&'a Tokens),
    /// Its blots.
    Blots(&'a Blots),
    /// Its print.
    Print(Printed),
}

impl InputDocument<'_> {
    /// The file, and the line if it has one.
    pub fn place(&self) -> Place {
        self.line.map_or_else(
            || Place::file(self.file.clone()),
            |line| Place::line(self.file, line),
        )
    }

    /// Its id, and where it is.
    pub fn placed_id(&self) -> PlacedId<'_> {
        PlacedId {
            file: self.file,
            record: self.record,
            id: self.id,
        }
    }
}

/// Receives documents and skipped input, in order.
pub type Visit<'v> = dyn FnMut(Result<InputDocument<'_>, SkippedInput>) + 'v;

/// Reads the documents of chunks; owns buffers that are reused.
pub struct DocumentReader {
    pub(super) fields: LineParser,
    records: Option<Records>,
    pub(super) lossy: bool,
    pub(super) max_document: u64,
    encoding: TextEncoding,
    converter: Converter,
    has_placed_ids: bool,
    /// The kinds of the files that were read since the account was last taken.
    kinds: Vec<&'static str>,
    /// The encodings that files were decoded from since then.
    decoded: Vec<&'static str>,
    file_bytes: Vec<u8>,
    unpacked: Vec<u8>,
    pub(super) tokens: Tokens,
    pub(super) blots: Blots,
}

/// A file up to this size takes one read; of a larger one the head is checked before the rest is read.
const SNIFF_BYTES: u64 = 1 << 20;

/// Where the text of a file is, or why it is skipped.
enum Loaded {
    /// In the buffer of the file.
    Plain,
    /// In the buffer for what was unpacked.
    Unpacked,
    /// Made by a conversion.
    Converted(String, &'static str),
    Skipped(SkippedFile),
}

/// What messages and conversions need to know of a file.
#[derive(Clone, Copy)]
struct FileNames<'a> {
    file: &'a Arc<str>,
    /// Without the endings of what it is packed in.
    name: &'a Path,
    within: Packing,
    is_named: bool,
}

impl DocumentReader {
    /// A reader with empty buffers.
    pub fn new(options: &Options) -> Self {
        Self {
            fields: options.fields.clone(),
            records: options.records,
            lossy: options.lossy,
            max_document: options.max_document,
            encoding: TextEncoding::new(options),
            converter: Converter::new(options),
            has_placed_ids: options.placed_ids,
            kinds: Vec::new(),
            decoded: Vec::new(),
            file_bytes: Vec::new(),
            unpacked: Vec::new(),
            tokens: Tokens::default(),
            blots: Blots::default(),
        }
    }

    /// Visits every document of a chunk in order, and returns the account of it. An error means that the rest
    /// of a stream cannot be trusted.
    pub fn read(&mut self, chunk: Chunk, visit: &mut Visit<'_>) -> Result<Account> {
        let files = match &chunk {
            Chunk::Opened(_) | Chunk::Whole { .. } => 1,
            Chunk::Files(entries) => entries.len().to_u64(),
            Chunk::Records { .. }
            | Chunk::Rows { .. }
            | Chunk::Block { .. }
            | Chunk::Passed(_)
            | Chunk::Problem(_)
            | Chunk::Skipped(_) => 0,
        };
        let passed = if let Chunk::Passed(records) = chunk {
            records
        } else {
            0
        };
        if let Chunk::Opened(of) = &chunk {
            self.kinds.push(of.records.name());
            self.decoded.extend(of.decoded);
        }
        let is_stream = matches!(&chunk, Chunk::Opened(of) if of.header.is_some());
        let mut account = Account::default();
        let (mut placed_id, has_placed_ids) = (String::new(), self.has_placed_ids);
        self.read_chunk(chunk, &mut |found| {
            account.count(&found);
            match found {
                Ok(item) if has_placed_ids => {
                    item.placed_id().write(&mut placed_id);
                    visit(Ok(InputDocument {
                        id: &placed_id,
                        ..item
                    }));
                }
                found => visit(found),
            }
        })?;
        account.files = files.saturating_sub(account.files_left_out());
        self.kinds
            .drain(..)
            .for_each(|kind| account.count_kind(kind));
        self.decoded
            .drain(..)
            .for_each(|encoding| account.count_decoded(encoding));
        account.streams = is_stream.into();
        account.records_left_out += passed;
        // Frees the buffers of a very large document.
        self.tokens.clear();
        self.blots.clear();
        Ok(account)
    }

    fn read_chunk(&mut self, chunk: Chunk, visit: &mut Visit<'_>) -> Result<()> {
        match chunk {
            Chunk::Opened(_) | Chunk::Passed(_) => {}
            Chunk::Files(entries) => entries
                .iter()
                .for_each(|entry| self.read_file(entry, visit)),
            Chunk::Whole {
                id,
                file,
                name,
                within,
                is_named,
                bytes,
            } => {
                let names = FileNames {
                    file: &file,
                    name: &name,
                    within,
                    is_named,
                };
                self.file_bytes = bytes;
                let loaded = match self.choose(names, &self.file_bytes) {
                    Err(left) => Loaded::Skipped(left),
                    Ok(chosen) => self.finish_plain(names, chosen),
                };
                self.visit_loaded(&id, &file, loaded, visit);
            }
            Chunk::Rows { of, rows } => rows
                .into_iter()
                .for_each(|row| self.read_row(&of, row, visit)),
            Chunk::Records {
                of,
                first_line,
                bytes,
            } => {
                let piece = RecordPiece {
                    container: &of,
                    first_line,
                    bytes,
                };
                of.records.format().read(piece, self, visit);
            }
            Chunk::Block { of, block } => self.read_block(&of, &block, visit)?,
            Chunk::Problem(problem) => visit(Err(problem.into())),
            Chunk::Skipped(left) => visit(Err(SkippedInput::File(left))),
        }
        Ok(())
    }

    fn read_file(&mut self, entry: &FileEntry, visit: &mut Visit<'_>) {
        let file = entry.name();
        match entry.open().and_then(|open| self.load(entry, open)) {
            Err(error) => {
                let problem = Problem::new(Place::path(&entry.path), error.to_string());
                visit(Err(SkippedInput::File(SkippedFile::unreadable(problem))));
            }
            Ok(loaded) => self.visit_loaded(&entry.id, &file, loaded, visit),
        }
    }

    /// Visits a document that was loaded, and gives its buffers back.
    fn visit_loaded(&mut self, id: &str, file: &Arc<str>, loaded: Loaded, visit: &mut Visit<'_>) {
        match loaded {
            Loaded::Skipped(left) => visit(Err(SkippedInput::File(left))),
            Loaded::Converted(text, kind) => {
                self.kinds.push(kind);
                visit_text(id, file, (None, 0), text.as_bytes(), visit);
            }
            Loaded::Plain | Loaded::Unpacked => {
                let bytes = if matches!(loaded, Loaded::Plain) {
                    &mut self.file_bytes
                } else {
                    &mut self.unpacked
                };
                match self.encoding.decode(bytes) {
                    Err(what) => {
                        let left = SkippedFile::not_utf8(file.clone(), what);
                        visit(Err(SkippedInput::File(left)));
                    }
                    Ok(decoded) => {
                        self.kinds.push(Records::Text.name());
                        if let Decoded::From(name) = decoded {
                            self.decoded.push(name);
                        }
                        visit_text(id, file, (None, 0), bytes, visit);
                    }
                }
            }
        }
        clear_buffer(&mut self.file_bytes);
        clear_buffer(&mut self.unpacked);
    }

    /// Reads a file that is one document, unless its head shows that it is none or it is too large.
    ///
    /// Memory: the document, and a MiB of a packed file.
    fn load(&mut self, entry: &FileEntry, mut file: File) -> io::Result<Loaded> {
        self.file_bytes.clear();
        let is_small = entry.bytes <= SNIFF_BYTES;
        let expected = if is_small {
            entry.bytes
        } else {
            HEAD_BYTES.to_u64()
        };
        let has_ended = read_expected(&mut file, expected, &mut self.file_bytes)?;
        let (packing, promised) = (Packing::of(&self.file_bytes), Packing::of_name(&entry.path));
        if promised != Packing::Plain && promised != packing {
            return Err(io::Error::other(format!(
                "its name promises {}, its first bytes are not that",
                promised.name()
            )));
        }
        let names = FileNames {
            file: &entry.name(),
            name: &inner_name(&entry.path),
            within: packing,
            is_named: entry.is_named,
        };
        if packing != Packing::Plain {
            return self.unpack(names, file);
        }
        // Of a file that is left out for its first bytes the rest is not read.
        let chosen = match self.choose(names, &self.file_bytes) {
            Err(left) => return Ok(Loaded::Skipped(left)),
            Ok(chosen) => chosen,
        };
        let is_too_large = entry.bytes > self.max_document
            || !(has_ended && is_small) && {
                let known = entry.bytes.saturating_sub(self.file_bytes.len().to_u64());
                self.file_bytes.try_reserve_exact(known.to_usize() + 1)?;
                !read_bounded(file, self.max_document, &mut self.file_bytes)?
            };
        Ok(
            if is_too_large || self.file_bytes.len().to_u64() > self.max_document {
                Loaded::Skipped(SkippedFile::too_large(entry.name(), self.max_document))
            } else {
                self.finish_plain(names, chosen)
            },
        )
    }

    /// A file that is in its buffer, not packed.
    fn finish_plain(&self, names: FileNames<'_>, chosen: Option<Conversion>) -> Loaded {
        chosen.map_or(Loaded::Plain, |conversion| {
            self.convert(names, conversion, &self.file_bytes)
        })
    }

    /// Unpacks a file of which the head was read; the rest is never in memory as it is packed.
    fn unpack(&mut self, names: FileNames<'_>, rest: File) -> io::Result<Loaded> {
        let head = std::mem::take(&mut self.file_bytes);
        let (_, mut input) = unpack(BufReader::new(io::Cursor::new(head).chain(rest)))?;
        let mut unpacked = std::mem::take(&mut self.unpacked);
        unpacked.clear();
        input
            .by_ref()
            .take(HEAD_BYTES.to_u64())
            .read_to_end(&mut unpacked)?;
        let loaded = match self.choose(names, &unpacked) {
            Err(left) => Loaded::Skipped(left),
            Ok(_) if !read_bounded(input, self.max_document, &mut unpacked)? => Loaded::Skipped(
                SkippedFile::too_large(names.file.clone(), self.max_document),
            ),
            Ok(None) => Loaded::Unpacked,
            Ok(Some(conversion)) => self.convert(names, conversion, &unpacked),
        };
        self.unpacked = unpacked;
        Ok(loaded)
    }

    /// How a file becomes text, or why it is left out, by its first bytes. One that was named is read although it looks binary.
    fn choose(&self, names: FileNames<'_>, head: &[u8]) -> Result<Option<Conversion>, SkippedFile> {
        let head = &head[..head.len().min(HEAD_BYTES)];
        let skipped = SkippedKind::of(head, names.name, self.records);
        if let Some(conversion) = self.converter.choose(head, names.name, skipped) {
            return Ok(Some(conversion));
        }
        let unknown = || (!names.is_named && is_binary(head)).then_some(SkippedKind::UnknownBinary);
        match skipped.or_else(unknown) {
            // Its text is decoded.
            None | Some(SkippedKind::Utf16) => Ok(None),
            Some(kind) => Err(names.skipped(kind)),
        }
    }

    fn convert(&self, names: FileNames<'_>, conversion: Conversion, bytes: &[u8]) -> Loaded {
        match self.converter.convert(conversion, names.name, bytes) {
            Ok(text) => Loaded::Converted(text, conversion.name()),
            Err(error) => Loaded::Skipped(match error {
                ExtractError::TooLarge => {
                    SkippedFile::too_large(names.file.clone(), self.max_document)
                }
                ExtractError::NoText => names.skipped(SkippedKind::NoText),
                ExtractError::NothingRecognised => names.skipped(SkippedKind::NothingRecognised),
                ExtractError::Encrypted => names.skipped(SkippedKind::Encrypted),
                ExtractError::Damaged(what) => {
                    let what = format!("{}: {what}", conversion.name());
                    SkippedFile::damaged(names.file.clone(), &what, names.is_named)
                }
            }),
        }
    }

    /// Visits a record that was taken apart already.
    fn read_row(&self, of: &Container, row: SequenceRecord, visit: &mut Visit<'_>) {
        let line = row.line.unwrap_or(row.number);
        let place = || Place::line(&of.file, line);
        let id = || {
            row.id
                .unwrap_or_else(|| format!("{}:{}", of.id, row.number))
        };
        let what = match row.text {
            Ok(text) => {
                return visit_text(
                    &id(),
                    &of.file,
                    (Some(line), row.number),
                    text.as_bytes(),
                    visit,
                );
            }
            Err(RecordFault::Null) => {
                return visit(Err(SkippedInput::NoText(RecordWithoutText {
                    place: place(),
                    what: self.fields.null_text(),
                    fields: Vec::new(),
                })));
            }
            Err(RecordFault::NoText { fields }) => {
                return visit(Err(SkippedInput::NoText(RecordWithoutText {
                    place: place(),
                    what: self.fields.no_text(),
                    fields,
                })));
            }
            Err(RecordFault::NotUtf8 { mut bytes, .. }) if self.lossy => {
                // Wrong bytes are replaced, so it cannot fail.
                let _ = ensure_utf8(&mut bytes, true);
                let position = (Some(line), row.number);
                return visit_text(&id(), &of.file, position, &bytes, visit);
            }
            Err(RecordFault::NotUtf8 { what, .. }) => of.decoded.map_or(what, wrong_bytes),
            Err(RecordFault::Bad(what)) => what,
            Err(RecordFault::TooLarge) => too_large(self.max_document),
        };
        visit(Err(Problem::new(place(), what).into()));
    }

    fn read_block(
        &mut self,
        of: &Container,
        block: &StreamBlock,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let damaged = |what: String| {
            Error::damaged(
                block.place.clone(),
                format!("{what}; the stream was altered"),
            )
        };
        let Some(header) = &of.header else {
            return Err(damaged("a block without a header".to_owned()));
        };
        let mut fields = block.open()?;
        for _ in 0..block.records {
            let (record, content) = match header.kind {
                StreamKind::Tokens => {
                    let record = TokenCodec { with_spans: true }
                        .read_binary(&mut fields, &mut self.tokens)
                        .map_err(damaged)?;
                    (record, Content::Tokens(&self.tokens))
                }
                StreamKind::Blots => {
                    let bits = of.blot_bits.clone().map_err(damaged)?;
                    let codec = BlotCodec {
                        bits,
                        with_positions: true,
                    };
                    (
                        codec
                            .read_binary(&mut fields, &mut self.blots)
                            .map_err(damaged)?,
                        Content::Blots(&self.blots),
                    )
                }
                StreamKind::Prints => {
                    let (record, printed) = PrintCodec.read_binary(&mut fields).map_err(damaged)?;
                    (record, Content::Print(printed))
                }
            };
            visit(Ok(InputDocument {
                id: record.doc,
                file: &of.file,
                line: None,
                record: 0,
                bytes: record.bytes,
                hash: record.hash,
                content,
            }));
        }
        if fields.is_empty() {
            Ok(())
        } else {
            Err(damaged(format!(
                "{} bytes after the last record of a block",
                fields.left()
            )))
        }
    }
}

/// Reads as much as is expected, or all if no more comes: true if the file has ended.
///
/// An ordinary file takes one read: it ended if as much came as was promised, though there was room for a byte more. Where the
/// size is given as 0 (/proc) or a read falls short, only a read of nothing is the end.
fn read_expected(file: &mut File, expected: u64, buffer: &mut Vec<u8>) -> io::Result<bool> {
    let room = if expected == 0 {
        HEAD_BYTES
    } else {
        expected.to_usize() + 1
    };
    buffer.try_reserve_exact(room)?;
    buffer.resize(room, 0);
    let mut filled = 0;
    let has_ended = loop {
        let count = read_some(file, &mut buffer[filled..])?;
        filled += count;
        if count == 0 || (filled == expected.to_usize() && expected > 0) {
            break true;
        }
        if filled == buffer.len() {
            break false;
        }
    };
    buffer.truncate(filled);
    Ok(has_ended)
}

/// One read that no signal disturbs.
fn read_some(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

impl FileNames<'_> {
    fn skipped(self, kind: SkippedKind) -> SkippedFile {
        SkippedFile::new(self.file.clone(), kind, self.within, self.is_named)
    }
}

/// A document in a file of several.
pub(super) fn visit_line(
    id: &str,
    of: &Container,
    line: u64,
    bytes: &mut [u8],
    lossy: bool,
    visit: &mut Visit<'_>,
) {
    match of.ensure_utf8(bytes, lossy) {
        Err(what) => visit(Err(Problem::new(Place::line(&of.file, line), what).into())),
        Ok(()) => visit_text(id, &of.file, (Some(line), line), bytes, visit),
    }
}

/// A document whose bytes were found to be UTF-8.
fn visit_text(
    id: &str,
    file: &Arc<str>,
    (line, record): (Option<u64>, u64),
    bytes: &[u8],
    visit: &mut Visit<'_>,
) {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    visit(Ok(InputDocument {
        id,
        file,
        line,
        record,
        bytes: Some(bytes.len().to_u64()),
        hash: None,
        content: Content::Text(text),
    }));
}

/// The text of a file that is known to be one document, packed or not.
pub fn read_text(path: &Path, options: &Options) -> io::Result<String> {
    read_open_text(File::open(path)?, path, options)
}

/// The same of a file that is open. Never reads more than the largest document may have.
pub fn read_open_text(file: File, path: &Path, options: &Options) -> io::Result<String> {
    let entry = FileEntry::of_open(path, &file)?;
    let mut reader = DocumentReader::new(options);
    let mut bytes = match reader.load(&entry, file)? {
        Loaded::Skipped(left) => return Err(io::Error::other(left.problem.what)),
        Loaded::Converted(text, _) => return Ok(text),
        Loaded::Plain => reader.file_bytes,
        Loaded::Unpacked => reader.unpacked,
    };
    TextEncoding::new(options)
        .decode(&mut bytes)
        .map_err(io::Error::other)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

pub(super) fn ensure_size(bytes: u64, most_bytes: u64) -> Result<(), String> {
    if bytes > most_bytes {
        Err(too_large(most_bytes))
    } else {
        Ok(())
    }
}

/// With `lossy`, each byte that is not UTF-8 becomes a `?`, so that every other byte stays where it was.
pub fn ensure_utf8(bytes: &mut [u8], lossy: bool) -> Result<(), String> {
    let Err(error) = std::str::from_utf8(bytes) else {
        return Ok(());
    };
    if !lossy {
        return Err(format!(
            "not UTF-8 at byte {}; {}",
            error.valid_up_to(),
            SkippedKind::NotUtf8.remedy().unwrap_or_default()
        ));
    }
    let mut at = error.valid_up_to();
    while let Err(error) = std::str::from_utf8(&bytes[at..]) {
        let wrong = at + error.valid_up_to();
        at = error
            .error_len()
            .map_or(bytes.len(), |length| wrong + length);
        bytes[wrong..at].fill(b'?');
    }
    Ok(())
}
