//! Combines the answers of several servers, each of which keeps prints of a range of cardinalities.
//!
//! A print goes to the server that keeps its cardinality, to be added, and to those that may have
//! similar prints: cardinalities that are too far apart rule that out. Each server answers in the
//! order of its connection, so each request sees all before it. A server that fails or is late is
//! left out, and named in answers, until it is back.
//!
//! Servers that follow one log are replicas: one of them is asked, and another one if that fails, is
//! late, or cannot answer everything. A document that is sent to both is added once.

use super::{
    CardinalityRange, HelloReply, HistoryBackend, MatchReply, ProblemReporter, RemovalReply,
    ServiceAddress,
    reconnect::Reconnector,
    upstream::{UpstreamConnection, put_hello, put_removal, put_request},
    upstream_server::{UpstreamServer, ensure_fits},
};
use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        setting::Setting,
    },
    history::{MatchLimits, Request},
    text::scheme::PrintScheme,
};
use std::{
    cmp::Reverse,
    collections::HashMap,
    time::{Duration, Instant},
};

/// The longest wait for a server.
const LIMIT: Duration = Duration::from_secs(2);
/// The same if a replica of it can be asked.
const REPLICA_LIMIT: Duration = Duration::from_millis(1500);
/// The same for a server that waits for its log: it says by itself that the log is lost.
const LOG_LIMIT: Duration = Duration::from_secs(3);
/// Requests that are sent before their answers are read: fewer than a server accepts with unread
/// answers, so that both never wait for each other.
const WINDOW_REQUESTS: usize = 512;
const WINDOW_BYTES: usize = 1 << 20;

/// Servers that answer as if they were one history.
pub struct UpstreamRouter {
    scheme: PrintScheme,
    limits: MatchLimits,
    members: Vec<UpstreamServer>,
    reconnector: Reconnector,
    tell: ProblemReporter,
}

/// Servers that keep the same cardinalities, and what they are asked.
struct Question {
    members: Vec<usize>,
    /// The places of the requests that have no answer yet.
    asked: Vec<usize>,
    /// The servers that were asked.
    tried: Vec<usize>,
    /// The server that is to answer, until when, and whether it was also asked what it has.
    sent: Option<(usize, Instant, bool)>,
}

impl UpstreamRouter {
    /// Connects to all servers. It keeps trying those that are not there; one that does not fit the
    /// others is an error.
    pub fn connect(
        addresses: &[ServiceAddress],
        scheme: Option<&PrintScheme>,
        limits: MatchLimits,
        tell: ProblemReporter,
    ) -> Result<Self> {
        let reconnector = Reconnector::start(LIMIT)?;
        let mut first_scheme = scheme.cloned();
        let mut members: Vec<UpstreamServer> = addresses.iter().map(UpstreamServer::new).collect();
        let mut absent = Vec::new();
        for number in 0..members.len() {
            let upstream = match UpstreamConnection::connect(&members[number].address, LIMIT) {
                Ok(upstream) => upstream,
                Err(error) => {
                    absent.push((number, error));
                    continue;
                }
            };
            let place = members[number].place();
            let scheme = first_scheme.get_or_insert(
                upstream
                    .hello
                    .scheme
                    .parse()
                    .map_err(|what: String| Error::damaged(place.clone(), what))?,
            );
            ensure_fits(&upstream.hello, number, &members, scheme, &limits)
                .map_err(|what| Error::damaged(place, what))?;
            members[number].come_back(upstream);
        }
        let Some(scheme) = first_scheme.filter(|_| absent.len() < members.len()) else {
            let (number, error) = absent.swap_remove(0);
            return Err(Error::io(&members[number].name, error));
        };
        for (number, error) in &absent {
            tell(&Problem::new(
                members[*number].place(),
                format!("{error}; it is left out until it is there"),
            ));
            reconnector.seek(*number, &members[*number].address, false);
        }
        let front = Self {
            scheme,
            limits,
            members,
            reconnector,
            tell,
        };
        front.tell_gaps();
        Ok(front)
    }

