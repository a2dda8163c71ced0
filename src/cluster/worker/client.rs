//! The client: the run's end of the connection to a worker.

use crate::base::num::ToU64;
use crate::base::setting::Setting;
use crate::cluster::remote::{FrameKind, RemoteProgram, write_frame};
use crate::cluster::{
    worker::file_cache::FileCache,
    worker::link::{Link, LinkChannel},
    worker::protocol::{
        Conversation, ErrorCause, Message, Parcel, describe_hello, find_hello, hello,
    },
    worker::transfer::{Shelf, TransferError, out_of_turn, receive_wanted, send_wanted},
};
use std::{
    io::{self, BufReader, Read},
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

/// The most bytes of shell output that are skipped before the first line of a worker.
const NOISE_BYTES: usize = 64 << 10;

/// What the ssh program prints when a server closes the connection before authentication.
const BUSY: [&str; 3] = [
    "exchange_identification",
    "Connection reset by",
    "Connection closed by",
];

/// The pauses before attempts to connect, in milliseconds; each is extended by up to its length, as
/// servers refuse many connections at once.
const CONNECTS_MS: [u64; 5] = [0, 250, 500, 1000, 2000];

/// What shells print when there is no such program.
const ABSENT: [&str; 3] = ["not found", "No such file or directory", "Unknown command"];

/// One conversation with a worker.
pub struct Client {
    channel: LinkChannel,
    pending: Vec<u8>,
}

impl Conversation for Client {
    fn send(&mut self, kind: FrameKind, payload: &[u8]) -> io::Result<()> {
        write_frame(&mut self.pending, kind, self.channel.number(), payload)?;
        if self.pending.len() > 1 << 18 {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.channel.send(&self.pending)?;
        self.pending.clear();
        Ok(())
    }

    fn receive(&mut self, payload: &mut Vec<u8>) -> io::Result<FrameKind> {
        let frame = self.channel.receive()?;
        if frame.kind == FrameKind::Close {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *payload = frame.payload;
        Ok(frame.kind)
    }
}

/// Connects, and tries again if the server seems to have too many connections. `attempts` counts
/// them, to spread repeated attempts over time.
pub fn connect_patiently<T>(
    attempts: &AtomicU32,
    mut connect: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let mut last = io::Error::from(io::ErrorKind::NotConnected);
    for rest_ms in CONNECTS_MS {
        // Multiples of the golden ratio are spread evenly.
        let attempt = u64::from(attempts.fetch_add(1, Ordering::Relaxed));
        thread::sleep(Duration::from_millis(
            rest_ms + rest_ms * (attempt * 618 % 1000) / 1000,
        ));
        match connect() {
            Err(error) if is_passing(&error) => last = error,
            connected => return connected,
        }
    }
    Err(last)
}

/// Whether the next attempt may succeed: OpenSSH refuses some connections when many come at once.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::Interrupted
    )
}

impl Link {
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
                kind @ io::ErrorKind::UnexpectedEof
                    if ABSENT.iter().any(|words| last.contains(words)) =>
                {
                    let remedy = format!("install it there, or use {}", Setting::ShipBinaries);
                    let what = format!("dedup-shard did not start there{last}; {remedy}");
                    return io::Error::new(kind, what);
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
            let what = format!(
                "dedup-shard there is {}, here it is {}; install the same build there, or use {}",
                describe_hello(&line),
                describe_hello(&expected),
                Setting::ShipBinaries
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        let received = connection.buffer().to_vec();
        Self::new(connection.into_inner(), received, stall)
    }
}

impl Client {
    /// Starts a conversation over a connection.
    pub fn new(link: &Link) -> Self {
        Self {
            channel: link.open(),
            pending: Vec::new(),
        }
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

    /// Copies paths to the host, all in one go. Returns the bytes sent.
    pub fn put(&mut self, shelves: &[Shelf]) -> Result<u64, TransferError> {
        let parcels = shelves.iter().map(|shelf| shelf.parcel.clone()).collect();
        self.send_message(&Message::Put { parcels })?;
        // If a file changed meanwhile, the answer only repeats that error.
        match send_wanted(self, shelves) {
            Err(fault @ (TransferError::Damaged(_) | TransferError::DamagedFiles(..))) => {
                let _ = self.done();
                Err(fault)
            }
            sent => sent.and_then(|_| self.done()),
        }
    }

    /// Lists the files of paths on the host, which then waits for the numbers of the wanted ones.
    fn parcels(&mut self, paths: &[String], keep: bool) -> Result<Vec<Parcel>, TransferError> {
        let request = Message::Get {
            paths: paths.to_vec(),
            keep,
        };
        match self.ask(&request)? {
            Message::Items { parcels }
                if parcels.iter().map(|parcel| &parcel.path).eq(paths.iter()) =>
            {
                Ok(parcels)
            }
            _ => Err(out_of_turn()),
        }
    }

    /// Copies paths from the host, each to its target, all in one go. `keep`: the host keeps them
    /// for later runs. Returns the bytes received, and the lists of files.
    pub fn get(
        &mut self,
        paths: &[String],
        targets: &[PathBuf],
        keep: bool,
        cache: Option<&FileCache>,
    ) -> Result<(u64, Vec<Shelf>), TransferError> {
        let parcels = self.parcels(paths, keep)?;
        let shelves: Vec<Shelf> = parcels
            .into_iter()
            .zip(targets.iter().cloned())
            .map(|(parcel, root)| Shelf { root, parcel })
            .collect();
        match receive_wanted(self, &shelves, cache) {
            Ok(bytes) => self.done().map(|_| (bytes, shelves)),
            Err(TransferError::Disconnected(what)) => Err(TransferError::Disconnected(what)),
            Err(fault) => {
                // After one more answer the connection can be used again.
                let _ = self.done();
                Err(fault)
            }
        }
    }

    /// Receives the answer that follows relayed data.
    pub fn finish_transfer(&mut self) -> Result<u64, TransferError> {
        self.done()
    }
}

/// Relays paths from one worker to another without storing them; each with whether its files stay
/// there. Returns the bytes sent.
pub fn relay(
    from: &mut Client,
    to: &mut Client,
    paths: &[(String, bool)],
) -> Result<u64, (bool, TransferError)> {
    // Which of the two failed: the source or the target.
    let (source, sink) = (
        |fault: TransferError| (true, fault),
        |fault: TransferError| (false, fault),
    );
    let names: Vec<String> = paths.iter().map(|(path, _)| path.clone()).collect();
    let mut parcels = from.parcels(&names, false).map_err(source)?;
    for (parcel, (_, keep)) in parcels.iter_mut().zip(paths) {
        parcel.keep = *keep;
    }
    let sizes: Vec<u64> = parcels
        .iter()
        .flat_map(|parcel| &parcel.items)
        .map(|item| item.bytes)
        .collect();
    let numbers = match to.ask(&Message::Put { parcels }) {
        Ok(Message::Want { numbers }) => numbers,
        other => {
            let _ = from.send_message(&Message::Want {
                numbers: Vec::new(),
            });
            let _ = from.finish_transfer();
            return Err(sink(other.err().unwrap_or_else(out_of_turn)));
        }
    };
    let mut left: u64 = numbers.iter().filter_map(|&number| sizes.get(number)).sum();
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
            let fault = from.finish_transfer().err();
            return Err(source(fault.unwrap_or_else(out_of_turn)));
        }
        left = left.saturating_sub(payload.len().to_u64());
    }
    to.flush().map_err(|error| sink(error.into()))?;
    from.finish_transfer().map_err(source)?;
    to.finish_transfer().map_err(|fault| match fault {
        // The target received other bytes than the source announced.
        TransferError::Reported(ErrorCause::Source, what) => source(TransferError::Damaged(what)),
        fault @ TransferError::DamagedFiles(..) => source(fault),
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
