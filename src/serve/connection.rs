//! One client: a thread that reads its lines, and one that writes those of its answers that it does not take at once.

use super::{
    budget::{Budget, SHARE_BYTES},
    queue::Job,
    request::{Asked, RequestReader},
    server::Shared,
    wait::wait,
};
use crate::{
    format::empty,
    online::{LINE_BYTES, Stream},
};
use std::{
    io::{self, Read, Write},
    net::Shutdown,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

/// Requests of a client that are under way, and the bytes of them and of their answers.
const MOST_REQUESTS: usize = 1024;
const MOST_BYTES: usize = 16 << 20;
/// Requests that are handed over together.
const TOGETHER: usize = 256;
const READ_BYTES: usize = 32 << 10;
/// How often who waits for a client looks whether it is time to stop.
const LOOK: Duration = Duration::from_millis(100);
/// How long a long line waits for those of other clients.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a client may take to close its side, once all is said.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// The answers of a client that are not written yet.
pub struct Answers {
    stream: Arc<Stream>,
    state: Mutex<State>,
    budget: Arc<Budget>,
    /// Something can be written, or nothing more will come.
    ready: Condvar,
    /// Something was written.
    room: Condvar,
}

#[derive(Default)]
struct State {
    lines: Vec<u8>,
    /// How many answers these are, and what their requests weigh.
    answered: usize,
    answered_bytes: usize,
    /// Of requests whose answers are not written.
    requests: usize,
    request_bytes: usize,
    is_read: bool,
    /// Who reads waits for room.
    wants_room: bool,
    /// Its thread has answers that it has not written yet.
    is_writing: bool,
    /// It takes no more answers.
    is_gone: bool,
}

impl Answers {
    pub fn new(stream: Arc<Stream>, budget: Arc<Budget>) -> Self {
        Self { stream, state: Mutex::default(), budget, ready: Condvar::new(), room: Condvar::new() }
    }

    /// Writes the answers of some requests that weighed so much, as far as the client takes them at once; its thread writes the rest.
    pub fn append(&self, lines: &[u8], count: usize, bytes: usize) {
        let mut state = self.lock();
        let mut left = lines;
        if state.answered == 0 && !state.is_writing && !state.is_gone {
            match self.stream.write_now(lines) {
                Ok(written) => left = &lines[written..],
                Err(_) => state.is_gone = true,
            }
            if left.is_empty() || state.is_gone {
                return self.settle(state, (count, bytes));
            }
        }
        if !state.is_gone {
            state.lines.extend_from_slice(left);
            self.budget.take(left.len());
        }
        state.answered += count;
        state.answered_bytes += bytes;
        drop(state);
        self.ready.notify_one();
    }

    /// Waits until there is room for requests; false if no answer can be given any more.
    fn reserve(&self, count: usize, bytes: usize, shared: &Shared) -> bool {
        let mut state = self.lock();
        let is_full = |state: &State| {
            let bytes = state.request_bytes + state.lines.len();
            state.requests + count > MOST_REQUESTS || bytes > MOST_BYTES || bytes > SHARE_BYTES && self.budget.is_spent()
        };
        // What was read before the end is answered, room or not.
        while !state.is_gone && state.requests > 0 && is_full(&state) && !shared.stopping.load(Ordering::Relaxed) {
            state.wants_room = true;
            state = self.room.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.wants_room = false;
        state.requests += count;
        state.request_bytes += bytes;
        self.budget.take(bytes);
        !state.is_gone
    }

    fn finish_reading(&self) {
        self.lock().is_read = true;
        self.ready.notify_one();
    }

    /// Waits for answers to write; none when all are written.
    fn next(&self, lines: &mut Vec<u8>) -> Option<(usize, usize)> {
        let mut state = self.lock();
        while state.answered == 0 {
            if state.is_read && state.requests == 0 {
                return None;
            }
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut state.lines, lines);
        state.is_writing = true;
        Some((std::mem::take(&mut state.answered), std::mem::take(&mut state.answered_bytes)))
    }

    fn wrote(&self, written: (usize, usize), is_gone: bool) {
        let mut state = self.lock();
        state.is_writing = false;
        state.is_gone |= is_gone;
        self.settle(state, written);
    }

    /// No answer can be given any more, to these requests and all others.
    fn give_up(&self, requests: (usize, usize)) {
        let mut state = self.lock();
        state.is_gone = true;
        self.settle(state, requests);
    }

    /// Some requests are answered for good.
    fn settle(&self, mut state: MutexGuard<'_, State>, (count, bytes): (usize, usize)) {
        state.requests -= count.min(state.requests);
        let bytes = bytes.min(state.request_bytes);
        state.request_bytes -= bytes;
        self.budget.give(bytes);
        let (is_done, wants_room) = (state.is_read && state.requests == 0, state.wants_room);
        drop(state);
        if wants_room {
            self.room.notify_one();
        }
        if is_done {
            self.ready.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.budget.give(state.request_bytes + state.lines.len());
    }
}

/// Serves a client to its end.
pub fn converse(stream: &Arc<Stream>, reader: RequestReader, shared: &Arc<Shared>) {
    let answers = Arc::new(Answers::new(stream.clone(), shared.budget.clone()));
    let writer = {
        let (stream, answers, shared) = (stream.clone(), answers.clone(), shared.clone());
        thread::Builder::new().spawn(move || write_answers(&stream, &answers, &shared))
    };
    if let Ok(writer) = writer {
        let block = vec![0; READ_BYTES];
        let mut reading = Reading { stream, reader, shared, answers: &answers, block, jobs: Vec::new(), weight: 0, line: 0, held: 0 };
        reading.run();
        shared.end_reading();
        answers.finish_reading();
        // A thread that writes does not panic; and if it did, there would be nobody to tell.
        let _ = writer.join();
        stream.shut(Shutdown::Write);
        drain(stream, shared);
    } else {
        shared.end_reading();
    }
}

fn write_answers(stream: &Stream, answers: &Answers, shared: &Shared) {
    let mut lines = Vec::new();
    let mut is_gone = stream.set_write_limit(LOOK).is_err();
    while let Some(count) = answers.next(&mut lines) {
        is_gone = is_gone || write_all(stream, &lines, shared).is_err();
        answers.wrote(count, is_gone);
        shared.budget.give(lines.len());
        empty(&mut lines);
    }
}

/// Writes, however long the client takes, unless that is longer than there is time at the end.
fn write_all(mut stream: &Stream, mut bytes: &[u8], shared: &Shared) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if is_late(&error) && !shared.giving_up.load(Ordering::Relaxed) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_late(error: &io::Error) -> bool {
    [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&error.kind())
}

/// Reads what still comes, and lets it be: a socket that is closed before that takes answers with it that are on their way.
fn drain(mut stream: &Stream, shared: &Shared) {
    let (deadline, mut bytes) = (Instant::now() + LAST_WAIT, [0; 4096]);
    let _ = stream.set_read_limit(LOOK);
    while Instant::now() < deadline && !shared.giving_up.load(Ordering::Relaxed) {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Err(error) if !is_late(&error) => return,
            _ => {}
        }
    }
}

/// Reads the lines of a client.
struct Reading<'c> {
    stream: &'c Stream,
    reader: RequestReader,
    shared: &'c Shared,
    answers: &'c Arc<Answers>,
    block: Vec<u8>,
    /// Not handed over yet.
    jobs: Vec<Job>,
    weight: usize,
    line: u64,
    /// What it has of the budget for its lines.
    held: usize,
}

impl Reading<'_> {
    /// Until its end, or ours.
    fn run(&mut self) {
        let (mut buffer, mut scanned) = (Vec::new(), 0);
        while let Some(count) = self.read(&mut buffer) {
            if count == 0 {
                // The last line may lack its end.
                let _ = self.take_line(&mut buffer) && self.submit();
                return;
            }
            let Some(last) = memchr::memrchr(b'\n', &buffer[scanned..]) else {
                scanned = buffer.len();
                if scanned > LINE_BYTES {
                    return self.refuse(&format!("more than {LINE_BYTES} bytes in a line"));
                }
                if !self.hold(buffer.capacity()) {
                    let most = self.shared.budget.most_bytes;
                    return self
                        .refuse(&format!("all clients together have {most} bytes, which is the most (--client-memory); try again later"));
                }
                continue;
            };
            let end = scanned + last + 1;
            let is_on = buffer[..end - 1].split_mut(|&byte| byte == b'\n').all(|line| self.take_line(line));
            if !is_on || !self.submit() {
                return;
            }
            buffer.drain(..end);
            scanned = buffer.len();
            if buffer.is_empty() {
                if buffer.capacity() > SHARE_BYTES {
                    buffer = Vec::new();
                }
                self.reader.give_back();
            }
            self.let_go(buffer.capacity());
        }
    }

    /// Takes a buffer of so many bytes from the budget, as far as it is more than a client's share; false if there is no room for it.
    fn hold(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(SHARE_BYTES).saturating_sub(self.held);
        let is_held = more == 0 || self.shared.budget.wait_for(more, PATIENCE);
        self.held += if is_held { more } else { 0 };
        is_held
    }

    /// Gives back what a buffer of so many bytes does not need.
    fn let_go(&mut self, bytes: usize) {
        let less = self.held.saturating_sub(bytes.saturating_sub(SHARE_BYTES));
        self.held -= less;
        if less > 0 {
            self.shared.budget.give(less);
        }
    }

    /// Appends what comes; none when it is time to stop, or the connection is broken.
    fn read(&mut self, buffer: &mut Vec<u8>) -> Option<usize> {
        loop {
            match wait(self.stream, &self.shared.stop, None) {
                Ok([_, true]) | Err(_) => return None,
                Ok([false, false]) => continue,
                Ok([true, false]) => {}
            }
            let mut stream = self.stream;
            match stream.read(&mut self.block) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted || is_late(&error) => {}
                Err(_) => return None,
                Ok(count) => {
                    buffer.extend_from_slice(&self.block[..count]);
                    return Some(count);
                }
            }
        }
    }

    fn take_line(&mut self, line: &mut [u8]) -> bool {
        self.line += 1;
        if let Some(asked) = self.reader.read(line, self.line) {
            self.weight += asked.weight();
            self.jobs.push(Job { answers: self.answers.clone(), asked });
        }
        self.jobs.len() < TOGETHER || self.submit()
    }

    /// Hands over what was read; false if the client is gone.
    fn submit(&mut self) -> bool {
        let (count, bytes) = (self.jobs.len(), std::mem::take(&mut self.weight));
        if count == 0 {
            return true;
        }
        let jobs = std::mem::take(&mut self.jobs);
        if !self.answers.reserve(count, bytes, self.shared) {
            self.answers.give_up((count, bytes));
            return false;
        }
        let is_taken = self.shared.queue.push(jobs);
        if !is_taken {
            self.answers.give_up((count, bytes));
        }
        is_taken
    }

    fn refuse(&mut self, what: &str) {
        let what = format!("line {}: {what}; the connection is closed", self.line + 1);
        let asked = Asked::Wrong(what);
        self.weight += asked.weight();
        self.jobs.push(Job { answers: self.answers.clone(), asked });
        self.submit();
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.let_go(0);
    }
}
