//! A thread that has the history, and answers the requests of all clients together.

use super::{HistoryService, HistoryStatus, ServiceAnswer, ServiceRequest};
use crate::{
    base::{
        error::{Error, Result},
        parallel::lock,
    },
    history::{
        MatchLimits, PrintSimilarity, Ratio, Request,
        backend::{HistoryBackend, ReplyMatch},
    },
    service::ServiceControl,
    text::scheme::PrintScheme,
};
use std::{
    collections::VecDeque,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// The limits of a batch: more requests are cheaper together, but each waits for all.
const LEAST_BATCH: usize = 16;
const MOST_BATCH: usize = 1024;
/// A batch that takes longer was too large.
const LONG: Duration = Duration::from_millis(40);

/// How often the state is reported where there are no requests: journals are synced meanwhile.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// What requests may ask for.
#[derive(Debug, Clone, Copy)]
pub struct HistoryRules {
    /// Whether to add documents, unless a request says otherwise; if not, nothing is removed either.
    pub add: bool,
    /// Which matches answers contain. With a limit above one, answers list all of them.
    pub limits: MatchLimits,
}

/// A history in a thread of its own.
pub struct HistoryThread {
    scheme: PrintScheme,
    rules: HistoryRules,
    status: Arc<Mutex<HistoryStatus>>,
    /// `None` once it is closed.
    queue: Mutex<Option<Sender<SubmittedRequests>>>,
    thread: Mutex<Option<JoinHandle<Result<()>>>>,
}

/// The requests of a client, and where their answers go.
struct SubmittedRequests {
    requests: Vec<ServiceRequest>,
    reply: oneshot::Sender<Vec<ServiceAnswer>>,
}

impl HistoryThread {
    /// Starts the thread. If the history fails, it stops the server.
    pub fn start(
        backend: Box<dyn HistoryBackend>,
        rules: HistoryRules,
        control: ServiceControl,
    ) -> Result<Self> {
        let (queue, submitted) = mpsc::channel();
        let scheme = backend.scheme().clone();
        let status = Arc::new(Mutex::new(HistoryStatus {
            hello: backend.hello(),
            not_ready: backend.not_ready(),
            unsynced_bytes: backend.unsynced_bytes(),
        }));
        let engine = AnswerEngine {
            backend: Some(backend),
            rules,
            most: LEAST_BATCH,
            failed: None,
            status: status.clone(),
            control,
        };
        let thread = thread::Builder::new()
            .name("history".to_owned())
            .spawn(move || engine.run(&submitted))
            .map_err(|error| Error::io("the thread of the history", error))?;
        Ok(Self {
            scheme,
            rules,
            status,
            queue: Mutex::new(Some(queue)),
            thread: Mutex::new(Some(thread)),
        })
    }
}

impl HistoryService for HistoryThread {
    fn scheme(&self) -> &PrintScheme {
        &self.scheme
    }

    fn rules(&self) -> HistoryRules {
        self.rules
    }

    fn submit(&self, requests: Vec<ServiceRequest>, reply: oneshot::Sender<Vec<ServiceAnswer>>) {
        // After the end nothing answers, and the sender is dropped.
        if let Some(queue) = &*lock(&self.queue) {
            let _ = queue.send(SubmittedRequests { requests, reply });
        }
    }

    fn status(&self) -> HistoryStatus {
        lock(&self.status).clone()
    }

    fn close(&self) -> Result<()> {
        *lock(&self.queue) = None;
        match lock(&self.thread).take().map(JoinHandle::join) {
            Some(Ok(closed)) => closed,
            Some(Err(_)) => Err(died()),
            None => Ok(()),
        }
    }
}

fn died() -> Error {
    Error::Usage("the thread that answers died".to_owned())
}

/// Answers requests; after a failure every answer is that error.
struct AnswerEngine {
    /// `None` after a failure, and when closed.
    backend: Option<Box<dyn HistoryBackend>>,
    rules: HistoryRules,
    /// The size of the next batch.
    most: usize,
    failed: Option<Error>,
    status: Arc<Mutex<HistoryStatus>>,
    control: ServiceControl,
}

impl AnswerEngine {
    /// Answers until all senders are gone; then everything is on disk.
    fn run(mut self, submitted: &Receiver<SubmittedRequests>) -> Result<()> {
        loop {
            let first = match submitted.recv_timeout(REPORT_EVERY) {
                Ok(first) => first,
                Err(RecvTimeoutError::Timeout) => {
                    self.report_status();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return self.close(),
            };
            let mut count = first.requests.len();
            let mut waiting = VecDeque::from([first]);
            while count < self.most
                && let Ok(next) = submitted.try_recv()
            {
                count += next.requests.len();
                waiting.push_back(next);
            }
            self.answer_all(waiting);
            self.report_status();
        }
    }

    /// Answers all requests in batches; a client gets its answers when the last of them is there.
    fn answer_all(&mut self, mut waiting: VecDeque<SubmittedRequests>) {
        let mut requests = Vec::new();
        let mut ends = Vec::with_capacity(waiting.len());
        for one in &mut waiting {
            requests.append(&mut one.requests);
            ends.push(requests.len());
        }
        let (mut answers, mut done, mut delivered) = (VecDeque::new(), 0, 0);
        while done < requests.len() {
            let end = requests.len().min(done + self.most);
            answers.extend(self.answer(&mut requests[done..end]));
            done = end;
            while ends.get(delivered).is_some_and(|&end| end <= done)
                && let Some(next) = waiting.pop_front()
            {
                let start = delivered.checked_sub(1).map_or(0, |before| ends[before]);
                let own = answers.drain(..ends[delivered] - start).collect();
                delivered += 1;
                // The client may be gone.
                drop(next.reply.send(own));
            }
        }
    }

    fn answer(&mut self, batch: &mut [ServiceRequest]) -> Vec<ServiceAnswer> {
        if let Some(backend) = &mut self.backend {
            let (start, rules) = (Instant::now(), self.rules);
            let answered = panic::catch_unwind(AssertUnwindSafe(|| {
                answer_batch(&mut **backend, rules, batch)
            }));
            match answered.unwrap_or_else(|_| Err(died())) {
                Ok(answers) => {
                    self.most = next_batch(self.most, batch.len(), start.elapsed());
                    return answers;
                }
                // Its state may be inconsistent, so it is not used again.
                Err(error) => {
                    (self.backend, self.failed) = (None, Some(error));
                    self.control.stop();
                }
            }
        }
        let error = self
            .failed
            .as_ref()
            .map(Error::to_string)
            .unwrap_or_default();
        vec![ServiceAnswer::Failed(error); batch.len()]
    }

    fn report_status(&self) {
        let mut status = lock(&self.status);
        match &self.backend {
            Some(backend) => {
                status.hello = backend.hello();
                status.unsynced_bytes = backend.unsynced_bytes();
                status.not_ready = backend.not_ready();
            }
            None => status.not_ready = self.failed.as_ref().map(Error::to_string),
        }
    }

    /// Returns when all additions are on disk; returns the error of an earlier failure.
    fn close(&mut self) -> Result<()> {
        match (self.failed.take(), self.backend.take()) {
            (Some(error), _) => Err(error),
            (None, backend) => backend.map_or(Ok(()), HistoryBackend::close),
        }
    }
}

/// The size of the next batch, if at most `most` were allowed and `count` took so long: doubled or
/// halved.
fn next_batch(most: usize, count: usize, took: Duration) -> usize {
    let next = if took > LONG {
        count / 2
    } else if count == most {
        2 * most
    } else {
        most
    };
    next.clamp(LEAST_BATCH, MOST_BATCH)
}

/// An answer for each request. Documents that follow each other are one batch for the backend.
fn answer_batch(
    backend: &mut dyn HistoryBackend,
    rules: HistoryRules,
    batch: &mut [ServiceRequest],
) -> Result<Vec<ServiceAnswer>> {
    let mut answers = Vec::with_capacity(batch.len());
    let is_like = |one: &ServiceRequest| matches!(one, ServiceRequest::Like { .. });
    for run in batch.chunk_by_mut(|one, two| is_like(one) && is_like(two)) {
        match &mut run[0] {
            ServiceRequest::Like { .. } => ask(backend, rules, run, &mut answers)?,
            ServiceRequest::Remove(_) if !rules.add => answers.push(ServiceAnswer::Refused(
                "nothing can be removed: the history is read-only".to_owned(),
            )),
            ServiceRequest::Remove(id) => {
                answers.push(ServiceAnswer::Removed(backend.remove(id)?));
            }
            ServiceRequest::Hello => answers.push(ServiceAnswer::Hello(backend.hello())),
            ServiceRequest::Wrong(what) => {
                answers.push(ServiceAnswer::Refused(std::mem::take(what)));
            }
        }
    }
    Ok(answers)
}

fn ask(
    backend: &mut dyn HistoryBackend,
    rules: HistoryRules,
    run: &mut [ServiceRequest],
    answers: &mut Vec<ServiceAnswer>,
) -> Result<()> {
    let request = |one| match one {
        &ServiceRequest::Like {
            ref id, print, add, ..
        } => Some(Request {
            id,
            print,
            add: rules.add && add.unwrap_or(true),
        }),
        _ => None,
    };
    let requests: Vec<_> = run.iter().filter_map(request).collect();
    let replies = backend.ask(&requests)?;
    for (one, mut reply) in run.iter_mut().zip(replies) {
        if let ServiceRequest::Like {
            id,
            add,
            min_similarity,
            top,
            ..
        } = one
        {
            reply.is_left_out |= *add == Some(true) && !rules.add;
            if let Some(min_similarity) = *min_similarity {
                reply.matches.retain(|found| reaches(found, min_similarity));
            }
            reply.matches.truncate(top.unwrap_or(usize::MAX));
            let id = std::mem::take(id);
            answers.push(ServiceAnswer::Like { id, reply });
        }
    }
    Ok(())
}

/// Compares exactly, though an upstream server gives six decimals only.
fn reaches(found: &ReplyMatch, min_similarity: Ratio) -> bool {
    PrintSimilarity::from_similarity(found.similarity)
        .is_none_or(|similarity| similarity.is_at_least(min_similarity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::num::ToU32,
        history::backend::{CardinalityRange, HelloReply, MatchReply, RemovalReply},
        text::token::{Rule, Tokenizer},
    };

    /// Answers nothing; dies of the id `die`.
    struct Mortal(PrintScheme);

    impl HistoryBackend for Mortal {
        fn scheme(&self) -> &PrintScheme {
            &self.0
        }

        fn hello(&self) -> HelloReply {
            HelloReply {
                scheme: self.0.to_string(),
                buckets: CardinalityRange::ALL,
                entries: 0,
                min_similarity: 1.0,
                top: 1,
                identity: String::new(),
                arrived: 0,
                log: None,
            }
        }

        fn ask(&mut self, requests: &[Request<'_>]) -> Result<Vec<MatchReply>> {
            assert!(
                requests.iter().all(|request| request.id != "die"),
                "on purpose"
            );
            Ok(vec![MatchReply::default(); requests.len()])
        }

        fn ask_and_deliver(
            &mut self,
            _: &[Request<'_>],
            _: &mut dyn FnMut(&[MatchReply]) -> Result<()>,
        ) -> Result<()> {
            Ok(())
        }

        fn remove(&mut self, _: &str) -> Result<RemovalReply> {
            Ok(RemovalReply::default())
        }

        fn close(self: Box<Self>) -> Result<()> {
            Ok(())
        }
    }

    fn mortal() -> (HistoryThread, ServiceControl) {
        let tokens = Tokenizer::new(Rule::Word, false).scheme();
        let rules = HistoryRules {
            add: true,
            limits: MatchLimits {
                min_similarity: Ratio::ALL,
                top: 1,
            },
        };
        let control = ServiceControl::default();
        let backend = Box::new(Mortal(PrintScheme { tokens }));
        let thread = HistoryThread::start(backend, rules, control.clone()).unwrap();
        (thread, control)
    }

    fn like(id: &str) -> ServiceRequest {
        ServiceRequest::Like {
            id: id.into(),
            print: None,
            add: None,
            min_similarity: None,
            top: None,
        }
    }

    fn ask(history: &HistoryThread, requests: Vec<ServiceRequest>) -> Vec<ServiceAnswer> {
        let (reply, answers) = oneshot::channel();
        history.submit(requests, reply);
        answers.blocking_recv().unwrap()
    }

    /// However batches are divided, each client gets its own answers, in order.
    #[test]
    fn clients_get_the_answers_to_their_own_requests() {
        let (history, control) = mortal();
        let mut waiting = Vec::new();
        for client in 0..40_usize {
            let requests = (0..client * 3).map(|at| match at % 3 {
                0 => ServiceRequest::Remove("x".into()),
                1 => ServiceRequest::Wrong(format!("{client}-{at}")),
                _ => like(&format!("{client}-{at}")),
            });
            let (reply, answers) = oneshot::channel();
            history.submit(requests.collect(), reply);
            waiting.push(answers);
        }
        for (client, answers) in waiting.into_iter().enumerate() {
            let answers = answers.blocking_recv().unwrap();
            assert_eq!(answers.len(), client * 3);
            for (at, answer) in answers.iter().enumerate() {
                let own = format!("{client}-{at}");
                match answer {
                    ServiceAnswer::Like { id, .. } => assert_eq!(**id, *own),
                    ServiceAnswer::Refused(what) => assert_eq!(*what, own),
                    other => assert!(at % 3 == 0 && matches!(other, ServiceAnswer::Removed(_))),
                }
            }
        }
        history.close().unwrap();
        assert!(!control.is_stopped());
        let (reply, answers) = oneshot::channel();
        history.submit(vec![like("late")], reply);
        assert!(answers.blocking_recv().is_err());
    }

    #[test]
    fn a_panic_ends_the_server_with_an_error() {
        let (history, control) = mortal();
        assert_eq!(ask(&history, vec![like("a")]).len(), 1);
        let expected = ServiceAnswer::Failed("the thread that answers died".to_owned());
        assert_eq!(
            ask(&history, vec![like("die"), like("b")]),
            [expected.clone(), expected.clone()]
        );
        assert_eq!(ask(&history, vec![like("c")]), [expected]);
        assert!(control.is_stopped());
        while history.status().not_ready.is_none() {
            thread::yield_now();
        }
        assert!(history.close().is_err());
    }

    #[test]
    fn batches_adapt_to_the_time_they_take() {
        let after = |pace: Duration| {
            (0..20).fold(LEAST_BATCH, |most, _| {
                next_batch(most, most, pace * most.to_u32())
            })
        };
        assert_eq!(after(Duration::from_micros(20)), MOST_BATCH);
        assert_eq!(after(Duration::from_secs(1)), LEAST_BATCH);
        assert!((32..=64).contains(&after(Duration::from_millis(1))));
        // If a large batch takes as long as a small one, batches grow.
        assert_eq!(
            (0..20).fold(LEAST_BATCH, |most, _| next_batch(most, most, LONG)),
            MOST_BATCH
        );
        // A small batch says nothing about the limit.
        assert_eq!(next_batch(64, 3, Duration::from_millis(1)), 64);
    }
}
