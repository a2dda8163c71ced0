//! An index that is open for reading, as it was when its manifest was read.

use super::{
    document_row::DocumentRow,
    documents::Documents,
    manifest::{Manifest, NAME, SegmentEntry},
    part::{BlotTarget, Part, buckets_of},
    sections::{ExpectedFile, SECTIONS, SegmentReaders, segment_files},
    set_file::SetFile,
    word_file::WordFile,
};
use crate::{
    base::{
        error::{Error, Place, Result},
        files::Sealed,
        ids::{Blot, PartNo},
        num::ToUsize,
    },
    index::posting::{BUCKETS, bucket_of},
    text::scheme::BlotScheme,
};
use std::{
    ops::Range,
    path::{Path, PathBuf},
};

/// An open index. Opening it takes time by the number of parts, not of documents.
pub struct Index {
    /// Where its files are.
    pub directory: PathBuf,
    /// What it is made of.
    pub manifest: Manifest,
    /// The scheme of its blots.
    pub scheme: BlotScheme,
    /// Its segments, oldest first.
    pub segments: Vec<Segment>,
}

/// The open files of a segment.
pub struct Segment {
    /// The rows and ids of its documents.
    pub documents: Documents,
    /// Its document sets.
    pub sets: SetFile,
    /// Its postings, one part for each range of the blots.
    pub parts: Vec<Part>,
    /// The dictionary, if the index has one.
    pub words: Option<WordFile>,
    range: Range<usize>,
}

/// Where a row stands: its segment, and its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowLocation {
    /// The number of the segment, counted from the oldest.
    pub segment: usize,
    /// The place of the row in its segment.
    pub place: u32,
}

/// How much of its documents an index of shared chunks holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// How many documents there are.
    pub documents: u64,
    /// Distinct blots of each document, exact duplicates counted once.
    pub blots: u64,
    /// Those of them that the index holds.
    pub posted: u64,
}

impl Index {
    /// Reads the rows of all documents.
    pub fn coverage(&self) -> Result<Coverage> {
        let mut coverage = Coverage::default();
        for (segment, searched) in self.segments.iter().enumerate() {
            for place in 0..searched.documents.len() {
                let row = searched.documents.row(place)?;
                coverage.documents += u64::from(self.is_listed(segment, row.number)?);
                if !row.is_alias() && self.is_posted(segment, row.number)? {
                    coverage.blots += u64::from(row.blots);
                    coverage.posted += u64::from(row.posted);
                }
            }
        }
        Ok(coverage)
    }

    /// Opens the index in a directory.
    pub fn open(directory: &Path) -> Result<Self> {
        let mut manifest = Manifest::read(directory)?;
        loop {
            let opened = Self::open_as(directory, &manifest, None);
            // A writer may have replaced files between the reading of the manifest and their
            // opening: then there is a newer manifest.
            let now = if opened.is_err() {
                Manifest::read(directory)?
            } else {
                return opened;
            };
            if now == manifest {
                return opened;
            }
            manifest = now;
        }
    }

    /// Opens only the files that hold a range of blots, given by their top eight bits: other parts,
    /// and words, may be missing. Opens the current state, or the one after an earlier commit.
    pub fn open_range(
        directory: &Path,
        buckets: Range<usize>,
        generation: Option<u64>,
    ) -> Result<Self> {
        let manifest = Manifest::read(directory)?;
        if manifest.range.is_some() {
            return Err(Error::damaged(
                Place::path(directory),
                "a part of an index; a range of the whole is expected",
            ));
        }
        let manifest = generation.map_or_else(
            || Ok(manifest.clone()),
            |generation| manifest.at(directory, generation),
        )?;
        Self::open_as(directory, &manifest, Some(&buckets))
    }

    fn open_as(
        directory: &Path,
        manifest: &Manifest,
        range: Option<&Range<usize>>,
    ) -> Result<Self> {
        let scheme = manifest.scheme(directory)?;
        let segments = manifest
            .segments
            .iter()
            .map(|entry| Segment::open(directory, entry, manifest, range))
            .collect::<Result<_>>()?;
        Ok(Self {
            directory: directory.to_owned(),
            manifest: manifest.clone(),
            scheme,
            segments,
        })
    }

