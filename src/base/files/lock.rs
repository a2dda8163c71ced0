//! One writer at a time.

use crate::base::{
    error::{Error, Place, Result},
    files::durable,
};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    os::unix::fs::MetadataExt,
    path::Path,
};

/// The name of the lock file.
pub const LOCK: &str = "lock";

/// Held while an index is written. The lock goes with the process, however it ends.
pub struct WriteLock {
    _file: File,
}

impl WriteLock {
    /// Makes the directory if need be, and takes its lock; refused at once if another process has it.
    pub fn take(directory: &Path) -> Result<Self> {
        Self::take_of(directory, "index")
    }

    /// The text in the lock file.
    pub fn take_of(directory: &Path, what: &str) -> Result<Self> {
        durable::create_dir_all(directory)?;
        let path = directory.join(LOCK);
        let failed = |error| Error::io(path.display(), error);
        loop {
            let mut file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .open(&path)
                .map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(refusal(directory, what, &mut file)),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // Its last holder may have removed the file after we opened it: then the lock is on nothing.
            if !is_at(&file, &path) {
                continue;
            }
            let named = file
                .set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| write!(file, "{}", std::process::id()));
            return match named {
                Ok(()) => Ok(Self { _file: file }),
                // On a full disk, no file remains.
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
    Error::damaged(
        Place::path(directory),
        format!(
            "process {} is writing this {what}; wait for it to end",
            holder.trim()
        ),
    )
}

fn is_at(file: &File, path: &Path) -> bool {
    let both = (file.metadata(), fs::metadata(path));
    matches!(both, (Ok(one), Ok(two)) if (one.dev(), one.ino()) == (two.dev(), two.ino()))
}
