//! Opens a history, or makes one.

use super::{
    background::BackgroundWorker,
    history::{ALONE, History, SegmentState, StoreOptions, WriterState},
    journal::{JournalDirectory, JournalLength, JournalRecord, ReplayedJournal, is_blank, replay},
    manifest::{HistoryManifest, ensure_new, journal_path},
    memtable::Memtable,
    retry::{RetryQueue, count_within},
    segment::{EntrySource, Segment},
    synced_lengths::{self, JournalLengths, SyncedLengths},
};
use crate::history::search_threads::SearchThreads;
use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        files::{WriteLock, durable},
    },
    text::{
        scheme::PrintScheme,
        token::{Rule, Tokenizer},
    },
};
use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::AtomicBool},
};

/// How often a reader tries again, if a writer changes the history while it is opened.
const ATTEMPTS: u32 = 20;
/// Lines of a journal that are taken into memory together.
const TAKEN: usize = 16;

/// Refuses a directory that holds no history.
pub fn ensure_history_exists(directory: &Path) -> Result<()> {
    let none = || {
        Error::damaged(
            Place::path(directory),
            "no history is here (there is no manifest.json)",
        )
    };
    HistoryManifest::read(directory)?.map(drop).ok_or_else(none)
}

impl History {
    /// Opens a history, or makes one where the directory is empty or not there; and says what of it was lost to a crash.
    ///
    /// Takes as long as reading the journal does, 262,144 entries or little more: segments are mapped.
    pub fn open(directory: &Path, options: StoreOptions) -> Result<(Self, Vec<Problem>)> {
        if options.read_only {
            return Self::open_to_read(directory, &options);
        }
        if HistoryManifest::read(directory)?.is_none() {
            ensure_new(directory)?;
        }
        let lock = WriteLock::take_of(directory, "history")?;
        let manifest = match HistoryManifest::read(directory)? {
            Some(manifest) => manifest,
            None => Self::make(directory, &options)?,
        };
        manifest.sweep(directory)?;
        let mut history = Self::load(directory, options, manifest)?;
        let (promised, repaired) = synced_lengths::read_or_repair(directory)?;
        let (journals, blank) = history.journals(&promised)?;
        for path in blank {
            fs::remove_file(&path).map_err(|error| Error::io(path.display(), error))?;
        }
        let synced_lengths = Arc::new(SyncedLengths::open(directory, history.manifest.journal)?);
        let of_writer = JournalDirectory {
            directory: directory.to_owned(),
            every: history.options.sync,
            synced_lengths,
        };
        let hurry = Arc::new(AtomicBool::new(false));
        let resting = || BackgroundWorker::start(history.options.serves.then(|| hurry.clone()));
        let mut workers = Some((
            resting()?,
            [resting()?, resting()?],
            BackgroundWorker::start(None)?,
            lock,
        ));
        let (count, replayed) = (journals.len(), history.replay(&journals, &promised)?);
        let first = replayed
            .first()
            .map_or(0, |(_, replayed)| replayed.first_sequence);
        for (at, (number, replayed)) in replayed.into_iter().enumerate() {
            let journal = of_writer.append_to(number, &replayed)?;
            if let Some((small, merges, commits, lock)) = workers.take() {
                let upkeep = RetryQueue::default();
                let (journals, journal_number, next_journal, hurry) =
                    (of_writer.clone(), number, None, hurry.clone());
                history.writing = Some(WriterState {
                    journals,
                    journal,
                    journal_number,
                    next_journal,
                    small,
                    merges,
                    commits,
                    hurry,
                    upkeep,
                    lock,
                });
            } else {
                let writing = history.writing()?;
                (writing.journal, writing.journal_number) = (journal, number);
            }
            history.take_all(number, &replayed);
            if at + 1 < count {
                history.flush_memtable(number, None, Memtable::default());
            }
        }
        let notes = repaired
            .into_iter()
            .chain(
                history
                    .read_journals
                    .iter()
                    .filter_map(|journal| journal.dropped(directory)),
            )
            .collect();
        history.drop_stray_removals(first);
        history.forget();
        history.plan();
        if history.memtable.count() >= history.memtable_limit() {
            history.next_journal()?;
        }
        Ok((history, notes))
    }

