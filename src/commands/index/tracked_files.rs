//! The files of a synced index: which of them changed, and which documents they have.

use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        num::{ToU32, ToU64, ToUsize},
    },
    commands::{Observer, StageOutput, index::build::DocumentBatch, stage::IdsAndPlaces},
    index::{
        AddOutcome, DocumentRow, FileDocument, FileState, FileStates, Index, RowLocation, Stamp,
        SyncState, posting::Key,
    },
    text::corpus::{self, Account, CorpusWalk, FileEntry, IdSet, SkippedFile, WalkItem},
};
use std::{
    collections::{HashMap, HashSet},
    time::SystemTime,
};

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
    /// Unchanged files: what is to be remembered, and their place in the remembered state.
    unchanged: Vec<(FileState, u64)>,
    /// Files that are read, by name.
    read: HashMap<Box<str>, FileToRead>,
    /// The documents of files that are read.
    documents: ReadDocuments,
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
    /// Its number among the files that are read.
    number: u32,
    /// Its place in the remembered state.
    known: Option<u64>,
    /// The id of the document, if it is one.
    id: std::sync::Arc<str>,
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
            documents: ReadDocuments::default(),
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
            && self.has_documents_of(known, place)?
        {
            self.unchanged.push((known.file(place)?, place));
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
            documents: 0,
        };
        let file = FileToRead {
            state,
            number: self.to_read.len().to_u32(),
            known: place,
            id: entry.id.clone(),
        };
        self.read.insert((&*entry.name()).into(), file);
        self.to_read.push(entry);
        Ok(())
    }

    /// Whether the index still has the documents of a file that has not changed; then they are seen.
    fn has_documents_of(&mut self, known: &SyncState, place: u64) -> Result<bool> {
        let mut is_right = true;
        if !self.is_trusted {
            known.for_each_document(place, |_, check, document| {
                let row = self.row_of(&known.id(document)?)?;
                is_right &= row.is_some_and(|row| check_of(&row) == check);
                Ok(())
            })?;
        }
        if is_right {
            known.for_each_document(place, |number, _, document| {
                let number = self.current_number(known, number, document)?;
                self.mark(number);
                Ok(())
            })?;
        }
        Ok(is_right)
    }

    /// The number of a document of a file that has not changed.
    fn current_number(&self, known: &SyncState, number: u32, document: u32) -> Result<u32> {
        if self.is_trusted {
            return Ok(number);
        }
        let row = self.row_of(&known.id(document)?)?;
        row.map(|row| row.number).ok_or_else(lost)
    }

    /// The row of the document with an id, before this run.
    fn row_of(&self, id: &str) -> Result<Option<DocumentRow>> {
        let found = self.index.find_id(id)?;
        found.map(|at| self.index.row(at)).transpose()
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
        let found = self.row_of(id)?;
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
        let found = self.row_of(id)?.map(|row| row.number);
        if let Some(number) = found {
            self.mark(number);
        }
        let number = match taken {
            AddOutcome::Unchanged => FileDocumentNumber::Known(found.unwrap_or_default()),
            AddOutcome::Added => {
                self.added += 1;
                FileDocumentNumber::Added(self.added - 1)
            }
        };
        if let Some(read) = self.file_read(file) {
            read.state.documents += 1;
            let file = read.number;
            self.documents.push(file, number, check_of(row), id);
        }
        Ok(())
    }

    /// Files that could not be used, or only in part, keep the documents they had, and are read again next time.
    pub fn keep_documents_of_bad_files(&mut self, files: &[std::sync::Arc<str>]) -> Result<()> {
        let mut bad = Vec::new();
        for file in files {
            if let Some(read) = self.file_read(file) {
                read.state.stamp = None;
                bad.push((read.number, read.id.clone(), read.known, file));
            }
        }
        bad.sort_by_key(|&(number, ..)| number);
        bad.dedup_by_key(|(number, ..)| *number);
        let is_bad = |file: u32| {
            bad.binary_search_by_key(&file, |&(number, ..)| number)
                .is_ok()
        };
        let mut noted: HashSet<(u32, u128)> = self.documents.hashes_in(is_bad).collect();
        for (number, id, known_place, file) in bad {
            self.keep(number, file, &id, &mut noted)?;
            if let (Some(known), Some(place)) = (self.known, known_place) {
                known.for_each_document(place, |_, _, document| {
                    self.keep(number, file, &known.id(document)?, &mut noted)
                })?;
            }
        }
        Ok(())
    }

    /// A file keeps the document with an id, if the index has one and the file was not found to have it.
    fn keep(
        &mut self,
        number: u32,
        file: &str,
        id: &str,
        noted: &mut HashSet<(u32, u128)>,
    ) -> Result<()> {
        let Some(row) = self.row_of(id)? else {
            return Ok(());
        };
        self.mark(row.number);
        if noted.insert((number, IdSet::hash(id)))
            && let Some(read) = self.file_read(file)
        {
            read.state.documents += 1;
            let known = FileDocumentNumber::Known(row.number);
            self.documents.push(number, known, check_of(&row), id);
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
    pub fn into_states<'n>(mut self, numbers: &'n [u32]) -> CurrentStates<'i, 'n> {
        self.documents.sort();
        let unchanged = std::mem::take(&mut self.unchanged).into_iter();
        let unchanged = unchanged.map(|(state, place)| (state, StateSource::Known(place)));
        let read = std::mem::take(&mut self.read).into_values();
        let read = read.map(|file| (file.state, StateSource::Read(file.number)));
        let mut files: Vec<_> = unchanged.chain(read).collect();
        files.sort_unstable_by_key(|(state, _)| state.hash);
        CurrentStates {
            tracked: self,
            files,
            numbers,
        }
    }
}

