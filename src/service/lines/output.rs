//! The answers that a client has not read yet.

use crate::{
    base::codec::clear_buffer,
    service::{history::ServiceAnswer, listener::ServiceStream, memory::MemoryShare},
};
use std::{
    io,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};
use tokio::sync::{Notify, mpsc::UnboundedReceiver, oneshot};

/// A client with this many requests whose answers it has not read, or bytes of them, is not read
/// from.
const MOST_ANSWERS: usize = 1024;
const MOST_BYTES: usize = 16 << 20;

/// Answers that are due, in the order of the requests, and how many they are.
pub struct DueAnswers {
    pub answers: oneshot::Receiver<Vec<ServiceAnswer>>,
    pub count: usize,
}

/// How many answers a client has not read; both halves of a connection know it.
#[derive(Default)]
pub struct Backlog {
    answers: AtomicUsize,
    bytes: AtomicUsize,
    is_broken: AtomicBool,
    changed: Notify,
}

impl Backlog {
    /// Whether to read from the client.
    fn has_room(&self) -> bool {
        self.answers.load(Ordering::Acquire) < MOST_ANSWERS
            && self.bytes.load(Ordering::Acquire) < MOST_BYTES
    }

    /// Waits until the client has read enough; false if its connection is broken.
    pub async fn room(&self) -> bool {
        loop {
            if self.is_broken.load(Ordering::Acquire) {
                return false;
            }
            if self.has_room() {
                return true;
            }
            self.changed.notified().await;
        }
    }

    pub fn add(&self, count: usize) {
        self.answers.fetch_add(count, Ordering::AcqRel);
    }

    fn sent(&self, answers: usize, left_bytes: usize) {
        self.answers.fetch_sub(answers, Ordering::AcqRel);
        self.bytes.store(left_bytes, Ordering::Release);
        self.changed.notify_one();
    }

    fn break_off(&self) {
        self.is_broken.store(true, Ordering::Release);
        self.changed.notify_one();
    }
}

/// Answers of a client, as they are sent.
struct LineOutput {
    bytes: Vec<u8>,
    /// How many of them were sent.
    taken: usize,
    /// Answers in `bytes` that were not counted as sent.
    answers: usize,
}

/// Writes answers until no more are due, or the connection is broken.
pub async fn write_answers(
    stream: &ServiceStream,
    mut due: UnboundedReceiver<DueAnswers>,
    backlog: &Backlog,
    memory: &MemoryShare,
    with_all: bool,
) -> io::Result<()> {
    let mut output = LineOutput {
        bytes: Vec::new(),
        taken: 0,
        answers: 0,
    };
    let mut current = None;
    let mut is_open = true;
    let written = loop {
        if output.bytes.is_empty() {
            match next_answers(&mut due, &mut current).await {
                Some(answers) => output.put(&answers, with_all),
                None => break Ok(()),
            }
        } else {
            tokio::select! {
                biased;
                ready = stream.writable() => if let Err(error) = ready.and_then(|()| output.send(stream, backlog)) { break Err(error) },
                answers = next_answers(&mut due, &mut current), if is_open => match answers {
                    Some(answers) => output.put(&answers, with_all),
                    None => is_open = false,
                },
            }
        }
        output.put_ready(&mut due, &mut current, with_all);
        if let Err(error) = output.send(stream, backlog) {
            break Err(error);
        }
        memory.set_output(output.bytes.len());
    };
    if written.is_err() {
        backlog.break_off();
    }
    written
}

/// The next answers; `None` at the end. No answer is lost if the caller stops waiting.
async fn next_answers(
    due: &mut UnboundedReceiver<DueAnswers>,
    current: &mut Option<DueAnswers>,
) -> Option<Vec<ServiceAnswer>> {
    if current.is_none() {
        *current = Some(due.recv().await?);
    }
    let waiting = current.as_mut()?;
    let answers = (&mut waiting.answers).await;
    let count = waiting.count;
    *current = None;
    // The service has ended without an answer.
    Some(answers.unwrap_or_else(|_| ended(count)))
}

fn ended(count: usize) -> Vec<ServiceAnswer> {
    vec![ServiceAnswer::Failed("the service has ended".to_owned()); count]
}

impl LineOutput {
    fn put(&mut self, answers: &[ServiceAnswer], with_all: bool) {
        for answer in answers {
            answer.put(&mut self.bytes, with_all);
        }
        self.answers += answers.len();
    }

    /// Adds answers that are there already, so that they are sent together.
    fn put_ready(
        &mut self,
        due: &mut UnboundedReceiver<DueAnswers>,
        current: &mut Option<DueAnswers>,
        with_all: bool,
    ) {
        while self.bytes.len() - self.taken < MOST_BYTES {
            let Some(mut waiting) = current.take().or_else(|| due.try_recv().ok()) else {
                return;
            };
            match waiting.answers.try_recv() {
                Ok(answers) => self.put(&answers, with_all),
                Err(oneshot::error::TryRecvError::Closed) => {
                    self.put(&ended(waiting.count), with_all);
                }
                Err(oneshot::error::TryRecvError::Empty) => {
                    *current = Some(waiting);
                    return;
                }
            }
        }
    }

    /// Sends as far as the socket takes it.
    fn send(&mut self, stream: &ServiceStream, backlog: &Backlog) -> io::Result<()> {
        let before = self.taken;
        while self.taken < self.bytes.len() {
            match stream.write_now(&self.bytes[self.taken..])? {
                0 => break,
                count => self.taken += count,
            }
        }
        let sent = memchr::memchr_iter(b'\n', &self.bytes[before..self.taken]).count();
        self.answers -= sent;
        if self.taken == self.bytes.len() {
            self.taken = 0;
            clear_buffer(&mut self.bytes);
        } else if self.taken > self.bytes.len() / 2 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        backlog.sent(sent, self.bytes.len() - self.taken);
        Ok(())
    }
}
