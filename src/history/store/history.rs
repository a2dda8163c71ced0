//! The history as its users see it.

use super::{
    background::{
        BackgroundWorker, CommitJob, DropFilter, JobInputs, SegmentJob, SegmentJobResult,
    },
    journal::{Journal, JournalDirectory, JournalLength, JournalRecord, SyncPolicy},
    manifest::{HistoryManifest, SegmentFile, journal_path, segment_path},
    memtable::{MAX_MEMTABLE_ENTRIES, Memtable},
    next_journal::NextJournal,
    retry::{JobKind, RetryQueue, count_within},
    segment::{EntrySource, Segment, SegmentDescription},
};
use crate::history::{
    search::searcher::{LiveFilter, SearchScratch, SearchableEntries},
    search_threads::SearchThreads,
};
use crate::{
    base::{
        error::{Error, Problem, Result},
        files::WriteLock,
    },
    index::FileSeal,
    text::scheme::PrintScheme,
};
use std::{
    collections::HashSet,
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Files of a level that become one. Fewer files are faster to search, but each entry is written more often.
const FILE_FAN: usize = 3;
/// From this level on it takes long to make a file: other merges do not wait for it.
const LARGE_LEVEL: u32 = 3;
/// What may wait in memory to be made into files; and files that may wait to be merged.
const MOST_WAITING: usize = 3;
const MOST_FILES: usize = 40;
/// What takes less time is not worth another thread, which may have to wait for a processor.
pub(in crate::history) const ALONE: Duration = Duration::from_micros(250);

/// How a history is used.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// What its prints must be made with; a new one is made with it. None: as it is, or words.
    pub scheme: Option<PrintScheme>,
    pub threads: usize,
    pub sync: SyncPolicy,
    /// Entries that are older are forgotten.
    pub max_age_seconds: Option<u32>,
    /// Only the newest so many entries are remembered.
    pub max_entries: Option<u64>,
    /// Nothing is added or removed, no lock is taken, and the history must be there.
    pub read_only: bool,
    /// So many new entries make a file; until then they are in memory, and in a journal of their own. At most 262,144.
    pub memtable_entries: u32,
    /// Somebody waits for each answer: files are made slowly, as long as that will do, and at the end those are given up that are just being
    /// made; the next writer makes them. Otherwise they are waited for.
    pub serves: bool,
    /// Seconds since 1970.
    pub clock: fn() -> u32,
}

impl Default for StoreOptions {
    fn default() -> Self {
        let (scheme, max_age_seconds, max_entries) = (None, None, None);
        Self {
            scheme,
            threads: 1,
            sync: SyncPolicy::Never,
            max_age_seconds,
            max_entries,
            read_only: false,
            memtable_entries: MAX_MEMTABLE_ENTRIES,
            serves: false,
            clock: system_clock,
        }
    }
}

fn system_clock() -> u32 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() as u32)
}

/// Prints of all documents that came.
pub struct History {
    pub(in crate::history) directory: PathBuf,
    pub(in crate::history) options: StoreOptions,
    pub(in crate::history) manifest: HistoryManifest,
    pub(in crate::history) scheme: PrintScheme,
    /// By sequence number.
    pub(in crate::history) segments: Vec<SegmentState>,
    /// What is being made into files, the oldest first.
    pub(in crate::history) waiting: Vec<Arc<Memtable>>,
    pub(in crate::history) memtable: Memtable,
    /// Copied when it changes while a file is made.
    pub(in crate::history) removed: Arc<HashSet<u64>>,
    pub(in crate::history) next_sequence: u64,
    pub(in crate::history) last_time: u32,
    pub(in crate::history) helpers: SearchThreads,
    /// Of threads that have searched: memory that was asked for once.
    pub(in crate::history) scratches: Mutex<Vec<SearchScratch>>,
    /// What a request took of a thread, in the last batch; at first, enough for several threads.
    pub(in crate::history) pace: Duration,
    /// The journals as they were when it was opened.
    pub(in crate::history) read_journals: Vec<JournalLength>,
    /// None if it is only read.
    pub(in crate::history) writing: Option<WriterState>,
}

/// A segment, whether it is being made into another, and how many of its entries were removed.
pub(in crate::history) struct SegmentState {
    pub segment: Arc<Segment>,
    pub is_busy: bool,
    pub removed: u32,
}

/// What a writer has.
pub(in crate::history) struct WriterState {
    pub journals: JournalDirectory,
    pub journal: Journal,
    pub journal_number: u64,
    pub next_journal: Option<NextJournal>,
    /// For first files, which others wait for; for merges; and for those that take long.
    pub small: BackgroundWorker<SegmentJob>,
    pub merges: [BackgroundWorker<SegmentJob>; 2],
    pub commits: BackgroundWorker<CommitJob>,
    /// Files cannot be made slowly any more, or too much would wait for them.
    pub hurry: Arc<AtomicBool>,
    pub upkeep: RetryQueue,
    pub lock: WriteLock,
}

