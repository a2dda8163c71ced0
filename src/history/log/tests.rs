//! Servers that follow a log in this process, against a comparison with every print in log order.

use super::{
    memory::{Fault, MemoryLog},
    message::{LogMessage, LogOperation},
    *,
};
use crate::{
    base::error::Problem,
    history::{
        MatchLimits, PrintSimilarity, Request, StoreOptions,
        backend::{HistoryBackend, MatchReply},
    },
    text::stream::Print,
};
use proptest::prelude::*;
use std::{path::Path, sync::Arc, time::Duration};

const LIMITS: &str = "0.8";

fn limits() -> MatchLimits {
    MatchLimits {
        min_similarity: LIMITS.parse().unwrap(),
        top: 3,
    }
}

fn log_options() -> LogOptions {
    LogOptions {
        name: "log".to_owned(),
        when_lost: WhenLost::Wait,
        patience: Duration::from_secs(20),
        cut_after: Duration::ZERO,
        begins: false,
    }
}

fn server(
    log: &Arc<MemoryLog>,
    directory: &Path,
    options: LogOptions,
) -> crate::base::error::Result<ReplicatedHistory> {
    let store = StoreOptions {
        memtable_entries: 40,
        ..StoreOptions::default()
    };
    let tell: Arc<dyn Fn(&Problem) + Send + Sync> = Arc::new(|_| {});
    ReplicatedHistory::open(directory, store, options, limits(), tell, |events| {
        Ok(log.connect(events))
    })
}

/// What the log says, done one after the other with a comparison with every print.
#[derive(Default)]
struct Oracle {
    entries: Vec<Option<(String, Print)>>,
}

impl Oracle {
    /// The best three before any entry with this id and this print.
    fn search(&self, id: &str, print: &Print) -> Vec<(String, f64)> {
        let own = self.entries.iter().position(|entry| {
            entry
                .as_ref()
                .is_some_and(|(of, other)| of == id && other == print)
        });
        let before = &self.entries[..own.unwrap_or(self.entries.len())];
        let mut found: Vec<(String, PrintSimilarity)> = before
            .iter()
            .flatten()
            .map(|(id, other)| (id.clone(), PrintSimilarity::of(print, other)))
            .filter(|(_, similarity)| similarity.is_at_least(limits().min_similarity))
            .collect();
        found.sort_by(|(_, one), (_, two)| (two.shared * one.union).cmp(&(one.shared * two.union)));
        found.truncate(3);
        found
            .into_iter()
            .map(|(id, similarity)| (id, similarity.to_f64()))
            .collect()
    }

    fn apply(&mut self, operation: &LogOperation) {
        match operation {
            LogOperation::Add { id, print } => {
                let new = (id.clone(), *print);
                if !self.entries.iter().flatten().any(|entry| *entry == new) {
                    self.entries.push(Some(new));
                }
            }
            LogOperation::Remove { id } => {
                for entry in &mut self.entries {
                    if entry.as_ref().is_some_and(|(of, _)| of == id) {
                        *entry = None;
                    }
                }
            }
            LogOperation::Begin { .. } => {}
        }
    }

    /// Does what the log says before the message that adds these documents, and then that.
    fn follow(log: &MemoryLog) -> Self {
        let (mut oracle, mut seen) = (Self::default(), Vec::new());
        for bytes in log.entries() {
            let message = LogMessage::parse(&bytes).unwrap();
            let mark = (message.publisher, message.number);
            if !seen.contains(&mark) {
                seen.push(mark);
                message
                    .operations
                    .iter()
                    .for_each(|operation| oracle.apply(operation));
            }
        }
        oracle
    }
}

fn matches(reply: &MatchReply) -> Vec<(String, f64)> {
    reply
        .matches
        .iter()
        .map(|found| (found.id.clone(), found.similarity))
        .collect()
}

