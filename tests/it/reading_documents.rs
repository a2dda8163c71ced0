//! Reading documents: every way to name and compress them, and every way they can be unreadable.

use crate::test_dir::{TestDir, docs, records};
use std::io::Write;

fn gz(text: &str) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap()
}

fn zst(text: &str) -> Vec<u8> {
    zstd::encode_all(text.as_bytes(), 3).unwrap()
}

#[test]
fn directories_are_walked_in_a_fixed_order() {
    let dir = TestDir::with(&[
        ("c/b/z.txt", "one"),
        ("c/b.txt", "two"),
        ("c/a.txt", "three"),
        ("c/B.txt", "four"),
        ("c/.hidden", "five"),
        ("c/.git/x", "six"),
        ("c/bin", "\0\x01\x02"),
    ]);
    assert_eq!(
        dir.run("dedup-tokenize", &["c"]).docs(),
        ["c/B.txt", "c/a.txt", "c/b/z.txt", "c/b.txt"]
    );
    assert_eq!(
        dir.run("dedup-tokenize", &["c/"]).docs(),
        ["c/B.txt", "c/a.txt", "c/b/z.txt", "c/b.txt"]
    );
    assert_eq!(
        dir.run("dedup-tokenize", &["--relative", "c"]).docs(),
        ["B.txt", "a.txt", "b/z.txt", "b.txt"]
    );
    let ran = dir.run("dedup-tokenize", &["c/.hidden", "c/bin", "c/a.txt"]);
    assert_eq!(ran.ok_text().lines().count(), 5);
    assert_eq!(ran.docs(), ["c/.hidden", "c/bin", "c/a.txt"]);
}

#[test]
fn a_stray_nul_does_not_make_a_text_binary() {
    let text = format!("{}\0{}", "word ".repeat(200), "more ".repeat(200));
    let dir = TestDir::with(&[
        ("c/a", text.as_str()),
        ("c/b", "a short text with one \0 in its midst"),
        ("c/c", "two \0 \0 in a few words, that is not text"),
    ]);
    assert_eq!(dir.run("dedup-tokenize", &["c"]).docs(), ["c/a", "c/b"]);
}

/// Files in /proc report a size of 0, and files in /sys a whole page where they hold a few bytes.
#[test]
fn files_that_report_a_wrong_size_are_read_to_the_end() {
    let dir = TestDir::new();
    for file in [
        "/proc/kallsyms",
        "/proc/self/status",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ] {
        let Ok(bytes) = std::fs::read(file) else {
            continue;
        };
        let ran = dir.run("dedup-tokenize", &["--tokenizer", "line", file]);
        let size = records(&ran.ok())[1]["bytes"].as_u64().unwrap();
        assert!(
            size.abs_diff(bytes.len() as u64) < 200 && size > 0,
            "{file}: {size}"
        );
    }
}

#[test]
fn files_above_the_size_limit_are_not_read() {
    let dir = TestDir::with(&[("c/a", "x")]);
    std::fs::File::create(dir.path("large"))
        .unwrap()
        .set_len(5 << 30)
        .unwrap();
    let ran = dir.run("dedup-tokenize", &["large", "c/a"]);
    assert_eq!((ran.code(), ran.docs()), (2, vec!["c/a".to_owned()]));
    assert_eq!(
        ran.stderr(),
        "dedup-tokenize: large: a document of more than 1073741824 bytes; raise --max-document (4G is the most), or split it\n"
    );
    // In a directory, the first bytes show that the file is not text.
    std::fs::rename(dir.path("large"), dir.path("c/b")).unwrap();
    assert_eq!(docs(&dir.run("dedup-tokenize", &["c"]).ok()), ["c/a"]);
}

