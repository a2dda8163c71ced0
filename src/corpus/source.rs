//! All documents of a corpus as chunks, in order.
//!
//! Small files are only named here and read by the workers. A file of many records is cut into chunks; with
//! several threads, the next few such files are read and unpacked ahead, each on a thread of its own. A pipe is opened
//! only when its turn comes, and nothing past it is: its writer may be waiting for us to be done with another one.

use super::{
    Options, Records,
    chunk::{CHUNK_BYTES, Chunk, Chunks, Container, Layout, READ_BYTES},
    unpack::{Input, MOST_BYTES, Once, Packing, peek, read_bounded, too_large, unpack},
    walk::{Entries, Entry, Found},
};
use crate::{
    error::{Error, Place, Problem, Result},
    format::{BlockReader, Header, Kind, MAGIC},
    parallel::Weighted,
};
use serde::de::IgnoredAny;
use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

/// Chunks of one file that wait for a worker.
const AHEAD_CHUNKS: usize = 4;
/// Files that are open at once. With the chunks that wait, about 5 MiB are read ahead, or as many times the longest record.
const AHEAD_FILES: usize = 4;
/// Files of one chunk: a bound for corpora of many tiny ones.
const CHUNK_FILES: usize = 64;

/// About what a message takes.
const PROBLEM_BYTES: u64 = 256;
/// How often a reader that waits for input looks whether it is still wanted.
const PATIENCE: Duration = Duration::from_millis(50);

pub struct Source {
    entries: Box<dyn Iterator<Item = Found> + Send>,
    options: Options,
    /// Files that are one document each, not yet enough for a chunk.
    batch: Vec<Entry>,
    batch_bytes: u64,
    /// A pipe is always the last of them.
    pending: VecDeque<Pending>,
    ahead: usize,
    schemes: Vec<Header>,
    stop: Arc<AtomicBool>,
}

enum Pending {
    Ready(Weighted<Chunk>),
    Failed(Error),
    /// Not a regular file, and not opened yet.
    Later(Entry),
    Container(Option<(Header, Place)>, Feed),
}

impl Pending {
    fn problem(problem: Problem) -> Self {
        Self::Ready(Weighted { item: Chunk::Problem(problem), bytes: PROBLEM_BYTES })
    }

    fn is_problem(&self) -> bool {
        matches!(self, Self::Ready(Weighted { item: Chunk::Problem(_), .. }))
    }

    fn is_live(&self) -> bool {
        match self {
            Self::Later(_) => true,
            Self::Container(_, feed) => feed.is_live,
            Self::Ready(_) | Self::Failed(_) => false,
        }
    }
}

struct Feed {
    file: Arc<str>,
    is_live: bool,
    chunks: Feeding,
}

/// Chunks made on demand, or by a thread that runs ahead and sends a `None` at the end.
enum Feeding {
    Here(Box<Chunks>),
    Ahead(mpsc::Receiver<Option<Result<Weighted<Chunk>>>>),
}

impl Source {
    pub fn new(options: Options, threads: usize) -> Result<Self> {
        let entries = Entries::new(&options)?;
        Ok(Self::over(Box::new(entries), options, threads))
    }

    /// Reads these files only.
    pub fn of(entries: Vec<Entry>, options: Options, threads: usize) -> Self {
        Self::over(Box::new(entries.into_iter().map(Found::File)), options, threads)
    }

    /// Reads what is found in this way.
    pub fn over(entries: Box<dyn Iterator<Item = Found> + Send>, options: Options, threads: usize) -> Self {
        Self {
            entries,
            options,
            batch: Vec::new(),
            batch_bytes: 0,
            pending: VecDeque::new(),
            ahead: threads.min(AHEAD_FILES),
            schemes: Vec::new(),
            stop: Arc::default(),
        }
    }

    /// How the corpus opens, if it opens with a stream of ours. To be asked before anything is read.
    pub fn first_header(&mut self) -> Option<&(Header, Place)> {
        // What cannot be read is passed over, however much it is: so all but the last are problems.
        while self.batch.is_empty() {
            match self.pending.pop_back() {
                Some(Pending::Later(entry)) => self.pending.extend(self.open_now(&entry)),
                Some(last) => {
                    let is_problem = last.is_problem();
                    self.pending.push_back(last);
                    if !(is_problem && self.see_next()) {
                        break;
                    }
                }
                None if self.see_next() => {}
                None => break,
            }
        }
        match self.pending.back() {
            Some(Pending::Container(header, _)) if self.batch.is_empty() => header.as_ref(),
            _ => None,
        }
    }

