//! dedup-query serve --http: routes, errors, limits, and what happens when something changes.

use crate::{
    http_client::{HttpServer, Reply, exchange, over_unix},
    service::documents,
    test_dir::{TestDir, records, root},
};
use std::{
    fs,
    io::{Read, Write},
    process::{Command, Stdio},
};

const ORIGINAL: &str = "it was the best of times it was the worst of times it was the age of wisdom it was the age of foolishness";
const OTHER: &str = "call me ishmael some years ago never mind how long precisely having little or no money in my purse";

/// An index of two documents and what they are made of.
fn indexed() -> TestDir {
    let dir = TestDir::with(&[
        ("docs/dickens.txt", ORIGINAL),
        ("docs/melville.txt", OTHER),
        ("essay.txt", &format!("They said: {ORIGINAL}! Indeed.")),
    ]);
    let build = ["build", "-q", "-o", "my.idx", "--relative", "docs"];
    dir.run("dedup-index", &build).ok();
    dir
}

fn search(server: &HttpServer, fields: &str) -> Reply {
    server.post_json(
        "/v1/search",
        &format!("{{\"text\":\"They said: {ORIGINAL}! Indeed.\",\"id\":\"essay.txt\"{fields}}}"),
    )
}

#[test]
fn answers_are_the_records_of_the_command_line() {
    let dir = indexed();
    let arguments = ["--index", "my.idx", "--corpus", "docs"];
    let server = HttpServer::start(&dir, &arguments);
    let local = |more: &[&str]| {
        dir.run(
            "dedup-query",
            &[&["my.idx", "essay.txt", "-q"], more].concat(),
        )
        .stdout()
    };
    let passages = &["--passages", "--corpus", "docs"][..];
    for (accept, fields, flags) in [
        ("application/x-ndjson", "", vec![]),
        ("text/csv", "", vec!["--format", "csv"]),
        ("text/tab-separated-values", "", vec!["--format", "tsv"]),
        (
            "application/x-ndjson",
            ",\"top\":1,\"score\":\"jaccard\"",
            vec!["--top", "1", "--score", "jaccard"],
        ),
        (
            "application/x-ndjson",
            ",\"threshold\":\"99%\"",
            vec!["--threshold", "99%"],
        ),
        (
            "application/x-ndjson",
            ",\"passages\":true",
            passages.to_vec(),
        ),
        (
            "application/x-ndjson",
            ",\"passages\":true,\"p_values\":true,\"chars\":true",
            [passages, &["--p-values", "--chars"]].concat(),
        ),
    ] {
        let body =
            format!("{{\"text\":\"They said: {ORIGINAL}! Indeed.\",\"id\":\"essay.txt\"{fields}}}");
        let headers = [("content-type", "application/json"), ("accept", accept)];
        let reply = server.request("POST", "/v1/search", &headers, body.as_bytes());
        assert_eq!(
            (reply.status, reply.text()),
            (200, local(&flags)),
            "{accept} {fields}"
        );
    }
    let answer = search(&server, ",\"passages\":true").json();
    assert_eq!(
        (&answer["index"], &answer["generation"]),
        (&"my".into(), &1.into())
    );
    assert_eq!(
        answer["matches"],
        serde_json::Value::Array(records(local(passages).as_bytes()))
    );
    assert_eq!(server.end("TERM"), (Some(0), String::new()));
}

