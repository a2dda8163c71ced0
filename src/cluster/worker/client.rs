//! The client: the run's end of the connection to a worker.

use crate::base::num::ToU64;
use crate::base::setting::Setting;
use crate::cluster::remote::{FrameKind, RemoteProgram, read_frame};
use crate::cluster::{
    worker::file_cache::FileCache,
    worker::protocol::{
        Conversation, ErrorCause, Message, Peer, TransferItem, find_hello, hello, push_frame,
    },
    worker::transfer::{TransferError, list, out_of_turn, receive_wanted, send_wanted},
};
use std::{
    io::{self, BufReader, Read, Write},
    path::Path,
    time::{Duration, Instant},
};

/// The most bytes of shell output that are skipped before the first line of a worker.
const NOISE_BYTES: usize = 64 << 10;

/// A connection that was idle for longer is replaced: servers close connections whose other end
/// does not answer.
const STALE: Duration = Duration::from_secs(60);

/// What the ssh program prints when a server closes the connection before authentication.
const BUSY: [&str; 3] = [
    "exchange_identification",
    "Connection reset by",
    "Connection closed by",
];

pub struct Client {
    connection: BufReader<Box<dyn RemoteProgram>>,
    pending: Vec<u8>,
    /// When bytes last arrived.
    heard: Instant,
}

