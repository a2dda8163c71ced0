//! Requests to a history, and what answers them.
//!
//! Connections know only the trait [`HistoryService`]. [`HistoryThread`] implements it for
//! everything that answers one batch after the other: a history on disk, or upstream servers.

mod engine;
mod request_reader;

pub use engine::{HistoryRules, HistoryThread};
pub use request_reader::{ReaderPool, RequestReader, ServiceRequest};

use crate::{
    base::error::Result,
    history::backend::{HelloReply, MatchReply, RemovalReply, put_reply},
    report::put_json_text,
    text::scheme::PrintScheme,
};
use tokio::sync::oneshot;

/// Answers the requests of all clients, in the order in which they are submitted.
///
/// An implementation may answer from a thread of its own, or asynchronously: `submit` and `status`
/// return at once.
pub trait HistoryService: Send + Sync {
    /// The scheme of the prints.
    fn scheme(&self) -> &PrintScheme;
    /// What is added and found at most.
    fn rules(&self) -> HistoryRules;
    /// Takes the requests of a client. Each sees everything that was submitted before it. `reply`
    /// gets an answer for each, in order; if it is dropped, the service has ended.
    fn submit(&self, requests: Vec<ServiceRequest>, reply: oneshot::Sender<Vec<ServiceAnswer>>);
    /// The state of the history.
    fn status(&self) -> HistoryStatus;
    /// Answers what was submitted and returns when all additions are on disk; or returns the error
    /// that ended it before. Blocks.
    fn close(&self) -> Result<()>;
}

/// The state of a history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryStatus {
    /// The description that clients get.
    pub hello: HelloReply,
    /// Why it does not answer, if it does not: it has failed, or is not up to date yet.
    pub not_ready: Option<String>,
    /// The bytes of its journals that may not be on disk yet.
    pub unsynced_bytes: u64,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum ServiceAnswer {
    /// What is similar to a document.
    Like {
        /// The id of the document.
        id: Box<str>,
        /// What was found.
        reply: MatchReply,
    },
    /// How many entries were removed.
    Removed(RemovalReply),
    /// The state of the history.
    Hello(HelloReply),
    /// The request is wrong.
    Refused(String),
    /// The history cannot answer.
    Failed(String),
}

impl ServiceAnswer {
    /// Appends the answer as a line. `with_all`: with all matches, not only the best.
    pub fn put(&self, out: &mut Vec<u8>, with_all: bool) {
        match self {
            Self::Like { id, reply } => put_reply(out, id, reply, with_all),
            Self::Removed(reply) => reply.put(out),
            Self::Hello(reply) => reply.put(out),
            Self::Refused(what) | Self::Failed(what) => put_error(out, what),
        }
    }
}

/// `{"error":…}`
pub fn put_error(out: &mut Vec<u8>, what: &str) {
    out.extend_from_slice(b"{\"error\":");
    put_json_text(out, what);
    out.extend_from_slice(b"}\n");
}
