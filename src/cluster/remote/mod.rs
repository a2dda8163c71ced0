//! Programs on other machines: how they are started, and how bytes go there and back.
//!
//! Both transports carry the same: a [`Wire`] is the stdin and the stdout of a program there. What is said over it is framed, so that what is cut or altered is noticed.

mod frame;
#[cfg(feature = "ssh")]
mod known_hosts;
mod process;
mod quote;
#[cfg(feature = "ssh")]
mod ssh;
#[cfg(feature = "ssh")]
mod ssh_config;
mod system;

pub use frame::{Frame, MOST_BYTES, read_frame, write_frame};
pub use process::Process;
pub use quote::{quote, split_words};
#[cfg(feature = "ssh")]
pub use ssh::{Ssh, SshOptions};
pub use system::{die_with_parent, end_group};

use std::{
    io::{self, Read, Write},
    sync::Arc,
    time::Duration,
};

/// A machine, as whoever connects to it needs to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub name: String,
    pub user: Option<String>,
    pub port: Option<u16>,
}

/// Ends a wire at once, from any thread; whoever waits for it gets an error.
pub type Cutter = Arc<dyn Fn() + Send + Sync>;

/// A program on another machine: what is written is its stdin, what is read its stdout.
pub trait Wire: Read + Write + Send {
    /// From now on silence, or not taking what is written, for longer than this is an error.
    fn set_limit(&mut self, limit: Duration);

    /// Closes its stdin and waits for its end: an error unless it ended by itself, and well.
    fn finish(&mut self) -> io::Result<()>;

    fn cutter(&self) -> Cutter;

    /// The end of what it, or what carries it, said on stderr: for messages, once it is gone.
    fn said(&mut self) -> String;
}

/// A way to start programs on one machine.
///
/// An error of the kind `PermissionDenied` says that to try again is no use: the key of the host is wrong, or ours is refused.
pub trait Transport: Send + Sync {
    /// Starts a program; each word reaches it as it is. `limit`: for all that comes before the first byte.
    fn spawn(&self, words: &[String], limit: Duration) -> io::Result<Box<dyn Wire>>;
}
