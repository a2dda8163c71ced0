//! Three nodes of NATS and three servers, of which some are always dead, paused or without a disk.
//!
//! `DEDUP_CHAOS_SECONDS` says for how long; without it a short run is a test like any other.
//! Afterwards every acknowledged document is in the log, every answer is that of a single history
//! that was fed in log order, and all servers have its entries.

mod nodes;
mod servers;

use super::{
    LogAddress, LogEvent, LogEvents, ReplicatedLog, message::LogMessage, message::LogOperation,
    nats::NatsLog, replicated::Event,
};
use crate::{
    history::{History, MatchLimits, Request, StoreOptions, dump},
    text::stream::Print,
};
use nodes::NatsNodes;
use servers::{Reply, Servers};
use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::sync_channel,
    },
    thread,
    time::{Duration, Instant},
};

const CLIENTS: u64 = 3;

pub(super) fn limits() -> MatchLimits {
    MatchLimits {
        min_similarity: "0.9".parse().unwrap(),
        top: 3,
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Every third print is near one of a few others.
    fn print(&mut self) -> Print {
        let mut of = Self(self.below(20) + 1);
        let near = Print([of.next(), of.next(), of.next(), of.next()]);
        if self.below(3) > 0 {
            return Print([self.next(), self.next(), self.next(), self.next()]);
        }
        let mut print = near;
        for _ in 0..self.below(6) {
            let bit = self.below(256);
            print.0[(bit / 64) as usize] ^= 1 << (bit % 64);
        }
        print
    }
}

/// What clients have seen.
#[derive(Default)]
struct Seen {
    /// For each acknowledged document its answer.
    acknowledged: Mutex<HashMap<String, Reply>>,
    refused: AtomicU64,
    failed: AtomicU64,
    /// The longest time in which no document was acknowledged.
    longest_gap: Mutex<(Duration, Option<Instant>)>,
}

impl Seen {
    fn acknowledge(&self, id: String, reply: Reply) {
        let mut gap = self.longest_gap.lock().unwrap();
        let now = Instant::now();
        gap.0 = gap.0.max(gap.1.map_or(Duration::ZERO, |last| now - last));
        gap.1 = Some(now);
        drop(gap);
        self.acknowledged.lock().unwrap().insert(id, reply);
    }
}

fn client(
    number: u64,
    batch: u64,
    pause: Duration,
    servers: &Servers,
    seen: &Seen,
    stop: &AtomicBool,
) {
    let mut random = Random(number * 1000 + 1);
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let documents: Vec<(String, Print, bool)> = (0..1 + random.below(batch))
            .map(|at| {
                (
                    format!("c{number}-{count}-{at}"),
                    random.print(),
                    random.below(10) > 0,
                )
            })
            .collect();
        count += 1;
        let Some(replies) = servers.ask(random.below(3) as usize, &documents) else {
            seen.failed.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        for ((id, _, add), reply) in documents.into_iter().zip(replies) {
            if reply.is_left_out || !reply.missing.is_empty() {
                seen.refused.fetch_add(1, Ordering::Relaxed);
            } else if add {
                seen.acknowledge(id, reply);
            }
        }
        thread::sleep(pause);
    }
}

/// Something bad happens, and is over some time later.
fn disturb(random: &mut Random, servers: &Servers, nodes: &mut NatsNodes) -> String {
    let (of, wait) = (
        random.below(3) as usize,
        Duration::from_millis(200 + random.below(2500)),
    );
    match random.below(6) {
        0 => {
            servers.kill(of);
            thread::sleep(wait);
            servers.start(of);
            format!("server {of} was killed for {wait:?}")
        }
        1 => {
            servers.kill(of);
            servers.lose_disk(of);
            thread::sleep(wait);
            servers.start(of);
            format!("server {of} lost its disk")
        }
        2 => {
            servers.signal(of, libc::SIGSTOP);
            thread::sleep(wait);
            servers.signal(of, libc::SIGCONT);
            format!("server {of} paused for {wait:?}")
        }
        3 | 4 => {
            nodes.kill(of);
            thread::sleep(2 * wait);
            nodes.start(of);
            nodes.wait_until_healthy();
            format!("node {of} was killed for {:?}", 2 * wait)
        }
        _ => {
            nodes.signal(of, libc::SIGSTOP);
            thread::sleep(3 * wait);
            nodes.signal(of, libc::SIGCONT);
            nodes.wait_until_healthy();
            format!("node {of} paused for {:?}", 3 * wait)
        }
    }
}

/// All messages of the log.
fn read_log(address: &LogAddress) -> Vec<LogMessage> {
    let (sender, received) = sync_channel(1000);
    let mut log = NatsLog::start(address.clone(), 3, LogEvents(sender)).unwrap();
    log.ask_extent(1);
    let (mut last, mut messages) = (None, Vec::new());
    let deadline = Instant::now() + Duration::from_secs(120);
    while last.is_none_or(|last| (messages.len() as u64) < last) {
        assert!(Instant::now() < deadline, "the log cannot be read");
        match received.recv_timeout(Duration::from_secs(1)) {
            Ok(Event::Log(LogEvent::Extent {
                result: Ok(extent), ..
            })) if last.is_none() => {
                last = Some(extent.last);
                log.follow(0);
            }
            Ok(Event::Log(LogEvent::Entry { position, bytes })) => {
                assert_eq!(position, messages.len() as u64 + 1);
                messages.push(LogMessage::parse(&bytes).unwrap());
            }
            _ if last.is_none() => log.ask_extent(1),
            _ => {}
        }
    }
    messages
}

/// The answers of a single history that is fed in log order.
fn oracle(directory: &Path, messages: &[LogMessage]) -> HashMap<String, Vec<(String, u64)>> {
    let mut history = History::open(directory, StoreOptions::default()).unwrap().0;
    let (mut answers, mut seen) = (HashMap::new(), HashSet::new());
    let mut last: HashMap<u64, u64> = HashMap::new();
    for message in messages {
        let before = last.entry(message.publisher).or_default();
        if message.number <= *before || !seen.insert((message.publisher, message.number)) {
            continue;
        }
        *before = message.number;
        let requests: Vec<Request<'_>> = message
            .operations
            .iter()
            .filter_map(|operation| match operation {
                LogOperation::Add { id, print } => Some(Request {
                    id,
                    print: Some(*print),
                    add: true,
                }),
                _ => None,
            })
            .collect();
        for (request, answer) in requests
            .iter()
            .zip(history.ask(&requests, &limits()).unwrap())
        {
            let matches = answer.matches.into_iter();
            let matches = matches
                .map(|found| (found.id, found.similarity.to_f64().to_bits()))
                .collect();
            answers.insert(request.id.to_owned(), matches);
        }
    }
    history.close().unwrap();
    answers
}

/// Entries without their times, which only the log has.
fn dumped(directory: &Path) -> Vec<String> {
    let mut out = Vec::new();
    dump(directory, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let without_time = |line: &str| {
        line.split(",\"time\"")
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    text.lines().map(without_time).collect()
}

fn seconds(default: u64) -> u64 {
    let given = std::env::var("DEDUP_CHAOS_SECONDS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn nothing_acknowledged_is_lost_and_answers_are_those_of_one_history() {
    let work = tempfile::tempdir().unwrap();
    let Some(mut nodes) = NatsNodes::start_all(&work.path().join("nats")) else {
        return;
    };
    let address = nodes.address("chaos");
    let servers = Servers::start_all(work.path(), &address);
    let (seen, stop) = (Seen::default(), AtomicBool::new(false));
    let mut random = Random(7);
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (servers, seen, stop) = (&servers, &seen, &stop);
            let pause = Duration::from_millis(20);
            scope.spawn(move || client(number, 40, pause, servers, seen, stop));
        }
        let end = Instant::now() + Duration::from_secs(seconds(15));
        while Instant::now() < end {
            thread::sleep(Duration::from_millis(500 + random.below(1500)));
            let what = disturb(&mut random, &servers, &mut nodes);
            (0..3).for_each(|of| servers.revive(of));
            eprintln!(
                "{what}; {} documents acknowledged",
                seen.acknowledged.lock().unwrap().len()
            );
        }
        stop.store(true, Ordering::Relaxed);
    });
    // Everything is up again: all servers catch up, and then stop.
    servers.wait_until_ready();
    servers.stop_all();
    let messages = read_log(&address);
    let expected = oracle(&work.path().join("oracle"), &messages);
    let acknowledged = seen.acknowledged.into_inner().unwrap();
    eprintln!(
        "{} documents acknowledged, {} requests refused, {} batches failed; {} messages; longest time without an acknowledgement {:.1?}",
        acknowledged.len(),
        seen.refused.into_inner(),
        seen.failed.into_inner(),
        messages.len(),
        seen.longest_gap.into_inner().unwrap().0
    );
    assert!(acknowledged.len() > 500);
    for (id, reply) in &acknowledged {
        let answer = expected
            .get(id)
            .unwrap_or_else(|| panic!("{id} was acknowledged, and is not in the log"));
        assert_eq!(&reply.matches, answer, "{id}");
    }
    let entries = dumped(&work.path().join("oracle"));
    for of in 0..3 {
        assert_eq!(dumped(&servers.directory(of)), entries, "server {of}");
        crate::history::verify(&servers.directory(of)).unwrap();
    }
}

/// A measurement, not a test.
#[test]
#[ignore = "it measures"]
fn acknowledged_documents_per_second() {
    let work = tempfile::tempdir().unwrap();
    let Some(mut nodes) = NatsNodes::start_all(&work.path().join("nats")) else {
        return;
    };
    let servers = Servers::start_all(work.path(), &nodes.address("rate"));
    let load = |batch: u64, seconds: u64, disturb: &mut dyn FnMut()| {
        let (seen, stop) = (Seen::default(), AtomicBool::new(false));
        let start = Instant::now();
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let (servers, seen, stop) = (&servers, &seen, &stop);
                scope.spawn(move || {
                    client(number + batch, batch, Duration::ZERO, servers, seen, stop)
                });
            }
            thread::sleep(Duration::from_secs(seconds) / 2);
            disturb();
            thread::sleep(Duration::from_secs(seconds) / 2);
            stop.store(true, Ordering::Relaxed);
        });
        let count = seen.acknowledged.lock().unwrap().len() as f64;
        let gap = seen.longest_gap.into_inner().unwrap().0;
        (count / start.elapsed().as_secs_f64(), gap.as_secs_f64())
    };
    eprintln!(
        "| documents a batch | acknowledged/s | longest time without an acknowledgement, s |\n| ---: | ---: | ---: |"
    );
    for batch in [1, 200, 2000] {
        let (rate, gap) = load(batch, 10, &mut || {});
        eprintln!("| up to {batch} | {rate:.0} | {gap:.2} |");
    }
    let (_, gap) = load(40, 10, &mut || servers.kill(0));
    eprintln!("| a server is killed | | {gap:.2} |");
    servers.start(0);
    servers.wait_until_ready();
    for of in 0..3 {
        let (_, gap) = load(40, 50, &mut || nodes.kill(of));
        eprintln!("| node {of} is killed | | {gap:.2} |");
        nodes.start(of);
        nodes.wait_until_healthy();
    }
    servers.stop_all();
}
