//! What a coordinator and a worker say to each other, over stdin and stdout of the worker; and a worker to another.
//!
//! The worker begins with a line of text, [`hello`]; whatever a shell prints before it is skipped. Then both speak in frames: messages are JSON, files are frames of data, and
//! the worker beats while it lives. Each request has one answer.

use crate::cluster::remote::{Frame, write_frame};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io;

const MAGIC: &str = "dedup-shard-worker";
/// Raised when a message changes.
const PROTOCOL: u32 = 2;
/// How much of a file goes in a frame.
pub const DATA_BYTES: usize = 256 << 10;

/// The first line of a worker.
pub fn hello() -> String {
    format!("{MAGIC} {PROTOCOL} {}\n", env!("CARGO_PKG_VERSION"))
}

/// Where the first line begins in what came so far.
pub fn find_hello(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, MAGIC.as_bytes())
}

/// A file below something that is copied; the path is empty if it is itself that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    pub path: String,
    pub bytes: u64,
    /// xxh3-128 of its content.
    pub sum: String,
}

/// Whom to ask for files: a worker on another host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    pub name: String,
    pub user: Option<String>,
    pub port: Option<u16>,
    /// The command that reaches other hosts.
    pub rsh: Vec<String>,
    /// The worker and its arguments.
    pub worker: Vec<String>,
}

/// Why a worker did not do what it was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Its disk, or something else of the host.
    Lost,
    /// What was asked for is not there, or not whole.
    Source,
    /// The other host cannot be reached from there.
    Peer,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Message {
    // Requests.
    /// What there is, all of it verified. What the dead left is swept.
    Inventory,
    /// Here is something; `keep`: for later runs, too. Answered with `want`, then after the data with `done`.
    Put {
        path: String,
        items: Vec<Item>,
        keep: bool,
    },
    /// Documents of a task follow: for each `document` and its data; then `end`.
    Stage {
        task: String,
    },
    Document {
        number: usize,
        bytes: u64,
    },
    End,
    /// Something is wanted. Answered with `items`; `want` follows, and then the data.
    Get {
        path: String,
        keep: bool,
    },
    /// Get these from another host.
    Fetch {
        peer: Peer,
        paths: Vec<String>,
        keep: bool,
    },
    /// Run a task to its end; `is_staged`: its documents were sent.
    Run {
        task: String,
        is_staged: bool,
    },
    /// Remove all of this run. Files that are kept for later runs stay.
    Clean,
    /// The run is over, for now: remove what only running tasks need, and the oldest of the files that are kept for later runs.
    Prune {
        bytes: u64,
        seconds: u64,
    },
    Bye,

    // Answers.
    Have {
        paths: Vec<String>,
    },
    Items {
        items: Vec<Item>,
    },
    Want {
        numbers: Vec<usize>,
    },
    Done {
        bytes: u64,
    },
    /// `code` or `signal` of the process, and the end of what it said.
    Ran {
        code: Option<i32>,
        signal: Option<i32>,
        said: String,
        bytes: u64,
    },
    /// `paths`: what is not there, or not whole.
    Error {
        cause: Cause,
        what: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        paths: Vec<String>,
    },
}

impl Message {
    pub fn error(cause: Cause, what: String) -> Self {
        Self::Error {
            cause,
            what,
            paths: Vec::new(),
        }
    }
}

/// One end of the conversation.
pub trait Talk {
    fn send(&mut self, kind: Frame, payload: &[u8]) -> io::Result<()>;

    /// All that was sent goes now.
    fn flush(&mut self) -> io::Result<()>;

    /// The next frame that is no beat.
    fn receive(&mut self, payload: &mut Vec<u8>) -> io::Result<Frame>;

    fn say(&mut self, message: &Message) -> io::Result<()> {
        self.say_later(message)?;
        self.flush()
    }

    /// It goes with what follows.
    fn say_later(&mut self, message: &Message) -> io::Result<()> {
        self.send(Frame::Message, &serde_json::to_vec(message)?)
    }

    fn hear(&mut self) -> io::Result<Message> {
        let mut payload = Vec::new();
        match self.receive(&mut payload)? {
            Frame::Message => parse(&payload),
            Frame::Data | Frame::Beat => Err(io::Error::new(
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

/// A frame at the end of what is to be written.
pub fn push_frame(out: &mut Vec<u8>, kind: Frame, payload: &[u8]) -> io::Result<()> {
    write_frame(out, kind, payload)
}
