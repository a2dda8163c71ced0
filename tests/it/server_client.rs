//! dedup-query --server: the same output as without a server.

use crate::{http_client::HttpServer, test_dir::TestDir};

const SHARED: &str = "it was the best of times it was the worst of times it was the age of wisdom it was the age of foolishness";

#[test]
fn a_server_gives_the_output_of_the_local_command() {
    let dir = TestDir::with(&[
        (
            "docs/dickens.txt",
            format!("A tale. {SHARED}. And more of it."),
        ),
        ("docs/copy.txt", format!("{SHARED} \"and, with\" a comma")),
        (
            "docs/other.txt",
            "call me ishmael some years ago never mind how long".to_owned(),
        ),
        ("essays/a.txt", format!("My essay. {SHARED}! The end.")),
        ("essays/b.html", format!("<p>Mine: {SHARED}</p>")),
        (
            "essays/c.jsonl",
            format!(
                "{{\"id\":\"c\u{e9}\",\"text\":\"{SHARED}\"}}\n{{\"id\":\"d\",\"text\":\"nothing\"}}\n"
            ),
        ),
    ]);
    dir.run(
        "dedup-index",
        &["build", "-q", "-o", "my.idx", "--relative", "docs"],
    )
    .ok();
    dir.write("token", "0123456789abcdef0123");
    for address in ["127.0.0.1:0", "unix:s"] {
        let more = [
            "--index",
            "my.idx",
            "--corpus",
            "docs",
            "--token-file",
            "token",
        ];
        let server = HttpServer::on(&dir, address, &more);
        let url = if address.starts_with("unix") {
            "unix:s".to_owned()
        } else {
            format!("http://{}", server.address)
        };
        let remote = ["--server", &url, "--token-file", "token", "essays"];
        let passages = &["--passages", "--corpus", "docs"][..];
        for flags in [
            &[][..],
            &["--format", "tsv"],
            &["--format", "csv", "--top", "1"],
            &["--score", "jaccard", "--threshold", "20%"],
            &["--max-df", "1"],
            passages,
            &[
                passages,
                &[
                    "--chars",
                    "--p-values",
                    "--exclude-quotes",
                    "--min-match-words",
                    "5",
                ],
            ]
            .concat(),
        ] {
            let local = dir.run("dedup-query", &[&["my.idx", "essays"], flags].concat());
            let there: Vec<&str> = flags
                .iter()
                .copied()
                .filter(|flag| !["--corpus", "docs"].contains(flag))
                .collect();
            let asked = dir.run("dedup-query", &[&remote[..], &there].concat());
            assert_eq!(
                (asked.code(), asked.stdout()),
                (local.code(), local.stdout()),
                "{flags:?}: {}",
                asked.stderr()
            );
            let finds_nothing = flags.contains(&"--max-df");
            assert_eq!(local.stdout().is_empty(), finds_nothing, "{flags:?}");
        }
        let none = dir.run(
            "dedup-query",
            &[&remote[..4], &["essays/a.txt", "--threshold", "1.0"]].concat(),
        );
        assert_eq!((none.code(), none.stdout().as_str()), (1, ""));
        assert_eq!(server.end("TERM").0, Some(0));
    }
    let stderr = |arguments: &[&str]| {
        let ran = dir.run("dedup-query", arguments);
        assert_eq!((ran.code(), ran.stdout().as_str()), (2, ""));
        ran.stderr()
    };
    assert!(stderr(&["--server", "unix:none", "essays"]).starts_with("dedup-query: unix:none: "));
    assert!(
        stderr(&["--server", "unix:none", "essays", "--stream"]).contains("cannot be used with")
    );
    assert!(
        stderr(&["--server", "nowhere", "essays"])
            .contains("is neither http://HOST:PORT nor unix:PATH")
    );
    let server = HttpServer::on(
        &dir,
        "unix:s",
        &["--index", "my.idx", "--token-file", "token"],
    );
    assert!(stderr(&["--server", "unix:s", "essays"]).contains("the token is missing or wrong"));
    let refused = stderr(&[
        "--server",
        "unix:s",
        "--token-file",
        "token",
        "essays/a.txt",
        "--passages",
    ]);
    assert!(
        refused.contains("the server was not told where the documents of the index 'my' are"),
        "{refused}"
    );
    drop(server);
}
