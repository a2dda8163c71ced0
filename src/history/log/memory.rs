//! A log in this process, for tests: it loses acknowledgements, repeats messages, and can be cut off.

use super::{LogEvent, LogEvents, LogExtent, ReplicatedLog};
use std::sync::{Arc, Mutex, PoisonError};

/// What happens to a published message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is stored and acknowledged.
    None,
    /// It is stored, but the acknowledgement is lost.
    NoAcknowledgement,
    /// It is not stored.
    Lost,
    /// It is stored twice.
    Twice,
}

/// A log that several servers of this process follow.
#[derive(Default)]
pub struct MemoryLog {
    state: Mutex<LogState>,
}

#[derive(Default)]
struct LogState {
    identity: String,
    entries: Vec<Vec<u8>>,
    followers: Vec<(u64, LogEvents)>,
    /// Taken from the end, one for each message.
    faults: Vec<Fault>,
    is_out_of_reach: bool,
    elections: u32,
}

impl MemoryLog {
    /// A log on which these faults happen, the last one first.
    pub fn with_faults(faults: Vec<Fault>) -> Arc<Self> {
        let log = Self::default();
        log.lock().faults = faults;
        Arc::new(log)
    }

    /// A log without faults that is told from others by this.
    pub fn with_identity(identity: &str) -> Arc<Self> {
        let log = Self::default();
        log.lock().identity = identity.to_owned();
        Arc::new(log)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All messages.
    pub fn entries(&self) -> Vec<Vec<u8>> {
        self.lock().entries.clone()
    }

    /// Forgets all but the first entries, as after a power loss of all nodes.
    pub fn truncate(&self, entries: usize) {
        self.lock().entries.truncate(entries);
    }

    /// Puts another message in the place of one, and does not tell those who have it.
    pub fn replace(&self, at: usize, bytes: Vec<u8>) {
        self.lock().entries[at] = bytes;
    }

    /// Whether it answers.
    pub fn set_out_of_reach(&self, is_out_of_reach: bool) {
        let mut state = self.lock();
        state.is_out_of_reach = is_out_of_reach;
        state.elections += 1;
    }

    /// The connection of a server.
    pub fn connect(self: &Arc<Self>, events: LogEvents) -> Box<dyn ReplicatedLog> {
        Box::new(MemoryConnection {
            log: self.clone(),
            events,
        })
    }
}

struct MemoryConnection {
    log: Arc<MemoryLog>,
    events: LogEvents,
}

impl MemoryConnection {
    /// From a thread of its own, as the history takes events while it waits.
    fn tell(&self, event: LogEvent) {
        let events = self.events.clone();
        std::thread::spawn(move || events.send(event));
    }
}

impl LogState {
    /// Delivers what followers lack, in order.
    fn deliver(&mut self) {
        for (next, events) in &mut self.followers {
            while let Some(bytes) = self
                .entries
                .get(usize::try_from(*next - 1).unwrap_or(usize::MAX))
            {
                let event = LogEvent::Entry {
                    position: *next,
                    bytes: bytes.clone(),
                };
                if !events.try_send(event) {
                    break;
                }
                *next += 1;
            }
        }
    }
}

impl ReplicatedLog for MemoryConnection {
    fn follow(&mut self, after: u64) {
        let mut state = self.log.lock();
        state.followers.push((after + 1, self.events.clone()));
        state.deliver();
    }

    fn read(&mut self, position: u64) {
        let at = usize::try_from(position - 1).unwrap_or(usize::MAX);
        if let Some(bytes) = self.log.lock().entries.get(at).cloned() {
            self.tell(LogEvent::Entry { position, bytes });
        }
    }

    fn publish(&mut self, id: u64, bytes: Vec<u8>) {
        let mut state = self.log.lock();
        if state.is_out_of_reach {
            return self.tell(LogEvent::Published {
                id,
                result: Err("out of reach".to_owned()),
            });
        }
        let fault = state.faults.pop().unwrap_or(Fault::None);
        let copies = match fault {
            Fault::None | Fault::NoAcknowledgement => 1,
            Fault::Lost => 0,
            Fault::Twice => 2,
        };
        (0..copies).for_each(|_| state.entries.push(bytes.clone()));
        state.deliver();
        drop(state);
        let result = match fault {
            Fault::None | Fault::Twice => Ok(()),
            Fault::NoAcknowledgement | Fault::Lost => Err("no acknowledgement".to_owned()),
        };
        self.tell(LogEvent::Published { id, result });
    }

    fn ask_extent(&mut self, number: u64) {
        let mut state = self.log.lock();
        state.deliver();
        let result = if state.is_out_of_reach {
            Err("out of reach".to_owned())
        } else {
            Ok(LogExtent {
                identity: format!("a log in memory{}", state.identity),
                first: 1,
                last: u64::try_from(state.entries.len()).unwrap_or(0),
                leader: state.elections.to_string(),
            })
        };
        self.tell(LogEvent::Extent { number, result });
    }
}
