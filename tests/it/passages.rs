//! dedup-query align and --passages: passages of pairs, their output formats, and the script that
//! judges them.

use crate::test_dir::{RunResult, TestDir, records, root};
use serde_json::{Value, json};
use std::process::Command;

const COPY: &str = "Ice that is pressed by its own weight begins to flow downhill, slowly, and carries the stones of the valley with it.";
const ESSAY: &str = "Žluťoučký kůň: an essay. And now, as it is said, ";
const SOURCE: &str = "On glaciers.\n\n";

/// An essay with a copied sentence, its source, and an unrelated text.
fn fixture() -> TestDir {
    let other = "Bread was baked once a week in the village oven, and every family marked its loaves with a sign.";
    TestDir::with(&[
        ("essay.txt", format!("{ESSAY}{COPY} That much is known.\n")),
        ("source.txt", format!("{SOURCE}{COPY}\n\nNothing more.\n")),
        ("other.txt", other.to_owned()),
        (
            "pairs",
            "essay.txt\tsource.txt\n\nessay.txt\tother.txt\r\nsource.txt\tessay.txt\n".to_owned(),
        ),
    ])
}

fn span(before: usize, length: usize) -> Value {
    json!([before, before + length])
}

/// The expected record of a pair. The passage has 22 words, of 36 and of 26.
fn expected(a: &str, b: &str, spans: [Value; 2], shares: [f64; 2]) -> Value {
    let [of_a, of_b] = spans;
    let passage = json!({"a": of_a, "b": of_b, "tokens": 22, "score": 1, "kind": "verbatim"});
    json!({"a": a, "b": b, "a_in_b": shares[0], "b_in_a": shares[1], "passages": [passage]})
}

fn nothing(a: &str, b: &str) -> Value {
    json!({"a": a, "b": b, "a_in_b": 0, "b_in_a": 0, "passages": []})
}

#[test]
fn each_pair_gives_one_line_in_input_order() {
    let dir = fixture();
    for (options, essay) in [
        (&[][..], ESSAY.len()),
        (&["--chars"], ESSAY.chars().count()),
    ] {
        let (in_essay, in_source) = (span(essay, COPY.len()), span(SOURCE.len(), COPY.len()));
        let (of_essay, of_source) = (0.611_111, 0.846_154);
        let lines = [
            expected(
                "essay.txt",
                "source.txt",
                [in_essay.clone(), in_source.clone()],
                [of_essay, of_source],
            ),
            nothing("essay.txt", "other.txt"),
            expected(
                "source.txt",
                "essay.txt",
                [in_source, in_essay],
                [of_source, of_essay],
            ),
        ];
        let found = dir
            .run(
                "dedup-query",
                &[&["align", "--pairs", "pairs"], options].concat(),
            )
            .ok();
        assert_eq!(records(&found), lines);
        let list = dir.read("pairs");
        for threads in ["1", "8"] {
            let piped = dir
                .run_with(
                    "dedup-query",
                    &[&["align", "--pairs", "-", "--threads", threads], options].concat(),
                    &list,
                )
                .ok();
            assert_eq!(piped, found, "{threads} threads");
        }
        dir.run(
            "dedup-query",
            &[&["align", "--pairs", "pairs", "-o", "out"], options].concat(),
        )
        .ok();
        assert_eq!(dir.read("out"), found);
    }
}

