//! dedup-query serve --http: tokens, TLS, metrics, the description of all requests, supervisors.

use crate::{
    http_client::{HttpServer, Reply, exchange},
    test_dir::TestDir,
};
use std::{
    io::Write,
    net::TcpListener,
    os::{fd::AsRawFd, unix::net::UnixDatagram, unix::process::CommandExt},
    process::Command,
};

const WORDS: &str = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen";

fn indexed() -> TestDir {
    let dir = TestDir::with(&[
        ("docs/a.txt", WORDS),
        ("docs/b.txt", "something else entirely"),
    ]);
    dir.run(
        "dedup-index",
        &["build", "-q", "-o", "my.idx", "--relative", "docs"],
    )
    .ok();
    dir
}

#[test]
fn requests_need_the_token() {
    let dir = indexed();
    dir.write("token", "0123456789abcdef0123\n");
    let arguments = ["--index", "my.idx", "--token-file", "token"];
    let mut server = HttpServer::start(&dir, &arguments);
    let with = |server: &HttpServer, token: &str| {
        server.request("GET", "/v1/indexes", &[("authorization", token)], b"")
    };
    let refused = server.get("/v1/indexes");
    assert_eq!(
        refused.header("www-authenticate"),
        Some("Basic realm=\"dedup\", Bearer")
    );
    refused.error(401);
    for path in ["/", "/metrics", "/openapi.json", "/nothing"] {
        server.get(path).error(401);
    }
    assert_eq!(
        (server.get("/healthz").status, server.get("/readyz").status),
        (200, 200)
    );
    with(&server, "Bearer 0123456789abcdef0124").error(401);
    assert_eq!(with(&server, "Bearer 0123456789abcdef0123").status, 200);
    // The file is read again; a bad one changes nothing.
    dir.write("token", "short");
    server.signal("HUP");
    let message = server.next_message();
    assert!(
        message.contains("token: its first line is no token"),
        "{message}"
    );
    assert_eq!(with(&server, "Bearer 0123456789abcdef0123").status, 200);
    dir.write("token", "another-token-of-a-server");
    server.signal("HUP");
    while with(&server, "Bearer another-token-of-a-server").status != 200 {}
    with(&server, "Bearer 0123456789abcdef0123").error(401);
    assert_eq!(server.end("TERM"), (Some(0), String::new()));
}

#[test]
fn other_machines_need_tls_and_a_token_or_a_decision() {
    let dir = indexed();
    dir.write("token", "0123456789abcdef0123\n");
    let serve = |more: &[&str]| {
        let fixed = ["serve", "--index", "my.idx", "--http", "0.0.0.0:0"];
        let ran = dir.run("dedup-query", &[&fixed[..], more].concat());
        assert_eq!(ran.code(), 2);
        ran.stderr()
    };
    assert!(serve(&[]).contains("other machines could connect"));
    assert!(serve(&["--allow-remote"]).contains("--tls-cert and --tls-key, or --no-tls"));
    assert!(serve(&["--allow-remote", "--no-tls"]).contains("--token-file, or --no-token"));
    assert!(serve(&["--allow-remote", "--no-token"]).contains("or --no-tls"));
    let open = ["--index", "my.idx", "--allow-remote", "--no-tls"];
    for more in [&["--no-token"][..], &["--token-file", "token"]] {
        let server = HttpServer::on(&dir, "0.0.0.0:0", &[&open[..], more].concat());
        assert_eq!(server.end("TERM").0, Some(0));
    }
}

#[cfg(feature = "tls")]
#[test]
fn tls_is_spoken_and_certificates_are_read_again() {
    let dir = indexed();
    let make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2> /dev/null";
    if !dir.shell(make).0.status.success() {
        return eprintln!("no openssl here: skipped");
    }
    let arguments = [
        "--index",
        "my.idx",
        "--tls-cert",
        "cert.pem",
        "--tls-key",
        "key.pem",
    ];
    let mut server = HttpServer::start(&dir, &arguments);
    let url = format!("https://{}", server.address);
    let ask = || dir.shell(&format!("curl -sS --cacert cert.pem {url}/readyz"));
    assert_eq!(ask().stdout(), "{\"status\":\"ready\"}\n");
    // Plain HTTP gets no answer, and does no harm.
    assert!(
        !dir.shell(&format!("curl -s {}/readyz", url.replace("https", "http")))
            .0
            .status
            .success()
    );
    let shown = || {
        dir.shell(&format!(
            "echo | openssl s_client -connect {} 2> /dev/null | openssl x509 -noout -serial",
            server.address
        ))
        .stdout()
    };
    let first = shown();
    dir.write("essay.txt", WORDS);
    let client = format!("dedup-query --server {url} --tls-ca cert.pem -q essay.txt");
    assert_eq!(
        dir.shell(&client).stdout(),
        dir.shell("dedup-query my.idx -q essay.txt").stdout()
    );
    // A certificate without its key changes nothing; a whole pair is used for new connections.
    let old = dir.read("key.pem");
    dir.shell(make).ok();
    let new = dir.read("key.pem");
    dir.write("key.pem", &old);
    server.signal("HUP");
    let message = server.next_message();
    assert!(message.contains("cert.pem"), "{message}");
    dir.write("key.pem", &new);
    server.signal("HUP");
    while dir
        .shell(&format!("curl -sS --cacert cert.pem {url}/readyz"))
        .stdout()
        != "{\"status\":\"ready\"}\n"
    {}
    assert_ne!(
        dir.shell(&format!(
            "echo | openssl s_client -connect {} 2> /dev/null | openssl x509 -noout -serial",
            server.address
        ))
        .stdout(),
        first
    );
    assert_eq!(server.end("TERM").0, Some(0));
}

