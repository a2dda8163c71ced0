//! All documents of a corpus as chunks, in order.
//!
//! Small files are only named here and read by the workers. A file of many records is cut into chunks; with
//! several threads, the next few such files are read and unpacked ahead, each on a thread of its own. A pipe is opened
//! only when its turn comes, and nothing past it is: its writer may be waiting for us to be done with another one.

use super::{
    Options,
    account::SkippedFile,
    chunk::{CHUNK_BYTES, Chunk, ChunkIter},
    format::{Parts, Records},
    opener::{Candidate, Opened, Opener},
    skipped_kind::BOM,
    sniff::Sniffed,
    unpack::{Packing, inner_name, read_bounded, unpacked_bytes},
    walk::{CorpusWalk, FileEntry, WalkItem},
};
use crate::base::num::ToU64;
use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        parallel::Weighted,
    },
    text::{
        scheme::TokenScheme,
        stream::{Header, StreamKind},
    },
};
use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

/// Chunks of one file that wait for a worker; a large one waits alone.
const AHEAD_CHUNKS: usize = 4;
const AHEAD_BYTES: u64 = (AHEAD_CHUNKS * CHUNK_BYTES) as u64;
/// Files that are open at once. With the chunks that wait, about 5 MiB are read ahead, or as many times the longest record.
const AHEAD_FILES: usize = 4;
/// Files of one chunk: a bound for corpora of many tiny ones.
const CHUNK_FILES: usize = 64;

/// About what a message takes.
const PROBLEM_BYTES: u64 = 256;
/// How often a reader that is blocked on input checks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// All documents of a corpus as chunks, in order.
pub struct Source {
    entries: Box<dyn Iterator<Item = WalkItem> + Send>,
    opener: Arc<Opener>,
    /// What is left of the file that was opened last.
    parts: Option<FileParts>,
    /// Files that are one document each, not yet enough for a chunk.
    batch: Vec<FileEntry>,
    batch_bytes: u64,
    /// A pipe is always the last of them.
    pending: VecDeque<Pending>,
    ahead: usize,
    schemes: Vec<Header>,
    keeps_markup: bool,
    stop: Arc<AtomicBool>,
}

/// A file of many records whose parts are opened one after the other.
struct FileParts {
    file: Arc<str>,
    is_live: bool,
    parts: Parts,
}

enum Pending {
    Ready(Weighted<Chunk>),
    Failed(Error),
    /// A pipe or terminal that is not opened yet.
    Later(FileEntry),
    Container(Option<(Header, Place)>, ContainerFeed),
}

impl Pending {
    fn left_out(left: SkippedFile) -> Self {
        Self::Ready(Weighted {
            item: Chunk::Skipped(left),
            bytes: PROBLEM_BYTES,
        })
    }

    fn unreadable(entry: &FileEntry, error: &io::Error) -> Self {
        Self::left_out(SkippedFile::unreadable(Problem::new(
            Place::file(entry.name()),
            error.to_string(),
        )))
    }

    fn is_left_out(&self) -> bool {
        matches!(
            self,
            Self::Ready(Weighted {
                item: Chunk::Skipped(_),
                ..
            })
        )
    }

    fn is_live(&self) -> bool {
        match self {
            Self::Later(_) => true,
            Self::Container(_, feed) => feed.is_live,
            Self::Ready(_) | Self::Failed(_) => false,
        }
    }
}

struct ContainerFeed {
    file: Arc<str>,
    is_live: bool,
    chunks: ChunkFeed,
}

/// Chunks made on demand, or by a thread that runs ahead and sends a `None` at the end.
enum ChunkFeed {
    Here(ChunkIter),
    Ahead(mpsc::Receiver<Option<Result<Weighted<Chunk>>>>, BacklogRoom),
}

/// How many bytes wait for a worker, and whether the receiver is gone.
#[derive(Default, Clone)]
struct BacklogRoom(Arc<(Mutex<(u64, bool)>, Condvar)>);

impl BacklogRoom {
    /// Waits until there is room for these bytes, or nothing else waits; false if the receiver is gone.
    fn enter(&self, bytes: u64) -> bool {
        let (state, freed) = &*self.0;
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |(waiting, is_closed): &mut (u64, bool)| {
            !*is_closed && *waiting > 0 && *waiting + bytes > AHEAD_BYTES
        };
        let mut state = freed
            .wait_while(state, is_full)
            .unwrap_or_else(PoisonError::into_inner);
        state.0 += bytes;
        !state.1
    }

