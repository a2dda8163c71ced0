//! Truncated, altered and foreign streams give an error with a position, never a panic, a hang or a
//! silently short result.

use crate::test_dir::{TestDir, docs};

fn stream(tool: &str, form: &[&str]) -> (TestDir, Vec<u8>) {
    let dir = TestDir::with(&[
        ("a", "some words of a text"),
        ("b", "other words"),
        ("c", ""),
    ]);
    let bytes = dir.run(tool, &[form, &["a", "b", "c"]].concat()).ok();
    (dir, bytes)
}

fn streams() -> Vec<(TestDir, Vec<u8>)> {
    let tokens =
        [&["--spans"][..], &["--spans", "--binary"]].map(|form| stream("dedup-tokenize", form));
    let blots =
        [&["--positions"][..], &["--positions", "--binary"]].map(|form| stream("dedup-blot", form));
    tokens.into_iter().chain(blots).collect()
}

#[test]
fn every_truncation_is_an_error() {
    for (dir, bytes) in streams() {
        let is_binary = bytes[0] != b'{';
        let end = bytes.len() - usize::from(!is_binary);
        // Without any bytes, or without the header line, the rest is an ordinary document.
        let first = if is_binary {
            8
        } else {
            bytes.iter().position(|&byte| byte == b'\n').unwrap()
        };
        for cut in first..end {
            let ran = dir.run_with("dedup-blot", &["--threads", "1"], &bytes[..cut]);
            assert_eq!(ran.code(), 2, "{cut}");
            assert!(
                ran.stderr().starts_with("dedup-blot: stdin"),
                "{cut}: {}",
                ran.stderr()
            );
            assert!(!ran.stdout().contains("{\"end\""), "{cut}");
        }
    }
}

#[test]
fn every_flipped_bit_of_a_binary_stream_is_an_error() {
    for (dir, bytes) in streams().into_iter().filter(|(_, bytes)| bytes[0] != b'{') {
        for at in 8..bytes.len() {
            let mut altered = bytes.clone();
            altered[at] ^= 1 << (at % 8);
            let ran = dir.run_with("dedup-blot", &["--threads", "1"], &altered);
            assert_eq!(ran.code(), 2, "{at}");
            assert!(
                ran.stderr().starts_with("dedup-blot: stdin: byte "),
                "{at}: {}",
                ran.stderr()
            );
        }
    }
}

#[test]
fn altered_lines_never_crash_a_reader() {
    for (dir, bytes) in streams().into_iter().filter(|(_, bytes)| bytes[0] == b'{') {
        for at in (0..bytes.len()).step_by(3) {
            let mut altered = bytes.clone();
            altered[at] ^= 1 << (at % 7);
            let ran = dir.run_with("dedup-blot", &["--threads", "1"], &altered);
            assert!([0, 2].contains(&ran.code()), "{at}: {}", ran.stderr());
            assert!(!ran.stderr().contains("panicked"), "{at}");
        }
    }
}

#[test]
fn missing_and_swapped_blocks_are_detected() {
    let words = "many different words ".repeat(30_000);
    let dir = TestDir::with(&[("a", &words), ("b", &words), ("c", &words)]);
    let whole = dir.run("dedup-tokenize", &["--binary", "a", "b", "c"]).ok();
    let head = 24 + b"{\"dedup\":\"tokens\",\"version\":1,\"scheme\":\"words@18.0/49\"}".len();
    let block = (whole.len() - head - 40) / 3;
    let [one, two, three] = [0, 1, 2].map(|n| &whole[head + n * block..head + (n + 1) * block]);
    for blocks in [
        [one, three].concat(),
        [one, three, two].concat(),
        [one, one, two, three].concat(),
    ] {
        let ran = dir.run_with(
            "dedup-tokenize",
            &[],
            &[&whole[..head], &blocks, &whole[whole.len() - 40..]].concat(),
        );
        assert_eq!(ran.code(), 2);
        assert!(
            ran.stderr().contains("blocks are missing or swapped"),
            "{}",
            ran.stderr()
        );
    }
}

