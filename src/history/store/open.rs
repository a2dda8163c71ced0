//! Opens a history, or creates one.

use super::{
    background::BackgroundWorker,
    history::{History, SOLO_SEARCH, SegmentState, StoreOptions, WriterState, cardinalities_of},
    journal::{Journal, JournalDirectory, JournalLength, SyncPolicy},
    journal_format::{JournalRecord, ReplayedJournal, is_blank, replay},
    manifest::{HistoryManifest, ensure_new, journal_path, new_identity},
    memtable::Memtable,
    retry::{RetryQueue, count_within},
    segment::Segment,
    synced_lengths::{self, JournalLengths, SyncedLengths},
};
use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        files::{WriteLock, durable},
        num::ToU64,
        parallel::pool,
    },
    history::{backend::CardinalityRange, search::searchable::EntrySource},
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

/// How often a reader tries again if a writer changes the history while it is opened.
const READ_ATTEMPTS: u32 = 20;
/// Journal records that are applied together, so that their memory is prefetched together.
const APPLIED_TOGETHER: usize = 16;

/// Refuses a directory without a history.
pub fn ensure_history_exists(directory: &Path) -> Result<()> {
    read_manifest(directory).map(drop)
}

pub(in crate::history) fn read_manifest(directory: &Path) -> Result<HistoryManifest> {
    HistoryManifest::read(directory)?.ok_or_else(|| {
        Error::damaged(
            Place::path(directory),
            "no history is here (there is no manifest.json)",
        )
    })
}

impl History {
    /// Opens a history, or creates one if the directory is empty or missing; also returns what was
    /// lost in a crash.
    ///
    /// The time is that of reading the journals, 262,144 entries or a little more: segments are
    /// mapped.
    pub fn open(directory: &Path, options: StoreOptions) -> Result<(Self, Vec<Problem>)> {
        if options.read_only {
            return Self::open_read_only(directory, &options).map(|history| (history, Vec::new()));
        }
        if HistoryManifest::read(directory)?.is_none() {
            ensure_new(directory)?;
        }
        let lock = WriteLock::take_of(directory, "history")?;
        let manifest = match HistoryManifest::read(directory)? {
            Some(manifest) => manifest,
            None => create(directory, &options)?,
        };
        manifest.sweep(directory)?;
        let mut history = Self::load(directory, options, manifest)?;
        let mut problems = history.recover_journals(lock)?;
        let journals = history.opened_journals.iter();
        problems.extend(journals.filter_map(|journal| journal.dropped(directory)));
        if history.manifest.identity.is_none() {
            history.manifest.identity = Some(new_identity());
            history.commit_now()?;
        }
        history.drop_dead_entries();
        history.start_merges();
        if history.memtable.count() >= history.memtable_limit() {
            history.rotate_journal()?;
        }
        Ok((history, problems))
    }

    fn open_read_only(directory: &Path, options: &StoreOptions) -> Result<Self> {
        let mut attempt = 0;
        loop {
            let manifest = read_manifest(directory)?;
            let opened = Self::load_read_only(directory, options, manifest.clone());
            let has_changed = || {
                let now = HistoryManifest::read(directory);
                now.map(|now| now.as_ref() != Some(&manifest))
            };
            if opened.is_err() && attempt < READ_ATTEMPTS && has_changed()? {
                attempt += 1;
            } else {
                return opened;
            }
        }
    }

    /// Loads complete journal groups only; a writer may be appending one just now.
    fn load_read_only(
        directory: &Path,
        options: &StoreOptions,
        manifest: HistoryManifest,
    ) -> Result<Self> {
        let mut history = Self::load(directory, options.clone(), manifest)?;
        // The synced lengths are read first: a writer may extend the journals meanwhile.
        let synced = synced_lengths::read(directory)?;
        let (journals, _) = history.find_journals(&synced)?;
        let mut full = None;
        for (number, replayed) in history.replay(&journals, &synced)? {
            if let Some(full) = full.replace(number) {
                history.flush_memtable(full, None, Memtable::default());
            }
            history.apply_journal(number, &replayed);
        }
        Ok(history)
    }

    /// Replays the journals and continues with the last one; returns what was repaired.
    fn recover_journals(&mut self, lock: WriteLock) -> Result<Vec<Problem>> {
        let (synced, repaired) = synced_lengths::read_or_repair(&self.directory)?;
        let (numbers, blank) = self.find_journals(&synced)?;
        for path in blank {
            fs::remove_file(&path).map_err(|error| Error::io(path.display(), error))?;
        }
        let synced_lengths = SyncedLengths::open(&self.directory, self.manifest.journal)?;
        let directory = JournalDirectory {
            directory: self.directory.clone(),
            sync: self.options.sync,
            synced_lengths: Arc::new(synced_lengths),
        };
        let mut journals = self.replay(&numbers, &synced)?.into_iter();
        if let Some((number, replayed)) = journals.next() {
            let journal = directory.append_to(number, &replayed)?;
            let throttle = self.options.serves;
            let writer = WriterState::start(directory, journal, number, lock, throttle)?;
            self.writer = Some(writer);
            self.apply_journal(number, &replayed);
            for (number, replayed) in journals {
                self.flush_memtable(number - 1, None, Memtable::default());
                let writer = self.writer()?;
                writer.journal = writer.journals.append_to(number, &replayed)?;
                writer.journal_number = number;
                self.apply_journal(number, &replayed);
            }
            self.forget_stale_removals(replayed.first_sequence);
        }
        Ok(repaired.into_iter().collect())
    }

