//! The thread that has the history: it works on requests and entries of the log, one after the
//! other.

mod entries;
mod extent;
mod publish;

use super::{
    LogExtent, ReplicatedLog,
    own_message::{Outcome, OwnMessage, OwnedRequest, additions},
    replicated::{Event, Job, LogOptions, LogStatus},
};
use crate::{
    base::error::{Error, Result},
    history::{
        Answer, History, MatchLimits, Ratio, Request,
        backend::{
            CardinalityRange, HelloReply, LogReply, MatchReply, ProblemReporter, RemovalReply,
            ReplyMatch,
        },
        log::message::LogOperation,
        store::{log_cursor::LogMark, manifest::new_identity},
    },
    text::stream::Print,
};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

/// The time between questions for the extent of the log.
const PROBE: Duration = Duration::from_millis(250);

/// Which entries the messages of this server forget.
pub struct ForgetLimits {
    /// Those that are older.
    pub age_seconds: Option<u32>,
    /// All but this number of the newest.
    pub entries: Option<u64>,
}

/// The thread that has the history.
pub struct Applier {
    history: History,
    buckets: CardinalityRange,
    pub limits: MatchLimits,
    log: Box<dyn ReplicatedLog>,
    events: Receiver<Event>,
    options: LogOptions,
    forget: ForgetLimits,
    pub clock: fn() -> u32,
    pub tell: ProblemReporter,
    publisher: u64,
    next_message: u64,
    own: Option<OwnMessage>,
    /// The last entry that was applied.
    position: u64,
    unsynced: u32,
    /// The last entries that were applied, or recognized as repetitions.
    marks: VecDeque<LogMark>,
    /// Why the log is out of reach or not caught up with; `None` if all is well.
    trouble: Option<String>,
    /// Whether the log was told to deliver entries.
    is_following: bool,
    /// Whether the log was seen to have the last applied entry where it was.
    is_checked: bool,
    /// Whether it has to tell the log what came before its first entry.
    begins: bool,
    /// The number of the last question for the extent, when it was asked, and the last answer.
    asked: u64,
    asked_at: Option<Instant>,
    /// For the last questions what was applied when they were asked.
    positions_asked: VecDeque<(u64, u64)>,
    answered: Option<(u64, LogExtent)>,
    /// The node whose extents are trusted: a message went through the log since it was elected.
    leader: Option<String>,
    /// Since when the log has seemed to end before the entries that were applied.
    short_since: Option<Instant>,
    /// Set when the history or the log can no longer be used.
    failed: Option<String>,
    pub status: Arc<Mutex<LogStatus>>,
}

impl Applier {
    /// Nothing was heard of the log yet.
    pub fn new(
        history: History,
        log: Box<dyn ReplicatedLog>,
        events: Receiver<Event>,
        options: LogOptions,
        forget: ForgetLimits,
    ) -> Self {
        Self {
            buckets: history.cardinalities(),
            position: history.log_cursor().map_or(0, |cursor| cursor.position),
            history,
            limits: MatchLimits {
                min_similarity: Ratio::ALL,
                top: 1,
            },
            log,
            events,
            options,
            forget,
            clock: || 0,
            tell: Arc::new(|_| {}),
            publisher: random_number(),
            next_message: 1,
            own: None,
            unsynced: 0,
            marks: VecDeque::new(),
            trouble: Some("has not heard of the log yet".to_owned()),
            is_following: false,
            is_checked: false,
            begins: false,
            asked: 0,
            positions_asked: VecDeque::new(),
            answered: None,
            asked_at: None,
            leader: None,
            short_since: None,
            failed: None,
            status: Arc::default(),
        }
    }

    /// Waits for the first extent and, for a short time, until its entries were applied.
    pub fn connect(&mut self) -> Result<()> {
        let deadline = Instant::now() + self.options.patience;
        self.probe();
        while self.trouble.is_some() && self.failed.is_none() && Instant::now() < deadline {
            self.receive(deadline.min(Instant::now() + PROBE));
            self.probe();
        }
        self.ensure_usable()?;
        if self.answered.is_none() {
            self.lose("it is out of reach");
        }
        if self.begins {
            self.begin()?;
        }
        self.publish_status();
        Ok(())
    }