    /// The files that a manifest names, which may not be committed yet.
    pub fn open_as_of(directory: &Path, manifest: &Manifest) -> Result<Self> {
        Self::open_as(directory, manifest, None)
    }

    /// As it was after an earlier commit.
    pub fn open_at(directory: &Path, generation: u64) -> Result<Self> {
        let manifest = Self::open(directory)?.manifest.at(directory, generation)?;
        Self::open_as(directory, &manifest, None)
    }

    /// An index of all blots, not of a range of them.
    pub fn open_whole(directory: &Path) -> Result<Self> {
        let index = Self::open(directory)?;
        if index.manifest.range.is_some() {
            let what = "a part of an index; join all of them with dedup-index merge first";
            return Err(Error::damaged(Place::path(directory), what));
        }
        Ok(index)
    }

    /// Releases the memory of all mapped files; they are read again when needed.
    pub fn release(&self) {
        self.segments
            .iter()
            .flat_map(Segment::files)
            .for_each(Sealed::release);
    }

    /// A row.
    pub fn row(&self, at: RowLocation) -> Result<DocumentRow> {
        self.segments[at.segment].documents.row(at.place)
    }

    /// The id of the document of a row.
    pub fn id(&self, at: RowLocation) -> Result<String> {
        self.segments[at.segment].documents.id(at.place)
    }