#[test]
fn links_are_followed_only_when_named() {
    let dir = TestDir::with(&[("c/a", "x"), ("d/b", "y")]);
    std::os::unix::fs::symlink(dir.path("d"), dir.path("c/d")).unwrap();
    std::os::unix::fs::symlink(dir.path("d/b"), dir.path("c/e")).unwrap();
    assert_eq!(dir.run("dedup-tokenize", &["c"]).docs(), ["c/a"]);
    assert_eq!(
        dir.run("dedup-tokenize", &["c/e", "c/d"]).docs(),
        ["c/e", "c/d/b"]
    );
}

#[test]
fn compressed_files_are_decompressed() {
    let line = |id: &str| format!("{{\"id\":\"{id}\",\"text\":\"some words\"}}\n");
    let dir = TestDir::with(&[
        ("a.txt.gz", gz("some words")),
        ("b.zst", zst("some words")),
        ("c.jsonl.gz", gz(&line("c"))),
        ("d.ndjson.zst", zst(&line("d"))),
        ("e.jsonl", line("e").into()),
    ]);
    let two_members = [gz("some "), gz("words")].concat();
    dir.write("f.gz", two_members);
    dir.write("g.zst", [zst("some "), zst("words")].concat());
    dir.write("unnamed", gz("some words"));
    let ran = dir.run("dedup-tokenize", &["."]);
    assert_eq!(
        ran.docs(),
        [
            "./a.txt.gz",
            "./b.zst",
            "c",
            "d",
            "e",
            "./f.gz",
            "./g.zst",
            "./unnamed"
        ]
    );
    assert!(
        records(&ran.ok())
            .iter()
            .filter(|record| record["doc"].is_string())
            .all(
                |record| record["tokens"] == serde_json::json!(["some", "words"])
                    && record["bytes"] == 10
            )
    );
    for packed in [gz(&line("x")), zst(&line("x"))] {
        assert_eq!(
            docs(&dir.run_with("dedup-tokenize", &[], &packed).ok()),
            ["x"]
        );
    }
}

#[test]
fn damaged_compressed_files_are_reported_and_the_others_are_read() {
    let whole = gz(&"some words ".repeat(1000));
    let dir = TestDir::with(&[
        ("a.gz", &whole[..whole.len() / 2]),
        ("b.zst", b"plain text".as_slice()),
        ("c.jsonl.zst", b"(\xb5/\xfdxxxx".as_slice()),
        ("d.txt", b"fine".as_slice()),
    ]);
    let ran = dir.run("dedup-tokenize", &["."]);
    assert_eq!((ran.code(), ran.docs()), (2, vec!["./d.txt".to_owned()]));
    let errors = ran.stderr();
    assert!(errors.contains("dedup-tokenize: ./a.gz: "), "{errors}");
    assert!(
        errors.contains(
            "dedup-tokenize: ./b.zst: its name promises zstd, its first bytes are not that\n"
        ),
        "{errors}"
    );
    assert!(
        errors.contains("dedup-tokenize: ./c.jsonl.zst: "),
        "{errors}"
    );
}

#[test]
fn a_damaged_ndjson_file_is_reported_and_the_others_are_read() {
    let lines: String = (0..20_000)
        .map(|n| format!("{{\"id\":{n},\"text\":\"number {}\"}}\n", n * 7919 % 10_007))
        .collect();
    let whole = gz(&lines);
    let dir = TestDir::with(&[
        ("cut.jsonl.gz", &whole[..whole.len() / 2]),
        ("ok.jsonl", b"{\"id\":\"ok\",\"text\":\"x\"}\n"),
    ]);
    let ran = dir.run(
        "dedup-tokenize",
        &["--threads", "1", "cut.jsonl.gz", "ok.jsonl"],
    );
    let docs = ran.docs();
    assert_eq!((ran.code(), docs.last().unwrap().as_str()), (2, "ok"));
    assert!(
        docs.len() > 5000,
        "what came before the damage is read: {}",
        docs.len()
    );
    assert_eq!(
        ran.stderr(),
        format!(
            "dedup-tokenize: cut.jsonl.gz:{}: incomplete deflate stream; the file is left out from here on\n",
            docs.len()
        )
    );
    assert!(
        ran.0
            == dir
                .run(
                    "dedup-tokenize",
                    &["--threads", "4", "cut.jsonl.gz", "ok.jsonl"]
                )
                .0
    );
}

