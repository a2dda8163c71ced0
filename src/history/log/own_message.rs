//! The message that a server has on its way, and the answers that it leads to.

use super::message::{LogMessage, LogOperation, MESSAGE_BYTES};
use crate::{
    history::{Answer, Request},
    text::stream::Print,
};

/// A request that outlives the call that made it.
#[derive(Debug, Clone)]
pub struct OwnedRequest {
    /// The id of the document.
    pub id: String,
    /// Its print.
    pub print: Option<Print>,
    /// Whether to add it.
    pub add: bool,
}

impl OwnedRequest {
    /// A copy of a request.
    pub fn new(request: &Request<'_>) -> Self {
        Self {
            id: request.id.to_owned(),
            print: request.print,
            add: request.add,
        }
    }

    /// The request.
    pub fn request(&self) -> Request<'_> {
        Request {
            id: &self.id,
            print: self.print,
            add: self.add,
        }
    }

    /// What it adds.
    fn operation(&self) -> Option<LogOperation> {
        let print = self.print.filter(|_| self.add)?;
        Some(LogOperation::Add {
            id: self.id.clone(),
            print,
        })
    }
}

/// What its message leads to.
#[derive(Debug)]
pub enum Outcome {
    /// The answers to all of its requests.
    Answers(Vec<Answer>),
    /// The number of removed entries.
    Removed(u64),
}

/// A message on its way.
#[derive(Debug)]
pub struct OwnMessage {
    /// Its number.
    pub number: u64,
    /// All requests of the batch, also those that add nothing: they are answered at its place.
    pub requests: Vec<OwnedRequest>,
    /// Set when it was applied.
    pub outcome: Option<Outcome>,
    /// Whether the log has acknowledged it.
    pub is_acknowledged: bool,
}

/// The operations of requests.
pub fn additions(requests: &[OwnedRequest]) -> Vec<LogOperation> {
    requests
        .iter()
        .filter_map(OwnedRequest::operation)
        .collect()
}

/// How many of the requests fit into a message: at least one.
pub fn fitting(requests: &[OwnedRequest]) -> usize {
    let mut bytes = 0;
    requests
        .iter()
        .take_while(|request| {
            bytes += request.id.len() + 64;
            bytes <= MESSAGE_BYTES
        })
        .count()
        .max(1)
}

/// Whether a message is this one.
pub fn is_own(own: Option<&OwnMessage>, publisher: u64, message: &LogMessage) -> bool {
    own.is_some_and(|own| own.number == message.number && publisher == message.publisher)
}
