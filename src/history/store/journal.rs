//! The journal: the write-ahead log of the entries that are in no segment yet.
//!
//! A header, then groups of records, each with a checksum. An incomplete group at the end of a
//! journal was being written, or not yet on disk, when the machine or the program died: it was
//! never synced, and is cut off. [`super::synced_lengths`] notes how many bytes of a journal are on
//! disk for sure, and each group contains that number as of its writing: so a truncated or altered
//! journal differs from an unfinished write.

use super::{manifest::journal_path, memtable::NewEntry, synced_lengths::SyncedLengths};

use crate::{
    base::{
        codec::{Fields, put_varint},
        error::{Error, Place, Result},
        files::durable,
        num::ToU64,
    },
    history::search::low_half,
    text::stream::{PRINT_BYTES, Print},
};
use std::{
    fs::{self, File, OpenOptions},
    io::Write,
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
const HEADER_BYTES: usize = 32;
const GROUP_MAGIC: u64 = 0x5055_4f52_4758_4e48;
const GROUP_HEADER_BYTES: usize = 40;
const ADD: u8 = 1;
const REMOVE: u8 = 2;

/// When new entries are synced to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Before the answers of each batch.
    EveryBatch,
    /// At most this long after they were written, plus the time of the sync.
    Interval(Duration),
    /// On closing, and with each segment.
    Never,
}

/// One record of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalRecord {
    /// A new entry.
    Add(NewEntry),
    /// The removal of the entry with this sequence number.
    Remove(u64),
}

/// The contents of a journal.
pub struct ReplayedJournal {
    pub records: Vec<JournalRecord>,
    pub first_sequence: u64,
    /// The bytes of complete groups, and of an incomplete one after them.
    pub whole_bytes: u64,
    pub unfinished_bytes: u64,
}

impl ReplayedJournal {
    /// The number of added entries.
    pub fn added(&self) -> usize {
        let is_added = |record: &&JournalRecord| matches!(record, JournalRecord::Add(_));
        self.records.iter().filter(is_added).count()
    }
}

/// The length of a journal when the history was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalLength {
    pub number: u64,
    pub whole_bytes: u64,
    /// The bytes of an incomplete group at its end, which was never synced.
    pub unfinished_bytes: u64,
}

/// Creates and opens the journals of a history.
#[derive(Clone)]
pub struct JournalDirectory {
    pub directory: PathBuf,
    pub sync: SyncPolicy,
    pub synced_lengths: Arc<SyncedLengths>,
}

/// A journal open for appending.
pub struct Journal {
    file_state: Arc<JournalFile>,
    buffer: Vec<u8>,
    _syncer: Option<JournalSyncer>,
}

/// The file of a journal: how far it is written, how far it is synced, and the last failure.
struct JournalFile {
    file: File,
    path: PathBuf,
    number: u64,
    synced_lengths: Arc<SyncedLengths>,
    written: AtomicU64,
    synced: AtomicU64,
    failed: Mutex<Option<Error>>,
    /// The journal before it, until that is synced: so the synced entries never have a gap.
    before: Mutex<Option<Arc<Self>>>,
}

impl JournalFile {
    fn sync(&self) -> Result<()> {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file_state) = &*before {
            file_state.sync()?;
            // All of a full journal is noted as synced before any part of the next one.
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
    /// Creates a journal; its directory entry is on disk when this returns.
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
        self.start(file, number, HEADER_BYTES.to_u64())
    }

