//! Background work: writing memtables and merged segments to files, and commits.
//!
//! Each [`BackgroundWorker`] is a dedicated thread, not a task of a rayon pool: its jobs run for
//! seconds, must not take a pool thread from a search, and have a lower priority.

use super::{
    journal::Journal, manifest::HistoryManifest, memtable::Memtable, segment::Segment,
    segment_writer::write_segment, throttle::throttle_unless,
};
use crate::{
    base::{
        error::{Error, Result},
        files::durable,
    },
    history::search::searchable::{EntrySource, LiveFilter},
};
use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender, TryRecvError},
    },
    thread,
};

/// A job of a background thread.
pub trait BackgroundJob: Send + 'static {
    /// Its result.
    type Output: Send + 'static;
    /// Does the job; may give up when `stop` is set.
    fn run(self, stop: &AtomicBool) -> Self::Output;
}

/// A thread that does one job after the other, at a lower priority than searches.
pub struct BackgroundWorker<J: BackgroundJob> {
    jobs: Option<Sender<J>>,
    done: Mutex<Receiver<J::Output>>,
    /// The number of jobs whose result was not taken yet.
    pub pending: usize,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

/// The niceness of background threads; the highest is 19.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

impl<J: BackgroundJob> BackgroundWorker<J> {
    /// With `is_urgent`, the thread is throttled unless that is set.
    pub fn start(is_urgent: Option<Arc<AtomicBool>>) -> Result<Self> {
        let (jobs, received) = mpsc::channel::<J>();
        let (send, done) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let body = move || {
            lower_priority();
            is_urgent.into_iter().for_each(throttle_unless);
            for job in received {
                if stopped.load(Ordering::Relaxed) || send.send(job.run(&stopped)).is_err() {
                    break;
                }
            }
        };
        let thread = thread::Builder::new()
            .spawn(body)
            .map_err(|error| Error::io("a background thread", error))?;
        Ok(Self {
            jobs: Some(jobs),
            done: Mutex::new(done),
            pending: 0,
            stop,
            thread: Some(thread),
        })
    }

    /// Queues a job.
    pub fn submit(&mut self, job: J) {
        // If the thread died, `take` returns the error.
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(job));
        self.pending += 1;
    }

    /// The result of a finished job. With `wait`, waits for one if any job is pending.
    pub fn take(&mut self, wait: bool) -> Result<Option<J::Output>> {
        if self.pending == 0 {
            return Ok(None);
        }
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        let done = if wait {
            done.recv().map_err(|_| TryRecvError::Disconnected)
        } else {
            done.try_recv()
        };
        match done {
            Ok(done) => {
                self.pending -= 1;
                Ok(Some(done))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Error::Usage(
                "a background thread of the history panicked; start the program again".to_owned(),
            )),
        }
    }

    /// Asks the running job to give up.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn lower_priority() {
    // SAFETY: a call without pointers; on Linux it applies to this thread only. Its failure makes
    // searches a little slower.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS);
    }
}

/// Abandons the running job: the next writer deletes its files.
impl<J: BackgroundJob> Drop for BackgroundWorker<J> {
    fn drop(&mut self) {
        Self::stop(self);
        drop(self.jobs.take());
        self.thread.take().map(thread::JoinHandle::join);
    }
}

/// A segment to write.
pub struct SegmentJob {
    pub inputs: JobInputs,
    /// The journal of a memtable: it is synced before the segment is written.
    pub journal: Option<Journal>,
    pub level: u32,
    pub path: PathBuf,
    pub drop_filter: DropFilter,
}

/// What a segment is made of.
pub enum JobInputs {
    /// A memtable, and the number of its journal.
    Memtable(Arc<Memtable>, u64),
    /// Segments, oldest first.
    Segments(Vec<Arc<Segment>>),
}

/// The entries that a job leaves out.
#[derive(Debug, Clone, Default)]
pub struct DropFilter {
    /// Entries with lower sequence numbers are forgotten.
    pub first_sequence: u64,
    /// Older entries are forgotten.
    pub first_time: u32,
    /// The sequence numbers of removed entries.
    pub removed: Arc<HashSet<u64>>,
}

/// The result of a [`SegmentJob`].
pub struct SegmentJobResult {
    pub inputs: JobInputs,
    /// The removed entries that no file contains any more.
    pub dropped: Vec<u64>,
    /// Whether the journal of the memtable could be synced.
    pub synced: Result<()>,
    /// The new segment; `None` if it would have no entries.
    pub segment: Result<Option<Segment>>,
}