    fn make(directory: &Path, options: &StoreOptions) -> Result<HistoryManifest> {
        ensure_new(directory)?;
        let words = || PrintScheme {
            tokens: Tokenizer::new(Rule::Word, false).scheme(),
        };
        let manifest =
            HistoryManifest::new(options.scheme.clone().unwrap_or_else(words).to_string());
        SyncedLengths::create(directory)?;
        let synced_lengths = Arc::new(SyncedLengths::open(directory, manifest.journal)?);
        let journals = JournalDirectory {
            directory: directory.to_owned(),
            every: crate::history::SyncPolicy::Never,
            synced_lengths,
        };
        drop(journals.create(manifest.journal, 0)?);
        manifest.commit(directory)?;
        durable::sync_ancestors(directory)?;
        Ok(manifest)
    }

    fn open_to_read(directory: &Path, options: &StoreOptions) -> Result<(Self, Vec<Problem>)> {
        let mut attempt = 0;
        loop {
            let none = || {
                Error::damaged(
                    Place::path(directory),
                    "no history is here (there is no manifest.json)",
                )
            };
            let manifest = HistoryManifest::read(directory)?.ok_or_else(none)?;
            match Self::read_all(directory, options, manifest.clone()) {
                Err(_)
                    if attempt < ATTEMPTS
                        && HistoryManifest::read(directory)?.as_ref() != Some(&manifest) =>
                {
                    attempt += 1
                }
                other => return other.map(|history| (history, Vec::new())),
            }
        }
    }

    /// What is whole; a group that is just being written is not there yet.
    fn read_all(
        directory: &Path,
        options: &StoreOptions,
        manifest: HistoryManifest,
    ) -> Result<Self> {
        let mut history = Self::load(directory, options.clone(), manifest)?;
        // What is promised is read first: a writer may promise more while journals are read.
        let promised = synced_lengths::read(directory)?;
        let (journals, _) = history.journals(&promised)?;
        let count = journals.len();
        for (at, (number, replayed)) in history
            .replay(&journals, &promised)?
            .into_iter()
            .enumerate()
        {
            history.take_all(number, &replayed);
            if at + 1 < count {
                history.flush_memtable(number, None, Memtable::default());
            }
        }
        Ok(history)
    }

    /// The segments, mapped.
    fn load(
        directory: &Path,
        options: StoreOptions,
        mut manifest: HistoryManifest,
    ) -> Result<Self> {
        let place = || Place::path(directory);
        let scheme: PrintScheme = manifest
            .scheme
            .parse()
            .map_err(|what: String| Error::damaged(place(), what))?;
        if let Some(asked) = options.scheme.as_ref().filter(|asked| **asked != scheme) {
            let remedy = "prints of two schemes cannot be compared; give the options that the history was made with, or use another one";
            return Err(Error::Scheme {
                place: place(),
                found: scheme.to_string(),
                expected: asked.to_string(),
                remedy,
            });
        }
        let mut segments = Vec::new();
        for listed in &manifest.segments {
            let segment = Segment::open(&directory.join(&listed.file.name), listed.level)?;
            listed.file.ensure_is(&segment.file)?;
            segments.push(SegmentState {
                segment: Arc::new(segment),
                is_busy: false,
                removed: 0,
            });
        }
        let next_sequence = segments
            .last()
            .map_or(0, |held| held.segment.description.sequences[1] + 1);
        let last_time = segments
            .iter()
            .map(|held| held.segment.description.times[1])
            .max()
            .unwrap_or_default();
        // Of an entry that is in no file the journals tell: if it was lost with them, its number may be that of another one.
        let removed: HashSet<u64> = manifest
            .removed
            .drain(..)
            .filter(|&sequence| sequence < next_sequence)
            .collect();
        segments.iter_mut().for_each(|held| {
            held.removed = count_within(&removed, held.segment.description.sequences)
        });
        let (removed, waiting, memtable, writing) =
            (Arc::new(removed), Vec::new(), Memtable::default(), None);
        let (directory, pace) = (directory.to_owned(), ALONE);
        let (helpers, scratches) = (
            SearchThreads::start(options.threads.saturating_sub(1))?,
            Mutex::default(),
        );
        Ok(Self {
            directory,
            options,
            manifest,
            scheme,
            segments,
            waiting,
            memtable,
            removed,
            next_sequence,
            last_time,
            helpers,
            scratches,
            pace,
            read_journals: Vec::new(),
            writing,
        })
    }

