//! An index that follows its files.

use crate::{
    base::error::{Error, Place, Problem, Result},
    commands::{
        ChangeOptions, Changed, Gathered, Ids, Settings, Watch,
        blot::ToBlots,
        index::{
            build::{Documents, Gather},
            change::{Compacted, refused, write, write_to},
            removal::{MaxRemove, ensure_walked_alike, walk_of},
        },
        run,
    },
    index::{
        At, Change, FileState, Index, Known, Manifest, Row, SegmentBuilder, Stamp, Taken,
        posting::{Key, NARROW_BITS},
        write_known,
    },
    text::corpus::{self, Account, CorpusWalk, FileEntry, SkippedFile, Source, WalkItem},
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::SystemTime,
};

#[derive(Debug, Clone)]
pub struct SyncOptions {
    pub change: ChangeOptions,
    /// Read every file, whatever its size and time say.
    pub checksum: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    pub max_remove: MaxRemove,
}

/// Makes an index hold the documents that are found now: what is new is added, what has another text is replaced, what is not found is removed.
///
/// Files whose size and times are those of the last run are not read. What is known of files is kept beside the index, see [`Known`].
/// A directory that cannot be read might hold anything: then nothing is removed. A file that cannot be used keeps its documents.
pub fn sync(
    options: &SyncOptions,
    settings: &Settings,
    directory: &Path,
    watch: &mut dyn Watch,
) -> Result<Changed> {
    write_to(directory, |index| {
        let committed = index.manifest.clone();
        let compacts = options.change.compacts && !options.dry_run;
        let index = Compacted::before_commit(
            index,
            &ChangeOptions {
                compacts,
                ..options.change.clone()
            },
        )?;
        let blots = ToBlots::as_index(&options.change.blots, &index.get().manifest, directory)?;
        let changed = if blots.scheme.bits <= NARROW_BITS {
            sync_as::<u64>(index.get(), &committed, options, settings, blots, watch)?
        } else {
            sync_as::<u128>(index.get(), &committed, options, settings, blots, watch)?
        };
        Ok((None, changed))
    })
}

/// `committed`: the manifest as it is on disk; that of `index` may be ahead of it.
fn sync_as<K: Key>(
    index: &Index,
    committed: &Manifest,
    options: &SyncOptions,
    settings: &Settings,
    blots: ToBlots,
    watch: &mut dyn Watch,
) -> Result<Changed> {
    let state = state_path(&index.directory);
    let known = Known::open(&state, &index.manifest.scheme);
    let walk = ensure_walked_alike(
        known.as_ref(),
        walk_of(&settings.corpus, &index.manifest.scheme),
        &state,
    )
    .map_err(|what| refused(&index.directory, what))?;
    let mut following = Following::new(index, known.as_ref());
    following.walk(options.checksum, &settings.corpus, watch)?;
    let mut changed = Changed {
        generation: index.manifest.generation,
        problems: following.walk_problems,
        ..Changed::default()
    };
    if following.is_as_it_was() {
        return Ok(changed);
    }
    let mut source = Source::of(
        std::mem::take(&mut following.to_read),
        settings.corpus.clone(),
        settings.limits.threads,
    );
    blots.expect_in(&mut source);
    let mut builder = SegmentBuilder::<K>::new(
        blots.scheme.bits,
        options.change.means.clone(),
        Some(Change::new(index)),
    );
    let mut noted = Noting {
        watch,
        files: Vec::new(),
    };
    let summary = run(
        &Gather::new(blots, index.manifest.dictionary),
        source,
        settings,
        &mut noted,
        |mut documents, mut ids| {
            following.drop_duplicates(&mut documents, &mut ids)?;
            let files: Vec<_> = ids.iter().map(|(_, place)| place.file.clone()).collect();
            let named = documents.named(ids);
            let rows = named.clone();
            let taken = builder.add(named, &documents.postings, &documents.words)?;
            rows.iter()
                .zip(files)
                .zip(taken)
                .try_for_each(|(((id, row), file), taken)| {
                    match taken {
                        Taken::Known => changed.known += 1,
                        Taken::Added => changed.added += 1,
                    }
                    following.note(&file, id, row, taken)
                })
        },
    )?;
    let duplicates = std::mem::take(&mut following.duplicates);
    duplicates.iter().for_each(|problem| noted.problem(problem));
    changed.problems += summary.problems + duplicates.len() as u64;
    following.keep_bad(&noted.files)?;
    let NotFound { at, documents } = following.not_found()?;
    changed.removed = at.len() as u64;
    let refusal = options
        .max_remove
        .refusal(changed.removed, documents, &settings.corpus.paths);
    if options.dry_run {
        return Ok(Changed { refusal, ..changed });
    }
    if let Some(what) = refusal {
        return Err(refused(&index.directory, what));
    }
    at.into_iter().for_each(|at| builder.remove_at(at));
    let written = write(builder, index, &mut changed)?;
    let (manifest, numbers) = written.unwrap_or_else(|| (index.manifest.clone(), Vec::new()));
    if manifest != *committed {
        manifest.commit(&index.directory)?;
    }
    write_known(
        &state,
        manifest.checksum(),
        walk,
        following.into_states(&numbers)?,
    )?;
    Ok(changed)
}

