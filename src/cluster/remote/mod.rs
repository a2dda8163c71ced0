//! Programs on other machines: how they are started, and how bytes go there and back.
//!
//! All transports give the same: a [`RemoteProgram`] is stdin and stdout of a program there. Data is
//! sent in frames with checksums.

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

pub use frame::{Frame, FrameKind, MOST_BYTES, parse_frame, read_frame, write_frame};
pub use process::RemoteCommand;
pub use quote::{quote, split_words};
#[cfg(feature = "ssh")]
pub use ssh::{Ssh, SshOptions};
pub use system::{die_with_parent, end_group, lower_own_priority, lower_priority, wait_for_any};

use std::{
    io::{self, Read, Write},
    os::fd::RawFd,
    sync::Arc,
    time::Duration,
};

/// The address of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The name or address of the machine.
    pub name: String,
    /// The user to log in as.
    pub user: Option<String>,
    /// The port of the SSH server.
    pub port: Option<u16>,
}

/// Closes a connection at once, from any thread; pending reads and writes fail.
pub type Canceller = Arc<dyn Fn() + Send + Sync>;

/// A program on another machine: writing goes to its stdin, reading comes from its stdout.
pub trait RemoteProgram: Read + Write + Send {
    /// Sets how long a read or write may block before it is an error.
    fn set_limit(&mut self, limit: Duration);

    /// Whether reads and writes wait, which they do at first, or return `WouldBlock`.
    fn set_blocking(&mut self, is_blocking: bool) -> io::Result<()>;

    /// The descriptors to wait for before reading, and before writing if `to_write`; each with
    /// whether it must be writable.
    fn awaited(&self, to_write: bool) -> Vec<(RawFd, bool)>;

    /// Closes its stdin and waits for its end; an error unless it exits with 0.
    fn finish(&mut self) -> io::Result<()>;

    /// Closes the connection from another thread.
    fn canceller(&self) -> Canceller;

    /// The end of stderr of the program, or of the command that carries it; to be called after it
    /// ended.
    fn stderr_tail(&mut self) -> String;
}

/// The most bytes that a program may send after its stdin was closed.
const REST_BYTES: usize = 1 << 20;

/// Skips what a program sends to its end, such as signs of life.
fn skip_rest(program: &mut impl Read) -> io::Result<()> {
    let (mut buffer, mut skipped) = ([0; 1 << 12], 0);
    while skipped < REST_BYTES {
        match program.read(&mut buffer)? {
            0 => return Ok(()),
            length => skipped += length,
        }
    }
    let what = "more came than was asked for";
    Err(io::Error::new(io::ErrorKind::InvalidData, what))
}

/// A way to start programs on one machine.
///
/// An error of the kind `PermissionDenied` means that trying again is useless: the key of the host
/// is wrong, or ours is refused.
pub trait Transport: Send + Sync {
    /// Starts a program with these arguments, unchanged. `limit`: the time until the first byte.
    fn spawn(&self, words: &[String], limit: Duration) -> io::Result<Box<dyn RemoteProgram>>;
}