#[test]
fn files_from_reads_a_list_of_files() {
    let dir = TestDir::with(&[("a", "x"), ("b\nb", "y"), ("c/d", "z")]);
    dir.write("list", "c\n\na\n");
    dir.write("list0", "b\nb\0a\0");
    assert_eq!(
        dir.run("dedup-tokenize", &["--files-from", "list"]).docs(),
        ["c/d", "a"]
    );
    assert_eq!(
        dir.run("dedup-tokenize", &["--files-from", "list0", "-0"])
            .docs(),
        ["b\nb", "a"]
    );
    assert_eq!(
        dir.run_with("dedup-tokenize", &["--files-from", "-"], b"a\n")
            .docs(),
        ["a"]
    );
    assert_eq!(
        dir.run("dedup-tokenize", &["a", "--files-from", "nolist"])
            .stderr(),
        "dedup-tokenize: nolist: No such file or directory (os error 2)\n"
    );
}

#[test]
fn a_list_that_cannot_be_read_ends_the_run() {
    let dir = TestDir::with(&[("a", "x"), ("c/d", "z")]);
    let ran = dir.shell("timeout 20 dedup-tokenize a --files-from c");
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (2, "dedup-tokenize: c: Is a directory (os error 21)\n")
    );
}

#[test]
fn stdin_is_a_file_list_or_a_document() {
    let dir = TestDir::with(&[("a", "x")]);
    let what =
        "stdin is the list of files, it cannot be a document as well; give the list as a file";
    let ran = dir.run_with("dedup-tokenize", &["--files-from", "-", "-"], b"a\n");
    assert_eq!(
        (ran.code(), ran.stdout().as_str(), ran.stderr()),
        (2, "", format!("dedup-tokenize: {what}\n"))
    );
    let ran = dir.run_with("dedup-tokenize", &["--files-from", "-"], b"-\na\n");
    assert_eq!(
        (ran.code(), ran.docs(), ran.stderr()),
        (
            2,
            vec!["a".to_owned()],
            format!("dedup-tokenize: -: {what}\n")
        )
    );
}

#[test]
fn stdin_is_one_document_or_many_records() {
    let dir = TestDir::with(&[("a", "x")]);
    assert_eq!(
        dir.run_with("dedup-tokenize", &[], b"some text").docs(),
        ["-"]
    );
    assert_eq!(
        dir.run_with("dedup-tokenize", &["a", "-"], b"some text")
            .docs(),
        ["a", "-"]
    );
    assert_eq!(
        dir.run_with(
            "dedup-tokenize",
            &[],
            b"{\"id\":1,\"text\":\"x\"}\n{\"text\":\"y\"}"
        )
        .docs(),
        ["1", "-:2"]
    );
    assert_eq!(
        dir.run_with("dedup-tokenize", &[], b"{ not json }\n")
            .docs(),
        ["-"]
    );
    assert_eq!(
        dir.run_with(
            "dedup-tokenize",
            &["--records", "text"],
            b"{\"id\":1,\"text\":\"x\"}"
        )
        .docs(),
        ["-"]
    );
    assert_eq!(
        dir.run_with(
            "dedup-tokenize",
            &["--records", "lines"],
            b"one\n\r\ntwo\r\n"
        )
        .docs(),
        ["-:1", "-:3"]
    );
}

