//! How many bytes of each journal are known to be on disk: the file `synced`.
//!
//! A journal that ends early looks the same whether a machine died before its end was on disk or
//! another program truncated it. So after each sync of a journal its length is noted here. The note need
//! not be synced itself: after a crash it may be too low, never too high. It is synced when a
//! journal is full, before any length of the next one is noted, and when a writer closes.
//!
//! The file has two slots of 512 bytes, written alternately: a torn write leaves the other one.

use crate::base::{
    error::{Error, Place, Problem, Result},
    num::{ToU64, ToUsize},
};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};
use xxhash_rust::xxh3::xxh3_64;

/// The name of the file.
pub const NAME: &str = "synced";
const MAGIC: [u8; 8] = *b"\x89DEDHS\r\n";
const SLOT_BYTES: usize = 512;
const HEAD_BYTES: usize = 24;
/// The journals that a slot has room for. At most five wait to become segments.
const MAX_JOURNALS: usize = 24;
/// How often a reader tries again if a writer is changing both slots.
const READ_ATTEMPTS: u32 = 100;

/// Journal numbers, and how many bytes of each are on disk.
pub type JournalLengths = BTreeMap<u64, u64>;

/// The file `synced`, open for writing.
pub struct SyncedLengths {
    file: File,
    path: PathBuf,
    state: Mutex<SyncedState>,
}

struct SyncedState {
    /// Counts the writes: the slot with the greater number is newer.
    writes: u64,
    lengths: JournalLengths,
    is_on_disk: bool,
}

impl SyncedLengths {
    /// Creates a file without lengths.
    pub fn create(directory: &Path) -> Result<()> {
        let path = directory.join(NAME);
        let failed = |error| Error::io(path.display(), error);
        let none = JournalLengths::new();
        fs::write(&path, [encode(0, &none), encode(1, &none)].concat()).map_err(failed)?;
        File::open(&path)
            .and_then(|file| file.sync_all())
            .map_err(failed)
    }

    /// Opens the file, with the lengths of the journals from `first` on.
    pub fn open(directory: &Path, first: u64) -> Result<Self> {
        let path = directory.join(NAME);
        let (writes, mut lengths) = read_newest(directory)?;
        lengths.retain(|&number, _| number >= first);
        let file = OpenOptions::new()
            .write(true)
            .open(&path)
            .map_err(|error| Error::io(path.display(), error))?;
        Ok(Self {
            file,
            path,
            state: Mutex::new(SyncedState {
                writes,
                lengths,
                is_on_disk: false,
            }),
        })
    }

    /// Notes how many bytes of a journal are on disk.
    pub fn note(&self, number: u64, bytes: u64) -> Result<()> {
        let mut state = self.lock();
        if state
            .lengths
            .get(&number)
            .is_some_and(|&noted| noted >= bytes)
        {
            return Ok(());
        }
        state.lengths.insert(number, bytes);
        if state.lengths.len() > MAX_JOURNALS {
            state.lengths.pop_first();
        }
        state.writes += 1;
        state.is_on_disk = false;
        let slot = state.writes % 2 * SLOT_BYTES.to_u64();
        let bytes = encode(state.writes, &state.lengths);
        self.file
            .write_all_at(&bytes, slot)
            .map_err(|error| self.failed(error))
    }

