//! dedup-query --upstream: servers that each keep a part of a history answer as one.

use crate::{
    service::Server,
    test_dir::{TestDir, records},
};
use serde_json::Value;
use std::{collections::BTreeMap, time::Instant};

const RANGES: [&str; 3] = ["0..124", "125..131", "132..256"];
const WANTED: [&str; 4] = ["--min-similarity", "0.8", "--top", "3"];

fn start_part(dir: &TestDir, number: usize) -> Server {
    let (history, listen) = (format!("h{number}"), format!("unix:u{number}"));
    Server::start(
        dir,
        &[
            &[
                "serve",
                "--history",
                &history,
                "--lines",
                &listen,
                "--buckets",
                RANGES[number],
            ],
            &WANTED[..],
        ]
        .concat(),
    )
}

fn start_parts(dir: &TestDir) -> [Server; 3] {
    [0, 1, 2].map(|number| start_part(dir, number))
}

/// The upstreams in another order than that of their cardinalities.
const UPSTREAMS: [&str; 6] = [
    "--upstream",
    "unix:u2",
    "--upstream",
    "unix:u0",
    "--upstream",
    "unix:u1",
];

fn ask_router(dir: &TestDir, more: &[&str], lines: &str) -> Vec<Value> {
    let ran = dir.run_with(
        "dedup-query",
        &[&["history"], &UPSTREAMS[..], &WANTED[..], more].concat(),
        lines.as_bytes(),
    );
    assert!(
        ran.code() < 2 && ran.stderr().is_empty(),
        "{}",
        ran.stderr()
    );
    records(ran.stdout().as_bytes())
}

fn ask_whole_history(dir: &TestDir, more: &[&str], lines: &str) -> Vec<Value> {
    let ran = dir.run_with(
        "dedup-query",
        &[&["history", "whole"], &WANTED[..], more].concat(),
        lines.as_bytes(),
    );
    assert!(
        ran.code() < 2 && ran.stderr().is_empty(),
        "{}",
        ran.stderr()
    );
    records(ran.stdout().as_bytes())
}

/// Many documents have words in common with others, some have all words.
fn documents(seed: u64, count: usize) -> String {
    let mut state = seed;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) % below
    };
    let mut texts: Vec<Vec<u64>> = Vec::new();
    let mut lines = String::new();
    for number in 0..count {
        let mut words: Vec<u64> = match texts.len() as u64 {
            known if known > 0 && random(3) > 0 => texts[random(known) as usize].clone(),
            _ => (0..80).map(|_| random(50_000)).collect(),
        };
        for _ in 0..random(8) {
            let (at, word) = (random(words.len() as u64) as usize, random(50_000));
            words[at] = word;
        }
        let text: Vec<String> = words.iter().map(|word| format!("w{word}")).collect();
        lines += &format!(
            "{{\"id\":\"s{seed}-{number}\",\"text\":\"{}\"}}\n",
            text.join(" ")
        );
        texts.push(words);
    }
    lines
}

/// Checks for the same documents with the same similarities. Documents of equal similarity may come
/// in any order, and any of those at the cut.
#[track_caller]
fn ensure_same(found: &[Value], expected: &[Value]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let similarities = |answer: &Value| {
            answer["matches"]
                .as_array()
                .unwrap()
                .iter()
                .map(|found| found["similarity"].to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (
                similarities(found),
                &found["doc"],
                found.get("missing"),
                found.get("added")
            ),
            (similarities(expected), &expected["doc"], None, None)
        );
        let groups = |answer: &Value| {
            let mut groups = BTreeMap::<String, Vec<String>>::new();
            for found in answer["matches"].as_array().unwrap() {
                groups
                    .entry(found["similarity"].to_string())
                    .or_default()
                    .push(found["doc"].to_string());
            }
            if groups.values().map(Vec::len).sum::<usize>() == 3 {
                groups.pop_first();
            }
            groups.values_mut().for_each(|ids| ids.sort());
            groups
        };
        assert_eq!(groups(found), groups(expected));
        assert_eq!(
            found["best"],
            found["matches"].get(0).cloned().unwrap_or_default()
        );
    }
}