#[test]
fn headers_and_end_records_out_of_order_are_refused() {
    let header = r#"{"dedup":"tokens","version":1,"scheme":"words@18.0/49"}"#;
    let record = |doc: &str| format!(r#"{{"doc":"{doc}","tokens":["x"]}}"#);
    let end = |n: u32| format!(r#"{{"end":{{"records":{n}}}}}"#);
    for (lines, line, what) in [
        (
            vec![header.to_owned(), record("a")],
            3,
            "the stream ends without an end record; the program that wrote it did not finish",
        ),
        (
            vec![header.to_owned(), record("a"), end(2)],
            3,
            "the end record counts 2 records, but 1 are here",
        ),
        (
            vec![header.to_owned(), end(0), record("a")],
            3,
            "a record after the end record",
        ),
        (
            vec![header.to_owned(), end(0), end(0)],
            3,
            "a second end record",
        ),
        (
            vec![header.to_owned(), header.to_owned()],
            2,
            "a second header before the end record; the program that wrote the first stream did not finish",
        ),
        (
            vec![header.replace(":1,", ":9,")],
            1,
            "stream version is 9, this program reads version 1",
        ),
        (
            vec![header.replace("tokens", "toking")],
            1,
            "not the header of a dedup stream",
        ),
    ] {
        let ran = TestDir::new().run_with("dedup-blot", &[], (lines.join("\n") + "\n").as_bytes());
        assert_eq!(ran.code(), 2);
        assert!(
            ran.stderr()
                .starts_with(&format!("dedup-blot: stdin:{line}: {what}")),
            "{}",
            ran.stderr()
        );
    }
}

#[test]
fn a_bad_record_is_reported_and_the_others_are_read() {
    let lines = "{\"dedup\":\"tokens\",\"version\":1,\"scheme\":\"words@18.0/49\"}\n{\"doc\":\"a\",\"tokens\":[\"x\"]}\n{\"doc\":\"b\",\"tokens\":[7]}\n{\"doc\":\"c\",\"tokens\":[]}\n{\"end\":{\"records\":3}}\n";
    let ran = TestDir::new().run_with("dedup-blot", &[], lines.as_bytes());
    assert_eq!(
        (ran.code(), docs(&ran.0.stdout)),
        (2, vec!["a".to_owned(), "c".to_owned()])
    );
    assert_eq!(
        ran.stderr(),
        "dedup-blot: stdin:3: unexpected JSON: invalid type: integer `7`, expected a string at column 22\n"
    );
    assert!(ran.stdout().ends_with("{\"end\":{\"records\":2}}\n"));
}

const TOKENS: &str = r#"{"dedup":"tokens","version":1,"scheme":"words@18.0/49"}"#;
const BLOTS: &str = r#"{"dedup":"blots","version":1,"scheme":"words@18.0/49 ordered:8:32 all"}"#;

#[test]
fn a_record_of_another_kind_is_refused() {
    for (header, record, what) in [
        (
            TOKENS,
            r#"{"doc":"a","tokens":1,"blots":["00000001"]}"#,
            "a record of blots in a stream of tokens",
        ),
        (
            BLOTS,
            r#"{"doc":"a","tokens":["x"]}"#,
            "a record of tokens in a stream of blots",
        ),
        (
            BLOTS,
            r#"{"doc":"a","tokens":1,"blots":["00000001","1"]}"#,
            "a blot of 1 hex digits, the scheme's 32 bits are 8",
        ),
        (
            BLOTS,
            r#"{"doc":"a","tokens":1,"blots":["0000000001"]}"#,
            "a blot of 10 hex digits, the scheme's 32 bits are 8",
        ),
    ] {
        let ran = TestDir::new().run_with(
            "dedup-blot",
            &[],
            format!("{header}\n{record}\n{{\"end\":{{\"records\":1}}}}\n").as_bytes(),
        );
        assert_eq!(
            (ran.code(), ran.docs(), ran.stderr()),
            (2, vec![], format!("dedup-blot: stdin:2: {what}\n"))
        );
    }
    // Without a header there is no expected kind.
    let ran = TestDir::new().run_with("dedup-blot", &[], b"{\"doc\":\"a\",\"blots\":[\"1\"]}\n");
    assert!(ran.ok_text().contains(r#""blots":["0000000001"]"#));
}

#[test]
fn an_end_record_may_have_spaces_but_not_lack_its_header() {
    let record = r#"{"doc":"a","tokens":["x"]}"#;
    let ran = TestDir::new().run_with(
        "dedup-blot",
        &[],
        format!("{TOKENS}\n{record}\n{{ \"end\": {{ \"records\": 1 }} }}\n").as_bytes(),
    );
    assert_eq!(docs(&ran.ok()), ["a"]);
    let ran = TestDir::new().run_with(
        "dedup-blot",
        &[],
        format!("{record}\n{{\"end\":{{\"records\":1}}}}\n").as_bytes(),
    );
    assert_eq!((ran.code(), ran.docs()), (2, vec!["a".to_owned()]));
    assert_eq!(
        ran.stderr(),
        "dedup-blot: stdin:2: an end record without its header\n"
    );
}

/// An unreadable path before a stream does not change the scheme read from the stream, for any
/// number of threads.
#[test]
fn problems_before_the_first_stream_do_not_hide_its_scheme() {
    let dir = TestDir::with(&[("a.txt", "some words of a text")]);
    dir.write(
        "c4.tokens",
        dir.run("dedup-tokenize", &["--tokenizer", "char:4", "a.txt"])
            .ok(),
    );
    let [one, four] = ["1", "4"].map(|threads| {
        dir.run(
            "dedup-blot",
            &["--threads", threads, "missing", "gone", "c4.tokens"],
        )
    });
    assert_eq!(
        (one.code(), one.docs()),
        (2, vec!["a.txt".to_owned()]),
        "{}",
        one.stderr()
    );
    assert!(one.0 == four.0);
}

#[test]
fn a_damaged_compressed_stream_ends_the_run() {
    use std::io::Write;
    let dir = TestDir::with(&[
        ("a.txt", "some words of a text".repeat(1000)),
        ("b.txt", String::new()),
    ]);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    packed
        .write_all(&dir.run("dedup-tokenize", &["a.txt"]).ok())
        .unwrap();
    let packed = packed.finish().unwrap();
    dir.write("a.tokens.gz", &packed[..packed.len() / 2]);
    let ran = dir.run("dedup-tokenize", &["a.tokens.gz", "b.txt"]);
    assert_eq!((ran.code(), ran.docs()), (2, vec![]));
    assert!(
        !ran.stdout().contains("{\"end\"") && ran.stderr().contains("a.tokens.gz"),
        "{}",
        ran.stderr()
    );
}

#[test]
fn a_document_with_a_field_named_dedup_is_not_a_header() {
    let lines = "{\"dedup\":true,\"id\":\"a\",\"text\":\"x\"}\n{\"dedup\":\"no\",\"id\":\"b\",\"text\":\"y\"}\n";
    assert_eq!(
        docs(
            &TestDir::new()
                .run_with("dedup-blot", &[], lines.as_bytes())
                .ok()
        ),
        ["a", "b"]
    );
    let ran = TestDir::new().run_with("dedup-blot", &[], &TOKENS.as_bytes()[..30]);
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr()
            .starts_with("dedup-blot: stdin:1: not the header of a dedup stream"),
        "{}",
        ran.stderr()
    );
}

#[test]
fn a_dead_upstream_is_an_error() {
    let dir = TestDir::with(&[("a", "some words")]);
    for form in ["", "--binary"] {
        let ran = dir.shell(&format!(
            "dedup-tokenize {form} a | head -c 80 | dedup-blot"
        ));
        assert_eq!(ran.code(), 2);
        assert!(ran.stderr().contains("did not finish"), "{}", ran.stderr());
    }
}

#[test]
fn absurd_lengths_do_not_allocate() {
    // A valid block header that announces 2^60 bytes.
    let (dir, bytes) = stream("dedup-tokenize", &["--binary"]);
    let head = 24 + b"{\"dedup\":\"tokens\",\"version\":1,\"scheme\":\"words@18.0/49\"}".len();
    let mut altered = bytes[..head].to_vec();
    let words = [1_u64 << 60, 1, 0, 0].map(u64::to_le_bytes).concat();
    altered.extend_from_slice(&words);
    altered.extend_from_slice(&xxhash_rust::xxh3::xxh3_64(&words).to_le_bytes());
    altered.extend_from_slice(b"short");
    let ran = dir.run_with("dedup-blot", &[], &altered);
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr().contains("the stream ends within a block"),
        "{}",
        ran.stderr()
    );
}