    /// Returns when all notes are on disk.
    pub fn sync(&self) -> Result<()> {
        let mut state = self.lock();
        if !state.is_on_disk {
            self.file.sync_data().map_err(|error| self.failed(error))?;
            state.is_on_disk = true;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, SyncedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io(self.path.display(), error)
    }
}

/// The synced length of each journal.
pub fn read(directory: &Path) -> Result<JournalLengths> {
    Ok(read_newest(directory)?.1)
}

/// As [`read`], but creates a missing or altered file anew, and reports that.
pub fn read_or_repair(directory: &Path) -> Result<(JournalLengths, Option<Problem>)> {
    let why = match read(directory) {
        Ok(lengths) => return Ok((lengths, None)),
        Err(Error::Io { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => "is missing",
        Err(Error::Damaged { .. }) => "was altered",
        Err(error) => return Err(error),
    };
    SyncedLengths::create(directory)?;
    let what = format!(
        "the file {why} and was made again; if journals were cut before now, that is not noticed"
    );
    Ok((
        JournalLengths::new(),
        Some(Problem::new(Place::path(&directory.join(NAME)), what)),
    ))
}

fn read_newest(directory: &Path) -> Result<(u64, JournalLengths)> {
    let path = directory.join(NAME);
    for _ in 0..READ_ATTEMPTS {
        let bytes = fs::read(&path).map_err(|error| Error::io(path.display(), error))?;
        if let Some(newest) = bytes
            .chunks(SLOT_BYTES)
            .take(2)
            .filter_map(decode)
            .max_by_key(|(writes, _)| *writes)
        {
            return Ok(newest);
        }
        thread::yield_now();
    }
    let place = Place::byte(&path.display().to_string().into(), 0);
    Err(Error::damaged(
        place,
        "neither of its two slots matches its checksum; the file was altered, and the next writer makes it again",
    ))
}

fn encode(writes: u64, lengths: &JournalLengths) -> Vec<u8> {
    let mut slot = MAGIC.to_vec();
    let words = [writes, lengths.len().to_u64()]
        .into_iter()
        .chain(lengths.iter().flat_map(|(&number, &bytes)| [number, bytes]));
    words.for_each(|word| slot.extend_from_slice(&word.to_le_bytes()));
    slot.resize(SLOT_BYTES - 8, 0);
    slot.extend_from_slice(&xxh3_64(&slot).to_le_bytes());
    slot
}

fn decode(slot: &[u8]) -> Option<(u64, JournalLengths)> {
    let word = |at: usize| {
        slot.get(at..at + 8)
            .and_then(|bytes| bytes.try_into().ok())
            .map(u64::from_le_bytes)
    };
    let is_whole = slot.len() == SLOT_BYTES
        && slot.starts_with(&MAGIC)
        && word(SLOT_BYTES - 8)? == xxh3_64(&slot[..SLOT_BYTES - 8]);
    let count = word(16).filter(|&count| is_whole && count <= MAX_JOURNALS.to_u64())?;
    let lengths = (0..count.to_usize())
        .map(|at| Some((word(HEAD_BYTES + 16 * at)?, word(HEAD_BYTES + 16 * at + 8)?)));
    Some((word(8)?, lengths.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_lengths_survive_a_torn_write() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        SyncedLengths::create(directory.path()).unwrap();
        assert_eq!(read(directory.path()).unwrap(), JournalLengths::new());
        let lengths = SyncedLengths::open(directory.path(), 1).unwrap();
        for (number, bytes) in [(1, 100), (1, 50), (2, 70), (1, 300)] {
            lengths.note(number, bytes).unwrap();
        }
        lengths.sync().unwrap();
        assert_eq!(
            read(directory.path()).unwrap(),
            JournalLengths::from([(1, 300), (2, 70)])
        );
        // With any byte of the newer slot altered, the older slot counts. With both altered, none
        // does.
        let bytes = fs::read(&path).unwrap();
        let newer = if decode(&bytes[..512]).unwrap().0 > decode(&bytes[512..]).unwrap().0 {
            0
        } else {
            512
        };
        for at in [0, 9, 17, 30, 400, 511] {
            let mut torn = bytes.clone();
            torn[newer + at] ^= 1;
            fs::write(&path, &torn).unwrap();
            assert_eq!(
                read(directory.path()).unwrap(),
                JournalLengths::from([(1, 100), (2, 70)]),
                "{at}"
            );
            torn[512 - newer + at] ^= 1;
            fs::write(&path, &torn).unwrap();
            assert!(
                read(directory.path())
                    .unwrap_err()
                    .to_string()
                    .contains("synced: byte 0: neither of its two slots")
            );
        }
        for length in [0, 511, 600] {
            fs::write(&path, &bytes[..length]).unwrap();
            assert_eq!(read(directory.path()).is_ok(), length == 600);
        }
    }

    #[test]
    fn old_journals_are_forgotten_for_new_ones() {
        let directory = tempfile::tempdir().unwrap();
        SyncedLengths::create(directory.path()).unwrap();
        let lengths = SyncedLengths::open(directory.path(), 1).unwrap();
        (1..100).for_each(|number| lengths.note(number, 7).unwrap());
        assert_eq!(
            read(directory.path())
                .unwrap()
                .into_keys()
                .collect::<Vec<_>>(),
            (76..100).collect::<Vec<_>>()
        );
        drop(lengths);
        SyncedLengths::open(directory.path(), 98)
            .unwrap()
            .note(98, 8)
            .unwrap();
        assert_eq!(
            read(directory.path()).unwrap(),
            JournalLengths::from([(98, 8), (99, 7)])
        );
    }
}
