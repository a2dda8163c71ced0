//! The files of a synced index: which of them changed, and which documents they have.

use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        num::{ToU64, ToUsize},
    },
    commands::{Observer, StageOutput, index::build::DocumentBatch, stage::IdsAndPlaces},
    index::{
        AddOutcome, DocumentRow, FileState, Index, RowLocation, Stamp, SyncState, posting::Key,
    },
    text::corpus::{self, Account, CorpusWalk, FileEntry, SkippedFile, WalkItem},
};
use std::{collections::HashMap, time::SystemTime};

/// Documents that no file has.
#[derive(Debug, Default)]
pub(crate) struct MissingDocuments {
    pub at: Vec<RowLocation>,
    /// How many documents the index has.
    pub documents: u64,
}

/// The remembered state of files, and their current state.
pub(crate) struct TrackedFiles<'i> {
    index: &'i Index,
    known: Option<&'i SyncState>,
    /// Trust the remembered state, without comparing documents.
    is_trusted: bool,
    pub to_read: Vec<FileEntry>,
    /// Unchanged files, by their place in the remembered state.
    unchanged: Vec<(u64, FileState)>,
    /// Files that are read, by name.
    read: HashMap<Box<str>, FileToRead>,
    /// A bit for each number of a document that is still there.
    seen: Vec<u64>,
    added: u32,
    /// Documents that were read although an unchanged file has them as well.
    pub duplicates: Vec<Problem>,
    pub walk_problems: u64,
    started: SystemTime,
}

struct FileToRead {
    state: FileState,
    /// Its place in the remembered state.
    known: Option<u64>,
    /// The id of the document, if it is one.
    id: std::sync::Arc<str>,
    /// Documents whose numbers are not known yet.
    added: Vec<(usize, u32)>,
}

/// A file that changed less than this before it was read may change again within the same time stamp.
const RACY_NANOSECONDS: i64 = 2_000_000_000;

impl<'i> TrackedFiles<'i> {
    pub fn new(index: &'i Index, known: Option<&'i SyncState>) -> Self {
        let is_trusted = known.is_some_and(|known| known.is_of(&index.manifest.checksum()));
        Self {
            index,
            known,
            is_trusted,
            to_read: Vec::new(),
            unchanged: Vec::new(),
            read: HashMap::new(),
            seen: vec![0; (index.manifest.numbers.to_usize()).div_ceil(64)],
            added: 0,
            duplicates: Vec::new(),
            walk_problems: 0,
            started: SystemTime::now(),
        }
    }

    /// Looks at all files, and finds out which ones must be read.
    pub fn walk(
        &mut self,
        checksum: bool,
        corpus: &corpus::Options,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        for found in CorpusWalk::new(corpus)? {
            let problem = match found {
                WalkItem::Failed(error) => return Err(error),
                WalkItem::Problem(problem) => problem,
                WalkItem::Skipped(left) => {
                    observer.account(&Account::of_left_out(&left));
                    observer.left_out(&left);
                    continue;
                }
                WalkItem::File(entry) if entry.is_regular => {
                    self.see(entry, checksum)?;
                    continue;
                }
                WalkItem::File(entry) => Problem::new(
                    Place::file(entry.name()),
                    "not a regular file, so that changes cannot be seen",
                ),
            };
            self.walk_problems += 1;
            let left = SkippedFile::unreadable(problem);
            observer.account(&Account::of_left_out(&left));
            observer.left_out(&left);
        }
        observer.account(&Account::of_unchanged(self.unchanged.len().to_u64()));
        Ok(())
    }