    /// Set it, and a reader that waits for input gives up: nobody wants what may still come.
    pub fn stop(&self) -> Arc<AtomicBool> {
        self.stop.clone()
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
            None if header.kind == Kind::Prints => {
                let what = "a stream of prints, which has no blots to index or tokens to read; dedup-query --history takes it";
                Err(Error::damaged(place.clone(), what))
            }
            None => Err(Error::damaged(place.clone(), format!("a stream of {}, which this program does not read", header.kind.name()))),
        }
    }

    /// Looks ahead as far as there are threads to use it.
    fn fill(&mut self) {
        while self.pending.len() < self.ahead && !self.pending.back().is_some_and(Pending::is_live) {
            if !self.see_next() {
                return self.flush_batch();
            }
        }
    }

    /// False if there is nothing left.
    fn see_next(&mut self) -> bool {
        match self.entries.next() {
            None => return false,
            Some(Found::Problem(problem)) => self.push(Pending::problem(problem)),
            Some(Found::Failed(error)) => self.push(Pending::Failed(error)),
            Some(Found::File(entry)) if entry.is_regular => self.see(entry),
            Some(Found::File(entry)) => self.push(Pending::Later(entry)),
        }
        true
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
            Ok(Some(pending)) => self.push(pending),
            Err(error) => self.push(Pending::problem(Problem::new(Place::file(entry.name()), error.to_string()))),
        }
    }

    /// Opens a pipe whose turn has come; it may hold nothing at all.
    fn open_now(&self, entry: &Entry) -> Option<Pending> {
        self.open(entry).unwrap_or_else(|error| Some(Pending::problem(Problem::new(Place::file(entry.name()), error.to_string()))))
    }

    fn push(&mut self, pending: Pending) {
        self.flush_batch();
        self.pending.push_back(pending);
    }

    fn flush_batch(&mut self) {
        if !self.batch.is_empty() {
            let item = Chunk::Files(std::mem::take(&mut self.batch));
            self.pending.push_back(Pending::Ready(Weighted { item, bytes: std::mem::take(&mut self.batch_bytes) }));
        }
    }

    /// Opens what must be read here: files of many records, streams, pipes. None for a file that is a plain document, and for a stdin
    /// without a byte: that is no document but a program before us that had none.
    fn open(&self, entry: &Entry) -> io::Result<Option<Pending>> {
        let records = self.options.records.or_else(|| records_of_name(&entry.path));
        if !entry.is_named && matches!(records, None | Some(Records::Text)) && !self.options.prefer_fasta {
            return Ok(None);
        }
        let Sniffed { head, has_bom, input } = sniff(open_input(entry)?)?;
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
            None if entry.is_stdin() && head.is_empty() && !has_bom => return Ok(None),
            _ if entry.is_regular => return Ok(None),
            _ => return whole(entry, has_bom, input).map(Some),
        };
        Ok(Some(self.open_lines(entry, layout, &head, input)))
    }

    fn open_blocks(&self, entry: &Entry, input: Input) -> Pending {
        match BlockReader::open(input, entry.name()) {
            Err(error) => Pending::Failed(error),
            Ok(reader) => {
                let header = Some(reader.header().clone());
                self.feed(Chunks::blocks(container(entry, Layout::Binary, header), reader))
            }
        }
    }

    fn open_lines(&self, entry: &Entry, layout: Layout, head: &[u8], input: Input) -> Pending {
        let is_stream = layout == Layout::Ndjson && Header::is_likely(head);
        match is_stream.then(|| Header::parse(head)).transpose() {
            Ok(header) => self.feed(Chunks::lines(container(entry, layout, header), input)),
            Err(what) => Pending::Failed(Error::damaged(Place::line(&entry.name(), 1), what)),
        }
    }

    fn feed(&self, chunks: Chunks) -> Pending {
        let of = chunks.container();
        let header = of.header.clone().map(|header| (header, Place::file(of.file.clone())));
        let (file, is_live) = (of.file.clone(), of.is_live);
        let chunks = if self.ahead <= 1 { Feeding::Here(Box::new(chunks)) } else { run_ahead(chunks) };
        Pending::Container(header, Feed { file, is_live, chunks })
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
                Pending::Later(entry) => self.pending.extend(self.open_now(&entry)),
                Pending::Container(Some((header, place)), feed) => {
                    if let Err(error) = self.ensure_expected(&header, &place) {
                        return Some(Err(error));
                    }
                    self.pending.push_front(Pending::Container(None, feed));
                }
                Pending::Container(None, mut feed) => {
                    if let Some(chunk) = feed.next(&self.stop) {
                        self.pending.push_front(Pending::Container(None, feed));
                        return Some(chunk);
                    }
                }
            }
        }
    }
}

/// The thread ends with the file, or when nobody receives any more.
fn run_ahead(chunks: Chunks) -> Feeding {
    let (send, receive) = mpsc::sync_channel(AHEAD_CHUNKS);
    // If there is no thread to be had, nobody sends, and the reader says so.
    let _ = thread::Builder::new().spawn(move || chunks.map(Some).chain([None]).try_for_each(|chunk| send.send(chunk)));
    Feeding::Ahead(receive)
}

impl Feed {
    fn next(&mut self, stop: &AtomicBool) -> Option<Result<Weighted<Chunk>>> {
        let receive = match &mut self.chunks {
            Feeding::Here(chunks) => return chunks.next(),
            Feeding::Ahead(receive) => receive,
        };
        while !stop.load(Ordering::Relaxed) {
            match receive.recv_timeout(PATIENCE) {
                Ok(chunk) => return chunk,
                Err(RecvTimeoutError::Timeout) => {}
                // A thread that died has sent no end: what it read must not pass for all there is.
                Err(RecvTimeoutError::Disconnected) => {
                    let cause = io::Error::other("the thread that read it died");
                    return Some(Err(Error::io(&self.file, cause)));
                }
            }
        }
        None
    }
}

