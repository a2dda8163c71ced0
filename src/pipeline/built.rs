//! What was built beside range parts: the record that dedup-shard gathers.

use super::Watch;
use crate::error::{Error, Place, Problem, Result};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};
use xxhash_rust::xxh3::xxh3_64;

/// The name of the record.
pub const BUILT: &str = "built.json";

/// How range parts were built. It is written last: where it is, all parts are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    /// The checksum of the slice that was read, if it was one.
    pub slice: Option<String>,
    pub ranges: u32,
    pub documents: u32,
    /// What could not be used, as it was told.
    pub problems: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Checked {
    #[serde(flatten)]
    built: Built,
    checksum: String,
}

impl Built {
    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(BUILT);
        let bytes = fs::read(&path).map_err(|error| Error::io(path.display(), error))?;
        let checked: Checked = serde_json::from_slice(&bytes)
            .map_err(|error| Error::damaged(Place::path(&path), format!("not a record of range parts: {error}")))?;
        if checked.built.checksum() != checked.checksum {
            return Err(Error::damaged(Place::path(&path), "the record does not match its checksum; it was altered"));
        }
        Ok(checked.built)
    }

    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        let path = directory.join(BUILT);
        let mut json = serde_json::to_vec_pretty(&Checked { built: self.clone(), checksum: self.checksum() }).unwrap_or_default();
        json.push(b'\n');
        let written = File::create(&path).and_then(|mut file| file.write_all(&json).and_then(|()| file.sync_all()));
        written.map_err(|error| Error::io(path.display(), error))
    }

    fn checksum(&self) -> String {
        format!("{:016x}", xxh3_64(&serde_json::to_vec(self).unwrap_or_default()))
    }
}

/// Keeps what it is told, and passes it on.
pub(super) struct Recorder<'w> {
    pub watch: &'w mut dyn Watch,
    pub problems: Vec<String>,
}

impl Watch for Recorder<'_> {
    fn problem(&mut self, problem: &Problem) {
        self.problems.push(problem.to_string());
        self.watch.problem(problem);
    }

    fn progress(&mut self, bytes: u64, documents: u64) {
        self.watch.progress(bytes, documents);
    }
}
