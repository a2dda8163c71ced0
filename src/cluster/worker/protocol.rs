//! The protocol between a run and a worker, or two workers, over stdin and stdout of the worker.
//!
//! The worker starts with a line of text, [`hello`]; readers skip anything that a shell prints before it.
//! Then both ends send frames: messages are JSON, files are frames of data, and the worker sends
//! signs of life. Each frame belongs to a channel, which is a conversation of its own: each request
//! has one answer there.

use crate::cluster::remote::FrameKind;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io;

const MAGIC: &str = "dedup-shard-worker";
/// Raised when a message changes.
const PROTOCOL: u32 = 4;
/// The most bytes of a file in one frame.
pub const DATA_BYTES: usize = 256 << 10;

/// The first line of a worker.
pub fn hello() -> String {
    let (version, build) = (env!("CARGO_PKG_VERSION"), env!("DEDUP_BUILD"));
    format!("{MAGIC} {PROTOCOL} {version} {build}\n")
}

/// What the first line of a worker says about it, for people.
pub fn describe_hello(line: &str) -> String {
    let mut words = line.split_whitespace().skip(1);
    let mut next = || words.next().unwrap_or("unknown");
    let (protocol, version, build) = (next(), next(), next());
    format!("version {version}, build {build}, protocol {protocol}")
}

/// Where the first line starts in the bytes that have arrived.
pub fn find_hello(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, MAGIC.as_bytes())
}

/// A file of a path that is copied; its own path is empty if the path is a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferItem {
    pub path: String,
    pub bytes: u64,
    /// xxh3-128 of its content.
    pub sum: String,
}

/// A path that is copied, and its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parcel {
    pub path: String,
    pub items: Vec<TransferItem>,
    /// Whether the files also stay for later runs.
    pub keep: bool,
}

/// A worker on another host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    pub name: String,
    pub user: Option<String>,
    pub port: Option<u16>,
    /// The command that connects to other hosts.
    pub rsh: Vec<String>,
    /// The worker and its arguments.
    pub worker: Vec<String>,
}

/// Why a worker could not fulfil a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCause {
    /// The disk of the host failed, or the host itself.
    Lost,
    /// The requested files are missing or damaged.
    Source,
    /// The other host cannot be reached from this one.
    Peer,
    /// The host that was to receive files cannot take them.
    Target,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Message {
    // Requests.
    /// List the intact files, and remove those of dead processes.
    Inventory,
    /// Which of these programs does the host lack? Answered with `lack`.
    Programs {
        names: Vec<String>,
    },
    /// Receive paths. Answered with `want`, then after the data with `done`.
    Put {
        parcels: Vec<Parcel>,
    },
    /// Receive the documents of a task: for each `document` and its data; then `end`.
    Stage {
        task: String,
    },
    /// `extents`: the bytes of the file that follow, each as their start and end; all if there are none.
    Document {
        number: usize,
        bytes: u64,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        extents: Vec<[u64; 2]>,
    },
    End,
    /// Send paths. Answered with `items`; `want` follows, and then the data. `keep`: also keep
    /// their files for later runs.
    Get {
        paths: Vec<String>,
        keep: bool,
    },
    /// Link to these paths of another host, which keeps its files of the run in the directory `run`
    /// beside those of this one.
    Link {
        run: String,
        paths: Vec<String>,
        keep: bool,
    },
    /// Connect to another host, unless this was done.
    Meet {
        peer: Peer,
    },
    /// Copy these paths from another host.
    Fetch {
        peer: Peer,
        paths: Vec<String>,
        keep: bool,
    },
    /// Copy these paths to another host.
    Push {
        peer: Peer,
        paths: Vec<String>,
        keep: bool,
    },
    /// Run a task to its end; `is_staged`: its documents were sent.
    Run {
        task: String,
        is_staged: bool,
    },
    /// Remove all files of this run. The cache stays.
    Clean,
    /// The run disconnects: remove what only running tasks need, and the oldest files of the cache.
    Prune {
        bytes: u64,
        seconds: u64,
    },

    // Answers.
    /// `directory`: see [`super::HostStore::directory_id`].
    Have {
        paths: Vec<String>,
        directory: Option<String>,
    },
    Lack {
        names: Vec<String>,
    },
    Items {
        parcels: Vec<Parcel>,
    },
    /// The places of the wanted files among those of all paths.
    Want {
        numbers: Vec<usize>,
    },
    Done {
        bytes: u64,
    },
    /// The exit `code` or `signal` of the process, and the end of its log.
    Ran {
        code: Option<i32>,
        signal: Option<i32>,
        #[serde(rename = "said")]
        log_end: String,
        bytes: u64,
    },
    /// `paths`: the files that are missing or damaged.
    Error {
        cause: ErrorCause,
        what: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        paths: Vec<String>,
    },
}

impl Message {
    pub fn error(cause: ErrorCause, what: String) -> Self {
        Self::Error {
            cause,
            what,
            paths: Vec::new(),
        }
    }
}

/// One end of a connection.
pub trait Conversation {
    fn send(&mut self, kind: FrameKind, payload: &[u8]) -> io::Result<()>;

    /// Writes the buffered bytes.
    fn flush(&mut self) -> io::Result<()>;

    /// Receives the next frame that is not a sign of life.
    fn receive(&mut self, payload: &mut Vec<u8>) -> io::Result<FrameKind>;

    fn send_message(&mut self, message: &Message) -> io::Result<()> {
        self.queue_message(message)?;
        self.flush()
    }

    /// Buffers a message, to be written with what follows.
    fn queue_message(&mut self, message: &Message) -> io::Result<()> {
        self.send(FrameKind::Message, &serde_json::to_vec(message)?)
    }

    fn receive_message(&mut self) -> io::Result<Message> {
        let mut payload = Vec::new();
        match self.receive(&mut payload)? {
            FrameKind::Message => parse(&payload),
            FrameKind::Data | FrameKind::Beat | FrameKind::Close => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "data came where a message was due",
            )),
        }
    }
}

pub fn parse<M: DeserializeOwned>(payload: &[u8]) -> io::Result<M> {
    serde_json::from_slice(payload).map_err(|error| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("not a message: {error}"),
        )
    })
}
