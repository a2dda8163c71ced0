//! Combines the answers of several servers, each of which keeps prints of a range of cardinalities.
//!
//! A print goes to the server that keeps its cardinality, to be added, and to those that may have
//! similar prints: cardinalities that are too far apart rule that out. Each server answers in the
//! order of its connection, so each request sees all before it. A server that fails or is late is
//! left out, and named in answers, until it is back.

use super::{
    CardinalityRange, HelloReply, HistoryBackend, MatchReply, ProblemReporter, RemovalReply,
    ServiceAddress,
    reconnect::Reconnector,
    upstream::{UpstreamConnection, put_removal, put_request},
};
use crate::base::setting::Setting;
use crate::{
    base::error::{Error, Place, Problem, Result},
    history::{MatchLimits, Request},
    text::scheme::PrintScheme,
};
use std::{
    cmp::Reverse,
    sync::Arc,
    time::{Duration, Instant},
};

/// The longest wait for a server.
const LIMIT: Duration = Duration::from_secs(2);
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

struct UpstreamServer {
    address: ServiceAddress,
    name: Arc<str>,
    /// `None` while it is lost.
    upstream: Option<UpstreamConnection>,
    /// `None` if it was never connected.
    buckets: Option<CardinalityRange>,
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
                    .buckets
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
            let place = self.members[number].place();
            match ensure_fits(
                &upstream.hello,
                number,
                &self.members,
                &self.scheme,
                &self.limits,
            ) {
                Ok(()) => {
                    (self.tell)(&Problem::new(
                        place,
                        format!("is there, with {} entries", upstream.hello.entries),
                    ));
                    self.members[number].come_back(upstream);
                }
                Err(what) => {
                    (self.tell)(&Problem::new(place, format!("{what}; it is left out")));
                    self.reconnector
                        .seek(number, &self.members[number].address, true);
                }
            }
        }
    }

    fn lose(&mut self, number: usize, error: &std::io::Error) {
        let member = &mut self.members[number];
        member.upstream = None;
        (self.tell)(&Problem::new(
            member.place(),
            format!("lost: {error}; it is left out until it is back"),
        ));
        self.reconnector.seek(number, &member.address, false);
    }

    /// The servers in order of their ranges: of equal matches, those of lower cardinality come
    /// first.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.members.len()).collect();
        order.sort_by_key(|&number| {
            self.members[number]
                .buckets
                .map_or(u32::MAX, |buckets| buckets.first)
        });
        order
    }

    fn ask_window(&mut self, window: &[Request<'_>]) -> Vec<MatchReply> {
        self.welcome();
        let deadline = Instant::now() + LIMIT;
        let mut replies = vec![MatchReply::default(); window.len()];
        for (request, reply) in window.iter().zip(&mut replies) {
            reply.is_left_out = request.add
                && request
                    .print
                    .is_some_and(|print| !self.is_kept(print.cardinality()));
        }
        let order = self.order();
        let sent: Vec<Vec<usize>> = order
            .iter()
            .map(|&number| self.send(number, window, &mut replies))
            .collect();
        for (&number, asked) in order.iter().zip(&sent) {
            self.receive(number, asked, window, &mut replies, deadline);
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
        self.members.iter().any(|member| member.keeps(cardinality))
    }

    /// Sends the requests of a window that concern a server, and returns their places. Notes those
    /// that it could not send.
    fn send(
        &mut self,
        number: usize,
        window: &[Request<'_>],
        replies: &mut [MatchReply],
    ) -> Vec<usize> {
        let (member, min_similarity) = (&mut self.members[number], self.limits.min_similarity);
        let (mut lines, mut asked) = (Vec::new(), Vec::new());
        for (at, request) in window.iter().enumerate() {
            let Some(print) = request.print else { continue };
            let cardinality = print.cardinality();
            if member.buckets.is_none_or(|buckets| {
                buckets.contains(cardinality)
                    || buckets.overlaps(&min_similarity.cardinality_range(cardinality))
            }) {
                put_request(
                    &mut lines,
                    request.id,
                    print,
                    request.add && member.keeps(cardinality),
                );
                asked.push(at);
            }
        }
        if asked.is_empty() {
            return asked;
        }
        let sent = member
            .upstream
            .as_mut()
            .map(|upstream| upstream.send(&lines));
        match sent {
            Some(Ok(())) => return asked,
            Some(Err(error)) => self.lose(number, &error),
            None => {}
        }
        self.note_missing(number, &asked, window, replies);
        Vec::new()
    }

    fn receive(
        &mut self,
        number: usize,
        asked: &[usize],
        window: &[Request<'_>],
        replies: &mut [MatchReply],
        deadline: Instant,
    ) {
        for (done, &at) in asked.iter().enumerate() {
            let Some(upstream) = &mut self.members[number].upstream else {
                return;
            };
            match upstream.reply(deadline) {
                Ok(reply) => {
                    replies[at].matches.extend(reply.matches);
                    replies[at].is_left_out |= reply.is_left_out;
                    replies[at].missing.extend(reply.missing);
                }
                Err(error) => {
                    self.lose(number, &error);
                    return self.note_missing(number, &asked[done..], window, replies);
                }
            }
        }
    }

    fn note_missing(
        &self,
        number: usize,
        asked: &[usize],
        window: &[Request<'_>],
        replies: &mut [MatchReply],
    ) {
        let member = &self.members[number];
        for &at in asked {
            replies[at].missing.push(member.name.clone());
            let is_kept = window[at]
                .print
                .is_some_and(|print| member.keeps(print.cardinality()));
            replies[at].is_left_out |= window[at].add && is_kept;
        }
    }
}

impl HistoryBackend for UpstreamRouter {
    fn scheme(&self) -> &PrintScheme {
        &self.scheme
    }

    /// For all servers together; the number of entries is that of the last connection.
    fn hello(&self) -> HelloReply {
        let buckets = || self.members.iter().filter_map(|member| member.buckets);
        let (first, last) = (
            buckets().map(|buckets| buckets.first).min(),
            buckets().map(|buckets| buckets.last).max(),
        );
        HelloReply {
            scheme: self.scheme.to_string(),
            buckets: first
                .zip(last)
                .and_then(|(first, last)| CardinalityRange::new(first, last))
                .unwrap_or(CardinalityRange::ALL),
            entries: self
                .members
                .iter()
                .filter_map(|member| member.upstream.as_ref())
                .map(|upstream| upstream.hello.entries)
                .sum(),
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
        for number in 0..self.members.len() {
            let deadline = Instant::now() + LIMIT;
            let done = self.members[number].upstream.as_mut().map(|upstream| {
                upstream
                    .send(&line)
                    .and_then(|()| upstream.removed(deadline))
            });
            match done {
                Some(Ok(Some(done))) => {
                    removed.count += done.count;
                    removed.missing.extend(done.missing);
                    continue;
                }
                // It is read-only, so its entries are still there.
                Some(Ok(None)) => {}
                Some(Err(error)) => self.lose(number, &error),
                None => {}
            }
            removed.missing.push(self.members[number].name.clone());
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

impl UpstreamServer {
    fn new(address: &ServiceAddress) -> Self {
        Self {
            address: address.clone(),
            name: address.to_string().into(),
            upstream: None,
            buckets: None,
        }
    }

    fn place(&self) -> Place {
        Place::file(self.name.clone())
    }

    fn keeps(&self, cardinality: u32) -> bool {
        self.buckets
            .is_some_and(|buckets| buckets.contains(cardinality))
    }

    fn come_back(&mut self, upstream: UpstreamConnection) {
        self.buckets = Some(upstream.hello.buckets);
        self.upstream = Some(upstream);
    }
}

/// Refuses a server whose answers do not fit those of the others.
fn ensure_fits(
    hello: &HelloReply,
    number: usize,
    members: &[UpstreamServer],
    scheme: &PrintScheme,
    limits: &MatchLimits,
) -> Result<(), String> {
    let HelloReply {
        buckets,
        min_similarity,
        top,
        ..
    } = hello;
    if hello.scheme != scheme.to_string() {
        return Err(format!(
            "scheme is '{}', expected '{scheme}'; prints of two schemes cannot be compared",
            hello.scheme
        ));
    }
    if *min_similarity != limits.min_similarity.to_f64() {
        let asked = limits.min_similarity.to_f64();
        return Err(format!(
            "it answers from a similarity of {min_similarity} on, expected {asked}; give both the same least similarity"
        ));
    }
    if *top < limits.top {
        return Err(format!(
            "it gives the best {top}, expected {} or more; start it with a limit of {}",
            limits.top, limits.top
        ));
    }
    for (_, other) in members
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != number)
    {
        if let Some(theirs) = other
            .buckets
            .filter(|theirs| theirs.overlaps(&(buckets.first..=buckets.last)))
        {
            return Err(format!(
                "it keeps cardinalities {buckets}, and {} keeps {theirs}; give each a range of its own",
                other.name
            ));
        }
    }
    Ok(())
}
