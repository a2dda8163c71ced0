//! Builds a segment: takes documents in order, with their blots, and writes its files.

use super::{
    document_row::DocumentRow,
    document_table::DocumentTable,
    documents::{CommitEffects, write_documents},
    index_change::IndexChange,
    manifest::{Manifest, SegmentEntry},
    number_set::NumberSet,
    numbering::{AddOutcome, DocumentNumbering, NumberedDocuments},
    open::RowLocation,
    part, part_writer,
    sections::{DOCUMENTS, PART, SETS, SectionKind, WORDS},
    set_file, word_file,
};
use crate::{
    base::{
        error::{Error, Result},
        files::TempDir,
        ids::PartNo,
        num::{ToU32, ToUsize},
    },
    index::posting::{
        BUCKETS, Collector, DocumentBlots, Inverted, Key, Postings, WordCollector, WordCounts,
        WordLists, invert,
    },
    text::scheme::BlotScheme,
};
use std::{
    ops::Range,
    path::{Path, PathBuf},
};

/// How much a writer may use.
#[derive(Debug, Clone)]
pub struct Resources {
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Threads.
    pub threads: usize,
    /// Where temporary files go, if there must be any.
    pub tmp_dir: TempDir,
}

/// Takes documents in order.
///
/// Memory: `memory_bytes`. What is kept of each document, about a hundred bytes and its id, counts:
/// beyond a share of the memory it is in temporary files. So are the sets that several blots lead to.
pub struct SegmentBuilder<'i, K> {
    numbering: DocumentNumbering<'i>,
    collector: Collector<K>,
    resources: Resources,
    /// If set: the single-document blots to keep, sorted.
    kept_singles: Option<Vec<u64>>,
    /// The dictionary in the making, if the index has one.
    words: Option<WordCollector>,
}

impl<'i, K: Key> SegmentBuilder<'i, K> {
    /// The first segment of an index, or one that changes it.
    ///
    /// Whether it has a dictionary is up to the index that is changed; of a first segment
    /// [`SegmentBuilder::with_dictionary`] says it.
    pub fn new(bits: u8, resources: Resources, change: Option<IndexChange<'i>>) -> Self {
        let numbering = DocumentNumbering::new(change);
        let has_dictionary = numbering.has_dictionary();
        let collector = Collector::new(
            bits,
            resources.memory_bytes / 2,
            resources.threads,
            resources.tmp_dir.clone(),
        );
        let builder = Self {
            numbering,
            collector,
            resources,
            kept_singles: None,
            words: None,
        };
        if has_dictionary {
            builder.with_dictionary()
        } else {
            builder
        }
    }

    /// Also collects the words of documents, for a dictionary.
    #[must_use]
    pub fn with_dictionary(mut self) -> Self {
        let words_bytes = self.resources.memory_bytes / 4;
        self.words = Some(WordCollector::new(words_bytes, &self.resources.tmp_dir));
        self.resources.memory_bytes -= words_bytes;
        self
    }

    /// Leaves out the blots that one posted document has, except for those in `singles`, which is
    /// sorted: blots that occur several times for another reason, such as an exact duplicate.
    ///
    /// Needs keys of 128 bits: those of 64 bits lack the top bits of a blot.
    pub fn keep_shared_and(&mut self, singles: Vec<u64>) {
        self.kept_singles = Some(singles);
    }

    /// Takes the next documents and their postings, numbered from 0 among themselves. Those whose
    /// content came before are aliases, and not posted.
    ///
    /// `words` are those of all documents, where there is a dictionary to be.
    pub fn add(
        &mut self,
        documents: Vec<(Box<str>, DocumentRow)>,
        postings: &Postings<K>,
        words: &WordCounts,
    ) -> Result<Vec<AddOutcome>> {
        let (mut taken, mut places) = (
            Vec::with_capacity(documents.len()),
            Vec::with_capacity(documents.len()),
        );
        for (id, row) in documents {
            let (how, place) = self.numbering.add(&id, row)?;
            taken.push(how);
            places.push(place);
        }
        self.collector.set_memory_limit(self.postings_bytes());
        self.collector.add(postings, &places)?;
        self.words
            .as_mut()
            .map_or(Ok(()), |collector| collector.add(words, &places))?;
        Ok(taken)
    }

    /// How much memory postings may take: sorting takes the same amount again, and so do incoming
    /// postings. Documents take their own share, of which a quarter of the memory stays in memory.
    fn postings_bytes(&self) -> u64 {
        let of_documents = self.numbering.bytes();
        let most = self.resources.memory_bytes;
        (most / 2).saturating_sub(of_documents).max(most / 4)
    }

    /// Removes a document from the index; returns false if it has none with this id.
    pub fn remove(&mut self, id: &str) -> Result<bool> {
        self.numbering.remove(id)
    }

    /// Removes the document of a row from the index.
    pub fn remove_at(&mut self, at: RowLocation) {
        self.numbering.remove_at(at);
    }

    /// How many documents of the index are removed or replaced.
    pub fn removals(&self) -> u64 {
        self.numbering.removals()
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.numbering.is_empty()
    }

