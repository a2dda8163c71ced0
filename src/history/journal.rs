//! The journal: what came since the last segment, as it came.
//!
//! A head, then groups of records, each with a checksum. A group that is not whole at the end of a journal was being written, or was not
//! yet on disk, when the machine or the program died: it is cut off. Each group also says how much of the file was known to be on disk
//! when it was written: so a byte that was altered where the disk had promised to keep it is told from a write that never ended.

use super::young::Added;
use crate::{
    error::{Error, Place, Result},
    files::durable,
    format::{Fields, PRINT_BYTES, Print, put_varint},
};
use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 8] = *b"\x89DEDHJ\r\n";
const VERSION: u64 = 1;
const HEAD_BYTES: usize = 32;
const GROUP_MAGIC: u64 = 0x5055_4f52_4758_4e48;
const GROUP_BYTES: usize = 40;
const ADD: u8 = 1;
const REMOVE: u8 = 2;

/// When what was written is made sure to be on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncEvery {
    /// Before each answer.
    Each,
    /// At most so long after it, and the time that the disk takes.
    Interval(Duration),
    /// At the end, and with each segment.
    Never,
}

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    Add(Added),
    Remove(u64),
}

/// What a journal held.
pub struct Replayed {
    pub lines: Vec<Line>,
    pub first_sequence: u64,
    /// How much of it is whole, and how much is not.
    pub whole_bytes: u64,
    pub torn_bytes: u64,
    /// A group says that groups before it were on disk; then all journals before this one were, too.
    pub is_promised: bool,
}

/// A journal that is written to.
pub struct Journal {
    kept: Arc<Kept>,
    buffer: Vec<u8>,
    is_changed: bool,
    _syncer: Option<Syncer>,
}

/// How far a journal is written, how far it is on disk, and what went wrong on the way there.
struct Kept {
    file: File,
    path: PathBuf,
    written: AtomicU64,
    synced: AtomicU64,
    failed: Mutex<Option<Error>>,
    /// The one before it, until that is on disk: so there is never a gap in what was promised.
    before: Mutex<Option<Arc<Self>>>,
}

impl Kept {
    fn sync(&self) -> Result<()> {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = &*before {
            kept.sync()?;
        }
        *before = None;
        let written = self.written.load(Ordering::Acquire);
        if written > self.synced.load(Ordering::Acquire) {
            self.file.sync_data().map_err(|error| Error::io(self.path.display(), error))?;
            self.synced.fetch_max(written, Ordering::AcqRel);
        }
        Ok(())
    }
}