#[test]
fn three_parts_answer_as_one_history() {
    for seed in 1..=3 {
        let dir = TestDir::new();
        let servers = start_parts(&dir);
        let lines = documents(seed, 1500);
        let expected = ask_whole_history(&dir, &[], &lines);
        assert!(
            expected
                .iter()
                .filter(|answer| !answer["best"].is_null())
                .count()
                > 500
        );
        ensure_same(&ask_router(&dir, &[], &lines), &expected);
        // All documents are there now, and nothing is added.
        let other = documents(seed + 100, 300) + &lines.replace("{\"id\":\"s", "{\"id\":\"q");
        ensure_same(
            &ask_router(&dir, &["--no-add"], &other),
            &ask_whole_history(&dir, &["--no-add"], &other),
        );
        let entries: Vec<u64> = servers
            .iter()
            .map(|server| {
                records(server.connect(&dir).ask("{\"hello\":1}").as_bytes())[0]["entries"]
                    .as_u64()
                    .unwrap()
            })
            .collect();
        assert!(
            entries.iter().sum::<u64>() == 1500 && entries.iter().all(|&count| count > 100),
            "{entries:?}"
        );
    }
}

#[test]
fn a_router_serves_clients_and_removes_entries() {
    let dir = TestDir::new();
    let _servers = start_parts(&dir);
    let router = Server::start(
        &dir,
        &[
            &["serve", "--lines", "tcp:127.0.0.1:0"],
            &UPSTREAMS[..],
            &WANTED[..],
        ]
        .concat(),
    );
    let mut client = router.connect(&dir);
    let lines = documents(9, 200);
    let found: Vec<Value> = lines
        .lines()
        .flat_map(|line| records(client.ask(line).as_bytes()))
        .collect();
    ensure_same(&found, &ask_whole_history(&dir, &[], &lines));
    assert_eq!(client.ask(r#"{"remove":"s9-0"}"#), "{\"removed\":1}\n");
    assert_eq!(client.ask(r#"{"remove":"s9-0"}"#), "{\"removed\":0}\n");
    let hello = client.ask("{\"hello\":1}");
    assert!(
        hello.starts_with(
            "{\"hello\":1,\"scheme\":\"words@18.0/49 minhash:256@2\",\"buckets\":[0,256],"
        ),
        "{hello}"
    );
    assert_eq!(router.end("TERM").0, Some(0));
}

#[test]
fn a_lost_upstream_is_named_and_comes_back() {
    let dir = TestDir::new();
    let [low, middle, high] = start_parts(&dir);
    let mut router = Server::start(
        &dir,
        &[&["serve", "--lines", "unix:f"], &UPSTREAMS[..], &WANTED[..]].concat(),
    );
    let mut client = router.connect(&dir);
    let lines = documents(5, 60);
    // A document sent again gets its first answer, so each time it gets another name.
    let mut times = 0;
    let mut all = |add: bool| -> Vec<Value> {
        times += 1;
        let line = |line: &str| {
            line.replacen("\"s", &format!("\"{times}s"), 1).replacen(
                '}',
                &format!(",\"add\":{add}}}"),
                1,
            )
        };
        lines
            .lines()
            .flat_map(|text| records(client.ask(&line(text)).as_bytes()))
            .collect()
    };
    let before = all(true);
    assert!(before.iter().all(|answer| answer.get("missing").is_none()));
    let known = all(false);
    // One server dies: answers name it, and only the documents it kept are not found, and not
    // added.
    assert_eq!(middle.end("KILL").0, None);
    let without = all(true);
    let is_missing = |answer: &&Value| answer.get("missing").is_some();
    assert!(
        without
            .iter()
            .filter(is_missing)
            .all(|answer| answer["missing"] == serde_json::json!(["unix:u1"]))
    );
    let (lost, left): (Vec<&Value>, Vec<&Value>) =
        without.iter().partition(|answer| answer["added"] == false);
    assert!(
        lost.len() > 5 && left.len() > 5 && lost.iter().all(is_missing),
        "{} {}",
        lost.len(),
        left.len()
    );
    assert!(left.iter().all(|answer| answer["best"]["similarity"] == 1));
    assert!(
        router
            .next_message()
            .starts_with("dedup-query: unix:u1: lost: ")
    );
    // It is started again with its cardinalities.
    let _middle = start_part(&dir, 1);
    while all(false)
        .iter()
        .any(|answer| answer.get("missing").is_some())
    {}
    assert!(
        router
            .next_message()
            .starts_with("dedup-query: unix:u1: is there, with ")
    );
    assert!(
        all(false)
            .iter()
            .zip(&known)
            .all(|(now, then)| now["best"]["similarity"] == then["best"]["similarity"])
    );
    drop((low, high));
}

/// T16: an upstream that comes back without its documents is not taken for one that has them.
#[test]
fn an_upstream_that_lost_documents_is_named() {
    let dir = TestDir::new();
    let [_low, middle, _high] = start_parts(&dir);
    let mut router = Server::start(
        &dir,
        &[&["serve", "--lines", "unix:f"], &UPSTREAMS[..], &WANTED[..]].concat(),
    );
    let mut client = router.connect(&dir);
    let backup = dir.run("dedup-query", &["history", "backup", "h1", "empty"]);
    assert_eq!(backup.code(), 0, "{}", backup.stderr());
    let lines = documents(5, 60);
    lines.lines().for_each(|line| drop(client.ask(line)));
    let mut search = || -> Vec<Value> {
        let line = |line: &str| {
            line.replacen("\"s", "\"q", 1)
                .replacen('}', ",\"add\":false}", 1)
        };
        lines
            .lines()
            .flat_map(|text| records(client.ask(&line(text)).as_bytes()))
            .collect()
    };
    let known = search();
    middle.end("KILL");
    std::fs::rename(dir.path("h1"), dir.path("full")).unwrap();
    let mut expect_message = |start: &str| {
        let message = router.next_message();
        assert!(message.starts_with(start), "{message}");
    };
    // Without anything, and as it was before most documents came.
    for is_backup in [false, true] {
        if is_backup {
            std::fs::remove_dir_all(dir.path("h1")).unwrap();
            std::fs::rename(dir.path("empty"), dir.path("h1")).unwrap();
        }
        let middle = start_part(&dir, 1);
        let before = std::time::Instant::now();
        while before.elapsed().as_secs() < 3 {
            for (now, then) in search().iter().zip(&known) {
                assert!(
                    now["missing"] == serde_json::json!(["unix:u1"])
                        || now["best"]["similarity"] == then["best"]["similarity"],
                    "{now} {then}"
                );
            }
        }
        middle.end("KILL");
    }
    expect_message("dedup-query: unix:u1: lost: ");
    expect_message("dedup-query: unix:u1: it has lost the ");
    expect_message("dedup-query: unix:u1: it has lost documents: ");
    // With its documents it is taken back.
    std::fs::remove_dir_all(dir.path("h1")).unwrap();
    std::fs::rename(dir.path("full"), dir.path("h1")).unwrap();
    let _middle = start_part(&dir, 1);
    while search()
        .iter()
        .any(|answer| answer.get("missing").is_some())
    {}
    expect_message("dedup-query: unix:u1: is there, with ");
    assert_eq!(search(), known);
}

/// A stopped server accepts connections but never answers.
#[test]
fn a_router_does_not_wait_for_a_hanging_upstream() {
    let dir = TestDir::new();
    let [_low, middle, _high] = start_parts(&dir);
    let router = Server::start(
        &dir,
        &[&["serve", "--lines", "unix:f"], &UPSTREAMS[..], &WANTED[..]].concat(),
    );
    let (mut client, lines) = (router.connect(&dir), documents(6, 60));
    lines.lines().for_each(|line| drop(client.ask(line)));
    middle.signal("STOP");
    let start = Instant::now();
    let answers: Vec<Value> = lines
        .lines()
        .flat_map(|line| records(client.ask(line).as_bytes()))
        .collect();
    assert!(
        answers
            .iter()
            .any(|answer| answer["missing"] == serde_json::json!(["unix:u1"]))
    );
    assert!(
        (2.0..5.0).contains(&start.elapsed().as_secs_f64()),
        "{:?}",
        start.elapsed()
    );
    middle.signal("CONT");
    while lines
        .lines()
        .any(|line| client.ask(line).contains("\"missing\""))
    {}
}

#[test]
fn incompatible_upstreams_are_refused() {
    let dir = TestDir::new();
    let _low = start_part(&dir, 0);
    let serve = |history: &str, listen: &str, more: &[&str]| {
        Server::start(
            &dir,
            &[&["serve", "--history", history, "--lines", listen], more].concat(),
        )
    };
    let _all = serve("a", "unix:all", &WANTED);
    let _other = serve(
        "b",
        "unix:other",
        &[
            "--min-similarity",
            "0.9",
            "--top",
            "3",
            "--buckets",
            "200..256",
        ],
    );
    let _one = serve(
        "c",
        "unix:one",
        &["--min-similarity", "0.8", "--buckets", "200..256"],
    );
    let _lines = serve(
        "d",
        "unix:lines",
        &[
            &WANTED[..],
            &["--tokenizer", "line", "--buckets", "200..256"],
        ]
        .concat(),
    );
    for (second, message) in [
        (
            "unix:all",
            "dedup-query: unix:all: it keeps cardinalities 0..256, and unix:u0 keeps 0..124; give each a range of its own, or let both follow one log",
        ),
        (
            "unix:other",
            "dedup-query: unix:other: it answers from a similarity of 0.9 on, expected 0.8; give both the same least similarity",
        ),
        (
            "unix:one",
            "dedup-query: unix:one: it gives the best 1, expected 3 or more; start it with a limit of 3",
        ),
        ("unix:lines", "dedup-query: unix:lines: scheme is 'line"),
    ] {
        let ran = dir.run(
            "dedup-query",
            &[
                &["history", "--upstream", "unix:u0", "--upstream", second],
                &WANTED[..],
            ]
            .concat(),
        );
        assert!(
            ran.code() == 2 && ran.stderr().starts_with(message),
            "{}",
            ran.stderr()
        );
    }
    // Cardinalities that no upstream keeps, and an upstream that is not there yet, are reported.
    let ran = dir.run_with(
        "dedup-query",
        &[&["history", "--upstream", "unix:u0"], &WANTED[..]].concat(),
        b"",
    );
    assert_eq!(
        ran.stderr(),
        "dedup-query: --upstream: no upstream keeps cardinalities 125..256; such documents are compared with others, but not added\n"
    );
    let ran = dir.run_with(
        "dedup-query",
        &[
            &["history", "--upstream", "unix:u0", "--upstream", "unix:u1"],
            &WANTED[..],
        ]
        .concat(),
        documents(7, 1).as_bytes(),
    );
    assert_eq!(
        ran.stderr(),
        "dedup-query: unix:u1: No such file or directory (os error 2); it is left out until it is there\n"
    );
    assert_eq!(
        records(ran.stdout().as_bytes())[0]["missing"].to_string(),
        "[\"unix:u1\"]"
    );
}

/// A history keeps the cardinalities that it was made with.
#[test]
fn other_buckets_than_those_of_a_history_are_refused() {
    let dir = TestDir::new();
    let lines = documents(8, 50);
    for (history, made_with, asked) in [("whole", "0..256", "0..126"), ("part", "0..126", "0..127")]
    {
        let ask = |buckets: &str, input: &str| {
            let arguments = ["history", history, "--buckets", buckets];
            dir.run_with("dedup-query", &arguments, input.as_bytes())
        };
        assert!(ask(made_with, &lines).code() < 2);
        let ran = ask(asked, &lines);
        assert_eq!(
            (ran.code(), ran.stdout().as_str(), ran.stderr()),
            (
                2,
                "",
                format!(
                    "dedup-query: {history}: keeps cardinalities {made_with}, expected {asked}; cut it with dedup-query history split, or \
                     join parts with dedup-query history merge\n"
                )
            )
        );
        let serve = [
            "serve",
            "--history",
            history,
            "--lines",
            "unix:s",
            "--buckets",
            asked,
        ];
        assert_eq!(dir.run("dedup-query", &serve).code(), 2);
    }
}

/// A part keeps only its own cardinalities in a stream as well.
#[test]
fn a_part_reports_documents_it_does_not_keep() {
    let dir = TestDir::new();
    let lines = documents(8, 50);
    let part = |buckets: &str| {
        let ran = dir.run_with(
            "dedup-query",
            &[
                "history",
                buckets,
                "--min-similarity",
                "0.9",
                "--buckets",
                buckets,
            ],
            lines.as_bytes(),
        );
        records(ran.stdout().as_bytes())
            .iter()
            .filter(|answer| answer["added"] == false)
            .count()
    };
    let [low, high] = ["0..127", "128..256"].map(part);
    assert!(low + high == 50 && low > 5 && high > 5, "{low} {high}");
}

/// Over TCP, with two upstreams lost at once.
#[test]
fn upstreams_on_tcp_are_lost_and_come_back() {
    for host in ["127.0.0.1", "[::1]"] {
        if std::net::TcpListener::bind(format!("{host}:0")).is_err() {
            eprintln!("{host} is no address here: skipped");
            continue;
        }
        let dir = TestDir::new();
        let start = |number: usize, address: &str| {
            let history = format!("h{number}");
            Server::start(
                &dir,
                &[
                    &[
                        "serve",
                        "--history",
                        &history,
                        "--lines",
                        address,
                        "--buckets",
                        RANGES[number],
                    ],
                    &WANTED[..],
                ]
                .concat(),
            )
        };
        let [low, middle, high] = [0, 1, 2].map(|number| start(number, &format!("tcp:{host}:0")));
        let addresses = [
            low.address.clone(),
            middle.address.clone(),
            high.address.clone(),
        ];
        let upstreams: Vec<&str> = addresses
            .iter()
            .flat_map(|address| ["--upstream", address])
            .collect();
        let router = Server::start(
            &dir,
            &[&["serve", "--lines", "unix:f"], &upstreams[..], &WANTED[..]].concat(),
        );
        let mut client = router.connect(&dir);
        let lines = documents(5, 40);
        let mut all = |add: bool| -> Vec<Value> {
            let line = |line: &str| {
                line.replacen(
                    '}',
                    if add {
                        ",\"add\":true}"
                    } else {
                        ",\"add\":false}"
                    },
                    1,
                )
            };
            lines
                .lines()
                .flat_map(|text| records(client.ask(&line(text)).as_bytes()))
                .collect()
        };
        assert!(
            all(true)
                .iter()
                .all(|answer| answer.get("missing").is_none())
        );
        let known = all(false);
        drop((middle, high));
        let without = all(false);
        let named: std::collections::BTreeSet<&str> = without
            .iter()
            .flat_map(|answer| {
                answer["missing"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|name| name.as_str().unwrap())
            })
            .collect();
        assert_eq!(named, addresses[1..].iter().map(String::as_str).collect());
        let _back = [1, 2].map(|number| start(number, &addresses[number]));
        while all(false)
            .iter()
            .any(|answer| answer.get("missing").is_some())
        {}
        assert!(
            all(false)
                .iter()
                .zip(&known)
                .all(|(now, then)| now["best"]["similarity"] == then["best"]["similarity"])
        );
        drop(low);
    }
}

/// A listener that accepts nothing and whose backlog is full: the router leaves it out, and other
/// upstreams still come back.
#[test]
fn a_router_does_not_wait_for_an_upstream_that_accepts_nothing() {
    let dir = TestDir::new();
    let [low, _middle, _] = start_parts(&dir);
    let stuck = std::os::unix::net::UnixListener::bind(dir.path("stuck")).unwrap();
    // SAFETY: a call without pointers, on a socket that listens already.
    assert_eq!(
        unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&stuck), 0) },
        0
    );
    let _first = std::os::unix::net::UnixStream::connect(dir.path("stuck")).unwrap();
    let upstreams = [
        "--upstream",
        "unix:u0",
        "--upstream",
        "unix:u1",
        "--upstream",
        "unix:stuck",
    ];
    let router = Server::start(
        &dir,
        &[&["serve", "--lines", "unix:f"], &upstreams[..], &WANTED[..]].concat(),
    );
    let mut client = router.connect(&dir);
    let lines = documents(5, 40);
    let mut missing = || {
        let answers: Vec<Value> = lines
            .lines()
            .flat_map(|text| records(client.ask(text).as_bytes()))
            .collect();
        answers
            .iter()
            .any(|answer| answer["missing"].to_string().contains("unix:u0"))
    };
    assert!(!missing());
    drop(low);
    assert!(missing());
    let _low = start_part(&dir, 0);
    while missing() {}
    assert_eq!(router.end("TERM").0, Some(0));
    // The socket of a stuck process is not taken over.
    let ran = dir.run(
        "dedup-query",
        &[
            "serve",
            "--history",
            "x",
            "--min-similarity",
            "1",
            "--lines",
            "unix:stuck",
        ],
    );
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-query: stuck: another process listens on it; stop that one, or choose another name\n"
        )
    );
}

