//! Turns a chunk into documents, on a worker's thread.

use super::{
    Options,
    chunk::{Chunk, Container, Layout},
    unpack::{MOST_BYTES, Packing, read_bounded, unpack_all},
    walk::Entry,
};
use crate::{
    error::{Error, Place, Problem, Result},
    format::{
        Block, BlotCodec, Blots, Header, Kind, Line, LineParser, Parsed, PrintCodec, Printed, TokenCodec, Tokens, empty, parse_record,
    },
    scheme::BlotScheme,
};
use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    sync::Arc,
};

/// One document, as text or already tokenised or blotted by another program.
#[derive(Debug)]
pub struct Item<'a> {
    pub id: &'a str,
    pub file: &'a Arc<str>,
    /// Where a file holds many documents.
    pub line: Option<u64>,
    /// The size of the text, where it is known.
    pub bytes: Option<u64>,
    pub hash: Option<u128>,
    pub content: Content<'a>,
}

#[derive(Debug)]
pub enum Content<'a> {
    Text(&'a str),
    Tokens(&'a Tokens),
    Blots(&'a Blots),
    Print(Printed),
}

impl Item<'_> {
    pub fn place(&self) -> Place {
        self.line.map_or_else(|| Place::file(self.file.clone()), |line| Place::line(self.file, line))
    }
}

/// Takes documents and problems as they are found.
pub type Visit<'v> = dyn FnMut(Result<Item<'_>, Problem>) + 'v;

/// Reads chunks; owns the buffers that are used again and again.
pub struct Reader {
    fields: LineParser,
    lossy: bool,
    file_bytes: Vec<u8>,
    unpacked: Vec<u8>,
    tokens: Tokens,
    blots: Blots,
}

/// How much of a file is looked at to tell text from other data.
const HEAD_BYTES: usize = 8192;
/// Past this a file in a directory is read only once its head was found to be text.
const SNIFF_BYTES: u64 = 1 << 20;

impl Reader {
    pub fn new(options: &Options) -> Self {
        Self {
            fields: options.fields.clone(),
            lossy: options.lossy,
            file_bytes: Vec::new(),
            unpacked: Vec::new(),
            tokens: Tokens::default(),
            blots: Blots::default(),
        }
    }

    /// Visits every document of a chunk in order. An error means that the rest of a stream cannot be trusted.
    pub fn read(&mut self, chunk: Chunk, visit: &mut Visit<'_>) -> Result<()> {
        match chunk {
            Chunk::Files(entries) => entries.iter().for_each(|entry| self.read_file(entry, visit)),
            Chunk::Whole { id, file, mut bytes } => visit_text(&id, &file, None, &mut bytes, self.lossy, visit),
            Chunk::Records { of, first_line, bytes } => self.read_records(&of, first_line, bytes, visit)?,
            Chunk::Block { of, block } => self.read_block(&of, &block, visit)?,
            Chunk::Problem(problem) => visit(Err(problem)),
        }
        // One giant must not be kept for ever after.
        self.tokens.clear();
        self.blots.clear();
        Ok(())
    }

    fn read_file(&mut self, entry: &Entry, visit: &mut Visit<'_>) {
        match self.load(entry) {
            Err(error) => visit(Err(Problem::new(Place::path(&entry.path), error.to_string()))),
            Ok(None) => {}
            Ok(Some(packing)) => {
                let bytes = if packing == Packing::Plain { &mut self.file_bytes } else { &mut self.unpacked };
                if entry.is_named || !is_binary(bytes) {
                    visit_text(&entry.id, &entry.name(), None, bytes, self.lossy, visit);
                }
            }
        }
        empty(&mut self.file_bytes);
        empty(&mut self.unpacked);
    }

    /// Where the text of a file is now; none if its head shows that it has none.
    fn load(&mut self, entry: &Entry) -> io::Result<Option<Packing>> {
        if read_whole(entry, &mut self.file_bytes)? { self.unpack(entry).map(Some) } else { Ok(None) }
    }

