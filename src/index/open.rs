//! An index that is open for reading, as it was when its manifest was read.

use super::{
    documents::Documents,
    lists::SetFile,
    manifest::{Manifest, NAME, SegmentEntry},
    part::{Part, Posted},
};
use crate::{
    error::{Error, Place, Result},
    format::Sealed,
    posting::BUCKETS,
    scheme::BlotScheme,
};
use std::path::{Path, PathBuf};

/// Opening costs as much as there are parts, whatever the number of documents.
pub struct Index {
    pub directory: PathBuf,
    pub manifest: Manifest,
    pub scheme: BlotScheme,
    pub segments: Vec<Segment>,
}

pub struct Segment {
    pub documents: Documents,
    pub sets: SetFile,
    pub parts: Vec<Part>,
}

impl Index {
    pub fn open(directory: &Path) -> Result<Self> {
        let manifest = Manifest::read(directory)?;
        let scheme = manifest.scheme(directory)?;
        let segments = manifest.segments.iter().map(|entry| Segment::open(directory, entry, &manifest.scheme)).collect::<Result<_>>()?;
        Ok(Self { directory: directory.to_owned(), manifest, scheme, segments })
    }

    /// Every file of the index but the manifest.
    pub fn files(&self) -> impl Iterator<Item = &Sealed> {
        self.segments.iter().flat_map(Segment::files)
    }
}

impl Segment {
    fn open(directory: &Path, entry: &SegmentEntry, scheme: &str) -> Result<Self> {
        let manifest = || Place::path(&directory.join(NAME));
        let path = |ending: &str| directory.join(format!("{}.{ending}", entry.name));
        let parts = (0..entry.parts).map(|part| Part::open(&path(&format!("{part:03}.part")))).collect::<Result<Vec<_>>>()?;
        let segment = Self { documents: Documents::open(&path("docs"))?, sets: SetFile::open(&path("sets"))?, parts };
        if entry.files.len() != segment.files().count() {
            return Err(Error::damaged(manifest(), format!("segment {} has another number of files than it lists", entry.name)));
        }
        for (file, listed) in segment.files().zip(&entry.files) {
            if file.file_bytes() != listed.bytes || file.seal() != listed.seal {
                return Err(Error::damaged(Place::file(file.name().clone()), "not the file that the manifest names; it was replaced"));
            }
        }
        for (number, part) in (0..).zip(&segment.parts) {
            if part.place() != (number, entry.parts) || part.scheme() != scheme {
                return Err(Error::damaged(Place::file(part.file().name().clone()), "a part of another range or scheme"));
            }
        }
        Ok(segment)
    }

    /// In the order of the manifest.
    pub fn files(&self) -> impl Iterator<Item = &Sealed> {
        [self.documents.file(), self.sets.file()].into_iter().chain(self.parts.iter().map(Part::file))
    }

    /// The documents of a blot that are posted, by number.
    pub fn find(&self, blot: u64, bits: u8, out: &mut Vec<u32>) -> Result<()> {
        out.clear();
        let bucket = crate::posting::bucket_of(blot, bits);
        // Part p of n starts at bucket p·256/n, rounded down.
        let part = ((bucket + 1) * self.parts.len() - 1) / BUCKETS;
        match self.parts[part].find(blot)? {
            None => Ok(()),
            Some(Posted::One(number)) => {
                out.push(number);
                Ok(())
            }
            Some(Posted::Set(set)) => self.sets.read(u64::from(set), out),
        }
    }
}
