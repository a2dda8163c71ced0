//! [`History`]: its state, options and the operations of its users.

use super::{
    background::{BackgroundWorker, CommitJob, DropFilter, JobInputs, SegmentJob},
    journal::{Journal, JournalDirectory, JournalLength, SyncPolicy},
    journal_format::JournalRecord,
    log_cursor::Forgotten,
    manifest::{HistoryManifest, journal_path, segment_path},
    memtable::{MAX_MEMTABLE_ENTRIES, Memtable},
    next_journal::NextJournal,
    retry::RetryQueue,
    segment::Segment,
    segment_description::SegmentDescription,
};
use crate::{
    base::{
        error::{Error, Problem, Result},
        files::WriteLock,
        num::ToU64,
        parallel::Pool,
    },
    history::{
        backend::CardinalityRange,
        search::{
            searchable::{EntrySource, LiveFilter, SearchableEntries},
            searcher::SearchScratch,
        },
    },
    text::scheme::PrintScheme,
};
use std::{
    collections::{HashMap, HashSet},
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A search that takes less time is not worth a second thread, which may wait for a processor.
pub(in crate::history) const SOLO_SEARCH: Duration = Duration::from_micros(250);

/// How a history is opened and used.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The scheme that its prints must have, and that a new history gets. `None`: any; words for a
    /// new one.
    pub scheme: Option<PrintScheme>,
    /// The number of threads of a search.
    pub threads: usize,
    /// When new entries are synced to disk.
    pub sync: SyncPolicy,
    /// If set, older entries are forgotten.
    pub max_age_seconds: Option<u32>,
    /// If set, only this number of the newest entries is remembered.
    pub max_entries: Option<u64>,
    /// Opens an existing history without a lock; nothing can be added or removed.
    pub read_only: bool,
    /// The number of entries that make a segment file; until then they are in the memtable and in a
    /// journal of their own. At most 262,144.
    pub memtable_entries: u32,
    /// Clients wait for each answer: background jobs are throttled as long as they keep up, and
    /// closing abandons running ones; the next writer repeats them. Otherwise closing waits for
    /// them.
    pub serves: bool,
    /// The current time, in seconds since 1970.
    pub clock: fn() -> u32,
    /// The cardinalities that a new history keeps, and that an existing one must keep. `None`: all
    /// for a new one.
    pub cardinalities: Option<CardinalityRange>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            scheme: None,
            threads: 1,
            sync: SyncPolicy::Never,
            max_age_seconds: None,
            max_entries: None,
            read_only: false,
            memtable_entries: MAX_MEMTABLE_ENTRIES,
            serves: false,
            clock: system_clock,
            cardinalities: None,
        }
    }
}

fn system_clock() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
    })
}

/// The prints of all documents seen so far.
pub struct History {
    pub(in crate::history) directory: PathBuf,
    pub(in crate::history) options: StoreOptions,
    pub(in crate::history) manifest: HistoryManifest,
    pub(in crate::history) scheme: PrintScheme,
    /// In order of their sequence numbers.
    pub(in crate::history) segments: Vec<SegmentState>,
    /// Full memtables that a background job writes to segments, oldest first.
    pub(in crate::history) flushing: Vec<Arc<Memtable>>,
    /// The memtable that new entries go to.
    pub(in crate::history) memtable: Memtable,
    /// The sequence numbers of removed entries; copied on write while a background job reads it.
    pub(in crate::history) removed: Arc<HashSet<u64>>,
    pub(in crate::history) next_sequence: u64,
    pub(in crate::history) last_time: u32,
    /// For segments of which entries are removed or forgotten: how many are live, in which state.
    pub(in crate::history) live_counts: Mutex<HashMap<PathBuf, (CountedState, u64)>>,
    /// The time of the entry of the log that is being applied.
    pub(in crate::history) log_time: Option<u32>,
    /// The threads of a search.
    pub(in crate::history) pool: Pool,
    /// Buffers of earlier searches, for reuse.
    pub(in crate::history) scratches: Mutex<Vec<SearchScratch>>,
    /// The processor time per request in the last batch; at first, enough for several threads.
    pub(in crate::history) time_per_request: Duration,
    /// The journals as they were when the history was opened.
    pub(in crate::history) opened_journals: Vec<JournalLength>,
    /// `None` if the history is read-only.
    pub(in crate::history) writer: Option<WriterState>,
}

