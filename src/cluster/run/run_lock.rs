//! The directory of a run as a whole: its lock, and removing intermediate outputs.

use crate::{
    base::{
        error::{Error, Place, Result},
        files::atomic_dir,
    },
    cluster::plan::{PLAN_FILE, TaskKind},
};
use std::{
    fs::{self, File, TryLockError},
    path::Path,
};

/// A lock, held by the one process that schedules the tasks of a run.
pub struct RunLock {
    _file: File,
}

impl RunLock {
    /// Takes the lock, or fails at once if another process has it.
    pub fn take(run: &Path) -> Result<Self> {
        let path = run.join(PLAN_FILE);
        let file = File::open(&path).map_err(|error| Error::io(path.display(), error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::damaged(
                Place::path(run),
                "another process is at work on this run; wait for it to end",
            )),
            Err(TryLockError::Error(error)) => Err(Error::io(path.display(), error)),
        }
    }
}

/// Removes intermediate outputs, and what dead processes left. The plan and the results stay.
pub fn clean(run: &Path) -> Result<()> {
    atomic_dir::sweep(run);
    for name in TaskKind::ALL
        .iter()
        .filter_map(|kind| kind.directory())
        .chain(["logs"])
    {
        let path = run.join(name);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io(path.display(), error));
            }
            _ => {}
        }
    }
    Ok(())
}
