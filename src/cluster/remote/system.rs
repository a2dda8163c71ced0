//! System calls that the standard library lacks.

use std::{io, os::fd::RawFd, process::Command, time::Duration};

/// Waits until something can be read or written; an error of the kind `TimedOut` after `limit`.
pub(super) fn wait_for(fd: RawFd, is_for_writing: bool, limit: Duration) -> io::Result<()> {
    let milliseconds = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
    let mut asked = libc::pollfd {
        fd,
        events: if is_for_writing {
            libc::POLLOUT
        } else {
            libc::POLLIN
        },
        revents: 0,
    };
    loop {
        // SAFETY: one descriptor, which lives as long as the call.
        match unsafe { libc::poll(&raw mut asked, 1, milliseconds) } {
            0 => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("no sign of life for {} s", limit.as_secs_f32()),
                ));
            }
            1 => return Ok(()),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// Waits until one of some descriptors can be read or, where it says so, written, or until `limit`
/// is over.
pub fn wait_for_any(descriptors: &[(RawFd, bool)], limit: Duration) -> io::Result<()> {
    let milliseconds = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
    let polled = |&(fd, to_write): &(RawFd, bool)| libc::pollfd {
        fd,
        events: if to_write {
            libc::POLLOUT
        } else {
            libc::POLLIN
        },
        revents: 0,
    };
    let mut polled: Vec<libc::pollfd> = descriptors.iter().map(polled).collect();
    let count = libc::nfds_t::try_from(polled.len()).unwrap_or_default();
    // SAFETY: as many descriptors as are there, which live as long as the call.
    let found = unsafe { libc::poll(polled.as_mut_ptr(), count, milliseconds) };
    if found < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(())
}

/// Makes reads or writes of a descriptor wait, or not.
pub(super) fn set_blocking(fd: RawFd, is_blocking: bool) -> io::Result<()> {
    // SAFETY: reads and sets flags of a descriptor that the caller owns.
    let is_set = unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        let wanted = if is_blocking {
            flags & !libc::O_NONBLOCK
        } else {
            flags | libc::O_NONBLOCK
        };
        flags >= 0 && libc::fcntl(fd, libc::F_SETFL, wanted) == 0
    };
    if is_set {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The process leads a group of its own, and is killed when the thread that started it ends.
pub fn die_with_parent(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
    #[cfg(target_os = "linux")]
    {
        let parent = std::process::id();
        // SAFETY: two system calls between fork and exec, no memory is touched.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                // The parent may have died before.
                if u32::try_from(libc::getppid()) == Ok(parent) {
                    Ok(())
                } else {
                    Err(io::Error::from_raw_os_error(libc::ESRCH))
                }
            });
        }
    }
}

/// The process has a lower priority than this one, as if the program nice started it.
pub fn lower_priority(command: &mut Command, nice: u8) {
    use std::os::unix::process::CommandExt;
    if nice > 0 {
        // SAFETY: one system call between fork and exec, no memory is touched.
        unsafe {
            command.pre_exec(move || {
                lower_own_priority(nice);
                Ok(())
            });
        }
    }
}

/// Lowers the priority of this thread, and of those that it starts.
pub fn lower_own_priority(nice: u8) {
    // SAFETY: changes the priority of the caller only. It cannot fail, as the priority is not raised.
    unsafe {
        libc::nice(nice.into());
    }
}

/// Kills a process that leads its group, with its descendants.
pub fn end_group(leader: u32) {
    if let Ok(group) = i32::try_from(leader)
        && group > 1
    {
        // SAFETY: sends a signal to a group that the caller made.
        unsafe {
            libc::kill(-group, libc::SIGKILL);
        }
    }
}

/// A connection whose other end is gone or cut off fails after `limit`; an idle one does not.
#[cfg(feature = "ssh")]
pub(super) fn set_tcp_limits(fd: RawFd, limit: Duration) -> io::Result<()> {
    let seconds = i32::try_from(limit.as_secs() / 4)
        .unwrap_or(i32::MAX)
        .clamp(1, 10);
    set(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    #[cfg(target_os = "linux")]
    {
        set(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds)?;
        set(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, seconds)?;
        set(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3)?;
        set(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_USER_TIMEOUT,
            i32::try_from(limit.as_millis()).unwrap_or(i32::MAX),
        )?;
    }
    Ok(())
}

#[cfg(feature = "ssh")]
fn set(fd: RawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the option is an int that lives as long as the call.
    let done = unsafe {
        libc::setsockopt(
            fd,
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