impl Conversation for Client {
    fn send(&mut self, kind: FrameKind, payload: &[u8]) -> io::Result<()> {
        push_frame(&mut self.pending, kind, payload)?;
        if self.pending.len() > 1 << 18 {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let connection = self.connection.get_mut();
        connection
            .write_all(&self.pending)
            .and_then(|()| connection.flush())?;
        self.pending.clear();
        Ok(())
    }

    fn receive(&mut self, payload: &mut Vec<u8>) -> io::Result<FrameKind> {
        loop {
            let kind = read_frame(&mut self.connection, payload)?;
            self.heard = Instant::now();
            if kind != FrameKind::Beat {
                return Ok(kind);
            }
        }
    }
}

impl Client {
    /// Waits for the first line of a worker. `stall`: the longest silence from then on.
    ///
    /// An error of the kind `PermissionDenied` means that trying again is useless.
    pub fn greet(
        connection: Box<dyn RemoteProgram>,
        limit: Duration,
        stall: Duration,
    ) -> io::Result<Self> {
        let mut connection = BufReader::new(connection);
        connection.get_mut().set_limit(limit);
        let line = read_hello(&mut connection, limit).map_err(|error| {
            let stderr = connection.get_mut().stderr_tail();
            let last = stderr
                .lines()
                .last()
                .map_or_else(String::new, |line| format!(" ({line})"));
            let (kind, what) = match error.kind() {
                // What ssh prints when a server has too many connections.
                io::ErrorKind::UnexpectedEof if BUSY.iter().any(|words| stderr.contains(words)) => {
                    (
                        io::ErrorKind::ConnectionReset,
                        "the host hung up".to_owned(),
                    )
                }
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
                "dedup-shard there is of protocol and version '{}', here of '{}'; install the same, or use {}",
                version(&line),
                version(&expected),
                Setting::ShipBinaries
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        connection.get_mut().set_limit(stall);
        Ok(Self {
            connection,
            pending: Vec::new(),
            heard: Instant::now(),
        })
    }

    /// Whether the connection was idle for so long that a server may have closed it.
    pub fn is_stale(&self) -> bool {
        self.heard.elapsed() > STALE
    }

    /// Sends a request and returns the answer.
    pub fn ask(&mut self, request: &Message) -> Result<Message, TransferError> {
        self.send_message(request)?;
        self.answer()
    }

    pub fn answer(&mut self) -> Result<Message, TransferError> {
        match self.receive_message()? {
            Message::Error {
                cause: ErrorCause::Source,
                what,
                paths,
            } if !paths.is_empty() => Err(TransferError::DamagedFiles(paths, what)),
            Message::Error { cause, what, .. } => Err(TransferError::Reported(cause, what)),
            answer => Ok(answer),
        }
    }

    fn done(&mut self) -> Result<u64, TransferError> {
        match self.answer()? {
            Message::Done { bytes } => Ok(bytes),
            _ => Err(out_of_turn()),
        }
    }

    pub fn order(&mut self, request: &Message) -> Result<u64, TransferError> {
        self.send_message(request)?;
        self.done()
    }

    /// The files that the host has, and the mark of its directory.
    pub fn inventory(&mut self) -> Result<(Vec<String>, Option<String>), TransferError> {
        match self.ask(&Message::Inventory)? {
            Message::Have { paths, directory } => Ok((paths, directory)),
            _ => Err(out_of_turn()),
        }
    }

    /// The programs of these that the host lacks.
    pub fn lacking_programs(&mut self, names: &[String]) -> Result<Vec<String>, TransferError> {
        let request = Message::Programs {
            names: names.to_vec(),
        };
        match self.ask(&request)? {
            Message::Lack { names } => Ok(names),
            _ => Err(out_of_turn()),
        }
    }

    /// Copies a file or directory to the host. Returns the bytes sent.
    pub fn put(&mut self, path: &str, keep: bool, source: &Path) -> Result<u64, TransferError> {
        let items = list(source)?;
        self.send_message(&Message::Put {
            path: path.to_owned(),
            items: items.clone(),
            keep,
        })?;
        // If a file changed meanwhile, the answer only repeats that error.
        match send_wanted(self, source, &items) {
            Err(TransferError::Damaged(what)) => {
                let _ = self.done();
                Err(TransferError::Damaged(what))
            }
            sent => sent.and_then(|_| self.done()),
        }
    }

    /// Lists the files of a path on the host, which then waits for the names of the wanted ones.
    pub fn items(&mut self, path: &str, keep: bool) -> Result<Vec<TransferItem>, TransferError> {
        match self.ask(&Message::Get {
            path: path.to_owned(),
            keep,
        })? {
            Message::Items { items } => Ok(items),
            _ => Err(out_of_turn()),
        }
    }

    /// Copies a path from the host. Returns the bytes received, and the list of its files.
    pub fn get(
        &mut self,
        path: &str,
        keep: bool,
        target: &Path,
        cache: Option<&FileCache>,
    ) -> Result<(u64, Vec<TransferItem>), TransferError> {
        let items = self.items(path, keep)?;
        let received = receive_wanted(self, target, &items, cache);
        match received {
            Ok(bytes) => self.done().map(|_| (bytes, items)),
            Err(TransferError::Disconnected(what)) => Err(TransferError::Disconnected(what)),
            Err(fault) => {
                // After one more answer the connection can be used again.
                let _ = self.done();
                Err(fault)
            }
        }
    }

    pub fn fetch(
        &mut self,
        peer: Peer,
        paths: &[String],
        keep: bool,
    ) -> Result<u64, TransferError> {
        self.order(&Message::Fetch {
            peer,
            paths: paths.to_vec(),
            keep,
        })
    }

    /// Receives the answer that follows relayed data.
    pub fn finish_transfer(&mut self) -> Result<u64, TransferError> {
        self.done()
    }

    /// Sets the longest silence from now on.
    pub fn set_limit(&mut self, limit: Duration) {
        self.connection.get_mut().set_limit(limit);
    }

    /// Says goodbye, and waits for the worker to end.
    pub fn disconnect(mut self) -> io::Result<()> {
        self.send_message(&Message::Bye)?;
        match self.receive_message()? {
            Message::Bye => self.connection.get_mut().finish(),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Relays a path from one worker to another without storing it. Returns the bytes sent.
pub fn relay(
    from: &mut Client,
    to: &mut Client,
    path: &str,
    keep: bool,
) -> Result<u64, (bool, TransferError)> {
    // Which of the two failed: the source or the target.
    let (source, sink) = (
        |fault: TransferError| (true, fault),
        |fault: TransferError| (false, fault),
    );
    let items = from.items(path, false).map_err(source)?;
    let request = Message::Put {
        path: path.to_owned(),
        items: items.clone(),
        keep,
    };
    let numbers = match to.ask(&request) {
        Ok(Message::Want { numbers }) => numbers,
        other => {
            let _ = from.send_message(&Message::Want {
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
    from.send_message(&Message::Want { numbers })
        .map_err(|error| source(error.into()))?;
    let mut payload = Vec::new();
    while left > 0 {
        let kind = from
            .receive(&mut payload)
            .map_err(|error| source(error.into()))?;
        to.send(kind, &payload)
            .map_err(|error| sink(error.into()))?;
        if kind == FrameKind::Message {
            // The source is damaged: the target drops what it has received.
            to.flush().map_err(|error| sink(error.into()))?;
            let _ = to.finish_transfer();
            let _ = from.finish_transfer();
            return Err(source(TransferError::Damaged(format!(
                "{path}: is not whole there"
            ))));
        }
        left = left.saturating_sub(payload.len().to_u64());
    }
    to.flush().map_err(|error| sink(error.into()))?;
    from.finish_transfer().map_err(source)?;
    to.finish_transfer().map_err(|fault| match fault {
        // The target received other bytes than the source announced.
        TransferError::Reported(ErrorCause::Source, what) => source(TransferError::Damaged(what)),
        fault => sink(fault),
    })
}

/// Reads the first line of a worker, and skips what a shell printed before it.
fn read_hello(connection: &mut impl Read, limit: Duration) -> io::Result<String> {
    let (begin, mut bytes) = (Instant::now(), Vec::new());
    loop {
        let mut byte = [0];
        connection.read_exact(&mut byte)?;
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
    fn shell_output_before_the_first_line_is_skipped() {
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
