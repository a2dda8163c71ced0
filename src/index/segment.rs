//! Makes a segment: documents come in order, with their blots; files come out.

use super::{
    change::{Change, Met},
    documents::{self, Document, Effects, Row},
    lists,
    manifest::{FileSeal, SegmentEntry},
    numbers::NumberSet,
    open::At,
    part, words,
};
use crate::{
    error::{Error, Result},
    format::sync_files,
    parallel::Limits,
    posting::{BUCKETS, CollectedWords, Collector, Inverted, Key, Postings, TempDir, WordCollector, WordCounts, WordLists, invert},
};
use std::{
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
};

/// How much a writer may use.
#[derive(Debug, Clone)]
pub struct Means {
    pub memory_bytes: u64,
    pub threads: usize,
    /// Where temporary files go, if there must be any.
    pub tmp_dir: TempDir,
}

impl Means {
    pub fn limits(&self) -> Limits {
        Limits::new(self.threads, 2 * self.threads as u64)
    }
}

/// Takes documents in order.
///
/// Memory: `memory_bytes`, of which documents take about a hundred bytes each and their ids, and the sets that several blots lead to.
pub struct SegmentBuilder<'i, K> {
    /// Numbered by their place, for now.
    documents: Vec<Document>,
    id_bytes: u64,
    by_hash: HashMap<u128, u32>,
    /// Places of documents whose content is posted in an older segment, and its number.
    posted_before: HashMap<u32, u32>,
    change: Option<Change<'i>>,
    collector: Collector<K>,
    means: Means,
    /// Of blots that one document has only these are kept, if it is given; sorted.
    kept_singles: Option<Vec<u64>>,
    /// The dictionary in the making, if the index has one.
    words: Option<WordCollector>,
}

/// What became of documents that were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is the next of the segment.
    Added,
    /// The index has this id with this text already.
    Known,
}

impl<'i, K: Key> SegmentBuilder<'i, K> {
    /// The first segment of an index, or one that changes it.
    ///
    /// Whether it has a dictionary is up to the index that is changed; of a first segment [`SegmentBuilder::with_dictionary`] says it.
    pub fn new(bits: u8, means: Means, change: Option<Change<'i>>) -> Self {
        let has_dictionary = change.as_ref().is_some_and(Change::has_dictionary);
        let collector = Collector::new(bits, means.memory_bytes / 2, means.threads, means.tmp_dir.clone());
        let (by_hash, posted_before) = (HashMap::new(), HashMap::new());
        let (documents, id_bytes, kept_singles, words) = (Vec::new(), 0, None, None);
        let builder = Self { documents, id_bytes, by_hash, posted_before, change, collector, means, kept_singles, words };
        if has_dictionary { builder.with_dictionary() } else { builder }
    }

    /// Words are counted, too.
    #[must_use]
    pub fn with_dictionary(mut self) -> Self {
        let words_bytes = self.means.memory_bytes / 4;
        self.words = Some(WordCollector::new(words_bytes, &self.means.tmp_dir));
        self.means.memory_bytes -= words_bytes;
        self
    }

    /// Blots that only one document has are left out, but for those of a sorted list. An exact duplicate is a document, too.
    ///
    /// The blots must be wide ones: a key of 64 bits does not have all of a blot.
    pub fn keep_shared_and(&mut self, singles: Vec<u64>) {
        self.kept_singles = Some(singles);
    }

