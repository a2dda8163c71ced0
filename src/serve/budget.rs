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
    used: Mutex<Used>,
    freed: Condvar,
    pub most_bytes: usize,
}

#[derive(Debug, Default)]
struct Used {
    bytes: usize,
    /// So many wait for some.
    waiting: usize,
}

impl Budget {
    pub fn new(most_bytes: usize) -> Self {
        Self { used: Mutex::default(), freed: Condvar::new(), most_bytes }
    }

    pub fn is_spent(&self) -> bool {
        self.lock().bytes >= self.most_bytes
    }

    /// Takes bytes, there or not: those who ask for them have asked before whether there are any.
    pub fn take(&self, bytes: usize) {
        self.lock().bytes += bytes;
    }

    pub fn give(&self, bytes: usize) {
        let mut used = self.lock();
        used.bytes -= bytes;
        if used.waiting > 0 {
            self.freed.notify_all();
        }
    }

    /// Waits for bytes and takes them; false if there are none in time.
    pub fn wait_for(&self, bytes: usize, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut used = self.lock();
        while used.bytes + bytes > self.most_bytes {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return false };
            used.waiting += 1;
            used = self.freed.wait_timeout(used, left).unwrap_or_else(PoisonError::into_inner).0;
            used.waiting -= 1;
        }
        used.bytes += bytes;
        true
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
