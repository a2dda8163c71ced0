//! Reconnects to lost servers in the background.

use super::{ServiceAddress, upstream::UpstreamConnection};
use crate::base::error::{Error, Result};
use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// The time before the second attempt; it doubles with each failed one.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// A dedicated thread that tries to reconnect: it sleeps most of the time.
pub struct Reconnector {
    shared: Arc<ReconnectShared>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct ReconnectShared {
    state: Mutex<ReconnectState>,
    changed: Condvar,
}

#[derive(Default)]
struct ReconnectState {
    lost: Vec<LostUpstream>,
    found: Vec<(usize, UpstreamConnection)>,
    is_over: bool,
}

/// A lost server by its number, and when to try it next.
#[derive(Clone)]
struct LostUpstream {
    number: usize,
    address: ServiceAddress,
    due: Instant,
    wait: Duration,
}

impl Reconnector {
    /// Each attempt ends after `limit`.
    pub fn start(limit: Duration) -> Result<Self> {
        let shared = Arc::new(ReconnectShared::default());
        let of_thread = shared.clone();
        let thread = thread::Builder::new()
            .spawn(move || of_thread.mend(limit))
            .map_err(|error| Error::io("a thread", error))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Starts to reconnect to a server. `is_refused`: it is there but does not fit, which will not
    /// change soon.
    pub fn seek(&self, number: usize, address: &ServiceAddress, is_refused: bool) {
        let wait = if is_refused { LONGEST_WAIT } else { FIRST_WAIT };
        let due = Instant::now()
            + if is_refused {
                LONGEST_WAIT
            } else {
                Duration::ZERO
            };
        self.shared.lock().lost.push(LostUpstream {
            number,
            address: address.clone(),
            due,
            wait,
        });
        self.shared.changed.notify_all();
    }

    /// The servers that are connected again.
    pub fn found(&self) -> Vec<(usize, UpstreamConnection)> {
        std::mem::take(&mut self.shared.lock().found)
    }
}

impl Drop for Reconnector {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
        self.thread.take().map(thread::JoinHandle::join);
    }
}

impl ReconnectShared {
    fn lock(&self) -> MutexGuard<'_, ReconnectState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mend(&self, limit: Duration) {
        while let Some(lost) = self.next() {
            let connected = UpstreamConnection::connect(&lost.address, limit);
            let mut state = self.lock();
            match connected {
                Ok(upstream) => {
                    state.lost.retain(|other| other.number != lost.number);
                    state.found.push((lost.number, upstream));
                }
                Err(_) => {
                    let again = |other: &mut LostUpstream| {
                        other.due = Instant::now() + other.wait;
                        other.wait = (2 * other.wait).min(LONGEST_WAIT);
                    };
                    state
                        .lost
                        .iter_mut()
                        .filter(|other| other.number == lost.number)
                        .for_each(again);
                }
            }
        }
    }

    /// Waits until an attempt is due; `None` when the thread should end.
    fn next(&self) -> Option<LostUpstream> {
        let mut state = self.lock();
        while !state.is_over {
            let Some(first) = state.lost.iter().min_by_key(|lost| lost.due).cloned() else {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = first.due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Some(first);
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        None
    }
}