impl Journal {
    /// Makes a new one; its name is on disk when this returns.
    pub fn create(path: &Path, first_sequence: u64, every: SyncEvery) -> Result<Self> {
        let failed = |error| Error::io(path.display(), error);
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&first_sequence.to_le_bytes());
        head.extend_from_slice(&xxh3_64(&head).to_le_bytes());
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(path).map_err(failed)?;
        file.write_all(&head).and_then(|()| file.sync_all()).map_err(failed)?;
        durable::sync_dir(durable::parent_of(path))?;
        Self::over(file, path, HEAD_BYTES as u64, every)
    }

    /// Nothing of it is promised before all of that one is on disk.
    pub fn follow(&mut self, before: &Self) {
        *self.kept.before.lock().unwrap_or_else(PoisonError::into_inner) = Some(before.kept.clone());
    }

    /// Goes on with one that was read; what was not whole is cut off.
    pub fn append_to(path: &Path, replayed: &Replayed, every: SyncEvery) -> Result<Self> {
        let failed = |error| Error::io(path.display(), error);
        let file = OpenOptions::new().append(true).open(path).map_err(failed)?;
        if replayed.torn_bytes > 0 {
            file.set_len(replayed.whole_bytes).map_err(failed)?;
        }
        // What was read, a process that was killed may have left to the system alone.
        file.sync_all().map_err(failed)?;
        Self::over(file, path, replayed.whole_bytes, every)
    }

    fn over(file: File, path: &Path, bytes: u64, every: SyncEvery) -> Result<Self> {
        let (written, synced) = (AtomicU64::new(bytes), AtomicU64::new(bytes));
        let kept = Arc::new(Kept { file, path: path.to_owned(), written, synced, failed: Mutex::default(), before: Mutex::default() });
        let syncer = match every {
            SyncEvery::Interval(interval) => Some(Syncer::start(kept.clone(), interval)?),
            SyncEvery::Each | SyncEvery::Never => None,
        };
        Ok(Self { kept, buffer: Vec::new(), is_changed: false, _syncer: syncer })
    }

    /// Writes lines as one group.
    pub fn append(&mut self, lines: &[Line]) -> Result<()> {
        self.tell_failure()?;
        if lines.is_empty() {
            return Ok(());
        }
        self.is_changed = true;
        self.append_group(lines)
    }

    /// Makes sure of all that was written, and says so: a group without lines, whose loss would be none.
    pub fn finish(&mut self) -> Result<()> {
        self.sync()?;
        if std::mem::take(&mut self.is_changed) { self.append_group(&[]) } else { Ok(()) }
    }

    fn append_group(&mut self, lines: &[Line]) -> Result<()> {
        self.buffer.clear();
        self.buffer.resize(GROUP_BYTES, 0);
        lines.iter().for_each(|line| line.put(&mut self.buffer));
        let payload = (self.buffer.len() - GROUP_BYTES) as u64;
        let sum = xxh3_64(&self.buffer[GROUP_BYTES..]);
        for (at, word) in [GROUP_MAGIC, payload, self.kept.synced.load(Ordering::Acquire), sum].into_iter().enumerate() {
            self.buffer[8 * at..8 * at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let own = xxh3_64(&self.buffer[..GROUP_BYTES - 8]);
        self.buffer[GROUP_BYTES - 8..GROUP_BYTES].copy_from_slice(&own.to_le_bytes());
        let at = self.kept.written.load(Ordering::Acquire);
        let written = (&self.kept.file).write_all(&self.buffer);
        if let Err(error) = written {
            // Half a group would hide what comes after it.
            let _ = self.kept.file.set_len(at);
            return Err(Error::io(self.kept.path.display(), error));
        }
        self.kept.written.store(at + self.buffer.len() as u64, Ordering::Release);
        Ok(())
    }

    /// Returns when all that was written is on disk.
    pub fn sync(&self) -> Result<()> {
        self.tell_failure()?;
        self.kept.sync()
    }

    fn tell_failure(&self) -> Result<()> {
        self.kept.failed.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

/// A thread that makes sure of what was written, again and again.
struct Syncer {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Syncer {
    fn start(kept: Arc<Kept>, interval: Duration) -> Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let body = move || {
            let mut due = Instant::now() + interval;
            while stopped.recv_timeout(due.saturating_duration_since(Instant::now())) == Err(mpsc::RecvTimeoutError::Timeout) {
                // The time of a sync counts: what is written just after it began waits for no more than the interval before the next begins.
                due = Instant::now() + interval;
                if let Err(error) = kept.sync() {
                    *kept.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                }
            }
        };
        let thread = thread::Builder::new().spawn(body).map_err(|error| Error::io("a thread that syncs", error))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(thread::JoinHandle::join);
    }
}

impl Line {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Add(Added { print, time, id, .. }) => {
                out.push(ADD);
                put_varint(out, u64::from(*time));
                out.extend_from_slice(&print.to_bytes());
                put_varint(out, id.len() as u64);
                out.extend_from_slice(id.as_bytes());
            }
            Self::Remove(sequence) => {
                out.push(REMOVE);
                put_varint(out, *sequence);
            }
        }
    }

    /// The sequence number of what is added is known to whoever counts.
    fn take(fields: &mut Fields<'_>, sequence: u64) -> Result<Self, String> {
        match fields.byte("kind of a line")? {
            ADD => {
                let time = fields.varint("time")? as u32;
                let bytes = fields.take(PRINT_BYTES as u64, "print")?;
                let print = Print::from_bytes(bytes.try_into().map_err(|_| "print")?);
                let length = fields.varint("length of an id")?;
                let id = std::str::from_utf8(fields.take(length, "id")?).map_err(|_| "an id is not UTF-8")?;
                Ok(Self::Add(Added { print, sequence, time, id: id.into() }))
            }
            REMOVE => Ok(Self::Remove(fields.varint("sequence number")?)),
            other => Err(format!("a line of unknown kind {other}")),
        }
    }
}

/// Whether a journal of so many bytes was made ahead of its time, and nothing was written to it.
pub fn is_blank(bytes: u64) -> bool {
    bytes <= HEAD_BYTES as u64
}

/// Reads a journal. It may end in the middle of a group, which was not on disk when the machine died.
pub fn replay(path: &Path) -> Result<Replayed> {
    let mut bytes = Vec::new();
    File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(|error| Error::io(path.display(), error))?;
    let name: Arc<str> = path.display().to_string().into();
    let damaged = |at: usize, what: &str| Err(Error::damaged(Place::byte(&name, at as u64), what));
    if bytes.len() < HEAD_BYTES || bytes[..8] != MAGIC || word(&bytes, 24) != xxh3_64(&bytes[..24]) {
        return damaged(0, "not the journal of a history, or its head was altered");
    }
    if word(&bytes, 8) != VERSION {
        return damaged(8, &format!("version {}, this program reads version {VERSION}", word(&bytes, 8)));
    }
    let (first_sequence, mut at, mut lines) = (word(&bytes, 16), HEAD_BYTES, Vec::new());
    let (mut next, mut is_promised) = (first_sequence, false);
    while let Some(payload) = group(&bytes[at..]) {
        let mut fields = Fields::new(payload);
        while !fields.is_empty() {
            match Line::take(&mut fields, next) {
                Ok(line) => {
                    next += u64::from(matches!(line, Line::Add(_)));
                    lines.push(line);
                }
                Err(what) => return damaged(at, &what),
            }
        }
        is_promised |= word(&bytes[at..], 16) > HEAD_BYTES as u64;
        at += GROUP_BYTES + payload.len();
    }
    if at < bytes.len() && was_promised(&bytes, at) {
        return Err(altered(path, at as u64));
    }
    Ok(Replayed { lines, first_sequence, whole_bytes: at as u64, torn_bytes: (bytes.len() - at) as u64, is_promised })
}

/// A group that must have been whole is not.
pub fn altered(path: &Path, at: u64) -> Error {
    let place = Place::byte(&path.display().to_string().into(), at);
    Error::damaged(place, "a group of entries does not match its checksum; the journal was altered")
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

/// The lines of a group that begins here, if it is whole.
fn group(bytes: &[u8]) -> Option<&[u8]> {
    let _ = head(bytes)?;
    let payload = bytes[GROUP_BYTES..].get(..usize::try_from(word(bytes, 8)).ok()?)?;
    (xxh3_64(payload) == word(bytes, 24)).then_some(payload)
}

/// How much was on disk when a group that begins here was written.
fn head(bytes: &[u8]) -> Option<u64> {
    let is_head = bytes.len() >= GROUP_BYTES && word(bytes, 0) == GROUP_MAGIC && xxh3_64(&bytes[..GROUP_BYTES - 8]) == word(bytes, 32);
    is_head.then(|| word(bytes, 16))
}

/// Whether a later group says that what is not whole here was on disk.
fn was_promised(bytes: &[u8], at: usize) -> bool {
    let magic = GROUP_MAGIC.to_le_bytes();
    memchr::memmem::find_iter(&bytes[at..], &magic).any(|found| head(&bytes[at + found..]).is_some_and(|synced| synced > at as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn added(sequence: u64) -> Line {
        Line::Add(Added { print: Print([sequence; 4]), sequence, time: 7, id: format!("id {sequence}").into() })
    }

    fn journal(directory: &Path) -> PathBuf {
        let path = directory.join("000001.journal");
        let mut journal = Journal::create(&path, 5, SyncEvery::Each).unwrap();
        journal.append(&[added(5), added(6)]).unwrap();
        journal.sync().unwrap();
        journal.append(&[Line::Remove(5), added(7)]).unwrap();
        path
    }

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = journal(directory.path());
        let replayed = replay(&path).unwrap();
        assert_eq!(replayed.lines, [added(5), added(6), Line::Remove(5), added(7)]);
        assert_eq!((replayed.first_sequence, replayed.torn_bytes), (5, 0));
        Journal::append_to(&path, &replayed, SyncEvery::Never).unwrap().append(&[added(8)]).unwrap();
        assert_eq!(replay(&path).unwrap().lines.len(), 5);
    }

    /// The second group says that the first was on disk: a cut is a write that did not end, a flip in the first is damage.
    #[test]
    fn a_cut_loses_the_end_and_a_flip_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = journal(directory.path());
        let bytes = fs::read(&path).unwrap();
        let second = HEAD_BYTES + GROUP_BYTES + word(&bytes, HEAD_BYTES + 8) as usize;
        for at in 0..bytes.len() {
            fs::write(&path, &bytes[..at]).unwrap();
            match replay(&path) {
                Ok(replayed) => assert_eq!(replayed.lines.len(), if at < second { 0 } else { 2 }),
                Err(_) => assert!(at < HEAD_BYTES),
            }
            let mut altered = bytes.clone();
            altered[at] ^= 1 << (at % 8);
            fs::write(&path, &altered).unwrap();
            match replay(&path) {
                Ok(replayed) => assert!(at >= second && replayed.lines.len() == 2, "{at}"),
                Err(error) => assert!(at < second && error.to_string().contains("000001.journal: byte "), "{at}: {error}"),
            }
        }
    }
}
