//! Replies of a backend, and their JSON.

use super::CardinalityRange;
use crate::{
    base::error::Result,
    history::Request,
    report::{
        Ndjson, Sink, put_json_text,
        records::{HistoryAnswer, HistoryMatch},
    },
    text::scheme::PrintScheme,
};
use std::{io::Write, sync::Arc};

/// Answers requests in order: each sees all that were added before it.
pub trait HistoryBackend: Send {
    /// The scheme of the prints.
    fn scheme(&self) -> &PrintScheme;
    /// The description of this backend that clients get.
    fn hello(&self) -> HelloReply;
    /// Why it cannot answer everything at the moment; `None` if it can.
    fn not_ready(&self) -> Option<String> {
        None
    }
    /// The bytes of its journal that may not be on disk yet.
    fn unsynced_bytes(&self) -> u64 {
        0
    }
    /// A reply for each request. When this returns, the documents are stored.
    fn ask(&mut self, requests: &[Request<'_>]) -> Result<Vec<MatchReply>>;
    /// Passes replies to `deliver`, some at a time and in order, before their documents are stored:
    /// if the process dies or `deliver` fails, no document without a delivered reply is stored.
    /// Remote servers store them earlier.
    fn ask_and_deliver(
        &mut self,
        requests: &[Request<'_>],
        deliver: &mut dyn FnMut(&[MatchReply]) -> Result<()>,
    ) -> Result<()>;
    /// Removes all entries with this id.
    fn remove(&mut self, id: &str) -> Result<RemovalReply>;
    /// Returns when all additions are on disk.
    fn close(self: Box<Self>) -> Result<()>;
}

/// The matches of a document, best first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MatchReply {
    /// The matches, best first.
    pub matches: Vec<ReplyMatch>,
    /// Whether the document was to be added, but was not.
    pub is_left_out: bool,
    /// The servers that could not be asked.
    pub missing: Vec<Arc<str>>,
}

/// A document of the history that is similar to the requested one.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyMatch {
    /// The id of the document.
    pub id: String,
    /// The Jaccard coefficient of both prints.
    pub similarity: f64,
}

/// The result of a removal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemovalReply {
    /// The number of removed entries.
    pub count: u64,
    /// The servers that could not remove entries.
    pub missing: Vec<Arc<str>>,
}

/// What a backend says about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct HelloReply {
    /// The scheme of the prints.
    pub scheme: String,
    /// The cardinalities that the backend keeps.
    pub buckets: CardinalityRange,
    /// The number of stored entries.
    pub entries: u64,
    /// The least similarity of a match.
    pub min_similarity: f64,
    /// The greatest number of matches in an answer.
    pub top: usize,
    /// What tells the history, with its copies and parts, from all others; may be empty.
    pub identity: String,
    /// The sequence number of the next entry: it never falls, unless a history loses entries.
    pub arrived: u64,
    /// The log that the history follows, if any.
    pub log: Option<LogReply>,
}

/// How far a history has followed its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogReply {
    /// What tells the log from all others.
    pub identity: String,
    /// The last entry that was applied.
    pub position: u64,
    /// The last entry of the log, as far as the server knows.
    pub last: u64,
    /// Whether the server has caught up, and the log is within reach.
    pub is_ready: bool,
}

impl HelloReply {
    /// Appends the reply as a line of JSON.
    pub fn put(&self, out: &mut Vec<u8>) {
        let Self {
            scheme,
            buckets,
            entries,
            min_similarity,
            top,
            identity,
            arrived,
            log,
        } = self;
        out.extend_from_slice(b"{\"hello\":1,\"scheme\":");
        put_json_text(out, scheme);
        let CardinalityRange { first, last } = buckets;
        // Writing to a vector cannot fail.
        let _ = write!(
            out,
            ",\"buckets\":[{first},{last}],\"entries\":{entries},\"min_similarity\":{min_similarity},\"top\":{top}"
        );
        if !identity.is_empty() {
            let _ = write!(out, ",\"history\":\"{identity}\",\"arrived\":{arrived}");
        }
        if let Some(LogReply {
            identity,
            position,
            last,
            is_ready,
        }) = log
        {
            out.extend_from_slice(b",\"log\":{\"identity\":");
            put_json_text(out, identity);
            let _ = write!(
                out,
                ",\"position\":{position},\"last\":{last},\"ready\":{is_ready}}}"
            );
        }
        out.extend_from_slice(b"}\n");
    }
}

impl RemovalReply {
    /// Appends the reply as a line of JSON.
    pub fn put(&self, out: &mut Vec<u8>) {
        let _ = write!(out, "{{\"removed\":{}", self.count);
        put_missing(out, &self.missing);
        out.extend_from_slice(b"}\n");
    }
}

/// `{"doc":…,"best":{"doc":…,"similarity":…}}`, and all matches if more than one may be asked for.
pub fn put_reply(out: &mut Vec<u8>, id: &str, reply: &MatchReply, with_all: bool) {
    fn record(found: &ReplyMatch) -> HistoryMatch<'_> {
        HistoryMatch {
            doc: &found.id,
            similarity: found.similarity,
        }
    }
    let answer = HistoryAnswer {
        doc: id,
        best: reply.matches.first().map(record),
        matches: with_all.then(|| reply.matches.iter().map(record).collect()),
        added: reply.is_left_out.then_some(false),
        missing: reply.missing.iter().map(|name| &**name).collect(),
    };
    // Serializing strings and numbers into a vector cannot fail.
    let _ = Ndjson.put_record(&answer, out);
}

fn put_missing(out: &mut Vec<u8>, missing: &[Arc<str>]) {
    for (at, name) in missing.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b",\"missing\":[" } else { b"," });
        put_json_text(out, name);
    }
    if !missing.is_empty() {
        out.push(b']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_values_are_omitted_from_replies() {
        let found = |id: &str, similarity| ReplyMatch {
            id: id.to_owned(),
            similarity,
        };
        let mut reply = MatchReply {
            matches: vec![found("b\"", 1.0), found("c", 0.9375)],
            ..MatchReply::default()
        };
        let put = |reply: &MatchReply, with_all| {
            let mut out = Vec::new();
            put_reply(&mut out, "a", reply, with_all);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            put(&MatchReply::default(), false),
            "{\"doc\":\"a\",\"best\":null}\n"
        );
        assert_eq!(
            put(&reply, false),
            "{\"doc\":\"a\",\"best\":{\"doc\":\"b\\\"\",\"similarity\":1}}\n"
        );
        reply.is_left_out = true;
        reply.missing = vec!["tcp:x:1".into(), "unix:y".into()];
        let all = r#"{"doc":"a","best":{"doc":"b\"","similarity":1},"matches":[{"doc":"b\"","similarity":1},{"doc":"c","similarity":0.9375}],"added":false,"missing":["tcp:x:1","unix:y"]}"#;
        assert_eq!(put(&reply, true), format!("{all}\n"));
    }
}
