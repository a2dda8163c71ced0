//! A history on several servers: each is a cache of one replicated log.
//!
//! A server publishes what is to be added or removed as a [`message`]; the log, a stream of NATS
//! JetStream, gives all messages of all servers one order. Every server applies them in that order,
//! and answers a request at the place of its message: so each answers as a single history would,
//! and all are in the same state after each entry. A server answers after the log has acknowledged
//! its message *and* its own journal is on disk, which also keeps the position in the log.
//!
//! - **Order.** A server has one message of up to [`message::MESSAGE_BYTES`] on its way, and the
//!   next one only after it has read the first one back. So its messages keep their order without
//!   further means, also over elections of the log, and still it adds thousands of documents a
//!   second, as a message has a whole batch.
//! - **Twice.** A message whose acknowledgement got lost is published again. Messages have the
//!   number of their process and count up, and every server remembers the last of each process: all
//!   skip the same repetitions.
//! - **Determinism.** The time of an entry is that of its message, and forgetting old entries is
//!   an entry, too.
//! - **Searches** that add nothing ask the log for its last entry, and wait until that is applied.
//! - **Divergence.** NATS 2.9 can deliver an entry and then lose it when nodes die: another one gets its position. So a
//!   message names the last entry that its server had applied. A server that has applied another one
//!   there reads that entry again, and refuses to go on if the log does not have its own.
//! - **Trouble.** While the log is out of reach, answers name it in `missing` and nothing is added,
//!   or requests wait, as [`WhenLost`] says. A log that is another one, that lacks entries which the
//!   history needs, or that ends before the entries which it has applied, is refused.
//!
//! `replicated` and `applier` have the server's side, whatever the log is; `nats` the client of NATS, and
//! `memory` a log in this process for tests, which loses acknowledgements and repeats messages.

mod applier;
#[cfg(all(test, feature = "nats"))]
mod chaos;
#[cfg(test)]
pub(super) mod memory;
pub mod message;
#[cfg(feature = "nats")]
mod nats;
mod own_message;
mod replicated;
#[cfg(test)]
mod tests;

#[cfg(feature = "nats")]
pub use nats::NatsLog;
pub use replicated::{LogOptions, LogStatus, ReplicatedHistory, WhenLost};

use crate::base::{
    error::{Error, Result},
    setting::Setting,
};
use std::{str::FromStr, sync::mpsc::SyncSender};

/// A log of messages that all servers read in the same order.
///
/// All methods return at once; what they lead to comes as a [`LogEvent`].
pub trait ReplicatedLog: Send {
    /// Delivers all entries after this one, in order and without gaps, from now on. After a
    /// connection was lost it may deliver the last one again.
    fn follow(&mut self, after: u64);
    /// Delivers one entry, if it can: also one that was delivered before.
    fn read(&mut self, position: u64);
    /// Appends a message; leads to [`LogEvent::Published`] with this id.
    fn publish(&mut self, id: u64, bytes: Vec<u8>);
    /// Asks for the first and the last entry; leads to [`LogEvent::Extent`] with this number.
    fn ask_extent(&mut self, number: u64);
}

/// What a log reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEvent {
    /// An entry.
    Entry {
        /// Its number, from 1.
        position: u64,
        /// The message.
        bytes: Vec<u8>,
    },
    /// Whether a message was acknowledged. If not, it may be in the log all the same.
    Published {
        /// Its id.
        id: u64,
        /// The problem, if there was one.
        result: Result<(), String>,
    },
    /// The answer to [`ReplicatedLog::ask_extent`].
    Extent {
        /// The number of the question.
        number: u64,
        /// The extent, or the problem.
        result: Result<LogExtent, String>,
    },
}

/// What a log has at the moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogExtent {
    /// What tells it from all others, also from a later one of the same name.
    pub identity: String,
    /// The first entry that it still has; one more than the last one if it has none.
    pub first: u64,
    /// The last entry.
    pub last: u64,
    /// The node that answered: after an election another one.
    pub leader: String,
}

/// Delivers the events of a log.
#[derive(Clone)]
pub struct LogEvents(SyncSender<replicated::Event>);

impl LogEvents {
    /// Waits if the history is behind; returns false when it is closed.
    pub fn send(&self, event: LogEvent) -> bool {
        self.0.send(replicated::Event::Log(event)).is_ok()
    }

    /// As [`Self::send`], but returns false if the history is behind.
    #[cfg(test)]
    pub(super) fn try_send(&self, event: LogEvent) -> bool {
        self.0.try_send(replicated::Event::Log(event)).is_ok()
    }
}

/// Where a log is: `nats://HOST:PORT/STREAM`, with more nodes after commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogAddress {
    /// The nodes, as `nats://HOST:PORT`.
    pub nodes: Vec<String>,
    /// The name of the stream.
    pub stream: String,
}

impl std::fmt::Display for LogAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes = self
            .nodes
            .iter()
            .map(|node| node.trim_start_matches("nats://"));
        let nodes: Vec<&str> = nodes.collect();
        write!(f, "nats://{}/{}", nodes.join(","), self.stream)
    }
}

/// Parses `nats://one:4222,two:4222,three:4222/history`.
impl FromStr for LogAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no log such as nats://127.0.0.1:4222/history");
        let (nodes, stream) = text
            .strip_prefix("nats://")
            .and_then(|rest| rest.split_once('/'))
            .ok_or_else(wrong)?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let is_node = |node: &str| {
            node.rsplit_once(':')
                .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        if stream.is_empty() || !stream.chars().all(is_name) || !nodes.split(',').all(is_node) {
            return Err(wrong());
        }
        Ok(Self {
            nodes: nodes
                .split(',')
                .map(|node| format!("nats://{node}"))
                .collect(),
            stream: stream.to_owned(),
        })
    }
}

/// Refuses a log if this program has no client for it.
pub fn ensure_supported(address: &LogAddress) -> Result<()> {
    if cfg!(feature = "nats") {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{address}: this program was built without the feature nats, which {} needs; build it with cargo build --release --features nats",
        Setting::Log
    )))
}

/// Opens the log at an address.
pub fn open_log(
    address: &LogAddress,
    replicas: usize,
    events: LogEvents,
) -> Result<Box<dyn ReplicatedLog>> {
    #[cfg(feature = "nats")]
    return Ok(Box::new(NatsLog::start(address.clone(), replicas, events)?));
    #[cfg(not(feature = "nats"))]
    {
        let _ = (replicas, events);
        ensure_supported(address)?;
        Err(Error::Usage(format!(
            "{address}: there is no client for it"
        )))
    }
}