/// `my.idx.sync` for `my.idx`.
pub(crate) fn state_path(directory: &Path) -> PathBuf {
    let mut name = directory.components().collect::<PathBuf>().into_os_string();
    name.push(".sync");
    name.into()
}

/// Passes on what it is told, and notes which files could not be used.
struct Noting<'w> {
    watch: &'w mut dyn Watch,
    files: Vec<std::sync::Arc<str>>,
}

impl Watch for Noting<'_> {
    fn problem(&mut self, problem: &Problem) {
        self.files.push(problem.place.file.clone());
        self.watch.problem(problem);
    }

    fn progress(&mut self, bytes: u64, documents: u64) {
        self.watch.progress(bytes, documents);
    }

    fn left_out(&mut self, left: &SkippedFile) {
        self.files
            .extend(left.is_error().then(|| left.problem.place.file.clone()));
        self.watch.left_out(left);
    }

    fn account(&mut self, account: &Account) {
        self.watch.account(account);
    }
}

/// Documents that no file has.
#[derive(Debug, Default)]
pub(crate) struct NotFound {
    pub at: Vec<At>,
    /// How many documents the index has.
    pub documents: u64,
}

/// What is known of files, and what is found now.
pub(crate) struct Following<'i> {
    index: &'i Index,
    known: Option<&'i Known>,
    /// What is known is believed, without a look at the documents.
    is_trusted: bool,
    pub to_read: Vec<FileEntry>,
    /// Files that are as they were, by their place in what is known.
    unchanged: Vec<(u64, FileState)>,
    /// Files that are read, by name.
    read: HashMap<Box<str>, ReadFile>,
    /// A bit for each number of a document that is still there.
    seen: Vec<u64>,
    added: u32,
    /// Documents that were read, and that a file which did not change has as well.
    pub duplicates: Vec<Problem>,
    walk_problems: u64,
    started: SystemTime,
}

struct ReadFile {
    state: FileState,
    /// Its place in what is known.
    known: Option<u64>,
    /// The id of the document, if it is one.
    id: std::sync::Arc<str>,
    /// Of which documents the number is not known yet.
    added: Vec<(usize, u32)>,
}

/// Files that changed so shortly before they were read may change again without a trace in their times.
const RACY_NANOSECONDS: i64 = 2_000_000_000;