    /// Reports cardinalities that no server keeps.
    fn tell_gaps(&self) {
        let is_kept = |cardinality: &u32| {
            self.members.iter().any(|member| {
                member
                    .buckets()
                    .is_none_or(|buckets| buckets.contains(*cardinality))
            })
        };
        let gaps: Vec<u32> = (0..=CardinalityRange::ALL.last)
            .filter(|cardinality| !is_kept(cardinality))
            .collect();
        let runs = gaps
            .chunk_by(|one, two| one + 1 == *two)
            .filter_map(|run| CardinalityRange::new(*run.first()?, *run.last()?));
        let runs_listed: Vec<String> = runs.map(|run| run.to_string()).collect();
        if !runs_listed.is_empty() {
            let what = format!(
                "no upstream keeps cardinalities {}; such documents are compared with others, but not added",
                runs_listed.join(", ")
            );
            (self.tell)(&Problem::new(
                Place::file(Setting::Upstream.to_string()),
                what,
            ));
        }
    }

    /// Takes back the servers that are connected again.
    fn welcome(&mut self) {
        for (number, upstream) in self.reconnector.found() {
            match self.ensure_usable(number, &upstream.hello) {
                Ok(()) => {
                    (self.tell)(&Problem::new(
                        self.members[number].place(),
                        format!("is there, with {} entries", upstream.hello.entries),
                    ));
                    self.members[number].come_back(upstream);
                }
                Err(what) => self.refuse(number, what),
            }
        }
    }

    fn ensure_usable(&self, number: usize, hello: &HelloReply) -> Result<(), String> {
        ensure_fits(hello, number, &self.members, &self.scheme, &self.limits)?;
        self.members[number].ensure_continues(hello)
    }

    /// Leaves out a server that is there, and reports once why.
    fn refuse(&mut self, number: usize, what: String) {
        let member = &mut self.members[number];
        member.upstream = None;
        if member.refused.as_ref() != Some(&what) {
            let what = format!("{what}; it is left out");
            (self.tell)(&Problem::new(member.place(), what));
        }
        member.refused = Some(what);
        self.reconnector.seek(number, &member.address, true);
    }

    fn lose(&mut self, number: usize, error: &std::io::Error) {
        let member = &mut self.members[number];
        member.upstream = None;
        member.trouble = Some(Instant::now());
        (self.tell)(&Problem::new(
            member.place(),
            format!("lost: {error}; it is left out until it is back"),
        ));
        self.reconnector.seek(number, &member.address, false);
    }

    /// The servers of each range, in order of the ranges: of equal matches, those of lower
    /// cardinality come first. A server that was never there may keep what no other one keeps.
    fn ranges(&self) -> Vec<(Option<CardinalityRange>, Vec<usize>)> {
        let mut ranges: Vec<(Option<CardinalityRange>, Vec<usize>)> = Vec::new();
        let is_complete = (0..=CardinalityRange::ALL.last).all(|at| self.is_kept(at));
        for (number, member) in self.members.iter().enumerate() {
            let buckets = member.buckets();
            match ranges.iter_mut().find(|range| range.0 == buckets) {
                Some((Some(_), members)) => members.push(number),
                _ if buckets.is_none() && is_complete => {}
                _ => ranges.push((buckets, vec![number])),
            }
        }
        ranges.sort_by_key(|(buckets, _)| buckets.map_or(u32::MAX, |buckets| buckets.first));
        ranges
    }

