//! All documents of a corpus as chunks, in order.
//!
//! Small files are only named here and read by the workers. A file of many records is cut into chunks; with
//! several threads, the next few such files are read and unpacked ahead, each on a thread of its own.

use super::{
    Options, Records,
    chunk::{CHUNK_BYTES, Chunk, Chunks, Container, Layout},
    unpack::{Input, Packing, peek, unpack},
    walk::{Entries, Entry, Found},
};
use crate::{
    error::{Error, Place, Problem, Result},
    format::{BlockReader, Header, MAGIC},
    parallel::Weighted,
};
use serde::de::IgnoredAny;
use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    sync::mpsc,
    thread,
};

/// Chunks of one file that wait for a worker.
const AHEAD_CHUNKS: usize = 8;
/// Files of one chunk: a bound for corpora of many tiny ones.
const CHUNK_FILES: usize = 64;

pub struct Source {
    entries: Entries,
    options: Options,
    /// Files that are one document each, not yet enough for a chunk.
    batch: Vec<Entry>,
    batch_bytes: u64,
    pending: VecDeque<Pending>,
    ahead: usize,
    schemes: Vec<Header>,
}

enum Pending {
    Ready(Weighted<Chunk>),
    Failed(Error),
    Container(Option<(Header, Place)>, Feed),
}

/// Chunks made on demand, or by a thread that runs ahead.
enum Feed {
    Here(Box<Chunks>),
    Ahead(mpsc::Receiver<Result<Weighted<Chunk>>>),
}

impl Source {
    pub fn new(options: Options, threads: usize) -> Result<Self> {
        let entries = Entries::new(&options)?;
        Ok(Self { entries, options, batch: Vec::new(), batch_bytes: 0, pending: VecDeque::new(), ahead: threads, schemes: Vec::new() })
    }

    /// How the corpus opens, if it opens with a stream of ours.
    pub fn first_header(&mut self) -> Option<&Header> {
        self.fill();
        let first = self.pending.iter().find(|pending| !matches!(pending, Pending::Ready(Weighted { item: Chunk::Problem(_), .. })));
        match first {
            Some(Pending::Container(Some((header, _)), _)) => Some(header),
            _ => None,
        }
    }

    /// Refuses streams with other headers than these.
    pub fn expect(&mut self, schemes: Vec<Header>) {
        self.schemes = schemes;
    }

    fn ensure_expected(&self, header: &Header, place: &Place) -> Result<()> {
        if self.schemes.contains(header) {
            return Ok(());
        }
        match self.schemes.iter().find(|expected| expected.kind == header.kind) {
            Some(expected) => Err(Error::Scheme {
                place: place.clone(),
                found: header.scheme.clone(),
                expected: expected.scheme.clone(),
                remedy: "give the same options to both, or leave them out to take those of the stream",
            }),
            None => Err(Error::damaged(place.clone(), format!("a stream of {}, which this program does not read", header.kind.name()))),
        }
    }

    /// Looks ahead as far as there are threads to use it.
    fn fill(&mut self) {
        while self.pending.len() < self.ahead {
            let Some(found) = self.entries.next() else {
                return self.flush_batch();
            };
            match found {
                Found::Problem(problem) => self.push_problem(problem),
                Found::File(entry) => self.see(entry),
                Found::Failed(error) => {
                    self.flush_batch();
                    self.pending.push_back(Pending::Failed(error));
                }
            }
        }
    }

    fn see(&mut self, entry: Entry) {
        match self.open(&entry) {
            Ok(None) => {
                self.batch_bytes += entry.bytes * if Packing::of_name(&entry.path) == Packing::Plain { 1 } else { 4 };
                self.batch.push(entry);
                if self.batch_bytes >= CHUNK_BYTES as u64 || self.batch.len() >= CHUNK_FILES {
                    self.flush_batch();
                }
            }
            Ok(Some(pending)) => {
                self.flush_batch();
                self.pending.push_back(pending);
            }
            Err(error) => self.push_problem(Problem::new(Place::file(entry.name()), error.to_string())),
        }
    }

    fn push_problem(&mut self, problem: Problem) {
        self.flush_batch();
        self.pending.push_back(Pending::Ready(Weighted { item: Chunk::Problem(problem), bytes: 0 }));
    }

    fn flush_batch(&mut self) {
        if !self.batch.is_empty() {
            let item = Chunk::Files(std::mem::take(&mut self.batch));
            self.pending.push_back(Pending::Ready(Weighted { item, bytes: std::mem::take(&mut self.batch_bytes) }));
        }
    }

