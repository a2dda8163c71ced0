//! The history as its users see it.

use super::{
    build::build,
    journal::{Journal, Line, SyncEvery},
    likeness::{At, Best, Found, Likeness, Ratio},
    manifest::{Manifest, SegmentFile, journal_path, segment_path},
    merge::{Done, Dropped, Job, Worker},
    search::{Live, Query, Scratch, scan, search},
    segment::{Entries, Segment, Shape, Store},
    tail::{Added, Tail},
};
use crate::{
    error::{Error, Result},
    format::{PRINT_BYTES, Print},
    index::{FileSeal, WriteLock},
    scheme::PrintScheme,
};
use std::{
    borrow::Cow,
    collections::HashSet,
    fs,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

/// Entries of a tail, before it becomes a segment.
pub(super) const TAIL_ENTRIES: usize = 2048;
/// Segments in memory that become one.
const MEMORY_FAN: usize = 4;
/// Entries of a journal, and of the first file that holds them: so a journal's entries are all in a file, or none is.
pub(super) const JOURNAL_ENTRIES: u64 = (TAIL_ENTRIES * MEMORY_FAN * MEMORY_FAN * MEMORY_FAN) as u64;
/// The level of the first files.
const FILE_LEVEL: u32 = 3;
/// Files of a level that become one.
const FILE_FAN: usize = 4;
/// Journals whose entries may wait for their file; and files that may wait to be merged.
const MOST_WAITING: usize = 3;
const MOST_FILES: usize = 40;
/// Requests that are answered together.
const BATCH: usize = 1024;
/// Below so many a thread is not worth its start.
const ALONE: usize = 16;

/// How a history is used.
#[derive(Debug, Clone)]
pub struct Options {
    /// What its prints must be made with; a new one is made with it. None: as it is, or words.
    pub scheme: Option<PrintScheme>,
    pub threads: usize,
    pub sync: SyncEvery,
    /// Entries that are older are forgotten.
    pub max_age_seconds: Option<u32>,
    /// Only the newest so many entries are remembered.
    pub max_entries: Option<u64>,
    /// Nothing is added or removed, no lock is taken, and the history must be there.
    pub read_only: bool,
    /// Seconds since 1970.
    pub clock: fn() -> u32,
}

impl Default for Options {
    fn default() -> Self {
        let (scheme, max_age_seconds, max_entries) = (None, None, None);
        Self { scheme, threads: 1, sync: SyncEvery::Never, max_age_seconds, max_entries, read_only: false, clock: system_clock }
    }
}

fn system_clock() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32)
}

/// Something is asked about a document.
#[derive(Debug, Clone, Copy)]
pub struct Request<'r> {
    pub id: &'r str,
    /// None for a document without tokens: it is like nothing, and not added.
    pub print: Option<Print>,
    /// Whether the document is added, so that later requests see it.
    pub add: bool,
}

/// What is wanted of each request.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub least: Ratio,
    /// The best so many.
    pub top: usize,
}

/// The best matches, the best first; of equals the one that came first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    pub matches: Vec<Match>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    pub id: String,
    pub likeness: Likeness,
}

/// Prints of all documents that came. See [`super`].
pub struct History {
    pub(super) directory: PathBuf,
    pub(super) options: Options,
    pub(super) manifest: Manifest,
    pub(super) scheme: PrintScheme,
    /// By sequence number.
    pub(super) segments: Vec<Held>,
    pub(super) tail: Tail,
    pub(super) removed: HashSet<u64>,
    pub(super) next_sequence: u64,
    pub(super) last_time: u32,
    /// None if it is only read.
    pub(super) writing: Option<Writing>,
}

/// A segment, and whether it is being made into another.
pub(super) struct Held {
    pub segment: Arc<Segment>,
    pub is_busy: bool,
}

/// What a writer has.
pub(super) struct Writing {
    pub journal: Journal,
    pub journal_number: u64,
    /// How many entries were added to the journal.
    pub journal_entries: u64,
    /// For segments in memory and first files, which others wait for; and for larger files.
    pub small: Worker,
    pub large: Worker,
    pub lock: WriteLock,
}

impl History {
    pub fn scheme(&self) -> &PrintScheme {
        &self.scheme
    }