#[test]
fn p_values_are_an_additional_field_of_passages() {
    let dir = indexed_fixture();
    dir.shell("dedup-index add -q my.idx essay.txt").ok();
    for (program, arguments) in [
        ("dedup-query", &["align", "essay.txt", "source.txt"][..]),
        ("dedup-query", &["my.idx", "essay.txt", "--passages"]),
        (
            "dedup-extract",
            &["my.idx", "--passages", "--threshold", "0.1"],
        ),
    ] {
        let without = dir.run(program, arguments).ok();
        let with = dir
            .run(program, &[arguments, &["--p-values"]].concat())
            .ok();
        let mut found = records(&with);
        let mut count = 0;
        for passage in found
            .iter_mut()
            .filter_map(|record| record["passages"].as_array_mut())
            .flatten()
        {
            let p_value = passage.as_object_mut().unwrap().remove("p_value").unwrap();
            let p_value = p_value.as_f64().unwrap();
            assert!(p_value > 0.0 && p_value < 1e-6, "{p_value}");
            count += 1;
        }
        assert!(count > 0, "{arguments:?}");
        assert_eq!(found, records(&without));
    }
    let letters = [
        "align",
        "essay.txt",
        "source.txt",
        "--p-values",
        "--tokenizer",
        "char:5",
    ];
    let ran = dir.run("dedup-query", &letters);
    assert_eq!(
        (ran.code(), ran.stderr()),
        (2, "dedup-query: passages of the tokenizer char:5 have no p-values, only passages of words; leave out --p-values\n".into())
    );
}

#[test]
fn unusable_pairs_are_reported() {
    let dir = fixture();
    dir.write("noise.txt", b"caf\xff\x90\x81\xfe \xa0\x8d\x9d");
    dir.write(
        "bad",
        "essay.txt\nessay.txt\tnone.txt\nnoise.txt\tgone.txt\na\tb\tc\nessay.txt\tsource.txt\n",
    );
    let ran = dir.run("dedup-query", &["align", "--pairs", "bad"]);
    assert_eq!((ran.code(), records(&ran.0.stdout).len()), (2, 1));
    assert_eq!(
        ran.stderr(),
        "dedup-query: bad:1: expected two paths with a tab between them\n\
         dedup-query: none.txt: No such file or directory (os error 2)\n\
         dedup-query: noise.txt: not UTF-8 at byte 3; convert it with iconv, or name its --encoding, or read it with --lossy\n\
         dedup-query: gone.txt: No such file or directory (os error 2)\n\
         dedup-query: bad:4: expected two paths with a tab between them\n"
    );
    let ran = dir.run(
        "dedup-query",
        &["align", "--pairs", "bad", "--skip-bad", "-q"],
    );
    assert_eq!((ran.code(), ran.stderr().as_str()), (0, ""));
    let lossy = dir.run_with(
        "dedup-query",
        &["align", "--pairs", "-", "--lossy"],
        b"noise.txt\tnoise.txt\n",
    );
    assert_eq!(
        (
            lossy.code(),
            lossy.stderr().as_str(),
            records(&lossy.0.stdout)
        ),
        (1, "", vec![nothing("noise.txt", "noise.txt")])
    );
    let missing = dir.run("dedup-query", &["align", "--pairs", "none"]);
    assert_eq!(
        (missing.code(), missing.stderr().as_str()),
        (
            2,
            "dedup-query: none: No such file or directory (os error 2)\n"
        )
    );
}

#[test]
fn the_exit_status_is_1_if_nothing_is_found() {
    let dir = fixture();
    for list in ["", "\n\n", "essay.txt\tother.txt\n"] {
        let ran = dir.run_with("dedup-query", &["align", "--pairs", "-"], list.as_bytes());
        assert_eq!((ran.code(), ran.stderr().as_str()), (1, ""), "{list:?}");
    }
}

#[test]
fn align_reads_compressed_documents_and_accepts_another_window() {
    let dir = fixture();
    dir.shell("gzip -k essay.txt").ok();
    let few = "one two three four five six";
    dir.write("few-a", format!("alpha {few} beta"));
    dir.write("few-b", format!("gamma {few} delta"));
    let found = records(
        &dir.run_with(
            "dedup-query",
            &["align", "--pairs", "-"],
            b"essay.txt.gz\tsource.txt\n",
        )
        .ok(),
    );
    assert_eq!(found[0]["passages"][0]["a"], span(ESSAY.len(), COPY.len()));
    let found = records(
        &dir.run_with(
            "dedup-query",
            &["align", "--pairs", "-", "-k", "3"],
            b"few-a\tfew-b\n",
        )
        .ok(),
    );
    assert_eq!(
        found[0]["passages"][0],
        json!({"a": [6, 33], "b": [6, 33], "tokens": 6, "score": 1, "kind": "verbatim"})
    );
}

