//! A connection to a worker that carries several conversations at a time, so that a host needs one
//! login, whatever the number of its slots.
//!
//! One thread reads and writes. It never waits for a conversation, except that it stops reading
//! while [`MOST_UNREAD`] bytes wait to be received; a thread that receives from a worker does not wait
//! for that worker meanwhile, so that they are received at last.

use crate::cluster::remote::{
    Frame, FrameKind, RemoteProgram, parse_frame, wait_for_any, write_frame,
};
use std::{
    collections::{HashMap, VecDeque},
    io::{self, Read, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Senders wait while more bytes are to be written.
const MOST_UNSENT: usize = 1 << 20;
/// Nothing is read while more bytes wait to be received.
const MOST_UNREAD: usize = 4 << 20;
/// How long the thread sleeps at most. What is to be written may wait for a window that opened with
/// bytes that were read already, so it is tried again soon.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
const LONGEST_SLEEP_TO_WRITE: Duration = Duration::from_millis(10);

/// A connection to a worker. Dropping it closes it at once.
pub struct Link {
    shared: Arc<LinkShared>,
    thread: Option<thread::JoinHandle<io::Result<()>>>,
}

struct LinkShared {
    state: Mutex<LinkState>,
    changed: Condvar,
    /// A byte here wakes the thread.
    waker: UnixStream,
}

#[derive(Default)]
struct LinkState {
    unsent: Vec<u8>,
    unread_bytes: usize,
    received: HashMap<u16, VecDeque<Frame>>,
    next_channel: u16,
    /// The longest silence.
    limit: Duration,
    failure: Option<(io::ErrorKind, String)>,
    end: LinkEnd,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum LinkEnd {
    #[default]
    Open,
    /// Close it when all is written, and wait for the worker to end.
    Finish,
    /// Close it now.
    Drop,
}

/// One conversation over a link.
pub struct LinkChannel {
    shared: Arc<LinkShared>,
    number: u16,
}

impl Link {
    /// Takes over a connection. `received`: bytes that were read from it already; `limit`: the
    /// longest silence of the worker.
    pub fn new(
        mut connection: Box<dyn RemoteProgram>,
        received: Vec<u8>,
        limit: Duration,
    ) -> io::Result<Self> {
        connection.set_blocking(false)?;
        let (waker, woken) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let shared = Arc::new(LinkShared {
            state: Mutex::new(LinkState {
                limit,
                ..LinkState::default()
            }),
            changed: Condvar::new(),
            waker,
        });
        let pump = LinkPump {
            connection,
            shared: shared.clone(),
            woken,
            received,
            to_write: Vec::new(),
            written: 0,
            heard: Instant::now(),
        };
        let thread = thread::Builder::new().spawn(move || pump.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Starts a conversation.
    pub fn open(&self) -> LinkChannel {
        let mut state = self.shared.lock();
        let number = state.next_channel;
        state.next_channel = number.wrapping_add(1);
        state.received.insert(number, VecDeque::new());
        LinkChannel {
            shared: self.shared.clone(),
            number,
        }
    }

    /// Whether the connection is still usable.
    pub fn is_alive(&self) -> bool {
        self.shared.lock().failure.is_none()
    }

    /// Sets the longest silence from now on.
    pub fn set_limit(&self, limit: Duration) {
        self.shared.lock().limit = limit;
        self.shared.wake();
    }

    /// Closes the connection, and waits for the worker to end.
    pub fn finish(mut self) -> io::Result<()> {
        self.close(LinkEnd::Finish)
    }

    fn close(&mut self, end: LinkEnd) -> io::Result<()> {
        self.shared.lock().end = end;
        self.shared.wake();
        let ended = self.thread.take().map(thread::JoinHandle::join);
        match ended {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(io::Error::other("the thread of a connection ended")),
            None => Ok(()),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.close(LinkEnd::Drop);
    }
}

impl LinkShared {
    fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, LinkState>) -> MutexGuard<'s, LinkState> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A byte that does not fit is not needed: others are there.
    fn wake(&self) {
        let _ = (&self.waker).write(&[0]);
    }
}

impl LinkState {
    fn ensure_alive(&self) -> io::Result<()> {
        match &self.failure {
            None => Ok(()),
            Some((kind, what)) => Err(io::Error::new(*kind, what.clone())),
        }
    }
}

impl LinkChannel {
    /// The number that frames of the conversation carry.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Sends frames of this channel.
    pub fn send(&self, frames: &[u8]) -> io::Result<()> {
        let mut state = self.shared.lock();
        while state.unsent.len() > MOST_UNSENT && state.failure.is_none() {
            state = self.shared.wait(state);
        }
        state.ensure_alive()?;
        state.unsent.extend_from_slice(frames);
        drop(state);
        self.shared.wake();
        Ok(())
    }

    /// Receives the next frame.
    pub fn receive(&self) -> io::Result<Frame> {
        let mut state = self.shared.lock();
        loop {
            let queue = state.received.get_mut(&self.number);
            if let Some(frame) = queue.and_then(VecDeque::pop_front) {
                state.unread_bytes -= frame.payload.len();
                let is_room_again = state.unread_bytes <= MOST_UNREAD
                    && state.unread_bytes + frame.payload.len() > MOST_UNREAD;
                drop(state);
                if is_room_again {
                    self.shared.wake();
                }
                return Ok(frame);
            }
            state.ensure_alive()?;
            state = self.shared.wait(state);
        }
    }
}

impl Drop for LinkChannel {
    /// Tells the worker that its messages are no longer read.
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let left = state.received.remove(&self.number).unwrap_or_default();
        state.unread_bytes -= left.iter().map(|frame| frame.payload.len()).sum::<usize>();
        let _ = write_frame(&mut state.unsent, FrameKind::Close, self.number, &[]);
        drop(state);
        self.shared.wake();
    }
}

/// What the thread of a link works with.
struct LinkPump {
    connection: Box<dyn RemoteProgram>,
    shared: Arc<LinkShared>,
    woken: UnixStream,
    /// What was read and is not a whole frame.
    received: Vec<u8>,
    to_write: Vec<u8>,
    written: usize,
    heard: Instant,
}

impl LinkPump {
    fn run(mut self) -> io::Result<()> {
        let pumped = self.pump();
        let ended = pumped.and_then(|end| match end {
            LinkEnd::Finish => {
                let limit = self.shared.lock().limit;
                self.connection.set_limit(limit);
                self.connection.set_blocking(true)?;
                self.connection.finish()
            }
            LinkEnd::Open | LinkEnd::Drop => Ok(()),
        });
        let (kind, what) = match &ended {
            Ok(()) => (
                io::ErrorKind::UnexpectedEof,
                "the connection was closed".to_owned(),
            ),
            Err(error) => (error.kind(), error.to_string()),
        };
        self.shared.lock().failure.get_or_insert((kind, what));
        self.shared.changed.notify_all();
        ended
    }

    /// Reads and writes until the connection is to be closed.
    fn pump(&mut self) -> io::Result<LinkEnd> {
        self.hand_out()?;
        loop {
            let (limit, end, may_read) = self.take_unsent();
            let is_written = self.to_write.is_empty();
            if end == LinkEnd::Drop || end == LinkEnd::Finish && is_written {
                return Ok(end);
            }
            let has_written = self.write()?;
            // The silence of a worker that is not listened to does not count.
            if !may_read {
                self.heard = Instant::now();
            }
            let has_read = may_read && self.read()?;
            if has_read || has_written {
                continue;
            }
            let Some(rest) = limit.checked_sub(self.heard.elapsed()) else {
                let what = format!("no sign of life for {} s", limit.as_secs_f32());
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            };
            self.sleep(rest, may_read)?;
        }
    }

    /// Takes what is to be written, if all before was. Returns the longest silence, whether the
    /// link is to be closed, and whether there is room for what arrives.
    fn take_unsent(&mut self) -> (Duration, LinkEnd, bool) {
        let mut state = self.shared.lock();
        if self.written == self.to_write.len() {
            self.written = 0;
            self.to_write.clear();
            std::mem::swap(&mut self.to_write, &mut state.unsent);
            self.shared.changed.notify_all();
        }
        (state.limit, state.end, state.unread_bytes <= MOST_UNREAD)
    }

    fn write(&mut self) -> io::Result<bool> {
        let before = self.written;
        while self.written < self.to_write.len() {
            match self.connection.write(&self.to_write[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => self.written += length,
                Err(error) if is_for_later(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(self.written > before)
    }

    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 1 << 16];
        match self.connection.read(&mut buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => {
                self.heard = Instant::now();
                self.received.extend_from_slice(&buffer[..length]);
                self.hand_out().map(|()| true)
            }
            Err(error) if is_for_later(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Hands whole frames to their conversations; those of conversations that ended are dropped.
    fn hand_out(&mut self) -> io::Result<()> {
        let mut start = 0;
        while let Some((frame, length)) = parse_frame(&self.received[start..])? {
            start += length;
            if frame.kind == FrameKind::Beat {
                continue;
            }
            let mut state = self.shared.lock();
            let bytes = frame.payload.len();
            if let Some(queue) = state.received.get_mut(&frame.channel) {
                queue.push_back(frame);
                state.unread_bytes += bytes;
                self.shared.changed.notify_all();
            }
        }
        self.received.drain(..start);
        Ok(())
    }

    fn sleep(&mut self, rest: Duration, may_read: bool) -> io::Result<()> {
        let to_write = self.written < self.to_write.len();
        let longest = if to_write {
            LONGEST_SLEEP_TO_WRITE
        } else {
            LONGEST_SLEEP
        };
        let mut descriptors = self.connection.awaited(to_write);
        descriptors.retain(|&(_, is_to_write)| may_read || is_to_write);
        descriptors.push((self.woken.as_raw_fd(), false));
        wait_for_any(&descriptors, rest.min(longest))?;
        let mut bytes = [0; 64];
        while self
            .woken
            .read(&mut bytes)
            .is_ok_and(|length| length == bytes.len())
        {}
        Ok(())
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::remote::{Address, RemoteCommand, Transport};

    /// A link to a program that returns what it gets.
    fn echo() -> Link {
        let rsh = ["sh", "-c", "exec cat", "sh"].map(str::to_owned);
        let to = Address {
            name: "far".to_owned(),
            user: None,
            port: None,
        };
        let limit = Duration::from_secs(20);
        let connection = RemoteCommand::new(&rsh, &to).spawn(&[], limit).unwrap();
        Link::new(connection, Vec::new(), limit).unwrap()
    }

    fn send(channel: &LinkChannel, payload: &[u8]) {
        let mut frame = Vec::new();
        write_frame(&mut frame, FrameKind::Data, channel.number(), payload).unwrap();
        channel.send(&frame).unwrap();
    }

    #[test]
    fn conversations_do_not_mix_nor_wait_for_each_other() {
        let link = echo();
        let channels = [link.open(), link.open(), link.open()];
        // More than fits into pipes and queues.
        let rounds = 300;
        thread::scope(|scope| {
            for (number, channel) in (1..).zip(&channels) {
                let payload = vec![number; 20_000];
                scope.spawn(move || (0..rounds).for_each(|_| send(channel, &payload)));
                scope.spawn(move || {
                    for _ in 0..rounds {
                        assert_eq!(channel.receive().unwrap().payload, vec![number; 20_000]);
                    }
                });
            }
        });
        drop(channels);
        link.finish().unwrap();
    }

    #[test]
    fn a_broken_connection_ends_all_conversations() {
        let link = echo();
        let (one, two) = (link.open(), link.open());
        send(&one, b"last");
        assert_eq!(one.receive().unwrap().payload, b"last");
        one.send(b"this is not a frame").unwrap();
        for channel in [one, two] {
            assert!(channel.receive().is_err());
            assert!(channel.send(b"x").is_err());
        }
        assert!(!link.is_alive());
    }
}
