//! dedup-extract clean writes the files of a collection again, without what is there twice.

use crate::test_dir::{TestDir, records};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};

const COPIES: [&str; 9] = [
    r#"{"id":"a","text":"one two three four five six seven eight nine ten"}"#,
    r#"  { "text" : "One, two; three four five six seven eight nine ten eleven" , "more":[1, 2], "id":"b" }"#,
    r#"{"id":"c","text":"nothing of all this is in any other document of the corpus"}"#,
    r#"{"text":"ONE TWO three four five six seven eight nine ten"}"#,
    "",
    r#"{"id":5,"text":"…"}"#,
    r#"{"id":"e","text":""}"#,
    r#"{"id":"f","text":"!"}"#,
    r#"{"id":"g","text":"one two three four five six"}"#,
];

/// Joins lines of [`COPIES`].
pub fn lines(of: &[usize]) -> String {
    of.iter()
        .map(|&line| format!("{}\n", COPIES[line]))
        .collect()
}

fn copies() -> TestDir {
    TestDir::with(&[("c.jsonl", lines(&[0, 1, 2, 3, 4, 5, 6, 7, 8]))])
}

/// What `dedup-extract clean -k 8` prints with some options, and each record of its --dropped file: id, reason, duplicate_of, shared, share.
fn clean(dir: &TestDir, options: &str) -> (String, Vec<Value>) {
    let line = format!("dedup-extract clean -k 8 -q --dropped gone.jsonl {options}");
    let kept = dir.shell(&line).ok_text();
    let dropped = records(&dir.read("gone.jsonl"));
    let short = |row: &Value| {
        json!([
            row["id"],
            row["reason"],
            row["duplicate_of"],
            row["shared"],
            row["share"]
        ])
    };
    (kept, dropped.iter().map(short).collect())
}

#[test]
fn records_that_stay_keep_their_bytes() {
    let dir = copies();
    // Three of the four windows of b are in a, which is less than four fifths.
    assert_eq!(clean(&dir, "c.jsonl").0, lines(&[0, 1, 2, 4, 5, 6, 7, 8]));
    assert_eq!(
        clean(&dir, "c.jsonl --keep last").0,
        lines(&[1, 2, 3, 4, 5, 6, 7, 8])
    );
    let (kept, dropped) = clean(&dir, "c.jsonl --near 0.75");
    assert_eq!(kept, lines(&[0, 2, 4, 5, 6, 7, 8]));
    // Documents without words are not taken for copies of each other.
    let expected = [
        json!(["b", "near", "a", 3, 0.75]),
        json!(["c.jsonl:4", "exact", "a", 3, 1]),
    ];
    assert_eq!(dropped, expected);
    let (kept, dropped) = clean(&dir, "c.jsonl --keep longest");
    assert_eq!(kept, lines(&[1, 2, 4, 5, 6, 7, 8]));
    assert_eq!(dropped[0], json!(["a", "near", "b", 3, 1]));
    assert_eq!(
        clean(&dir, "c.jsonl --by jaccard --near 0.75 --keep shortest").0,
        lines(&[0, 2, 4, 5, 6, 7, 8])
    );
    assert_eq!(
        clean(&dir, "c.jsonl --by jaccard --near 0.76 --keep longest").0,
        lines(&[0, 1, 2, 4, 5, 6, 7, 8])
    );
    assert_eq!(
        clean(&dir, "c.jsonl --near off").0,
        lines(&[0, 1, 2, 4, 5, 6, 7, 8])
    );
    assert_eq!(
        clean(&dir, "c.jsonl --near off --exact off"),
        (lines(&[0, 1, 2, 3, 4, 5, 6, 7, 8]), Vec::new())
    );
    // All copies go, also the first.
    assert_eq!(
        clean(&dir, "c.jsonl --keep none").0,
        lines(&[1, 2, 4, 5, 6, 7, 8])
    );
}

fn words(of: &str, count: usize) -> String {
    (0..count).map(|number| format!("{of}{number} ")).collect()
}

fn line(id: &str, text: &str) -> String {
    format!("{}\n", json!({ "id": id, "text": text }))
}

/// Three packed files: every document of the second is in the first, the third has a near copy of one.
fn shards() -> TestDir {
    let dir = TestDir::new();
    let text = |of: usize| words(&format!("w{of}x"), 30);
    let first: String = (0..9).map(|n| line(&format!("a{n}"), &text(n))).collect();
    let second: String = (0..9)
        .map(|n| line(&format!("b{n}"), &text(n).to_uppercase()))
        .collect();
    let third = line("c0", &words("own", 30)) + &line("c1", &format!("{}more", text(3)));
    dir.write("in/sub/a.jsonl", &first);
    dir.write("in/b.jsonl", &second);
    dir.write("in/c.jsonl", &third);
    dir.shell("zstd -q --rm in/sub/a.jsonl && gzip in/b.jsonl && xz in/c.jsonl")
        .ok();
    dir
}