    /// Writes all files of the segment, and says what the manifest must say: of the segment, and of
    /// numbers. Also gives the number of each document.
    pub fn write(self, files: &SegmentFiles<'_>) -> Result<(SegmentEntry, u32, Vec<u32>)> {
        let Self {
            numbering,
            collector,
            resources,
            kept_singles,
            words,
        } = self;
        let has_alias: NumberSet = numbering
            .aliases()
            .map(|(_, representative)| representative)
            .collect();
        let keeps_single = kept_singles.map(|singles| {
            move |key: &K| {
                has_alias.contains(key.number()) || singles.binary_search(&key.blot()).is_ok()
            }
        });
        let keeps_single = keeps_single
            .as_ref()
            .map(|keeps| keeps as &(dyn Fn(&K) -> bool + Sync));
        let (inverted, blots_of) = invert(
            collector,
            numbering.len(),
            resources.memory_bytes / 2,
            keeps_single,
        )?;
        let NumberedDocuments {
            documents,
            effects,
            numbers,
            next,
        } = numbering.settle(Some(&blots_of))?;
        let words = words.map(WordCollector::close).transpose()?;
        let words = words.as_ref().map(|words| words as &dyn WordLists);
        let segment = files.write(documents, &effects, &inverted, words, resources.threads)?;
        Ok((segment, next, numbers))
    }

    /// Writes the input of a later process: the documents, and for each range of buckets a file of
    /// sorted postings and one of words. Returns the number of documents.
    pub fn write_runs(self, files: &RunFiles<'_>) -> Result<u32> {
        let Self {
            numbering,
            collector,
            resources,
            words,
            ..
        } = self;
        let runs: Vec<(PathBuf, Range<usize>)> = files
            .of_ranges("runs")
            .zip(files.ranges.iter().cloned())
            .collect();
        let count = numbering.len();
        let blots_of = collector.write_runs(count, files.scheme, &runs)?;
        let blots_of = DocumentBlots::all_posted(blots_of);
        let NumberedDocuments {
            documents, effects, ..
        } = numbering.settle(Some(&blots_of))?;
        let path = files.directory.join(RunFiles::DOCUMENTS);
        write_documents(&path, &documents, &effects)?;
        if let Some(words) = words.map(WordCollector::close).transpose()? {
            for (path, range) in files.of_ranges(WORDS.ending).zip(files.ranges) {
                word_file::write(&path, range.clone(), &words, resources.threads)?;
            }
        }
        Ok(count)
    }
}

/// Where the runs of a slice go.
pub struct RunFiles<'a> {
    /// The directory of the files.
    pub directory: &'a Path,
    /// The scheme of the blots.
    pub scheme: &'a BlotScheme,
    /// The ranges of the blots, by their top eight bits.
    pub ranges: &'a [Range<usize>],
}

impl RunFiles<'_> {
    /// What the file of the documents is called.
    pub const DOCUMENTS: &'static str = "docs";

    fn of_ranges(&self, ending: &'static str) -> impl Iterator<Item = PathBuf> {
        (0..self.ranges.len()).map(move |range| self.directory.join(format!("{range:03}.{ending}")))
    }
}

/// Where the files of a segment go, and what they are called.
pub struct SegmentFiles<'a> {
    /// The directory of the files.
    pub directory: &'a Path,
    /// The name of the segment.
    pub name: &'a str,
    /// The first and the last generation whose changes it holds.
    pub changes: [u64; 2],
    /// The manifest of the index: its scheme, and which sections its segments have.
    pub manifest: &'a Manifest,
    /// The range of each part.
    pub parts: Vec<Range<usize>>,
}

impl SegmentFiles<'_> {
    /// The buckets of all parts together.
    fn range(&self) -> Range<usize> {
        self.parts.first().map_or(0, |first| first.start)
            ..self.parts.last().map_or(0, |last| last.end)
    }

    /// The ranges of the blots, by their top eight bits, if they are cut into this many parts.
    pub fn parts(parts: u32) -> Result<Vec<Range<usize>>> {
        if parts == 0 || parts.to_usize() > BUCKETS {
            return Err(Error::Usage(format!(
                "{parts} parts; there can be 1 to {BUCKETS}"
            )));
        }
        Ok(PartNo::first(parts.to_usize())
            .map(|part| part::buckets_of(part, parts))
            .collect())
    }

    /// Writes all files of the segment, and returns its entry in the manifest.
    pub fn write<K: Key>(
        &self,
        documents: DocumentTable,
        effects: &CommitEffects,
        inverted: &Inverted<K>,
        words: Option<&dyn WordLists>,
        threads: usize,
    ) -> Result<SegmentEntry> {
        let path = |section: &SectionKind| self.directory.join(section.file_name(self.name));
        let mut files = vec![path(&DOCUMENTS), path(&SETS)];
        write_documents(&files[0], &documents, effects)?;
        drop(documents);
        set_file::write(&files[1], &inverted.sets)?;
        for (part, buckets) in PartNo::first(self.parts.len()).zip(&self.parts) {
            files.push(self.directory.join(PART.range_file_name(self.name, part)));
            part_writer::write(
                &files[files.len() - 1],
                inverted,
                &self.manifest.scheme,
                buckets.clone(),
                threads,
            )?;
        }
        if let Some(words) = words {
            files.push(path(&WORDS));
            word_file::write(&files[files.len() - 1], self.range(), words, threads)?;
        }
        SegmentEntry::of_files(
            self.name.to_owned(),
            self.changes,
            self.parts.len().to_u32(),
            self.directory,
            &files,
        )
    }
}