    fn see(&mut self, entry: FileEntry, checksum: bool) -> Result<()> {
        let place = self
            .known
            .map(|known| known.find(&entry.path))
            .transpose()?
            .flatten();
        let stamp = Stamp {
            bytes: entry.bytes,
            modified: entry.modified,
        };
        if let (Some(known), Some(place), false) = (self.known, place, checksum)
            && known.stamp(place)? == Some(stamp)
            && let Some(state) = self.unchanged_state(known, place, &entry, stamp)?
        {
            self.unchanged.push((place, state));
            return Ok(());
        }
        let now = self
            .started
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |now| now.as_nanos() as i64);
        let is_settled = stamp
            .modified
            .iter()
            .all(|&time| time < now - RACY_NANOSECONDS);
        let state = FileState {
            hash: FileState::hash(&entry.path),
            stamp: is_settled.then_some(stamp),
            documents: Vec::new(),
        };
        self.read.insert(
            (&*entry.name()).into(),
            FileToRead {
                state,
                known: place,
                id: entry.id.clone(),
                added: Vec::new(),
            },
        );
        self.to_read.push(entry);
        Ok(())
    }

    /// The state of a file that has not changed, if the index still has its documents; they are seen.
    fn unchanged_state(
        &mut self,
        known: &SyncState,
        place: u64,
        entry: &FileEntry,
        stamp: Stamp,
    ) -> Result<Option<FileState>> {
        let mut documents = Vec::new();
        let mut is_right = true;
        known.for_each_document(place, |number, check, document| {
            if self.is_trusted {
                documents.push((number, check, Box::default()));
                return Ok(());
            }
            let id = known.id(document)?;
            match self
                .index
                .find_id(&id)?
                .map(|at| self.index.row(at))
                .transpose()?
            {
                Some(row) if check_of(&row) == check => {
                    documents.push((row.number, check, id.into()))
                }
                _ => is_right = false,
            }
            Ok(())
        })?;
        if !is_right {
            return Ok(None);
        }
        documents.iter().for_each(|(number, ..)| self.mark(*number));
        Ok(Some(FileState {
            hash: FileState::hash(&entry.path),
            stamp: Some(stamp),
            documents,
        }))
    }

    fn mark(&mut self, number: u32) {
        if let Some(word) = self.seen.get_mut(number.to_usize() / 64) {
            *word |= 1 << (number % 64);
        }
    }

    /// Whether nothing changed, so that the remembered state is up to date.
    pub fn is_unchanged(&self) -> bool {
        let files = self.known.map_or(0, SyncState::files);
        self.is_trusted
            && self.to_read.is_empty()
            && (self.unchanged.len().to_u64() == files || self.walk_problems > 0)
    }

    /// Of documents with one id, that of an unchanged file is kept.
    pub fn drop_duplicates<K: Key>(
        &mut self,
        documents: &mut DocumentBatch<K>,
        ids: &mut IdsAndPlaces,
    ) -> Result<()> {
        let mut dropped = Vec::new();
        for (at, (id, place)) in ids.iter().enumerate() {
            if self.is_duplicate(id, place)? {
                dropped.push(at);
            }
        }
        if !dropped.is_empty() {
            documents.drop_documents(&dropped);
            dropped.iter().rev().for_each(|&at| drop(ids.remove(at)));
        }
        Ok(())
    }

    /// Whether an unchanged file has a document with this id; this is reported at the end.
    pub fn is_duplicate(&mut self, id: &str, place: &Place) -> Result<bool> {
        // What was read before in this run has another id.
        let found = self
            .index
            .find_id(id)?
            .map(|at| self.index.row(at))
            .transpose()?;
        let is_duplicate = found.is_some_and(|row| self.is_seen(row.number));
        if is_duplicate {
            let what = format!(
                "a document with the id '{id}' is in another file, which did not change; that one is kept"
            );
            self.duplicates.push(Problem::new(place.clone(), what));
        }
        Ok(is_duplicate)
    }

    fn is_seen(&self, number: u32) -> bool {
        self.seen
            .get(number.to_usize() / 64)
            .is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The file on disk that something was read from: the file itself, or the archive that it is in.
    fn file_read(&mut self, file: &str) -> Option<&mut FileToRead> {
        let name = corpus::enclosing_files(file).find(|name| self.read.contains_key(*name))?;
        self.read.get_mut(name)
    }

    /// A document was read.
    pub fn note(
        &mut self,
        file: &str,
        id: &str,
        row: &DocumentRow,
        taken: AddOutcome,
    ) -> Result<()> {
        let found = self
            .index
            .find_id(id)?
            .map(|at| self.index.row(at))
            .transpose()?;
        if let Some(found) = &found {
            self.mark(found.number);
        }
        let place = self.added;
        self.added += u32::from(taken == AddOutcome::Added);
        if let Some(read) = self.file_read(file) {
            if taken == AddOutcome::Added {
                read.added.push((read.state.documents.len(), place));
            }
            let number = found.map_or(0, |row| row.number);
            read.state
                .documents
                .push((number, check_of(row), id.into()));
        }
        Ok(())
    }

    /// Files that could not be used, or only in part, keep the documents they had, and are read again next time.
    pub fn keep_documents_of_bad_files(&mut self, files: &[std::sync::Arc<str>]) -> Result<()> {
        for file in files {
            let Some(read) = self.file_read(file) else {
                continue;
            };
            read.state.stamp = None;
            let (mut ids, known_place) = (vec![read.id.to_string()], read.known);
            if let (Some(known), Some(place)) = (self.known, known_place) {
                known.for_each_document(place, |_, _, document| {
                    ids.push(known.id(document)?);
                    Ok(())
                })?;
            }
            for id in ids {
                let Some(row) = self
                    .index
                    .find_id(&id)?
                    .map(|at| self.index.row(at))
                    .transpose()?
                else {
                    continue;
                };
                self.mark(row.number);
                let read = self.file_read(file);
                if let Some(read) = read.filter(|read| {
                    !read
                        .state
                        .documents
                        .iter()
                        .any(|(_, _, known)| **known == *id)
                }) {
                    read.state
                        .documents
                        .push((row.number, check_of(&row), id.into()));
                }
            }
        }
        Ok(())
    }

    /// Documents of the index that no file has; none if some files could not be looked for.
    pub fn not_found(&self) -> Result<MissingDocuments> {
        let mut found = MissingDocuments::default();
        for (segment, searched) in self.index.segments.iter().enumerate() {
            for place in 0..searched.documents.len() {
                let number = searched.documents.row(place)?.number;
                if !self.index.is_listed(segment, number)? {
                    continue;
                }
                found.documents += 1;
                if !self.is_seen(number) && self.walk_problems == 0 {
                    found.at.push(RowLocation { segment, place });
                }
            }
        }
        Ok(found)
    }

    /// As [`Self::not_found`], before anything was read: documents that are removed in any case. None if a file is to be read that may have any document.
    pub fn certain_removals(mut self) -> Result<MissingDocuments> {
        for read in std::mem::take(&mut self.read).into_values() {
            let mut ids = vec![read.id.to_string()];
            if let (Some(known), Some(place)) = (self.known, read.known) {
                known.for_each_document(place, |_, _, document| {
                    ids.push(known.id(document)?);
                    Ok(())
                })?;
            } else if self.index.find_id(&read.id)?.is_none() {
                return Ok(MissingDocuments::default());
            }
            for id in ids {
                if let Some(at) = self.index.find_id(&id)? {
                    self.mark(self.index.row(at)?.number);
                }
            }
        }
        self.not_found()
    }

    /// The state to remember, given the numbers of the documents that were added.
    pub fn into_states(self, numbers: &[u32]) -> Result<Vec<FileState>> {
        let mut states = Vec::with_capacity(self.unchanged.len() + self.read.len());
        for (place, mut state) in self.unchanged {
            let mut ids = Vec::with_capacity(state.documents.len());
            if let Some(known) = self.known {
                known.for_each_document(place, |_, _, document| {
                    ids.push(known.id(document)?);
                    Ok(())
                })?;
            }
            state
                .documents
                .iter_mut()
                .zip(ids)
                .for_each(|(document, id)| document.2 = id.into());
            states.push(state);
        }
        for (_, mut read) in self.read {
            for (document, place) in read.added {
                read.state.documents[document].0 =
                    numbers.get(place.to_usize()).copied().ok_or_else(lost)?;
            }
            states.push(read.state);
        }
        Ok(states)
    }
}

fn lost() -> Error {
    Error::Usage("a document was added and has no number; please report this".to_owned())
}

/// Tells contents apart, as far as it is needed for documents of one id.
fn check_of(row: &DocumentRow) -> u64 {
    row.hash.unwrap_or_default() as u64 ^ row.bytes.unwrap_or_default()
}