#[test]
fn pan_xml_writes_one_file_per_pair() {
    let dir = fixture();
    dir.run(
        "dedup-query",
        &[
            "align", "--pairs", "pairs", "--format", "pan-xml", "-o", "xml/new",
        ],
    )
    .ok();
    let text = |name: &str| String::from_utf8(dir.read(name)).unwrap();
    let (head, start, length) = (
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n",
        ESSAY.chars().count(),
        COPY.len(),
    );
    assert_eq!(
        text("xml/new/essay-source.xml"),
        format!(
            "{head}<document reference=\"essay.txt\" id=\"essay.txt\">\n<feature name=\"detected-plagiarism\" this_offset=\"{start}\" this_length=\"{length}\" \
             source_reference=\"source.txt\" source_id=\"source.txt\" source_offset=\"{}\" source_length=\"{length}\" />\n</document>\n",
            SOURCE.len()
        )
    );
    assert_eq!(
        text("xml/new/essay-other.xml"),
        format!("{head}<document reference=\"essay.txt\" id=\"essay.txt\">\n</document>\n")
    );
    assert_eq!(std::fs::read_dir(dir.path("xml/new")).unwrap().count(), 3);
    dir.write("twice", "essay.txt\tsource.txt\n./essay.txt\tsource.txt\n");
    dir.run(
        "dedup-query",
        &[
            "align", "--pairs", "twice", "--format", "pan-xml", "-o", "x",
        ],
    )
    .ok();
    assert_eq!(
        text("x/essay-source.xml").replace("id=\"essay", "id=\"./essay"),
        text("x/essay-source~2.xml")
    );
}

#[test]
fn contradictory_options_are_refused() {
    let dir = fixture();
    for (arguments, message) in [
        (
            &["align", "--pairs", "pairs", "--format", "pan-xml"][..],
            "error: the following required arguments were not provided:\n  --output <PATH>",
        ),
        (
            &["align", "--pairs", "pairs", "--format", "xml"],
            "error: invalid value 'xml' for '--format <FORMAT>'",
        ),
        (
            &["my.idx", "--format", "pan-xml"],
            "error: invalid value 'pan-xml' for '--format <FORMAT>'",
        ),
    ] {
        let ran = dir.run("dedup-query", arguments);
        assert!(
            ran.code() == 2 && ran.stderr().starts_with(message),
            "{}",
            ran.stderr()
        );
    }
    for arguments in [
        &["align", "my.idx", "--pairs", "pairs"][..],
        &["my.idx", "--chars"],
        &["align", "--pairs", "pairs", "--scheme", "xor"],
    ] {
        assert_eq!(dir.run("dedup-query", arguments).code(), 2, "{arguments:?}");
    }
}

/// An index of the source and the unrelated text, without the essay.
fn indexed_fixture() -> TestDir {
    let dir = fixture();
    dir.shell("dedup-index build -q -o my.idx source.txt other.txt && mkdir moved && cp source.txt moved/").ok();
    dir
}