    fn ask_window(&mut self, window: &[Request<'_>]) -> Vec<MatchReply> {
        self.welcome();
        let mut replies = vec![MatchReply::default(); window.len()];
        for (request, reply) in window.iter().zip(&mut replies) {
            reply.is_left_out = request.add
                && request
                    .print
                    .is_some_and(|print| !self.is_kept(print.cardinality()));
        }
        let mut questions = Vec::new();
        for (buckets, members) in self.ranges() {
            let asked = self.concerned(buckets, window);
            if !asked.is_empty() {
                let mut question = Question::new(members, asked);
                self.send(&mut question, window);
                questions.push(question);
            }
        }
        for question in questions {
            self.answer(question, window, &mut replies);
        }
        for reply in &mut replies {
            // Six decimals distinguish all similarities of prints. The sort is stable.
            reply
                .matches
                .sort_by_key(|found| Reverse((found.similarity * 1e6).round() as u64));
            reply.matches.truncate(self.limits.top);
        }
        replies
    }

    fn is_kept(&self, cardinality: u32) -> bool {
        self.members
            .iter()
            .any(|member| keeps(member.buckets(), cardinality))
    }

    /// The places of the requests to which servers of a range may know something.
    fn concerned(&self, buckets: Option<CardinalityRange>, window: &[Request<'_>]) -> Vec<usize> {
        let may_know = |request: &Request<'_>| {
            let Some(print) = request.print else {
                return false;
            };
            let cardinality = print.cardinality();
            let similar = self.limits.min_similarity.cardinality_range(cardinality);
            buckets
                .is_none_or(|buckets| buckets.contains(cardinality) || buckets.overlaps(&similar))
        };
        (0..window.len())
            .filter(|&at| may_know(&window[at]))
            .collect()
    }

    /// The server to ask next: one that is there, had no trouble for the longest time, and was not
    /// asked yet.
    fn next_server(&self, question: &Question) -> Option<usize> {
        let is_there = |number: &&usize| {
            self.members[**number].upstream.is_some() && !question.tried.contains(number)
        };
        let by_trouble = |number: &&usize| self.members[**number].trouble;
        let members = question.members.iter();
        members.filter(is_there).min_by_key(by_trouble).copied()
    }

    /// Sends the open requests of a question to the next server that takes them.
    fn send(&mut self, question: &mut Question, window: &[Request<'_>]) {
        question.sent = None;
        while let Some(number) = self.next_server(question) {
            question.tried.push(number);
            let (mut lines, mut adds) = (Vec::new(), false);
            let buckets = self.members[number].buckets();
            for &at in &question.asked {
                let Request { id, print, add } = window[at];
                let Some(print) = print else { continue };
                let add = add && keeps(buckets, print.cardinality());
                adds |= add;
                put_request(&mut lines, id, print, add);
            }
            if adds {
                put_hello(&mut lines);
            }
            let limit = self.limit(question, number);
            let Some(upstream) = &mut self.members[number].upstream else {
                continue;
            };
            match upstream.send(&lines) {
                Ok(()) => {
                    question.sent = Some((number, Instant::now() + limit, adds));
                    return;
                }
                Err(error) => self.lose(number, &error),
            }
        }
    }

    /// How long to wait for a server.
    fn limit(&self, question: &Question, number: usize) -> Duration {
        let follows = |known: &HelloReply| known.log.is_some();
        if self.next_server(question).is_some() {
            REPLICA_LIMIT
        } else if self.members[number].known.as_ref().is_some_and(follows) {
            LOG_LIMIT
        } else {
            LIMIT
        }
    }

    /// Receives the answers to a question, and asks replicas for those that do not come or name
    /// something missing.
    fn answer(
        &mut self,
        mut question: Question,
        window: &[Request<'_>],
        replies: &mut [MatchReply],
    ) {
        let mut partial: HashMap<usize, MatchReply> = HashMap::new();
        while let Some((number, deadline, adds)) = question.sent {
            let received = self.receive(number, question.asked.len(), deadline, adds);
            let mut again = Vec::new();
            let mut received = received.into_iter();
            for &at in &question.asked {
                match received.next() {
                    Some(reply) if reply.missing.is_empty() => add_reply(&mut replies[at], reply),
                    Some(reply) => {
                        partial.insert(at, reply);
                        again.push(at);
                    }
                    None => again.push(at),
                }
            }
            question.asked = again;
            if question.asked.is_empty() {
                return;
            }
            self.members[number].trouble = Some(Instant::now());
            self.send(&mut question, window);
        }
        for &at in &question.asked {
            let reply = partial.remove(&at);
            let reply = reply.unwrap_or_else(|| self.missing(&question, &window[at]));
            add_reply(&mut replies[at], reply);
        }
    }

    /// The next answers of a server: fewer if it is lost meanwhile.
    fn receive(
        &mut self,
        number: usize,
        count: usize,
        deadline: Instant,
        with_hello: bool,
    ) -> Vec<MatchReply> {
        let mut replies = Vec::with_capacity(count);
        let Some(upstream) = &mut self.members[number].upstream else {
            return replies;
        };
        let mut failed = None;
        while replies.len() < count {
            match upstream.reply(deadline) {
                Ok(reply) => replies.push(reply),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let hello = match failed {
            Some(error) => Err(error),
            None if !with_hello => {
                self.members[number].trouble = None;
                return replies;
            }
            None => upstream.hello_reply(deadline),
        };
        match hello {
            Ok(hello) => {
                self.members[number].trouble = None;
                self.note_hello(number, hello);
            }
            Err(error) => self.lose(number, &error),
        }
        replies
    }

    /// Remembers what a server has now, so that it is seen if it loses that.
    fn note_hello(&mut self, number: usize, hello: HelloReply) {
        match self.ensure_usable(number, &hello) {
            Ok(()) => self.members[number].known = Some(hello),
            Err(what) => self.refuse(number, what),
        }
    }

    /// The reply to a request that no server of a range has answered.
    fn missing(&self, question: &Question, request: &Request<'_>) -> MatchReply {
        let members = || question.members.iter().map(|&number| &self.members[number]);
        let is_kept = request.print.is_some_and(|print| {
            members().any(|member| keeps(member.buckets(), print.cardinality()))
        });
        MatchReply {
            matches: Vec::new(),
            is_left_out: request.add && is_kept,
            missing: members().map(|member| member.name.clone()).collect(),
        }
    }

    /// Removes entries on a server; `None` if it is lost, or only reads.
    fn remove_on(&mut self, number: usize, limit: Duration, line: &[u8]) -> Option<RemovalReply> {
        let deadline = Instant::now() + limit;
        let upstream = self.members[number].upstream.as_mut()?;
        let done = upstream
            .send(line)
            .and_then(|()| upstream.removed(deadline));
        done.unwrap_or_else(|error| {
            self.lose(number, &error);
            None
        })
    }
}

impl Question {
    fn new(members: Vec<usize>, asked: Vec<usize>) -> Self {
        Self {
            members,
            asked,
            tried: Vec::new(),
            sent: None,
        }
    }
}

fn keeps(buckets: Option<CardinalityRange>, cardinality: u32) -> bool {
    buckets.is_some_and(|buckets| buckets.contains(cardinality))
}

fn add_reply(to: &mut MatchReply, reply: MatchReply) {
    to.matches.extend(reply.matches);
    to.is_left_out |= reply.is_left_out;
    to.missing.extend(reply.missing);
}

impl HistoryBackend for UpstreamRouter {
    fn scheme(&self) -> &PrintScheme {
        &self.scheme
    }

    /// For all servers together; the number of entries is that of the last connection.
    fn hello(&self) -> HelloReply {
        let ranges = self.ranges();
        let buckets = || ranges.iter().filter_map(|(buckets, _)| *buckets);
        let (first, last) = (
            buckets().map(|buckets| buckets.first).min(),
            buckets().map(|buckets| buckets.last).max(),
        );
        let entries = |(_, members): &(_, Vec<usize>)| {
            let connected = members.iter().map(|&number| &self.members[number]);
            let connected = connected.filter(|member| member.upstream.is_some());
            let entries = connected.filter_map(|member| Some(member.known.as_ref()?.entries));
            entries.max().unwrap_or(0)
        };
        HelloReply {
            scheme: self.scheme.to_string(),
            buckets: first
                .zip(last)
                .and_then(|(first, last)| CardinalityRange::new(first, last))
                .unwrap_or(CardinalityRange::ALL),
            entries: ranges.iter().map(entries).sum(),
            min_similarity: self.limits.min_similarity.to_f64(),
            top: self.limits.top,
            identity: String::new(),
            arrived: 0,
            log: None,
        }
    }

    fn ask(&mut self, requests: &[Request<'_>]) -> Result<Vec<MatchReply>> {
        let mut replies = Vec::with_capacity(requests.len());
        let mut left = requests;
        while !left.is_empty() {
            let (window, later) = left.split_at(window_length(left));
            replies.extend(self.ask_window(window));
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
        self.welcome();
        let (mut removed, mut line) = (RemovalReply::default(), Vec::new());
        put_removal(&mut line, id);
        for (_, members) in self.ranges() {
            let mut question = Question::new(members, Vec::new());
            let mut best: Option<RemovalReply> = None;
            while let Some(number) = self.next_server(&question) {
                question.tried.push(number);
                let limit = self.limit(&question, number);
                let Some(done) = self.remove_on(number, limit, &line) else {
                    continue;
                };
                let is_done = done.missing.is_empty();
                best = Some(done);
                if is_done {
                    break;
                }
            }
            let done = best.unwrap_or_else(|| RemovalReply {
                count: 0,
                missing: question
                    .members
                    .iter()
                    .map(|&number| self.members[number].name.clone())
                    .collect(),
            });
            removed.count += done.count;
            removed.missing.extend(done.missing);
        }
        Ok(removed)
    }

    /// The servers sync their entries themselves.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// How many requests to send before reading answers: at least one.
fn window_length(requests: &[Request<'_>]) -> usize {
    let mut bytes = 0;
    let fits = |request: &&Request<'_>| {
        bytes += request.id.len();
        bytes <= WINDOW_BYTES
    };
    requests
        .iter()
        .take(WINDOW_REQUESTS)
        .take_while(fits)
        .count()
        .max(1)
}