fn container(entry: &Entry, layout: Layout, header: Option<Header>) -> Container {
    Container { id: entry.id.clone(), file: entry.name(), layout, is_live: !entry.is_regular, header }
}

/// What a name promises: `.jsonl` and `.ndjson`, packed or not.
fn records_of_name(path: &Path) -> Option<Records> {
    let inner = if Packing::of_name(path) == Packing::Plain { path } else { Path::new(path.file_stem()?) };
    matches!(inner.extension()?.to_str()?, "jsonl" | "ndjson").then_some(Records::Ndjson)
}

fn open_input(entry: &Entry) -> io::Result<Input> {
    if entry.is_stdin() {
        return unpack(BufReader::with_capacity(READ_BYTES, Once::new(io::stdin())));
    }
    unpack(BufReader::with_capacity(READ_BYTES, Once::new(entry.open()?)))
}

/// What was learned of an input from its beginning.
struct Sniffed {
    /// The first bytes, the whole first line where it may be JSON.
    head: Vec<u8>,
    /// A byte-order mark came before them, and was taken away.
    has_bom: bool,
    /// As if the head had not been read.
    input: Input,
}

const BOM: &[u8] = b"\xef\xbb\xbf";

fn sniff(input: Input) -> io::Result<Sniffed> {
    let (mut head, mut input) = peek(input, is_undecided)?;
    let has_bom = head.starts_with(BOM);
    if has_bom {
        input.consume(BOM.len());
        head.drain(..BOM.len());
    }
    if !head.trim_ascii_start().starts_with(b"{") {
        return Ok(Sniffed { head, has_bom, input: Box::new(input) });
    }
    head.clear();
    if input.by_ref().take(MOST_BYTES + 1).read_until(b'\n', &mut head)? as u64 > MOST_BYTES {
        return Err(too_large(MOST_BYTES));
    }
    Ok(Sniffed { head: head.clone(), has_bom, input: Box::new(io::Cursor::new(head).chain(input)) })
}

/// Whether more bytes are needed to tell what an input is: a binary stream, something that may be JSON, or neither.
fn is_undecided(head: &[u8]) -> bool {
    let rest = head.strip_prefix(BOM).unwrap_or(head);
    let may_be_bom = head.len() < BOM.len() && BOM.starts_with(head);
    may_be_bom || (rest.len() < MAGIC.len() && (MAGIC.starts_with(rest) || rest.trim_ascii().is_empty()))
}

/// Whether a pipe, or a file that a user named, holds NDJSON though nothing says so: a stream of ours always does, and so does a
/// pipe whose first line is an object.
fn is_ndjson(head: &[u8], entry: &Entry) -> bool {
    Header::is_likely(head)
        || (!entry.is_regular && head.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(head).is_ok())
}

/// All of a pipe as one document; a byte-order mark is part of it, as it is in a file.
fn whole(entry: &Entry, has_bom: bool, input: Input) -> io::Result<Pending> {
    let mut bytes = if has_bom { BOM.to_vec() } else { Vec::new() };
    read_bounded(input, MOST_BYTES, &mut bytes)?;
    let weight = bytes.len() as u64;
    let item = Chunk::Whole { id: entry.id.clone(), file: entry.name(), bytes };
    Ok(Pending::Ready(Weighted { item, bytes: weight }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one line, and must not be asked for another.
    struct OneLine(Option<&'static [u8]>);

    impl Read for OneLine {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let line = self.0.take().expect("a read too many");
            buffer[..line.len()].copy_from_slice(line);
            Ok(line.len())
        }
    }

    #[test]
    fn a_line_that_has_come_is_enough_to_tell() {
        for (line, head, has_bom) in [
            (&b"x\n"[..], &b"x"[..], false),
            (b"{}\n", b"{}\n", false),
            (b"\xef\xbb\xbf{}\n", b"{}\n", true),
            (b"\xef\xbb\xbfx", b"x", true),
            (b"\x89D\n", b"\x89D\n", false),
        ] {
            let sniffed = sniff(Box::new(BufReader::new(OneLine(Some(line))))).unwrap();
            assert_eq!((&sniffed.head[..], sniffed.has_bom), (head, has_bom));
        }
    }

    #[test]
    fn a_thread_that_dies_is_not_the_end_of_a_file() {
        let (send, receive) = mpsc::sync_channel(1);
        let mut feed = Feed { file: "a".into(), is_live: false, chunks: Feeding::Ahead(receive) };
        send.send(None).unwrap();
        assert!(feed.next(&AtomicBool::new(false)).is_none());
        drop(send);
        assert_eq!(feed.next(&AtomicBool::new(false)).unwrap().err().unwrap().to_string(), "a: the thread that read it died");
    }
}
