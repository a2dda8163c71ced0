//! The programs of examples/, which show how to use the library.

use crate::test_dir::{RunResult, TestDir, root};
use assert_cmd::cargo::cargo_bin;
use std::process::Command;

const ESSAY: &str = "The keeper of the light wrote every evening into a large black book what ships had passed and how the wind had turned since noon.";

/// Runs an example that `cargo test` has built.
fn example(dir: &TestDir, name: &str, arguments: &[&str]) -> RunResult {
    let programs = cargo_bin("dedup-query");
    let program = programs.with_file_name("examples").join(name);
    assert!(
        program.is_file(),
        "{}: not built; run cargo build --examples",
        program.display()
    );
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("XDG_CACHE_HOME", dir.cache())
        .current_dir(dir.temp.path());
    RunResult(command.output().unwrap())
}

#[test]
fn align_texts_prints_the_passages() {
    let other = format!("Nobody knows why. {ESSAY} Then he slept.");
    let dir = TestDir::with(&[("a.txt", ESSAY), ("b.txt", &other)]);
    let printed = example(&dir, "align_texts", &["a.txt", "b.txt"]).ok_text();
    let expected = "verbatim, 25 words, score 1.00: bytes 0-129 are bytes 18-147 of the other\n";
    assert_eq!(printed, expected);
}

#[test]
fn build_index_and_query_index_work_together() {
    let other = format!("{ESSAY} Then he slept until the morning came and went again.");
    let dir = TestDir::with(&[
        ("docs/a.txt", other.as_str()),
        ("docs/b.txt", "Something else."),
        ("essay.txt", ESSAY),
    ]);
    let built = example(&dir, "build_index", &["my.idx", "docs"]).ok_text();
    assert_eq!(built, "my.idx: 2 documents\n");
    let answer = example(&dir, "query_index", &["my.idx", "essay.txt"]).ok_text();
    assert!(answer.starts_with("{\"doc\":\"essay.txt\""), "{answer}");
    assert!(answer.contains("\"doc\":\"docs/a.txt\""), "{answer}");
    assert!(!answer.contains("docs/b.txt"), "{answer}");
}

#[test]
fn read_stream_reads_ndjson_and_binary() {
    let dir = TestDir::with(&[("essay.txt", ESSAY)]);
    dir.shell("dedup-blot essay.txt >blots.ndjson && dedup-blot --binary essay.txt >blots.bin")
        .ok();
    for stream in ["blots.ndjson", "blots.bin"] {
        let printed = example(&dir, "read_stream", &[stream]).ok_text();
        assert_eq!(printed, "essay.txt: 18 distinct blots\n", "{stream}");
    }
}

/// The generators for benchmarks give the same bytes every time.
#[test]
fn generators_are_deterministic() {
    let dir = TestDir::new();
    let few = example(&dir, "synthetic_corpus", &["3"]).ok_text();
    let more = example(&dir, "synthetic_corpus", &["5"]).ok_text();
    assert_eq!((few.lines().count(), more.lines().count()), (3, 5));
    assert!(more.starts_with(&few));
    dir.write("real.txt", "some words of a text that has a print");
    dir.shell("dedup-blot -q --scheme minhash:256 real.txt >prints")
        .ok();
    let prints = |seed| example(&dir, "random_prints", &["prints", "4", seed]).ok_text();
    assert_eq!(prints("1"), prints("1"));
    assert_eq!(prints("1").lines().count(), 6);
}

/// Each example has a test here or is run by a script.
#[test]
fn every_example_is_run() {
    let tested = include_str!("examples.rs");
    for entry in std::fs::read_dir(root().join("examples")).unwrap() {
        let name = entry
            .unwrap()
            .path()
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let is_for_the_service = name == "service_load";
        assert!(
            is_for_the_service || tested.contains(&format!("\"{name}\"")),
            "{name}"
        );
    }
}