/// An upstream program that failed wrote nothing, so an empty stdin is no document; an empty file
/// is one.
#[test]
fn an_empty_stdin_is_no_document() {
    let dir = TestDir::with(&[("empty", "")]);
    let what =
        "no document was read; name files or directories that hold some, or write some to stdin";
    for (tool, arguments) in [("dedup-tokenize", &[][..]), ("dedup-blot", &["--binary"])] {
        let ran = dir.run(tool, arguments);
        assert_eq!((ran.code(), ran.stderr()), (2, format!("{tool}: {what}\n")));
        assert_eq!(
            ran.accounts(),
            [format!("{tool}: read 0 documents in 0 files (0 bytes)")]
        );
        assert!(
            !ran.stdout().contains("\"end\""),
            "what reads on must not take it for whole"
        );
    }
    assert_eq!(
        docs(&dir.run("dedup-tokenize", &["--records", "text"]).ok()),
        ["-"]
    );
    assert_eq!(
        docs(&dir.run("dedup-tokenize", &["-", "empty"]).ok()),
        ["empty"]
    );
}

#[test]
fn a_byte_order_mark_is_not_part_of_a_record() {
    let mark = |text: &str| [b"\xef\xbb\xbf", text.as_bytes()].concat();
    let dir = TestDir::with(&[("a.fa", mark(">one\nAC\n>two\nG\n"))]);
    let line = "{\"id\":1,\"text\":\"x\"}\n";
    assert_eq!(
        docs(&dir.run_with("dedup-tokenize", &[], &mark(line)).ok()),
        ["1"]
    );
    assert_eq!(
        docs(
            &dir.run("dedup-tokenize", &["--tokenizer", "dna", "a.fa"])
                .ok()
        ),
        ["one", "two"]
    );
    let lines = dir.run_with(
        "dedup-tokenize",
        &["--records", "lines"],
        &mark("one\ntwo\n"),
    );
    assert_eq!(records(&lines.ok())[1]["bytes"], 3);
    let tokens = dir
        .run_with("dedup-tokenize", &[], line.as_bytes())
        .ok_text();
    assert_eq!(
        dir.run_with("dedup-tokenize", &[], &mark(&tokens))
            .ok_text(),
        tokens
    );
    // The bytes of a text are unchanged, wherever it comes from.
    dir.write("a.txt", mark("word"));
    for ran in [
        dir.run("dedup-tokenize", &["a.txt"]),
        dir.run_with("dedup-tokenize", &[], &mark("word")),
    ] {
        assert_eq!(records(&ran.ok())[1]["bytes"], 7);
    }
}

#[test]
fn named_pipes_are_read_in_order() {
    let dir = TestDir::new();
    let ran = dir.shell(
        "mkfifo p q; (yes '{\"text\":\"x\"}' | head -n 300000 > p; echo '{\"id\":\"last\",\"text\":\"y\"}' > q) & \
         timeout 60 dedup-tokenize --threads 4 p q | tail -n 2",
    );
    assert!(
        ran.ok_text().ends_with("{\"end\":{\"records\":300001}}\n"),
        "{}",
        ran.stdout()
    );
    assert_eq!(ran.docs(), ["last"]);
}

#[test]
fn ids_may_be_numbers() {
    let ran = TestDir::new().run_with(
        "dedup-tokenize",
        &[],
        b"{\"id\":1.50,\"text\":\"x\"}\n{\"id\":123456789012345678901234567890,\"text\":\"x\"}\n",
    );
    assert_eq!(docs(&ran.ok()), ["1.50", "123456789012345678901234567890"]);
}

#[test]
fn id_and_text_fields_of_ndjson_can_be_named() {
    let dir = TestDir::with(&[(
        "a.jsonl",
        "{\"name\":\"n\",\"body\":\"some words\",\"text\":1}\n\n{\"body\":\"\\u017eluť\"}\n",
    )]);
    let ran = dir.run(
        "dedup-tokenize",
        &["--id-field", "name", "--text-field", "body", "a.jsonl"],
    );
    assert_eq!(ran.docs(), ["n", "a.jsonl:3"]);
    assert_eq!(records(&ran.ok())[2]["tokens"].to_string(), "[\"žluť\"]");
}