/// A step of a test.
#[derive(Debug, Clone)]
enum Step {
    /// A server adds documents, named after numbers, near a few prints.
    Add(usize, Vec<(u8, u8)>),
    Search(usize, u8, u8),
    Remove(usize, u8),
    /// A server is closed and opened again, or killed, or loses its disk.
    Restart(usize),
    Empty(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let server = 0_usize..3;
    prop_oneof![
        6 => (server.clone(), prop::collection::vec((0_u8..40, 0_u8..12), 1..9)).prop_map(|(of, documents)| Step::Add(of, documents)),
        3 => (server.clone(), 0_u8..40, 0_u8..12).prop_map(|(of, id, print)| Step::Search(of, id, print)),
        2 => (server.clone(), 0_u8..40).prop_map(|(of, id)| Step::Remove(of, id)),
        1 => server.clone().prop_map(Step::Restart),
        1 => server.prop_map(Step::Empty),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => Just(Fault::None),
        1 => Just(Fault::NoAcknowledgement),
        1 => Just(Fault::Lost),
        1 => Just(Fault::Twice),
    ]
}

/// Prints of two neighbourhoods, some bits apart.
fn print_of(number: u8) -> Print {
    let mut print = Print([0x5555_5555_5555_5555; 4]);
    if number % 2 == 1 {
        print = Print([0x0f0f_0f0f_0f0f_0f0f; 4]);
    }
    (0..number / 2).for_each(|bit| print.0[usize::from(bit % 4)] ^= 1 << (bit * 5));
    print
}

fn id_of(number: u8) -> String {
    format!("d{number}")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every answer is that of one history that did what the log says, in the order of the log; also
    /// after restarts and lost disks, lost acknowledgements and repeated messages.
    #[test]
    fn servers_answer_as_one_history(
        steps in prop::collection::vec(step(), 1..40), faults in prop::collection::vec(fault(), 0..40),
    ) {
        let log = MemoryLog::with_faults(faults);
        let work = tempfile::tempdir().unwrap();
        let directory = |of: usize| work.path().join(format!("h{of}"));
        let open = |of: usize| Box::new(server(&log, &directory(of), log_options()).unwrap());
        let mut servers: Vec<Option<Box<ReplicatedHistory>>> = (0..3).map(|of| Some(open(of))).collect();
        for step in steps {
            match step {
                Step::Add(of, documents) => {
                    let mut oracle = Oracle::follow(&log);
                    let ids: Vec<String> = documents.iter().map(|&(id, _)| id_of(id)).collect();
                    let requests: Vec<Request<'_>> = ids.iter().zip(&documents)
                        .map(|(id, &(_, print))| Request { id, print: Some(print_of(print)), add: true }).collect();
                    let replies = servers[of].as_mut().unwrap().ask(&requests).unwrap();
                    for (request, reply) in requests.iter().zip(&replies) {
                        let print = request.print.unwrap();
                        prop_assert_eq!(matches(reply), oracle.search(request.id, &print));
                        prop_assert!(!reply.is_left_out && reply.missing.is_empty());
                        oracle.apply(&LogOperation::Add { id: request.id.to_owned(), print });
                    }
                }
                Step::Search(of, id, print) => {
                    let (id, print) = (id_of(id), print_of(print));
                    let request = Request { id: &id, print: Some(print), add: false };
                    let replies = servers[of].as_mut().unwrap().ask(&[request]).unwrap();
                    prop_assert_eq!(matches(&replies[0]), Oracle::follow(&log).search(&id, &print));
                }
                Step::Remove(of, id) => {
                    let oracle = Oracle::follow(&log);
                    let expected = oracle.entries.iter().flatten().filter(|(of, _)| *of == id_of(id)).count();
                    let removed = servers[of].as_mut().unwrap().remove(&id_of(id)).unwrap();
                    prop_assert_eq!(removed.count, expected as u64);
                }
                Step::Restart(of) => {
                    let closed = servers[of].take().unwrap();
                    HistoryBackend::close(closed).unwrap();
                    servers[of] = Some(open(of));
                }
                Step::Empty(of) => {
                    HistoryBackend::close(servers[of].take().unwrap()).unwrap();
                    std::fs::remove_dir_all(directory(of)).unwrap();
                    servers[of] = Some(open(of));
                }
            }
        }
        // All have the same entries, with the same sequence numbers.
        let mut states = Vec::new();
        for (of, server) in servers.into_iter().enumerate() {
            let mut server = server.unwrap();
            let request = Request { id: "x", print: Some(print_of(0)), add: false };
            server.ask(&[request]).unwrap();
            HistoryBackend::close(server).unwrap();
            let mut dumped = Vec::new();
            crate::history::dump(&directory(of), &mut dumped).unwrap();
            let stats = crate::history::verify(&directory(of)).unwrap();
            states.push((String::from_utf8(dumped).unwrap(), stats.arrived));
        }
        prop_assert_eq!(&states[0], &states[1]);
        prop_assert_eq!(&states[0], &states[2]);
    }
}

/// While the log is out of reach, answers say so, and nothing is added.
#[test]
fn a_log_out_of_reach_is_named() {
    let (log, work) = (
        MemoryLog::with_faults(Vec::new()),
        tempfile::tempdir().unwrap(),
    );
    let options = LogOptions {
        when_lost: WhenLost::Say,
        patience: Duration::from_millis(200),
        ..log_options()
    };
    let mut server = server(&log, work.path(), options).unwrap();
    let ask = |server: &mut ReplicatedHistory, id: &str, add: bool| {
        let request = Request {
            id,
            print: Some(print_of(0)),
            add,
        };
        server.ask(&[request]).unwrap().remove(0)
    };
    let first = ask(&mut server, "a", true);
    assert!(first.missing.is_empty() && !first.is_left_out && first.matches.is_empty());
    log.set_out_of_reach(true);
    let lost = ask(&mut server, "b", true);
    assert!(lost.is_left_out && *lost.missing[0] == *"log" && lost.matches.len() == 1);
    let searched = ask(&mut server, "c", false);
    assert!(!searched.is_left_out && searched.missing.len() == 1 && searched.matches.len() == 1);
    assert!(
        server
            .not_ready()
            .is_some_and(|why| why.contains("out of reach"))
    );
    log.set_out_of_reach(false);
    // It comes back by itself.
    let mut back = ask(&mut server, "d", true);
    for _ in 0..1000 {
        if back.missing.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        back = ask(&mut server, "d", true);
    }
    assert!(back.missing.is_empty() && !back.is_left_out && back.matches[0].id == "a");
    assert_eq!(
        (server.not_ready(), server.status().position),
        (None, 3 - 1)
    );
}

/// Refused: a log that ends too early, another log, a history of its own.
#[test]
fn a_log_that_does_not_fit_is_refused() {
    let (log, work) = (
        MemoryLog::with_faults(Vec::new()),
        tempfile::tempdir().unwrap(),
    );
    let directory = work.path().join("h");
    let mut first = Box::new(server(&log, &directory, log_options()).unwrap());
    for id in ["a", "b", "c"] {
        let request = Request {
            id,
            print: Some(print_of(0)),
            add: true,
        };
        first.ask(&[request]).unwrap();
    }
    HistoryBackend::close(first).unwrap();
    log.truncate(1);
    let why = |log: &Arc<MemoryLog>, directory: &Path| {
        server(log, directory, log_options())
            .err()
            .unwrap()
            .to_string()
    };
    let cut = why(&log, &directory);
    assert!(
        cut.starts_with(
            "log: it ends with entry 1, but this history has applied 3: the log has lost entries"
        ),
        "{cut}"
    );
    // Other entries came in the place of the lost ones.
    let mut second = Box::new(server(&log, &work.path().join("second"), log_options()).unwrap());
    for id in ["x", "y", "z"] {
        let request = Request {
            id,
            print: Some(print_of(0)),
            add: true,
        };
        second.ask(&[request]).unwrap();
    }
    HistoryBackend::close(second).unwrap();
    let continued = why(&log, &directory);
    assert!(
        continued.contains("entry 3 is another one than this history has applied"),
        "{continued}"
    );
    // A history with entries of its own begins an empty log, and only servers with these follow it.
    let own = work.path().join("own");
    let mut filled = crate::history::History::open(&own, StoreOptions::default())
        .unwrap()
        .0;
    let request = Request {
        id: "z",
        print: Some(print_of(2)),
        add: true,
    };
    filled.ask(&[request], &limits()).unwrap();
    filled.close().unwrap();
    let empty = MemoryLog::with_faults(Vec::new());
    assert!(why(&empty, &own).contains("has entries, and the log has none"));
    let begins = LogOptions {
        begins: true,
        ..log_options()
    };
    HistoryBackend::close(Box::new(server(&empty, &own, begins).unwrap())).unwrap();
    let copy = work.path().join("copy");
    crate::history::backup(&own, &copy).unwrap();
    for directory in [&own, &copy] {
        let mut server = Box::new(server(&empty, directory, log_options()).unwrap());
        let request = Request {
            id: "y",
            print: Some(print_of(2)),
            add: false,
        };
        assert_eq!(
            matches(&server.ask(&[request]).unwrap()[0]),
            [("z".to_owned(), 1.0)]
        );
        HistoryBackend::close(server).unwrap();
    }
    let without = why(&empty, &work.path().join("new"));
    assert!(
        without.contains("continues a history of 1 entries"),
        "{without}"
    );
}

fn add(server: &mut ReplicatedHistory, id: &str, print: u8) -> Vec<(String, f64)> {
    let request = Request {
        id,
        print: Some(print_of(print)),
        add: true,
    };
    matches(&server.ask(&[request]).unwrap()[0])
}

fn dumped(directory: &Path) -> String {
    let mut out = Vec::new();
    crate::history::dump(directory, &mut out).unwrap();
    crate::history::verify(directory).unwrap();
    String::from_utf8(out).unwrap()
}

/// A server that lost its disk starts with a backup of another one, and gets the rest from the log.
#[test]
fn a_server_catches_up_from_a_backup() {
    let (log, work) = (
        MemoryLog::with_faults(Vec::new()),
        tempfile::tempdir().unwrap(),
    );
    let [one, two] = ["one", "two"].map(|name| work.path().join(name));
    let mut first = Box::new(server(&log, &one, log_options()).unwrap());
    let mut second = Box::new(server(&log, &two, log_options()).unwrap());
    (0..60).for_each(|at| drop(add(&mut first, &format!("before-{at}"), at % 12)));
    // Of the first, while it runs.
    let copy = work.path().join("copy");
    crate::history::backup(&one, &copy).unwrap();
    (0..60).for_each(|at| drop(add(&mut second, &format!("after-{at}"), at % 12)));
    first.remove("before-3").unwrap();
    HistoryBackend::close(second).unwrap();
    std::fs::remove_dir_all(&two).unwrap();
    std::fs::rename(&copy, &two).unwrap();
    // What it gets from the log are the entries after the backup: the log needs no others.
    let mut restored = Box::new(server(&log, &two, log_options()).unwrap());
    let expected = add(&mut first, "last", 4);
    assert_eq!(add(&mut restored, "last", 4), expected);
    drop(add(&mut first, "end", 5));
    drop(add(&mut restored, "end", 5));
    HistoryBackend::close(first).unwrap();
    HistoryBackend::close(restored).unwrap();
    let (one, two) = (dumped(&one), dumped(&two));
    assert!(one.contains("after-59") && !one.contains("before-3\""));
    // The last repetition was applied by one of them only, and adds nothing.
    assert_eq!(one, two);
}

/// A log that lost entries is replaced by another one, which the history that has them all begins.
#[test]
fn a_history_of_one_log_begins_another() {
    let work = tempfile::tempdir().unwrap();
    let (old, new) = (
        MemoryLog::with_identity(", the old one"),
        MemoryLog::with_identity(", the new one"),
    );
    let [one, two] = ["one", "two"].map(|name| work.path().join(name));
    let mut server_of_old = Box::new(server(&old, &one, log_options()).unwrap());
    for (at, id) in ["a", "b", "c"].into_iter().enumerate() {
        add(&mut server_of_old, id, at as u8);
    }
    HistoryBackend::close(server_of_old).unwrap();
    // Without being told to, it does not follow another one.
    let why = server(&new, &one, log_options()).err().unwrap().to_string();
    assert!(
        why.contains("it is a log in memory, the new one, and the history follows a log in memory, the old one"),
        "{why}"
    );
    let begins = LogOptions {
        begins: true,
        ..log_options()
    };
    let mut first = Box::new(server(&new, &one, begins.clone()).unwrap());
    assert_eq!(add(&mut first, "d", 0)[0].0, "a");
    HistoryBackend::close(first).unwrap();
    crate::history::backup(&one, &two).unwrap();
    // Positions in the old log are no longer there after a restart, and the flag does no harm then.
    let mut first = Box::new(server(&new, &one, begins).unwrap());
    let mut second = Box::new(server(&new, &two, log_options()).unwrap());
    assert_eq!(first.status().position, 2);
    assert_eq!(add(&mut second, "e", 1)[0].0, "b");
    assert_eq!(add(&mut first, "f", 1)[0].0, "b");
    HistoryBackend::close(first).unwrap();
    second.remove("a").unwrap();
    HistoryBackend::close(second).unwrap();
    // The first one has not seen the removal yet.
    let mut first = Box::new(server(&new, &one, log_options()).unwrap());
    assert_eq!(add(&mut first, "g", 0)[0].0, "d");
    HistoryBackend::close(first).unwrap();
    let mut second = Box::new(server(&new, &two, log_options()).unwrap());
    assert_eq!(add(&mut second, "h", 2)[0].0, "c");
    HistoryBackend::close(second).unwrap();
    assert_eq!(
        dumped(&two).lines().count(),
        dumped(&one).lines().count() + 1
    );
}

/// A log that delivers an entry to one server, and then has another one in its place.
#[test]
fn a_server_that_applied_what_the_log_lost_refuses_to_go_on() {
    let (log, work) = (
        MemoryLog::with_faults(Vec::new()),
        tempfile::tempdir().unwrap(),
    );
    let [one, two] = ["one", "two"].map(|name| work.path().join(name));
    let mut first = Box::new(server(&log, &one, log_options()).unwrap());
    (0..3).for_each(|at| drop(add(&mut first, &format!("d{at}"), at)));
    let mut lost = LogMessage::parse(&log.entries()[2]).unwrap();
    (lost.publisher, lost.number) = (lost.publisher ^ 1, 1);
    lost.operations = vec![LogOperation::Add {
        id: "other".to_owned(),
        print: print_of(0),
    }];
    log.replace(2, lost.to_bytes());
    let mut second = Box::new(server(&log, &two, log_options()).unwrap());
    assert_eq!(add(&mut second, "e", 0)[0].0, "d0");
    // The second one has the log on its side.
    assert_eq!(add(&mut second, "f", 1)[0].0, "d1");
    let request = Request {
        id: "g",
        print: Some(print_of(2)),
        add: false,
    };
    let why = (0..1000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(5));
        first.ask(&[request]).err()
    });
    let why = why.unwrap().to_string();
    assert!(
        why.starts_with("log: entry 3 is another one than this history has applied"),
        "{why}"
    );
    assert!(second.ask(&[request]).is_ok());
    HistoryBackend::close(second).unwrap();
}
