//! dedup-query serve --log: servers that follow one log answer as one history, and are replicas for a front.

use crate::test_dir::TestDir;
use crate::{
    http_client::HttpServer,
    service::{Client, Server},
    test_dir::{records, tools},
};

/// A nats-server with one node.
struct NatsNode {
    child: std::process::Child,
    port: u16,
}

impl NatsNode {
    /// `None`, and a message, if there is no nats-server.
    fn start(dir: &TestDir) -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut places: Vec<_> = std::env::split_paths(&path).collect();
        places.extend(["/usr/sbin".into(), tools().join("bin")]);
        let programs = places.into_iter().map(|place| place.join("nats-server"));
        let Some(program) = programs.into_iter().find(|program| program.exists()) else {
            eprintln!("no nats-server: skipped (scripts/dev/install-deps fetches it)");
            return None;
        };
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let child = std::process::Command::new(program)
            .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
            .arg(dir.path("nats"))
            .args(["-l", "nats.log"])
            .current_dir(dir.temp.path())
            .spawn()
            .unwrap();
        Some(Self { child, port })
    }

    fn log(&self, stream: &str) -> String {
        format!("nats://127.0.0.1:{}/{stream}", self.port)
    }

    /// Returns when all of its threads stand still.
    fn stop(&self) {
        self.signal("STOP");
        let tasks = format!("/proc/{}/task", self.child.id());
        let is_stopped = |task: std::path::PathBuf| {
            let state = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
            state
                .rsplit_once(") ")
                .is_none_or(|(_, state)| state.starts_with('T'))
        };
        let all = || std::fs::read_dir(&tasks).unwrap().flatten();
        while !all().all(|task| is_stopped(task.path())) {
            std::thread::yield_now();
        }
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = std::process::Command::new("kill")
            .args(["-s", name, &id])
            .status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for NatsNode {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(dir: &TestDir, history: &str, log: &str, more: &[&str]) -> Server {
    let listen = format!("unix:{history}.sock");
    let fixed = ["serve", "--history", history, "--lines", &listen];
    let follow = ["--log", log, "--log-replicas", "1"];
    let limits = ["--min-similarity", "0.8"];
    Server::start(dir, &[&fixed[..], &follow, &limits, more].concat())
}

fn document(id: &str, seed: usize) -> String {
    let words: Vec<String> = (0..60)
        .map(|at| format!("w{}", (seed * 7919 + at * at * 31) % 5000))
        .collect();
    format!("{{\"id\":\"{id}\",\"text\":\"{}\"}}", words.join(" "))
}

/// Asks again, under other names, until nothing is missing.
fn ask_until_complete(client: &mut Client, seed: usize) -> serde_json::Value {
    for at in 0.. {
        let answer = client.ask(&document(&format!("again-{seed}-{at}"), seed));
        let answer = records(answer.as_bytes()).remove(0);
        if answer.get("missing").is_none() {
            return answer;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    unreachable!()
}

#[test]
fn servers_of_one_log_answer_as_one_history() {
    let dir = TestDir::new();
    let Some(node) = NatsNode::start(&dir) else {
        return;
    };
    let log = node.log("history");
    let one = start(&dir, "one", &log, &[]);
    let mut first = one.connect(&dir);
    assert_eq!(
        ask_until_complete(&mut first, 1)["best"],
        serde_json::Value::Null
    );
    let http = HttpServer::start(
        &dir,
        &["--history", "two", "--log", &log, "--min-similarity", "0.8"],
    );
    assert_eq!(http.get("/readyz").status, 200);
    // Each sees at once what was added through the other.
    assert_eq!(
        first.ask(&document("a", 2)),
        "{\"doc\":\"a\",\"best\":null}\n"
    );
    let reply = http.post_json("/v1/history", &document("b", 2));
    let reply = String::from_utf8(reply.body).unwrap();
    assert_eq!(
        reply.trim_end(),
        "{\"doc\":\"b\",\"best\":{\"doc\":\"a\",\"similarity\":1}}"
    );
    assert_eq!(first.ask("{\"remove\":\"a\"}"), "{\"removed\":1}\n");
    let reply = http.post_json("/v1/history", &document("c", 2));
    assert!(
        String::from_utf8(reply.body)
            .unwrap()
            .contains("\"best\":{\"doc\":\"b\"")
    );
    let metrics = String::from_utf8(http.get("/metrics").body).unwrap();
    for name in ["history_log_position", "history_log_last"] {
        let line = format!("dedup_{name} ");
        let value = metrics.lines().find_map(|text| text.strip_prefix(&line));
        assert!(value.is_some_and(|value| value != "0"), "{metrics}");
    }
    // While the log is out of reach, answers say so, and nothing is added.
    node.stop();
    let lost = records(first.ask(&document("d", 2)).as_bytes()).remove(0);
    assert_eq!(
        (&lost["added"], &lost["missing"][0], &lost["best"]["doc"]),
        (&false.into(), &log.as_str().into(), &"b".into())
    );
    while http.get("/readyz").status != 503 {
        std::thread::yield_now();
    }
    node.signal("CONT");
    let back = ask_until_complete(&mut first, 2);
    assert_eq!(back["best"]["doc"], "b");
    drop(first);
    assert_eq!(one.end("TERM").0, Some(0));
    let stats = dir
        .run("dedup-query", &["history", "stats", "one"])
        .ok_text();
    assert!(stats.contains("applied up to entry"), "{stats}");
    // Another log is refused.
    let other = node.log("other");
    let ran = dir.run_with(
        "dedup-query",
        &["history", "one", "--log", &other, "--log-replicas", "1"],
        b"",
    );
    assert!(
        ran.code() == 2 && ran.stderr().contains("and the history follows history "),
        "{}",
        ran.stderr()
    );
}

/// Two ranges with two replicas each: any server may die, or lose its disk.
#[test]
fn a_front_asks_another_replica() {
    const RANGES: [&str; 2] = ["0..130", "131..256"];
    let dir = TestDir::new();
    let Some(node) = NatsNode::start(&dir) else {
        return;
    };
    let serve = |range: usize, replica: usize| {
        let log = node.log(&format!("range{range}"));
        let history = format!("h{range}{replica}");
        start(&dir, &history, &log, &["--buckets", RANGES[range]])
    };
    let mut servers: Vec<Option<Server>> = (0..4).map(|at| Some(serve(at / 2, at % 2))).collect();
    let upstreams: Vec<String> = (0..4)
        .map(|at| format!("unix:h{}{}.sock", at / 2, at % 2))
        .collect();
    let upstreams: Vec<&str> = upstreams
        .iter()
        .flat_map(|address| ["--upstream", address])
        .collect();
    let limits = ["--min-similarity", "0.8"];
    let listen = ["serve", "--lines", "unix:front"];
    let front = Server::start(&dir, &[&listen[..], &limits, &upstreams].concat());
    let mut client = front.connect(&dir);
    (0..30).for_each(|seed| drop(ask_until_complete(&mut client, seed)));
    let all_there = |client: &mut Client, name: &str| {
        for seed in 0..30 {
            let answer = client.ask(&document(&format!("{name}-{seed}"), seed));
            let answer = &records(answer.as_bytes())[0];
            assert_eq!(
                (
                    &answer["best"]["similarity"],
                    answer.get("missing"),
                    answer.get("added")
                ),
                (&1.into(), None, None),
                "{answer}"
            );
        }
    };
    all_there(&mut client, "all");
    // One of each range dies: nothing is missing.
    for at in [0, 3] {
        servers[at].take().unwrap().end("KILL");
    }
    all_there(&mut client, "killed");
    // One of them comes back without its disk, and gets everything from the log.
    std::fs::remove_dir_all(dir.path("h00")).unwrap();
    servers[0] = Some(serve(0, 0));
    servers[3] = Some(serve(1, 1));
    all_there(&mut client, "back");
    for at in [1, 2] {
        servers[at].take().unwrap().end("KILL");
    }
    (0..30).for_each(|seed| drop(ask_until_complete(&mut client, seed)));
    all_there(&mut client, "others");
    // A hanging one costs a wait, and no answer.
    servers[1] = Some(serve(0, 1));
    servers[0].as_ref().unwrap().signal("STOP");
    (0..30).for_each(|seed| drop(ask_until_complete(&mut client, seed)));
    all_there(&mut client, "stopped");
    servers[0].as_ref().unwrap().signal("CONT");
    // None is left of the second range: it is named.
    servers[3].take().unwrap().end("KILL");
    let answers: Vec<_> = (0..30)
        .map(|seed| {
            records(
                client
                    .ask(&document(&format!("none-{seed}"), seed))
                    .as_bytes(),
            )
            .remove(0)
        })
        .collect();
    let missing = serde_json::json!(["unix:h10.sock", "unix:h11.sock"]);
    assert!(
        answers
            .iter()
            .any(|answer| answer["missing"] == missing && answer["added"] == false)
    );
    drop(client);
    assert_eq!(front.end("TERM").0, Some(0));
    // Parts of one log are no replicas.
    let same = start(&dir, "x", &node.log("range0"), &["--buckets", "131..256"]);
    let ran = dir.run(
        "dedup-query",
        &[
            "history",
            "--upstream",
            "unix:h01.sock",
            "--upstream",
            "unix:x.sock",
            "--min-similarity",
            "0.8",
        ],
    );
    assert!(
        ran.stderr().contains("give each range a log of its own"),
        "{}",
        ran.stderr()
    );
    drop(same);
}