impl History {
    pub fn scheme(&self) -> &PrintScheme {
        &self.scheme
    }

    /// How many entries there are, those included that were removed or forgotten and not yet dropped.
    pub fn entries(&self) -> u64 {
        let memtable = self.memtables().map(|memtable| u64::from(memtable.count()));
        self.segments
            .iter()
            .map(|held| u64::from(held.segment.count()))
            .chain(memtable)
            .sum()
    }

    /// Returns when all that was added and removed is on disk.
    pub fn sync(&mut self) -> Result<()> {
        self.writing
            .as_ref()
            .map_or(Ok(()), |writing| writing.journal.sync())
    }

    /// Removes all entries that have this id, and says how many they were.
    pub fn remove(&mut self, id: &str) -> Result<u64> {
        self.settle(false)?;
        let now = (self.options.clock)().max(self.last_time);
        let mut sequences = Vec::new();
        for SegmentState { segment, .. } in &self.segments {
            for entry in segment.with_id(id)? {
                sequences.push((segment.sequence(entry)?, segment.time(entry)?));
            }
        }
        for memtable in self.memtables() {
            for entry in memtable.with_id(id)? {
                sequences.push((memtable.sequence(entry)?, memtable.time(entry)?));
            }
        }
        let live = self.live(now);
        sequences.retain(|&(sequence, time)| live.has(sequence, time));
        let lines: Vec<JournalRecord> = sequences
            .iter()
            .map(|&(sequence, _)| JournalRecord::Remove(sequence))
            .collect();
        self.writing()?.journal.append(&lines)?;
        sequences
            .iter()
            .for_each(|&(sequence, _)| self.note_removed(sequence));
        if self
            .segments
            .iter()
            .any(|held| !held.is_busy && held.is_mostly_removed())
        {
            self.forget();
        }
        if self.options.sync == SyncPolicy::Each {
            self.sync()?;
        }
        Ok(lines.len() as u64)
    }

    /// Makes sure that all is on disk, and then finishes what threads have under way, or gives it up. Without it, and after an error,
    /// nothing is lost that was promised. Says what went wrong and is well again.
    pub fn close(mut self) -> Result<Vec<Problem>> {
        self.writing
            .as_ref()
            .map_or(Ok(()), |writing| writing.journal.finish())?;
        if self.options.serves {
            self.give_up()?;
        } else {
            self.settle(true)?;
        }
        let notes = self.notes();
        let Some(mut writing) = self.writing.take() else {
            return Ok(notes);
        };
        let ahead = writing
            .next_journal
            .take()
            .map(|_| journal_path(&self.directory, writing.journal_number + 1));
        drop((
            writing.small,
            writing.merges,
            writing.commits,
            writing.journal,
        ));
        // Nothing is in it; whether it goes or stays is all the same.
        let _ = ahead.map(fs::remove_file);
        writing.lock.release(&self.directory).map(|()| notes)
    }

    /// All that are in memory, the oldest first.
    pub(in crate::history) fn memtables(&self) -> impl Iterator<Item = &Memtable> {
        self.waiting
            .iter()
            .map(|memtable| &**memtable)
            .chain([&self.memtable])
    }

    pub(in crate::history) fn writing(&mut self) -> Result<&mut WriterState> {
        self.writing
            .as_mut()
            .ok_or_else(|| Error::Usage("the history was opened to be read only".to_owned()))
    }

