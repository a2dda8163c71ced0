//! A connection to an upstream server.

use super::{
    CardinalityRange, Connection, HelloReply, LINE_BYTES, LogReply, MatchReply, RemovalReply,
    ReplyMatch, ServiceAddress,
};
use crate::{report::put_json_text, text::stream::Print};
use serde::Deserialize;
use std::{
    borrow::Cow,
    io::{self, Read, Write},
    net::Shutdown,
    time::{Duration, Instant},
};

/// A connected server that has introduced itself.
pub struct UpstreamConnection {
    stream: Connection,
    /// Received bytes, and how many of them were returned.
    buffer: Vec<u8>,
    at: usize,
    block: Vec<u8>,
    pub hello: HelloReply,
}

const READ_BYTES: usize = 64 << 10;
const GRACE: Duration = Duration::from_millis(200);
/// The characters of an unexpected answer that a message shows.
const SHOWN_CHARS: usize = 200;

impl UpstreamConnection {
    /// Connects and asks the server about itself.
    pub fn connect(address: &ServiceAddress, limit: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + limit;
        let stream = Connection::connect(address, limit)?;
        stream.set_write_limit(limit)?;
        let hello = HelloReply {
            scheme: String::new(),
            buckets: CardinalityRange::ALL,
            entries: 0,
            min_similarity: 0.0,
            top: 0,
            identity: String::new(),
            arrived: 0,
            log: None,
        };
        let mut upstream = Self {
            stream,
            buffer: Vec::new(),
            at: 0,
            block: vec![0; READ_BYTES],
            hello,
        };
        upstream.hello = upstream.say_hello(deadline)?;
        Ok(upstream)
    }

    /// Asks the server about itself; nothing else is on its way.
    fn say_hello(&mut self, deadline: Instant) -> io::Result<HelloReply> {
        let mut line = Vec::new();
        put_hello(&mut line);
        self.send(&line)?;
        self.hello_reply(deadline)
    }

    /// The reply to [`put_hello`].
    pub fn hello_reply(&mut self, deadline: Instant) -> io::Result<HelloReply> {
        parse_hello(self.line(deadline)?)
    }

    /// Sends lines: few enough for the server to read them all before any answer is read.
    pub fn send(&mut self, lines: &[u8]) -> io::Result<()> {
        (&self.stream).write_all(lines)
    }

    /// The next reply.
    pub fn reply(&mut self, deadline: Instant) -> io::Result<MatchReply> {
        parse_reply(self.line(deadline)?)
    }

    /// The reply to a removal; `None` if the server is read-only.
    pub fn removed(&mut self, deadline: Instant) -> io::Result<Option<RemovalReply>> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Line {
            RemovalReply {
                removed: u64,
                #[serde(default)]
                missing: Vec<String>,
            },
            Refused {
                #[serde(rename = "error")]
                _error: String,
            },
        }
        let line = self.line(deadline)?;
        match serde_json::from_slice(line) {
            Ok(Line::RemovalReply { removed, missing }) => Ok(Some(RemovalReply {
                count: removed,
                missing: missing.into_iter().map(Into::into).collect(),
            })),
            Ok(Line::Refused { .. }) => Ok(None),
            Err(_) => Err(unexpected(line)),
        }
    }

    /// The next line, without its line feed.
    fn line(&mut self, deadline: Instant) -> io::Result<&[u8]> {
        let mut scanned = self.at;
        loop {
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[scanned..]) {
                let (start, end) = (self.at, scanned + found);
                self.at = end + 1;
                return Ok(&self.buffer[start..end]);
            }
            self.buffer.drain(..self.at);
            (scanned, self.at) = (self.buffer.len(), 0);
            if scanned > LINE_BYTES {
                return Err(io::Error::other(format!(
                    "an answer of more than {LINE_BYTES} bytes"
                )));
            }
            self.read(deadline)?;
        }
    }

    fn read(&mut self, deadline: Instant) -> io::Result<()> {
        // Another server may have used up the time: what this one has sent by now still counts.
        let now = Instant::now();
        if now > deadline + GRACE {
            return Err(late());
        }
        self.stream
            .set_read_limit(deadline.saturating_duration_since(now))?;
        match (&self.stream).read(&mut self.block) {
            Ok(0) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it closed the connection",
            )),
            Err(error)
                if [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&error.kind()) =>
            {
                Err(late())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
            Ok(count) => {
                self.buffer.extend_from_slice(&self.block[..count]);
                Ok(())
            }
        }
    }
}