/// How many entries of a segment are removed, and from which sequence number and time on entries are
/// not forgotten.
type CountedState = (u32, u64, u32);

/// A live segment and its state.
pub(in crate::history) struct SegmentState {
    pub segment: Arc<Segment>,
    /// A background job is rewriting it.
    pub is_merging: bool,
    /// How many of its entries were removed.
    pub removed: u32,
}

/// What only a writer has.
pub(in crate::history) struct WriterState {
    pub journals: JournalDirectory,
    pub journal: Journal,
    pub journal_number: u64,
    pub next_journal: Option<NextJournal>,
    /// Writes memtables to segments, which new entries may have to wait for.
    pub flush_worker: BackgroundWorker<SegmentJob>,
    /// Merge small segments, and large ones.
    pub merge_workers: [BackgroundWorker<SegmentJob>; 2],
    pub commit_worker: BackgroundWorker<CommitJob>,
    /// Set when throttled background jobs no longer keep up.
    pub is_urgent: Arc<AtomicBool>,
    pub retries: RetryQueue,
    pub lock: WriteLock,
}

impl History {
    /// The scheme of its prints.
    pub fn scheme(&self) -> &PrintScheme {
        &self.scheme
    }

    /// The number of stored entries, including removed and forgotten ones that are not yet dropped.
    pub fn entries(&self) -> u64 {
        let in_memory = self.memtables().map(|memtable| u64::from(memtable.count()));
        self.segments
            .iter()
            .map(|state| u64::from(state.segment.count()))
            .chain(in_memory)
            .sum()
    }

    /// The number of entries that a search finds: neither removed nor forgotten. Reads the sequence
    /// numbers and times of files of which a part is removed or forgotten, once for each state.
    pub fn searchable_entries(&self) -> Result<u64> {
        let live = self.live_now();
        let mut count = 0;
        for SegmentState {
            segment, removed, ..
        } in &self.segments
        {
            let SegmentDescription {
                sequences, times, ..
            } = segment.description;
            // Journals may tell of removed entries that are in no file any more, so these counts
            // say only whether any is removed.
            let is_whole =
                sequences[0] >= live.first_sequence && times[0] >= live.first_time && *removed == 0;
            count += if is_whole {
                u64::from(segment.count())
            } else {
                let state = (*removed, live.first_sequence, live.first_time);
                self.live_entries_of(segment, state, &live)?
            };
        }
        for memtable in self.memtables() {
            let is_whole = live.removed.is_empty()
                && memtable.count() > 0
                && memtable.sequence(0)? >= live.first_sequence
                && memtable.time(0)? >= live.first_time;
            count += if is_whole {
                u64::from(memtable.count())
            } else {
                count_live(memtable, &live)?
            };
        }
        Ok(count)
    }