    /// Opens the segments.
    fn load(
        directory: &Path,
        options: StoreOptions,
        mut manifest: HistoryManifest,
    ) -> Result<Self> {
        let scheme = ensure_scheme_matches(directory, &manifest, &options)?;
        ensure_cardinalities_match(directory, &manifest, &options)?;
        let mut segments = open_segments(directory, &manifest)?;
        let next_sequence = segments
            .last()
            .map_or(0, |state| state.segment.last_sequence() + 1);
        let last_time = segments.iter().map(|state| state.segment.last_time()).max();
        // The journals tell about entries that no segment has. If they were lost, another entry may
        // get the same number.
        let removed: HashSet<u64> = manifest
            .removed
            .drain(..)
            .filter(|&sequence| sequence < next_sequence)
            .collect();
        for state in &mut segments {
            state.removed = count_within(&removed, state.segment.description.sequences);
        }
        Ok(Self {
            directory: directory.to_owned(),
            pool: pool(options.threads),
            options,
            manifest,
            scheme,
            segments,
            flushing: Vec::new(),
            memtable: Memtable::default(),
            removed: Arc::new(removed),
            next_sequence,
            last_time: last_time.unwrap_or_default(),
            live_counts: Mutex::default(),
            log_time: None,
            scratches: Mutex::default(),
            time_per_request: SOLO_SEARCH,
            opened_journals: Vec::new(),
            writer: None,
        })
    }

    /// The numbers of the journals, from that of the manifest on; and the paths of blank ones that
    /// were created ahead of time.
    fn find_journals(&self, synced: &JournalLengths) -> Result<(Vec<u64>, Vec<PathBuf>)> {
        let first = self.manifest.journal;
        let path = |number: u64| journal_path(&self.directory, number);
        let mut journals = Vec::new();
        for number in first.. {
            // One call tells whether it exists and its length: a writer may delete one that it
            // created ahead of time.
            match path(number).metadata() {
                Ok(file) => journals.push((number, file.len())),
                Err(error) if error.kind() == io::ErrorKind::NotFound && number > first => break,
                Err(error) => return Err(Error::io(path(number).display(), error)),
            }
        }
        if let Some((&number, bytes)) = synced.range(first + journals.len().to_u64()..).next() {
            let what = format!("the journal is missing, but {bytes} bytes of it were on disk");
            return Err(Error::damaged(Place::path(&path(number)), what));
        }
        let mut blank = Vec::new();
        while let [_, .., (last, bytes)] = journals[..]
            && is_blank(bytes)
            && !synced.contains_key(&last)
        {
            blank.push(path(last));
            journals.pop();
        }
        let numbers = journals.into_iter().map(|(number, _)| number).collect();
        Ok((numbers, blank))
    }

    /// Reads the journals, of which there are at most as many as memtables may wait. Each may end in
    /// the middle of a group, after the bytes that were synced.
    ///
    /// The last is read first: so the entries before those of any journal have been read, even if
    /// a writer is appending.
    fn replay(
        &self,
        journals: &[u64],
        synced: &JournalLengths,
    ) -> Result<Vec<(u64, ReplayedJournal)>> {
        let mut all = Vec::new();
        for &number in journals.iter().rev() {
            let synced_bytes = synced.get(&number).copied().unwrap_or_default();
            let path = journal_path(&self.directory, number);
            all.push((number, replay(&path, synced_bytes)?));
        }
        all.reverse();
        let mut expected = self.next_sequence;
        for (number, replayed) in &all {
            let first = replayed.first_sequence;
            if first < expected {
                let what = format!(
                    "starts with entry {first}, expected {expected}; it is of another history"
                );
                let path = journal_path(&self.directory, *number);
                return Err(Error::damaged(Place::path(&path), what));
            }
            expected = first + replayed.added().to_u64();
        }
        Ok(all)
    }

    /// Applies a journal. Sequence numbers of entries that were lost before it are not used again.
    fn apply_journal(&mut self, number: u64, replayed: &ReplayedJournal) {
        self.opened_journals.push(JournalLength {
            number,
            whole_bytes: replayed.whole_bytes,
            unfinished_bytes: replayed.unfinished_bytes,
        });
        self.next_sequence = replayed.first_sequence;
        self.apply(&replayed.records);
    }

