//! dedup-query serve: many clients, slow clients, invalid requests, and the end of a server.

use crate::test_dir::{TestDir, records};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    process::{Child, ChildStderr, Command, Stdio},
    thread,
};

/// A running server, killed when dropped.
pub struct Server {
    child: Child,
    /// The address in the readiness line.
    pub address: String,
    pub entries: u64,
    stderr: BufReader<ChildStderr>,
}

impl Server {
    /// Starts a server and waits until it is ready.
    pub fn start(dir: &TestDir, arguments: &[&str]) -> Self {
        Self::of(dir.command("dedup-query", arguments))
    }

    fn of(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut server = Self {
            child,
            address: String::new(),
            entries: 0,
            stderr,
        };
        loop {
            let line = server.next_message();
            assert!(!line.is_empty(), "{command:?} ended");
            if let Some(rest) = line.strip_prefix("dedup-query: listening on ") {
                let (address, entries) = rest.trim_end().rsplit_once(", ").unwrap();
                server.address = address.to_owned();
                server.entries = entries.strip_suffix(" entries").unwrap().parse().unwrap();
                return server;
            }
        }
    }

    /// A server with the usual options on a Unix socket.
    pub fn unix(dir: &TestDir, more: &[&str]) -> Self {
        Self::start(
            dir,
            &[
                &[
                    "serve",
                    "--history",
                    "h",
                    "--min-similarity",
                    "0.9",
                    "--lines",
                    "unix:s",
                ],
                more,
            ]
            .concat(),
        )
    }

    pub fn connect(&self, dir: &TestDir) -> Client {
        match self.address.split_once(':').unwrap() {
            ("unix", path) => Client::over(UnixStream::connect(dir.path(path)).unwrap()),
            (_, host) => {
                let stream = TcpStream::connect(host).unwrap();
                stream.set_nodelay(true).unwrap();
                Client {
                    input: BufReader::new(Box::new(stream.try_clone().unwrap())),
                    output: Box::new(stream),
                }
            }
        }
    }