    /// Continues a journal that was replayed, without its incomplete group.
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
        // A killed process may have left what was read to the page cache.
        file.sync_all().map_err(failed)?;
        if !is_blank(replayed.whole_bytes) {
            self.synced_lengths.note(number, replayed.whole_bytes)?;
        }
        self.start(file, number, replayed.whole_bytes)
    }

    fn start(&self, file: File, number: u64, bytes: u64) -> Result<Journal> {
        let file_state = Arc::new(JournalFile {
            file,
            path: journal_path(&self.directory, number),
            number,
            synced_lengths: self.synced_lengths.clone(),
            written: AtomicU64::new(bytes),
            synced: AtomicU64::new(bytes),
            failed: Mutex::default(),
            before: Mutex::default(),
        });
        let syncer = match self.sync {
            SyncPolicy::Interval(interval) => {
                Some(JournalSyncer::start(file_state.clone(), interval)?)
            }
            SyncPolicy::EveryBatch | SyncPolicy::Never => None,
        };
        Ok(Journal {
            file_state,
            buffer: Vec::new(),
            _syncer: syncer,
        })
    }
}

impl Journal {
    /// Notes no byte of this journal as synced before all of that one are.
    pub fn follow(&mut self, before: &Self) {
        *self
            .file_state
            .before
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(before.file_state.clone());
    }

    /// Appends records as one group.
    pub fn append(&mut self, records: &[JournalRecord]) -> Result<()> {
        self.take_failure()?;
        if records.is_empty() {
            return Ok(());
        }
        self.append_group(records)
    }

    /// Syncs the journal and the note of its length.
    pub fn finish(&self) -> Result<()> {
        self.sync()?;
        self.file_state.synced_lengths.sync()
    }

    fn append_group(&mut self, records: &[JournalRecord]) -> Result<()> {
        self.buffer.clear();
        self.buffer.resize(GROUP_HEADER_BYTES, 0);
        records
            .iter()
            .for_each(|record| record.put(&mut self.buffer));
        let (header, payload) = self.buffer.split_at_mut(GROUP_HEADER_BYTES);
        let words = [
            GROUP_MAGIC,
            payload.len().to_u64(),
            self.file_state.synced.load(Ordering::Acquire),
            xxh3_64(payload),
        ];
        for (bytes, word) in header.chunks_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let checksum = xxh3_64(&header[..GROUP_HEADER_BYTES - 8]);
        header[GROUP_HEADER_BYTES - 8..].copy_from_slice(&checksum.to_le_bytes());
        let at = self.file_state.written.load(Ordering::Acquire);
        let written = (&self.file_state.file).write_all(&self.buffer);
        if let Err(error) = written {
            // Half a group would hide the groups after it.
            let _ = self.file_state.file.set_len(at);
            return Err(Error::io(self.file_state.path.display(), error));
        }
        self.file_state
            .written
            .store(at + self.buffer.len().to_u64(), Ordering::Release);
        Ok(())
    }

    /// Returns when all groups are on disk.
    pub fn sync(&self) -> Result<()> {
        self.take_failure()?;
        self.file_state.sync()
    }

    fn take_failure(&self) -> Result<()> {
        self.file_state
            .failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .map_or(Ok(()), Err)
    }
}

/// A thread that syncs a journal at an interval; dedicated, as it waits most of the time.
struct JournalSyncer {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl JournalSyncer {
    fn start(file_state: Arc<JournalFile>, interval: Duration) -> Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let body = move || {
            let mut due = Instant::now() + interval;
            while stopped.recv_timeout(due.saturating_duration_since(Instant::now()))
                == Err(mpsc::RecvTimeoutError::Timeout)
            {
                // The interval starts when the sync starts: a group written just after that waits
                // for no longer than the interval until the next one.
                due = Instant::now() + interval;
                if let Err(error) = file_state.sync() {
                    *file_state
                        .failed
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner) = Some(error);
                }
            }
        };
        let thread = thread::Builder::new()
            .spawn(body)
            .map_err(|error| Error::io("the thread that syncs a journal", error))?;
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
    /// The print of an added entry.
    pub fn added_print(&self) -> Option<Print> {
        match self {
            Self::Add(entry) => Some(entry.print),
            Self::Remove(_) => None,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Add(NewEntry {
                print, time, id, ..
            }) => {
                out.push(ADD);
                put_varint(out, u64::from(*time));
                out.extend_from_slice(&print.to_bytes());
                put_varint(out, id.len().to_u64());
                out.extend_from_slice(id.as_bytes());
            }
            Self::Remove(sequence) => {
                out.push(REMOVE);
                put_varint(out, *sequence);
            }
        }
    }

