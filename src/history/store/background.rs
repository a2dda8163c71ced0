//! What is done beside the answers: files made of what is in memory and of other files, and commits.

use super::{
    journal::Journal,
    manifest::HistoryManifest,
    memtable::Memtable,
    segment::{EntrySource, Segment},
    segment_writer::write_segment,
    throttle::rest_unless,
};
use crate::base::{
    error::{Error, Result},
    files::durable,
};
use crate::history::search::searcher::LiveFilter;
use std::{
    collections::HashSet,
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender, TryRecvError},
    },
    thread,
};

/// A segment that is to be made.
pub struct SegmentJob {
    pub inputs: JobInputs,
    /// Of what is in memory, its journal: all of it is on disk before the file is made.
    pub journal: Option<Journal>,
    pub level: u32,
    pub path: PathBuf,
    pub dropped: DropFilter,
}

/// What a segment is made of.
pub enum JobInputs {
    /// With the number of its journal.
    Memtable(Arc<Memtable>, u64),
    /// The oldest first.
    Segments(Vec<Arc<Segment>>),
}

/// What is dropped on the way.
#[derive(Debug, Clone, Default)]
pub struct DropFilter {
    pub first_sequence: u64,
    pub first_time: u32,
    pub removed: Arc<HashSet<u64>>,
}

/// What became of it.
pub struct SegmentJobResult {
    pub inputs: JobInputs,
    /// Of what was removed, what is in none of the inputs' successors.
    pub dropped: Vec<u64>,
    /// Whether the journal of what is in memory is on disk.
    pub synced: Result<()>,
    /// None if all entries were dropped.
    pub made: Result<Option<Segment>>,
}

/// Something that a thread does.
pub trait BackgroundJob: Send + 'static {
    type SegmentJobResult: Send + 'static;
    /// May give up when it is told to stop.
    fn run(self, stop: &AtomicBool) -> Self::SegmentJobResult;
}

/// Does one job after the other, with less of a claim to the processor than those who answer.
pub struct BackgroundWorker<W: BackgroundJob> {
    jobs: Option<Sender<W>>,
    done: Mutex<Receiver<W::SegmentJobResult>>,
    pub pending: usize,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

/// How much less: the highest is 19.
const NICE: i32 = 10;

impl<W: BackgroundJob> BackgroundWorker<W> {
    /// With `hurry`, it also rests from its work, unless that is set.
    pub fn start(hurry: Option<Arc<AtomicBool>>) -> Result<Self> {
        let (jobs, received) = mpsc::channel::<W>();
        let (send, done) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let body = move || {
            // SAFETY: a call without pointers; on Linux it is for this thread alone. If it fails, all is a little slower.
            #[cfg(target_os = "linux")]
            unsafe {
                libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
            }
            hurry.into_iter().for_each(rest_unless);
            for job in received {
                if stopped.load(Ordering::Relaxed) || send.send(job.run(&stopped)).is_err() {
                    break;
                }
            }
        };
        let thread = thread::Builder::new()
            .spawn(body)
            .map_err(|error| Error::io("a thread", error))?;
        Ok(Self {
            jobs: Some(jobs),
            done: Mutex::new(done),
            pending: 0,
            stop,
            thread: Some(thread),
        })
    }

    pub fn submit(&mut self, job: W) {
        // If the thread died, who takes what is done is told.
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(job));
        self.pending += 1;
    }

    /// A job that is done; if `wait`, and there is one under way, waits for it.
    pub fn take(&mut self, wait: bool) -> Result<Option<W::SegmentJobResult>> {
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
                "a thread that makes the files of the history died; start the program again"
                    .to_owned(),
            )),
        }
    }

    /// What is under way is given up as soon as may be.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What is under way is given up: its files are swept by the next who writes.
impl<W: BackgroundJob> Drop for BackgroundWorker<W> {
    fn drop(&mut self) {
        Self::stop(self);
        drop(self.jobs.take());
        self.thread.take().map(thread::JoinHandle::join);
    }
}

