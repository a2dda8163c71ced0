//! Which file each document of a slice is from, for an index that follows its files.

use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{
    base::{
        error::{Error, Result},
        files::{Sealed, SealedWriter},
    },
    commands::stage::IdsAndPlaces,
};
use serde::{Deserialize, Serialize};
use std::{io::Write, path::Path, sync::Arc};

const KIND: &str = "files";

#[derive(Debug, Serialize, Deserialize)]
struct Description {
    kind: String,
    documents: u64,
    files: Vec<String>,
    /// Files that could not be used, or only in part.
    bad: Vec<String>,
}

/// Memory: four bytes a document, and the names of the files.
#[derive(Debug, Default)]
pub struct DocumentFiles {
    files: Vec<Arc<str>>,
    /// The file of each document.
    of: Vec<u32>,
    /// Files that could not be used, or only in part.
    pub bad: Vec<Arc<str>>,
}

impl DocumentFiles {
    pub const NAME: &'static str = "files";

    /// Adds the next documents; those of one file follow each other.
    pub fn add(&mut self, ids: &IdsAndPlaces) {
        for (_, place) in ids {
            if self.files.last() != Some(&place.file) {
                self.files.push(place.file.clone());
            }
            self.of.push(self.files.len().to_u32() - 1);
        }
    }

    pub fn write(self, path: &Path, bad: &[Arc<str>]) -> Result<()> {
        let failed = |error| Error::io(path.display(), error);
        let mut out = SealedWriter::create(path).map_err(failed)?;
        self.of
            .iter()
            .try_for_each(|file| out.write_all(&file.to_le_bytes()))
            .map_err(failed)?;
        let (kind, documents) = (KIND.to_owned(), self.of.len().to_u64());
        let [files, bad] =
            [&self.files[..], bad].map(|names| names.iter().map(|name| name.to_string()).collect());
        out.finish(&Description {
            kind,
            documents,
            files,
            bad,
        })
        .map(drop)
        .map_err(failed)
    }

    pub fn open(path: &Path) -> Result<Self> {
        let file = Sealed::open(path)?;
        let Description {
            kind,
            documents,
            files,
            bad,
        } = file.describe()?;
        let wrong = || file.damaged(0, "the description of the files contradicts itself");
        let bytes = file.bytes(8, documents.checked_mul(4).ok_or_else(wrong)?)?;
        let of: Vec<u32> = bytes
            .as_chunks()
            .0
            .iter()
            .map(|bytes| u32::from_le_bytes(*bytes))
            .collect();
        if kind != KIND || of.iter().any(|&file| file.to_usize() >= files.len()) {
            return Err(wrong());
        }
        let [files, bad] = [files, bad].map(|names| names.into_iter().map(Arc::from).collect());
        Ok(Self { files, of, bad })
    }

    /// The file of a document, if it is there.
    pub fn file(&self, document: u32) -> Option<&Arc<str>> {
        self.of
            .get(document.to_usize())
            .map(|&file| &self.files[file.to_usize()])
    }
}
