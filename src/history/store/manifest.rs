//! The manifest: which files make up a history. Its atomic replacement is a commit.

use super::{
    log_cursor::{Forgotten, LogCursor},
    synced_lengths,
};

use crate::{
    base::{
        error::{Error, Place, Result},
        files::durable,
    },
    index::FileSeal,
};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

pub const NAME: &str = "manifest.json";
const TEMPORARY_NAME: &str = "manifest.json.new";
const LOCK: &str = "lock";
const VERSION: u32 = 2;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryManifest {
    /// Always `history`.
    pub dedup: String,
    pub version: u32,
    pub scheme: String,
    /// The number of the next segment file.
    pub next_segment: u64,
    /// The first journal whose entries are in no segment; later ones have the next numbers.
    pub journal: u64,
    /// The live segments, oldest first.
    pub segments: Vec<SegmentFile>,
    /// The sequence numbers of removed entries in segments, sorted.
    pub removed: Vec<u64>,
    /// Tells a history, with its copies and parts, from all others: random, since it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The cardinalities of the prints that it keeps; all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<String>,
    /// The log that it follows, and how far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogCursor>,
    /// What entries of that log have forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten: Option<Forgotten>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentFile {
    pub level: u32,
    #[serde(flatten)]
    pub file: FileSeal,
}

#[derive(Serialize, Deserialize)]
struct ChecksummedManifest {
    #[serde(flatten)]
    manifest: HistoryManifest,
    checksum: String,
}

/// 128 random bits in hex.
pub fn new_identity() -> String {
    let mut bytes = [0; 16];
    let read = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    if read.is_err() {
        // Without the device: what no two processes of a machine have in common.
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let seed = format!("{} {now:?}", std::process::id());
        bytes = xxh3_128(seed.as_bytes()).to_le_bytes();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn segment_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:06}.prints"))
}

pub fn journal_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:06}.journal"))
}

impl HistoryManifest {
    pub fn new(scheme: String) -> Self {
        let (segments, removed) = (Vec::new(), Vec::new());
        Self {
            dedup: "history".to_owned(),
            version: VERSION,
            scheme,
            next_segment: 1,
            journal: 1,
            segments,
            removed,
            identity: Some(new_identity()),
            buckets: None,
            log: None,
            forgotten: None,
        }
    }

    /// Reads the manifest; `None` if there is none.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join(NAME);
        let damaged = |what: String| Err(Error::damaged(Place::path(&path), what));
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| Error::io(path.display(), error))?,
        };
        #[derive(Deserialize)]
        struct ManifestVersion {
            dedup: String,
            version: u32,
        }
        if let Ok(ManifestVersion { dedup, version }) = serde_json::from_slice(&bytes)
            && dedup == "history"
            && version != VERSION
        {
            return damaged(match version {
                1 => "a history of version 1, with prints whose bits depend on one another; this program reads version 2: \
                      make it again from the documents, in a new directory"
                    .to_owned(),
                _ => format!("a history of version {version}, this program reads version {VERSION}; use the program that made it"),
            });
        }
        let ChecksummedManifest { manifest, checksum } = match serde_json::from_slice(&bytes) {
            Ok(checked) => checked,
            Err(error) => return damaged(format!("not the manifest of a history: {error}")),
        };
        if manifest.checksum() != checksum {
            return damaged("the manifest does not match its checksum; it was altered".to_owned());
        }
        if manifest.dedup != "history" {
            return damaged("not the manifest of a history".to_owned());
        }
        Ok(Some(manifest))
    }

    /// Replaces the manifest: the commit. All files it names must be on disk already.
    pub fn commit(&self, directory: &Path) -> Result<()> {
        let mut json = serde_json::to_vec_pretty(&ChecksummedManifest {
            manifest: self.clone(),
            checksum: self.checksum(),
        })
        .unwrap_or_default();
        json.push(b'\n');
        durable::replace(&directory.join(NAME), &json)
    }

    fn checksum(&self) -> String {
        format!(
            "{:016x}",
            xxh3_64(&serde_json::to_vec(self).unwrap_or_default())
        )
    }

    fn names(&self, name: &str) -> bool {
        let journal = name
            .strip_suffix(".journal")
            .and_then(|number| number.parse::<u64>().ok());
        name == NAME
            || name == synced_lengths::NAME
            || journal.is_some_and(|number| number >= self.journal)
            || self
                .segments
                .iter()
                .any(|segment| segment.file.name == name)
    }

    /// Deletes the files of a history that the manifest does not name: those of a dead writer, and
    /// replaced ones.
    pub fn sweep(&self, directory: &Path) -> Result<()> {
        for name in names_in(directory)?
            .iter()
            .filter(|name| is_history_file(name) && *name != LOCK && !self.names(name))
        {
            fs::remove_file(directory.join(name))
                .map_err(|error| Error::io(directory.join(name).display(), error))?;
        }
        Ok(())
    }
}

/// Refuses a directory with files that are not those of a history.
pub fn ensure_new(directory: &Path) -> Result<()> {
    match names_in(directory)?
        .iter()
        .find(|name| !is_history_file(name) || name.ends_with(".prints"))
    {
        Some(name) => Err(Error::damaged(
            Place::path(directory),
            format!("holds '{name}' and no history; choose another name, or an empty directory"),
        )),
        None => Ok(()),
    }
}

fn names_in(directory: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|error| Error::io(directory.display(), error))?,
    };
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
    };
    entries
        .map(|entry| name(entry).map_err(|error| Error::io(directory.display(), error)))
        .collect()
}

/// Whether a history may have a file of this name: `000001.prints`, `000001.journal`, `synced`, the
/// manifest, its temporary successor, the lock.
fn is_history_file(name: &str) -> bool {
    let is_numbered = name.split_once('.').is_some_and(|(number, ending)| {
        number.len() >= 6
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && ["prints", "journal"].contains(&ending)
    });
    [NAME, TEMPORARY_NAME, LOCK, synced_lengths::NAME].contains(&name) || is_numbered
}
