//! Repairs what can be repaired: journals that are cut, altered or missing, and the note of their
//! synced bytes. What is lost is said; the damaged file is kept beside the repaired one.

use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        files::{WriteLock, durable},
        num::ToU64,
    },
    history::store::{
        journal::{JournalDirectory, SyncPolicy},
        journal_format::{is_blank, readable_part},
        manifest::{HistoryManifest, journal_path},
        open::read_manifest,
        segment::Segment,
        synced_lengths::{self, JournalLengths, SyncedLengths},
        verify::verify,
    },
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Cuts each journal where it can no longer be read, and returns what was done: nothing if the
/// history is undamaged. Fails if a damaged file cannot be repaired: then a backup is the remedy.
pub fn repair(directory: &Path) -> Result<Vec<Problem>> {
    let manifest = read_manifest(directory)?;
    let lock = WriteLock::take_of(directory, "history")?;
    let mut done = Vec::new();
    for listed in &manifest.segments {
        let path = directory.join(&listed.file.name);
        let sound = Segment::open(&path, listed.level)
            .and_then(|segment| listed.file.ensure_is(&segment.file).map(|()| segment))
            .and_then(|segment| segment.file.verify());
        sound.map_err(unrepairable)?;
    }
    let (synced, remade) = synced_lengths::read_or_repair(directory)?;
    done.extend(remade);
    repair_journals(directory, &manifest, &synced, &mut done)?;
    lock.release(directory)?;
    verify(directory).map(|_| done)
}

fn unrepairable(error: Error) -> Error {
    match error {
        Error::Damaged { place, what } => Error::damaged(
            place,
            format!("{what}; a file of prints cannot be repaired: restore a backup of the history"),
        ),
        other => other,
    }
}

fn repair_journals(
    directory: &Path,
    manifest: &HistoryManifest,
    synced: &JournalLengths,
    done: &mut Vec<Problem>,
) -> Result<()> {
    let last = last_journal(directory, manifest, synced)?;
    let mut whole = Vec::new();
    let mut next_sequence = manifest.segments.last().map_or(Ok(0), |listed| {
        Segment::open(&directory.join(&listed.file.name), listed.level)
            .map(|segment| segment.last_sequence() + 1)
    })?;
    for number in manifest.journal..=last {
        let path = journal_path(directory, number);
        let bytes = read_if_exists(&path)?;
        let synced_bytes = synced.get(&number).copied().unwrap_or_default();
        let readable = bytes.as_deref().and_then(readable_part);
        if let Some((_, next, end)) = readable {
            next_sequence = next;
            let length = bytes.map_or(0, |bytes| bytes.len().to_u64());
            if end < length || end < synced_bytes {
                done.push(cut(&path, end, length, synced_bytes)?);
            }
            whole.push((number, end));
            continue;
        }
        done.push(replace(
            directory,
            manifest,
            number,
            next_sequence,
            bytes.is_some(),
        )?);
        whole.push((number, 0));
    }
    // Only what is there now is noted as synced.
    fs::remove_file(directory.join(synced_lengths::NAME))
        .map_err(|error| Error::io(directory.join(synced_lengths::NAME).display(), error))?;
    SyncedLengths::create(directory)?;
    let lengths = SyncedLengths::open(directory, manifest.journal)?;
    for (number, bytes) in whole {
        if !is_blank(bytes) {
            lengths.note(number, bytes)?;
        }
    }
    lengths.sync()?;
    durable::sync_dir(directory)
}

/// The last journal that exists, or of which bytes were synced.
fn last_journal(
    directory: &Path,
    manifest: &HistoryManifest,
    synced: &JournalLengths,
) -> Result<u64> {
    let noted = synced.keys().copied().max().unwrap_or_default();
    let mut last = manifest.journal.max(noted);
    while read_if_exists(&journal_path(directory, last + 1))?.is_some() {
        last += 1;
    }
    Ok(last)
}

fn read_if_exists(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path.display(), error)),
    }
}

/// Where the damaged file is kept.
fn kept_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged");
    name.into()
}

/// Cuts a journal after its last complete group.
fn cut(path: &Path, end: u64, length: u64, synced_bytes: u64) -> Result<Problem> {
    let failed = |error| Error::io(path.display(), error);
    let place = Place::byte(&path.display().to_string().into(), end);
    let what = if length > end {
        fs::copy(path, kept_name(path)).map_err(failed)?;
        let file = fs::OpenOptions::new()
            .write(true)
            .open(path)
            .map_err(failed)?;
        file.set_len(end)
            .and_then(|()| file.sync_all())
            .map_err(failed)?;
        format!(
            "cut here: {} bytes after it could not be read, {} of which were on disk; the file as it was is {}",
            length - end,
            synced_bytes.saturating_sub(end),
            kept_name(path).display()
        )
    } else {
        format!(
            "ends here, and {} bytes that were on disk are lost; the other entries are kept",
            synced_bytes - end
        )
    };
    Ok(Problem::new(place, what))
}

/// Puts an empty journal in the place of one that is missing or has no readable header.
fn replace(
    directory: &Path,
    manifest: &HistoryManifest,
    number: u64,
    next_sequence: u64,
    exists: bool,
) -> Result<Problem> {
    let path = journal_path(directory, number);
    let what = if exists {
        fs::rename(&path, kept_name(&path)).map_err(|error| Error::io(path.display(), error))?;
        format!(
            "none of it could be read, and it was replaced by an empty journal; the file as it was is {}",
            kept_name(&path).display()
        )
    } else {
        "was missing, and is an empty journal now; its entries are lost".to_owned()
    };
    let journals = JournalDirectory {
        directory: directory.to_owned(),
        sync: SyncPolicy::Never,
        synced_lengths: Arc::new(SyncedLengths::open(directory, manifest.journal)?),
    };
    drop(journals.create(number, next_sequence)?);
    Ok(Problem::new(Place::path(&path), what))
}
