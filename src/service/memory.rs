//! The memory for requests and answers of all clients.

use crate::base::parallel::lock;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{sync::Notify, time::timeout};

/// The memory for lines and answers that each client has for itself, so that others cannot stall
/// it.
pub const SHARE_BYTES: usize = 256 << 10;

/// Counts the bytes of all clients beyond their own shares.
pub struct ClientMemory {
    used: Mutex<usize>,
    most: usize,
    freed: Notify,
}

impl ClientMemory {
    pub fn new(most: usize) -> Self {
        Self {
            used: Mutex::new(0),
            most,
            freed: Notify::new(),
        }
    }

    /// The limit of the bytes of all clients.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The bytes that clients use beyond their shares.
    pub fn used(&self) -> usize {
        *lock(&self.used)
    }

    /// Replaces a number of counted bytes by another, if there is room or it is no more.
    fn try_count(&self, before: usize, now: usize) -> bool {
        let mut used = lock(&self.used);
        let next = *used - before + now;
        if now > before && next > self.most {
            return false;
        }
        *used = next;
        drop(used);
        if now < before {
            self.freed.notify_waiters();
        }
        true
    }
}

/// The bytes of one client; they are free again when it is dropped.
pub struct MemoryShare {
    memory: Arc<ClientMemory>,
    bytes: Mutex<ShareBytes>,
}

#[derive(Clone, Copy, Default)]
struct ShareBytes {
    input: usize,
    output: usize,
    counted: usize,
}

impl MemoryShare {
    pub fn new(memory: Arc<ClientMemory>) -> Self {
        Self {
            memory,
            bytes: Mutex::default(),
        }
    }

    /// Notes the size of the answers, which are there already.
    pub fn set_output(&self, output: usize) {
        let mut bytes = lock(&self.bytes);
        bytes.output = output;
        let counts = bytes.excess();
        let counted = std::mem::replace(&mut bytes.counted, counts);
        if !self.memory.try_count(counted, counts) {
            // Answers that exist are counted even beyond the limit.
            *lock(&self.memory.used) += counts - counted;
        }
    }

    /// Notes the size of the input if there is room for it.
    pub fn try_set_input(&self, input: usize) -> bool {
        let mut bytes = lock(&self.bytes);
        let wanted = ShareBytes { input, ..*bytes };
        let counts = wanted.excess();
        let has_room = self.memory.try_count(bytes.counted, counts);
        if has_room {
            *bytes = ShareBytes {
                counted: counts,
                ..wanted
            };
        }
        has_room
    }

    /// As [`Self::try_set_input`], but waits for room. What exceeds a share waits for a limited
    /// time; false if that is over.
    pub async fn set_input(&self, input: usize, patience: Duration) -> bool {
        let wait = async {
            loop {
                let freed = self.memory.freed.notified();
                tokio::pin!(freed);
                freed.as_mut().enable();
                if self.try_set_input(input) {
                    return;
                }
                freed.await;
            }
        };
        if self.try_set_input(input) {
            return true;
        }
        if input > SHARE_BYTES {
            timeout(patience, wait).await.is_ok()
        } else {
            wait.await;
            true
        }
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        let counted = lock(&self.bytes).counted;
        self.memory.try_count(counted, 0);
    }
}

impl ShareBytes {
    fn excess(self) -> usize {
        (self.input + self.output).saturating_sub(SHARE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exceeds_a_share_is_counted_and_freed() {
        let memory = Arc::new(ClientMemory::new(1000));
        let one = MemoryShare::new(memory.clone());
        assert!(one.try_set_input(SHARE_BYTES) && memory.used() == 0);
        assert!(one.try_set_input(SHARE_BYTES + 700) && memory.used() == 700);
        let other = MemoryShare::new(memory.clone());
        assert!(other.try_set_input(SHARE_BYTES + 300));
        assert!(!other.try_set_input(SHARE_BYTES + 301) && memory.used() == 1000);
        // Answers that are there already may exceed the limit; they stall only further input.
        one.set_output(50);
        assert!(memory.used() == 1050 && !other.try_set_input(SHARE_BYTES + 301));
        one.set_output(0);
        drop(one);
        assert!(memory.used() == 300 && other.try_set_input(SHARE_BYTES + 1000));
        drop(other);
        assert_eq!(memory.used(), 0);
    }

    #[tokio::test]
    async fn a_long_line_waits_for_room_and_gives_up() {
        let memory = Arc::new(ClientMemory::new(1000));
        let one = MemoryShare::new(memory.clone());
        assert!(one.try_set_input(SHARE_BYTES + 1000));
        let other = MemoryShare::new(memory.clone());
        assert!(!other.set_input(SHARE_BYTES + 1, Duration::ZERO).await);
        let waits = other.set_input(SHARE_BYTES + 1, Duration::from_secs(60));
        let frees = async { drop(one) };
        assert!(tokio::join!(waits, frees).0);
    }
}