    /// Whether the postings of a number in a segment still count.
    pub fn is_posted(&self, segment: usize, number: u32) -> Result<bool> {
        for newer in &self.segments[segment + 1..] {
            if newer.documents.effects()?.retired.contains(number) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the row of a number in a segment is still a document.
    pub fn is_listed(&self, segment: usize, number: u32) -> Result<bool> {
        for newer in &self.segments[segment + 1..] {
            let effects = newer.documents.effects()?;
            if effects.retired.contains(number) || effects.gone.contains(number) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The document with this id.
    pub fn find_id(&self, id: &str) -> Result<Option<RowLocation>> {
        for (segment, found) in self.segments.iter().enumerate().rev() {
            if let Some(place) = found.documents.find_id(id)?
                && self.is_listed(segment, found.documents.row(place)?.number)?
            {
                return Ok(Some(RowLocation { segment, place }));
            }
        }
        Ok(None)
    }

    /// Where the postings of this content are.
    pub fn find_content(&self, hash: u128) -> Result<Option<RowLocation>> {
        for (segment, found) in self.segments.iter().enumerate().rev() {
            if let Some(place) = found.documents.find_hash(hash)?
                && self.is_posted(segment, found.documents.row(place)?.number)?
            {
                return Ok(Some(RowLocation { segment, place }));
            }
        }
        Ok(None)
    }

    /// Where the postings of this number are.
    pub fn find_number(&self, number: u32) -> Result<Option<RowLocation>> {
        for (segment, found) in self.segments.iter().enumerate().rev() {
            if let Some(place) = found.documents.place_of(number)? {
                return Ok(self
                    .is_posted(segment, number)?
                    .then_some(RowLocation { segment, place }));
            }
        }
        Ok(None)
    }

    /// All documents of a content, given by where its postings are: by rising number, never none.
    pub fn documents_of(&self, content: RowLocation) -> Result<Vec<RowLocation>> {
        let number = self.row(content)?.number;
        let mut found = Vec::new();
        if self.is_listed(content.segment, number)? {
            found.push((number, content));
        }
        for (segment, searched) in self.segments.iter().enumerate().skip(content.segment) {
            searched.documents.for_each_alias(number, |place| {
                let alias = searched.documents.row(place)?.number;
                if self.is_listed(segment, alias)? {
                    found.push((alias, RowLocation { segment, place }));
                }
                Ok(())
            })?;
        }
        found.sort_unstable();
        Ok(found.into_iter().map(|(_, at)| at).collect())
    }

    /// The ids of all documents that have a blot, in the order of their numbers.
    pub fn ids_with(&self, blot: Blot) -> Result<Vec<String>> {
        let (mut contents, mut documents) = (Vec::new(), Vec::new());
        self.find(blot, &mut contents)?;
        for content in contents {
            for at in self.documents_of(content)? {
                documents.push((self.row(at)?.number, self.id(at)?));
            }
        }
        documents.sort_unstable();
        Ok(documents.into_iter().map(|(_, id)| id).collect())
    }

    /// Replaces `out` by the rows whose postings have a blot, one for each content.
    pub fn find(&self, blot: Blot, out: &mut Vec<RowLocation>) -> Result<()> {
        out.clear();
        let mut places = Vec::new();
        for (segment, searched) in self.segments.iter().enumerate() {
            let Some(posted) = searched.find(blot, self.scheme.bits)? else {
                continue;
            };
            searched.places(posted, &mut places)?;
            for &place in &places {
                if self.is_posted(segment, searched.documents.row(place)?.number)? {
                    out.push(RowLocation { segment, place });
                }
            }
        }
        Ok(())
    }
}

impl Segment {
    /// All of it, or only what has the blots of a range.
    fn open(
        directory: &Path,
        entry: &SegmentEntry,
        manifest: &Manifest,
        only: Option<&Range<usize>>,
    ) -> Result<Self> {
        let damaged = |what: String| Error::damaged(Place::path(&directory.join(NAME)), what);
        let most = if manifest.range.is_some() { 1 } else { BUCKETS };
        if entry.parts == 0 || entry.parts.to_usize() > most {
            return Err(damaged(format!(
                "segment {} has {} parts",
                entry.name, entry.parts
            )));
        }
        let expected = segment_files(entry, manifest);
        if expected.len() != entry.files.len() {
            return Err(damaged(format!(
                "segment {} has another number of files than it lists",
                entry.name
            )));
        }
        let mut readers = SegmentReaders::default();
        for (file, listed) in expected.iter().zip(&entry.files) {
            if is_needed(file, entry, manifest, only) {
                let opened = (file.reader.open)(&mut readers, &directory.join(&file.name))?;
                listed.ensure_is(opened)?;
            }
        }
        let incomplete = || damaged(format!("segment {} is not complete", entry.name));
        let segment = Self {
            documents: readers.documents.ok_or_else(incomplete)?,
            sets: readers.sets.ok_or_else(incomplete)?,
            parts: readers.parts,
            words: readers.words,
            range: only.cloned().unwrap_or_else(|| manifest.buckets()),
        };
        segment.ensure_ranges_fit(entry, manifest, only)?;
        Ok(segment)
    }

    /// Refuses parts and words of another range than the manifest says, and parts of another
    /// scheme.
    fn ensure_ranges_fit(
        &self,
        entry: &SegmentEntry,
        manifest: &Manifest,
        only: Option<&Range<usize>>,
    ) -> Result<()> {
        let ranges = PartNo::first(entry.parts.to_usize())
            .map(|part| range_of(part, entry, manifest))
            .filter(|range| overlaps(range, only));
        for (range, part) in ranges.zip(&self.parts) {
            if part.buckets() != range || part.scheme() != manifest.scheme {
                return Err(Error::damaged(
                    Place::file(part.file().name().clone()),
                    "a part of another range or scheme; restore the directory as it was, or build the index again",
                ));
            }
        }
        match &self.words {
            Some(words) if words.buckets() != self.range => {
                Err(words.file().damaged(0, "the words of another range"))
            }
            _ => Ok(()),
        }
    }

    /// All open files, in the order of the manifest.
    pub fn files(&self) -> impl Iterator<Item = &Sealed> {
        SECTIONS
            .iter()
            .filter_map(|section| section.reader.as_ref())
            .flat_map(|reader| (reader.files)(self))
    }

    /// What a blot leads to, whether it still counts or not.
    pub fn find(&self, blot: Blot, bits: u8) -> Result<Option<BlotTarget>> {
        let mut found = Vec::with_capacity(1);
        self.find_all(&[blot.get()], bits, &mut found)?;
        Ok(found.pop().flatten())
    }

    /// Looks up many blots at once, and appends the results to `out` in the order of `blots`. Fastest
    /// if they ascend.
    pub fn find_all(
        &self,
        blots: &[u64],
        bits: u8,
        out: &mut Vec<Option<BlotTarget>>,
    ) -> Result<()> {
        let part_of = |blot: u64| {
            let bucket = bucket_of(blot, bits);
            self.range.contains(&bucket).then(|| {
                self.parts
                    .partition_point(|part| part.buckets().end <= bucket)
            })
        };
        for of_part in blots.chunk_by(|&one, &two| part_of(one) == part_of(two)) {
            match part_of(of_part[0]) {
                Some(part) => self.parts[part].find_all(of_part, out)?,
                None => out.resize(out.len() + of_part.len(), None),
            }
        }
        Ok(())
    }

    /// Replaces `out` by the places of the documents that a target stands for.
    pub fn places(&self, posted: BlotTarget, out: &mut Vec<u32>) -> Result<()> {
        out.clear();
        match posted {
            BlotTarget::One(place) => out.push(place),
            BlotTarget::Set(set) => self.sets.read(set, out)?,
        }
        match out.iter().find(|&&place| place >= self.documents.len()) {
            Some(place) => Err(self.documents.file().damaged(
                0,
                format!("a blot leads to the document at place {place}, which is not there"),
            )),
            None => Ok(()),
        }
    }
}

/// The range of the blots of a part of a segment, by their top eight bits.
fn range_of(part: PartNo, entry: &SegmentEntry, manifest: &Manifest) -> Range<usize> {
    if manifest.range.is_some() {
        manifest.buckets()
    } else {
        buckets_of(part, entry.parts)
    }
}

fn overlaps(range: &Range<usize>, only: Option<&Range<usize>>) -> bool {
    only.is_none_or(|only| range.start < only.end && only.start < range.end)
}

/// Whether a reader of all blots, or of a range of them, needs a file.
fn is_needed(
    file: &ExpectedFile,
    entry: &SegmentEntry,
    manifest: &Manifest,
    only: Option<&Range<usize>>,
) -> bool {
    match file.part {
        Some(part) => overlaps(&range_of(part, entry, manifest), only),
        None => only.is_none() || file.is_needed_for_range,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::test_files;
    use std::fs;

    const LOW: u64 = 5;
    const HIGH: u64 = 0xf000_0005;

    #[test]
    fn a_range_of_the_blots_needs_only_its_part() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let documents = [("a", 1, vec![LOW, HIGH]), ("b", 2, vec![LOW])];
        test_files::commit(path, &documents, &[]);
        let index = Index::open_whole(path).unwrap();
        assert_eq!(index.ids_with(Blot::new(LOW)).unwrap(), ["a", "b"]);
        assert_eq!(index.ids_with(Blot::new(HIGH)).unwrap(), ["a"]);
        fs::remove_file(path.join("000001.001.part")).unwrap();
        assert!(Index::open(path).is_err());
        assert!(Index::open_range(path, 128..256, None).is_err());
        let index = Index::open_range(path, 0..128, None).unwrap();
        assert_eq!(index.ids_with(Blot::new(LOW)).unwrap(), ["a", "b"]);
        assert!(index.ids_with(Blot::new(HIGH)).unwrap().is_empty());
        assert!(Index::open_range(path, 0..128, Some(2)).is_err());
    }

    #[test]
    fn a_file_of_another_index_is_refused() {
        let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        test_files::commit(one.path(), &[("a", 1, vec![LOW])], &[]);
        test_files::commit(two.path(), &[("b", 1, vec![HIGH])], &[]);
        for name in ["000001.docs", "000001.000.part"] {
            let original = fs::read(one.path().join(name)).unwrap();
            fs::copy(two.path().join(name), one.path().join(name)).unwrap();
            let error = Index::open(one.path()).err().unwrap().to_string();
            assert!(
                error.contains("not the file that the manifest names"),
                "{error}"
            );
            fs::write(one.path().join(name), original).unwrap();
        }
        Index::open(one.path()).unwrap();
    }
}
