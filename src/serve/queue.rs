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
    /// Who takes waits for requests; so many wait for room.
    is_idle: bool,
    waiting: usize,
    is_closed: bool,
    /// Nobody answers any more.
    is_over: bool,
}

impl Queue {
    /// Appends requests, in their order; false if nobody answers any more.
    pub fn push(&self, jobs: Vec<Job>) -> bool {
        let mut state = self.lock();
        while state.jobs.len() >= MOST && !state.is_over {
            state.waiting += 1;
            state = self.taken.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        if state.is_over {
            return false;
        }
        state.jobs.extend(jobs);
        // To wake somebody takes its time, even if there is nobody.
        let is_idle = std::mem::take(&mut state.is_idle);
        drop(state);
        if is_idle {
            self.filled.notify_one();
        }
        true
    }

    /// Waits for requests and takes those that are there, `most` at a time; none when no more will come.
    pub fn take(&self, most: usize) -> Option<Vec<Job>> {
        let mut state = self.lock();
        while state.jobs.is_empty() {
            if state.is_closed {
                return None;
            }
            state.is_idle = true;
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_idle = false;
        let count = state.jobs.len().min(most);
        let jobs = state.jobs.drain(..count).collect();
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.taken.notify_all();
        }
        Some(jobs)
    }

    /// No more will come.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
    }

    /// Nobody answers any more: who waits for that need not wait.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.taken.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{online::Stream, serve::budget::Budget};
    use std::os::unix::net::UnixStream;

    #[test]
    fn who_waits_for_room_is_let_go_at_the_end() {
        let queue = Queue::default();
        let (stream, _other) = UnixStream::pair().unwrap();
        let answers = Arc::new(Answers::new(Arc::new(Stream::Unix(stream)), Arc::new(Budget::new(0))));
        let jobs = |count| (0..count).map(|_| Job { answers: answers.clone(), asked: Asked::Hello }).collect();
        assert!(queue.push(jobs(MOST)));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.push(jobs(1)));
            queue.end();
            assert!(!waiting.join().unwrap());
        });
        assert_eq!(queue.take(usize::MAX).unwrap().len(), MOST);
    }
}
