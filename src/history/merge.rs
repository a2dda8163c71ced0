//! What is done beside the answers: files made of what is in memory and of other files, and commits.

use super::{
    build::build_file,
    journal::Journal,
    manifest::Manifest,
    manners::rest_unless,
    search::Live,
    segment::{Entries, Segment},
    young::Young,
};
use crate::base::{
    error::{Error, Result},
    files::durable,
};
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
    pub removed: Arc<HashSet<u64>>,
}

/// What became of it.
pub struct Done {
    pub inputs: Inputs,
    /// Of what was removed, what is in none of the inputs' successors.
    pub dropped: Vec<u64>,
    /// Whether the journal of what is in memory is on disk.
    pub synced: Result<()>,
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
    pub fn take(&mut self, wait: bool) -> Result<Option<W::Done>> {
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
impl<W: Work> Drop for Worker<W> {
    fn drop(&mut self) {
        Self::stop(self);
        drop(self.jobs.take());
        self.thread.take().map(thread::JoinHandle::join);
    }
}

impl Work for Job {
    type Done = Done;

    fn run(self, stop: &AtomicBool) -> Done {
        let Self {
            inputs,
            journal,
            level,
            path,
            dropped:
                Dropped {
                    first_sequence,
                    first_time,
                    removed,
                },
        } = self;
        let live = Live {
            first_sequence,
            end_sequence: u64::MAX,
            first_time,
            removed: &removed,
        };
        let sources: Vec<&dyn Entries> = match &inputs {
            Inputs::Young(young, _) => vec![&**young],
            Inputs::Segments(segments) => segments
                .iter()
                .map(|segment| &**segment as &dyn Entries)
                .collect(),
        };
        let synced = journal.map_or(Ok(()), |journal| journal.finish());
        let make = || {
            let made = build_file(
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
        Done {
            inputs,
            dropped,
            synced,
            made,
        }
    }
}

impl Inputs {
    /// Whether an entry is, or was, among them.
    fn has(&self, sequence: u64) -> bool {
        match self {
            Self::Young(young, _) => young.last().is_some_and(|(last, _)| {
                (last + 1 - u64::from(young.count())..=last).contains(&sequence)
            }),
            Self::Segments(segments) => segments.iter().any(|segment| {
                (segment.shape.sequences[0]..=segment.shape.sequences[1]).contains(&sequence)
            }),
        }
    }
}

/// A commit, and the files that are of no use after it. Who has them open can go on.
pub struct Commit {
    pub manifest: Manifest,
    /// Those of the manifest, which are put in order here.
    pub removed: Arc<HashSet<u64>>,
    pub directory: PathBuf,
    pub obsolete: Vec<PathBuf>,
    /// What was made of these files: to let go of so much memory takes a while, too.
    pub inputs: Option<Inputs>,
}

/// Whether it is done, and what could not be removed.
pub struct Committed {
    pub done: Result<()>,
    pub obsolete: Vec<PathBuf>,
}

impl Work for Commit {
    type Done = Committed;

    fn run(mut self, _: &AtomicBool) -> Committed {
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
        Committed {
            done,
            obsolete: self.obsolete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Dies;

    impl Work for Dies {
        type Done = ();

        fn run(self, _: &AtomicBool) {
            panic!("on purpose");
        }
    }

    /// What waits for it would grow for ever.
    #[test]
    fn a_thread_that_died_is_an_error() {
        let mut worker = Worker::<Dies>::start(None).unwrap();
        assert!(worker.take(true).unwrap().is_none());
        worker.submit(Dies);
        assert!(worker.take(true).is_err());
        worker.submit(Dies);
        assert!(worker.take(false).is_err());
    }
}