    /// Takes the next documents and their postings, numbered from 0 among themselves. Those whose content came before are aliases, and not posted.
    ///
    /// `words` are those of all documents, where there is a dictionary to be.
    pub fn add(&mut self, documents: Vec<(Box<str>, Row)>, postings: &Postings<K>, words: &WordCounts) -> Result<Vec<Taken>> {
        if self.documents.len() + documents.len() >= u32::MAX as usize {
            return Err(Error::Usage("more than 4 G documents; split the collection".to_owned()));
        }
        let (mut taken, mut places) = (Vec::with_capacity(documents.len()), Vec::with_capacity(documents.len()));
        for (id, row) in documents {
            let met = match &mut self.change {
                Some(change) => change.meet(&id, &row)?,
                None => Met::New,
            };
            taken.push(if met == Met::Known { Taken::Known } else { Taken::Added });
            places.push(if met == Met::Known { None } else { self.push(id, row, met) });
        }
        self.collector.keep(self.postings_bytes());
        self.collector.add(postings, &places)?;
        self.words.as_mut().map_or(Ok(()), |collector| collector.add(words, &places))?;
        Ok(taken)
    }

    /// How much postings may take: what is sorted takes as much again, and what comes in, too. What documents take is not theirs.
    fn postings_bytes(&self) -> u64 {
        let of_documents = self.documents.capacity() * size_of::<Document>() + self.by_hash.capacity() * size_of::<(u128, u32)>();
        (self.means.memory_bytes / 2).saturating_sub(of_documents as u64 + self.id_bytes).max(self.means.memory_bytes / 8)
    }

    /// The place under which the document is posted, if it must be.
    fn push(&mut self, id: Box<str>, row: Row, met: Met) -> Option<u32> {
        let place = self.documents.len() as u32;
        self.id_bytes += id.len() as u64 + 16;
        let (representative, row) = match met {
            Met::Posted { number, blots } => {
                self.posted_before.insert(place, number);
                (None, row.with_blots(blots))
            }
            _ => (Some(row.hash.map_or(place, |hash| *self.by_hash.entry(hash).or_insert(place))), row),
        };
        self.documents.push(Document { id: id.into(), row: row.numbered(place, representative.unwrap_or(place)) });
        (representative == Some(place)).then_some(place)
    }

    /// Takes a document away from the index; false if it has none with this id.
    pub fn remove(&mut self, id: &str) -> Result<bool> {
        self.change.as_mut().map_or(Ok(false), |change| change.remove(id))
    }

    pub fn remove_at(&mut self, at: At) {
        if let Some(change) = &mut self.change {
            change.remove_at(at);
        }
    }

    /// How many documents of the index are removed or replaced.
    pub fn removals(&self) -> u64 {
        self.change.as_ref().map_or(0, Change::removals)
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty() && self.change.as_ref().is_none_or(Change::is_empty)
    }

    /// Writes all files of the segment, and says what the manifest must say: of the segment, and of numbers. Also gives the number of each document.
    pub fn write(self, files: &SegmentFiles<'_>) -> Result<(SegmentEntry, u32, Vec<u32>)> {
        let finished = self.finish(std::slice::from_ref(&files.range()))?;
        let words = finished.words.as_ref().map(|words| words as &dyn WordLists);
        let segment = files.write(finished.documents, &finished.effects, &finished.inverted[0], words, finished.limits)?;
        Ok((segment, finished.next, finished.numbers))
    }