#[test]
fn bad_lines_are_reported_and_the_others_are_read() {
    let lines: &[&[u8]] = &[
        b"\xef\xbb\xbf{\"id\":\"a\",\"text\":\"x\"}",
        b"{\"id\":\"b\",\"text\":",
        b"{\"id\":\"c\"}",
        b"{\"id\":\"a\",\"text\":\"y\"}",
        b"[1]",
        b"{\"id\":\"d\",\"text\":\"\xff\"}",
        b"{\"id\":\"e\",\"text\":\"z\"}",
        b"{\"id\":\"f\",\"text\":\"\\ud800\"}",
    ];
    let dir = TestDir::with(&[("a.jsonl", lines.join(&b'\n'))]);
    let ran = dir.run("dedup-tokenize", &["a.jsonl"]);
    assert_eq!(
        (ran.code(), ran.docs()),
        (2, vec!["a".to_owned(), "e".to_owned()])
    );
    let errors = ran.stderr();
    let expected = [
        "a.jsonl:2: not JSON: EOF while parsing a value at column 17",
        "a.jsonl:3: no field 'text' with a text; it has 'id'",
        "a.jsonl:4: a document with the id 'a' came before; the first one is kept",
        "a.jsonl:5: unexpected JSON: invalid type: sequence, expected a JSON object at column 0",
        "a.jsonl:6: not UTF-8 at byte 18; convert it with iconv, or name its --encoding, or read it with --lossy",
        "a.jsonl:8: not JSON: unexpected end of hex escape at column 25",
    ];
    assert_eq!(
        errors.lines().collect::<Vec<_>>(),
        expected.map(|line| format!("dedup-tokenize: {line}"))
    );
    assert_eq!(
        dir.run("dedup-tokenize", &["--skip-bad", "a.jsonl"]).code(),
        0
    );
    assert!(
        dir.run("dedup-tokenize", &["--skip-bad", "a.jsonl"])
            .stderr()
            .starts_with("dedup-tokenize: warning: a.jsonl:2: ")
    );
    let quiet = dir.run("dedup-tokenize", &["-q", "a.jsonl"]);
    assert_eq!(
        (quiet.code(), quiet.stderr(), quiet.accounts().len()),
        (2, errors, 0)
    );
}

#[test]
fn text_that_is_not_utf8_is_reported_unless_lossy() {
    let dir = TestDir::with(&[
        ("a.txt", b"caf\xe9 au lait".as_slice()),
        ("b.txt", b"\xff\xfe\0\0x\0\0\0".as_slice()),
        ("c.txt", b"fine".as_slice()),
    ]);
    let ran = dir.run(
        "dedup-tokenize",
        &["--encoding", "utf-8", "a.txt", "b.txt", "c.txt"],
    );
    assert_eq!((ran.code(), ran.docs()), (2, vec!["c.txt".to_owned()]));
    assert_eq!(
        ran.stderr(),
        "dedup-tokenize: a.txt: not UTF-8 at byte 3; convert it with iconv, or name its --encoding, or read it with --lossy\n\
         dedup-tokenize: b.txt: left out: UTF-32; convert it with iconv -f UTF-32 -t UTF-8\n"
    );
    let ran = dir.run(
        "dedup-tokenize",
        &["--encoding", "utf-8", "--lossy", "--spans", "a.txt"],
    );
    let record = &records(&ran.ok())[1];
    assert_eq!(
        (record["tokens"].to_string(), record["spans"].to_string()),
        (
            r#"["caf","au","lait"]"#.to_owned(),
            "[[0,3],[5,7],[8,12]]".to_owned()
        )
    );
}

#[test]
fn missing_files_and_repeated_ids_are_reported() {
    let dir = TestDir::with(&[("a", "x")]);
    let ran = dir.run("dedup-tokenize", &["nothing", "a"]);
    assert_eq!(
        (ran.code(), ran.docs(), ran.stderr().as_str()),
        (
            2,
            vec!["a".to_owned()],
            "dedup-tokenize: nothing: No such file or directory (os error 2)\n"
        )
    );
    let ran = dir.run("dedup-tokenize", &["a", "./a", "a"]);
    assert_eq!(
        (ran.code(), ran.docs()),
        (2, vec!["a".to_owned(), "./a".to_owned()])
    );
    assert_eq!(
        ran.stderr(),
        "dedup-tokenize: a: a document with the id 'a' came before; the first one is kept\n"
    );
}