    /// Works until it is closed.
    pub fn run(mut self) {
        loop {
            let event = self.events.recv_timeout(PROBE);
            match event {
                Ok(Event::Job(Job::Close(reply))) => {
                    let synced = self.sync();
                    let usable = self.ensure_usable();
                    let closed = self.history.close();
                    let _ = reply.send(usable.and(synced).and(closed));
                    return;
                }
                Ok(Event::Job(job)) => self.work(job),
                Ok(Event::Log(event)) => self.take(event),
                Err(RecvTimeoutError::Timeout) => self.rest(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.publish_status();
        }
    }

    /// What is done while nothing happens.
    fn rest(&mut self) {
        if let Err(error) = self.sync() {
            self.fail(&error);
        }
        self.probe();
    }

    fn work(&mut self, job: Job) {
        match job {
            Job::Ask(requests, reply) => {
                let answers = self.ask(&requests);
                self.publish_status();
                let _ = reply.send(answers);
            }
            Job::Remove(id, reply) => {
                let removed = self.remove(id);
                self.publish_status();
                let _ = reply.send(removed);
            }
            Job::Hello(reply) => drop(reply.send(self.hello())),
            Job::Close(_) => {}
        }
    }

    fn ensure_usable(&self) -> Result<()> {
        match &self.failed {
            Some(what) => Err(Error::Usage(what.clone())),
            None => Ok(()),
        }
    }

    /// Nothing can be answered from now on.
    fn fail(&mut self, error: &Error) {
        self.failed.get_or_insert(error.to_string());
    }

    fn ask(&mut self, requests: &[OwnedRequest]) -> Result<Vec<MatchReply>> {
        self.ensure_usable()?;
        let kept: Vec<OwnedRequest> = requests.iter().map(|request| self.kept(request)).collect();
        let operations = additions(&kept);
        let outcome = if operations.is_empty() {
            self.wait_for_last()?.then(|| self.search(&kept))
        } else {
            let outcome = self.change(operations, kept.clone())?;
            outcome.map(|outcome| match outcome {
                Outcome::Answers(answers) => Ok(answers),
                Outcome::Removed(_) => Ok(Vec::new()),
            })
        };
        let is_missing = outcome.is_none();
        let answers = match outcome {
            Some(answers) => answers?,
            None => self.search(&kept)?,
        };
        let replies = answers.into_iter().zip(requests.iter().zip(&kept));
        Ok(replies
            .map(|(answer, (asked, kept))| self.reply(answer, asked.add, kept, is_missing))
            .collect())
    }

    /// The same request, which adds only what this server keeps.
    fn kept(&self, request: &OwnedRequest) -> OwnedRequest {
        let is_kept = |print: Print| self.buckets.contains(print.cardinality());
        OwnedRequest {
            add: request.add && request.print.is_some_and(is_kept),
            ..request.clone()
        }
    }

    fn reply(
        &self,
        answer: Answer,
        add: bool,
        kept: &OwnedRequest,
        is_missing: bool,
    ) -> MatchReply {
        let found = answer.matches.into_iter().map(|found| ReplyMatch {
            similarity: found.similarity.to_f64(),
            id: found.id,
        });
        MatchReply {
            matches: found.collect(),
            is_left_out: add && kept.print.is_some() && (!kept.add || is_missing),
            missing: if is_missing {
                vec![self.options.name.as_str().into()]
            } else {
                Vec::new()
            },
        }
    }

    /// Answers from what was applied, adding nothing.
    fn search(&mut self, requests: &[OwnedRequest]) -> Result<Vec<Answer>> {
        let requests: Vec<Request<'_>> = requests
            .iter()
            .map(|request| Request {
                add: false,
                ..request.request()
            })
            .collect();
        let time = self.history.last_time();
        self.history.ask_at(time, &requests, &self.limits)
    }

    fn remove(&mut self, id: String) -> Result<RemovalReply> {
        self.ensure_usable()?;
        match self.change(vec![LogOperation::Remove { id }], Vec::new())? {
            Some(Outcome::Removed(count)) => Ok(RemovalReply {
                count,
                missing: Vec::new(),
            }),
            _ => Ok(RemovalReply {
                count: 0,
                missing: vec![self.options.name.as_str().into()],
            }),
        }
    }

    /// The description that clients get.
    pub fn hello(&self) -> HelloReply {
        HelloReply {
            scheme: self.history.scheme().to_string(),
            buckets: self.buckets,
            entries: self.history.searchable_entries().unwrap_or_default(),
            min_similarity: self.limits.min_similarity.to_f64(),
            top: self.limits.top,
            identity: self.history.identity().to_owned(),
            arrived: self.history.next_sequence(),
            log: Some(LogReply {
                identity: self
                    .history
                    .log_cursor()
                    .map(|cursor| cursor.log.clone())
                    .unwrap_or_default(),
                position: self.position,
                last: self.last_known(),
                is_ready: self.not_ready().is_none(),
            }),
        }
    }
}

fn random_number() -> u64 {
    u64::from_str_radix(&new_identity()[..16], 16).unwrap_or(1)
}

fn busy() -> Error {
    Error::Usage("the history is answering another request".to_owned())
}