#[test]
fn a_query_shows_copied_passages() {
    let dir = indexed_fixture();
    let passage = |in_essay: usize| json!([{"a": span(in_essay, COPY.len()), "b": span(SOURCE.len(), COPY.len()), "tokens": 22, "score": 1, "kind": "verbatim"}]);
    for (options, essay) in [
        (&[][..], ESSAY.len()),
        (&["--chars"], ESSAY.chars().count()),
        (&["--corpus", "moved"], ESSAY.len()),
    ] {
        let found = records(
            &dir.run(
                "dedup-query",
                &[&["my.idx", "essay.txt", "--passages"], options].concat(),
            )
            .ok(),
        );
        assert_eq!(found.len(), 1);
        assert_eq!(
            (&found[0]["doc"], &found[0]["passages"]),
            (&json!("source.txt"), &passage(essay)),
            "{options:?}"
        );
    }
    let piped = records(
        &dir.run_with(
            "dedup-query",
            &["my.idx", "--passages"],
            &dir.read("essay.txt"),
        )
        .ok(),
    );
    assert_eq!(
        (&piped[0]["query"], &piped[0]["passages"]),
        (&json!("-"), &passage(ESSAY.len()))
    );
}

#[test]
fn pairs_of_an_index_show_their_passages() {
    let dir = indexed_fixture();
    dir.shell("dedup-index add -q my.idx essay.txt").ok();
    let found = records(
        &dir.run(
            "dedup-extract",
            &["my.idx", "--passages", "--threshold", "0.1"],
        )
        .ok(),
    );
    let shown = [
        &found[0]["a"],
        &found[0]["b"],
        &found[0]["passages"][0]["a"],
        &found[0]["passages"][0]["b"],
    ];
    assert_eq!(
        shown,
        [
            &json!("essay.txt"),
            &json!("source.txt"),
            &span(ESSAY.len(), COPY.len()),
            &span(SOURCE.len(), COPY.len())
        ]
    );
    let without = records(
        &dir.run(
            "dedup-extract",
            &[
                "my.idx",
                "--passages",
                "--threshold",
                "0.1",
                "--exclude-text",
                "other.txt",
            ],
        )
        .ok(),
    );
    assert_eq!(
        (&without[0]["exclude"], &without[1]),
        (&json!(["other.txt"]), &found[0])
    );
}

#[test]
fn missing_documents_have_no_passages() {
    let dir = indexed_fixture();
    dir.shell("dedup-index add -q my.idx essay.txt && rm source.txt")
        .ok();
    for (tool, arguments) in [
        ("dedup-query", &["my.idx", "essay.txt", "--passages"][..]),
        (
            "dedup-extract",
            &["my.idx", "--passages", "--threshold", "0.1"],
        ),
    ] {
        let ran = dir.run(tool, arguments);
        let complaint = format!(
            "{tool}: source.txt: No such file or directory (os error 2); say where the documents are with --corpus PATH\n"
        );
        assert_eq!((ran.code(), ran.stderr()), (2, complaint));
        let found = records(ran.stdout().as_bytes());
        let of_source = found
            .iter()
            .find(|record| [&record["doc"], &record["b"]].contains(&&json!("source.txt")))
            .unwrap();
        assert!(
            of_source["passages"].is_null() && of_source["shared"].as_u64() > Some(0),
            "{of_source}"
        );
    }
}

#[test]
fn a_terminal_gets_excerpts() {
    let dir = indexed_fixture();
    let shown = |environment: &str| {
        // Offsets in characters apply to records; the excerpts are the same.
        let command = format!(
            "{environment} script -qec 'dedup-query -q my.idx essay.txt --passages --chars' /dev/null"
        );
        String::from_utf8(dir.shell(&command).ok())
            .unwrap()
            .replace('\r', "")
    };
    let plain = shown("NO_COLOR=1");
    let lines: Vec<&str> = plain.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "essay.txt and source.txt: 61 % of the first, 85 % of the second",
            "  verbatim, 22 words: essay.txt:1 from source.txt:3"
        ]
    );
    assert!(
        lines.len() == 3 && lines[2].starts_with("       1  …") && lines[2].contains(COPY),
        "{plain}"
    );
    let colored = shown("NO_COLOR=");
    assert!(colored.contains(&format!("\x1b[1;31m{COPY}")), "{colored}");
    let rows = dir
        .shell("dedup-query -q my.idx essay.txt --passages --format tsv")
        .ok_text();
    assert!(
        rows.starts_with("a\tb\ta_start\t") && rows.contains(COPY),
        "{rows}"
    );
}

