//! Which clients are connected: their number is limited, and silent ones make room for others.

use crate::base::parallel::lock;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// Excess clients that get an error at the same time; more are disconnected without one.
const MOST_REFUSED: usize = 64;

/// The clients of all listeners.
pub struct ServiceClients {
    most: usize,
    idle_timeout: Duration,
    start: Instant,
    connected: Mutex<Connected>,
}

#[derive(Default)]
struct Connected {
    next: u64,
    clients: HashMap<u64, Arc<ClientState>>,
    refused: usize,
}

/// What is known of a client while it is connected.
#[derive(Default)]
pub struct ClientState {
    /// When it last sent something, in ms since the start of the server.
    last_ms: AtomicU64,
    /// Whether it has unanswered requests, or has sent part of one.
    is_busy: AtomicBool,
    evicted: Notify,
}

/// A place for a client; free again when it is dropped.
pub struct ClientPlace {
    all: Arc<ServiceClients>,
    number: u64,
    pub state: Arc<ClientState>,
}

/// A place for a client that gets an error only.
pub struct RefusedPlace(Arc<ServiceClients>);

/// Whether a new client gets a place.
pub enum Admission {
    Admitted(ClientPlace),
    /// There is none; it gets an error.
    Refused(RefusedPlace),
    /// Too many get errors already.
    Dropped,
}

impl ServiceClients {
    pub fn new(most: usize, idle_timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            most,
            idle_timeout,
            start: Instant::now(),
            connected: Mutex::default(),
        })
    }

    /// The limit of the number of clients.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The number of clients.
    pub fn count(&self) -> usize {
        lock(&self.connected).clients.len()
    }

    /// A place for a new client. If there is none, the client that was silent longest gives way,
    /// if it was silent long enough.
    pub fn admit(self: &Arc<Self>) -> Admission {
        let mut connected = lock(&self.connected);
        if connected.clients.len() >= self.most && !self.evict_one(&mut connected) {
            if connected.refused == MOST_REFUSED {
                return Admission::Dropped;
            }
            connected.refused += 1;
            return Admission::Refused(RefusedPlace(self.clone()));
        }
        let number = connected.next;
        connected.next += 1;
        let state = Arc::new(ClientState::default());
        state.last_ms.store(self.now_ms(), Ordering::Relaxed);
        connected.clients.insert(number, state.clone());
        Admission::Admitted(ClientPlace {
            all: self.clone(),
            number,
            state,
        })
    }

    fn evict_one(&self, connected: &mut Connected) -> bool {
        let silent_since = self
            .now_ms()
            .checked_sub(u64::try_from(self.idle_timeout.as_millis()).unwrap_or(u64::MAX));
        let Some(silent_since) = silent_since else {
            return false;
        };
        let longest = connected
            .clients
            .iter()
            .filter(|(_, client)| !client.is_busy.load(Ordering::Relaxed))
            .map(|(&number, client)| (client.last_ms.load(Ordering::Relaxed), number))
            .min();
        let Some((_, number)) = longest.filter(|&(last, _)| last <= silent_since) else {
            return false;
        };
        if let Some(client) = connected.clients.remove(&number) {
            client.evicted.notify_one();
        }
        true
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl ClientPlace {
    /// Notes that the client has sent something; `is_busy`: more than what is answered.
    pub fn note(&self, is_busy: bool) {
        self.state
            .last_ms
            .store(self.all.now_ms(), Ordering::Relaxed);
        self.state.is_busy.store(is_busy, Ordering::Relaxed);
    }

    /// Returns when the client has to give way to another one.
    pub async fn evicted(&self) {
        self.state.evicted.notified().await;
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        lock(&self.all.connected).clients.remove(&self.number);
    }
}

impl Drop for RefusedPlace {
    fn drop(&mut self) {
        lock(&self.0.connected).refused -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(clients: &Arc<ServiceClients>) -> Option<ClientPlace> {
        match clients.admit() {
            Admission::Admitted(place) => Some(place),
            _ => None,
        }
    }

    #[tokio::test]
    async fn only_silent_clients_make_room() {
        let clients = ServiceClients::new(2, Duration::ZERO);
        let (one, two) = (admitted(&clients).unwrap(), admitted(&clients).unwrap());
        one.note(true);
        two.note(true);
        assert!(admitted(&clients).is_none() && clients.count() == 2);
        two.note(false);
        let three = admitted(&clients).unwrap();
        two.evicted().await;
        three.note(true);
        assert!(admitted(&clients).is_none());
        // Its place was given away already.
        drop(two);
        assert_eq!(clients.count(), 2);
        drop(one);
        assert!(admitted(&clients).is_some());
        let patient = ServiceClients::new(1, Duration::from_secs(3600));
        let _one = admitted(&patient).unwrap();
        assert!(admitted(&patient).is_none());
    }

    #[test]
    fn few_clients_are_refused_at_a_time() {
        let clients = ServiceClients::new(0, Duration::ZERO);
        let refused: Vec<_> = (0..MOST_REFUSED).map(|_| clients.admit()).collect();
        assert!(
            refused
                .iter()
                .all(|one| matches!(one, Admission::Refused(_)))
        );
        assert!(matches!(clients.admit(), Admission::Dropped));
        drop(refused);
        assert!(matches!(clients.admit(), Admission::Refused(_)));
    }
}