    /// The live entries of a segment; counted again when the state is another one.
    fn live_entries_of(
        &self,
        segment: &Segment,
        state: CountedState,
        live: &LiveFilter<'_>,
    ) -> Result<u64> {
        let counts = || {
            self.live_counts
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let path = segment.path();
        if let Some((counted, count)) = counts().get(&path)
            && *counted == state
        {
            return Ok(*count);
        }
        let count = count_live(segment, live)?;
        let mut counts = counts();
        if counts.len() > 2 * self.segments.len() {
            counts.clear();
        }
        counts.insert(path, (state, count));
        Ok(count)
    }

    /// What tells this history, with its copies and parts, from all others.
    pub fn identity(&self) -> &str {
        self.manifest.identity.as_deref().unwrap_or_default()
    }

    /// The cardinalities that it keeps.
    pub fn cardinalities(&self) -> CardinalityRange {
        cardinalities_of(&self.manifest)
    }

    /// Returns when all additions and removals are on disk.
    pub fn sync(&mut self) -> Result<()> {
        self.writer
            .as_ref()
            .map_or(Ok(()), |writer| writer.journal.sync())
    }

    /// Removes all entries with this id and returns their number.
    pub fn remove(&mut self, id: &str) -> Result<u64> {
        self.collect_finished_jobs(false)?;
        let records = self.removal_records(id)?;
        self.writer()?.journal.append(&records)?;
        self.apply(&records);
        let is_mostly_removed =
            |state: &SegmentState| !state.is_merging && state.is_mostly_removed();
        if self.segments.iter().any(is_mostly_removed) {
            self.drop_dead_entries();
        }
        if self.options.sync == SyncPolicy::EveryBatch {
            self.sync()?;
        }
        Ok(records.len().to_u64())
    }

    /// The journal records that remove all live entries with this id.
    fn removal_records(&self, id: &str) -> Result<Vec<JournalRecord>> {
        let mut arrivals = Vec::new();
        for SegmentState { segment, .. } in &self.segments {
            for entry in segment.with_id(id)? {
                arrivals.push((segment.sequence(entry)?, segment.time(entry)?));
            }
        }
        for memtable in self.memtables() {
            for entry in memtable.with_id(id)? {
                arrivals.push((memtable.sequence(entry)?, memtable.time(entry)?));
            }
        }
        let live = self.live_now();
        Ok(arrivals
            .into_iter()
            .filter(|&(sequence, time)| live.contains(sequence, time))
            .map(|(sequence, _)| JournalRecord::Remove(sequence))
            .collect())
    }

    /// Syncs everything to disk, then finishes or abandons background jobs. Without it, and after
    /// an error, nothing is lost that was synced. Returns the problems that were overcome.
    pub fn close(mut self) -> Result<Vec<Problem>> {
        self.writer
            .as_ref()
            .map_or(Ok(()), |writer| writer.journal.finish())?;
        if self.options.serves {
            self.abandon_jobs()?;
        } else {
            self.collect_finished_jobs(true)?;
        }
        let problems = self.take_problems();
        let Some(mut writer) = self.writer.take() else {
            return Ok(problems);
        };
        let unused_journal = writer
            .next_journal
            .take()
            .map(|_| journal_path(&self.directory, writer.journal_number + 1));
        drop((
            writer.flush_worker,
            writer.merge_workers,
            writer.commit_worker,
            writer.journal,
        ));
        // It is empty, so it does not matter if it stays.
        let _ = unused_journal.map(fs::remove_file);
        writer.lock.release(&self.directory).map(|()| problems)
    }

    /// All memtables, oldest first.
    pub(in crate::history) fn memtables(&self) -> impl Iterator<Item = &Memtable> {
        self.flushing
            .iter()
            .map(|memtable| &**memtable)
            .chain([&self.memtable])
    }

    /// The bytes of the journal that may not be on disk yet.
    pub fn unsynced_bytes(&self) -> u64 {
        self.writer
            .as_ref()
            .map_or(0, |writer| writer.journal.unsynced_bytes())
    }

    pub(in crate::history) fn writer(&mut self) -> Result<&mut WriterState> {
        self.writer
            .as_mut()
            .ok_or_else(|| Error::Usage("the history was opened read-only".to_owned()))
    }

    /// The entries that are neither removed nor forgotten at a time.
    pub(in crate::history) fn live(&self, now: u32) -> LiveFilter<'_> {
        let max_entries = self.options.max_entries;
        let max_age = self.options.max_age_seconds;
        let forgotten = self.forgotten().and(Forgotten {
            first_sequence: max_entries.map_or(0, |max| self.next_sequence.saturating_sub(max)),
            first_time: max_age.map_or(0, |age| now.saturating_sub(age)),
        });
        LiveFilter {
            first_sequence: forgotten.first_sequence,
            end_sequence: u64::MAX,
            first_time: forgotten.first_time,
            removed: &self.removed,
        }
    }

    /// The present: the time of the log, or that of the clock; it never goes back.
    pub(in crate::history) fn now(&self) -> u32 {
        let now = self.log_time.unwrap_or_else(self.options.clock);
        now.max(self.last_time)
    }