    pub fn signal(&self, name: &str) {
        assert!(
            Command::new("kill")
                .args(["-s", name, &self.child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Sends a signal; returns the exit status and the rest of stderr.
    pub fn end(self, signal: &str) -> (Option<i32>, String) {
        self.signal(signal);
        self.wait()
    }

    pub fn wait(mut self) -> (Option<i32>, String) {
        let mut stderr = String::new();
        self.stderr.read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap().code(), stderr)
    }

    /// The next line on stderr.
    pub fn next_message(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub struct Client {
    input: BufReader<Box<dyn Read + Send>>,
    output: Box<dyn WriteHalf>,
}

pub trait WriteHalf: Write + Send {
    fn end(&self);
}

impl WriteHalf for UnixStream {
    fn end(&self) {
        self.shutdown(Shutdown::Write).unwrap();
    }
}

impl WriteHalf for TcpStream {
    fn end(&self) {
        self.shutdown(Shutdown::Write).unwrap();
    }
}

impl Client {
    fn over(stream: UnixStream) -> Self {
        Self {
            input: BufReader::new(Box::new(stream.try_clone().unwrap())),
            output: Box::new(stream),
        }
    }

    pub fn send(&mut self, lines: &str) {
        self.output.write_all(lines.as_bytes()).unwrap();
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.input.read_line(&mut line).unwrap();
        line
    }

    pub fn ask(&mut self, line: &str) -> String {
        self.send(&format!("{line}\n"));
        self.line()
    }

    /// Sends all lines and closes the sending side; all lines are still answered.
    pub fn ask_all(mut self, lines: &str) -> String {
        let output = self.output;
        let lines = lines.to_owned();
        let sender = thread::spawn(move || {
            let mut output = output;
            output.write_all(lines.as_bytes()).unwrap();
            output.end();
            output
        });
        let mut answers = String::new();
        self.input.read_to_string(&mut answers).unwrap();
        drop(sender.join().unwrap());
        answers
    }

    fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.input.read_to_string(&mut rest).unwrap();
        rest
    }
}

/// Documents whose words no other `who` has; some are similar.
pub fn documents(who: usize, count: usize) -> String {
    let text = |seed: usize| {
        (0..60)
            .map(|n| format!("w{who}x{} ", (seed * 7919 + n * n * 31) % 5000))
            .collect::<String>()
    };
    let line = |n: usize| {
        let body = if n % 3 == 2 {
            text(n - 1).replacen('w', "changed", 1)
        } else {
            text(n)
        };
        format!("{{\"id\":\"c{who}-{n}\",\"text\":\"{body}\"}}\n")
    };
    (0..count).map(line).collect()
}

fn answers_without_server(lines: &str, more: &[&str]) -> String {
    let arguments = [&["history", "h", "--min-similarity", "0.9"], more].concat();
    TestDir::new()
        .run_with("dedup-query", &arguments, lines.as_bytes())
        .stdout()
}

#[test]
fn many_clients_get_the_answers_each_would_get_alone() {
    for listen in ["unix:s", "tcp:127.0.0.1:0"] {
        let dir = TestDir::new();
        let server = Server::start(
            &dir,
            &[
                "serve",
                "--history",
                "h",
                "--min-similarity",
                "0.9",
                "--lines",
                listen,
            ],
        );
        let idle: Vec<_> = (0..20).map(|_| server.connect(&dir)).collect();
        thread::scope(|scope| {
            for who in 0..8 {
                let (client, lines) = (server.connect(&dir), documents(who, 600));
                scope.spawn(move || {
                    assert!(
                        client.ask_all(&lines) == answers_without_server(&lines, &[]),
                        "client {who}"
                    )
                });
            }
        });
        drop(idle);
        assert_eq!(server.end("TERM"), (Some(0), String::new()));
        assert!(!dir.path("s").exists());
        // The server's history is an ordinary history with all documents.
        let server = Server::unix(&dir, &["--no-add"]);
        assert_eq!(server.entries, 8 * 600);
        assert_eq!(server.end("INT").0, Some(0));
    }
}

/// Long documents are read by other threads than short ones, and a signal may arrive meanwhile:
/// each document is answered in order, or not at all.
#[test]
fn long_and_short_documents_are_answered_in_order() {
    let dir = TestDir::new();
    let server = Server::unix(&dir, &["--threads", "3"]);
    let lengthen = |who: usize, number: usize, line: &str| {
        let more = (0..[0, 3, 400, 0, 20_000][number % 5])
            .map(|n| format!("more{who}x{number}x{n} "))
            .collect::<String>();
        line.replace("\"}", &format!("{more}\"}}\n"))
    };
    let lines = move |who: usize| {
        documents(who, 150)
            .lines()
            .enumerate()
            .map(|(number, line)| lengthen(who, number, line))
            .collect::<String>()
    };
    thread::scope(|scope| {
        for who in 0..3 {
            let (client, lines) = (server.connect(&dir), lines(who));
            scope.spawn(move || {
                assert!(
                    client.ask_all(&lines) == answers_without_server(&lines, &[]),
                    "client {who}"
                )
            });
        }
    });
    let mut client = server.connect(&dir);
    let (mut output, expected) = (client.output, answers_without_server(&lines(3), &[]));
    let sender = thread::spawn(move || drop(output.write_all(lines(3).as_bytes())));
    let mut answers = String::new();
    client.input.read_line(&mut answers).unwrap();
    server.signal("TERM");
    client.input.read_to_string(&mut answers).unwrap();
    sender.join().unwrap();
    assert!(expected.starts_with(&answers) && answers.ends_with('\n'));
    assert_eq!(server.wait(), (Some(0), String::new()));
    assert_eq!(
        Server::unix(&dir, &["--no-add"]).entries as usize,
        3 * 150 + answers.lines().count()
    );
}

#[test]
fn prints_streams_and_control_requests_are_answered() {
    let dir = TestDir::with(&[("a", "Lorem, ipsum!"), ("b", "...")]);
    let server = Server::unix(&dir, &["--top", "2"]);
    assert_eq!(
        fs::metadata(dir.path("s")).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let mut client = server.connect(&dir);
    let hello = |entries: u64| {
        format!(
            "{{\"hello\":1,\"scheme\":\"words@18.0/49 minhash:256@2\",\"buckets\":[0,256],\"entries\":{entries},\"min_similarity\":0.9,\"top\":2,\"history\":\"…\",\"arrived\":{entries}}}\n"
        )
    };
    // The identity is random.
    let without_identity = |line: String| {
        let (before, after) = line.split_once("\"history\":\"").unwrap();
        format!("{before}\"history\":\"…{}", &after[32..])
    };
    assert_eq!(without_identity(client.ask("{\"hello\":1}")), hello(0));
    // A whole stream of prints: its header and its end get no answer.
    let stream = dir
        .run("dedup-blot", &["--scheme", "minhash:256", "a", "b"])
        .ok_text();
    assert_eq!(
        server.connect(&dir).ask_all(&stream),
        "{\"doc\":\"a\",\"best\":null,\"matches\":[]}\n{\"doc\":\"b\",\"best\":null,\"matches\":[]}\n"
    );
    let found = |id: &str| {
        format!(
            "{{\"doc\":\"{id}\",\"best\":{{\"doc\":\"a\",\"similarity\":1}},\"matches\":[{{\"doc\":\"a\",\"similarity\":1}}]}}\n"
        )
    };
    assert_eq!(
        client.ask(r#"{"id":"x","text":"ipsum lorem","add":false}"#),
        found("x")
    );
    assert_eq!(
        client.ask(r#"{"text":"lorem ipsum","add":false}"#),
        found("-:3")
    );
    assert_eq!(without_identity(client.ask("{\"hello\":1}")), hello(1));
    assert_eq!(client.ask(r#"{"remove":"a"}"#), "{\"removed\":1}\n");
    assert_eq!(client.ask(r#"{"remove":"a"}"#), "{\"removed\":0}\n");
    assert_eq!(
        client.ask(r#"{"id":"x","text":"lorem ipsum","remove":"x"}"#),
        "{\"doc\":\"x\",\"best\":null,\"matches\":[]}\n"
    );
    assert_eq!(
        client.ask(r#"{"id":"y","text":"lorem ipsum"}"#),
        found("y").replace("\"doc\":\"a\"", "\"doc\":\"x\"")
    );
    assert_eq!(server.end("TERM").0, Some(0));
    // A read-only server adds nothing, whatever the request says.
    let server = Server::unix(&dir, &["--no-add"]);
    let mut client = server.connect(&dir);
    assert_eq!(
        client.ask(r#"{"id":"n","text":"some other"}"#),
        "{\"doc\":\"n\",\"best\":null}\n"
    );
    assert_eq!(
        client.ask(r#"{"id":"n","text":"some other","add":true}"#),
        "{\"doc\":\"n\",\"best\":null,\"added\":false}\n"
    );
    assert_eq!(
        client.ask(r#"{"remove":"x"}"#),
        "{\"error\":\"nothing can be removed: the history is read-only\"}\n"
    );
}

#[test]
fn invalid_lines_are_answered_in_order() {
    let dir = TestDir::new();
    let server = Server::unix(&dir, &[]);
    let lines = "{\"id\":\"a\",\"text\":\"one two\"}\nno JSON\n\n{\"id\":\"b\"}\n{\"id\":\"c\",\"text\":\"one two\"}\r\n{\"id\":\"d\",\"text\":\"\u{e9}\"}";
    let answers = server.connect(&dir).ask_all(lines);
    let expected = r#"{"doc":"a","best":null}
{"error":"line 2: not JSON: expected ident at column 2"}
{"error":"line 4: no field 'text' with a text"}
{"doc":"c","best":{"doc":"a","similarity":1}}
{"doc":"d","best":null}
"#;
    assert_eq!(answers, expected);
    let mut client = server.connect(&dir);
    client
        .output
        .write_all(b"{\"id\":\"x\",\"text\":\"\xff\"}\n")
        .unwrap();
    assert!(
        client
            .line()
            .starts_with("{\"error\":\"line 1: not UTF-8 at byte 18; ")
    );
    assert_eq!(
        client.ask(r#"{"id":"e","text":"three"}"#),
        "{\"doc\":\"e\",\"best\":null}\n"
    );
}

#[test]
fn a_line_above_the_limit_closes_the_connection() {
    let dir = TestDir::new();
    let server = Server::unix(&dir, &[]);
    let mut client = server.connect(&dir);
    assert_eq!(
        client.ask(r#"{"id":"a","text":"one"}"#),
        "{\"doc\":\"a\",\"best\":null}\n"
    );
    let block = vec![b'x'; 1 << 20];
    // The server closes the connection at the limit.
    while client.output.write_all(&block).is_ok() {}
    assert_eq!(
        client.line(),
        "{\"error\":\"line 2: more than 67108864 bytes in a line; the connection is closed\"}\n"
    );
    assert_eq!(
        server.connect(&dir).ask(r#"{"id":"b","text":"two"}"#),
        "{\"doc\":\"b\",\"best\":null}\n"
    );
}

#[test]
fn a_client_that_never_reads_blocks_only_itself() {
    for listen in ["unix:s", "tcp:127.0.0.1:0"] {
        let dir = TestDir::new();
        let server = Server::start(
            &dir,
            &[
                "serve",
                "--history",
                "h",
                "--min-similarity",
                "0.9",
                "--lines",
                listen,
            ],
        );
        let mut slow: Box<dyn Write> = match server.address.split_once(':').unwrap() {
            ("unix", path) => {
                let slow = UnixStream::connect(dir.path(path)).unwrap();
                slow.set_nonblocking(true).unwrap();
                Box::new(slow)
            }
            (_, host) => {
                let slow = TcpStream::connect(host).unwrap();
                slow.set_nonblocking(true).unwrap();
                Box::new(slow)
            }
        };
        let line = format!(
            "{{\"id\":\"{}\",\"text\":\"same words\",\"add\":false}}\n",
            "long".repeat(50)
        );
        // Sends until the server stops reading. Meanwhile and afterwards other clients are answered
        // at once.
        let (mut sent, mut waits) = (0, 0);
        let mut other = server.connect(&dir);
        while waits < 50 {
            match slow.write(line.as_bytes()) {
                Ok(count) => (sent, waits) = (sent + count, 0),
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                    waits += 1;
                    assert_eq!(
                        other.ask(&format!("{{\"id\":\"o{sent}-{waits}\",\"text\":\"...\"}}")),
                        format!("{{\"doc\":\"o{sent}-{waits}\",\"best\":null}}\n")
                    );
                }
            }
            assert!(
                sent < 64 << 20,
                "everything is read, and nothing is taken back"
            );
        }
        // At the end the server does not wait forever for this client.
        assert_eq!(server.end("TERM"), (Some(0), String::new()));
    }
}

/// A client sends half a line and then nothing: others are answered, and the server waits for the
/// rest.
#[test]
fn half_a_line_blocks_only_its_client() {
    let dir = TestDir::new();
    let server = Server::unix(&dir, &["--client-memory", "1M"]);
    let mut idle = server.connect(&dir);
    idle.send("{\"id\":\"i\",\"text\":\"some");
    // Another client uses most of the memory for long lines.
    let mut long = server.connect(&dir);
    long.send(&format!(
        "{{\"id\":\"l\",\"text\":\"{}",
        "long ".repeat(120_000)
    ));
    let mut other = server.connect(&dir);
    for number in 0..50 {
        let id = format!("o{number}");
        assert_eq!(
            other.ask(&format!("{{\"id\":\"{id}\",\"text\":\"...\"}}")),
            format!("{{\"doc\":\"{id}\",\"best\":null}}\n")
        );
    }
    // A third client gets no memory for its line.
    let mut more = server.connect(&dir);
    let _ = more
        .output
        .write_all(format!("{{\"id\":\"m\",\"text\":\"{}", "more ".repeat(200_000)).as_bytes());
    assert_eq!(
        more.line(),
        "{\"error\":\"line 1: all clients together have 1048576 bytes, which is the limit; try again later; the connection is closed\"}\n"
    );
    assert_eq!(idle.ask(" words\"}"), "{\"doc\":\"i\",\"best\":null}\n");
    assert_eq!(long.ask("\"}"), "{\"doc\":\"l\",\"best\":null}\n");
    // Now there is memory again.
    let line = format!("{{\"id\":\"m\",\"text\":\"{}\"}}", "more ".repeat(120_000));
    assert_eq!(
        server.connect(&dir).ask(&line),
        "{\"doc\":\"m\",\"best\":null}\n"
    );
    assert_eq!(server.end("TERM").0, Some(0));
}

#[test]
fn ids_above_the_length_limit_are_refused() {
    let dir = TestDir::new();
    let server = Server::unix(&dir, &[]);
    let (id, longer) = ("i".repeat(65_536), "i".repeat(65_537));
    let mut client = server.connect(&dir);
    let stderr = "an id of 65537 bytes, 65536 is the most; give it a shorter one";
    assert_eq!(
        client.ask(&format!("{{\"id\":\"{longer}\",\"text\":\"one\"}}")),
        format!("{{\"error\":\"line 1: {stderr}\"}}\n")
    );
    assert_eq!(
        client.ask(&format!("{{\"remove\":\"{longer}\"}}")),
        format!("{{\"error\":\"line 2: {stderr}\"}}\n")
    );
    assert_eq!(
        client.ask(&format!("{{\"id\":\"{id}\",\"text\":\"one\"}}")),
        format!("{{\"doc\":\"{id}\",\"best\":null}}\n")
    );
    assert_eq!(
        client.ask(&format!("{{\"remove\":\"{id}\"}}")),
        "{\"removed\":1}\n"
    );
    assert_eq!(server.end("TERM").0, Some(0));
    let lines =
        format!("{{\"id\":\"{longer}\",\"text\":\"one\"}}\n{{\"id\":\"b\",\"text\":\"two\"}}\n");
    let ran = dir.run_with(
        "dedup-query",
        &["history", "h", "--min-similarity", "1"],
        lines.as_bytes(),
    );
    assert_eq!(
        (ran.code(), ran.stdout().as_str()),
        (2, "{\"doc\":\"b\",\"best\":null}\n")
    );
    assert_eq!(ran.stderr(), format!("dedup-query: stdin:1: {stderr}\n"));
}

/// A client whose machine disappeared must not occupy its slot forever: TCP keepalive is on.
#[test]
fn tcp_connections_use_keepalive() {
    let dir = TestDir::new();
    let server = Server::start(
        &dir,
        &[
            "serve",
            "--history",
            "h",
            "--min-similarity",
            "1",
            "--lines",
            "tcp:127.0.0.1:0",
        ],
    );
    let mut client = server.connect(&dir);
    assert!(client.ask("{\"hello\":1}").starts_with("{\"hello\":1,"));
    let Ok(table) = fs::read_to_string("/proc/net/tcp") else {
        return eprintln!("no table of connections here: skipped");
    };
    let port: u16 = server.address.rsplit_once(':').unwrap().1.parse().unwrap();
    // The server's end of an open connection, with a keepalive timer (kind 2) of at most 60
    // seconds.
    let fields = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let own = table
        .lines()
        .map(fields)
        .find(|fields| fields[1].ends_with(&format!(":{port:04X}")) && fields[3] == "01")
        .unwrap();
    let (kind, hundredths) = own[5].split_once(':').unwrap();
    assert!(
        kind == "02" && u64::from_str_radix(hundredths, 16).unwrap() <= 6000,
        "{own:?}"
    );
}

/// The server gets a signal while it writes and merges segments: it does not wait for them, and
/// everything that was answered is there.
#[test]
fn a_signal_while_segments_are_written_loses_nothing() {
    let dir = TestDir::new();
    for sync in ["never", "100ms"] {
        let _ = fs::remove_dir_all(dir.path("h"));
        let server = Server::unix(&dir, &["--file-entries", "20", "--sync-every", sync]);
        let lines = documents(3, 1500);
        let mut client = server.connect(&dir);
        let mut output = client.output;
        let sender = thread::spawn(move || drop(output.write_all(lines.as_bytes())));
        for _ in 0..700 {
            client.input.read_line(&mut String::new()).unwrap();
        }
        server.signal("TERM");
        let mut rest = String::new();
        client.input.read_to_string(&mut rest).unwrap();
        sender.join().unwrap();
        assert_eq!(server.wait(), (Some(0), String::new()));
        assert!(!dir.path("h/lock").exists());
        let entries = 700 + rest.lines().count() as u64;
        assert_eq!(Server::unix(&dir, &["--no-add"]).entries, entries);
        // The next server removes leftovers and continues; at the end no file is left over.
        let server = Server::unix(&dir, &["--file-entries", "20"]);
        assert_eq!(server.entries, entries);
        assert_eq!(server.end("TERM"), (Some(0), String::new()));
    }
}

#[test]
fn the_history_holds_exactly_the_answered_documents() {
    let dir = TestDir::new();
    let server = Server::unix(&dir, &[]);
    let mut client = server.connect(&dir);
    let lines = documents(1, 5000);
    let mut output = client.output;
    let sender = thread::spawn(move || drop(output.write_all(lines.as_bytes())));
    let first: Vec<String> = (0..300)
        .map(|_| {
            let mut line = String::new();
            client.input.read_line(&mut line).unwrap();
            line
        })
        .collect();
    server.signal("TERM");
    let mut rest = String::new();
    client.input.read_to_string(&mut rest).unwrap();
    sender.join().unwrap();
    assert_eq!(server.end("TERM").0, Some(0));
    let answered = records(rest.as_bytes());
    assert!(
        rest.ends_with('\n') && answered.iter().all(|answer| answer["error"].is_null()),
        "{rest}"
    );
    let server = Server::unix(&dir, &["--no-add"]);
    assert_eq!(server.entries, (first.len() + answered.len()) as u64);
}

/// With --sync-every each, everything answered survives a kill, and the leftover socket is
/// replaced.
#[test]
fn answered_documents_survive_a_kill() {
    let dir = TestDir::new();
    for sync in ["each", "100ms", "never"] {
        let _ = fs::remove_dir_all(dir.path("h"));
        let server = Server::unix(&dir, &["--sync-every", sync]);
        let mut client = server.connect(&dir);
        let answered = documents(1, 90)
            .lines()
            .map(|line| client.ask(line))
            .count() as u64;
        assert_eq!(server.end("KILL").0, None);
        assert!(dir.path("s").exists());
        let server = Server::unix(&dir, &["--sync-every", sync]);
        assert_eq!(server.entries, answered);
        let again = server
            .connect(&dir)
            .ask_all(&documents(1, 90).replace("{\"id\":\"c", "{\"id\":\"again"));
        assert!(
            records(again.as_bytes())
                .iter()
                .all(|answer| answer["best"]["similarity"] == 1)
        );
        assert_eq!(server.end("TERM").0, Some(0));
    }
}

/// A full disk ends the service; everything answered before is there.
#[test]
fn a_server_that_cannot_write_reports_it_and_ends() {
    let dir = TestDir::new();
    let mut command = Command::new("bash");
    let program = dir.command("dedup-query", &[]).get_program().to_owned();
    command
        .args([
            "-c",
            "ulimit -f 32; exec \"$0\" serve --history h --min-similarity 0.9 --lines unix:s",
        ])
        .arg(program)
        .env("XDG_CACHE_HOME", dir.cache())
        .current_dir(dir.temp.path());
    let server = Server::of(command);
    let mut client = server.connect(&dir);
    let lines = documents(1, 2000);
    let answers: Vec<String> = lines
        .lines()
        .map(|line| client.ask(line))
        .take_while(|answer| !answer.contains("error"))
        .collect();
    assert!((100..1000).contains(&answers.len()), "{}", answers.len());
    assert_eq!(client.rest(), "");
    assert_eq!(
        server.wait(),
        (
            Some(2),
            "dedup-query: h/000001.journal: File too large (os error 27)\n".to_owned()
        )
    );
    assert_eq!(
        Server::unix(&dir, &["--no-add"]).entries,
        answers.len() as u64
    );
}

#[test]
fn sockets_of_other_processes_are_left_alone() {
    let dir = TestDir::with(&[("file", "x")]);
    let serve = |history: &str, listen: &str| {
        let ran = dir.run(
            "dedup-query",
            &[
                "serve",
                "--history",
                history,
                "--min-similarity",
                "1",
                "--lines",
                listen,
            ],
        );
        (ran.code(), ran.stderr())
    };
    let server = Server::unix(&dir, &[]);
    let live = serve("h2", "unix:s");
    assert_eq!(live, (2, "dedup-query: s: another process listens on it; stop that one, or choose another name\n".to_owned()));
    assert_eq!(
        serve("h2", "unix:file"),
        (
            2,
            "dedup-query: file: is no socket; choose another name\n".to_owned()
        )
    );
    assert!(serve("h", "unix:t").1.contains("is writing this history"));
    let remote = "other machines could connect, and there are no passwords; use 127.0.0.1, or allow remote clients";
    for address in ["tcp:0.0.0.0:0", "tcp:[::]:0", "tcp:192.0.2.1:7"] {
        assert_eq!(
            serve("h2", address),
            (2, format!("dedup-query: {address}: {remote}\n"))
        );
    }
    drop(server);
    // Another process has put its own socket there; it stays.
    let server = Server::unix(&dir, &[]);
    fs::remove_file(dir.path("s")).unwrap();
    let _other = UnixListener::bind(dir.path("s")).unwrap();
    assert_eq!(server.end("TERM").0, Some(0));
    assert!(dir.path("s").exists());
    let allowed = Server::start(
        &dir,
        &[
            "serve",
            "--history",
            "h3",
            "--min-similarity",
            "1",
            "--lines",
            "tcp:0.0.0.0:0",
            "--allow-remote",
        ],
    );
    assert_eq!(allowed.end("TERM").0, Some(0));
}

#[test]
fn clients_above_the_limit_are_refused() {
    let dir = TestDir::new();
    let server = Server::unix(&dir, &["--max-clients", "2"]);
    let mut two = [server.connect(&dir), server.connect(&dir)];
    // Both clients are connected once both were answered.
    for client in &mut two {
        assert!(client.ask("{\"hello\":1}").starts_with("{\"hello\":1,"));
    }
    assert_eq!(
        server.connect(&dir).rest(),
        "{\"error\":\"2 clients are connected, which is the limit; try again later\"}\n"
    );
    let [mut first, second] = two;
    second.ask_all("");
    // Its slot is free as soon as the server has seen its end.
    while !server
        .connect(&dir)
        .ask("{\"hello\":1}")
        .starts_with("{\"hello\":1,")
    {}
    assert!(first.ask("{\"hello\":1}").starts_with("{\"hello\":1,"));
}

#[test]
fn contradictory_service_options_are_refused() {
    let dir = TestDir::new();
    for (command, stderr) in [
        (
            "dedup-query serve --lines unix:s",
            "error: the following required arguments were not provided:",
        ),
        (
            "dedup-query serve --history h --min-similarity 1 --lines s",
            "error: invalid value 's' for '--lines <ADDR>': 's' is neither unix:PATH nor tcp:HOST:PORT",
        ),
        (
            "dedup-query serve --history h --min-similarity 1 --lines unix:s --only-new",
            "error: unexpected argument '--only-new' found",
        ),
        (
            "dedup-query serve --history h --min-similarity 1 --lines unix:s file",
            "error: unexpected argument 'file' found",
        ),
        (
            "dedup-query history h --min-similarity 1 --max-clients 5",
            "error: unexpected argument '--max-clients' found",
        ),
        (
            "dedup-query history h --min-similarity 1 --buckets 5..3",
            "error: invalid value '5..3' for '--buckets <A..B>': '5..3' is no range of cardinalities",
        ),
        (
            "dedup-query serve --history h --upstream unix:s --lines unix:t --min-similarity 1",
            "error: the argument '--history <DIR>' cannot be used with '--upstream <ADDR>'",
        ),
        (
            "dedup-query history --upstream unix:none --min-similarity 1",
            "dedup-query: unix:none: No such file or directory",
        ),
        (
            "dedup-query serve --history h --min-similarity 1 --lines unix:none/s",
            "dedup-query: none/s: No such file or directory",
        ),
    ] {
        let ran = dir.shell(command);
        assert!(
            ran.code() == 2 && ran.stderr().starts_with(stderr),
            "{command}: {} {}",
            ran.code(),
            ran.stderr()
        );
    }
}
