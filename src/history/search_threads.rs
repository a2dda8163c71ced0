//! Threads that lend a hand: each takes a part of the work if it comes in time, and nobody waits for one that does not.
//!
//! A thread that is woken up may wait for a processor for some milliseconds. To divide work beforehand, and wait for all parts, would
//! make whoever asked wait as long; so the work is a function that takes one piece after the other until there are none, and whoever
//! wants it done calls it, too.

use crate::base::error::{Error, Result};
use std::{
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// As many as were asked for; they sleep until they are called.
pub struct SearchThreads {
    shared: Arc<ThreadsShared>,
    threads: Vec<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct ThreadsShared {
    state: Mutex<ThreadsState>,
    called: Condvar,
    done: Condvar,
}

#[derive(Default)]
struct ThreadsState {
    work: Option<Work>,
    /// How many more may come.
    limits: usize,
    /// How many are at work.
    busy: usize,
    has_panicked: bool,
    is_over: bool,
}

#[derive(Clone, Copy)]
struct Work(*const (dyn Fn() + Sync));

// SAFETY: what it points to may be called by any thread, and is there as long as it is called: see `SearchThreads::work`.
unsafe impl Send for Work {}

impl ThreadsShared {
    fn lock(&self) -> MutexGuard<'_, ThreadsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SearchThreads {
    pub fn start(count: usize) -> Result<Self> {
        let mut helpers = Self {
            shared: Arc::default(),
            threads: Vec::new(),
        };
        for _ in 0..count {
            let shared = helpers.shared.clone();
            let thread = thread::Builder::new()
                .spawn(move || help(&shared))
                .map_err(|error| Error::io("a thread", error))?;
            helpers.threads.push(thread);
        }
        Ok(helpers)
    }

    /// Does the work, with up to so many others. Returns when all have come back from it.
    pub fn work(&self, count: usize, work: &(dyn Fn() + Sync)) -> Result<()> {
        let count = count.min(self.threads.len());
        if count == 0 {
            work();
            return Ok(());
        }
        let pointer: *const (dyn Fn() + Sync + '_) = work;
        // SAFETY: only its lifetime is forgotten, and nobody calls it any more when `WorkGuard` is dropped, which is before this returns.
        let pointer = unsafe {
            std::mem::transmute::<*const (dyn Fn() + Sync + '_), *const (dyn Fn() + Sync + 'static)>(
                pointer,
            )
        };
        let called = WorkGuard(&self.shared);
        {
            let mut state = self.shared.lock();
            (state.work, state.limits) = (Some(Work(pointer)), count);
        }
        (0..count).for_each(|_| self.shared.called.notify_one());
        work();
        drop(called);
        let has_panicked = std::mem::take(&mut self.shared.lock().has_panicked);
        if has_panicked {
            Err(Error::Usage("a thread of the search died".to_owned()))
        } else {
            Ok(())
        }
    }
}

/// When it is dropped, whoever has not come yet need not come, and those at work are waited for.
struct WorkGuard<'s>(&'s ThreadsShared);

impl Drop for WorkGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        (state.work, state.limits) = (None, 0);
        while state.busy > 0 {
            state = self
                .0
                .done
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for SearchThreads {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.called.notify_all();
        for thread in self.threads.drain(..) {
            // Its panics are told where they happen.
            let _ = thread.join();
        }
    }
}

fn help(shared: &ThreadsShared) {
    let mut state = shared.lock();
    while !state.is_over {
        let Some(Work(work)) = state.work.filter(|_| state.limits > 0) else {
            state = shared
                .called
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        state.limits -= 1;
        state.busy += 1;
        drop(state);
        // SAFETY: it is there until nobody is busy with it.
        let came_back = panic::catch_unwind(AssertUnwindSafe(|| unsafe { (*work)() }));
        state = shared.lock();
        state.busy -= 1;
        state.has_panicked |= came_back.is_err();
        if state.busy == 0 {
            shared.done.notify_one();
        }
    }
}

/// What this thread has had of a processor. The time that goes by tells how much others had, too.
pub fn thread_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: it is written to what is borrowed. If that fails, it is 0.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn each_piece_is_done_once() {
        let helpers = SearchThreads::start(3).unwrap();
        for pieces in [0, 1, 2, 1000, 7] {
            let (next, done) = (
                AtomicUsize::new(0),
                (0..pieces).map(|_| AtomicUsize::new(0)).collect::<Vec<_>>(),
            );
            let work = || {
                while let Some(piece) = done.get(next.fetch_add(1, Ordering::Relaxed)) {
                    piece.fetch_add(1, Ordering::Relaxed);
                    thread::yield_now();
                }
            };
            helpers.work(3, &work).unwrap();
            assert!(
                done.iter().all(|piece| piece.load(Ordering::Relaxed) == 1),
                "{pieces}"
            );
        }
    }

    /// Whoever called is told, and can go on.
    #[test]
    fn a_panic_is_told() {
        let helpers = SearchThreads::start(2).unwrap();
        let main = thread::current().id();
        let came = AtomicUsize::new(0);
        let dies = || {
            if thread::current().id() == main {
                while came.load(Ordering::Relaxed) == 0 {
                    thread::yield_now();
                }
            } else {
                came.fetch_add(1, Ordering::Relaxed);
                panic!("on purpose");
            }
        };
        assert!(helpers.work(1, &dies).is_err());
        let caught = panic::catch_unwind(AssertUnwindSafe(|| {
            helpers.work(2, &|| panic!("on purpose"))
        }));
        assert!(caught.is_err());
        let _ = helpers.work(2, &|| ());
        assert!(helpers.work(2, &|| ()).is_ok());
    }
}