    /// How many entries there are, those included that were removed or forgotten and not yet dropped.
    pub fn entries(&self) -> u64 {
        self.segments.iter().map(|held| u64::from(held.segment.count())).sum::<u64>() + self.tail.entries.len() as u64
    }

    /// Answers requests in their order: each sees all that were added before it, those of the same batch included.
    pub fn ask(&mut self, requests: &[Request<'_>], wanted: &Wanted) -> Result<Vec<Answer>> {
        let mut answers = Vec::with_capacity(requests.len());
        for batch in requests.chunks(BATCH) {
            self.settle(false)?;
            let now = (self.options.clock)().max(self.last_time);
            let found = self.search(batch, wanted, now)?;
            for found in &found {
                answers.push(self.answer(batch, found)?);
            }
            self.add(batch, now)?;
        }
        if self.options.sync == SyncEvery::Each {
            self.sync()?;
        }
        Ok(answers)
    }

    /// Returns when all that was added and removed is on disk.
    pub fn sync(&mut self) -> Result<()> {
        self.writing.as_ref().map_or(Ok(()), |writing| writing.journal.sync())
    }

    /// Removes all entries that have this id, and says how many they were.
    pub fn remove(&mut self, id: &str) -> Result<u64> {
        self.settle(false)?;
        let now = (self.options.clock)().max(self.last_time);
        let mut sequences = Vec::new();
        for Held { segment, .. } in &self.segments {
            for entry in segment.with_id(id)? {
                sequences.push((segment.sequence(entry)?, segment.time(entry)?));
            }
        }
        let tail = self.tail.entries.iter().filter(|added| &*added.id == id);
        sequences.extend(tail.map(|added| (added.sequence, added.time)));
        let live = self.live(now);
        sequences.retain(|&(sequence, time)| live.has(sequence, time));
        let lines: Vec<Line> = sequences.iter().map(|&(sequence, _)| Line::Remove(sequence)).collect();
        self.writing()?.journal.append(&lines)?;
        self.removed.extend(sequences.iter().map(|&(sequence, _)| sequence));
        if self.options.sync == SyncEvery::Each {
            self.sync()?;
        }
        Ok(lines.len() as u64)
    }

    /// Finishes what threads have under way, and makes sure that all is on disk. Without it, and after an error, nothing is lost that was promised.
    pub fn close(mut self) -> Result<()> {
        self.settle(true)?;
        let Some(mut writing) = self.writing.take() else { return Ok(()) };
        writing.journal.finish()?;
        drop((writing.small, writing.large, writing.journal));
        writing.lock.release(&self.directory)
    }

    pub(super) fn writing(&mut self) -> Result<&mut Writing> {
        self.writing.as_mut().ok_or_else(|| Error::Usage("the history was opened to be read only".to_owned()))
    }

    /// What is neither removed nor forgotten.
    fn live(&self, now: u32) -> Live<'_> {
        let first_sequence = self.options.max_entries.map_or(0, |most| self.next_sequence.saturating_sub(most));
        let first_time = self.options.max_age_seconds.map_or(0, |age| now.saturating_sub(age));
        Live { first_sequence, first_time, removed: &self.removed }
    }

