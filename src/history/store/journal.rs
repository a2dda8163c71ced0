//! The journal: what came since the last segment, as it came.
//!
//! A head, then groups of records, each with a checksum. A group that is not whole at the end of a journal was being written, or was not
//! yet on disk, when the machine or the program died: it was never synced, and is cut off. How much of a journal was on disk for
//! sure is in [`super::synced_lengths`], and each group says how much that was when it was written: so a journal that was cut or
//! altered is told from a write that never ended.

use super::{manifest::journal_path, memtable::NewEntry, synced_lengths::SyncedLengths};

use crate::{
    base::{
        codec::{Fields, put_varint},
        error::{Error, Place, Result},
        files::durable,
    },
    text::stream::{PRINT_BYTES, Print},
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
pub enum SyncPolicy {
    /// Before each answer.
    Each,
    /// At most so long after it, and the time that the disk takes.
    Interval(Duration),
    /// At the end, and with each segment.
    Never,
}

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalRecord {
    Add(NewEntry),
    Remove(u64),
}

/// What a journal held.
pub struct ReplayedJournal {
    pub lines: Vec<JournalRecord>,
    pub first_sequence: u64,
    /// How much of it is whole, and how much is not.
    pub whole_bytes: u64,
    pub unfinished_bytes: u64,
}

/// A journal that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalLength {
    pub number: u64,
    pub whole_bytes: u64,
    /// Of a group at its end that is not whole: nothing of it was synced.
    pub unfinished_bytes: u64,
}

/// The journals of a history, for a writer.
#[derive(Clone)]
pub struct JournalDirectory {
    pub directory: PathBuf,
    pub every: SyncPolicy,
    pub synced_lengths: Arc<SyncedLengths>,
}

/// A journal that is written to.
pub struct Journal {
    kept: Arc<JournalFile>,
    buffer: Vec<u8>,
    _syncer: Option<JournalSyncer>,
}

/// How far a journal is written, how far it is on disk, and what went wrong on the way there.
struct JournalFile {
    file: File,
    path: PathBuf,
    number: u64,
    synced_lengths: Arc<SyncedLengths>,
    written: AtomicU64,
    synced: AtomicU64,
    failed: Mutex<Option<Error>>,
    /// The one before it, until that is on disk: so there is never a gap in what was promised.
    before: Mutex<Option<Arc<Self>>>,
}

impl JournalFile {
    fn sync(&self) -> Result<()> {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = &*before {
            kept.sync()?;
            // A journal that is full is promised as a whole before anything of the next one is.
            self.synced_lengths.sync()?;
        }
        *before = None;
        let written = self.written.load(Ordering::Acquire);
        if written > self.synced.load(Ordering::Acquire) {
            self.file
                .sync_data()
                .map_err(|error| Error::io(self.path.display(), error))?;
            self.synced.fetch_max(written, Ordering::AcqRel);
            self.synced_lengths.note(self.number, written)?;
        }
        Ok(())
    }
}

impl JournalDirectory {
    /// Makes a new one; its name is on disk when this returns.
    pub fn create(&self, number: u64, first_sequence: u64) -> Result<Journal> {
        let path = &journal_path(&self.directory, number);
        let failed = |error| Error::io(path.display(), error);
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&first_sequence.to_le_bytes());
        head.extend_from_slice(&xxh3_64(&head).to_le_bytes());
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .open(path)
            .map_err(failed)?;
        file.write_all(&head)
            .and_then(|()| file.sync_all())
            .map_err(failed)?;
        durable::sync_dir(&self.directory)?;
        self.over(file, number, HEAD_BYTES as u64)
    }

    /// Goes on with one that was read; what was not whole is cut off.
    pub fn append_to(&self, number: u64, replayed: &ReplayedJournal) -> Result<Journal> {
        let path = journal_path(&self.directory, number);
        let failed = |error| Error::io(path.display(), error);
        let file = OpenOptions::new()
            .append(true)
            .open(&path)
            .map_err(failed)?;
        if replayed.unfinished_bytes > 0 {
            file.set_len(replayed.whole_bytes).map_err(failed)?;
        }
        // What was read, a process that was killed may have left to the system alone.
        file.sync_all().map_err(failed)?;
        if !is_blank(replayed.whole_bytes) {
            self.synced_lengths.note(number, replayed.whole_bytes)?;
        }
        self.over(file, number, replayed.whole_bytes)
    }

    fn over(&self, file: File, number: u64, bytes: u64) -> Result<Journal> {
        let (written, synced) = (AtomicU64::new(bytes), AtomicU64::new(bytes));
        let (path, synced_lengths) = (
            journal_path(&self.directory, number),
            self.synced_lengths.clone(),
        );
        let (failed, before) = (Mutex::default(), Mutex::default());
        let kept = Arc::new(JournalFile {
            file,
            path,
            number,
            synced_lengths,
            written,
            synced,
            failed,
            before,
        });
        let syncer = match self.every {
            SyncPolicy::Interval(interval) => Some(JournalSyncer::start(kept.clone(), interval)?),
            SyncPolicy::Each | SyncPolicy::Never => None,
        };
        Ok(Journal {
            kept,
            buffer: Vec::new(),
            _syncer: syncer,
        })
    }
}