/// The documents of files that are read, one after the other.
///
/// Memory: 32 bytes a document, and its id, in two large blocks.
#[derive(Default)]
struct ReadDocuments {
    documents: Vec<ReadDocument>,
    ids: String,
}

struct ReadDocument {
    /// The number of its file.
    file: u32,
    number: FileDocumentNumber,
    check: u64,
    /// Where its id is.
    id_start: u64,
    id_bytes: u32,
}

/// The number of a document of a file.
#[derive(Clone, Copy)]
enum FileDocumentNumber {
    Known(u32),
    /// It is not known yet: the document is the one with this number of those that are added.
    Added(u32),
}

impl ReadDocuments {
    fn push(&mut self, file: u32, number: FileDocumentNumber, check: u64, id: &str) {
        self.documents.push(ReadDocument {
            file,
            number,
            check,
            id_start: self.ids.len().to_u64(),
            id_bytes: id.len().to_u32(),
        });
        self.ids.push_str(id);
    }

    fn id(&self, document: &ReadDocument) -> &str {
        let start = document.id_start.to_usize();
        &self.ids[start..start + document.id_bytes.to_usize()]
    }

    /// Of each document of these files, the number of the file and the hash of the id.
    fn hashes_in(&self, is_wanted: impl Fn(u32) -> bool) -> impl Iterator<Item = (u32, u128)> {
        let wanted = self.documents.iter().filter(move |of| is_wanted(of.file));
        wanted.map(|document| (document.file, IdSet::hash(self.id(document))))
    }

    /// By file; those of one file stay in their order.
    fn sort(&mut self) {
        self.documents
            .sort_unstable_by_key(|document| (document.file, document.id_start));
    }

    /// The documents of a file, once they are sorted.
    fn of_file(&self, file: u32) -> &[ReadDocument] {
        let start = self
            .documents
            .partition_point(|document| document.file < file);
        let rest = &self.documents[start..];
        &rest[..rest.partition_point(|document| document.file == file)]
    }
}

/// Where the documents of a file are listed.
enum StateSource {
    /// At this place of the remembered state.
    Known(u64),
    /// Among those that were read, under the number of the file.
    Read(u32),
}

/// The state of all files, as it is to be remembered.
pub(crate) struct CurrentStates<'i, 'n> {
    tracked: TrackedFiles<'i>,
    /// By rising hash.
    files: Vec<(FileState, StateSource)>,
    /// The numbers of the documents that were added.
    numbers: &'n [u32],
}

impl FileStates for CurrentStates<'_, '_> {
    fn for_each_file(&self, each: &mut dyn FnMut(FileState) -> Result<()>) -> Result<()> {
        self.files.iter().try_for_each(|(state, _)| each(*state))
    }

    fn for_each_document(
        &self,
        each: &mut dyn FnMut(FileDocument<'_>) -> Result<()>,
    ) -> Result<()> {
        for (_, source) in &self.files {
            match (source, self.tracked.known) {
                (StateSource::Read(file), _) => {
                    let documents = self.tracked.documents.of_file(*file).iter();
                    documents
                        .map(|document| self.read_document(document))
                        .try_for_each(|document| each(document?))?;
                }
                (&StateSource::Known(place), Some(known)) => {
                    known.for_each_document(place, |number, check, document| {
                        let number = self.tracked.current_number(known, number, document)?;
                        let id = &known.id(document)?;
                        each(FileDocument { number, check, id })
                    })?;
                }
                (StateSource::Known(_), None) => {}
            }
        }
        Ok(())
    }
}

impl CurrentStates<'_, '_> {
    fn read_document(&self, document: &ReadDocument) -> Result<FileDocument<'_>> {
        let number = match document.number {
            FileDocumentNumber::Known(number) => Some(number),
            FileDocumentNumber::Added(place) => self.numbers.get(place.to_usize()).copied(),
        };
        Ok(FileDocument {
            number: number.ok_or_else(lost)?,
            check: document.check,
            id: self.tracked.documents.id(document),
        })
    }
}

fn lost() -> Error {
    Error::Usage("a document was added and has no number; please report this".to_owned())
}

/// Tells contents apart, as far as it is needed for documents of one id.
fn check_of(row: &DocumentRow) -> u64 {
    row.hash.unwrap_or_default() as u64 ^ row.bytes.unwrap_or_default()
}