    fn unpack(&mut self, entry: &Entry) -> io::Result<Packing> {
        let (packing, promised) = (Packing::of(&self.file_bytes), Packing::of_name(&entry.path));
        if promised != Packing::Plain && promised != packing {
            return Err(io::Error::other(format!("its name promises {}, its first bytes are not that", promised.name())));
        }
        if packing != Packing::Plain {
            unpack_all(&self.file_bytes, packing, &mut self.unpacked)?;
        }
        Ok(packing)
    }

    fn read_records(&mut self, of: &Container, first_line: u64, mut bytes: Vec<u8>, visit: &mut Visit<'_>) -> Result<()> {
        if of.layout == Layout::Fasta {
            read_fasta(of, first_line, &mut bytes, self.lossy, visit);
            return Ok(());
        }
        for (line, number) in bytes.split_mut(|&byte| byte == b'\n').zip(first_line..) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            if of.layout == Layout::Lines {
                let id = format!("{}:{number}", of.id);
                let end = line.len() - usize::from(line.ends_with(b"\r"));
                visit_text(&id, &of.file, Some(number), &mut line[..end], self.lossy, visit);
            } else {
                self.read_line(of, number, line, visit);
            }
        }
        Ok(())
    }

    fn read_line(&mut self, of: &Container, number: u64, line: &mut [u8], visit: &mut Visit<'_>) {
        let problem = |what: String| Problem::new(Place::line(&of.file, number), what);
        if let Err(what) = ensure_utf8(line, self.lossy) {
            return visit(Err(problem(what)));
        }
        let parsed = match &of.header {
            Some(header) => parse_record(line, &mut self.tokens, &mut self.blots).and_then(|line| ensure_belongs(header, line)),
            None => self.fields.parse(line, &mut self.tokens, &mut self.blots),
        };
        let item = |id, bytes, hash, content| Item { id, file: &of.file, line: Some(number), bytes, hash, content };
        match parsed {
            Err(what) => visit(Err(problem(what))),
            Ok(Line::Header(_)) if of.header.is_none() => visit(Err(problem("the header of a stream amid other lines".to_owned()))),
            Ok(Line::End { .. }) if of.header.is_none() => visit(Err(problem("an end record without its header".to_owned()))),
            Ok(Line::Header(_) | Line::End { .. }) => {}
            Ok(Line::Document { id, text }) => {
                let id = id.unwrap_or_else(|| format!("{}:{number}", of.id).into());
                match ensure_size(text.len() as u64) {
                    Err(what) => visit(Err(problem(what))),
                    Ok(()) => visit(Ok(item(&id, Some(text.len() as u64), None, Content::Text(&text)))),
                }
            }
            Ok(Line::Tokens(found)) => visit(Ok(item(&found.doc, found.bytes, found.hash, Content::Tokens(&self.tokens)))),
            Ok(Line::Blots(found)) => visit(Ok(item(&found.doc, found.bytes, found.hash, Content::Blots(&self.blots)))),
            Ok(Line::Print(found, printed)) => visit(Ok(item(&found.doc, found.bytes, found.hash, Content::Print(printed)))),
        }
    }

    fn read_block(&mut self, of: &Container, block: &Block, visit: &mut Visit<'_>) -> Result<()> {
        let damaged = |what: String| Error::damaged(block.place.clone(), format!("{what}; the stream was altered"));
        let Some(header) = &of.header else {
            return Err(damaged("a block without a header".to_owned()));
        };
        let mut fields = block.open()?;
        for _ in 0..block.records {
            let (record, content) = match header.kind {
                Kind::Tokens => {
                    let record = TokenCodec { with_spans: true }.read_binary(&mut fields, &mut self.tokens).map_err(damaged)?;
                    (record, Content::Tokens(&self.tokens))
                }
                Kind::Blots => {
                    let bits = header.scheme.parse::<BlotScheme>().map_err(damaged)?.bits;
                    let codec = BlotCodec { bits, with_positions: true };
                    (codec.read_binary(&mut fields, &mut self.blots).map_err(damaged)?, Content::Blots(&self.blots))
                }
                Kind::Prints => {
                    let (record, printed) = PrintCodec.read_binary(&mut fields).map_err(damaged)?;
                    (record, Content::Print(printed))
                }
            };
            visit(Ok(Item { id: record.doc, file: &of.file, line: None, bytes: record.bytes, hash: record.hash, content }));
        }
        if fields.is_empty() { Ok(()) } else { Err(damaged(format!("{} bytes after the last record of a block", fields.left()))) }
    }
}