#[test]
fn files_are_written_under_their_names_and_packed_as_they_were() {
    let dir = shards();
    let input = dir.shell("cat $(find in -type f) | sha256sum").ok_text();
    // Directories are walked by name: b and c come before sub.
    let ran = dir.shell("dedup-extract clean in -o out --dropped gone.tsv --report r.json");
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    let found = dir
        .shell("cd out && find . -type f -not -path '*/.*' | LC_ALL=C sort")
        .ok_text();
    assert_eq!(found, "./b.jsonl.gz\n./c.jsonl.xz\n./sub/a.jsonl.zst\n");
    assert_eq!(
        dir.shell("zcat out/b.jsonl.gz | cmp - <(zcat in/b.jsonl.gz)")
            .ok_text(),
        ""
    );
    assert_eq!(
        dir.shell("xzcat out/c.jsonl.xz").ok_text(),
        line("c0", &words("own", 30))
    );
    assert_eq!(dir.shell("zstdcat out/sub/a.jsonl.zst").ok_text(), "");
    assert_eq!(
        dir.shell("cat $(find in -type f) | sha256sum").ok_text(),
        input
    );
    let table = String::from_utf8(dir.read("gone.tsv")).unwrap();
    assert_eq!(
        table.lines().take(2).collect::<Vec<_>>(),
        [
            "id\treason\tduplicate_of\tshare\tshared\tfile\trecord\tduplicate_of_file",
            "c1\tnear\tb3\t0.962963\t26\tin/c.jsonl.xz\t2\tin/b.jsonl.gz",
        ]
    );
    assert_eq!(table.lines().count(), 11);
    let report: Value = serde_json::from_slice(&dir.read("r.json")).unwrap();
    for (field, value) in [
        ("read", 20),
        ("kept", 10),
        ("exact", 9),
        ("near", 1),
        ("shards", 3),
        ("shards_written", 3),
    ] {
        assert_eq!(report[field], value, "{field}");
    }
}

#[test]
fn the_account_is_a_table() {
    let dir = shards();
    let ran = dir.shell("dedup-extract clean in -o out");
    let stderr = ran.stderr();
    let rows: Vec<Vec<&str>> = stderr
        .lines()
        .map(|line| line.split_whitespace().skip(1).take(3).collect())
        .collect();
    for row in [
        ["read", "20", "100.0%"],
        ["kept", "10", "50.0%"],
        ["exact", "9", "45.0%"],
        ["near", "1", "5.0%"],
    ] {
        assert!(rows.contains(&row.to_vec()), "{row:?} in {stderr}");
    }
    assert!(stderr.contains("largest groups: 'b3' (2)"), "{stderr}");
    assert_eq!(dir.shell("dedup-extract clean -q in -o quiet").stderr(), "");
}