    fn leave(&self, bytes: u64) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).0 -= bytes;
        self.0.1.notify_all();
    }

    fn close(&self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.0.1.notify_all();
    }
}

impl Drop for ChunkFeed {
    fn drop(&mut self) {
        if let Self::Ahead(_, room) = self {
            room.close();
        }
    }
}

impl Source {
    /// Reads what the options name.
    pub fn new(options: Options, threads: usize) -> Result<Self> {
        let entries = CorpusWalk::new(&options)?;
        Self::over(Box::new(entries), options, threads)
    }

    /// Reads these files only.
    pub fn of(entries: Vec<FileEntry>, options: Options, threads: usize) -> Result<Self> {
        Self::over(
            Box::new(entries.into_iter().map(WalkItem::File)),
            options,
            threads,
        )
    }

    /// Reads the files of an iterator.
    pub fn over(
        entries: Box<dyn Iterator<Item = WalkItem> + Send>,
        options: Options,
        threads: usize,
    ) -> Result<Self> {
        Ok(Self {
            entries,
            opener: Arc::new(Opener::new(options)?),
            parts: None,
            batch: Vec::new(),
            batch_bytes: 0,
            pending: VecDeque::new(),
            ahead: threads.min(AHEAD_FILES),
            schemes: Vec::new(),
            keeps_markup: false,
            stop: Arc::default(),
        })
    }

    /// The header of the first stream, if the corpus starts with one. Call it before reading chunks.
    pub fn first_header(&mut self) -> Option<&(Header, Place)> {
        // Skipped files do not count, however many there are: all pending ones but the last are such.
        while self.batch.is_empty() {
            match self.pending.pop_back() {
                Some(Pending::Later(entry)) => {
                    let opened = self.open_now(&entry);
                    self.pending.extend(opened);
                }
                Some(last) => {
                    let is_left_out = last.is_left_out();
                    self.pending.push_back(last);
                    if !(is_left_out && self.open_next()) {
                        break;
                    }
                }
                None if self.open_next() => {}
                None => break,
            }
        }
        match self.pending.back() {
            Some(Pending::Container(header, _)) if self.batch.is_empty() => header.as_ref(),
            _ => None,
        }
    }

