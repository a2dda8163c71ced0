//! A directory that appears when it is whole: made beside, renamed at the end.
//!
//! Two processes may make the same directory: each has its own beside it, and the first to be done wins.

use crate::error::{Error, Place, Result};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

/// What stands between the name of a directory and the process that makes it.
const MARK: &str = ".tmp-";

/// Makes a directory: `work` fills one beside it, which then gets its name.
pub fn write_aside<T>(target: &Path, work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    if fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Error::damaged(Place::path(target), "is there already; choose another name, or remove it first"));
    }
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = beside(target);
    let done = make_own(&beside).and_then(|_lock| {
        let done = work(&beside)?;
        File::open(&beside).and_then(|directory| directory.sync_all()).map_err(|error| Error::io(beside.display(), error))?;
        fs::rename(&beside, target).map_err(|error| Error::io(target.display(), error))?;
        Ok(done)
    });
    let done = done.inspect_err(|_| drop(fs::remove_dir_all(&beside)))?;
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(|error| Error::io(parent.display(), error))?;
    Ok(done)
}

/// Removes what processes that died left beside directories in `parent`. Those that are still at work hold a lock.
pub fn sweep_aside(parent: &Path) {
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
    let host: String = host.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    name.push(format!("{MARK}{host}-{}", std::process::id()));
    target.with_file_name(name)
}

/// A new directory, locked as long as what comes back lives.
fn make_own(directory: &Path) -> Result<File> {
    let failed = |error| Error::io(directory.display(), error);
    // One with our number was left by a process that is gone.
    let _ = fs::remove_dir_all(directory);
    fs::create_dir_all(directory).map_err(failed)?;
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
        let fill = |directory: &Path| fs::write(directory.join("file"), "x").map_err(|error| Error::io("x", error));
        let failing = |directory: &Path| fill(directory).and_then(|()| Err::<(), _>(Error::Usage("no".to_owned())));
        assert_eq!(write_aside(&target, failing).unwrap_err().to_string(), "no");
        assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0);
        write_aside(&target, fill).unwrap();
        assert_eq!(fs::read(target.join("file")).unwrap(), b"x");
        assert!(
            write_aside(&target, fill).unwrap_err().to_string().ends_with("a: is there already; choose another name, or remove it first")
        );
        assert_eq!(fs::read_dir(work.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_the_dead_left_is_swept_and_the_living_are_let_be() {
        let work = tempfile::tempdir().unwrap();
        fs::create_dir_all(work.path().join("b.tmp-1/x")).unwrap();
        write_aside(&work.path().join("a"), |beside| {
            sweep_aside(work.path());
            assert!(beside.is_dir() && !work.path().join("b.tmp-1").exists());
            Ok(())
        })
        .unwrap();
    }
}
