//! Waits until there is something to read, or it is time to stop.

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};

/// Which of two can be read from, or have come to their end; neither when the time is over.
pub fn wait(one: &impl AsFd, two: &impl AsFd, limit: Option<Duration>) -> io::Result<[bool; 2]> {
    let entry = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut entries = [entry(one.as_fd().as_raw_fd()), entry(two.as_fd().as_raw_fd())];
    let milliseconds = limit.map_or(-1, |limit| i32::try_from(limit.as_millis()).unwrap_or(i32::MAX));
    // SAFETY: the entries are two, and both descriptors stay open as long as they are borrowed.
    let count = unsafe { libc::poll(entries.as_mut_ptr(), 2, milliseconds) };
    match count {
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok([false; 2]),
            error => Err(error),
        },
        _ => Ok(entries.map(|entry| entry.revents != 0)),
    }
}
