//! Makes a segment: documents come in order, with their blots; files come out.

use super::{
    documents::{self, Document, Row},
    lists,
    manifest::{FileSeal, Manifest, SegmentEntry},
    part,
};
use crate::{
    error::{Error, Place, Result},
    format::{Sealed, sync_files},
    parallel::Limits,
    posting::{BUCKETS, Collector, Key, Postings, TempDir, invert},
    scheme::BlotScheme,
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// Takes documents by rising number.
///
/// Memory: `memory_bytes`, about a hundred bytes and its id for each document, and the distinct sets.
pub struct SegmentBuilder<K> {
    documents: Vec<Document>,
    by_hash: HashMap<u128, u32>,
    collector: Collector<K>,
    memory_bytes: u64,
    threads: usize,
    parts: u32,
}

impl<K: Key> SegmentBuilder<K> {
    pub fn new(bits: u8, memory_bytes: u64, threads: usize, parts: u32, directory: TempDir) -> Result<Self> {
        if parts == 0 || parts as usize > BUCKETS {
            return Err(Error::Usage(format!("{parts} parts; there can be 1 to {BUCKETS}")));
        }
        // What is sorted takes as much again, and what comes in, too.
        let collector = Collector::new(bits, memory_bytes / 2, threads, directory);
        Ok(Self { documents: Vec::new(), by_hash: HashMap::new(), collector, memory_bytes, threads, parts })
    }

    /// Takes the next documents and their postings, numbered from 0 among themselves. Those whose content came before are aliases, and not posted.
    pub fn add(&mut self, rows: Vec<(Box<str>, Row)>, postings: &Postings<K>) -> Result<()> {
        let first = self.documents.len() as u32;
        if self.documents.len() + rows.len() >= u32::MAX as usize {
            return Err(Error::Usage("more than 4 G documents; split the collection".to_owned()));
        }
        let mut is_posted = Vec::with_capacity(rows.len());
        for (id, row) in rows {
            let number = self.documents.len() as u32;
            let representative = row.hash.map_or(number, |hash| *self.by_hash.entry(hash).or_insert(number));
            is_posted.push(representative == number);
            self.documents.push(Document { id: id.into(), row: row.numbered(number, representative) });
        }
        self.collector.add(postings, first, |at| is_posted[at as usize])
    }

    /// Writes all files of the segment, and says what the manifest must say.
    pub fn write(mut self, directory: &Path, name: &str, scheme: &BlotScheme) -> Result<SegmentEntry> {
        let inverted = invert(self.collector, self.documents.len(), self.memory_bytes / 2)?;
        for index in 0..self.documents.len() {
            let representative = self.documents[index].row.representative as usize;
            self.documents[index].row.blots = inverted.blots_of[representative];
        }
        let path = |ending: &str| directory.join(format!("{name}.{ending}"));
        let mut files = vec![path("docs"), path("sets")];
        let failed = |path: &Path, error| Error::io(path.display(), error);
        documents::write(&files[0], &mut self.documents).map_err(|error| failed(&files[0], error))?;
        drop(self.documents);
        lists::write(&files[1], &inverted.sets).map_err(|error| failed(&files[1], error))?;
        for part in 0..self.parts {
            files.push(path(&format!("{part:03}.part")));
            let limits = Limits::new(self.threads, 2 * self.threads as u64);
            part::write(&files[files.len() - 1], &inverted, &scheme.to_string(), part, self.parts, limits)?;
        }
        sync_files(directory, &files)?;
        let files = files.iter().map(PathBuf::as_path).map(seal_of).collect::<Result<_>>()?;
        Ok(SegmentEntry { name: name.to_owned(), parts: self.parts, files })
    }
}

fn seal_of(path: &Path) -> Result<FileSeal> {
    let file = Sealed::open(path)?;
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| Error::damaged(Place::path(path), "no name"))?;
    Ok(FileSeal { name: name.to_owned(), bytes: file.file_bytes(), seal: file.seal() })
}

/// The manifest of a new index with one segment.
pub fn first_manifest(scheme: &BlotScheme, segment: SegmentEntry, numbers: u32) -> Manifest {
    Manifest { generation: 1, numbers, segments: vec![segment], ..Manifest::new(scheme) }
}