    /// What is neither removed nor forgotten.
    pub(in crate::history) fn live(&self, now: u32) -> LiveFilter<'_> {
        let first_sequence = self
            .options
            .max_entries
            .map_or(0, |most| self.next_sequence.saturating_sub(most));
        let first_time = self
            .options
            .max_age_seconds
            .map_or(0, |age| now.saturating_sub(age));
        LiveFilter {
            first_sequence,
            end_sequence: u64::MAX,
            first_time,
            removed: &self.removed,
        }
    }

    /// Goes on with the next journal; what the last one has is made into a file.
    pub(in crate::history) fn next_journal(&mut self) -> Result<()> {
        let first = self.next_sequence;
        let writing = self.writing()?;
        let number = writing.journal_number + 1;
        let (mut journal, memtable) = match writing
            .next_journal
            .take()
            .and_then(|ahead| ahead.take(first))
        {
            Some(made) => made,
            None => (writing.journals.create(number, first)?, Memtable::default()),
        };
        journal.follow(&writing.journal);
        let full = std::mem::replace(&mut writing.journal, journal);
        writing.journal_number = number;
        self.flush_memtable(number - 1, Some(full), memtable);
        Ok(())
    }

    /// Has the next journal made, if it will be needed soon.
    pub(in crate::history) fn look_ahead(&mut self) {
        let (most, count) = (self.memtable_limit(), self.memtable.count());
        let first = self.next_sequence + u64::from(most - count.min(most));
        if let Some(writing) = &mut self.writing
            && writing.next_journal.is_none()
            && count >= most - most / 4
        {
            let (journals, number) = (writing.journals.clone(), writing.journal_number + 1);
            writing.next_journal = Some(NextJournal::start(
                journals,
                number,
                first,
                (most, self.memtable.keys().cloned()),
            ));
        }
    }

    /// So many new entries make a file.
    pub(in crate::history) fn memtable_limit(&self) -> u32 {
        self.options.memtable_entries.clamp(1, MAX_MEMTABLE_ENTRIES)
    }

    /// Has what is in memory made into a file, and goes on with another. All of it is in the journal with this number.
    pub(in crate::history) fn flush_memtable(
        &mut self,
        number: u64,
        journal: Option<Journal>,
        next: Memtable,
    ) {
        let memtable = Arc::new(std::mem::replace(&mut self.memtable, next));
        self.waiting.push(memtable.clone());
        let (dropped, path) = (self.dropped(), self.next_path());
        if let Some(writing) = &mut self.writing {
            writing.small.submit(SegmentJob {
                inputs: JobInputs::Memtable(memtable, number),
                journal,
                level: 0,
                path,
                dropped,
            });
        }
    }

    pub(in crate::history) fn next_path(&mut self) -> PathBuf {
        self.manifest.next_segment += 1;
        segment_path(&self.directory, self.manifest.next_segment - 1)
    }

    /// What need not be in a file that is made now.
    pub(in crate::history) fn dropped(&self) -> DropFilter {
        let live = self.live((self.options.clock)().max(self.last_time));
        DropFilter {
            first_sequence: live.first_sequence,
            first_time: live.first_time,
            removed: self.removed.clone(),
        }
    }

    /// Has segments of one level made into one of the next.
    pub(in crate::history) fn plan(&mut self) {
        while let Some(run) = next_run(&self.segments).filter(|_| self.may_try(JobKind::Merge)) {
            let level = self.segments[run.start].segment.level + 1;
            self.rewrite(run, level);
        }
    }

    /// Has segments made into one.
    fn rewrite(&mut self, run: std::ops::Range<usize>, level: u32) {
        let inputs = JobInputs::Segments(
            self.segments[run.clone()]
                .iter()
                .map(|held| held.segment.clone())
                .collect(),
        );
        self.segments[run]
            .iter_mut()
            .for_each(|held| held.is_busy = true);
        let (dropped, path) = (self.dropped(), self.next_path());
        if let Some(writing) = &mut self.writing {
            writing.merges[usize::from(level >= LARGE_LEVEL)].submit(SegmentJob {
                inputs,
                journal: None,
                level,
                path,
                dropped,
            });
        }
    }

    /// Takes over what threads have made; if `all`, waits until there is nothing left to do.
    pub(in crate::history) fn settle(&mut self, all: bool) -> Result<()> {
        loop {
            let (is_behind, files) = (self.waiting.len() > MOST_WAITING, self.segments.len());
            self.try_again(all || is_behind);
            let Some(writing) = &mut self.writing else {
                return Ok(());
            };
            writing.hurry.store(
                all || self.waiting.len() > 1 || files > MOST_FILES / 2,
                Ordering::Relaxed,
            );
            let mut done = writing.small.take(all || is_behind)?;
            for merges in &mut writing.merges {
                if done.is_none() {
                    done = merges.take(all || files > MOST_FILES)?;
                }
            }
            let Some(done) = done else { break };
            self.install(done, all, is_behind)?;
            self.forget();
            self.plan();
        }
        while let Some(writing) = &mut self.writing
            && let Some(committed) = writing.commits.take(all)?
        {
            self.note_commit(committed, all)?;
        }
        Ok(())
    }

    /// Puts a segment in the place of what it was made of, and commits.
    fn install(&mut self, done: SegmentJobResult, is_last: bool, is_behind: bool) -> Result<()> {
        let Some((inputs, made, dropped)) = self.ensure_made(done, is_last, is_behind)? else {
            return Ok(());
        };
        if !dropped.is_empty() {
            let removed = Arc::make_mut(&mut self.removed);
            for sequence in &dropped {
                removed.remove(sequence);
            }
        }
        let made = made.map(|segment| {
            let removed = count_within(&self.removed, segment.description.sequences);
            SegmentState {
                segment: Arc::new(segment),
                is_busy: false,
                removed,
            }
        });
        let obsolete = match &inputs {
            // Those in memory are made into files in their order, after all that are files already.
            JobInputs::Memtable(memtable, number) => {
                self.waiting
                    .retain(|waiting| !Arc::ptr_eq(waiting, memtable));
                self.segments.extend(made);
                let obsolete = (self.manifest.journal..=*number)
                    .map(|number| journal_path(&self.directory, number))
                    .collect();
                self.manifest.journal = number + 1;
                obsolete
            }
            JobInputs::Segments(inputs) => {
                let is_input = |held: &SegmentState| {
                    inputs.iter().any(|input| Arc::ptr_eq(input, &held.segment))
                };
                let at = self.segments.iter().position(is_input).unwrap_or_default();
                self.segments.retain(|held| !is_input(held));
                self.segments.splice(at..at, made);
                inputs.iter().map(|input| input.path()).collect()
            }
        };
        self.commit(obsolete, Some(inputs));
        Ok(())
    }

    /// Commits the files that are in use, and removes others after that.
    pub(in crate::history) fn commit(
        &mut self,
        mut obsolete: Vec<PathBuf>,
        inputs: Option<JobInputs>,
    ) {
        let file = |SegmentState { segment, .. }: &SegmentState| {
            let name = segment
                .file
                .name()
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned();
            let file = FileSeal {
                name,
                bytes: segment.file.file_bytes(),
                seal: segment.file.seal(),
            };
            SegmentFile {
                level: segment.level,
                file,
            }
        };
        self.manifest.segments = self.segments.iter().map(file).collect();
        let (manifest, removed, directory) = (
            self.manifest.clone(),
            self.removed.clone(),
            self.directory.clone(),
        );
        if let Some(writing) = &mut self.writing {
            obsolete.append(&mut writing.upkeep.take_obsolete());
            writing.commits.submit(CommitJob {
                manifest,
                removed,
                directory,
                obsolete,
                inputs,
            });
        }
    }

    /// Drops files of which nothing is left, and has those rewritten of which less than half is.
    pub(in crate::history) fn forget(&mut self) {
        let LiveFilter {
            first_sequence,
            first_time,
            ..
        } = self.live((self.options.clock)().max(self.last_time));
        if self.writing.is_none()
            || (first_sequence, first_time) == (0, 0) && self.removed.is_empty()
        {
            return;
        }
        let is_gone = |held: &mut SegmentState| {
            let SegmentDescription {
                sequences, times, ..
            } = &held.segment.description;
            !held.is_busy && (sequences[1] < first_sequence || times[1] < first_time)
        };
        let gone: Vec<_> = self.segments.extract_if(.., is_gone).collect();
        let is_dying = |held: &SegmentState| {
            !held.is_busy
                && (held.is_mostly_removed()
                    || is_mostly_dead(&held.segment, first_sequence, first_time))
        };
        while let Some(at) = self
            .segments
            .iter()
            .position(is_dying)
            .filter(|_| self.may_try(JobKind::Merge))
        {
            self.rewrite(at..at + 1, self.segments[at].segment.level);
        }
        if !gone.is_empty() {
            Arc::make_mut(&mut self.removed)
                .retain(|&sequence| gone.iter().all(|held| !is_within(sequence, &held.segment)));
            let obsolete = gone.iter().map(|held| held.segment.path()).collect();
            self.commit(
                obsolete,
                Some(JobInputs::Segments(
                    gone.into_iter().map(|held| held.segment).collect(),
                )),
            );
        }
    }
}