    /// The numbers of the journals: that of the manifest, and those after it; and the paths of those made ahead of their time.
    fn journals(&self, promised: &JournalLengths) -> Result<(Vec<u64>, Vec<PathBuf>)> {
        let first = self.manifest.journal;
        let path = |number: u64| journal_path(&self.directory, number);
        let mut journals = Vec::new();
        for number in first.. {
            // One look tells whether it is there and what is in it: a writer may remove one that it made ahead at any time.
            match path(number).metadata() {
                Ok(file) => journals.push((number, file.len())),
                Err(error) if error.kind() == io::ErrorKind::NotFound && number > first => break,
                Err(error) => return Err(Error::io(path(number).display(), error)),
            }
        }
        if let Some((&number, bytes)) = promised.range(first + journals.len() as u64..).next() {
            let what = format!("the journal is missing, but {bytes} bytes of it were on disk");
            return Err(Error::damaged(Place::path(&path(number)), what));
        }
        let mut blank = Vec::new();
        while let [_, .., (last, bytes)] = journals[..]
            && is_blank(bytes)
            && !promised.contains_key(&last)
        {
            blank.push(path(last));
            journals.pop();
        }
        Ok((
            journals.into_iter().map(|(number, _)| number).collect(),
            blank,
        ))
    }

    /// Reads the journals, at most as many as may wait to be made into files. Each may end in the middle of a group, after what
    /// is promised of it.
    ///
    /// The last is read first: so whatever is in one is in what is read of those before it, even if somebody writes meanwhile.
    fn replay(
        &self,
        journals: &[u64],
        promised: &JournalLengths,
    ) -> Result<Vec<(u64, ReplayedJournal)>> {
        let mut all = Vec::new();
        for &number in journals.iter().rev() {
            let of_this = promised.get(&number).copied().unwrap_or_default();
            all.push((
                number,
                replay(&journal_path(&self.directory, number), of_this)?,
            ));
        }
        all.reverse();
        let mut expected = self.next_sequence;
        for (
            number,
            ReplayedJournal {
                first_sequence,
                lines,
                ..
            },
        ) in &all
        {
            if *first_sequence < expected {
                let what = format!(
                    "starts with entry {first_sequence}, expected {expected}; it is of another history"
                );
                return Err(Error::damaged(
                    Place::path(&journal_path(&self.directory, *number)),
                    what,
                ));
            }
            expected = first_sequence
                + lines
                    .iter()
                    .filter(|line| matches!(line, JournalRecord::Add(_)))
                    .count() as u64;
        }
        Ok(all)
    }

    /// Takes what a journal has. Numbers of entries that were lost before it are not given again.
    fn take_all(&mut self, number: u64, replayed: &ReplayedJournal) {
        let ReplayedJournal {
            whole_bytes,
            unfinished_bytes,
            ..
        } = *replayed;
        self.read_journals.push(JournalLength {
            number,
            whole_bytes,
            unfinished_bytes,
        });
        self.next_sequence = replayed.first_sequence;
        self.take(&replayed.lines);
    }

    /// Takes lines of the journal into memory.
    pub(in crate::history) fn take(&mut self, lines: &[JournalRecord]) {
        for some in lines.chunks(TAKEN) {
            let print = |line: &JournalRecord| {
                if let JournalRecord::Add(added) = line {
                    Some(added.print)
                } else {
                    None
                }
            };
            self.memtable.prefetch_room(some.iter().filter_map(print));
            some.iter().for_each(|line| self.take_one(line));
        }
    }

    fn take_one(&mut self, line: &JournalRecord) {
        match line {
            JournalRecord::Remove(sequence) => {
                self.note_removed(*sequence);
            }
            JournalRecord::Add(added) => {
                self.next_sequence = added.sequence + 1;
                self.last_time = self.last_time.max(added.time);
                self.memtable.push(added);
            }
        }
    }
}

impl JournalLength {
    /// What a writer says once it has cut off what is not whole.
    fn dropped(&self, directory: &Path) -> Option<Problem> {
        let Self {
            number,
            whole_bytes,
            unfinished_bytes,
        } = self;
        let what = format!(
            "dropped {unfinished_bytes} bytes of an unfinished group from byte {whole_bytes} on; everything that was synced is there"
        );
        (*unfinished_bytes > 0)
            .then(|| Problem::new(Place::path(&journal_path(directory, *number)), what))
    }
}
