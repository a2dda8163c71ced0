//! Carries a plan out, or goes on with it.

use super::{
    engine::{Engine, Verdict},
    plan::{Kind, Plan, Task},
    state::left,
};
use crate::{
    error::{Error, Place, Result},
    pipeline::sweep_aside,
};
use std::{
    collections::VecDeque,
    fs::{self, File, TryLockError},
    path::Path,
    sync::{Mutex, PoisonError, mpsc},
    thread,
};

/// A task that was not done, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub task: String,
    pub verdict: Verdict,
}

/// Held by the one process that hands out the tasks of a run.
pub struct RunLock {
    _file: File,
}

impl RunLock {
    pub fn take(run: &Path) -> Result<Self> {
        let path = run.join("plan.json");
        let file = File::open(&path).map_err(|error| Error::io(path.display(), error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => {
                Err(Error::damaged(Place::path(run), "another process is at work on this run; wait for it to end"))
            }
            Err(TryLockError::Error(error)) => Err(Error::io(path.display(), error)),
        }
    }
}

/// Runs what is not done yet, the largest tasks first. `done` is told each task that is done, or was already.
///
/// After a failure no other task is begun. Gives what failed: nothing, if the index is there.
pub fn run(plan: &Plan, run: &Path, engine: &dyn Engine, done: &mut dyn FnMut(&Task)) -> Result<Vec<Failure>> {
    sweep_aside(run);
    Kind::ALL.iter().filter_map(|kind| kind.directory()).for_each(|name| sweep_aside(&run.join(name)));
    let left = left(plan, run);
    plan.tasks.iter().filter(|task| !left.contains(task)).for_each(&mut *done);
    for kind in Kind::ALL {
        let mut todo: Vec<&Task> = left.iter().copied().filter(|task| task.kind == kind).collect();
        todo.sort_by_key(|task| std::cmp::Reverse(task.bytes));
        let failures = run_all(&todo, engine, done)?;
        if !failures.is_empty() {
            return Ok(failures);
        }
    }
    Ok(Vec::new())
}

/// Each slot takes the next task when it is free.
fn run_all(tasks: &[&Task], engine: &dyn Engine, done: &mut dyn FnMut(&Task)) -> Result<Vec<Failure>> {
    let queue = Mutex::new(tasks.iter().copied().collect::<VecDeque<&Task>>());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let mut failures = Vec::new();
    thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for _ in 0..engine.slots().clamp(1, tasks.len().max(1)) {
            let send = send.clone();
            scope.spawn(move || {
                while let Some(task) = next() {
                    let _ = send.send((task, engine.run(task)));
                }
            });
        }
        drop(send);
        for (task, verdict) in receive {
            match verdict? {
                Verdict::Done => done(task),
                verdict => {
                    queue.lock().unwrap_or_else(PoisonError::into_inner).clear();
                    failures.push(Failure { task: task.id.clone(), verdict });
                }
            }
        }
        Ok(failures)
    })
}

/// Removes what tasks made on the way to the index, and what dead ones left. The plan and the index stay.
pub fn clean(run: &Path) -> Result<()> {
    sweep_aside(run);
    for name in Kind::ALL.iter().filter_map(|kind| kind.directory()).chain(["logs"]) {
        let path = run.join(name);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(Error::io(path.display(), error)),
            _ => {}
        }
    }
    Ok(())
}