    /// Opens what must be read here: files of many records, streams, pipes. None for a plain document.
    fn open(&self, entry: &Entry) -> io::Result<Option<Pending>> {
        let records = self.options.records.or_else(|| records_of_name(&entry.path));
        if !entry.is_named && matches!(records, None | Some(Records::Text)) && !self.options.prefer_fasta {
            return Ok(None);
        }
        let (head, input) = sniff(open_input(entry)?)?;
        if head.starts_with(&MAGIC) {
            return Ok(Some(self.open_blocks(entry, input)));
        }
        let guess = self.options.prefer_fasta && head.starts_with(b">");
        let layout = match records {
            Some(Records::Ndjson) => Layout::Ndjson,
            Some(Records::Lines) => Layout::Lines,
            Some(Records::Fasta) => Layout::Fasta,
            None if guess => Layout::Fasta,
            None if entry.is_named && is_ndjson(&head, entry) => Layout::Ndjson,
            _ if entry.is_regular => return Ok(None),
            _ => return whole(entry, input).map(Some),
        };
        Ok(Some(self.open_lines(entry, layout, &head, input)))
    }

    fn open_blocks(&self, entry: &Entry, input: Input) -> Pending {
        match BlockReader::open(input, entry.name()) {
            Err(error) => Pending::Failed(error),
            Ok(reader) => {
                let header = Some(reader.header().clone());
                let of = Container { id: entry.id.clone(), file: entry.name(), layout: Layout::Binary, header };
                self.feed(Chunks::blocks(of, reader))
            }
        }
    }

    fn open_lines(&self, entry: &Entry, layout: Layout, head: &[u8], input: Input) -> Pending {
        let is_stream = layout == Layout::Ndjson && Header::is_likely(head);
        let header = match is_stream.then(|| Header::parse(head.split(|&byte| byte == b'\n').next().unwrap_or_default())).transpose() {
            Ok(header) => header,
            Err(what) => return Pending::Failed(Error::damaged(Place::line(&entry.name(), 1), what)),
        };
        self.feed(Chunks::lines(Container { id: entry.id.clone(), file: entry.name(), layout, header }, input))
    }

    fn feed(&self, chunks: Chunks) -> Pending {
        let of = chunks.container();
        let header = of.header.clone().map(|header| (header, Place::file(of.file.clone())));
        if self.ahead <= 1 {
            return Pending::Container(header, Feed::Here(Box::new(chunks)));
        }
        let (send, receive) = mpsc::sync_channel(AHEAD_CHUNKS);
        // The thread ends with the file, or when nobody receives any more.
        thread::spawn(move || chunks.map(|chunk| send.send(chunk)).take_while(Result::is_ok).for_each(drop));
        Pending::Container(header, Feed::Ahead(receive))
    }
}

impl Iterator for Source {
    type Item = Result<Weighted<Chunk>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.fill();
            match self.pending.pop_front()? {
                Pending::Ready(chunk) => return Some(Ok(chunk)),
                Pending::Failed(error) => return Some(Err(error)),
                Pending::Container(Some((header, place)), feed) => {
                    if let Err(error) = self.ensure_expected(&header, &place) {
                        return Some(Err(error));
                    }
                    self.pending.push_front(Pending::Container(None, feed));
                }
                Pending::Container(None, mut feed) => {
                    if let Some(chunk) = feed.next() {
                        self.pending.push_front(Pending::Container(None, feed));
                        return Some(chunk);
                    }
                }
            }
        }
    }
}

impl Feed {
    fn next(&mut self) -> Option<Result<Weighted<Chunk>>> {
        match self {
            Self::Here(chunks) => chunks.next(),
            Self::Ahead(receive) => receive.recv().ok(),
        }
    }
}

/// What a name promises: `.jsonl` and `.ndjson`, packed or not.
fn records_of_name(path: &Path) -> Option<Records> {
    let inner = if Packing::of_name(path) == Packing::Plain { path } else { Path::new(path.file_stem()?) };
    matches!(inner.extension()?.to_str()?, "jsonl" | "ndjson").then_some(Records::Ndjson)
}

fn open_input(entry: &Entry) -> io::Result<Input> {
    if entry.is_stdin() {
        return unpack(BufReader::with_capacity(1 << 16, io::stdin()));
    }
    unpack(BufReader::with_capacity(1 << 16, File::open(&entry.path)?))
}

/// The first bytes of an input, the whole first line where it may be JSON, and the input as if they had not been read.
fn sniff(input: Input) -> io::Result<(Vec<u8>, Input)> {
    let (mut head, mut input) = peek(input, MAGIC.len() as u64)?;
    if head.trim_ascii_start().starts_with(b"{") {
        let mut line = Vec::new();
        input.read_until(b'\n', &mut line)?;
        head.clone_from(&line);
        return Ok((head, Box::new(io::Cursor::new(line).chain(input))));
    }
    Ok((head, Box::new(input)))
}

/// Whether a pipe, or a file that a user named, holds NDJSON though nothing says so: a stream of ours always does, and so does a
/// pipe whose first line is an object.
fn is_ndjson(head: &[u8], entry: &Entry) -> bool {
    Header::is_likely(head)
        || (!entry.is_regular && head.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(head).is_ok())
}

fn whole(entry: &Entry, mut input: Input) -> io::Result<Pending> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    let weight = bytes.len() as u64;
    let item = Chunk::Whole { id: entry.id.clone(), file: entry.name(), bytes };
    Ok(Pending::Ready(Weighted { item, bytes: weight }))
}
