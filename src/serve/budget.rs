//! What the lines and answers of all clients may take of memory.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// What a client may have whatever others have, of lines and of answers: so nobody can stall it.
pub const SHARE_BYTES: usize = 256 << 10;

/// Bytes that are in use, and how many may be.
#[derive(Debug)]
pub struct Budget {
    used: Mutex<usize>,
    freed: Condvar,
    pub most_bytes: usize,
}

impl Budget {
    pub fn new(most_bytes: usize) -> Self {
        Self { used: Mutex::new(0), freed: Condvar::new(), most_bytes }
    }

    pub fn is_spent(&self) -> bool {
        *self.lock() >= self.most_bytes
    }

    /// Takes bytes, there or not: those who ask for them have asked before whether there are any.
    pub fn take(&self, bytes: usize) {
        *self.lock() += bytes;
    }

    pub fn give(&self, bytes: usize) {
        *self.lock() -= bytes;
        self.freed.notify_all();
    }

    /// Waits for bytes and takes them; false if there are none in time.
    pub fn wait_for(&self, bytes: usize, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut used = self.lock();
        while *used + bytes > self.most_bytes {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return false };
            used = self.freed.wait_timeout(used, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *used += bytes;
        true
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
