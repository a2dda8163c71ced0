//! A directory that appears under its name when it is complete: filled under another name, then renamed.
//!
//! Two processes may make the same directory: each fills its own, and the first to finish wins.

use super::durable;
use crate::base::error::{Error, Place, Result};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

/// Stands between the name of a directory and the process that makes it.
const MARK: &str = ".tmp-";

/// Makes a directory that `fill` fills. When this returns it is on disk, with all that is in it.
pub fn create<T>(target: &Path, fill: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let filled = create_unsynced(target, |beside| {
        fill(beside).and_then(|filled| durable::sync_tree(beside).map(|()| filled))
    })?;
    durable::sync_ancestors(target)?;
    Ok(filled)
}

/// The same for files that are checked before they are used again: a power loss may damage them.
pub fn create_unsynced<T>(target: &Path, fill: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    if fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Error::damaged(
            Place::path(target),
            "is there already; choose another name, or remove it first",
        ));
    }
    let beside = beside(target);
    let filled = make_own(&beside).and_then(|_lock| {
        let filled = fill(&beside)?;
        fs::rename(&beside, target).map_err(|error| Error::io(target.display(), error))?;
        Ok(filled)
    });
    filled.inspect_err(|_| drop(fs::remove_dir_all(&beside)))
}

/// Removes what processes that died left in `parent`. Those that are still at work hold a lock.
pub fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_ours = entry.file_name().to_string_lossy().contains(MARK);
        if is_ours && File::open(&path).is_ok_and(|directory| directory.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

fn beside(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    // On a shared file system another machine may have a process of this number.
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .collect();
    name.push(format!("{MARK}{host}-{}", std::process::id()));
    target.with_file_name(name)
}

/// A new directory, locked as long as the file that comes back is open.
fn make_own(directory: &Path) -> Result<File> {
    let failed = |error| Error::io(directory.display(), error);
    // One with our number was left by a process that is gone.
    let _ = fs::remove_dir_all(directory);
    durable::create_dir_all(durable::parent_of(directory))?;
    fs::create_dir(directory).map_err(failed)?;
    let own = File::open(directory).map_err(failed)?;
    own.lock().map_err(failed)?;
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_appears_whole_or_not_at_all() {
        let work = tempfile::tempdir().unwrap();
        let target = work.path().join("a");
        let fill = |directory: &Path| {
            fs::write(directory.join("file"), "x").map_err(|error| Error::io("x", error))
        };
        let failing = |directory: &Path| {
            fill(directory).and_then(|()| Err::<(), _>(Error::Usage("no".to_owned())))
        };
        assert_eq!(create(&target, failing).unwrap_err().to_string(), "no");
        assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0);
        create(&target, fill).unwrap();
        assert_eq!(fs::read(target.join("file")).unwrap(), b"x");
        assert!(
            create(&target, fill)
                .unwrap_err()
                .to_string()
                .ends_with("a: is there already; choose another name, or remove it first")
        );
        assert_eq!(fs::read_dir(work.path()).unwrap().count(), 1);
    }

    #[test]
    fn leftovers_of_dead_processes_are_swept_and_those_of_living_ones_stay() {
        let work = tempfile::tempdir().unwrap();
        fs::create_dir_all(work.path().join("b.tmp-1/x")).unwrap();
        create(&work.path().join("a"), |beside| {
            sweep(work.path());
            assert!(beside.is_dir() && !work.path().join("b.tmp-1").exists());
            Ok(())
        })
        .unwrap();
    }
}