impl BackgroundJob for SegmentJob {
    type Output = SegmentJobResult;

    fn run(mut self, stop: &AtomicBool) -> SegmentJobResult {
        let journal = self.journal.take();
        let synced = journal.map_or(Ok(()), |journal| journal.finish());
        let segment = self.write(stop);
        if segment.is_err() {
            // Half a file is useless and takes disk space. If it stays, the next writer deletes it.
            let _ = fs::remove_file(&self.path);
        }
        let Self {
            inputs,
            drop_filter,
            ..
        } = self;
        let removed = drop_filter.removed.iter().copied();
        let dropped = removed
            .filter(|&sequence| inputs.may_contain(sequence))
            .collect();
        SegmentJobResult {
            inputs,
            dropped,
            synced,
            segment,
        }
    }
}

impl SegmentJob {
    /// Writes the segment, syncs it, and loads what searches need of it.
    fn write(&self, stop: &AtomicBool) -> Result<Option<Segment>> {
        let live = LiveFilter {
            first_sequence: self.drop_filter.first_sequence,
            end_sequence: u64::MAX,
            first_time: self.drop_filter.first_time,
            removed: &self.drop_filter.removed,
        };
        let keep = |sequence, time| live.contains(sequence, time);
        let sources = self.inputs.sources();
        let segment = write_segment(&sources, &keep, self.level, &self.path, stop)?;
        if let (Some(segment), Some(directory)) = (&segment, self.path.parent())
            && !stop.load(Ordering::Relaxed)
        {
            durable::sync_files(directory, std::slice::from_ref(&self.path))?;
            segment.warm_up()?;
        }
        Ok(segment)
    }
}

impl JobInputs {
    fn sources(&self) -> Vec<&dyn EntrySource> {
        match self {
            Self::Memtable(memtable, _) => vec![&**memtable],
            Self::Segments(segments) => segments
                .iter()
                .map(|segment| &**segment as &dyn EntrySource)
                .collect(),
        }
    }

    /// Whether the sequence number of an entry is in their range.
    fn may_contain(&self, sequence: u64) -> bool {
        match self {
            Self::Memtable(memtable, _) => memtable.last().is_some_and(|(last, _)| {
                (last + 1 - u64::from(memtable.count())..=last).contains(&sequence)
            }),
            Self::Segments(segments) => {
                segments.iter().any(|segment| segment.may_contain(sequence))
            }
        }
    }
}

/// A commit, and the files that are obsolete after it. Readers that have them open can go on.
pub struct CommitJob {
    pub manifest: HistoryManifest,
    /// The removed entries for the manifest, which the job sorts.
    pub removed: Arc<HashSet<u64>>,
    pub directory: PathBuf,
    pub obsolete: Vec<PathBuf>,
    /// The inputs of the new segment, to free here: unmapping takes a while, too.
    pub inputs: Option<JobInputs>,
}

/// The result of a [`CommitJob`].
pub struct CommitResult {
    pub done: Result<()>,
    /// The files that could not be deleted.
    pub obsolete: Vec<PathBuf>,
}

impl BackgroundJob for CommitJob {
    type Output = CommitResult;

    fn run(mut self, _: &AtomicBool) -> CommitResult {
        drop(self.inputs);
        self.manifest.removed = self.removed.iter().copied().collect();
        drop(self.removed);
        self.manifest.removed.sort_unstable();
        let mut done = self.manifest.commit(&self.directory);
        if done.is_ok() {
            self.obsolete.retain(|path| match remove_if_exists(path) {
                Ok(()) => false,
                Err(error) => {
                    done = Err(Error::io(path.display(), error));
                    true
                }
            });
        }
        CommitResult {
            done,
            obsolete: self.obsolete,
        }
    }
}

fn remove_if_exists(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct PanickingJob;

    impl BackgroundJob for PanickingJob {
        type Output = ();

        fn run(self, _: &AtomicBool) {
            panic!("on purpose");
        }
    }

    /// Otherwise its queue would grow for ever.
    #[test]
    fn a_panicked_worker_is_an_error() {
        let mut worker = BackgroundWorker::<PanickingJob>::start(None).unwrap();
        assert!(worker.take(true).unwrap().is_none());
        worker.submit(PanickingJob);
        assert!(worker.take(true).is_err());
        worker.submit(PanickingJob);
        assert!(worker.take(false).is_err());
    }
}