fn plagdet(dir: &TestDir, arguments: &[&str]) -> RunResult {
    RunResult(
        Command::new(root().join("scripts/evaluate/plagdet"))
            .args(arguments)
            .env("XDG_CACHE_HOME", dir.cache())
            .current_dir(dir.temp.path())
            .output()
            .unwrap(),
    )
}

/// A file of true or detected passages: offset and length here, offset and length in the source.
fn xml(name: &str, passages: &[[u32; 4]]) -> String {
    let feature = |[this, this_length, source, source_length]: &[u32; 4]| {
        format!(
            "<feature name=\"{name}\" this_offset=\"{this}\" this_length=\"{this_length}\" source_reference=\"src.txt\" \
             source_offset=\"{source}\" source_length=\"{source_length}\" />"
        )
    };
    let features: Vec<_> = passages.iter().map(feature).collect();
    format!(
        "<document reference=\"susp.txt\"><feature name=\"about\" />{}</document>",
        features.concat()
    )
}

/// The cells of a row, without the first.
fn row(table: &str, class: &str) -> Vec<String> {
    let line = table
        .lines()
        .find(|line| line.split_whitespace().nth(1) == Some(class))
        .unwrap();
    line.split('|')
        .skip(2)
        .map(|cell| cell.trim().to_owned())
        .filter(|cell| !cell.is_empty())
        .collect()
}

#[test]
fn plagdet_matches_cases_computed_by_hand() {
    let dir = TestDir::new();
    let truth = |name: &str, passages: &[[u32; 4]]| {
        dir.write(&format!("truth/{name}.xml"), xml("plagiarism", passages))
    };
    let named = |text: String, other: &str| text.replace("susp.txt", &format!("{other}.txt"));
    // half: 50 of 100 and 100 of 100 of the case are detected, and as much of the detection is
    // right: ¾ each.
    truth("half/susp-src", &[[0, 100, 0, 100]]);
    dir.write(
        "found/susp-src.xml",
        xml("detected-plagiarism", &[[50, 100, 0, 100]]),
    );
    // twice: in two pieces, and another detection where there is no case: recall 1, precision ⅔,
    // granularity 2: 0.8 ÷ log2 3.
    dir.write(
        "truth/twice/two-src.xml",
        named(xml("plagiarism", &[[0, 100, 0, 100]]), "two"),
    );
    dir.write(
        "found/two-src.xml",
        named(
            xml("detected-plagiarism", &[[0, 50, 0, 50], [50, 50, 50, 50]]),
            "two",
        ),
    );
    dir.write(
        "truth/twice/clean-src.xml",
        named(xml("plagiarism", &[]), "clean"),
    );
    dir.write(
        "found/clean-src.xml",
        named(xml("detected-plagiarism", &[[5, 9, 5, 9]]), "clean"),
    );
    // wrong: only one side overlaps.
    dir.write(
        "truth/wrong/three-src.xml",
        named(xml("plagiarism", &[[0, 100, 0, 100]]), "three"),
    );
    dir.write(
        "found/three-src.xml",
        named(xml("detected-plagiarism", &[[0, 100, 100, 100]]), "three"),
    );
    // none: nothing to find, nothing found.
    dir.write(
        "truth/none/four-src.xml",
        named(xml("plagiarism", &[]), "four"),
    );
    let table = plagdet(&dir, &["truth", "found"]).ok_text();
    for (class, expected) in [
        ("half", "1 1 0.7500 0.7500 0.7500 1.0000 0 in 0"),
        ("twice", "1 3 0.5047 1.0000 0.6667 2.0000 1 in 1"),
        ("wrong", "1 1 0.0000 0.0000 0.0000 1.0000 0 in 0"),
        ("none", "0 0 1.0000 1.0000 1.0000 1.0000 0 in 1"),
        // Recall (¾ + 1 + 0) ÷ 3, precision (¾ + 1 + 1 + 0 + 0) ÷ 5, granularity 3 ÷ 2: F1 0.5662 ÷
        // log2 2.5.
        ("all", "3 5 0.4283 0.5833 0.5500 1.5000 1 in 2"),
    ] {
        assert_eq!(row(&table, class).join(" "), expected, "{class}");
    }
}