impl Journal {
    /// Nothing of it is promised before all of that one is on disk.
    pub fn follow(&mut self, before: &Self) {
        *self
            .kept
            .before
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(before.kept.clone());
    }

    /// Writes lines as one group.
    pub fn append(&mut self, lines: &[JournalRecord]) -> Result<()> {
        self.tell_failure()?;
        if lines.is_empty() {
            return Ok(());
        }
        self.append_group(lines)
    }

    /// Returns when all that was written is on disk, and the promise of it as well.
    pub fn finish(&self) -> Result<()> {
        self.sync()?;
        self.kept.synced_lengths.sync()
    }

    fn append_group(&mut self, lines: &[JournalRecord]) -> Result<()> {
        self.buffer.clear();
        self.buffer.resize(GROUP_BYTES, 0);
        lines.iter().for_each(|line| line.put(&mut self.buffer));
        let payload = (self.buffer.len() - GROUP_BYTES) as u64;
        let sum = xxh3_64(&self.buffer[GROUP_BYTES..]);
        for (at, word) in [
            GROUP_MAGIC,
            payload,
            self.kept.synced.load(Ordering::Acquire),
            sum,
        ]
        .into_iter()
        .enumerate()
        {
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
        self.kept
            .written
            .store(at + self.buffer.len() as u64, Ordering::Release);
        Ok(())
    }

    /// Returns when all that was written is on disk.
    pub fn sync(&self) -> Result<()> {
        self.tell_failure()?;
        self.kept.sync()
    }

    fn tell_failure(&self) -> Result<()> {
        self.kept
            .failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .map_or(Ok(()), Err)
    }
}

/// A thread that makes sure of what was written, again and again.
struct JournalSyncer {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl JournalSyncer {
    fn start(kept: Arc<JournalFile>, interval: Duration) -> Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let body = move || {
            let mut due = Instant::now() + interval;
            while stopped.recv_timeout(due.saturating_duration_since(Instant::now()))
                == Err(mpsc::RecvTimeoutError::Timeout)
            {
                // The time of a sync counts: what is written just after it began waits for no more than the interval before the next begins.
                due = Instant::now() + interval;
                if let Err(error) = kept.sync() {
                    *kept.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                }
            }
        };
        let thread = thread::Builder::new()
            .spawn(body)
            .map_err(|error| Error::io("a thread that syncs", error))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for JournalSyncer {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(thread::JoinHandle::join);
    }
}

impl JournalRecord {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Add(NewEntry {
                print, time, id, ..
            }) => {
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

    /// The next line. An entry that is added has the next sequence number.
    fn take(fields: &mut Fields<'_>, next: u64) -> Result<Self, String> {
        match fields.byte("kind of a line")? {
            ADD => {
                let time = fields.varint("time")? as u32;
                let bytes = fields.take(PRINT_BYTES as u64, "print")?;
                let print = Print::from_bytes(bytes.try_into().map_err(|_| "print")?);
                let length = fields.varint("length of an id")?;
                let id = std::str::from_utf8(fields.take(length, "id")?)
                    .map_err(|_| "an id is not UTF-8")?;
                Ok(Self::Add(NewEntry {
                    print,
                    sequence: next,
                    time,
                    id: id.into(),
                }))
            }
            REMOVE => match fields.varint("sequence number")? {
                sequence if sequence < next => Ok(Self::Remove(sequence)),
                sequence => Err(format!(
                    "entry {sequence} is removed before it was added; the next one is {next}"
                )),
            },
            other => Err(format!("a line of unknown kind {other}")),
        }
    }
}

/// Whether a journal of so many bytes was made ahead of its time, and nothing was written to it.
pub fn is_blank(bytes: u64) -> bool {
    bytes <= HEAD_BYTES as u64
}

/// Reads a journal of which this number of bytes was synced. It may end in the middle of a group after these.
pub fn replay(path: &Path, promised: u64) -> Result<ReplayedJournal> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(|error| Error::io(path.display(), error))?;
    let name: Arc<str> = path.display().to_string().into();
    let damaged = |at: usize, what: &str| Err(Error::damaged(Place::byte(&name, at as u64), what));
    if bytes.len() < HEAD_BYTES || bytes[..8] != MAGIC || word(&bytes, 24) != xxh3_64(&bytes[..24])
    {
        return damaged(0, "not the journal of a history, or its head was altered");
    }
    if word(&bytes, 8) != VERSION {
        return damaged(
            8,
            &format!(
                "version {}, this program reads version {VERSION}",
                word(&bytes, 8)
            ),
        );
    }
    let (first_sequence, mut at, mut lines) = (word(&bytes, 16), HEAD_BYTES, Vec::new());
    let mut next = first_sequence;
    while let Some(payload) = group(&bytes[at..]) {
        let mut fields = Fields::new(payload);
        while !fields.is_empty() {
            match JournalRecord::take(&mut fields, next) {
                Ok(line) => {
                    next += u64::from(matches!(line, JournalRecord::Add(_)));
                    lines.push(line);
                }
                Err(what) => return damaged(at, &what),
            }
        }
        at += GROUP_BYTES + payload.len();
    }
    if at == bytes.len() && (at as u64) < promised {
        return damaged(
            at,
            &format!("the journal ends here, but {promised} bytes of it were on disk; it was cut"),
        );
    }
    if at < bytes.len() && ((at as u64) < promised || was_promised(&bytes, at)) {
        return damaged(
            at,
            "a group of entries does not match its checksum; the journal was altered",
        );
    }
    Ok(ReplayedJournal {
        lines,
        first_sequence,
        whole_bytes: at as u64,
        unfinished_bytes: (bytes.len() - at) as u64,
    })
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
    let is_head = bytes.len() >= GROUP_BYTES
        && word(bytes, 0) == GROUP_MAGIC
        && xxh3_64(&bytes[..GROUP_BYTES - 8]) == word(bytes, 32);
    is_head.then(|| word(bytes, 16))
}

/// Whether a later group says that what is not whole here was on disk.
fn was_promised(bytes: &[u8], at: usize) -> bool {
    let magic = GROUP_MAGIC.to_le_bytes();
    memchr::memmem::find_iter(&bytes[at..], &magic)
        .any(|found| head(&bytes[at + found..]).is_some_and(|synced| synced > at as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn added(sequence: u64) -> JournalRecord {
        JournalRecord::Add(NewEntry {
            print: Print([sequence; 4]),
            sequence,
            time: 7,
            id: format!("id {sequence}").into(),
        })
    }

    fn journals(directory: &Path) -> JournalDirectory {
        if !directory
            .join(crate::history::store::synced_lengths::NAME)
            .exists()
        {
            SyncedLengths::create(directory).unwrap();
        }
        let synced_lengths = Arc::new(SyncedLengths::open(directory, 1).unwrap());
        JournalDirectory {
            directory: directory.to_owned(),
            every: SyncPolicy::Each,
            synced_lengths,
        }
    }

    fn journal(directory: &Path) -> PathBuf {
        let mut journal = journals(directory).create(1, 5).unwrap();
        journal.append(&[added(5), added(6)]).unwrap();
        journal.sync().unwrap();
        journal
            .append(&[JournalRecord::Remove(5), added(7)])
            .unwrap();
        journal_path(directory, 1)
    }

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = journal(directory.path());
        let replayed = replay(&path, 0).unwrap();
        assert_eq!(
            replayed.lines,
            [added(5), added(6), JournalRecord::Remove(5), added(7)]
        );
        assert_eq!((replayed.first_sequence, replayed.unfinished_bytes), (5, 0));
        journals(directory.path())
            .append_to(1, &replayed)
            .unwrap()
            .append(&[added(8)])
            .unwrap();
        assert_eq!(replay(&path, 0).unwrap().lines.len(), 5);
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
            match replay(&path, 0) {
                Ok(replayed) => assert_eq!(replayed.lines.len(), if at < second { 0 } else { 2 }),
                Err(_) => assert!(at < HEAD_BYTES),
            }
            let mut altered = bytes.clone();
            altered[at] ^= 1 << (at % 8);
            fs::write(&path, &altered).unwrap();
            match replay(&path, 0) {
                Ok(replayed) => assert!(at >= second && replayed.lines.len() == 2, "{at}"),
                Err(error) => assert!(
                    at < second && error.to_string().contains("000001.journal: byte "),
                    "{at}: {error}"
                ),
            }
        }
    }

    /// What was synced is promised: of that nothing may be missing. What came later may be cut anywhere.
    #[test]
    fn a_journal_that_is_shorter_than_promised_is_told_with_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = journal(directory.path());
        let bytes = fs::read(&path).unwrap();
        let promised = crate::history::store::synced_lengths::read(directory.path()).unwrap()[&1];
        assert_eq!(
            promised as usize,
            HEAD_BYTES + GROUP_BYTES + word(&bytes, HEAD_BYTES + 8) as usize
        );
        for at in HEAD_BYTES..bytes.len() {
            fs::write(&path, &bytes[..at]).unwrap();
            match replay(&path, promised) {
                Ok(replayed) => assert!(at as u64 >= promised && replayed.lines.len() == 2, "{at}"),
                Err(error) => {
                    let what = if at == HEAD_BYTES {
                        "the journal ends here, but "
                    } else {
                        "a group of entries does not match"
                    };
                    let told = error.to_string();
                    assert!(
                        (at as u64) < promised
                            && told.contains("000001.journal: byte 32: ")
                            && told.contains(what),
                        "{at}: {told}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_entry_is_not_removed_before_it_was_added() {
        let directory = tempfile::tempdir().unwrap();
        journals(directory.path())
            .create(1, 5)
            .unwrap()
            .append(&[added(5), JournalRecord::Remove(6)])
            .unwrap();
        let error = replay(&journal_path(directory.path(), 1), 0)
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.ends_with("byte 32: entry 6 is removed before it was added; the next one is 6"),
            "{error}"
        );
    }
}