#[test]
fn a_run_that_is_done_has_nothing_to_do() {
    let dir = shards();
    dir.shell("dedup-extract clean -q in -o out").ok();
    let before = dir
        .shell("cd out && ls -lR --time-style=full-iso")
        .ok_text();
    let ran = dir.shell("dedup-extract clean in -o out");
    assert!(ran.stderr().contains("all is done already"));
    assert_eq!(
        before.lines().filter(|line| line.contains("jsonl")).count(),
        3
    );
    let after = dir
        .shell("cd out && ls -lR --time-style=full-iso")
        .ok_text();
    let shards = |listing: &str| -> Vec<String> {
        let is_shard = |line: &&str| line.contains("jsonl");
        listing
            .lines()
            .filter(is_shard)
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(shards(&before), shards(&after));
    for (change, message) in [
        (
            "dedup-extract clean in -o out --near 50%",
            "out: holds a run with other settings or files; give another directory, or remove this one",
        ),
        (
            "mkdir other; touch other/x; dedup-extract clean in -o other",
            "other: holds files already; give a directory that is empty or does not exist",
        ),
        (
            "dedup-extract clean in -o in/out",
            "in/out: it is inside of in, which is read; give a directory outside",
        ),
        (
            "dedup-extract clean in/b.jsonl.gz -o in",
            "in/b.jsonl.gz: would be written over; give another directory for the output",
        ),
        (
            "cp in/b.jsonl.gz b.jsonl.gz; dedup-extract clean in/b.jsonl.gz b.jsonl.gz -o two",
            "b.jsonl.gz: would be written to b.jsonl.gz, as would in/b.jsonl.gz; give the directory that holds both",
        ),
    ] {
        let ran = dir.shell(change);
        assert!(
            ran.code() == 2 && ran.stderr().contains(message),
            "{change}: {}",
            ran.stderr()
        );
    }
}

#[test]
fn articles_that_end_with_the_text_of_a_stub_stay() {
    let (dir, banner) = (TestDir::new(), words("banner", 50));
    let article = |of: &str| line(of, &format!("{}{banner}", words(of, 750)));
    let corpus = line("stub", &banner) + &article("a") + &article("b") + &article("c");
    dir.write("c.jsonl", &corpus);
    for keep in ["first", "shortest"] {
        assert_eq!(
            clean(&dir, &format!("c.jsonl --keep {keep}")),
            (corpus.clone(), Vec::new()),
            "{keep}"
        );
    }
    // All of the stub is in an article, which is visited first.
    for (keep, of) in [("longest", "a"), ("last", "c")] {
        assert_eq!(
            clean(&dir, &format!("c.jsonl --keep {keep}")),
            (
                article("a") + &article("b") + &article("c"),
                vec![json!(["stub", "near", of, 43, 1])]
            ),
            "{keep}"
        );
    }
}

#[test]
fn of_copies_the_preferred_one_stays() {
    let text = words("same", 20);
    let record = |id: &str, date: &str, score: Value| {
        format!(
            "{}\n",
            json!({ "id": id, "text": text, "meta": { "date": date }, "score": score })
        )
    };
    let dir = TestDir::with(&[
        (
            "web/a.jsonl",
            record("a", "2024-03-01", json!(9)) + &record("web_b", "2024-01-01", json!(10)),
        ),
        (
            "books/c.jsonl",
            record("c", "2025-01-01", json!(null)) + &record("d", "2023-01-01", json!(-1)),
        ),
    ]);
    for (options, id) in [
        ("--keep first", "c"),
        ("--keep last", "web_b"),
        ("--keep meta.date:max", "c"),
        ("--keep meta.date:min", "d"),
        ("--keep score:max", "web_b"),
        ("--keep score:min", "d"),
        ("--prefer web/", "a"),
        ("--prefer nothing web_b web/", "web_b"),
        ("--prefer web/ --keep score:max", "web_b"),
    ] {
        let kept = dir
            .shell(&format!("dedup-extract clean -q books web {options}"))
            .ok();
        let ids: Vec<_> = records(&kept).iter().map(|row| row["id"].clone()).collect();
        assert_eq!(ids, [json!(id)], "{options}");
    }
    let kept = dir.shell("dedup-extract clean -q books web --keep none");
    assert_eq!(kept.ok_text(), "");
}

#[test]
fn passages_are_cut_out_of_all_documents_but_the_first() {
    let passage =
        "\\u00dcber uns: we use \\\"cookies\\\" on this site,\\nand 😀 so on and so forth";
    let record = |id: &str, before: &str, after: &str| {
        format!("{{\"id\":\"{id}\", \"text\" : \"{before}{passage}{after}\", \"x\":[1 ]}}\n")
    };
    let cut =
        |id: &str, text: &str| format!("{{\"id\":\"{id}\", \"text\" : \"{text}\", \"x\":[1 ]}}\n");
    let dir = TestDir::with(&[(
        "c.jsonl",
        record("a", "First text. ", ".")
            + &record("b", "Second one. ", ". And its end")
            + &record("c", "", "")
            + &record("d", "Third: ", "!"),
    )]);
    let ran = dir.shell("dedup-extract clean c.jsonl --near off --cut-spans 10 --cuts cuts.jsonl --dropped gone.jsonl");
    assert_eq!(
        ran.stdout(),
        record("a", "First text. ", ".")
            + &cut("b", "Second one. And its end")
            + &cut("d", "Third: "),
        "{}",
        ran.stderr()
    );
    let cuts = records(&dir.read("cuts.jsonl"));
    let rows: Vec<_> = cuts
        .iter()
        .map(|row| json!([row["id"], row["tokens"], row["duplicate_of"]]))
        .collect();
    assert_eq!(rows, [json!(["b", 14, "a"]), json!(["d", 14, "a"])]);
    let gone = records(&dir.read("gone.jsonl"));
    assert_eq!(gone[0]["id"], "c");
    assert_eq!(gone[0]["reason"], "short");
    assert_eq!(gone[0]["duplicate_of"], "a");
    // A document that keeps a passage for others stays, however little is left of it.
    let ran = dir.shell("dedup-extract clean -q c.jsonl --near off --cut-spans 10 --min-left 99");
    assert_eq!(ran.ok_text(), record("a", "First text. ", "."));
}

#[test]
fn text_of_another_collection_goes() {
    let (eval, other) = (words("question", 30), words("other", 40));
    let dir = TestDir::with(&[
        (
            "train.jsonl",
            line("same", &eval.to_uppercase())
                + &line("near", &format!("{eval}more"))
                + &line(
                    "embeds",
                    &format!("{other}{}{}", eval.replace(' ', "\n"), words("tail", 50)),
                )
                + &line("clean", &words("clean", 40)),
        ),
        ("eval.jsonl", line("q1", &eval) + &line("q2", "a short one")),
    ]);
    dir.shell("dedup-index build -q -k 5 -o eval.idx eval.jsonl")
        .ok();
    for against in ["eval.jsonl", "eval.idx"] {
        let line = format!(
            "dedup-extract clean train.jsonl --against {against} --cut-spans 50 --dropped gone.jsonl --cuts cuts.jsonl"
        );
        let ran = dir.shell(&line);
        assert_eq!(ran.code(), 0, "{}", ran.stderr());
        let kept = records(ran.stdout().as_bytes());
        let ids: Vec<_> = kept.iter().map(|row| row["id"].clone()).collect();
        assert_eq!(ids, [json!("embeds"), json!("clean")], "{against}");
        assert_eq!(
            kept[0]["text"],
            format!("{other}{}", words("tail", 50)),
            "{against}"
        );
        let gone = records(&dir.read("gone.jsonl"));
        for (row, id) in gone.iter().zip(["same", "near"]) {
            assert_eq!(
                [&row["id"], &row["reason"], &row["duplicate_of"]],
                [id, "against", "q1"]
            );
        }
        let cuts = records(&dir.read("cuts.jsonl"));
        assert_eq!(
            json!([cuts[0]["id"], cuts[0]["tokens"], cuts[0]["duplicate_of"]]),
            json!(["embeds", 30, "q1"])
        );
        assert_eq!(
            [&cuts[0]["start"], &cuts[0]["end"]],
            [other.len(), other.len() + eval.len()]
        );
        assert!(
            ran.stderr().contains("against"),
            "{against}: {}",
            ran.stderr()
        );
    }
    let without = dir.shell("dedup-extract clean -q train.jsonl --against eval.jsonl");
    assert_eq!(records(&without.ok()).len(), 2);
}

#[test]
fn ids_of_another_collection_may_repeat_and_its_files_must_be_whole() {
    let dir = TestDir::with(&[
        (
            "train.jsonl",
            line("t1", &words("one", 20)) + &line("t2", &words("two", 20)),
        ),
        ("eval/a.jsonl", line("1", &words("one", 20))),
        ("eval/b.jsonl", line("1", &words("two", 20))),
    ]);
    let ran = dir.shell("dedup-extract clean train.jsonl --against eval --dropped gone.jsonl");
    assert_eq!(
        (ran.code(), ran.stdout()),
        (0, String::new()),
        "{}",
        ran.stderr()
    );
    let files: Vec<_> = records(&dir.read("gone.jsonl"))
        .iter()
        .map(|row| row["duplicate_of_file"].clone())
        .collect();
    assert_eq!(files, ["eval/a.jsonl", "eval/b.jsonl"]);
    dir.shell("gzip -c train.jsonl | head -c -9 > eval/c.jsonl.gz")
        .ok();
    let ran = dir.shell("dedup-extract clean train.jsonl --against eval -o out");
    assert!(
        ran.code() == 2 && !dir.path("out").exists(),
        "{}",
        ran.stderr()
    );
}

#[test]
fn nothing_that_is_read_or_written_is_written_over() {
    let dir = shards();
    let before = dir.shell("sha256sum in/* 2> /dev/null").stdout();
    for (options, message) in [
        ("in -o out --dropped in/b.jsonl.gz", "is read, as in is"),
        ("in -o out --report in/new.json", "is read, as in is"),
        ("in/b.jsonl.gz -o out --report in/b.jsonl.gz", "is read, as"),
        (
            "in/b.jsonl.gz -o out --against in/c.jsonl.xz --dropped in/c.jsonl.xz",
            "is read, as",
        ),
        (
            "in -o out --dropped out/b.jsonl.gz",
            "a cleaned file goes there",
        ),
        ("in in/b.jsonl.gz -o out", "the same file as"),
        (
            "in -o out --against nope",
            "nope: no such file or directory",
        ),
        (
            "in -o out --cut-spans 3",
            "--cut-spans 3 is less than the 5 tokens of a window",
        ),
        (
            "in -o out --keep dat:max",
            "no document has a field 'dat' to choose by",
        ),
    ] {
        let ran = dir.shell(&format!("dedup-extract clean {options}"));
        assert!(
            ran.code() == 2 && ran.stderr().contains(message),
            "{options}: {}",
            ran.stderr()
        );
        assert!(!dir.path("out").exists(), "{options}");
    }
    assert_eq!(dir.shell("sha256sum in/* 2> /dev/null").stdout(), before);
    // A file that is not of the run is not taken for one that it wrote.
    dir.shell("dedup-extract clean -q in -o out && rm out/b.jsonl.gz")
        .ok();
    let ran = dir.shell("dedup-extract clean in -o out");
    assert!(
        ran.stderr().contains("2 of 3 cleaned files are there"),
        "{}",
        ran.stderr()
    );
}

#[test]
fn large_numbers_links_and_modes_are_kept() {
    let text = words("same", 20);
    let record =
        |id: &str, stamp: &str| format!("{{\"id\":\"{id}\",\"text\":\"{text}\",\"n\":{stamp}}}\n");
    let dir = TestDir::with(&[(
        "real/a.jsonl",
        record("a", "1700000000000000001") + &record("b", "1700000000000000002"),
    )]);
    dir.shell("chmod 600 real/a.jsonl && ln -s real link").ok();
    dir.shell("dedup-extract clean -q link -o out --keep n:max")
        .ok();
    assert_eq!(records(&dir.read("out/a.jsonl"))[0]["id"], "b");
    assert_eq!(dir.shell("stat -c %a out/a.jsonl").ok_text(), "600\n");
}

#[test]
fn annotated_records_all_stay() {
    let dir = copies();
    let all = dir.shell("dedup-extract clean -q -k 8 c.jsonl --near 0.75 --mode annotate");
    let lines = all.ok_text();
    assert_eq!(lines.lines().count(), 9);
    let notes: BTreeMap<String, Value> = records(&all.ok())
        .iter()
        .map(|row| (row["id"].to_string(), row["dedup"].clone()))
        .collect();
    assert_eq!(notes["\"a\""], json!({ "keep": true }));
    assert_eq!(
        notes["\"b\""],
        json!({ "keep": false, "reason": "near", "duplicate_of": "a", "share": 0.75 })
    );
    // Annotating again replaces the field, and all else stays.
    dir.write("again/c.jsonl", &lines);
    let again = dir.shell("dedup-extract clean -q -k 8 again/c.jsonl --near 0.75 --mode annotate");
    assert_eq!(
        again.ok_text().replace("again/c.jsonl:4", "c.jsonl:4"),
        lines
    );
    let ran = dir.shell("echo some text > t.txt; dedup-extract clean t.txt --mode annotate -o o");
    assert!(ran.stderr().contains("its records have no fields"));
}

#[test]
fn an_index_that_was_made_before_serves() {
    let dir = copies();
    dir.shell("dedup-index build -q -o i c.jsonl").ok();
    let run = |options: &str| dir.shell(&format!("dedup-extract clean i {options}"));
    assert_eq!(
        run("-q c.jsonl --near 0.75").ok_text(),
        lines(&[0, 2, 4, 5, 6, 7, 8])
    );
    // Only documents of the input are a reason to drop one.
    dir.write("two.jsonl", lines(&[1]));
    assert_eq!(run("-q two.jsonl --near 0.75").ok_text(), lines(&[1]));
    let other = lines(&[0]).replace("nine ten", "nine and a half");
    let new = line("new", "one two three four five six seven eight nine ten");
    dir.write("c.jsonl", other.clone() + &lines(&[1, 2, 1]) + &new);
    let ran = run("c.jsonl --near 0.75");
    assert_eq!(
        (ran.code(), ran.stdout()),
        (0, other + &lines(&[1, 2, 1]) + &new)
    );
    for message in [
        "1 documents have another text than in the index, and stay; bring the index up to date",
        "1 documents are not in the index, and stay;",
        "1 documents have an id that came before, and stay",
    ] {
        assert!(ran.stderr().contains(message), "{}", ran.stderr());
    }
    let ran = run("");
    assert!(
        ran.stderr()
            .contains("i: an index has no texts to write; give the files that it was made of, too")
    );
    let ran = run("-q c.jsonl -k 3");
    assert!(ran.stderr().contains("-k is for documents"));
}

#[test]
fn documents_with_one_id_stay_apart() {
    let dir = TestDir::with(&[
        (
            "a.jsonl",
            line("x", "one two three four five six")
                + &line("x", "other words that are not the same"),
        ),
        ("b.jsonl", line("x", "ONE two three four five six")),
    ]);
    let ran = dir.shell("dedup-extract clean a.jsonl b.jsonl -o out --dropped gone.jsonl");
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    assert_eq!(dir.read("out/a.jsonl"), dir.read("a.jsonl"));
    assert_eq!(dir.read("out/b.jsonl"), b"");
    let gone = records(&dir.read("gone.jsonl"));
    assert_eq!(
        (&gone[0]["file"], &gone[0]["duplicate_of_file"], gone.len()),
        (&json!("b.jsonl"), &json!("a.jsonl"), 1)
    );
}

#[test]
fn lines_that_are_no_documents_stay_and_are_named() {
    let dir = TestDir::new();
    let bad = "not JSON\n{\"id\":\"b\"}\n\n{\"id\":\"x\",\"text\":\"new\"}\r\n";
    dir.write(
        "c.jsonl",
        lines(&[0, 3]) + bad + "{\"id\":\"last\",\"text\":\"no line end\"}",
    );
    let ran = dir.shell("dedup-extract clean c.jsonl -o out");
    assert_eq!(ran.code(), 2);
    for message in [
        "c.jsonl:3: not JSON",
        "c.jsonl:4: no field 'text' with a text",
    ] {
        assert!(ran.stderr().contains(message), "{}", ran.stderr());
    }
    assert!(
        ran.stderr()
            .contains("2 records are no documents, and stay"),
        "{}",
        ran.stderr()
    );
    assert_eq!(
        String::from_utf8(dir.read("out/c.jsonl")).unwrap(),
        lines(&[0]) + bad + "{\"id\":\"last\",\"text\":\"no line end\"}"
    );
    let ran = dir.shell("dedup-extract clean -q --skip-bad c.jsonl -o out2");
    assert_eq!(ran.code(), 0);
}

#[test]
fn a_damaged_file_leaves_no_output() {
    let dir = copies();
    dir.shell("zstd -q c.jsonl -o c.zst; head -c -9 c.zst > cut.jsonl.zst; gzip -c c.jsonl | head -c -9 > cut.jsonl.gz")
        .ok();
    for name in ["cut.jsonl.zst", "cut.jsonl.gz"] {
        let ran = dir.shell(&format!(
            "dedup-extract clean c.jsonl {name} -o out --dropped gone.jsonl"
        ));
        assert_eq!(ran.code(), 2, "{name}");
        assert!(
            ran.stderr().contains("could not be read to their ends"),
            "{}",
            ran.stderr()
        );
        assert!(!dir.path("out").exists() && !dir.path("gone.jsonl").exists());
        // It takes no part, so that nothing goes because of it.
        let ran = dir.shell(&format!(
            "dedup-extract clean -q --skip-bad -k 8 {name} c.jsonl -o out && cat out/c.jsonl && ! test -e out/{name}; rm -r out"
        ));
        assert_eq!(ran.ok_text(), lines(&[0, 1, 2, 4, 5, 6, 7, 8]));
    }
    for (arguments, message) in [
        (
            "clean c.jsonl --top 3",
            "error: unexpected argument '--top' found",
        ),
        (
            "clean c.jsonl --by s3",
            "error: invalid value 's3' for '--by <SCORE>'",
        ),
        (
            "clean c.jsonl --near 0",
            "error: invalid value '0' for '--near <P%|off>': it must be above 0, or every document would go",
        ),
        (
            "clean c.jsonl --dropped -",
            "dedup-extract: what stays and --dropped would both go to stdout; give one of them a file",
        ),
        (
            "clean c.jsonl --cuts x",
            "dedup-extract: --cuts lists passages that are cut out; say which with --cut-spans N",
        ),
        (
            "clean c.jsonl --keep newest",
            "error: invalid value 'newest' for '--keep <WHICH>'",
        ),
    ] {
        let stderr = dir.shell(&format!("dedup-extract {arguments}")).stderr();
        assert!(stderr.starts_with(message), "{stderr}");
    }
    let ran = dir.shell("dedup-extract clean -q c.jsonl > /dev/full");
    assert!(
        ran.stderr().contains("No space left on device"),
        "{}",
        ran.stderr()
    );
}

#[test]
fn whole_documents_are_copied_or_left_out() {
    let text = words("essay", 40);
    let dir = TestDir::with(&[
        ("in/a.txt", text.clone()),
        ("in/b.txt", text.to_uppercase()),
        ("in/c.html", format!("<p>{}</p>", words("page", 30))),
        ("in/d.md", format!("# Title\n\n{}\n", words("own", 30))),
    ]);
    dir.shell("dedup-extract clean -q in -o out").ok();
    assert_eq!(dir.shell("cd out && ls").ok_text(), "a.txt\nc.html\nd.md\n");
    assert_eq!(
        dir.shell("cmp in/c.html out/c.html && cmp in/d.md out/d.md")
            .ok_text(),
        ""
    );
    let ran = dir.shell("dedup-extract clean in");
    assert!(
        ran.stderr()
            .contains("not lines, which is what a pipe takes")
    );
}

#[test]
fn records_of_every_kind_are_written_again() {
    let text = |of: usize| words(&format!("t{of}x"), 20);
    let csv: String = (0..4)
        .map(|n| format!("c{n},\"{}\",\"a \"\"note\"\"\"\r\n", text(n)))
        .collect();
    let array: Vec<Value> = (2..6)
        .map(|n| json!({ "id": format!("j{n}"), "text": text(n) }))
        .collect();
    let dir = TestDir::with(&[
        ("in/a.csv", format!("id,text,more\r\n{csv}")),
        ("in/b.json", serde_json::to_string_pretty(&array).unwrap()),
        (
            "in/c.tsv",
            format!("text\tid\n{}\tt9\n{}\tt5\n", text(9), text(5)),
        ),
    ]);
    std::fs::copy(
        crate::test_dir::root().join("testdata/corpus-kinds/snappy.parquet"),
        dir.path("in/d.parquet"),
    )
    .unwrap();
    let read = |of: &str| {
        let ids = dir.shell(&format!(
            "dedup-tokenize -q {of} | jq -r 'select(.doc).doc' "
        ));
        let ids = ids.ok_text();
        ids.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    dir.shell("dedup-extract clean -q in -o out --dropped gone.parquet --keep first")
        .ok();
    assert_eq!(dir.read("out/a.csv"), dir.read("in/a.csv"));
    assert_eq!(read("out/b.json"), ["j4", "j5"]);
    assert_eq!(read("out/c.tsv"), ["t9"]);
    assert_eq!(
        String::from_utf8(dir.read("out/c.tsv")).unwrap(),
        format!("text\tid\n{}\tt9\n", text(9))
    );
    // The table of what went is read as any other.
    assert_eq!(
        read("gone.parquet --text-field reason")[..3],
        ["j2", "j3", "t5"]
    );
    dir.shell("dedup-extract clean -q out -o twice").ok();
    for name in ["a.csv", "b.json", "c.tsv", "d.parquet"] {
        let [once, twice] = ["out", "twice"].map(|of| dir.read(&format!("{of}/{name}")));
        assert!(once == twice, "{name}");
    }
    dir.shell("dedup-extract clean -q in -o notes --mode annotate")
        .ok();
    let notes = dir.shell("dedup-tokenize -q notes/a.csv notes/c.tsv notes/d.parquet --text-field dedup | jq -c 'select(.doc) | [.doc, .tokens[1]]'");
    assert!(
        notes.ok_text().starts_with("[\"c0\",\"true\"]\n"),
        "{}",
        notes.stdout()
    );
    assert!(
        notes.ok_text().contains("[\"t5\",\"false\"]\n"),
        "{}",
        notes.stdout()
    );
    // In JSON the field is an object, not a text.
    let notes = dir.shell("jq -c '[.[].dedup.keep]' notes/b.json");
    assert_eq!(notes.ok_text(), "[false,false,true,true]\n");
}

#[test]
fn stdin_is_cleaned_in_one_go() {
    let dir = copies();
    let out = dir
        .shell("gzip -c c.jsonl | dedup-extract clean -q -k 8 --near 0.75 - ")
        .ok_text();
    assert_eq!(out, lines(&[0, 2, 4, 5, 6, 7, 8]));
    dir.shell("dedup-extract clean -q -k 8 --near 0.75 -o out - < c.jsonl")
        .ok();
    let all = lines(&[0, 2, 4, 5, 6, 7, 8]);
    assert_eq!(dir.read("out/stdin"), all.as_bytes());
    let again = "dedup-extract clean -k 8 --near 0.75 -o out - --dropped gone.jsonl < c.jsonl";
    let ran = dir.shell(&again.replace("out", "named"));
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    assert_eq!(records(&dir.read("gone.jsonl"))[0]["file"], "stdin");
    let ran = dir.shell(&again.replace("out", "named"));
    assert!(
        ran.stderr().contains("all is done already"),
        "{}",
        ran.stderr()
    );
    let ran = dir.shell("dedup-extract clean - < /dev/null");
    assert!(
        ran.stderr().contains("no document was read"),
        "{}",
        ran.stderr()
    );
}

/// Small documents of few words, so that many are similar.
fn corpora() -> impl Strategy<Value = Vec<String>> {
    let text = prop::collection::vec(
        prop::sample::select(vec!["a", "b", "c", "Dé", "e-f"]),
        0..14,
    )
    .prop_map(|words| words.join(" "));
    prop::collection::vec(text, 2..24)
}

/// Writes the texts to several files, with ranks to prefer by.
fn write_corpus(dir: &TestDir, texts: &[String], files: usize) {
    for file in 0..files {
        let part = texts
            .iter()
            .enumerate()
            .filter(|(number, _)| number * files / texts.len() == file);
        let record = |(number, text): (usize, &String)| {
            let rank = number * 7 % 5;
            format!(
                "{}\n",
                json!({ "id": format!("d{number}"), "text": text, "rank": rank })
            )
        };
        dir.write(
            &format!("in/{file}.jsonl"),
            part.map(record).collect::<String>(),
        );
    }
}

fn tokens_of(dir: &TestDir) -> Vec<Value> {
    let all = records(&dir.shell("dedup-tokenize --spans in").ok());
    all[1..all.len() - 1].to_vec()
}

const KEEPS: [&str; 7] = [
    "first", "last", "longest", "shortest", "none", "rank:max", "rank:min",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Exactly the documents of the rule go, compared with brute force: in any order of preference, with any number of threads and files,
    /// and for any history of an index. A second run changes nothing.
    #[test]
    fn documents_go_that_are_contained_in_one_that_stays(
        texts in corpora(), keep in prop::sample::select(KEEPS.to_vec()), jaccard: bool, threshold in 0.1_f64..1.0, k in 1_usize..5, files in 1_usize..4,
    ) {
        let dir = TestDir::new();
        write_corpus(&dir, &texts, files);
        let words: Vec<Vec<String>> = tokens_of(&dir).iter().map(|row| serde_json::from_value(row["tokens"].clone()).unwrap()).collect();
        let expected = dropped_by_brute_force(&words, keep, (jaccard, threshold), k);
        let score = if jaccard { "jaccard" } else { "containment" };
        let options = format!("-q --by {score} --near {threshold} --keep {keep}");
        dir.shell(&format!("dedup-index build -q -k {k} -o i in")).ok();
        let mut outputs = HashSet::new();
        for (number, source) in [format!("-k {k} --threads 1 in"), format!("-k {k} --threads 8 in"), "i in".to_owned()].iter().enumerate() {
            dir.shell(&format!("dedup-extract clean {options} {source} -o out{number} --dropped gone.jsonl")).ok();
            let rows = records(&dir.read("gone.jsonl"));
            let rows: Vec<Value> = rows.iter().map(|row| json!([row["id"], row["reason"], row["duplicate_of"], row["shared"]])).collect();
            prop_assert_eq!(&rows, &expected, "{}", source);
            outputs.insert(dir.shell(&format!("cd out{number} && cat *.jsonl")).ok_text());
        }
        prop_assert_eq!(outputs.len(), 1);
        let ids: HashSet<String> = expected.iter().map(|row| row[0].as_str().unwrap().to_owned()).collect();
        let kept: String = dir.shell("cat in/*.jsonl").ok_text().lines().filter(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            !ids.contains(row["id"].as_str().unwrap())
        }).map(|line| format!("{line}\n")).collect();
        prop_assert!(outputs.contains(&kept));
        if !kept.is_empty() {
            dir.shell(&format!("dedup-extract clean {options} -k {k} out0 -o twice")).ok();
            prop_assert_eq!(dir.shell("cd twice && cat *.jsonl").ok_text(), kept);
        }
    }

    /// Exactly the tokens are cut out that are in a sequence of N tokens which a preferred document has.
    #[test]
    fn passages_go_that_a_preferred_document_has(texts in corpora(), length in 2_usize..6, k in 1_usize..3, last: bool, threads in 1_usize..5) {
        let dir = TestDir::new();
        write_corpus(&dir, &texts, 2);
        let rows = tokens_of(&dir);
        let keep = if last { "last" } else { "first" };
        let length = length.max(k);
        let found = dir.shell(&format!(
            "dedup-extract clean -q --threads {threads} -k {k} --exact off --near off --cut-spans {length} --keep {keep} in"
        )).ok();
        let found: Vec<Value> = records(&found);
        let mut order: Vec<usize> = (0..texts.len()).collect();
        if last {
            order.reverse();
        }
        let (mut seen, mut cut_texts, mut keepers) = (BTreeMap::<Vec<String>, usize>::new(), BTreeMap::new(), HashSet::new());
        for at in order {
            let tokens: Vec<String> = serde_json::from_value(rows[at]["tokens"].clone()).unwrap();
            let spans: Vec<[usize; 2]> = serde_json::from_value(rows[at]["spans"].clone()).unwrap();
            let mut is_cut = vec![false; tokens.len()];
            for (first, window) in tokens.windows(length).enumerate() {
                if let Some(keeper) = seen.get(window) {
                    keepers.insert(*keeper);
                    is_cut[first..first + length].fill(true);
                }
            }
            for window in tokens.windows(length) {
                seen.entry(window.to_vec()).or_insert(at);
            }
            let mut text = texts[at].clone();
            for token in (0..tokens.len()).rev().filter(|&token| is_cut[token]) {
                let end = spans.get(token + 1).map_or(texts[at].len(), |next| next[0]);
                text.replace_range(spans[token][0]..end, "");
            }
            cut_texts.insert(at, (text, is_cut.iter().all(|cut| *cut) && !is_cut.is_empty()));
        }
        let expected: Vec<Value> = cut_texts.iter()
            .filter(|(at, (_, is_all))| !is_all || keepers.contains(at))
            .map(|(at, (text, _))| json!({ "id": format!("d{at}"), "text": text, "rank": at * 7 % 5 }))
            .collect();
        prop_assert_eq!(found, expected);
    }
}

/// What goes by the rule itself, with sets of windows: id, reason, duplicate_of, shared.
fn dropped_by_brute_force(
    words: &[Vec<String>],
    keep: &str,
    (jaccard, threshold): (bool, f64),
    k: usize,
) -> Vec<Value> {
    let windows = |words: &Vec<String>| {
        words
            .windows(k.min(words.len()).max(1))
            .map(|window| window.join("\n"))
            .collect::<HashSet<_>>()
    };
    let sets: Vec<HashSet<String>> = words.iter().map(windows).collect();
    let mut order: Vec<usize> = (0..words.len()).collect();
    match keep {
        "last" => order.reverse(),
        "longest" => order.sort_by_key(|&at| std::cmp::Reverse(words[at].len())),
        "shortest" => order.sort_by_key(|&at| words[at].len()),
        "rank:max" => order.sort_by_key(|&at| std::cmp::Reverse(at * 7 % 5)),
        "rank:min" => order.sort_by_key(|&at| at * 7 % 5),
        _ => {}
    }
    let row = |at: usize, reason: &str, of: usize, shared: usize| {
        (
            at,
            json!([format!("d{at}"), reason, format!("d{of}"), shared]),
        )
    };
    let best_of = |at: usize, others: &[usize]| {
        let mut best: Option<(usize, usize)> = None;
        for &of in others {
            let shared = sets[at].intersection(&sets[of]).count();
            let whole = if jaccard {
                sets[at].union(&sets[of]).count()
            } else {
                sets[at].len()
            };
            if shared > 0
                && shared as f64 / whole as f64 >= threshold
                && best.is_none_or(|(most, _)| shared > most)
            {
                best = Some((shared, of));
            }
        }
        best
    };
    let (mut stays, mut dropped) = (Vec::<usize>::new(), BTreeMap::new());
    for at in order {
        if words[at].is_empty() {
            continue;
        }
        let others: Vec<usize> = if keep == "none" {
            (0..words.len()).filter(|&of| of != at).collect()
        } else {
            stays.clone()
        };
        if let Some(&of) = others.iter().find(|&&of| words[of] == words[at]) {
            dropped.extend([row(at, "exact", of, sets[at].len())]);
        } else if let Some((shared, of)) = best_of(at, &others) {
            dropped.extend([row(at, "near", of, shared)]);
        } else {
            stays.push(at);
        }
    }
    dropped.into_values().collect()
}