    /// Applies journal records to the memtable.
    pub(in crate::history) fn apply(&mut self, records: &[JournalRecord]) {
        for some in records.chunks(APPLIED_TOGETHER) {
            let prints = some.iter().filter_map(JournalRecord::added_print);
            self.memtable.prefetch_slots(prints);
            some.iter().for_each(|record| self.apply_one(record));
        }
    }

    fn apply_one(&mut self, record: &JournalRecord) {
        match record {
            JournalRecord::Remove(sequence) => self.note_removed(*sequence),
            JournalRecord::Log(mark) => {
                self.manifest.log.get_or_insert_default().note(mark);
            }
            JournalRecord::Forget(forgotten) => {
                let both = self.forgotten().and(*forgotten);
                self.manifest.forgotten = Some(both);
            }
            JournalRecord::Add(entry) => {
                self.next_sequence = entry.sequence + 1;
                self.last_time = self.last_time.max(entry.time);
                self.memtable.push(entry);
            }
        }
    }
}

/// Creates an empty history.
fn create(directory: &Path, options: &StoreOptions) -> Result<HistoryManifest> {
    ensure_new(directory)?;
    let words = || PrintScheme {
        tokens: Tokenizer::new(Rule::default(), false).scheme(),
    };
    let scheme = options.scheme.clone().unwrap_or_else(words);
    let mut manifest = HistoryManifest::new(scheme.to_string());
    manifest.buckets = (options.cardinalities)
        .filter(|buckets| *buckets != CardinalityRange::ALL)
        .map(|buckets| buckets.to_string());
    SyncedLengths::create(directory)?;
    let journals = JournalDirectory {
        directory: directory.to_owned(),
        sync: SyncPolicy::Never,
        synced_lengths: Arc::new(SyncedLengths::open(directory, manifest.journal)?),
    };
    drop(journals.create(manifest.journal, 0)?);
    manifest.commit(directory)?;
    durable::sync_ancestors(directory)?;
    Ok(manifest)
}

/// Refuses other cardinalities than the history has: it would find what it should not keep, or
/// miss what it should.
fn ensure_cardinalities_match(
    directory: &Path,
    manifest: &HistoryManifest,
    options: &StoreOptions,
) -> Result<()> {
    let place = || Place::path(directory);
    if let Some(buckets) = &manifest.buckets {
        let parsed: Result<CardinalityRange, String> = buckets.parse();
        parsed.map_err(|what| Error::damaged(place(), what))?;
    }
    let kept = cardinalities_of(manifest);
    match options.cardinalities {
        Some(expected) if expected != kept => Err(Error::damaged(
            place(),
            format!(
                "keeps cardinalities {kept}, expected {expected}; cut it with dedup-query history split, or join parts \
                 with dedup-query history merge"
            ),
        )),
        _ => Ok(()),
    }
}

fn ensure_scheme_matches(
    directory: &Path,
    manifest: &HistoryManifest,
    options: &StoreOptions,
) -> Result<PrintScheme> {
    let place = Place::path(directory);
    let scheme: PrintScheme = match manifest.scheme.parse::<PrintScheme>() {
        Ok(scheme) => scheme,
        Err(what) => return Err(Error::damaged(place, what)),
    };
    match &options.scheme {
        Some(expected) if *expected != scheme => Err(Error::Scheme {
            place,
            found: scheme.to_string(),
            expected: expected.to_string(),
            remedy: "prints of two schemes cannot be compared; give the options that the history was made with, or use another one",
        }),
        _ => Ok(scheme),
    }
}

fn open_segments(directory: &Path, manifest: &HistoryManifest) -> Result<Vec<SegmentState>> {
    let mut segments = Vec::new();
    for listed in &manifest.segments {
        let segment = Segment::open(&directory.join(&listed.file.name), listed.level)?;
        listed.file.ensure_is(&segment.file)?;
        segments.push(SegmentState {
            segment: Arc::new(segment),
            is_merging: false,
            removed: 0,
        });
    }
    Ok(segments)
}

impl WriterState {
    /// Starts the background threads; those that write segments are throttled if `throttle`.
    fn start(
        journals: JournalDirectory,
        journal: Journal,
        journal_number: u64,
        lock: WriteLock,
        throttle: bool,
    ) -> Result<Self> {
        let is_urgent = Arc::new(AtomicBool::new(false));
        let segment_worker = || BackgroundWorker::start(throttle.then(|| is_urgent.clone()));
        Ok(Self {
            journals,
            journal,
            journal_number,
            next_journal: None,
            flush_worker: segment_worker()?,
            merge_workers: [segment_worker()?, segment_worker()?],
            commit_worker: BackgroundWorker::start(None)?,
            is_urgent,
            retries: RetryQueue::default(),
            lock,
        })
    }
}

impl JournalLength {
    /// What a writer reports after it has cut off an unfinished group.
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