#[test]
fn wrong_requests_name_what_is_wrong() {
    let dir = indexed();
    let server = HttpServer::start(&dir, &["--index", "my.idx", "--index", "b=my.idx"]);
    for (fields, expected) in [
        ("", "the field 'index' is missing; it is one of b, my"),
        (
            ",\"index\":\"c\"",
            "the field 'index' is 'c', it must be one of b, my",
        ),
        (
            ",\"index\":\"b\",\"treshold\":1",
            "the field 'treshold': unknown field `treshold`, expected one of",
        ),
        (
            ",\"index\":\"b\",\"top\":\"all\"",
            "the field 'top': invalid type: string \"all\", expected u32",
        ),
        (
            ",\"index\":\"b\",\"top\":0",
            "the field 'top' is 0, it must be a whole number from 1 to 100000",
        ),
        (
            ",\"index\":\"b\",\"threshold\":50",
            "the field 'threshold' is 50, and containment ranges from 0 to 1",
        ),
        (
            ",\"index\":\"b\",\"score\":\"s9\"",
            "the field 'score' is 's9', it must be one of",
        ),
        (
            ",\"index\":\"b\",\"exclude_text\":[5]",
            "the field 'exclude_text[0]': invalid type: integer `5`",
        ),
        (
            ",\"index\":\"b\",\"chars\":true",
            "the field 'chars' is about passages, and 'passages' is not true",
        ),
        (
            ",\"index\":\"b\",\"passages\":true",
            "the field 'passages': the server was not told where the documents of the index 'b' are",
        ),
        (
            ",\"index\":\"b\",\"tokens\":[]",
            "of the fields 'text', 'tokens' and 'file' only one may be there",
        ),
    ] {
        let error = search(&server, fields).error(400);
        assert!(error.starts_with(expected), "{fields}: {error}");
    }
    assert!(
        server
            .post_json("/v1/search", "{\"index\":\"b\"}")
            .error(400)
            .starts_with("the field 'text' is missing")
    );
    assert!(
        server
            .post_json("/v1/search", "{")
            .error(400)
            .starts_with("not JSON: EOF")
    );
    assert!(
        server
            .post_json("/v1/search", "\u{7f}")
            .error(400)
            .starts_with("not JSON: ")
    );
    let plain = [("content-type", "text/plain")];
    server
        .request("POST", "/v1/search", &plain, b"x")
        .error(415);
    let image = [
        ("content-type", "application/json"),
        ("accept", "image/png"),
    ];
    server
        .request("POST", "/v1/search", &image, b"{}")
        .error(406);
    server.get("/v1/search").error(405);
    server.get("/nothing").error(404);
    server
        .post_json("/v1/history", "{\"text\":\"a\"}")
        .error(404);
    assert_eq!(search(&server, ",\"index\":\"b\"").status, 200);
}

/// One document or many, queries and additions: the same answers as from a stream.
#[test]
fn a_history_is_asked_and_extended() {
    let dir = TestDir::new();
    let arguments = ["--history", "h", "--min-similarity", "0.9", "--top", "2"];
    let server = HttpServer::start(&dir, &arguments);
    let lines = documents(1, 200);
    let alone = TestDir::new();
    let expected = alone.run_with(
        "dedup-query",
        &["history", "h", "--min-similarity", "0.9", "--top", "2"],
        lines.as_bytes(),
    );
    let batch = |body: &str| {
        let headers = [("content-type", "application/x-ndjson")];
        server.request("POST", "/v1/history", &headers, body.as_bytes())
    };
    assert_eq!(batch(&lines).text(), expected.stdout());
    // Again the same answers, one by one.
    for (line, answer) in lines.lines().zip(expected.stdout().lines()).take(20) {
        assert_eq!(
            server.post_json("/v1/history", line).text().trim_end(),
            answer
        );
    }
    let like = lines.lines().next().unwrap().replace("c1-0", "x");
    let ask = |fields: &str| {
        let line = like.replace('}', &format!("{fields}}}"));
        server.post_json("/v1/history", &line)
    };
    assert_eq!(ask(",\"add\":false").json()["best"]["doc"], "c1-0");
    for (fields, expected) in [
        (",\"add\":\"false\"", "the field 'add': invalid type"),
        (",\"add\":0", "the field 'add': invalid type"),
        (
            ",\"min_similarity\":0.5",
            "the field 'min_similarity' is 0.5, the service answers from 0.9 on",
        ),
        (
            ",\"top\":3",
            "the field 'top' is 3, the service gives the best 2",
        ),
        (",\"url\":\"http://\"", "the field 'url': unknown field"),
    ] {
        let error = ask(fields).error(400);
        assert!(error.starts_with(expected), "{fields}: {error}");
    }
    // In a batch an error stands in the place of its answer.
    let answers = batch(
        "{\"id\":\"n\",\"text\":\"new words\"}\n\n{\"text\":5}\nno\n{\"id\":\"m\",\"text\":\"new words\"}",
    );
    let answers = answers.text();
    let answers: Vec<&str> = answers.lines().collect();
    assert_eq!(answers.len(), 4);
    assert!(
        answers[1].starts_with("{\"error\":\"line 3: the field 'text': "),
        "{}",
        answers[1]
    );
    assert!(
        answers[2].starts_with("{\"error\":\"line 4: not JSON"),
        "{}",
        answers[2]
    );
    assert!(
        answers[3].contains("\"doc\":\"n\",\"similarity\":1"),
        "{}",
        answers[3]
    );
    let remove = |id: &str| server.request("DELETE", &format!("/v1/history/{id}"), &[], b"");
    assert_eq!(remove("n").text(), "{\"removed\":1}\n");
    assert_eq!(remove("n").text(), "{\"removed\":0}\n");
    assert_eq!(remove("%C3%A9%2Fb").text(), "{\"removed\":0}\n");
    remove("%ff").error(400);
    // The empty id is one like any other.
    server.post_json(
        "/v1/history",
        "{\"id\":\"\",\"text\":\"words of a document without a name\"}",
    );
    assert_eq!(remove("").text(), "{\"removed\":1}\n");
    assert_eq!(server.end("TERM"), (Some(0), String::new()));
    // A read-only server says so.
    let server = HttpServer::start(&dir, &["--history", "h", "--no-add"]);
    assert_eq!(
        server
            .request("DELETE", "/v1/history/m", &[], b"")
            .error(403),
        "nothing can be removed: the history is read-only"
    );
}

