//! Texts that were extracted before, by the checksum of the file and how it was converted.
//!
//! ```text
//! CACHE/3f/3fa1…c2-91b7d2e08f63c455     dedup text 1 8d5c0e5b7b1c2f04⏎ and the text
//! ```
//!
//! The first line has the checksum of the text, so that a file which was cut or altered is not believed. Entries appear under their
//! names when they are complete. A cache that cannot be read or written costs time, not answers: the file is converted again.

use std::{
    env,
    fs::{self, DirBuilder},
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Raised when conversions by code of ours give another text than before.
pub(super) const CONVERSION_VERSION: u32 = 1;

/// The directory of extracted texts of the user who runs this program, if that user has one.
pub fn default_cache() -> Option<PathBuf> {
    let from = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let home = || from("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let caches = from("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    caches.map(|caches| caches.join("dedup"))
}

/// A directory of extracted texts. Only its owner can read it.
#[derive(Debug, Clone)]
pub(super) struct TextCache {
    directory: PathBuf,
}

impl TextCache {
    /// A cache in a directory, which is made when the first text is kept.
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }

    /// The entry of a file, converted in one way.
    pub fn entry(&self, bytes: &[u8], conversion: &str) -> CacheEntry {
        let content = format!("{:032x}", xxh3_128(bytes));
        let name = format!("{content}-{:016x}", xxh3_64(conversion.as_bytes()));
        CacheEntry {
            path: self.directory.join(&content[..2]).join(name),
        }
    }
}

/// The place of a text in the cache.
#[derive(Debug)]
pub(super) struct CacheEntry {
    path: PathBuf,
}

impl CacheEntry {
    /// The text, if it is there and whole.
    pub fn get(&self) -> Option<String> {
        let mut text = fs::read_to_string(&self.path).ok()?;
        let start = text.find('\n')? + 1;
        let is_right = text[..start] == head(&text[start..]);
        is_right.then(|| {
            text.drain(..start);
            text
        })
    }

    /// Keeps a text.
    pub fn put(&self, text: &str) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(head(text).as_bytes())?;
        file.write_all(text.as_bytes())?;
        file.persist(&self.path)?;
        Ok(())
    }
}

fn head(text: &str) -> String {
    format!("dedup text 1 {:016x}\n", xxh3_64(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_for_its_file_and_conversion_only() {
        let directory = tempfile::tempdir().unwrap();
        let cache = TextCache::new(&directory.path().join("cache"));
        let entry = cache.entry(b"bytes", "docx 1");
        assert_eq!(entry.get(), None);
        entry.put("some text\nin lines").unwrap();
        assert_eq!(entry.get().as_deref(), Some("some text\nin lines"));
        assert_eq!(cache.entry(b"bytes", "docx 2").get(), None);
        assert_eq!(cache.entry(b"Bytes", "docx 1").get(), None);
    }

    #[test]
    fn a_damaged_entry_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let entry = TextCache::new(directory.path()).entry(b"bytes", "docx 1");
        entry.put("some text").unwrap();
        let whole = fs::read(&entry.path).unwrap();
        for length in 0..whole.len() {
            fs::write(&entry.path, &whole[..length]).unwrap();
            assert_eq!(entry.get(), None, "{length}");
        }
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs::write(&entry.path, flipped).unwrap();
            assert_eq!(entry.get(), None, "{at}");
        }
    }
}