    /// Parses the next record. An added entry gets the sequence number `next`.
    fn take(fields: &mut Fields<'_>, next: u64) -> Result<Self, String> {
        match fields.byte("kind of a record")? {
            ADD => {
                let time = low_half(fields.varint("time")?);
                let bytes = fields.take(PRINT_BYTES.to_u64(), "print")?;
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
            other => Err(format!("a record of unknown kind {other}")),
        }
    }
}

/// Whether a journal of this length has no group: it was created ahead of time.
pub fn is_blank(bytes: u64) -> bool {
    bytes <= HEADER_BYTES.to_u64()
}

/// Reads a journal of which `synced_bytes` were synced. After these it may end in the middle of a
/// group.
pub fn replay(path: &Path, synced_bytes: u64) -> Result<ReplayedJournal> {
    let bytes = fs::read(path).map_err(|error| Error::io(path.display(), error))?;
    let name: Arc<str> = path.display().to_string().into();
    let damaged =
        |(at, what): (usize, String)| Error::damaged(Place::byte(&name, at.to_u64()), what);
    let first_sequence = parse_header(&bytes).map_err(damaged)?;
    let (records, end) = parse_groups(&bytes, first_sequence).map_err(damaged)?;
    let whole_bytes = end.to_u64();
    if end == bytes.len() && whole_bytes < synced_bytes {
        let what = format!(
            "the journal ends here, but {synced_bytes} bytes of it were on disk; it was cut"
        );
        return Err(damaged((end, what)));
    }
    if end < bytes.len() && (whole_bytes < synced_bytes || was_synced(&bytes, end)) {
        let what = "a group of entries does not match its checksum; the journal was altered";
        return Err(damaged((end, what.to_owned())));
    }
    Ok(ReplayedJournal {
        records,
        first_sequence,
        whole_bytes,
        unfinished_bytes: (bytes.len() - end).to_u64(),
    })
}

/// Checks the header and returns the sequence number of the first entry; or the byte and the
/// problem.
fn parse_header(bytes: &[u8]) -> Result<u64, (usize, String)> {
    if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC || word(bytes, 24) != xxh3_64(&bytes[..24])
    {
        let what = "not the journal of a history, or its header was altered";
        return Err((0, what.to_owned()));
    }
    match word(bytes, 8) {
        VERSION => Ok(word(bytes, 16)),
        version => Err((
            8,
            format!("version {version}, this program reads version {VERSION}"),
        )),
    }
}

/// The records of all complete groups and where these end; or the byte and the problem.
fn parse_groups(
    bytes: &[u8],
    first_sequence: u64,
) -> Result<(Vec<JournalRecord>, usize), (usize, String)> {
    let mut records = Vec::new();
    let mut next = first_sequence;
    let mut at = HEADER_BYTES;
    while let Some(payload) = group_payload(&bytes[at..]) {
        let mut fields = Fields::new(payload);
        while !fields.is_empty() {
            let record = JournalRecord::take(&mut fields, next).map_err(|what| (at, what))?;
            next += u64::from(matches!(record, JournalRecord::Add(_)));
            records.push(record);
        }
        at += GROUP_HEADER_BYTES + payload.len();
    }
    Ok((records, at))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

/// The payload of the group that begins here, if it is complete.
fn group_payload(bytes: &[u8]) -> Option<&[u8]> {
    let _ = synced_before_group(bytes)?;
    let payload = bytes[GROUP_HEADER_BYTES..].get(..usize::try_from(word(bytes, 8)).ok()?)?;
    (xxh3_64(payload) == word(bytes, 24)).then_some(payload)
}

/// The synced length at the time when the group that begins here was written.
fn synced_before_group(bytes: &[u8]) -> Option<u64> {
    let is_header = bytes.len() >= GROUP_HEADER_BYTES
        && word(bytes, 0) == GROUP_MAGIC
        && xxh3_64(&bytes[..GROUP_HEADER_BYTES - 8]) == word(bytes, 32);
    is_header.then(|| word(bytes, 16))
}

/// Whether a later group says that the incomplete group here was synced.
fn was_synced(bytes: &[u8], at: usize) -> bool {
    let magic = GROUP_MAGIC.to_le_bytes();
    memchr::memmem::find_iter(&bytes[at..], &magic).any(|found| {
        synced_before_group(&bytes[at + found..]).is_some_and(|synced| synced > at.to_u64())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::ToUsize;

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
            sync: SyncPolicy::EveryBatch,
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
    fn appended_records_are_replayed() {
        let directory = tempfile::tempdir().unwrap();
        let path = journal(directory.path());
        let replayed = replay(&path, 0).unwrap();
        assert_eq!(
            replayed.records,
            [added(5), added(6), JournalRecord::Remove(5), added(7)]
        );
        assert_eq!((replayed.first_sequence, replayed.unfinished_bytes), (5, 0));
        journals(directory.path())
            .append_to(1, &replayed)
            .unwrap()
            .append(&[added(8)])
            .unwrap();
        assert_eq!(replay(&path, 0).unwrap().records.len(), 5);
    }

    /// The second group says that the first was synced: so truncation means an unfinished write, and
    /// a flipped bit in the first group is damage.
    #[test]
    fn a_truncated_end_is_lost_and_a_flipped_bit_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = journal(directory.path());
        let bytes = fs::read(&path).unwrap();
        let second = HEADER_BYTES + GROUP_HEADER_BYTES + word(&bytes, HEADER_BYTES + 8).to_usize();
        for at in 0..bytes.len() {
            fs::write(&path, &bytes[..at]).unwrap();
            match replay(&path, 0) {
                Ok(replayed) => assert_eq!(replayed.records.len(), if at < second { 0 } else { 2 }),
                Err(_) => assert!(at < HEADER_BYTES),
            }
            let mut altered = bytes.clone();
            altered[at] ^= 1 << (at % 8);
            fs::write(&path, &altered).unwrap();
            match replay(&path, 0) {
                Ok(replayed) => assert!(at >= second && replayed.records.len() == 2, "{at}"),
                Err(error) => assert!(
                    at < second && error.to_string().contains("000001.journal: byte "),
                    "{at}: {error}"
                ),
            }
        }
    }

    /// No synced byte may be missing; what follows may be truncated anywhere.
    #[test]
    fn a_journal_shorter_than_its_synced_length_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = journal(directory.path());
        let bytes = fs::read(&path).unwrap();
        let synced = crate::history::store::synced_lengths::read(directory.path()).unwrap()[&1];
        assert_eq!(
            synced.to_usize(),
            HEADER_BYTES + GROUP_HEADER_BYTES + word(&bytes, HEADER_BYTES + 8).to_usize()
        );
        for at in HEADER_BYTES..bytes.len() {
            fs::write(&path, &bytes[..at]).unwrap();
            match replay(&path, synced) {
                Ok(replayed) => {
                    assert!(at.to_u64() >= synced && replayed.records.len() == 2, "{at}")
                }
                Err(error) => {
                    let what = if at == HEADER_BYTES {
                        "the journal ends here, but "
                    } else {
                        "a group of entries does not match"
                    };
                    let message = error.to_string();
                    assert!(
                        (at.to_u64()) < synced
                            && message.contains("000001.journal: byte 32: ")
                            && message.contains(what),
                        "{at}: {message}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_removal_before_its_addition_is_an_error() {
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
