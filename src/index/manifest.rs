//! The manifest: which files make the index. Its replacement is a commit.

use crate::{
    error::{Error, Place, Result},
    scheme::BlotScheme,
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};
use xxhash_rust::xxh3::xxh3_64;

pub const NAME: &str = "manifest.json";
const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always `index`.
    pub dedup: String,
    pub version: u32,
    pub scheme: String,
    /// Counts commits.
    pub generation: u64,
    /// One more than the largest number of a document.
    pub numbers: u32,
    pub segments: Vec<SegmentEntry>,
}

/// What one commit added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentEntry {
    pub name: String,
    pub parts: u32,
    pub files: Vec<FileSeal>,
}

/// A file, and the checksum in its footer, which stands for all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSeal {
    pub name: String,
    pub bytes: u64,
    pub seal: String,
}

#[derive(Serialize, Deserialize)]
struct Checked {
    #[serde(flatten)]
    manifest: Manifest,
    checksum: String,
}

impl Manifest {
    pub fn new(scheme: &BlotScheme) -> Self {
        Self { dedup: "index".to_owned(), version: VERSION, scheme: scheme.to_string(), generation: 0, numbers: 0, segments: Vec::new() }
    }

    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(NAME);
        let place = || Place::path(&path);
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::damaged(Place::path(directory), "no dedup index is here (there is no manifest.json)"),
            _ => Error::io(path.display(), error),
        })?;
        let checked: Checked =
            serde_json::from_slice(&bytes).map_err(|error| Error::damaged(place(), format!("not the manifest of an index: {error}")))?;
        if checked.manifest.checksum() != checked.checksum {
            return Err(Error::damaged(place(), "the manifest does not match its checksum; it was altered"));
        }
        if checked.manifest.dedup != "index" || checked.manifest.version != VERSION {
            let found = checked.manifest.version;
            return Err(Error::damaged(place(), format!("an index of version {found}, this program reads version {VERSION}")));
        }
        Ok(checked.manifest)
    }

    /// Replaces the manifest in a directory: the commit. All files it names must be on disk already.
    pub fn commit(&self, directory: &Path) -> Result<()> {
        let (path, beside) = (directory.join(NAME), directory.join(format!("{NAME}.new")));
        let failed = |error| Error::io(path.display(), error);
        let checked = Checked { manifest: self.clone(), checksum: self.checksum() };
        let mut json = serde_json::to_vec_pretty(&checked).unwrap_or_default();
        json.push(b'\n');
        let mut file = File::create(&beside).map_err(failed)?;
        file.write_all(&json).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&beside, &path).map_err(failed)?;
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)
    }

    pub fn scheme(&self, directory: &Path) -> Result<BlotScheme> {
        self.scheme.parse().map_err(|what: String| Error::damaged(Place::path(&directory.join(NAME)), what))
    }

    fn checksum(&self) -> String {
        format!("{:016x}", xxh3_64(&serde_json::to_vec(self).unwrap_or_default()))
    }
}