#[test]
fn plagdet_reads_ndjson_and_reports_bad_input() {
    let dir = TestDir::new();
    dir.write("truth/susp-src.xml", xml("plagiarism", &[[10, 20, 0, 20]]));
    let line =
        json!({"a": "x/susp.txt", "b": "y/src.txt", "passages": [{"a": [10, 30], "b": [0, 20]}]});
    dir.write("found.jsonl", format!("{line}\n"));
    let table = plagdet(&dir, &["truth", "found.jsonl"]).ok_text();
    assert_eq!(
        row(&table, "truth").join(" "),
        "1 1 1.0000 1.0000 1.0000 1.0000 0 in 0"
    );
    dir.write(
        "other.jsonl",
        format!("{}\n", line.to_string().replace("susp", "else")),
    );
    dir.write("bad.jsonl", "{}\n");
    for (found, message) in [
        (
            "other.jsonl",
            "plagdet: other.jsonl: else.txt and src.txt are no pair of truth\n",
        ),
        (
            "bad.jsonl",
            "plagdet: bad.jsonl:1: not a record with a, b and passages\n",
        ),
        ("none", "plagdet: none: no such file or directory\n"),
    ] {
        let ran = plagdet(&dir, &["truth", found]);
        assert_eq!((ran.code(), ran.stderr().as_str()), (1, message));
    }
}

#[test]
fn pairs_of_an_index_are_written_as_xml() {
    let text = |own: &str| {
        format!(
            "{own} Ünder the old bridge the river runs slowly and the boats that pass it ring their bells twice before they turn. {own}"
        )
    };
    let dir = TestDir::with(&[
        ("c/one.txt", text("Nothing grows here.")),
        ("c/two.txt", text("Something else entirely.")),
        ("d/two.txt", text("Never.")),
    ]);
    dir.run("dedup-index", &["build", "-q", "-o", "i", "c"])
        .ok();
    let xml = [
        "i",
        "--passages",
        "--format",
        "pan-xml",
        "-o",
        "out",
        "--threshold",
        "0.1",
    ];
    dir.run("dedup-extract", &xml).ok();
    let found = String::from_utf8(dir.read("out/one-two.xml")).unwrap();
    let lines = crate::test_dir::records(
        &dir.run(
            "dedup-extract",
            &["i", "--passages", "--chars", "--threshold", "0.1"],
        )
        .ok(),
    );
    let passage = &lines[0]["passages"][0];
    let (start, end) = (
        passage["a"][0].as_u64().unwrap(),
        passage["a"][1].as_u64().unwrap(),
    );
    assert!(
        found.contains(&format!(
            "this_offset=\"{start}\" this_length=\"{}\" source_reference=\"two.txt\"",
            end - start
        )),
        "{found}"
    );
    assert!(
        found.starts_with("<?xml")
            && found.contains("<document reference=\"one.txt\" id=\"c/one.txt\">"),
        "{found}"
    );
    // Without a directory the command is refused.
    assert!(
        dir.run("dedup-extract", &["i", "--passages", "--format", "pan-xml"])
            .stderr()
            .contains("--output <FILE>")
    );
    dir.run("dedup-index", &["add", "-q", "i", "d"]).ok();
    dir.run("dedup-extract", &xml).ok();
    let other = String::from_utf8(dir.read("out/one-two~2.xml")).unwrap();
    assert!(
        other.contains("id=\"c/one.txt\"") && other.contains("source_id=\"d/two.txt\""),
        "{other}"
    );
}