#[test]
fn file_names_that_are_not_utf8_are_reported() {
    use std::os::unix::ffi::OsStrExt;
    let dir = TestDir::with(&[("c/a", "x")]);
    std::fs::write(
        dir.path("c").join(std::ffi::OsStr::from_bytes(b"b\xff")),
        "y",
    )
    .unwrap();
    let ran = dir.run("dedup-tokenize", &["c"]);
    assert_eq!((ran.code(), ran.docs()), (2, vec!["c/a".to_owned()]));
    assert!(
        ran.stderr().contains("the file's name is not UTF-8"),
        "{}",
        ran.stderr()
    );
}

#[test]
fn each_fasta_record_is_a_document() {
    let dir = TestDir::with(&[
        ("a.fa", ">one first\nACGT\nAC\n>two\n\n>\nGG"),
        ("b.fa.gz", ""),
    ]);
    dir.write("b.fa.gz", gz(">three\nTT\n"));
    let ran = dir.run(
        "dedup-tokenize",
        &[
            "--records",
            "fasta",
            "--tokenizer",
            "dna",
            "--spans",
            "a.fa",
            "b.fa.gz",
        ],
    );
    assert_eq!(ran.docs(), ["one", "two", "a.fa:6", "three"]);
    assert_eq!(
        records(&ran.ok())[1]["spans"].to_string(),
        "[[0,1],[1,2],[2,3],[3,4],[5,6],[6,7]]"
    );
    assert_eq!(
        dir.run("dedup-tokenize", &["--tokenizer", "dna", "a.fa"])
            .docs(),
        ["one", "two", "a.fa:6"]
    );
    let ran = dir.run_with("dedup-tokenize", &["--records", "fasta"], b"ACGT\n>x\nA\n");
    assert_eq!((ran.code(), ran.docs()), (2, vec!["x".to_owned()]));
    assert_eq!(
        ran.stderr(),
        "dedup-tokenize: stdin:1: text before the first '>'; for plain sequences use --records text\n"
    );
}

#[test]
fn fasta_names_that_are_not_utf8_are_reported_unless_lossy() {
    let dir = TestDir::with(&[("a.fa", b">caf\xe9 x\nAC\n>two\nGG\n")]);
    let ran = dir.run("dedup-tokenize", &["--records", "fasta", "a.fa"]);
    assert_eq!((ran.code(), ran.docs()), (2, vec!["two".to_owned()]));
    assert_eq!(
        ran.stderr(),
        "dedup-tokenize: a.fa:1: not UTF-8 at byte 4; convert it with iconv, or name its --encoding, or read it with --lossy\n"
    );
    assert_eq!(
        docs(
            &dir.run("dedup-tokenize", &["--records", "fasta", "--lossy", "a.fa"])
                .ok()
        ),
        ["caf?", "two"]
    );
}

#[test]
fn large_documents_and_many_lines_are_read() {
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(300_000);
    let dir = TestDir::with(&[("large.txt", &text)]);
    assert_eq!(
        records(
            &dir.run("dedup-blot", &["--select", "mod:1000000", "large.txt"])
                .ok()
        )[1]["tokens"],
        2_700_000
    );
    let lines: String = (0..50_000)
        .map(|n| {
            format!(
                "{{\"id\":{n},\"text\":\"document number {n} {}\"}}\n",
                "x".repeat(n % 40)
            )
        })
        .collect();
    dir.write("many.jsonl", &lines);
    let ran = dir.run("dedup-tokenize", &["many.jsonl"]);
    assert_eq!(
        ran.docs(),
        (0..50_000).map(|n| n.to_string()).collect::<Vec<_>>()
    );
}