    /// The best of each request, in the state before the batch and among the requests before it.
    fn search(&self, batch: &[Request<'_>], wanted: &Wanted, now: u32) -> Result<Vec<Vec<Found>>> {
        let added = InBatch::new(batch, self.next_sequence);
        let one = |at: usize, scratch: &mut Scratch| {
            let Some(print) = batch[at].print else { return Ok(Vec::new()) };
            self.best(print, wanted, now, added.before(at), scratch)
        };
        let threads = self.options.threads.min(batch.len() / ALONE).max(1);
        if threads == 1 {
            let mut scratch = Scratch::default();
            return (0..batch.len()).map(|at| one(at, &mut scratch)).collect();
        }
        let piece = batch.len().div_ceil(threads);
        thread::scope(|scope| {
            let starts = (0..batch.len()).step_by(piece);
            let work = |start: usize| {
                let mut scratch = Scratch::default();
                (start..batch.len().min(start + piece)).map(|at| one(at, &mut scratch)).collect::<Result<Vec<_>>>()
            };
            let (first, rest) = (0, starts.skip(1));
            let handles: Vec<_> = rest.map(|start| scope.spawn(move || work(start))).collect();
            let mut all = work(first)?;
            for handle in handles {
                all.extend(handle.join().map_err(|_| Error::Usage("a thread of the search died".to_owned()))??);
            }
            Ok(all)
        })
    }

    fn best(&self, print: Print, wanted: &Wanted, now: u32, before: InBatch<'_>, scratch: &mut Scratch) -> Result<Vec<Found>> {
        let (query, mut best) = (Query::new(print), Best::new(wanted.least, wanted.top));
        // What this request finds is as if those before it were added already.
        let mut live = self.live(now);
        if self.options.max_entries.is_some() {
            live.first_sequence =
                (self.next_sequence + before.at.len() as u64).saturating_sub(self.options.max_entries.unwrap_or(u64::MAX));
        }
        for (number, held) in self.segments.iter().enumerate() {
            let shape = &held.segment.shape;
            if shape.sequences[1] >= live.first_sequence && shape.times[1] >= live.first_time {
                search(&held.segment, number, &query, &live, &mut best, scratch)?;
            }
        }
        self.tail.search(&query, &live, &mut best)?;
        before.search(&query, live.first_sequence, &mut best)?;
        Ok(best.found().to_vec())
    }

    fn answer(&self, batch: &[Request<'_>], found: &[Found]) -> Result<Answer> {
        let id = |found: &Found| match found.at {
            At::Segment(number, entry) => self.segments[number].segment.id(entry).map(str::to_owned),
            At::Tail(number) => Ok(self.tail.entries[number].id.to_string()),
            At::Batch(number) => Ok(batch[number].id.to_owned()),
        };
        let matches = found.iter().map(|found| Ok(Match { id: id(found)?, likeness: found.likeness })).collect::<Result<Vec<_>>>()?;
        Ok(Answer { matches })
    }

    /// Adds those that are to be added, to the journal first.
    fn add(&mut self, batch: &[Request<'_>], now: u32) -> Result<()> {
        let mut lines = Vec::new();
        for request in batch.iter().filter(|request| request.add) {
            if let Some(print) = request.print {
                let sequence = self.next_sequence + lines.len() as u64;
                lines.push(Line::Add(Added { print, sequence, time: now, id: request.id.into() }));
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        self.last_time = now;
        let mut lines = &lines[..];
        // A journal has just so many entries: the batch may be for two.
        while !lines.is_empty() {
            let room = (JOURNAL_ENTRIES - self.writing()?.journal_entries) as usize;
            let (now, later) = lines.split_at(room.min(lines.len()));
            self.writing()?.journal.append(now)?;
            self.writing()?.journal_entries += now.len() as u64;
            for line in now {
                self.take(line.clone())?;
            }
            if now.len() == room {
                self.next_journal()?;
            }
            lines = later;
        }
        Ok(())
    }

    /// Takes a line of the journal into memory.
    pub(super) fn take(&mut self, line: Line) -> Result<()> {
        match line {
            Line::Remove(sequence) => {
                self.removed.insert(sequence);
            }
            Line::Add(added) => {
                self.next_sequence = added.sequence + 1;
                self.last_time = self.last_time.max(added.time);
                self.tail.push(added);
                if self.tail.entries.len() == TAIL_ENTRIES {
                    let tail = std::mem::take(&mut self.tail);
                    if let Some(segment) = build(&[&tail], &|_, _| true, 0, &AtomicBool::new(false))? {
                        self.segments.push(Held { segment: Arc::new(segment), is_busy: false });
                    }
                    self.plan()?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn next_journal(&mut self) -> Result<()> {
        let (directory, every, first) = (self.directory.clone(), self.options.sync, self.next_sequence);
        let writing = self.writing()?;
        writing.journal.finish()?;
        let number = writing.journal_number + 1;
        writing.journal = Journal::create(&journal_path(&directory, number), first, every)?;
        (writing.journal_number, writing.journal_entries) = (number, 0);
        Ok(())
    }

    /// Has segments of one level made into one of the next.
    pub(super) fn plan(&mut self) -> Result<()> {
        let now = (self.options.clock)().max(self.last_time);
        let live = self.live(now);
        let dropped = Dropped { first_sequence: live.first_sequence, first_time: live.first_time, removed: live.removed.clone() };
        let Some(writing) = &mut self.writing else { return Ok(()) };
        while let Some(run) = next_run(&self.segments) {
            let level = self.segments[run.start].segment.level + 1;
            let inputs = self.segments[run.clone()].iter().map(|held| held.segment.clone()).collect();
            self.segments[run].iter_mut().for_each(|held| held.is_busy = true);
            let file = (level >= FILE_LEVEL).then(|| {
                let path = segment_path(&self.directory, self.manifest.next_segment);
                self.manifest.next_segment += 1;
                (path, dropped.clone())
            });
            let worker = if level > FILE_LEVEL { &mut writing.large } else { &mut writing.small };
            worker.submit(Job { inputs, level, file });
        }
        Ok(())
    }

    /// Takes over what threads have made; if `all`, waits until there is nothing left to do.
    pub(super) fn settle(&mut self, all: bool) -> Result<()> {
        loop {
            let in_memory =
                self.segments.iter().filter(|held| !held.segment.is_file()).map(|held| u64::from(held.segment.count())).sum::<u64>();
            let files = self.segments.iter().filter(|held| held.segment.is_file()).count();
            let is_behind = in_memory > MOST_WAITING as u64 * JOURNAL_ENTRIES;
            let Some(writing) = &mut self.writing else { return Ok(()) };
            let done = writing.small.take(all || is_behind);
            let Some(done) = done.or_else(|| writing.large.take(all || files > MOST_FILES)) else { return Ok(()) };
            self.install(done)?;
            self.forget()?;
            self.plan()?;
        }
    }

    /// Puts a segment in the place of those it was made of; if it is a file, that is a commit.
    fn install(&mut self, done: Done) -> Result<()> {
        let made = done.made?;
        let is_input = |held: &Held| done.inputs.iter().any(|input| Arc::ptr_eq(input, &held.segment));
        let Some(at) = self.segments.iter().position(is_input) else { return Ok(()) };
        let was_in_memory = !self.segments[at].segment.is_file();
        let is_commit = !was_in_memory || made.as_ref().is_none_or(Segment::is_file);
        self.segments.retain(|held| !is_input(held));
        if let Some(segment) = made {
            self.segments.insert(at, Held { segment: Arc::new(segment), is_busy: false });
        }
        if !is_commit {
            return Ok(());
        }
        let is_dropped = |sequence: u64| done.removed.contains(&sequence) && done.inputs.iter().any(|input| is_within(sequence, input));
        self.removed.retain(|&sequence| !is_dropped(sequence));
        let journal = was_in_memory.then(|| journal_path(&self.directory, self.manifest.journal));
        self.manifest.journal += u64::from(was_in_memory);
        self.commit()?;
        self.remove_files(done.inputs.iter().filter_map(|input| input.path()).chain(journal))
    }

    /// Commits the files that are in use, and removes the others.
    pub(super) fn commit(&mut self) -> Result<()> {
        let mut segments = Vec::new();
        for Held { segment, .. } in &self.segments {
            if let Store::File(file) = &segment.store {
                let name = file.name().rsplit('/').next().unwrap_or_default().to_owned();
                segments.push(SegmentFile { level: segment.level, file: FileSeal { name, bytes: file.file_bytes(), seal: file.seal() } });
            }
        }
        self.manifest.segments = segments;
        self.manifest.removed = self.removed.iter().copied().collect();
        self.manifest.removed.sort_unstable();
        self.manifest.commit(&self.directory)
    }

    /// Removes files that no manifest names any more. Who has them open can go on.
    fn remove_files(&self, names: impl Iterator<Item = PathBuf>) -> Result<()> {
        for path in names {
            fs::remove_file(&path).map_err(|error| Error::io(path.display(), error))?;
        }
        Ok(())
    }

    /// Drops files of which nothing is left, and has those rewritten of which less than half is.
    fn forget(&mut self) -> Result<()> {
        let live = self.live((self.options.clock)().max(self.last_time));
        let (first_sequence, first_time) = (live.first_sequence, live.first_time);
        if (first_sequence, first_time) == (0, 0) {
            return Ok(());
        }
        let dropped = Dropped { first_sequence, first_time, removed: live.removed.clone() };
        let is_gone = |held: &Held| {
            let Shape { sequences, times, .. } = &held.segment.shape;
            held.segment.is_file() && !held.is_busy && (sequences[1] < first_sequence || times[1] < first_time)
        };
        let gone: Vec<_> = self.segments.extract_if(.., |held| is_gone(held)).collect();
        let Some(writing) = &mut self.writing else { return Ok(()) };
        for held in
            self.segments.iter_mut().filter(|held| held.segment.is_file() && !held.is_busy && is_mostly_dead(&held.segment, &dropped))
        {
            held.is_busy = true;
            let path = segment_path(&self.directory, self.manifest.next_segment);
            self.manifest.next_segment += 1;
            writing.large.submit(Job {
                inputs: vec![held.segment.clone()],
                level: held.segment.level,
                file: Some((path, dropped.clone())),
            });
        }
        if gone.is_empty() {
            return Ok(());
        }
        self.removed.retain(|&sequence| gone.iter().all(|held| !is_within(sequence, &held.segment)));
        self.commit()?;
        self.remove_files(gone.iter().filter_map(|held| held.segment.path()))
    }
}

/// Those of a batch that are to be added.
#[derive(Clone)]
struct InBatch<'b> {
    /// Where in the batch.
    at: Cow<'b, [usize]>,
    prints: Cow<'b, [u8]>,
    first_sequence: u64,
}

impl<'b> InBatch<'b> {
    fn new(batch: &[Request<'_>], first_sequence: u64) -> Self {
        let added = batch.iter().enumerate().filter(|(_, request)| request.add).filter_map(|(at, request)| Some((at, request.print?)));
        let (at, prints): (Vec<_>, Vec<_>) = added.map(|(at, print)| (at, print.to_bytes())).unzip();
        Self { at: at.into(), prints: prints.concat().into(), first_sequence }
    }

    /// Those before a request.
    fn before(&'b self, at: usize) -> Self {
        let count = self.at.partition_point(|&other| other < at);
        Self { at: self.at[..count].into(), prints: self.prints[..PRINT_BYTES * count].into(), first_sequence: self.first_sequence }
    }

    fn search(&self, query: &Query, first_live: u64, best: &mut Best) -> Result<()> {
        if best.is_full_of_equals() {
            return Ok(());
        }
        scan(&self.prints, &query.print, best.limit().reach(query.cardinality), &mut |number, distance| {
            let (sequence, print) = (self.first_sequence + number as u64, &self.prints[PRINT_BYTES * number..][..PRINT_BYTES]);
            let cardinality: u32 = print.iter().map(|byte| byte.count_ones()).sum();
            let likeness = Likeness::new(query.cardinality + cardinality, distance);
            if sequence >= first_live {
                best.offer(Found { likeness, sequence, at: At::Batch(self.at[number]) });
            }
            Ok(best.limit().reach(query.cardinality))
        })
    }
}

/// Whether an entry is, or was, in a segment.
fn is_within(sequence: u64, segment: &Segment) -> bool {
    let [first, last] = segment.shape.sequences;
    (first..=last).contains(&sequence)
}

/// Whether more than half of a segment is forgotten, as far as its first and last entry tell.
fn is_mostly_dead(segment: &Segment, dropped: &Dropped) -> bool {
    let Shape { sequences, times, .. } = &segment.shape;
    let half = |first: u64, last: u64| first + (last - first).div_ceil(2);
    dropped.first_sequence > half(sequences[0], sequences[1])
        || u64::from(dropped.first_time) > half(u64::from(times[0]), u64::from(times[1]))
}

/// Segments beside one another that are of one level, as many as are made into one.
fn next_run(segments: &[Held]) -> Option<std::ops::Range<usize>> {
    let mut start = 0;
    for at in 0..segments.len() {
        let level = |held: &Held| (!held.is_busy).then_some(held.segment.level);
        if level(&segments[at]).is_none() {
            start = at + 1;
            continue;
        }
        if level(&segments[at]) != level(&segments[start]) {
            start = at;
        }
        let fan = if segments[at].segment.level < FILE_LEVEL { MEMORY_FAN } else { FILE_FAN };
        if at + 1 - start == fan {
            return Some(start..at + 1);
        }
    }
    None
}
