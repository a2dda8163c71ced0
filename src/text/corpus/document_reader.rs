//! Turns a chunk into documents, on a worker's thread.

use super::{
    Options, Records,
    account::{Account, SkippedFile, SkippedInput, too_large},
    chunk::{Chunk, Container},
    format::RecordPiece,
    skipped_kind::{HEAD_BYTES, SkippedKind, inner_name, is_binary},
    unpack::{Packing, decoder, read_bounded},
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
}

/// Receives documents and skipped input, in order.
pub type Visit<'v> = dyn FnMut(Result<InputDocument<'_>, SkippedInput>) + 'v;

/// Reads the documents of chunks; owns buffers that are reused.
pub struct DocumentReader {
    pub(super) fields: LineParser,
    records: Option<Records>,
    pub(super) lossy: bool,
    pub(super) max_document: u64,
    file_bytes: Vec<u8>,
    unpacked: Vec<u8>,
    pub(super) tokens: Tokens,
    pub(super) blots: Blots,
}

/// A file up to this size takes one read; of a larger one the head is checked before the rest is read.
const SNIFF_BYTES: u64 = 1 << 20;

/// How the text of a file was loaded, or why it is skipped.
enum Loaded {
    Text(Packing),
    Skipped(SkippedFile),
}

impl DocumentReader {
    /// A reader with empty buffers.
    pub fn new(options: &Options) -> Self {
        Self {
            fields: options.fields.clone(),
            records: options.records,
            lossy: options.lossy,
            max_document: options.max_document,
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
            Chunk::Records { .. } | Chunk::Block { .. } | Chunk::Problem(_) | Chunk::Skipped(_) => {
                0
            }
        };
        let is_stream = matches!(&chunk, Chunk::Opened(of) if of.header.is_some());
        let mut account = Account::default();
        self.read_chunk(chunk, &mut |found| {
            account.count(&found);
            visit(found);
        })?;
        account.files = files.saturating_sub(account.files_left_out());
        account.streams = is_stream.into();
        // Frees the buffers of a very large document.
        self.tokens.clear();
        self.blots.clear();
        Ok(account)
    }

    fn read_chunk(&mut self, chunk: Chunk, visit: &mut Visit<'_>) -> Result<()> {
        match chunk {
            Chunk::Opened(_) => {}
            Chunk::Files(entries) => entries
                .iter()
                .for_each(|entry| self.read_file(entry, visit)),
            Chunk::Whole {
                id,
                file,
                mut bytes,
            } => match SkippedKind::of(&bytes, Path::new(""), self.records) {
                Some(kind) => visit(Err(SkippedInput::File(SkippedFile::new(
                    file,
                    kind,
                    Packing::Plain,
                    true,
                )))),
                None => visit_file(&id, &file, &mut bytes, self.lossy, visit),
            },
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
        match entry.open().and_then(|file| self.load(entry, file)) {
            Err(error) => {
                let problem = Problem::new(Place::path(&entry.path), error.to_string());
                visit(Err(SkippedInput::File(SkippedFile::unreadable(problem))));
            }
            Ok(Loaded::Skipped(left)) => visit(Err(SkippedInput::File(left))),
            Ok(Loaded::Text(packing)) => {
                let bytes = if packing == Packing::Plain {
                    &mut self.file_bytes
                } else {
                    &mut self.unpacked
                };
                visit_file(&entry.id, &entry.name(), bytes, self.lossy, visit);
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
        if packing != Packing::Plain {
            return self.unpack(entry, packing, file);
        }
        if let Some(left) = self.skip_reason(entry, packing, &self.file_bytes) {
            return Ok(Loaded::Skipped(left));
        }
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
                Loaded::Text(packing)
            },
        )
    }

    /// Unpacks a file of which the head was read; the rest is never in memory as it is packed.
    fn unpack(&mut self, entry: &FileEntry, packing: Packing, rest: File) -> io::Result<Loaded> {
        self.unpacked.clear();
        let mut unpacked = std::mem::take(&mut self.unpacked);
        let mut input = decoder(BufReader::new(self.file_bytes.chain(rest)), packing)?;
        input
            .by_ref()
            .take(HEAD_BYTES.to_u64())
            .read_to_end(&mut unpacked)?;
        let loaded = match self.skip_reason(entry, packing, &unpacked) {
            Some(left) => Loaded::Skipped(left),
            None if read_bounded(input, self.max_document, &mut unpacked)? => Loaded::Text(packing),
            None => Loaded::Skipped(SkippedFile::too_large(entry.name(), self.max_document)),
        };
        self.unpacked = unpacked;
        Ok(loaded)
    }

    /// Why a file is left out, if its first bytes show a reason. One that was named is read although it looks binary.
    fn skip_reason(&self, entry: &FileEntry, within: Packing, head: &[u8]) -> Option<SkippedFile> {
        let unknown = || (!entry.is_named && is_binary(head)).then_some(SkippedKind::UnknownBinary);
        let kind = SkippedKind::of(head, inner_name(&entry.path), self.records).or_else(unknown)?;
        Some(SkippedFile::new(entry.name(), kind, within, entry.is_named))
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

/// A file that is one document.
pub(super) fn visit_file(
    id: &str,
    file: &Arc<str>,
    bytes: &mut [u8],
    lossy: bool,
    visit: &mut Visit<'_>,
) {
    match ensure_utf8(bytes, lossy) {
        Err(what) => visit(Err(SkippedInput::File(SkippedFile::not_utf8(
            file.clone(),
            what,
        )))),
        Ok(()) => visit_text(id, file, None, bytes, visit),
    }
}

/// A document in a file of several.
pub(super) fn visit_line(
    id: &str,
    file: &Arc<str>,
    line: u64,
    bytes: &mut [u8],
    lossy: bool,
    visit: &mut Visit<'_>,
) {
    match ensure_utf8(bytes, lossy) {
        Err(what) => visit(Err(Problem::new(Place::line(file, line), what).into())),
        Ok(()) => visit_text(id, file, Some(line), bytes, visit),
    }
}

/// A document whose bytes were found to be UTF-8.
fn visit_text(id: &str, file: &Arc<str>, line: Option<u64>, bytes: &[u8], visit: &mut Visit<'_>) {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    visit(Ok(InputDocument {
        id,
        file,
        line,
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
    let mut reader = DocumentReader {
        records: Some(Records::Text),
        ..DocumentReader::new(options)
    };
    let mut bytes = match reader.load(&entry, file)? {
        Loaded::Skipped(left) => return Err(io::Error::other(left.problem.what)),
        Loaded::Text(Packing::Plain) => reader.file_bytes,
        Loaded::Text(_) => reader.unpacked,
    };
    ensure_utf8(&mut bytes, options.lossy).map_err(io::Error::other)?;
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
