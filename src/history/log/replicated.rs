//! A history that follows a replicated log: the server's side.
//!
//! One thread has the history. Requests and the entries of the log come to it through one channel,
//! in which at most [`WAITING_EVENTS`] wait.

use super::{
    LogEvent, LogEvents, ReplicatedLog,
    applier::{Applier, ForgetLimits},
    own_message::{OwnedRequest, fitting},
};
use crate::{
    base::error::{Error, Problem, Result},
    history::{
        History, MatchLimits, Request, StoreOptions, SyncPolicy,
        backend::{HelloReply, HistoryBackend, MatchReply, ProblemReporter, RemovalReply},
    },
    text::scheme::PrintScheme,
};
use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Entries and requests that may wait.
const WAITING_EVENTS: usize = 256;

/// What requests do while the log is out of reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenLost {
    /// They are answered from what the server has; the log is named in `missing`, and nothing is
    /// added or removed.
    #[default]
    Say,
    /// They wait.
    Wait,
}

/// How a history follows a log.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The name of the log in answers and messages.
    pub name: String,
    /// What requests do while it is out of reach.
    pub when_lost: WhenLost,
    /// How long to wait for the log before it counts as out of reach.
    pub patience: Duration,
    /// How long the log may seem to end before what was applied: a node that was just elected may not
    /// know yet all that it has.
    pub cut_after: Duration,
    /// The history begins an empty log: what it has now comes before the first entry.
    pub begins: bool,
}

/// How far a server has followed its log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogStatus {
    /// The last entry that it applied.
    pub position: u64,
    /// The last entry of the log, as far as it knows.
    pub last: u64,
    /// Why it is not ready to answer; `None` if it is.
    pub not_ready: Option<String>,
}

/// What comes to the thread that has the history.
pub(super) enum Event {
    Log(LogEvent),
    Job(Job),
}

pub(super) enum Job {
    Ask(Vec<OwnedRequest>, mpsc::Sender<Result<Vec<MatchReply>>>),
    Remove(String, mpsc::Sender<Result<RemovalReply>>),
    Hello(mpsc::Sender<HelloReply>),
    Close(mpsc::Sender<Result<Vec<Problem>>>),
}

/// A history that follows a log.
pub struct ReplicatedHistory {
    scheme: PrintScheme,
    events: SyncSender<Event>,
    status: Arc<Mutex<LogStatus>>,
    hello: Mutex<HelloReply>,
    tell: ProblemReporter,
    thread: Option<JoinHandle<()>>,
}

impl ReplicatedHistory {
    /// Opens or creates a history and follows the log that `start` opens.
    ///
    /// Returns when the log has said what it has, and fails if that does not fit the history; if the
    /// log is out of reach, that is reported and it goes on trying.
    pub fn open(
        directory: &Path,
        options: StoreOptions,
        log_options: LogOptions,
        limits: MatchLimits,
        tell: ProblemReporter,
        start: impl FnOnce(LogEvents) -> Result<Box<dyn ReplicatedLog>>,
    ) -> Result<Self> {
        let forget = ForgetLimits {
            age_seconds: options.max_age_seconds,
            entries: options.max_entries,
        };
        let clock = options.clock;
        let options = StoreOptions {
            max_age_seconds: None,
            max_entries: None,
            // Synced after each entry of the log.
            sync: SyncPolicy::Never,
            ..options
        };
        let (history, notes) = History::open(directory, options)?;
        notes.iter().for_each(|note| tell(note));
        let (events, received) = sync_channel(WAITING_EVENTS);
        let log = start(LogEvents(events.clone()))?;
        let status = Arc::new(Mutex::new(LogStatus {
            not_ready: Some("has not heard of the log yet".to_owned()),
            ..LogStatus::default()
        }));
        let scheme = history.scheme().clone();
        let mut applier = Applier::new(history, log, received, log_options, forget);
        applier.limits = limits;
        applier.clock = clock;
        applier.tell = tell.clone();
        applier.status = status.clone();
        applier.connect()?;
        let hello = Mutex::new(applier.hello());
        let thread = thread::Builder::new()
            .name("history".to_owned())
            .spawn(move || applier.run())
            .map_err(|error| Error::io("the thread of the history", error))?;
        Ok(Self {
            scheme,
            events,
            status,
            hello,
            tell,
            thread: Some(thread),
        })
    }

    /// How far the server has followed the log.
    pub fn status(&self) -> LogStatus {
        self.status
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn send<T>(&self, job: impl FnOnce(mpsc::Sender<T>) -> Job) -> Result<T> {
        let (reply, replied) = mpsc::channel();
        let dead = || Error::Usage("the thread of the history died".to_owned());
        self.events
            .send(Event::Job(job(reply)))
            .map_err(|_| dead())?;
        replied.recv().map_err(|_| dead())
    }
}

/// A history that was not closed is closed here; what went wrong is lost.
impl Drop for ReplicatedHistory {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = self.send(Job::Close);
            let _ = thread.join();
        }
    }
}

impl HistoryBackend for ReplicatedHistory {
    fn scheme(&self) -> &PrintScheme {
        &self.scheme
    }

    fn hello(&self) -> HelloReply {
        let mut last = self.hello.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(hello) = self.send(Job::Hello) {
            *last = hello;
        }
        last.clone()
    }

    fn not_ready(&self) -> Option<String> {
        self.status().not_ready
    }

    fn ask(&mut self, requests: &[Request<'_>]) -> Result<Vec<MatchReply>> {
        let mut left: Vec<OwnedRequest> = requests.iter().map(OwnedRequest::new).collect();
        let mut replies = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let later = left.split_off(fitting(&left));
            replies.extend(self.send(|reply| Job::Ask(left, reply))??);
            left = later;
        }
        Ok(replies)
    }

    fn ask_and_deliver(
        &mut self,
        requests: &[Request<'_>],
        deliver: &mut dyn FnMut(&[MatchReply]) -> Result<()>,
    ) -> Result<()> {
        deliver(&self.ask(requests)?)
    }

    fn remove(&mut self, id: &str) -> Result<RemovalReply> {
        self.send(|reply| Job::Remove(id.to_owned(), reply))?
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        let problems = self.send(Job::Close)??;
        problems.iter().for_each(|problem| (self.tell)(problem));
        self.thread.take().map(JoinHandle::join);
        Ok(())
    }
}