/// A read-only upstream is named when an entry is to be removed, and stays connected; a router
/// above names what the router below cannot reach.
#[test]
fn upstreams_that_cannot_remove_an_entry_are_named() {
    let dir = TestDir::new();
    let [low, middle, high] = start_parts(&dir);
    drop(low.end("TERM"));
    let read_only = [
        "serve",
        "--history",
        "h0",
        "--lines",
        "unix:u0",
        "--buckets",
        RANGES[0],
        "--no-add",
    ];
    let _low = Server::start(&dir, &[&read_only, &WANTED[..]].concat());
    let router = Server::start(
        &dir,
        &[&["serve", "--lines", "unix:f"], &UPSTREAMS[..], &WANTED[..]].concat(),
    );
    let above = Server::start(
        &dir,
        &[
            &["serve", "--upstream", "unix:f", "--lines", "unix:g"],
            &WANTED[..],
        ]
        .concat(),
    );
    let mut clients = [router.connect(&dir), above.connect(&dir)];
    for client in &mut clients {
        assert_eq!(
            client.ask(r#"{"remove":"x"}"#),
            "{\"removed\":0,\"missing\":[\"unix:u0\"]}\n"
        );
    }
    // It is not lost: its prints are still compared.
    let answers: Vec<Value> = documents(5, 40)
        .lines()
        .flat_map(|text| records(clients[0].ask(text).as_bytes()))
        .collect();
    assert!(
        answers.iter().all(|answer| answer.get("missing").is_none()),
        "{answers:?}"
    );
    drop(middle);
    let [mut below, mut above_it] = clients;
    for client in [&mut below, &mut above_it] {
        assert_eq!(
            client.ask(r#"{"remove":"x"}"#),
            "{\"removed\":0,\"missing\":[\"unix:u0\",\"unix:u1\"]}\n"
        );
    }
    drop(high);
}
