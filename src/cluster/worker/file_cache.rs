//! Files that stay on a host between runs, each named by its checksum and its length. They are
//! linked, not copied.

use super::{protocol::TransferItem, transfer::checksum_of};
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// Smaller files are sent as fast as they are looked up.
const LEAST_BYTES: u64 = 4096;

pub struct FileCache {
    directory: PathBuf,
}

impl FileCache {
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    fn path(&self, item: &TransferItem) -> Option<PathBuf> {
        let is_sum = item.sum.len() == 32 && item.sum.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_sum && item.bytes >= LEAST_BYTES)
            .then(|| self.directory.join(format!("{}-{}", item.sum, item.bytes)))
    }

    /// Links a file to where it is wanted, if it is cached and intact.
    pub fn give(&self, item: &TransferItem, target: &Path) -> bool {
        let Some(path) = self.path(item).filter(|path| path.exists()) else {
            return false;
        };
        if !checksum_of(&path).is_ok_and(|(bytes, sum)| bytes == item.bytes && sum == item.sum) {
            let _ = fs::remove_file(&path);
            return false;
        }
        // Files that were used recently stay longest.
        let _ = fs::File::options()
            .append(true)
            .open(&path)
            .and_then(|file| file.set_modified(SystemTime::now()));
        fs::hard_link(&path, target).is_ok()
    }

    /// Adds a file. Errors are ignored: it is only a cache.
    pub fn keep(&self, item: &TransferItem, file: &Path) {
        if let Some(path) = self.path(item).filter(|path| !path.exists()) {
            let _ = fs::create_dir_all(&self.directory).and_then(|()| fs::hard_link(file, path));
        }
    }

    /// Removes files that were not used for longer than `age`, and then the oldest until the rest
    /// fits.
    pub fn prune(&self, bytes: u64, age: Duration) {
        let entries = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let metadata = entry.metadata().ok()?;
                Some((metadata.modified().ok()?, metadata.len(), entry.path()))
            })
            .collect();
        files.sort();
        let (now, mut total) = (
            SystemTime::now(),
            files.iter().map(|(_, length, _)| length).sum::<u64>(),
        );
        for (modified, length, path) in files {
            if total > bytes || now.duration_since(modified).is_ok_and(|since| since > age) {
                let _ = fs::remove_file(path);
                total -= length;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_cached_by_content_and_the_oldest_are_removed_first() {
        let work = tempfile::tempdir().unwrap();
        let cache = FileCache::new(work.path().join("cache"));
        let item = |name: &str, byte: u8| {
            let file = work.path().join(name);
            fs::write(&file, vec![byte; 5000]).unwrap();
            let (bytes, sum) = checksum_of(&file).unwrap();
            let item = TransferItem {
                path: name.to_owned(),
                bytes,
                sum,
            };
            cache.keep(&item, &file);
            (item, file)
        };
        let ((old, old_file), (new, _)) = (item("old", 1), item("new", 2));
        fs::File::options()
            .append(true)
            .open(&old_file)
            .unwrap()
            .set_modified(SystemTime::UNIX_EPOCH)
            .unwrap();
        cache.prune(10_000, Duration::MAX);
        let target = |name: &str| work.path().join(name);
        assert!(cache.give(&new, &target("a")) && fs::read(target("a")).unwrap() == [2; 5000]);
        cache.prune(9_999, Duration::MAX);
        assert!(!cache.give(&old, &target("b")) && cache.give(&new, &target("c")));
        // A file that was altered is not served.
        fs::write(target("c"), vec![3; 5000]).unwrap();
        assert!(!cache.give(&new, &target("d")) && !target("d").exists());
        let odd = TransferItem {
            path: String::new(),
            bytes: 5000,
            sum: "../../../../../../../etc/passwd..".to_owned(),
        };
        assert!(!cache.give(&odd, &target("e")));
    }
}