/// A change of an index is seen without a restart, and a damaged one is not used.
#[test]
fn a_new_generation_is_searched_without_a_restart() {
    let dir = indexed();
    let mut server = HttpServer::start(&dir, &["--index", "my.idx"]);
    let generation = |server: &HttpServer| {
        let state = server.get("/v1/indexes").json();
        let state = &state["indexes"][0];
        (
            state["generation"].as_u64().unwrap(),
            state["documents"].as_u64().unwrap(),
        )
    };
    assert_eq!(generation(&server), (1, 2));
    dir.write("docs/copy.txt", format!("{ORIGINAL} and more"));
    dir.run(
        "dedup-index",
        &["add", "-q", "my.idx", "--relative", "docs/copy.txt"],
    )
    .ok();
    server.signal("HUP");
    while generation(&server).0 < 2 {}
    assert_eq!(generation(&server).1, 3);
    assert_eq!(
        search(&server, "").json()["matches"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    dir.run("dedup-index", &["compact", "my.idx"]).ok();
    // Without a signal it takes a second.
    while generation(&server).0 < 3 {}
    let manifest = fs::read_to_string(dir.path("my.idx/manifest.json")).unwrap();
    dir.write("my.idx/manifest.json", &manifest[..manifest.len() / 2]);
    server.signal("HUP");
    let message = server.next_message();
    assert!(
        message.starts_with("dedup-query: my.idx: ")
            && message.ends_with("; the service goes on with the generation that it has\n"),
        "{message}"
    );
    assert_eq!(
        (generation(&server), search(&server, "").status),
        ((3, 3), 200)
    );
    assert_eq!(server.end("INT"), (Some(0), String::new()));
}

#[test]
fn the_state_can_be_asked_for() {
    let dir = indexed();
    let server = HttpServer::on(&dir, "unix:s", &["--index", "my.idx", "--history", "h"]);
    assert_eq!(over_unix(&dir, &server, "/healthz").json()["status"], "ok");
    assert_eq!(
        over_unix(&dir, &server, "/readyz").json()["status"],
        "ready"
    );
    let index = &over_unix(&dir, &server, "/v1/indexes").json()["indexes"][0];
    assert_eq!(
        (&index["name"], &index["passages"]),
        (&"my".into(), &false.into())
    );
    assert_eq!(server.end("TERM"), (Some(0), String::new()));
    assert!(!dir.path("s").exists());
}

#[test]
fn large_and_slow_bodies_are_refused() {
    let dir = TestDir::new();
    let server = HttpServer::start(
        &dir,
        &["--history", "h", "--max-body", "10K", "--idle-timeout", "1"],
    );
    let long = format!("{{\"text\":\"{}\"}}", "word ".repeat(4000));
    let error = server.post_json("/v1/history", &long).error(413);
    assert_eq!(
        error,
        "the body has more than 10240 bytes, which is the limit"
    );
    // A body without a length is counted as it comes.
    let mut stream = server.connect();
    let head = "POST /v1/history HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    stream.write_all(head.as_bytes()).unwrap();
    let _ = stream.write_all(chunk.as_bytes());
    Reply::read(&mut stream).error(413);
    // Half a body, and half a head.
    let mut stream = server.connect();
    stream.write_all(b"POST /v1/history HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 100\r\n\r\n{").unwrap();
    Reply::read(&mut stream).error(408);
    let mut stream = server.connect();
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow: ")
        .unwrap();
    let mut rest = String::new();
    let _ = stream.read_to_string(&mut rest);
    assert!(!rest.contains("200 OK"), "{rest}");
    // So does a connection without a request.
    let mut idle = server.connect();
    assert_eq!(idle.read(&mut [0; 100]).unwrap_or(0), 0);
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn connections_above_the_limit_get_an_error() {
    let dir = TestDir::new();
    let server = HttpServer::start(&dir, &["--history", "h", "--max-clients", "1"]);
    let mut first = server.connect();
    first
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let mut block = [0; 1000];
    let count = first.read(&mut block).unwrap();
    assert!(block[..count].starts_with(b"HTTP/1.1 200"));
    let reply = server.get("/healthz");
    assert_eq!(
        (reply.status, reply.header("retry-after")),
        (503, Some("1"))
    );
    assert_eq!(
        reply.error(503),
        "1 clients are connected, which is the limit; try again later"
    );
    drop(first);
    while server.get("/healthz").status != 200 {}
}

/// A batch whose body has arrived is answered although the server is told to stop.
#[test]
fn a_signal_waits_for_requests_under_way() {
    let dir = TestDir::new();
    let server = HttpServer::start(&dir, &["--history", "h", "--min-similarity", "0.9"]);
    let lines = documents(1, 3000);
    let mut stream = server.connect();
    let head = format!(
        "POST /v1/history HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\ncontent-length: {}\r\n\r\n",
        lines.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(lines.as_bytes()).unwrap();
    // The answer has begun when the signal comes, or begins after it.
    server.signal("TERM");
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    assert_eq!(server.end("TERM").0, Some(0));
    let answered = String::from_utf8_lossy(&bytes).matches("\"best\":").count();
    assert!(answered == 3000 || answered == 0, "{answered}");
    let server = HttpServer::start(&dir, &["--history", "h", "--no-add"]);
    assert_eq!(server.get("/readyz").status, 200);
}

#[test]
fn bytes_that_are_no_request_break_nothing() {
    let dir = TestDir::new();
    let server = HttpServer::start(&dir, &["--history", "h"]);
    for junk in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"POST /v1/history HTTP/9.9\r\n\r\n",
        b"{\"id\":\"a\",\"text\":\"b\"}\n\n",
    ] {
        let mut stream = server.connect();
        stream.write_all(junk).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 200"));
    }
    let text = "\\u0000\\ud83d\\ude00".repeat(100);
    assert_eq!(
        server
            .post_json("/v1/history", &format!("{{\"text\":\"{text}\"}}"))
            .status,
        200
    );
    let reply = exchange(
        server.connect(),
        "POST",
        "/v1/history",
        &[("content-type", "application/json")],
        b"{\"text\":\"\xff\"}",
    );
    reply.error(400);
    assert_eq!(server.end("TERM"), (Some(0), String::new()));
}

/// The examples of the manual, as users type them.
#[test]
fn curl_asks_a_server() {
    let dir = indexed();
    let server = HttpServer::start(&dir, &["--index", "my.idx"]);
    let curl = Command::new("curl")
        .args([
            "-s",
            "--json",
            "@-",
            &format!("http://{}/v1/search", server.address),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut curl) = curl else {
        return eprintln!("no curl here: skipped");
    };
    let body = serde_json::json!({ "text": ORIGINAL }).to_string();
    curl.stdin
        .take()
        .unwrap()
        .write_all(body.as_bytes())
        .unwrap();
    let output = curl.wait_with_output().unwrap();
    assert_eq!(
        records(&output.stdout)[0]["matches"][0]["doc"],
        "dickens.txt"
    );
}

/// The examples of the guide, as users copy them.
#[test]
fn the_examples_of_the_guide_work() {
    let dir = TestDir::with(&[
        ("corpus/tale.txt", ORIGINAL),
        (
            "articles.jsonl",
            "{\"id\":\"article-17\",\"text\":\"one two\"}\n{\"id\":\"b\",\"text\":\"one two\"}\n",
        ),
    ]);
    let build = ["build", "-q", "-o", "my.idx", "--relative", "corpus"];
    dir.run("dedup-index", &build).ok();
    let arguments = [
        "--index",
        "my.idx",
        "--corpus",
        "corpus",
        "--history",
        "seen",
    ];
    let server = HttpServer::start(&dir, &arguments);
    let guide = fs::read_to_string(root().join("docs/service.md")).unwrap();
    let guide = guide.replace("127.0.0.1:8080", &server.address);
    let mut outputs = Vec::new();
    for block in guide.split("```").skip(1).step_by(2) {
        let ran = match block.split_once('\n').unwrap() {
            ("sh", command) => dir.shell(command),
            ("python", script) => {
                dir.write("example.py", script);
                dir.shell("python3 example.py")
            }
            _ => continue,
        };
        assert!(ran.0.status.success(), "{block}: {}", ran.stderr());
        outputs.push(ran.stdout());
    }
    let [search, passages, batch, removed, python] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(
        records(search.as_bytes())[0]["matches"][0]["doc"],
        "tale.txt"
    );
    assert_eq!(
        records(passages.as_bytes())[0]["passages"][0]["kind"],
        "verbatim"
    );
    let expected = "{\"doc\":\"article-17\",\"best\":null}\n{\"doc\":\"b\",\"best\":{\"doc\":\"article-17\",\"similarity\":1}}\n";
    assert_eq!(
        (batch.as_str(), removed.as_str()),
        (expected, "{\"removed\":1}\n")
    );
    assert!(
        python.starts_with("1 tale.txt ")
            && python.ends_with("None {'doc': 'a', 'similarity': 1}\n"),
        "{python}"
    );
}
