//! Copies a history, also one that a process is writing.
//!
//! Segments never change, and journals only grow, so the files of one manifest are a consistent
//! state, together with what their journals had when they were read: the last journal first, so
//! that all entries before those of any journal were read. If a file was deleted meanwhile, the
//! writer has committed another manifest, and the copy begins again.

use super::HistoryCopy;
use crate::{
    base::{
        error::{Error, Result},
        files::atomic_dir,
        num::{ToU64, ToUsize},
    },
    history::{
        History, StoreOptions,
        store::{
            journal_format::{is_blank, replay_bytes},
            manifest::{HistoryManifest, journal_path},
            open::read_manifest,
            synced_lengths::{self, SyncedLengths},
        },
    },
};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::Path,
};

/// How often the copy begins again if a writer deletes files meanwhile.
const ATTEMPTS: u32 = 100;

/// Copies a history to a new directory, checks the copy, and returns when it is on disk.
pub fn backup(directory: &Path, target: &Path) -> Result<HistoryCopy> {
    let entries = atomic_dir::create(target, |beside| {
        copy_consistent(directory, beside)?;
        let copy = open_read_only(beside)?;
        for held in &copy.segments {
            held.segment.file.verify()?;
        }
        copy.searchable_entries()
    })?;
    Ok(HistoryCopy {
        directory: target.to_owned(),
        entries,
    })
}

pub(super) fn open_read_only(directory: &Path) -> Result<History> {
    let options = StoreOptions {
        read_only: true,
        ..StoreOptions::default()
    };
    Ok(History::open(directory, options)?.0)
}

fn copy_consistent(directory: &Path, target: &Path) -> Result<()> {
    for attempt in 1.. {
        let manifest = read_manifest(directory)?;
        match copy_files(directory, target, &manifest) {
            Err(Error::Io { cause, .. })
                if cause.kind() == io::ErrorKind::NotFound
                    && attempt < ATTEMPTS
                    && read_manifest(directory)? != manifest =>
            {
                for entry in fs::read_dir(target).into_iter().flatten().flatten() {
                    let _ = fs::remove_file(entry.path());
                }
            }
            copied => return copied,
        }
    }
    Ok(())
}

fn copy_files(directory: &Path, target: &Path, manifest: &HistoryManifest) -> Result<()> {
    // The lengths are read first: a writer may extend the journals meanwhile.
    let synced = synced_lengths::read(directory)?;
    let mut journals = Vec::new();
    for number in manifest.journal.. {
        let path = journal_path(directory, number);
        match File::open(&path) {
            Ok(file) => journals.push((number, file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && number > manifest.journal => {
                break;
            }
            Err(error) => return Err(Error::io(path.display(), error)),
        }
    }
    SyncedLengths::create(target)?;
    let lengths = SyncedLengths::open(target, manifest.journal)?;
    let mut is_last = true;
    for (number, file) in journals.into_iter().rev() {
        let synced_bytes = synced.get(&number).copied().unwrap_or_default();
        let bytes = copy_journal(directory, target, (number, file), synced_bytes, is_last)?;
        if let Some(bytes) = bytes {
            is_last = false;
            if !is_blank(bytes) {
                lengths.note(number, bytes)?;
            }
        }
    }
    lengths.sync()?;
    for segment in &manifest.segments {
        copy_file(directory, target, &segment.file.name)?;
    }
    manifest.commit(target)
}

/// Copies the complete groups of a journal and returns their bytes; `None` if it is one that was
/// created ahead of time.
fn copy_journal(
    directory: &Path,
    target: &Path,
    (number, mut file): (u64, File),
    synced_bytes: u64,
    is_last: bool,
) -> Result<Option<u64>> {
    let path = journal_path(directory, number);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(|error| Error::io(path.display(), error))?;
    let is_ahead = is_blank(bytes.len().to_u64()) && synced_bytes == 0 && is_last;
    if is_ahead && number > read_manifest(directory)?.journal {
        return Ok(None);
    }
    let whole = replay_bytes(&path, &bytes, synced_bytes)?.whole_bytes;
    let copy = journal_path(target, number);
    fs::write(&copy, &bytes[..whole.to_usize()])
        .map_err(|error| Error::io(copy.display(), error))?;
    Ok(Some(whole))
}

fn copy_file(directory: &Path, target: &Path, name: &str) -> Result<()> {
    let (from, to) = (directory.join(name), target.join(name));
    let mut source = File::open(&from).map_err(|error| Error::io(from.display(), error))?;
    let mut copy = File::create(&to).map_err(|error| Error::io(to.display(), error))?;
    io::copy(&mut source, &mut copy)
        .and_then(|_| copy.flush())
        .map_err(|error| Error::io(to.display(), error))
}