    /// The same for range parts of the segment, each of which has all documents, and nothing but its range of blots.
    pub fn write_ranges(self, files: &[SegmentFiles<'_>]) -> Result<(Vec<SegmentEntry>, u32)> {
        let ranges: Vec<Range<usize>> = files.iter().map(SegmentFiles::range).collect();
        let finished = self.finish(&ranges)?;
        let words = finished.words.as_ref().map(|words| words as &dyn WordLists);
        let write = |(files, inverted): (&SegmentFiles<'_>, &Inverted<K>)| {
            files.write(finished.documents.clone(), &finished.effects, inverted, words, finished.limits)
        };
        Ok((files.iter().zip(&finished.inverted).map(write).collect::<Result<_>>()?, finished.next))
    }

    /// All that is to be written, for each of some ranges.
    fn finish(self, ranges: &[Range<usize>]) -> Result<Finished<K>> {
        let Self { mut documents, posted_before, change, collector, means, kept_singles, words, .. } = self;
        let count = documents.len() as u32;
        let aliases = (0..).zip(&documents).filter(|&(place, document)| document.row.representative != place);
        let has_alias: NumberSet = aliases.map(|(_, alias)| alias.row.representative).collect();
        let keeps_single =
            kept_singles.map(|singles| move |key: &K| has_alias.contains(key.number()) || singles.binary_search(&key.blot()).is_ok());
        let keeps_single = keeps_single.as_ref().map(|keeps| keeps as &(dyn Fn(&K) -> bool + Sync));
        let (inverted, blots_of) = invert(collector, count, means.memory_bytes / 2, keeps_single, ranges)?;
        let (effects, numbers, next) = match change {
            None => (Effects::default(), (0..count).collect(), count),
            Some(change) => change.settle(count, posted_before.values().copied())?,
        };
        for place in 0..documents.len() {
            let row = &mut documents[place].row;
            let (own, first) = (numbers[place], row.representative as usize);
            *row = match posted_before.get(&(place as u32)) {
                Some(&number) => row.numbered(own, number),
                None => row.numbered(own, numbers[first]).with_blots(blots_of[first]),
            };
        }
        let words = words.map(WordCollector::close).transpose()?;
        Ok(Finished { documents, effects, inverted, words, limits: means.limits(), next, numbers })
    }
}

/// A segment that is to be written.
struct Finished<K> {
    documents: Vec<Document>,
    effects: Effects,
    /// One for each range.
    inverted: Vec<Inverted<K>>,
    words: Option<CollectedWords>,
    limits: Limits,
    /// The first number that was never given.
    next: u32,
    /// Of each document.
    numbers: Vec<u32>,
}

/// Where the files of a segment go, and what they are called.
pub struct SegmentFiles<'a> {
    pub directory: &'a Path,
    pub name: &'a str,
    pub changes: [u64; 2],
    pub scheme: &'a str,
    /// The range of each part.
    pub parts: Vec<Range<usize>>,
}

impl SegmentFiles<'_> {
    /// That of all parts.
    fn range(&self) -> Range<usize> {
        self.parts.first().map_or(0, |first| first.start)..self.parts.last().map_or(0, |last| last.end)
    }

    /// The ranges of so many parts of everything.
    pub fn parts(parts: u32) -> Result<Vec<Range<usize>>> {
        if parts == 0 || parts as usize > BUCKETS {
            return Err(Error::Usage(format!("{parts} parts; there can be 1 to {BUCKETS}")));
        }
        Ok((0..parts).map(|part| part::buckets_of(part, parts)).collect())
    }

    pub fn write<K: Key>(
        &self,
        mut documents: Vec<Document>,
        effects: &Effects,
        inverted: &Inverted<K>,
        words: Option<&dyn WordLists>,
        limits: Limits,
    ) -> Result<SegmentEntry> {
        let path = |ending: &str| self.directory.join(format!("{}.{ending}", self.name));
        let mut files = vec![path("docs"), path("sets")];
        let failed = |path: &Path, error| Error::io(path.display(), error);
        documents::write(&files[0], &mut documents, effects).map_err(|error| failed(&files[0], error))?;
        drop(documents);
        lists::write(&files[1], &inverted.sets)?;
        for (part, buckets) in self.parts.iter().enumerate() {
            files.push(path(&format!("{part:03}.part")));
            part::write(&files[files.len() - 1], inverted, self.scheme, buckets.clone(), limits)?;
        }
        if let Some(words) = words {
            files.push(path("words"));
            words::write(&files[files.len() - 1], self.range(), words, limits)?;
        }
        sync_files(self.directory, &files)?;
        let files = files.iter().map(PathBuf::as_path).map(FileSeal::of).collect::<Result<_>>()?;
        Ok(SegmentEntry { name: self.name.to_owned(), changes: self.changes, parts: self.parts.len() as u32, files })
    }
}
