//! Streams have the same bytes for any number of threads, in both forms, fused or piped.

use crate::test_dir::{TestDir, docs};
use std::fmt::Write;

/// Some hundred documents of all kinds: files, lines, compressed, empty, large, unreadable.
fn corpus() -> TestDir {
    let dir = TestDir::new();
    let mut seed = 7_u64;
    let mut word = || {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        [
            "the",
            "Straße",
            "doesn’t",
            "中文",
            "of",
            "x",
            "naïve",
            "42",
            "quick",
        ][(seed >> 40) as usize % 9]
    };
    let mut text = |words: usize| (0..words).map(|_| word()).collect::<Vec<_>>().join(" ");
    for n in 0..150 {
        dir.write(&format!("c/{}/{n}.txt", n % 7), text(n * n % 700));
    }
    for n in 0..6 {
        let lines = (0..200).fold(String::new(), |mut lines, line| {
            writeln!(
                lines,
                "{{\"id\":\"{n}-{}\",\"text\":\"{}\"}}",
                line % 190,
                text(line * 3)
            )
            .unwrap();
            lines
        });
        dir.write(
            &format!("c/{n}.jsonl.zst"),
            zstd::encode_all(lines.as_bytes(), 1).unwrap(),
        );
    }
    dir.write("c/large.txt", text(200_000));
    dir.write("c/bad.txt", b"\xff");
    dir
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let dir = corpus();
    for tool in ["dedup-tokenize", "dedup-blot"] {
        for form in [&["c"][..], &["--binary", "c"]] {
            let [one, two, eight] = ["1", "2", "8"]
                .map(|threads| dir.run(tool, &[form, &["--threads", threads]].concat()));
            assert_eq!(one.code(), 2);
            assert!(one.stderr().contains("came before"));
            for many in [two, eight] {
                assert!(one.0 == many.0, "{tool} {form:?}");
            }
        }
    }
    let tiny = dir.run("dedup-tokenize", &["--threads", "8", "--memory", "1", "c"]);
    assert!(tiny.0 == dir.run("dedup-tokenize", &["--threads", "1", "c"]).0);
}

#[test]
fn fused_and_piped_give_the_same_bytes() {
    let dir = corpus();
    let options = ["-k", "5", "--select", "winnow:3", "--positions"];
    let fused = dir.run("dedup-blot", &[&options[..], &["c"]].concat());
    for form in [&["c"][..], &["--binary", "c"]] {
        let tokens = dir.run("dedup-tokenize", form).0.stdout;
        assert!(dir.run_with("dedup-blot", &options, &tokens).ok() == fused.0.stdout);
    }
}

#[test]
fn ndjson_and_binary_streams_convert_into_each_other() {
    let dir = corpus();
    for (tool, detail) in [("dedup-tokenize", "--spans"), ("dedup-blot", "--positions")] {
        let [text, binary] = [vec![detail, "c"], vec![detail, "--binary", "c"]]
            .map(|arguments| dir.run(tool, &arguments).0.stdout);
        assert!(dir.run_with(tool, &[detail], &binary).ok() == text);
        assert!(dir.run_with(tool, &[detail, "--binary"], &binary).ok() == binary);
        assert!(dir.run_with(tool, &[detail, "--binary"], &text).ok() == binary);
        assert!(dir.run_with(tool, &[detail], &text).ok() == text);
        assert!(binary.len() < text.len());
    }
}

#[test]
fn streams_can_be_joined_with_cat() {
    let dir = TestDir::with(&[("a", "some words"), ("b", "other words")]);
    let both = dir.run("dedup-tokenize", &["a", "b"]).ok();
    for form in ["", "--binary"] {
        let joined = dir.shell(&format!(
            "(dedup-tokenize {form} a; dedup-tokenize {form} b) | dedup-tokenize"
        ));
        assert_eq!(joined.ok_text(), String::from_utf8_lossy(&both));
        let joined = dir.shell(&format!(
            "(dedup-tokenize {form} a; dedup-tokenize {form} --tokenizer line b) | dedup-tokenize"
        ));
        assert_eq!(joined.code(), 2);
        assert!(
            joined.stderr().contains("'line@18.0'") && joined.stderr().contains("'words@18.0/49'"),
            "{}",
            joined.stderr()
        );
    }
}

#[test]
fn an_ndjson_stream_can_be_filtered_with_grep() {
    let dir = TestDir::with(&[("a", "some words"), ("b", "other words")]);
    let ran = dir.shell("dedup-tokenize a b | grep '\"doc\":\"b\"' | dedup-blot");
    assert_eq!(docs(&ran.ok()), ["b"]);
}

#[test]
fn streams_are_read_from_compressed_files() {
    let dir = TestDir::with(&[("a", "some words"), ("b", "other words")]);
    dir.shell("dedup-tokenize --binary a > t1; dedup-tokenize b | gzip > t2.ndjson.gz; dedup-tokenize --binary b | zstd -q > t3").ok();
    let direct = dir.run("dedup-blot", &["a", "b"]).ok();
    assert!(dir.run("dedup-blot", &["t1", "t2.ndjson.gz"]).ok() == direct);
    assert!(dir.run("dedup-blot", &["t1", "t3"]).ok() == direct);
    assert!(dir.run("dedup-blot", &["a", "t3"]).ok() == direct);
}