impl SegmentState {
    fn is_mostly_removed(&self) -> bool {
        self.removed > self.segment.count() / 2
    }
}

/// Whether an entry is, or was, in a segment.
fn is_within(sequence: u64, segment: &Segment) -> bool {
    let [first, last] = segment.description.sequences;
    (first..=last).contains(&sequence)
}

/// Whether more than half of a segment is forgotten, as far as its first and last entry tell.
fn is_mostly_dead(segment: &Segment, first_sequence: u64, first_time: u32) -> bool {
    let SegmentDescription {
        sequences, times, ..
    } = &segment.description;
    let half = |first: u64, last: u64| first + (last - first).div_ceil(2);
    first_sequence > half(sequences[0], sequences[1])
        || u64::from(first_time) > half(u64::from(times[0]), u64::from(times[1]))
}

/// Segments beside one another that are of one level, as many as are made into one.
fn next_run(segments: &[SegmentState]) -> Option<std::ops::Range<usize>> {
    let mut start = 0;
    for at in 0..segments.len() {
        let level = |held: &SegmentState| (!held.is_busy).then_some(held.segment.level);
        if level(&segments[at]).is_none() {
            start = at + 1;
            continue;
        }
        if level(&segments[at]) != level(&segments[start]) {
            start = at;
        }
        if at + 1 - start == FILE_FAN {
            return Some(start..at + 1);
        }
    }
    None
}
