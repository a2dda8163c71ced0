//! The journal: the write-ahead log of the entries that are in no segment yet.
//!
//! A header, then groups of records, each with a checksum. An incomplete group at the end of a
//! journal was being written, or not yet on disk, when the machine or the program died: it was
//! never synced, and is cut off. [`super::synced_lengths`] notes how many bytes of a journal are on
//! disk for sure, and each group contains that number as of its writing: so a truncated or altered
//! journal differs from an unfinished write.

use super::{
    journal_format::{
        GROUP_HEADER_BYTES, GROUP_MAGIC, HEADER_BYTES, JournalRecord, MAGIC, ReplayedJournal,
        VERSION, is_blank,
    },
    manifest::journal_path,
    synced_lengths::SyncedLengths,
};
use crate::base::{
    error::{Error, Result},
    files::durable,
    num::ToU64,
};
use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};
use xxhash_rust::xxh3::xxh3_64;

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

    /// The bytes that may not be on disk yet.
    pub fn unsynced_bytes(&self) -> u64 {
        let written = self.file_state.written.load(Ordering::Acquire);
        written.saturating_sub(self.file_state.synced.load(Ordering::Acquire))
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

#[cfg(test)]
mod tests {
    use super::{
        super::{
            journal_format::{replay, word},
            memtable::NewEntry,
        },
        *,
    };
    use crate::{base::num::ToUsize, text::stream::Print};
    use std::{fs, path::Path};

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