#[test]
fn metrics_count_what_was_answered() {
    let dir = indexed();
    let arguments = ["--index", "my.idx", "--history", "h", "--lines", "unix:l"];
    let server = HttpServer::start(&dir, &arguments);
    server.post_json("/v1/search", &format!("{{\"text\":\"{WORDS}\"}}"));
    server.post_json("/v1/search", "{").error(400);
    server.post_json("/v1/history", "{\"id\":\"a\",\"text\":\"some words\"}");
    server.get("/some/where");
    let metrics = || server.get("/metrics").text();
    let text = metrics();
    for line in [
        "dedup_http_requests_total{route=\"/v1/search\",method=\"POST\",status=\"200\"} 1",
        "dedup_http_requests_total{route=\"/v1/search\",method=\"POST\",status=\"400\"} 1",
        "dedup_http_requests_total{route=\"other\",method=\"GET\",status=\"404\"} 1",
        "dedup_http_request_duration_seconds_count{route=\"/v1/search\",method=\"POST\"} 2",
        "dedup_index_generation{index=\"my\"} 1",
        "dedup_index_documents{index=\"my\"} 2",
        "dedup_history_entries 1",
        "dedup_history_ready 1",
        "dedup_clients 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    // The journal reaches the disk by itself.
    while !metrics().contains("dedup_history_unsynced_bytes 0\n") {}
}

/// Every path, method and field of the description is what the server accepts, and nothing else.
#[test]
fn the_description_agrees_with_the_server() {
    let dir = indexed();
    let arguments = ["--index", "my.idx", "--corpus", "docs", "--history", "h"];
    let server = HttpServer::start(&dir, &arguments);
    let document = server.get("/openapi.json").json();
    let mut seen = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let target = path.replace("{id}", "x");
        for method in ["GET", "POST", "DELETE"] {
            let reply = server.request(method, &target, &[], b"");
            let is_known = methods[method.to_lowercase()].is_object();
            assert_eq!(
                ![404, 405].contains(&reply.status),
                is_known,
                "{method} {path}"
            );
        }
        for operation in methods.as_object().unwrap().values() {
            assert!(
                operation["responses"]["200"].is_object()
                    && operation["responses"]["default"].is_object()
            );
        }
        seen.push(path.as_str());
    }
    seen.sort_unstable();
    assert_eq!(
        seen,
        [
            "/healthz",
            "/metrics",
            "/readyz",
            "/v1/align",
            "/v1/history",
            "/v1/history/{id}",
            "/v1/indexes",
            "/v1/search"
        ]
    );
    for (path, name, good) in [
        (
            "/v1/search",
            "SearchRequest",
            format!("\"text\":\"{WORDS}\",\"passages\":true"),
        ),
        (
            "/v1/history",
            "HistoryRequest",
            format!("\"text\":\"{WORDS}\",\"id\":\"x\""),
        ),
        (
            "/v1/align",
            "AlignRequest",
            format!("\"a\":{{\"text\":\"{WORDS}\"}},\"b\":{{\"text\":\"{WORDS}\"}}"),
        ),
    ] {
        let ask = |fields: &str| server.post_json(path, &format!("{{{good}{fields}}}"));
        let schema = &document["components"]["schemas"][name];
        assert_eq!(schema["additionalProperties"], false, "{name}");
        assert_eq!(ask("").status, 200, "{path}: {}", ask("").text());
        ask(",\"other\":1").error(400);
        for (field, property) in schema["properties"].as_object().unwrap() {
            if good.contains(&format!("\"{field}\"")) {
                continue;
            }
            // A value of no type that any field has.
            let error = ask(&format!(",\"{field}\":{{\"wrong\":[]}}")).error(400);
            assert!(error.contains(&format!("'{field}")), "{field}: {error}");
            let types = property["type"].to_string();
            let value = match () {
                () if types.contains("boolean") => "true",
                () if types.contains("integer") => "3",
                () => continue,
            };
            assert_ne!(ask(&format!(",\"{field}\":{value}")).status, 500, "{field}");
        }
    }
}