    /// The entries that are neither removed nor forgotten.
    pub(in crate::history) fn live_now(&self) -> LiveFilter<'_> {
        self.live(self.now())
    }

    /// Continues with the next journal and memtable; the full memtable is written to a segment.
    pub(in crate::history) fn rotate_journal(&mut self) -> Result<()> {
        let first_sequence = self.next_sequence;
        let writer = self.writer()?;
        let number = writer.journal_number + 1;
        let prepared = writer
            .next_journal
            .take()
            .and_then(|next| next.take(first_sequence));
        let (mut journal, memtable) = match prepared {
            Some(prepared) => prepared,
            None => {
                let journal = writer.journals.create(number, first_sequence)?;
                (journal, Memtable::default())
            }
        };
        journal.follow(&writer.journal);
        let full = std::mem::replace(&mut writer.journal, journal);
        writer.journal_number = number;
        self.flush_memtable(number - 1, Some(full), memtable);
        Ok(())
    }

    /// Starts to prepare the next journal once three quarters of the current one are used.
    pub(in crate::history) fn prepare_next_journal(&mut self) {
        let limit = self.memtable_limit();
        let count = self.memtable.count();
        let first_sequence = self.next_sequence + u64::from(limit - count.min(limit));
        if let Some(writer) = &mut self.writer
            && writer.next_journal.is_none()
            && count >= limit - limit / 4
        {
            writer.next_journal = Some(NextJournal::start(
                writer.journals.clone(),
                writer.journal_number + 1,
                first_sequence,
                (limit, self.memtable.keys().cloned()),
            ));
        }
    }

    /// The number of entries in a full memtable.
    pub(in crate::history) fn memtable_limit(&self) -> u32 {
        self.options.memtable_entries.clamp(1, MAX_MEMTABLE_ENTRIES)
    }

    /// Starts to write the memtable to a segment, and continues with another one. All entries are
    /// in the journal with this number.
    pub(in crate::history) fn flush_memtable(
        &mut self,
        journal_number: u64,
        journal: Option<Journal>,
        next: Memtable,
    ) {
        let memtable = Arc::new(std::mem::replace(&mut self.memtable, next));
        self.flushing.push(memtable.clone());
        self.submit_flush(JobInputs::Memtable(memtable, journal_number), journal);
    }

    /// Gives a memtable to the flush worker.
    pub(in crate::history) fn submit_flush(&mut self, inputs: JobInputs, journal: Option<Journal>) {
        let drop_filter = self.drop_filter();
        let path = self.next_segment_path();
        if let Some(writer) = &mut self.writer {
            writer.flush_worker.submit(SegmentJob {
                inputs,
                journal,
                level: 0,
                path,
                drop_filter,
            });
        }
    }

    pub(in crate::history) fn next_segment_path(&mut self) -> PathBuf {
        self.manifest.next_segment += 1;
        segment_path(&self.directory, self.manifest.next_segment - 1)
    }

    /// The entries that a segment written now need not contain.
    pub(in crate::history) fn drop_filter(&self) -> DropFilter {
        let live = self.live_now();
        DropFilter {
            first_sequence: live.first_sequence,
            first_time: live.first_time,
            removed: self.removed.clone(),
        }
    }
}

/// The cardinalities that a history with this manifest keeps.
pub(in crate::history) fn cardinalities_of(manifest: &HistoryManifest) -> CardinalityRange {
    let buckets = manifest.buckets.as_deref();
    buckets
        .and_then(|buckets| buckets.parse().ok())
        .unwrap_or(CardinalityRange::ALL)
}

fn count_live(source: &dyn EntrySource, live: &LiveFilter<'_>) -> Result<u64> {
    let mut count = 0;
    for entry in 0..source.count() {
        count += u64::from(live.contains(source.sequence(entry)?, source.time(entry)?));
    }
    Ok(count)
}

impl SegmentState {
    pub(in crate::history) fn is_mostly_removed(&self) -> bool {
        self.removed > self.segment.count() / 2
    }
}
