//! Segments made of others, on a thread of their own.

use super::{
    build::{build, build_file},
    search::Live,
    segment::{Entries, Segment},
};
use crate::{
    error::{Error, Result},
    format::sync_files,
};
use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

/// What is to be made.
pub struct Job {
    /// The oldest first.
    pub inputs: Vec<Arc<Segment>>,
    pub level: u32,
    /// A file, and what of the entries is to be dropped; else all are kept, in memory.
    pub file: Option<(PathBuf, Dropped)>,
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
    pub inputs: Vec<Arc<Segment>>,
    pub removed: HashSet<u64>,
    /// None if all entries were dropped.
    pub made: Result<Option<Segment>>,
}

/// Does one job after the other.
pub struct Worker {
    jobs: Option<Sender<Job>>,
    done: Mutex<Receiver<Done>>,
    pub pending: usize,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Worker {
    pub fn start() -> Result<Self> {
        let (jobs, received) = mpsc::channel::<Job>();
        let (send, done) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let body = move || {
            for job in received {
                if stopped.load(Ordering::Relaxed) || send.send(job.run(&stopped)).is_err() {
                    break;
                }
            }
        };
        let thread = thread::Builder::new().spawn(body).map_err(|error| Error::io("a thread", error))?;
        Ok(Self { jobs: Some(jobs), done: Mutex::new(done), pending: 0, stop, thread: Some(thread) })
    }

    pub fn submit(&mut self, job: Job) {
        if self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok()) {
            self.pending += 1;
        }
    }

    /// A job that is done; if `wait`, and there is one under way, waits for it.
    pub fn take(&mut self, wait: bool) -> Option<Done> {
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        let done = if wait && self.pending > 0 { done.recv().ok() } else { done.try_recv().ok() };
        self.pending -= usize::from(done.is_some());
        done
    }
}

/// What is under way is given up: its files are swept by the next who writes.
impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.jobs.take());
        self.thread.take().map(thread::JoinHandle::join);
    }
}

impl Job {
    fn run(self, stop: &AtomicBool) -> Done {
        let sources: Vec<&dyn Entries> = self.inputs.iter().map(|segment| &**segment as &dyn Entries).collect();
        let (made, removed) = match self.file {
            None => (build(&sources, &|_, _| true, self.level, stop), HashSet::new()),
            Some((path, Dropped { first_sequence, first_time, removed })) => {
                let live = Live { first_sequence, first_time, removed: &removed };
                let made = build_file(&sources, &|sequence, time| live.has(sequence, time), self.level, &path, stop);
                let is_made = matches!(made, Ok(Some(_)));
                let synced = if is_made {
                    path.parent().map_or(Ok(()), |directory| sync_files(directory, std::slice::from_ref(&path)))
                } else {
                    Ok(())
                };
                (synced.and(made), removed)
            }
        };
        Done { inputs: self.inputs, removed, made }
    }
}