/// Refuses a record that cannot be of the stream it stands in: what follows would take it for something else.
fn ensure_belongs<'a>(header: &Header, line: Line<'a>) -> Result<Line<'a>, String> {
    let kind = match &line {
        Line::Tokens(_) => Kind::Tokens,
        Line::Blots(_) => Kind::Blots,
        Line::Print(..) => Kind::Prints,
        Line::Header(_) | Line::End { .. } | Line::Document { .. } => return Ok(line),
    };
    if kind != header.kind {
        return Err(format!("a record of {} in a stream of {}", kind.name(), header.kind.name()));
    }
    if let Line::Blots(Parsed { digits: Some((least, greatest)), .. }) = line {
        let bits = header.scheme.parse::<BlotScheme>()?.bits;
        let expected = BlotCodec { bits, with_positions: false }.digits();
        if let Some(wrong) = [least, greatest].into_iter().find(|&digits| digits != expected) {
            return Err(format!("a blot of {wrong} hex digits, the scheme's {bits} bits are {expected}"));
        }
    }
    Ok(line)
}

impl Packing {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "text",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// Reads a file; false if it lies in a directory and its head shows that it holds no text, so that the rest is left unread.
///
/// An ordinary file takes one read: it ended if as much came as was promised, though there was room for a byte more. Where the
/// size is told as 0 (/proc) or a read falls short, only a read of nothing is the end.
fn read_whole(entry: &Entry, buffer: &mut Vec<u8>) -> io::Result<bool> {
    buffer.clear();
    let mut file = entry.open()?;
    let mut filled = 0;
    if !entry.is_named && entry.bytes > SNIFF_BYTES {
        offer(buffer, HEAD_BYTES)?;
        filled = read_some(&mut file, buffer)?;
        if Packing::of(&buffer[..filled]) == Packing::Plain && is_binary(&buffer[..filled]) {
            return Ok(false);
        }
    }
    ensure_size(entry.bytes).map_err(io::Error::other)?;
    let expected = entry.bytes as usize;
    offer(buffer, if expected == 0 { HEAD_BYTES } else { expected + 1 })?;
    loop {
        let count = read_some(&mut file, &mut buffer[filled..])?;
        filled += count;
        if count == 0 || (filled == expected && expected > 0) {
            break;
        }
        if filled == buffer.len() {
            // It grew meanwhile, or never told its size.
            ensure_size(filled as u64).map_err(io::Error::other)?;
            offer(buffer, 2 * filled)?;
        }
    }
    buffer.truncate(filled);
    Ok(true)
}

/// Makes room without aborting where there is no memory for it: the size comes from outside.
fn offer(buffer: &mut Vec<u8>, bytes: usize) -> io::Result<()> {
    buffer.try_reserve_exact(bytes.saturating_sub(buffer.len()))?;
    buffer.resize(bytes.max(buffer.len()), 0);
    Ok(())
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

/// Files found in a directory are left out when they hold no text: NUL bytes amid bytes that are not UTF-8, or more than one
/// NUL in 32 bytes. A stray NUL in a text is no reason to lose it.
fn is_binary(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(HEAD_BYTES)];
    let nuls = memchr::memchr_iter(0, head).count();
    nuls > 0 && (32 * nuls > head.len() || std::str::from_utf8(head).is_err_and(|error| error.error_len().is_some()))
}

fn visit_text(id: &str, file: &Arc<str>, line: Option<u64>, bytes: &mut [u8], lossy: bool, visit: &mut Visit<'_>) {
    let place = || line.map_or_else(|| Place::file(file.clone()), |line| Place::line(file, line));
    if let Err(what) = ensure_size(bytes.len() as u64).and_then(|()| ensure_utf8(bytes, lossy)) {
        return visit(Err(Problem::new(place(), what)));
    }
    // Checked right above.
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    visit(Ok(Item { id, file, line, bytes: Some(bytes.len() as u64), hash: None, content: Content::Text(text) }));
}

/// The text of a file that is one document, packed or not; `lossy` as in [`Options`].
pub fn read_text(path: &Path, lossy: bool) -> io::Result<String> {
    read_open_text(File::open(path)?, lossy)
}

/// The same of a file that is open. Never reads more than the largest document has.
pub fn read_open_text(file: File, lossy: bool) -> io::Result<String> {
    let (mut packed, mut text) = (Vec::new(), Vec::new());
    read_bounded(file, MOST_BYTES, &mut packed)?;
    unpack_all(&packed, Packing::of(&packed), &mut text)?;
    ensure_utf8(&mut text, lossy).map_err(io::Error::other)?;
    String::from_utf8(text).map_err(io::Error::other)
}

/// Spans are 32 bits wide.
fn ensure_size(bytes: u64) -> Result<(), String> {
    if bytes >= u64::from(u32::MAX) {
        return Err(format!("a document of {bytes} bytes; 4 GiB is the most, split it"));
    }
    Ok(())
}

/// With `lossy`, each byte that is not UTF-8 becomes a `?`, so that every other byte stays where it was.
pub fn ensure_utf8(bytes: &mut [u8], lossy: bool) -> Result<(), String> {
    let Err(error) = std::str::from_utf8(bytes) else {
        return Ok(());
    };
    if !lossy {
        let remedy = match bytes {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "it is UTF-16: convert it with iconv -f UTF-16 -t UTF-8",
            _ => "convert it with iconv, or read it as it is with --lossy",
        };
        return Err(format!("not UTF-8 at byte {}; {remedy}", error.valid_up_to()));
    }
    let mut at = error.valid_up_to();
    while let Err(error) = std::str::from_utf8(&bytes[at..]) {
        let wrong = at + error.valid_up_to();
        at = error.error_len().map_or(bytes.len(), |length| wrong + length);
        bytes[wrong..at].fill(b'?');
    }
    Ok(())
}

pub(super) fn read_fasta(of: &Container, first_line: u64, bytes: &mut [u8], lossy: bool, visit: &mut Visit<'_>) {
    let (mut at, mut line) = (0, first_line);
    while at < bytes.len() {
        let next = memchr::memmem::find(&bytes[at..], b"\n>").map_or(bytes.len(), |found| at + found + 1);
        let record = &mut bytes[at..next];
        let lines = memchr::memchr_iter(b'\n', record).count() as u64;
        if record.first() == Some(&b'>') {
            read_sequence(of, line, record, lossy, visit);
        } else if !record.trim_ascii().is_empty() {
            visit(Err(Problem::new(Place::line(&of.file, line), "text before the first '>'; for plain sequences use --records text")));
        }
        at = next;
        line += lines;
    }
}

/// One record of FASTA, its head included: the first word of that is the id.
fn read_sequence(of: &Container, line: u64, record: &mut [u8], lossy: bool, visit: &mut Visit<'_>) {
    let head_end = memchr::memchr(b'\n', record).map_or(record.len(), |end| end + 1);
    let (head, sequence) = record.split_at_mut(head_end);
    if let Err(what) = ensure_utf8(head, lossy) {
        return visit(Err(Problem::new(Place::line(&of.file, line), what)));
    }
    // Checked right above.
    let name = std::str::from_utf8(&head[1..]).unwrap_or_default();
    let id = name.split_ascii_whitespace().next().map_or_else(|| format!("{}:{line}", of.id), str::to_owned);
    visit_text(&id, &of.file, Some(line), sequence, lossy, visit);
}