#[test]
fn two_texts_are_aligned() {
    let dir = TestDir::with(&[("a", WORDS), ("b", &format!("Before. {WORDS}. After."))]);
    let server = HttpServer::start(&dir, &["--history", "h"]);
    let body = |more: &str| {
        format!(
            "{{\"a\":{{\"id\":\"a\",\"text\":\"{WORDS}\"}},\"b\":{{\"id\":\"b\",\"text\":\"Before. {WORDS}. After.\"}}{more}}}"
        )
    };
    for (fields, flags) in [
        ("", vec![]),
        (",\"k\":4,\"chars\":true", vec!["-k", "4", "--chars"]),
        (",\"p_values\":true", vec!["--p-values"]),
        (",\"min_match_words\":100", vec!["--min-match-words", "100"]),
    ] {
        let local = dir.run(
            "dedup-query",
            &[&["align", "-q", "a", "b"], &flags[..]].concat(),
        );
        let reply = server.post_json("/v1/align", &body(fields));
        assert_eq!(
            (reply.status, reply.text()),
            (200, local.stdout()),
            "{fields}"
        );
    }
    assert!(
        server
            .post_json("/v1/align", &body(",\"k\":0"))
            .error(400)
            .starts_with("the field 'k' is 0")
    );
    assert!(
        server
            .post_json("/v1/align", "{\"a\":{\"text\":\"x\"}}")
            .error(400)
            .contains("missing field `b`")
    );
}

/// A socket that a supervisor opened, and the messages that it waits for.
#[test]
fn a_supervisor_opens_the_socket_and_learns_the_state() {
    let dir = indexed();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let told = UnixDatagram::bind(dir.path("notify")).unwrap();
    let mut command = dir.command(
        "dedup-query",
        &["serve", "--index", "my.idx", "--http", "fd:7"],
    );
    command.env("NOTIFY_SOCKET", dir.path("notify"));
    let descriptor = socket.as_raw_fd();
    // SAFETY: `dup2` may be called between `fork` and `exec`.
    unsafe {
        command.pre_exec(move || {
            if libc::dup2(descriptor, 7) < 0 {
                Err(std::io::Error::last_os_error())
            } else {
                Ok(())
            }
        });
    }
    let server = HttpServer::of(command);
    assert_eq!(server.address, socket.local_addr().unwrap().to_string());
    let next = || {
        let mut message = [0; 100];
        let length = told.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    };
    assert_eq!(next(), "READY=1");
    let reply = exchange(server.connect(), "GET", "/readyz", &[], b"");
    assert_eq!(reply.status, 200);
    assert_eq!(server.end("TERM"), (Some(0), String::new()));
    assert_eq!(next(), "STOPPING=1");
    let ran = dir.run(
        "dedup-query",
        &["serve", "--index", "my.idx", "--http", "fd:9"],
    );
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (2, "dedup-query: fd:9: Bad file descriptor (os error 9)\n")
    );
}

#[test]
fn the_unit_for_systemd_is_valid() {
    let verify = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .args(
            ["dedup-query.service", "dedup-query.socket"]
                .map(|name| crate::test_dir::root().join("scripts/systemd").join(name)),
        )
        .output();
    let Ok(verify) = verify else {
        return eprintln!("no systemd-analyze here: skipped");
    };
    let said = String::from_utf8_lossy(&verify.stderr);
    // The program need not be installed where the tests run.
    let problems: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("dedup-query") && !line.contains("is not executable"))
        .collect();
    assert!(problems.is_empty(), "{said}");
}

/// A page of another site, whose name stands for this machine, reads nothing.
#[test]
fn requests_to_other_names_are_refused() {
    let dir = indexed();
    let ask = |server: &HttpServer, host: &str| {
        let request =
            format!("GET /v1/indexes HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        let mut stream = server.connect();
        stream.write_all(request.as_bytes()).unwrap();
        Reply::read(&mut stream).status
    };
    let server = HttpServer::start(
        &dir,
        &["--index", "my.idx", "--allow-host", "dedup.example"],
    );
    for host in [
        "localhost",
        "LOCALHOST:80",
        "127.0.0.1:8080",
        "[::1]:1",
        "[::1]",
        "dedup.example:9",
    ] {
        assert_eq!(ask(&server, host), 200, "{host}");
    }
    for host in [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
    ] {
        assert_eq!(ask(&server, host), 403, "{host}");
    }
}