impl<'i> Following<'i> {
    pub fn new(index: &'i Index, known: Option<&'i Known>) -> Self {
        let is_trusted = known.is_some_and(|known| known.is_of(&index.manifest.checksum()));
        Self {
            index,
            known,
            is_trusted,
            to_read: Vec::new(),
            unchanged: Vec::new(),
            read: HashMap::new(),
            seen: vec![0; (index.manifest.numbers as usize).div_ceil(64)],
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
        watch: &mut dyn Watch,
    ) -> Result<()> {
        for found in CorpusWalk::new(corpus)? {
            let problem = match found {
                WalkItem::Failed(error) => return Err(error),
                WalkItem::Problem(problem) => problem,
                WalkItem::Skipped(left) => {
                    watch.account(&Account::of_left_out(&left));
                    watch.left_out(&left);
                    continue;
                }
                WalkItem::File(entry) if entry.is_regular => {
                    self.see(entry, checksum)?;
                    continue;
                }
                WalkItem::File(entry) => Problem::new(
                    Place::file(entry.name()),
                    "not a regular file: nobody can tell whether it changed",
                ),
            };
            self.walk_problems += 1;
            let left = SkippedFile::unreadable(problem);
            watch.account(&Account::of_left_out(&left));
            watch.left_out(&left);
        }
        watch.account(&Account::of_unchanged(self.unchanged.len() as u64));
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
            && let Some(state) = self.as_it_was(known, place, &entry, stamp)?
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
            ReadFile {
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
    fn as_it_was(
        &mut self,
        known: &Known,
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
        if let Some(word) = self.seen.get_mut(number as usize / 64) {
            *word |= 1 << (number % 64);
        }
    }

    /// Nothing changed, and what is known is up to date.
    pub fn is_as_it_was(&self) -> bool {
        let files = self.known.map_or(0, Known::files);
        self.is_trusted
            && self.to_read.is_empty()
            && (self.unchanged.len() as u64 == files || self.walk_problems > 0)
    }

    /// Of documents with one id, that of a file which did not change is kept.
    fn drop_duplicates<K: Key>(
        &mut self,
        documents: &mut Documents<K>,
        ids: &mut Ids,
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

    /// Whether a file that did not change has a document with this id; then that is told in the end.
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
            .get(number as usize / 64)
            .is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// A document was read.
    pub fn note(&mut self, file: &str, id: &str, row: &Row, taken: Taken) -> Result<()> {
        let found = self
            .index
            .find_id(id)?
            .map(|at| self.index.row(at))
            .transpose()?;
        if let Some(found) = &found {
            self.mark(found.number);
        }
        let place = self.added;
        self.added += u32::from(taken == Taken::Added);
        if let Some(read) = self.read.get_mut(file) {
            if taken == Taken::Added {
                read.added.push((read.state.documents.len(), place));
            }
            let number = found.map_or(0, |row| row.number);
            read.state
                .documents
                .push((number, check_of(row), id.into()));
        }
        Ok(())
    }

    /// Files that could not be used, or not whole, keep the documents they had; and they will be read again.
    pub fn keep_bad(&mut self, files: &[std::sync::Arc<str>]) -> Result<()> {
        for file in files {
            let Some(read) = self.read.get_mut(&**file) else {
                continue;
            };
            read.state.stamp = None;
            let mut ids = vec![read.id.to_string()];
            if let (Some(known), Some(place)) = (self.known, read.known) {
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
                let read = self.read.get_mut(&**file);
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
    pub fn not_found(&self) -> Result<NotFound> {
        let mut found = NotFound::default();
        for (segment, searched) in self.index.segments.iter().enumerate() {
            for place in 0..searched.documents.len() {
                let number = searched.documents.row(place)?.number;
                if !self.index.is_listed(segment, number)? {
                    continue;
                }
                found.documents += 1;
                if !self.is_seen(number) && self.walk_problems == 0 {
                    found.at.push(At { segment, place });
                }
            }
        }
        Ok(found)
    }

    /// The same before anything was read: what is sure to go. None of it if a file is to be read that may have any document.
    pub fn sure_to_go(mut self) -> Result<NotFound> {
        for read in std::mem::take(&mut self.read).into_values() {
            let mut ids = vec![read.id.to_string()];
            if let (Some(known), Some(place)) = (self.known, read.known) {
                known.for_each_document(place, |_, _, document| {
                    ids.push(known.id(document)?);
                    Ok(())
                })?;
            } else if self.index.find_id(&read.id)?.is_none() {
                return Ok(NotFound::default());
            }
            for id in ids {
                if let Some(at) = self.index.find_id(&id)? {
                    self.mark(self.index.row(at)?.number);
                }
            }
        }
        self.not_found()
    }

    /// What is known now, given the numbers of the documents that were added.
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
                    numbers.get(place as usize).copied().ok_or_else(lost)?;
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
fn check_of(row: &Row) -> u64 {
    row.hash.unwrap_or_default() as u64 ^ row.bytes.unwrap_or_default()
}