    /// A flag that makes a reader blocked on input stop: its result is no longer wanted.
    pub fn stop(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    /// Refuses streams with other headers than these.
    ///
    /// Where the tokenizer strips HTML, files are read with their markup, as its spans refer to that.
    pub fn expect(&mut self, schemes: Vec<Header>) {
        let strips_html = |header: &Header| {
            let scheme = header.scheme.parse::<TokenScheme>();
            header.kind == StreamKind::Tokens && scheme.is_ok_and(|scheme| scheme.strips_html())
        };
        self.keeps_markup = schemes.iter().any(strips_html);
        self.schemes = schemes;
    }

    /// How workers read the documents.
    pub fn reading(&self) -> Options {
        let options = &self.opener.options;
        Options {
            keep_markup: options.keep_markup || self.keeps_markup,
            ..options.clone()
        }
    }

    fn ensure_expected(&self, header: &Header, place: &Place) -> Result<()> {
        if self.schemes.contains(header) {
            return Ok(());
        }
        match self
            .schemes
            .iter()
            .find(|expected| expected.kind == header.kind)
        {
            Some(expected) => Err(Error::Scheme {
                place: place.clone(),
                found: header.scheme.clone(),
                expected: expected.scheme.clone(),
                remedy: "give the same options to both, or leave them out to take those of the stream",
            }),
            None if header.kind == StreamKind::Prints => {
                let what = "a stream of prints, which has no blots to index or tokens to read; dedup-query history takes it";
                Err(Error::damaged(place.clone(), what))
            }
            None => Err(Error::damaged(
                place.clone(),
                format!(
                    "a stream of {}, which this program does not read",
                    header.kind.name()
                ),
            )),
        }
    }

    /// Opens files ahead, as far as there are threads to use them.
    fn fill(&mut self) {
        while self.pending.len() < self.ahead && !self.pending.back().is_some_and(Pending::is_live)
        {
            if !self.open_next() {
                return self.flush_batch();
            }
        }
    }

    /// False if there is nothing left.
    fn open_next(&mut self) -> bool {
        if let Some(part) = self.next_part(None) {
            self.push(part);
            return true;
        }
        match self.entries.next() {
            None => return false,
            Some(WalkItem::Problem(problem)) => {
                self.push(Pending::left_out(SkippedFile::unreadable(problem)))
            }
            Some(WalkItem::Skipped(left)) => self.push(Pending::left_out(left)),
            Some(WalkItem::Failed(error)) => self.push(Pending::Failed(error)),
            Some(WalkItem::File(entry)) if entry.is_regular => self.add_file(entry),
            Some(WalkItem::File(entry)) => self.push(Pending::Later(entry)),
        }
        true
    }

    fn add_file(&mut self, entry: FileEntry) {
        match self.open(&entry) {
            Ok(None) => {
                let weight = self.weight(&entry);
                if weight >= CHUNK_BYTES.to_u64() {
                    // Nothing waits with it in memory.
                    self.flush_batch();
                }
                self.batch_bytes += weight;
                self.batch.push(entry);
                if self.batch_bytes >= CHUNK_BYTES.to_u64() || self.batch.len() >= CHUNK_FILES {
                    self.flush_batch();
                }
            }
            Ok(Some(pending)) => self.push(pending),
            Err(error) => self.push(Pending::unreadable(&entry, &error)),
        }
    }

    /// About the bytes of a document. Large ones delay others while they are in flight.
    fn weight(&self, entry: &FileEntry) -> u64 {
        if Packing::of_name(&entry.path) == Packing::Plain {
            return entry.bytes;
        }
        let bytes = entry
            .open()
            .map_or(entry.bytes, |file| unpacked_bytes(&file, entry.bytes));
        bytes.min(self.opener.options.max_document)
    }

    /// Opens a pipe whose turn has come; it may hold nothing at all.
    fn open_now(&mut self, entry: &FileEntry) -> Option<Pending> {
        self.open(entry)
            .unwrap_or_else(|error| Some(Pending::unreadable(entry, &error)))
    }

    fn push(&mut self, pending: Pending) {
        self.flush_batch();
        self.pending.push_back(pending);
    }

    fn flush_batch(&mut self) {
        if !self.batch.is_empty() {
            let item = Chunk::Files(std::mem::take(&mut self.batch));
            self.pending.push_back(Pending::Ready(Weighted {
                item,
                bytes: std::mem::take(&mut self.batch_bytes),
            }));
        }
    }

    /// Opens what must be read here: files of many records, archives, streams, pipes. None for a file that is one document, and for
    /// a stdin without a byte: that is no document but a program before us that had none.
    fn open(&mut self, entry: &FileEntry) -> io::Result<Option<Pending>> {
        if let Some(part) = &entry.part {
            let opened = self.opener.open_part(entry, part);
            return self.pending(entry, opened);
        }
        let name = inner_name(&entry.path);
        if entry.is_regular && !self.must_sniff(entry, Records::of_name(&name)) {
            return Ok(None);
        }
        let sniffed = Sniffed::open(entry, &self.opener.options)?;
        // Where the user says what it is, an empty document is one.
        if entry.is_stdin() && sniffed.is_empty() && self.opener.options.records.is_none() {
            return Ok(None);
        }
        let is_plain = entry.is_regular && sniffed.packing == Packing::Plain;
        let candidate = Candidate {
            id: entry.id.clone(),
            file: entry.name(),
            name,
            disk: is_plain.then(|| entry.open()).transpose()?,
            sniffed,
            is_regular: entry.is_regular,
            is_named: entry.is_named,
            depth: 0,
        };
        let opened = self.opener.open(candidate);
        self.pending(entry, opened)
    }

    /// What is to be read of a file that was opened.
    fn pending(&mut self, entry: &FileEntry, opened: Opened) -> io::Result<Option<Pending>> {
        Ok(match opened {
            Opened::Document(_) if entry.is_regular => None,
            Opened::Document(candidate) => Some(self.whole(entry, candidate.sniffed)?),
            Opened::Skipped(skipped) => Some(Pending::left_out(skipped)),
            Opened::Failed(error) => Some(Pending::Failed(error)),
            Opened::Records { header, parts } => {
                self.parts = Some(FileParts {
                    file: entry.name(),
                    is_live: !entry.is_regular,
                    parts,
                });
                self.next_part(header)
            }
        })
    }

    /// The next part of the file that was opened last.
    fn next_part(&mut self, header: Option<(Header, Place)>) -> Option<Pending> {
        let of = self.parts.as_mut()?;
        let Some(chunks) = of.parts.next() else {
            self.parts = None;
            return None;
        };
        let chunks = if self.ahead <= 1 {
            ChunkFeed::Here(chunks)
        } else {
            run_ahead(chunks)
        };
        let feed = ContainerFeed {
            file: of.file.clone(),
            is_live: of.is_live,
            chunks,
        };
        Some(Pending::Container(header, feed))
    }

    /// Whether a file may be more than one document.
    fn must_sniff(&self, entry: &FileEntry, named: Option<Records>) -> bool {
        let options = &self.opener.options;
        let may_hold_records = || match (options.records, named) {
            (Some(Records::Text), _) | (None, Some(Records::Text)) => {
                Packing::of_name(&entry.path) != Packing::Plain || Sniffed::may_hold_records(entry)
            }
            (None, None) => {
                Packing::of_name(&entry.path) != Packing::Plain || Sniffed::may_hold_anything(entry)
            }
            _ => true,
        };
        entry.is_named || options.prefer_fasta || may_hold_records()
    }

    /// All of a pipe as one document; a byte-order mark is part of it, as it is in a file.
    fn whole(&self, entry: &FileEntry, sniffed: Sniffed) -> io::Result<Pending> {
        let most_bytes = self.opener.options.max_document;
        let mut bytes = if sniffed.has_bom {
            BOM.to_vec()
        } else {
            Vec::new()
        };
        if !read_bounded(sniffed.input, most_bytes, &mut bytes)? {
            return Ok(Pending::left_out(SkippedFile::too_large(
                entry.name(),
                most_bytes,
            )));
        }
        let weight = bytes.len().to_u64();
        let item = Chunk::Whole {
            id: entry.id.clone(),
            file: entry.name(),
            name: inner_name(&entry.path),
            within: sniffed.packing,
            is_named: true,
            bytes,
        };
        Ok(Pending::Ready(Weighted {
            item,
            bytes: weight,
        }))
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
                Pending::Later(entry) => {
                    let opened = self.open_now(&entry);
                    self.pending.extend(opened);
                }
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

/// The thread ends with the file, or when the receiver is gone.
fn run_ahead(chunks: ChunkIter) -> ChunkFeed {
    let (send, receive) = mpsc::sync_channel(AHEAD_CHUNKS);
    let room = BacklogRoom::default();
    let entered = room.clone();
    let send_all = move || {
        chunks.map(Some).chain([None]).try_for_each(|chunk| {
            let is_wanted = entered.enter(weight_of(chunk.as_ref()));
            is_wanted
                .then_some(chunk)
                .and_then(|chunk| send.send(chunk).ok())
        })
    };
    // If the system refuses a thread, the sender is dropped, and the receiver reports it.
    let _ = thread::Builder::new().spawn(send_all);
    ChunkFeed::Ahead(receive, room)
}

fn weight_of(chunk: Option<&Result<Weighted<Chunk>>>) -> u64 {
    chunk
        .and_then(|chunk| chunk.as_ref().ok())
        .map_or(0, |chunk| chunk.bytes)
}

impl ContainerFeed {
    fn next(&mut self, stop: &AtomicBool) -> Option<Result<Weighted<Chunk>>> {
        let (receive, room) = match &mut self.chunks {
            ChunkFeed::Here(chunks) => return chunks.next(),
            ChunkFeed::Ahead(receive, room) => (receive, room),
        };
        while !stop.load(Ordering::Relaxed) {
            match receive.recv_timeout(PATIENCE) {
                Ok(chunk) => {
                    room.leave(weight_of(chunk.as_ref()));
                    return chunk;
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_dies_is_not_the_end_of_a_file() {
        let (send, receive) = mpsc::sync_channel(1);
        let mut feed = ContainerFeed {
            file: "a".into(),
            is_live: false,
            chunks: ChunkFeed::Ahead(receive, BacklogRoom::default()),
        };
        send.send(None).unwrap();
        assert!(feed.next(&AtomicBool::new(false)).is_none());
        drop(send);
        assert_eq!(
            feed.next(&AtomicBool::new(false))
                .unwrap()
                .err()
                .unwrap()
                .to_string(),
            "a: the thread that read it died"
        );
    }
}
