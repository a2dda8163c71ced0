//! One writer at a time; and what a writer that died left behind.

use super::manifest::{Manifest, NAME};
use crate::{
    error::{Error, Place, Result},
    files::durable,
};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    os::unix::fs::MetadataExt,
    path::Path,
};

const LOCK: &str = "lock";

/// Held while an index is written. The lock goes with the process, however it ends.
pub struct WriteLock {
    _file: File,
}

impl WriteLock {
    /// Makes the directory if need be, and takes its lock; refused at once if another process has it.
    pub fn take(directory: &Path) -> Result<Self> {
        Self::take_of(directory, "index")
    }

    /// Of what is written there.
    pub fn take_of(directory: &Path, what: &str) -> Result<Self> {
        durable::create_dir_all(directory)?;
        let path = directory.join(LOCK);
        let failed = |error| Error::io(path.display(), error);
        loop {
            let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(refusal(directory, what, &mut file)),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // Its last holder may have removed the file after we opened it: then the lock is on nothing.
            if !is_at(&file, &path) {
                continue;
            }
            let named = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
            return match named {
                Ok(()) => Ok(Self { _file: file }),
                // On a full disk nothing is left behind.
                Err(error) => {
                    let _ = fs::remove_file(&path);
                    Err(failed(error))
                }
            };
        }
    }

    /// Done: the lock file is no part of the index.
    pub fn release(self, directory: &Path) -> Result<()> {
        fs::remove_file(directory.join(LOCK)).map_err(|error| Error::io(directory.display(), error))
    }
}

fn refusal(directory: &Path, what: &str, file: &mut File) -> Error {
    let mut holder = String::new();
    let _ = file.read_to_string(&mut holder);
    Error::damaged(Place::path(directory), format!("process {} is writing this {what}; wait for it to end", holder.trim()))
}

fn is_at(file: &File, path: &Path) -> bool {
    let both = (file.metadata(), fs::metadata(path));
    matches!(both, (Ok(one), Ok(two)) if (one.dev(), one.ino()) == (two.dev(), two.ino()))
}

/// Refuses a directory that holds an index, or anything that is not ours.
pub fn ensure_new(directory: &Path) -> Result<()> {
    let names = names_in(directory)?;
    if names.iter().any(|name| name == NAME) {
        return Err(Error::damaged(Place::path(directory), "holds an index already; choose another name, or remove it first"));
    }
    match names.iter().find(|name| !is_ours(name)) {
        Some(name) => Err(Error::damaged(Place::path(directory), format!("holds '{name}', which is not of an index; choose another name"))),
        None => Ok(()),
    }
}

/// Removes the files of an index that its manifest does not name: those of a writer that died, or that were replaced.
pub fn sweep(directory: &Path, manifest: Option<&Manifest>) -> Result<()> {
    let is_kept = |name: &str| name == LOCK || name == NAME || manifest.is_some_and(|manifest| manifest.names(name));
    for name in names_in(directory)?.iter().filter(|name| is_ours(name) && !is_kept(name)) {
        fs::remove_file(directory.join(name)).map_err(|error| Error::io(directory.join(name).display(), error))?;
    }
    Ok(())
}

fn names_in(directory: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|error| Error::io(directory.display(), error))?,
    };
    entries
        .map(|entry| Ok(entry.map_err(|error| Error::io(directory.display(), error))?.file_name().to_string_lossy().into_owned()))
        .collect()
}

/// `000001.docs`, `000001.sets`, `000001.000.part`, `000001.spex`, `000001.text`, `000001.words`, a manifest, its successor, the lock.
fn is_ours(name: &str) -> bool {
    let is_segment = |name: &str| {
        name.split_once('.').is_some_and(|(number, ending)| {
            number.len() == 6
                && number.bytes().all(|byte| byte.is_ascii_digit())
                && ["docs", "sets", "part", "spex", "text", "words"].contains(&ending.rsplit('.').next().unwrap_or_default())
        })
    };
    [NAME, "manifest.json.new", LOCK].contains(&name) || is_segment(name)
}