impl Drop for UpstreamConnection {
    fn drop(&mut self) {
        self.stream.shut(Shutdown::Both);
    }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it does not answer in time")
}

fn unexpected(line: &[u8]) -> io::Error {
    #[derive(Deserialize)]
    struct Refused {
        error: String,
    }
    let reason = serde_json::from_slice::<Refused>(line).map_or_else(
        |_| String::from_utf8_lossy(line).into_owned(),
        |refused| refused.error,
    );
    io::Error::other(format!(
        "an answer that was not expected: {}",
        reason.chars().take(SHOWN_CHARS).collect::<String>()
    ))
}

fn parse_hello(line: &[u8]) -> io::Result<HelloReply> {
    #[derive(Deserialize)]
    struct Line {
        hello: u32,
        scheme: String,
        buckets: (u32, u32),
        entries: u64,
        min_similarity: f64,
        top: usize,
        #[serde(default)]
        history: String,
        #[serde(default)]
        arrived: u64,
        log: Option<LogLine>,
    }
    #[derive(Deserialize)]
    struct LogLine {
        identity: String,
        position: u64,
        #[serde(default)]
        last: u64,
        ready: bool,
    }
    let Ok(Line {
        hello,
        scheme,
        buckets,
        entries,
        min_similarity,
        top,
        history,
        arrived,
        log,
    }) = serde_json::from_slice(line)
    else {
        return Err(unexpected(line));
    };
    match CardinalityRange::new(buckets.0, buckets.1) {
        Some(buckets) if hello == 1 => Ok(HelloReply {
            scheme,
            buckets,
            entries,
            min_similarity,
            top,
            identity: history,
            arrived,
            log: log.map(|log| LogReply {
                identity: log.identity,
                position: log.position,
                last: log.last,
                is_ready: log.ready,
            }),
        }),
        _ => Err(unexpected(line)),
    }
}

fn parse_reply(line: &[u8]) -> io::Result<MatchReply> {
    #[derive(Deserialize)]
    struct MatchField<'a> {
        #[serde(borrow)]
        doc: Cow<'a, str>,
        similarity: f64,
    }
    #[derive(Deserialize)]
    struct Line<'a> {
        #[serde(rename = "doc")]
        _doc: serde::de::IgnoredAny,
        #[serde(borrow)]
        best: Option<MatchField<'a>>,
        matches: Option<Vec<MatchField<'a>>>,
        added: Option<bool>,
        #[serde(default)]
        missing: Vec<String>,
    }
    let line: Line<'_> = serde_json::from_slice(line).map_err(|_| unexpected(line))?;
    let matches = line
        .matches
        .unwrap_or_else(|| line.best.into_iter().collect());
    let found = |found: MatchField<'_>| ReplyMatch {
        id: found.doc.into_owned(),
        similarity: found.similarity,
    };
    Ok(MatchReply {
        matches: matches.into_iter().map(found).collect(),
        is_left_out: line.added == Some(false),
        missing: line.missing.into_iter().map(Into::into).collect(),
    })
}

/// Appends the question what a server has.
pub fn put_hello(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"hello\":1}\n");
}

/// Appends a request.
pub fn put_request(out: &mut Vec<u8>, id: &str, print: Print, add: bool) {
    out.extend_from_slice(b"{\"doc\":");
    put_json_text(out, id);
    // Writing to a vector cannot fail.
    let _ = writeln!(out, ",\"print\":\"{print}\",\"add\":{add}}}");
}

pub fn put_removal(out: &mut Vec<u8>, id: &str) {
    out.extend_from_slice(b"{\"remove\":");
    put_json_text(out, id);
    out.extend_from_slice(b"}\n");
}
