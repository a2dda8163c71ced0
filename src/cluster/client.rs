//! The end of the conversation that asks.

use super::{
    cache::Cache,
    protocol::{Cause, Item, Message, Peer, Talk, find_hello, hello, push_frame},
    transfer::{Fault, list, out_of_turn, receive_wanted, send_wanted},
};
use crate::cluster::remote::{Frame, Wire, read_frame};
use std::{
    io::{self, BufReader, Read, Write},
    path::Path,
    time::{Duration, Instant},
};

/// How much may come before the first line of a worker.
const NOISE_BYTES: usize = 64 << 10;

/// A connection that nobody used for so long is made anew: servers close those whose other end does not answer them.
const STALE: Duration = Duration::from_secs(60);

/// How the program ssh says that a server hung up before it knew who came.
const BUSY: [&str; 3] = [
    "exchange_identification",
    "Connection reset by",
    "Connection closed by",
];

pub struct Client {
    wire: BufReader<Box<dyn Wire>>,
    pending: Vec<u8>,
    /// When something last came.
    heard: Instant,
}

impl Talk for Client {
    fn send(&mut self, kind: Frame, payload: &[u8]) -> io::Result<()> {
        push_frame(&mut self.pending, kind, payload)?;
        if self.pending.len() > 1 << 18 {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let wire = self.wire.get_mut();
        wire.write_all(&self.pending).and_then(|()| wire.flush())?;
        self.pending.clear();
        Ok(())
    }

    fn receive(&mut self, payload: &mut Vec<u8>) -> io::Result<Frame> {
        loop {
            let kind = read_frame(&mut self.wire, payload)?;
            self.heard = Instant::now();
            if kind != Frame::Beat {
                return Ok(kind);
            }
        }
    }
}

impl Client {
    /// Waits for the first line of a worker. `stall`: how long it may be silent from then on.
    ///
    /// An error of the kind `PermissionDenied` says that to try again is no use.
    pub fn greet(wire: Box<dyn Wire>, limit: Duration, stall: Duration) -> io::Result<Self> {
        let mut wire = BufReader::new(wire);
        wire.get_mut().set_limit(limit);
        let line = read_hello(&mut wire, limit).map_err(|error| {
            let said = wire.get_mut().said();
            let last = said
                .lines()
                .last()
                .map_or_else(String::new, |line| format!(" ({line})"));
            let (kind, what) = match error.kind() {
                // What ssh says when a server has too many guests.
                io::ErrorKind::UnexpectedEof if BUSY.iter().any(|words| said.contains(words)) => (
                    io::ErrorKind::ConnectionReset,
                    "the host hung up".to_owned(),
                ),
                kind @ io::ErrorKind::UnexpectedEof => {
                    (kind, "dedup-shard did not start there".to_owned())
                }
                kind @ io::ErrorKind::TimedOut => (
                    kind,
                    format!(
                        "dedup-shard did not start there within {} s",
                        limit.as_secs()
                    ),
                ),
                kind => (kind, error.to_string()),
            };
            io::Error::new(kind, format!("{what}{last}"))
        })?;
        let expected = hello();
        if line.trim_end() != expected.trim_end() {
            let version = |line: &str| {
                line.split_whitespace()
                    .skip(1)
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            let what = format!(
                "dedup-shard there is of protocol and version '{}', here of '{}'; install the same, or use --ship-binaries",
                version(&line),
                version(&expected)
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        wire.get_mut().set_limit(stall);
        Ok(Self {
            wire,
            pending: Vec::new(),
            heard: Instant::now(),
        })
    }

    /// Nothing was said for so long that a server may have closed the connection.
    pub fn is_stale(&self) -> bool {
        self.heard.elapsed() > STALE
    }

    /// Asks, and gives the answer.
    pub fn ask(&mut self, request: &Message) -> Result<Message, Fault> {
        self.say(request)?;
        self.answer()
    }

    pub fn answer(&mut self) -> Result<Message, Fault> {
        match self.hear()? {
            Message::Error {
                cause: Cause::Source,
                what,
                paths,
            } if !paths.is_empty() => Err(Fault::Spoilt(paths, what)),
            Message::Error { cause, what, .. } => Err(Fault::Told(cause, what)),
            answer => Ok(answer),
        }
    }

    fn done(&mut self) -> Result<u64, Fault> {
        match self.answer()? {
            Message::Done { bytes } => Ok(bytes),
            _ => Err(out_of_turn()),
        }
    }

    pub fn order(&mut self, request: &Message) -> Result<u64, Fault> {
        self.say(request)?;
        self.done()
    }

    pub fn inventory(&mut self) -> Result<Vec<String>, Fault> {
        match self.ask(&Message::Inventory)? {
            Message::Have { paths } => Ok(paths),
            _ => Err(out_of_turn()),
        }
    }

    /// Copies something there. Gives the bytes that went.
    pub fn put(&mut self, path: &str, keep: bool, source: &Path) -> Result<u64, Fault> {
        let items = list(source)?;
        self.say(&Message::Put {
            path: path.to_owned(),
            items: items.clone(),
            keep,
        })?;
        // If a file is not what it was, the answer is nothing but an echo of that.
        match send_wanted(self, source, &items) {
            Err(Fault::Damaged(what)) => {
                let _ = self.done();
                Err(Fault::Damaged(what))
            }
            sent => sent.and_then(|_| self.done()),
        }
    }

    /// What something there consists of; then it is ready to send what is wanted of it.
    pub fn items(&mut self, path: &str, keep: bool) -> Result<Vec<Item>, Fault> {
        match self.ask(&Message::Get {
            path: path.to_owned(),
            keep,
        })? {
            Message::Items { items } => Ok(items),
            _ => Err(out_of_turn()),
        }
    }

    /// Copies something from there. Gives the bytes that came, and what it consists of.
    pub fn get(
        &mut self,
        path: &str,
        keep: bool,
        target: &Path,
        cache: Option<&Cache>,
    ) -> Result<(u64, Vec<Item>), Fault> {
        let items = self.items(path, keep)?;
        let received = receive_wanted(self, target, &items, cache);
        match received {
            Ok(bytes) => self.done().map(|_| (bytes, items)),
            Err(Fault::Link(what)) => Err(Fault::Link(what)),
            Err(fault) => {
                // One more answer, then the conversation is where it was before.
                let _ = self.done();
                Err(fault)
            }
        }
    }

    pub fn fetch(&mut self, peer: Peer, paths: &[String], keep: bool) -> Result<u64, Fault> {
        self.order(&Message::Fetch {
            peer,
            paths: paths.to_vec(),
            keep,
        })
    }

    /// What came after data that was passed on.
    pub fn finish_transfer(&mut self) -> Result<u64, Fault> {
        self.done()
    }

    /// From now on it may be silent for so long.
    pub fn set_limit(&mut self, limit: Duration) {
        self.wire.get_mut().set_limit(limit);
    }

    /// Says good-bye, and waits for the end of the worker.
    pub fn leave(mut self) -> io::Result<()> {
        self.say(&Message::Bye)?;
        match self.hear()? {
            Message::Bye => self.wire.get_mut().finish(),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Passes something on from one worker to another, without keeping it. Gives the bytes that went.
pub fn relay(
    from: &mut Client,
    to: &mut Client,
    path: &str,
    keep: bool,
) -> Result<u64, (bool, Fault)> {
    // Which of the two it was.
    let (source, sink) = (|fault: Fault| (true, fault), |fault: Fault| (false, fault));
    let items = from.items(path, false).map_err(source)?;
    let request = Message::Put {
        path: path.to_owned(),
        items: items.clone(),
        keep,
    };
    let numbers = match to.ask(&request) {
        Ok(Message::Want { numbers }) => numbers,
        other => {
            let _ = from.say(&Message::Want {
                numbers: Vec::new(),
            });
            let _ = from.finish_transfer();
            return Err(sink(other.err().unwrap_or_else(out_of_turn)));
        }
    };
    let mut left: u64 = numbers
        .iter()
        .filter_map(|&number| items.get(number))
        .map(|item| item.bytes)
        .sum();
    from.say(&Message::Want { numbers })
        .map_err(|error| source(error.into()))?;
    let mut payload = Vec::new();
    while left > 0 {
        let kind = from
            .receive(&mut payload)
            .map_err(|error| source(error.into()))?;
        to.send(kind, &payload)
            .map_err(|error| sink(error.into()))?;
        if kind == Frame::Message {
            // It is not whole there: the other end drops what it has.
            to.flush().map_err(|error| sink(error.into()))?;
            let _ = to.finish_transfer();
            let _ = from.finish_transfer();
            return Err(source(Fault::Damaged(format!(
                "{path}: is not whole there"
            ))));
        }
        left = left.saturating_sub(payload.len() as u64);
    }
    to.flush().map_err(|error| sink(error.into()))?;
    from.finish_transfer().map_err(source)?;
    to.finish_transfer().map_err(|fault| match fault {
        // What came there is not what was promised here.
        Fault::Told(Cause::Source, what) => source(Fault::Damaged(what)),
        fault => sink(fault),
    })
}

/// The first line of a worker, without what came before it.
fn read_hello(wire: &mut impl Read, limit: Duration) -> io::Result<String> {
    let (begin, mut bytes) = (Instant::now(), Vec::new());
    loop {
        let mut byte = [0];
        wire.read_exact(&mut byte)?;
        bytes.push(byte[0]);
        if byte[0] == b'\n'
            && let Some(start) = find_hello(&bytes)
        {
            return Ok(String::from_utf8_lossy(&bytes[start..]).into_owned());
        }
        if bytes.len() > NOISE_BYTES || begin.elapsed() > limit {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "something else answers there",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_the_first_line_is_skipped() {
        let limit = Duration::from_secs(60);
        for noise in ["", "Welcome!\nLast login: never\n", "no line end"] {
            let text = format!("{noise}{}rest", hello());
            let mut input = text.as_bytes();
            assert_eq!(read_hello(&mut input, limit).unwrap(), hello());
            assert_eq!(input, b"rest");
        }
        assert!(
            read_hello(&mut &vec![b'x'; NOISE_BYTES + 9][..], limit)
                .unwrap_err()
                .to_string()
                .contains("something else")
        );
        assert_eq!(
            read_hello(&mut &b"Permission denied\n"[..], limit)
                .unwrap_err()
                .kind(),
            io::ErrorKind::UnexpectedEof
        );
    }
}
