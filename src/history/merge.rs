//! What is done beside the answers: files made of what is in memory and of other files, and commits.

use super::{
    build::build_file,
    journal::Journal,
    manifest::Manifest,
    search::Live,
    segment::{Entries, Segment},
    young::Young,
};
use crate::{
    error::{Error, Result},
    format::sync_files,
};
use std::{
    collections::HashSet,
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

/// A segment that is to be made.
pub struct Job {
    pub inputs: Inputs,
    /// Of what is in memory, its journal: all of it is on disk before the file is made.
    pub journal: Option<Journal>,
    pub level: u32,
    pub path: PathBuf,
    pub dropped: Dropped,
}

/// What a segment is made of.
pub enum Inputs {
    /// With the number of its journal.
    Young(Arc<Young>, u64),
    /// The oldest first.
    Segments(Vec<Arc<Segment>>),
}

/// What is dropped on the way.
#[derive(Debug, Clone, Default)]
pub struct Dropped {
    pub first_sequence: u64,
    pub first_time: u32,
    pub removed: HashSet<u64>,
}

/// What became of it.
pub struct Done {
    pub inputs: Inputs,
    pub removed: HashSet<u64>,
    /// None if all entries were dropped.
    pub made: Result<Option<Segment>>,
}

/// Something that a thread does.
pub trait Work: Send + 'static {
    type Done: Send + 'static;
    /// May give up when it is told to stop.
    fn run(self, stop: &AtomicBool) -> Self::Done;
}

/// Does one job after the other, with less of a claim to the processor than those who answer.
pub struct Worker<W: Work> {
    jobs: Option<Sender<W>>,
    done: Mutex<Receiver<W::Done>>,
    pub pending: usize,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

/// How much less: the highest is 19.
const NICE: i32 = 10;

impl<W: Work> Worker<W> {
    pub fn start() -> Result<Self> {
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
            for job in received {
                if stopped.load(Ordering::Relaxed) || send.send(job.run(&stopped)).is_err() {
                    break;
                }
            }
        };
        let thread = thread::Builder::new().spawn(body).map_err(|error| Error::io("a thread", error))?;
        Ok(Self { jobs: Some(jobs), done: Mutex::new(done), pending: 0, stop, thread: Some(thread) })
    }

    pub fn submit(&mut self, job: W) {
        if self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok()) {
            self.pending += 1;
        }
    }

    /// A job that is done; if `wait`, and there is one under way, waits for it.
    pub fn take(&mut self, wait: bool) -> Option<W::Done> {
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        let done = if wait && self.pending > 0 { done.recv().ok() } else { done.try_recv().ok() };
        self.pending -= usize::from(done.is_some());
        done
    }
}

/// What is under way is given up: its files are swept by the next who writes.
impl<W: Work> Drop for Worker<W> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.jobs.take());
        self.thread.take().map(thread::JoinHandle::join);
    }
}

impl Work for Job {
    type Done = Done;

    fn run(self, stop: &AtomicBool) -> Done {
        let Self { inputs, journal, level, path, dropped: Dropped { first_sequence, first_time, removed } } = self;
        let live = Live { first_sequence, first_time, removed: &removed };
        let sources: Vec<&dyn Entries> = match &inputs {
            Inputs::Young(young, _) => vec![&**young],
            Inputs::Segments(segments) => segments.iter().map(|segment| &**segment as &dyn Entries).collect(),
        };
        let make = || {
            journal.map_or(Ok(()), |mut journal| journal.finish())?;
            let made = build_file(&sources, &|sequence, time| live.has(sequence, time), level, &path, stop)?;
            if let (Some(segment), Some(directory)) = (&made, path.parent()) {
                sync_files(directory, std::slice::from_ref(&path))?;
                segment.warm_up()?;
            }
            Ok(made)
        };
        let made = make();
        Done { inputs, removed, made }
    }
}

/// A commit, and the files that are of no use after it. Who has them open can go on.
pub struct Commit {
    pub manifest: Manifest,
    pub directory: PathBuf,
    pub obsolete: Vec<PathBuf>,
    /// What was made of these files: to let go of so much memory takes a while, too.
    pub inputs: Option<Inputs>,
}

impl Work for Commit {
    type Done = Result<()>;

    fn run(self, _: &AtomicBool) -> Result<()> {
        drop(self.inputs);
        self.manifest.commit(&self.directory)?;
        self.obsolete.iter().try_for_each(|path| fs::remove_file(path).map_err(|error| Error::io(path.display(), error)))
    }
}
