//! Requests of all clients that wait for the thread that answers.

use super::connection::Answers;
use super::request::Asked;
use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// So many may wait; then readers wait, too.
const MOST: usize = 1 << 16;

/// A request, and who waits for its answer.
pub struct Job {
    pub answers: Arc<Answers>,
    pub asked: Asked,
}

#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    taken: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

impl Queue {
    /// Appends requests, in their order.
    pub fn push(&self, jobs: Vec<Job>) {
        let mut state = self.lock();
        while state.jobs.len() >= MOST {
            state = self.taken.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.jobs.extend(jobs);
        drop(state);
        self.filled.notify_one();
    }

    /// Waits for requests and takes those that are there, `most` at a time; none when no more will come.
    pub fn take(&self, most: usize) -> Option<Vec<Job>> {
        let mut state = self.lock();
        while state.jobs.is_empty() {
            if state.is_closed {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let count = state.jobs.len().min(most);
        let jobs = state.jobs.drain(..count).collect();
        drop(state);
        self.taken.notify_all();
        Some(jobs)
    }

    /// No more will come.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
