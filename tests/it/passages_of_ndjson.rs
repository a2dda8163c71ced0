//! dedup-query finds the texts of NDJSON documents again to show their passages.

use crate::test_dir::{TestDir, records};
use serde_json::{Value, json};

const COPY: &str = "Ice that is pressed by its own weight begins to flow downhill, slowly, and carries the stones of the valley with it.";

fn line(id_field: &str, id: &str, text_field: &str, text: &str) -> String {
    format!(
        "{}\n",
        json!({ id_field: id, text_field: text, "more": [1, "é"] })
    )
}

/// Articles of which two share a sentence, and enough others to make several chunks.
fn articles(id_field: &str, text_field: &str) -> String {
    let mut lines: String = (0..6000)
        .map(|n| {
            line(
                id_field,
                &format!("n{n}"),
                text_field,
                &format!("Žlutý kůň {n} about nothing but {n}."),
            )
        })
        .collect();
    lines.insert_str(
        0,
        &line(
            id_field,
            "first",
            text_field,
            &format!("On ice. {COPY} Indeed."),
        ),
    );
    lines += &line(
        id_field,
        "last",
        text_field,
        &format!("So it is said: {COPY}"),
    );
    lines
}

fn passages(dir: &TestDir, arguments: &[&str]) -> Vec<Value> {
    let found = records(
        &dir.run(
            "dedup-extract",
            &[&["my.idx", "--passages"], arguments].concat(),
        )
        .ok(),
    );
    assert_eq!(found.len(), 1, "{arguments:?}");
    assert_eq!(
        (&found[0]["a"], &found[0]["b"]),
        (&json!("first"), &json!("last"))
    );
    found[0]["passages"].as_array().unwrap().clone()
}

#[test]
fn passages_of_ndjson_documents_are_found() {
    let dir = TestDir::with(&[
        ("corpus/articles.jsonl", articles("id", "text")),
        ("essay.txt", format!("Mine: {COPY}")),
    ]);
    dir.shell("dedup-index build -q -o my.idx corpus && mkdir -p packed gz && zstd -q -o packed/a.jsonl.zst corpus/articles.jsonl && gzip -c corpus/articles.jsonl > gz/a.jsonl.gz && cp corpus/articles.jsonl plain").ok();
    let expected = [
        json!({"a": [8, 8 + COPY.len()], "b": [15, 15 + COPY.len()], "tokens": 22, "score": 1, "kind": "verbatim"}),
    ];
    for corpus in [
        &["corpus"][..],
        &["corpus/articles.jsonl"],
        &["packed"],
        &["packed/a.jsonl.zst"],
        &["gz/a.jsonl.gz"],
    ] {
        assert_eq!(
            passages(&dir, &[&["--corpus"], corpus].concat()),
            expected,
            "{corpus:?}"
        );
    }
    assert_eq!(
        passages(&dir, &["--corpus", "plain", "--records", "ndjson"]),
        expected
    );
    dir.shell("head -n 3000 plain > one.jsonl; tail -n +3001 plain > two.jsonl")
        .ok();
    assert_eq!(
        passages(&dir, &["--corpus", "one.jsonl", "--corpus", "two.jsonl"]),
        expected
    );
    let found = records(
        &dir.run(
            "dedup-query",
            &["my.idx", "essay.txt", "--passages", "--corpus", "packed"],
        )
        .ok(),
    );
    assert_eq!(
        found
            .iter()
            .map(|record| (
                record["doc"].clone(),
                record["passages"].as_array().unwrap().len()
            ))
            .collect::<Vec<_>>(),
        [(json!("first"), 1), (json!("last"), 1)]
    );
    dir.run(
        "dedup-query",
        &[
            "my.idx",
            "essay.txt",
            "--html",
            "essay.html",
            "--corpus",
            "corpus",
        ],
    )
    .ok();
    assert!(
        String::from_utf8(dir.read("essay.html"))
            .unwrap()
            .contains("So it is said: ")
    );
    dir.run(
        "dedup-extract",
        &["report", "-q", "my.idx", "-o", "report", "--corpus", "gz"],
    )
    .ok();
    assert!(dir.path("report/pair-000001.html").exists());
    let blot = records(&dir.run("dedup-blot", &["essay.txt"]).ok())[1]["blots"][3]
        .as_str()
        .unwrap()
        .to_owned();
    let shown = records(
        &dir.run(
            "dedup-query",
            &["blot", "my.idx", &blot, "--corpus", "corpus"],
        )
        .ok(),
    );
    assert!(
        shown.len() == 2
            && shown
                .iter()
                .all(|record| record["text"].as_str().unwrap().starts_with("is pressed")),
        "{shown:?}"
    );
}

#[test]
fn the_id_and_text_fields_of_the_flags_are_read() {
    let dir = TestDir::with(&[("a.jsonl", articles("key", "body"))]);
    dir.shell("dedup-index build -q -o my.idx --id-field key --text-field body a.jsonl")
        .ok();
    assert_eq!(
        passages(
            &dir,
            &[
                "--corpus",
                "a.jsonl",
                "--id-field",
                "key",
                "--text-field",
                "body"
            ]
        )
        .len(),
        1
    );
}

#[test]
fn missing_and_changed_documents_are_reported() {
    let dir = TestDir::with(&[("a.jsonl", articles("id", "text"))]);
    dir.shell("dedup-index build -q -o my.idx a.jsonl").ok();
    dir.write("less.jsonl", line("id", "first", "text", COPY));
    let ran = dir.run(
        "dedup-extract",
        &["my.idx", "--passages", "--corpus", "less.jsonl"],
    );
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-extract: first: the text is not the one that was indexed, and is left out; dedup-index sync brings the index up to date\n\
             dedup-extract: less.jsonl: there is no document 'last' in it\n"
        )
    );
    assert!(records(&ran.0.stdout)[0].get("passages").is_none());
    dir.write(
        "other.jsonl",
        [
            line("id", "first", "text", &format!("Now more. {COPY}")),
            line("id", "last", "text", &format!("So it is said: {COPY}")),
        ]
        .concat(),
    );
    let ran = dir.run(
        "dedup-extract",
        &[
            "my.idx",
            "--passages",
            "--corpus",
            "other.jsonl",
            "--skip-bad",
        ],
    );
    assert_eq!(ran.code(), 0);
    assert!(records(&ran.0.stdout)[0].get("passages").is_none());
    let none = dir.run(
        "dedup-extract",
        &["my.idx", "--passages", "--corpus", "none.jsonl"],
    );
    assert!(
        none.code() == 2 && none.stderr().contains("none.jsonl: No such file"),
        "{}",
        none.stderr()
    );
    let idle = dir.run("dedup-extract", &["my.idx", "--corpus", "a.jsonl"]);
    assert!(
        idle.code() == 2 && idle.stderr().contains("not provided:\n  --passages"),
        "{}",
        idle.stderr()
    );
}