impl BackgroundJob for SegmentJob {
    type SegmentJobResult = SegmentJobResult;

    fn run(self, stop: &AtomicBool) -> SegmentJobResult {
        let Self {
            inputs,
            journal,
            level,
            path,
            dropped:
                DropFilter {
                    first_sequence,
                    first_time,
                    removed,
                },
        } = self;
        let live = LiveFilter {
            first_sequence,
            end_sequence: u64::MAX,
            first_time,
            removed: &removed,
        };
        let sources: Vec<&dyn EntrySource> = match &inputs {
            JobInputs::Memtable(memtable, _) => vec![&**memtable],
            JobInputs::Segments(segments) => segments
                .iter()
                .map(|segment| &**segment as &dyn EntrySource)
                .collect(),
        };
        let synced = journal.map_or(Ok(()), |journal| journal.finish());
        let make = || {
            let made = write_segment(
                &sources,
                &|sequence, time| live.has(sequence, time),
                level,
                &path,
                stop,
            )?;
            if let (Some(segment), Some(directory)) = (&made, path.parent())
                && !stop.load(Ordering::Relaxed)
            {
                durable::sync_files(directory, std::slice::from_ref(&path))?;
                segment.warm_up()?;
            }
            Ok(made)
        };
        let made = make();
        if made.is_err() {
            // Half a file is of no use, and takes what room there is. If it stays, the next writer sweeps it.
            let _ = fs::remove_file(&path);
        }
        let dropped = removed
            .iter()
            .copied()
            .filter(|&sequence| inputs.has(sequence))
            .collect();
        SegmentJobResult {
            inputs,
            dropped,
            synced,
            made,
        }
    }
}

impl JobInputs {
    /// Whether an entry is, or was, among them.
    fn has(&self, sequence: u64) -> bool {
        match self {
            Self::Memtable(memtable, _) => memtable.last().is_some_and(|(last, _)| {
                (last + 1 - u64::from(memtable.count())..=last).contains(&sequence)
            }),
            Self::Segments(segments) => segments.iter().any(|segment| {
                (segment.description.sequences[0]..=segment.description.sequences[1])
                    .contains(&sequence)
            }),
        }
    }
}

/// A commit, and the files that are of no use after it. Who has them open can go on.
pub struct CommitJob {
    pub manifest: HistoryManifest,
    /// Those of the manifest, which are put in order here.
    pub removed: Arc<HashSet<u64>>,
    pub directory: PathBuf,
    pub obsolete: Vec<PathBuf>,
    /// What was made of these files: to let go of so much memory takes a while, too.
    pub inputs: Option<JobInputs>,
}

/// Whether it is done, and what could not be removed.
pub struct CommitResult {
    pub done: Result<()>,
    pub obsolete: Vec<PathBuf>,
}

impl BackgroundJob for CommitJob {
    type SegmentJobResult = CommitResult;

    fn run(mut self, _: &AtomicBool) -> CommitResult {
        drop(self.inputs);
        self.manifest.removed = self.removed.iter().copied().collect();
        drop(self.removed);
        self.manifest.removed.sort_unstable();
        let mut done = self.manifest.commit(&self.directory);
        if done.is_ok() {
            self.obsolete.retain(|path| match fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    done = Err(Error::io(path.display(), error));
                    true
                }
                _ => false,
            });
        }
        CommitResult {
            done,
            obsolete: self.obsolete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Dies;

    impl BackgroundJob for Dies {
        type SegmentJobResult = ();

        fn run(self, _: &AtomicBool) {
            panic!("on purpose");
        }
    }

    /// What waits for it would grow for ever.
    #[test]
    fn a_thread_that_died_is_an_error() {
        let mut worker = BackgroundWorker::<Dies>::start(None).unwrap();
        assert!(worker.take(true).unwrap().is_none());
        worker.submit(Dies);
        assert!(worker.take(true).is_err());
        worker.submit(Dies);
        assert!(worker.take(false).is_err());
    }
}
