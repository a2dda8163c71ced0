//! dedup-spex: finds exactly the shared chunks, however small the counters are.

use crate::test_dir::{TestDir, records};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs};

/// Each text as a list of words.
type Texts = Vec<Vec<String>>;

fn texts() -> impl Strategy<Value = Texts> {
    let passage = prop::sample::select(vec![
        "a b c d e f",
        "c d e f g",
        "a a a a a a a",
        "x y",
        "b b a b b a b b a",
    ]);
    let part = prop_oneof![passage.prop_map(str::to_owned), "([a-h] ){0,6}"];
    let text = prop::collection::vec(part, 0..5).prop_map(|parts| {
        parts
            .join(" ")
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    });
    prop::collection::vec(text, 1..9).prop_flat_map(|texts: Texts| {
        let copies = prop::collection::vec(any::<prop::sample::Index>(), 0..3);
        copies.prop_map(move |copies| {
            let copied = copies
                .iter()
                .filter(|_| !texts.is_empty())
                .map(|copy| copy.get(&texts).clone());
            texts
                .iter()
                .cloned()
                .chain(copied.collect::<Vec<_>>())
                .collect()
        })
    })
}

/// The shared chunks by brute force, with the number of occurrences in each document.
fn truth(texts: &Texts, length: usize, within: bool) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut all: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (number, words) in texts
        .iter()
        .enumerate()
        .filter(|(_, words)| !words.is_empty())
    {
        for chunk in words.windows(length.min(words.len())) {
            *all.entry(chunk.join(" "))
                .or_default()
                .entry(format!("d{number}"))
                .or_default() += 1;
        }
    }
    // A short text is a single chunk, which no longer text contains.
    let is_whole = |chunk: &str, documents: &BTreeMap<String, u64>| {
        chunk.split(' ').count() < length && documents.len() == 1
    };
    all.retain(|chunk, documents| {
        let places: u64 = documents.values().sum();
        documents.len() > 1 || (within && places > 1 && !is_whole(chunk, documents))
    });
    all
}

fn corpus(texts: &Texts) -> TestDir {
    let dir = TestDir::new();
    let line = |(number, words): (usize, &Vec<String>)| {
        format!(
            "{}\n",
            json!({"id": format!("d{number}"), "text": words.join(" ")})
        )
    };
    dir.write(
        "c.jsonl",
        texts.iter().enumerate().map(line).collect::<String>(),
    );
    dir
}

fn found(lines: &[Value]) -> BTreeMap<String, BTreeMap<String, u64>> {
    let count = |document: &Value| {
        (
            document["doc"].as_str().unwrap().to_owned(),
            document["count"].as_u64().unwrap(),
        )
    };
    let chunk = |line: &Value| {
        (
            line["text"].as_str().unwrap().to_owned(),
            line["documents"]
                .as_array()
                .unwrap()
                .iter()
                .map(count)
                .collect(),
        )
    };
    lines.iter().map(chunk).collect()
}

/// The documents of each blot, from a dump of the index.
fn dumped(dir: &TestDir, index: &str) -> BTreeMap<String, Vec<String>> {
    let mut blots: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in records(&dir.run("dedup-index", &["dump", index]).ok())
        .iter()
        .filter(|line| line.get("doc").is_some())
    {
        for blot in line["blots"].as_array().unwrap() {
            blots
                .entry(blot.as_str().unwrap().to_owned())
                .or_default()
                .push(line["doc"].as_str().unwrap().to_owned());
        }
    }
    blots
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn finds_exactly_the_shared_chunks(
        texts in texts(), length in 1_usize..7, memory in prop::sample::select(vec!["1", "16", "64", "1K", "1M"]), threads in 1_usize..4, within: bool, steps: u8,
    ) {
        let dir = corpus(&texts);
        let (length_text, threads) = (length.to_string(), threads.to_string());
        let schedule: Vec<String> = (1..=length).filter(|step| *step == length || steps >> step & 1 == 1).map(|step| step.to_string()).collect();
        let schedule = schedule.join(",");
        let mut arguments = vec!["-l", &length_text, "--memory", memory, "--threads", &threads, "--schedule", &schedule, "c.jsonl"];
        if within {
            arguments.push("--within");
        }
        let lines = records(&dir.run("dedup-spex", &arguments).ok());
        prop_assert_eq!(found(&lines), truth(&texts, length, within));
        prop_assert!(lines.is_sorted_by_key(|line| line["blot"].as_str().unwrap().to_owned()));
    }

    /// The index of shared chunks is the index of all chunks without those of a single document.
    #[test]
    fn the_index_has_all_chunks_but_those_of_single_documents(texts in texts(), length in 1_u32..6, memory in prop::sample::select(vec!["1", "64", "1M"])) {
        let (dir, length) = (corpus(&texts), length.to_string());
        dir.run("dedup-spex", &["-q", "-l", &length, "--memory", memory, "-o", "shared", "c.jsonl"]).ok();
        dir.run("dedup-index", &["verify", "shared"]).ok();
        dir.run("dedup-index", &["build", "-q", "-k", &length, "--bits", "64", "-o", "all", "c.jsonl"]).ok();
        let mut all = dumped(&dir, "all");
        all.retain(|_, documents| documents.len() > 1);
        prop_assert_eq!(dumped(&dir, "shared"), all);
        // Both count the same blots and tokens.
        for score in ["s1", "s2", "s3", "s4", "rarity"] {
            let pairs = |index: &str| dir.run("dedup-extract", &[index, "--score", score, "--threshold", "0.2"]).ok_text();
            let shown = |text: String| records(text.as_bytes()).iter().map(|pair| (pair["a"].to_string(), pair["b"].to_string(), pair["shared"].to_string(), pair["score"].to_string())).collect::<Vec<_>>();
            prop_assert_eq!(shown(pairs("shared")), shown(pairs("all")), "{}", score);
        }
    }

    /// With --within the index also has chunks that repeat within one document, as lines do.
    #[test]
    fn an_index_of_chunks_within_documents(texts in texts(), length in 1_u32..5, memory in prop::sample::select(vec!["1", "64", "1M"])) {
        let (dir, length) = (corpus(&texts), length.to_string());
        dir.run("dedup-spex", &["-q", "-l", &length, "--memory", memory, "--within", "--with-text", "-o", "i", "c.jsonl"]).ok();
        dir.run("dedup-index", &["verify", "i"]).ok();
        let lines = records(&dir.run("dedup-spex", &["-l", &length, "--within", "c.jsonl"]).ok());
        let ids = |line: &Value| line["documents"].as_array().unwrap().iter().map(|document| document["doc"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        let mut expected: BTreeMap<String, Vec<String>> = lines.iter().map(|line| (line["blot"].as_str().unwrap().to_owned(), ids(line))).collect();
        let mut found = dumped(&dir, "i");
        for ids in expected.values_mut().chain(found.values_mut()) {
            ids.sort();
        }
        prop_assert_eq!(found, expected);
    }

    /// Adding documents gives the same bytes as all documents at once, and reads no old document again.
    #[test]
    fn adding_documents_gives_the_same_bytes_as_all_at_once(first in texts(), second in texts(), third in texts(), memory in prop::sample::select(vec!["1", "64", "1M"])) {
        let dir = TestDir::new();
        let mut lines = Vec::new();
        for (number, words) in first.iter().chain(&second).chain(&third).enumerate() {
            lines.push(format!("{}\n", json!({"id": format!("d{number}"), "text": words.join(" ")})));
        }
        dir.write("all.jsonl", lines.concat());
        let [one, two] = [first.len(), first.len() + second.len()];
        for (name, part) in [("1.jsonl", &lines[..one]), ("2.jsonl", &lines[one..two]), ("3.jsonl", &lines[two..])] {
            dir.write(name, part.concat());
        }
        let spex = |arguments: &[&str]| dir.run("dedup-spex", &[&["-q", "-l", "3", "--memory", memory], arguments].concat()).ok();
        spex(&["-o", "whole", "all.jsonl"]);
        spex(&["-o", "grown", "1.jsonl"]);
        std::fs::remove_file(dir.path("1.jsonl")).unwrap();
        spex(&["--add", "grown", "2.jsonl"]);
        // Documents that are in the index already are skipped.
        spex(&["--add", "grown", "--threads", "3", "2.jsonl", "3.jsonl"]);
        dir.run("dedup-index", &["verify", "grown"]).ok();
        let manifest: Value = serde_json::from_slice(&dir.read("grown/manifest.json")).unwrap();
        let name = manifest["segments"][0]["name"].as_str().unwrap();
        for file in ["sets", "000.part"] {
            prop_assert!(dir.read(&format!("grown/{name}.{file}")) == dir.read(&format!("whole/000001.{file}")), "{}", file);
        }
        let dump = |index: &str| dir.run("dedup-index", &["dump", index]).ok_text();
        prop_assert_eq!(dump("grown"), dump("whole"));
    }

    /// A filter keeps all shared blots.
    #[test]
    fn a_filter_keeps_all_shared_blots(texts in texts(), memory in prop::sample::select(vec!["1", "64", "1K"])) {
        let dir = corpus(&texts);
        dir.run("dedup-spex", &["-q", "-l", "3", "--memory", memory, "--filter-out", "f", "c.jsonl"]).ok();
        dir.run("dedup-index", &["build", "-q", "-k", "3", "--select", "spex:f", "-o", "some", "c.jsonl"]).ok();
        dir.run("dedup-index", &["build", "-q", "-k", "3", "-o", "all", "c.jsonl"]).ok();
        let (some, mut all) = (dumped(&dir, "some"), dumped(&dir, "all"));
        prop_assert!(some.iter().all(|(blot, documents)| all[blot] == *documents));
        all.retain(|_, documents| documents.len() > 1);
        prop_assert!(all.keys().all(|blot| some.contains_key(blot)));
    }
}

const LICENCE: &str = "permission is hereby granted free of charge to any person obtaining a copy";

fn library() -> TestDir {
    TestDir::with(&[
        ("c/one.txt", format!("Nothing grows here. {LICENCE}")),
        (
            "c/two.txt",
            format!("The ferry leaves at nine, the ferry leaves at nine. {LICENCE}"),
        ),
        (
            "c/three.txt",
            "Something else altogether, and longer than a chunk of eight words".to_owned(),
        ),
    ])
}

#[test]
fn lines_name_the_shared_chunks_and_their_documents() {
    let dir = library();
    let lines = records(&dir.run("dedup-spex", &["-l", "12", "c"]).ok());
    let shown: Vec<_> = lines
        .iter()
        .map(|line| (line["text"].as_str().unwrap(), line["documents"].clone()))
        .collect();
    let documents = json!([{"doc": "c/one.txt", "count": 1}, {"doc": "c/two.txt", "count": 1}]);
    let mut expected = vec![
        (
            "permission is hereby granted free of charge to any person obtaining a",
            documents.clone(),
        ),
        (
            "is hereby granted free of charge to any person obtaining a copy",
            documents,
        ),
    ];
    expected.sort_by_key(|(text, _)| lines.iter().position(|line| line["text"] == *text));
    assert_eq!(shown, expected);
    // The same blots as all other programs make.
    let blots = records(
        &dir.run("dedup-blot", &["-k", "12", "--bits", "64", "c/one.txt"])
            .ok(),
    );
    assert!(lines.iter().all(|line| {
        blots[1]["blots"]
            .as_array()
            .unwrap()
            .contains(&line["blot"])
    }));
    let twice = records(
        &dir.run("dedup-spex", &["-l", "5", "--within", "c/two.txt"])
            .ok(),
    );
    assert_eq!(twice[0]["text"], "the ferry leaves at nine");
    assert_eq!(
        twice[0]["documents"],
        json!([{"doc": "c/two.txt", "count": 2}])
    );
}

#[test]
fn queries_work_on_the_index() {
    let dir = library();
    dir.run("dedup-spex", &["-q", "-o", "i", "c"]).ok();
    let pairs = records(&dir.run("dedup-extract", &["i", "--threshold", "0.1"]).ok());
    assert_eq!(
        (pairs.len(), pairs[0]["a"].as_str(), pairs[0]["b"].as_str()),
        (1, Some("c/one.txt"), Some("c/two.txt"))
    );
    assert!(pairs[0].get("estimate").is_none(), "{}", pairs[0]);
    let matches = records(
        &dir.run_with(
            "dedup-query",
            &["-q", "i"],
            LICENCE.to_uppercase().as_bytes(),
        )
        .ok(),
    );
    assert_eq!(matches.len(), 2);
    assert_eq!(
        dir.run_with(
            "dedup-query",
            &["i"],
            b"Something else altogether, and longer than a chunk"
        )
        .code(),
        1
    );
    let stats: Value =
        serde_json::from_slice(&dir.run("dedup-index", &["stats", "--json", "i"]).ok()).unwrap();
    assert_eq!(stats["scheme"], "words@18.0/49 ordered:8:64 spex");
    dir.run(
        "dedup-spex",
        &["-q", "--select", "spex,mod:2", "-o", "fewer", "c"],
    )
    .ok();
    let [some, all] = ["fewer", "i"].map(|index| dumped(&dir, index));
    assert_eq!(
        some,
        all.into_iter()
            .filter(|(blot, _)| u64::from_str_radix(blot, 16).unwrap() % 2 == 0)
            .collect()
    );
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let dir = library();
    for n in 0..40 {
        dir.write(
            &format!("c/{n}.txt"),
            (0..400)
                .map(|word| format!("w{} ", (word * (n % 7 + 1)) % 97))
                .collect::<String>(),
        );
    }
    let lines = |threads: &str, memory: &str| {
        dir.run(
            "dedup-spex",
            &["--threads", threads, "--memory", memory, "c"],
        )
        .ok_text()
    };
    let expected = lines("1", "64M");
    assert!(expected.lines().count() > 100);
    assert!(
        [("2", "1K"), ("8", "1"), ("3", "1M")]
            .iter()
            .all(|(threads, memory)| lines(threads, memory) == expected)
    );
    let index = |name: &str, threads: &str, memory: &str| {
        dir.run(
            "dedup-spex",
            &[
                "-q",
                "--threads",
                threads,
                "--memory",
                memory,
                "-o",
                name,
                "c",
            ],
        )
        .ok();
        [
            "manifest.json",
            "000001.docs",
            "000001.sets",
            "000001.000.part",
        ]
        .map(|file| dir.read(&format!("{name}/{file}")))
    };
    assert_eq!(index("a", "1", "64M"), index("b", "8", "1"));
    // Token streams give the same result as text.
    let from_tokens = dir
        .shell("dedup-tokenize --binary c | dedup-spex")
        .ok_text();
    assert_eq!(from_tokens, expected);
}

#[test]
fn chunks_can_be_read_without_the_corpus() {
    let dir = library();
    dir.write(
        "c/copy.txt",
        format!("{LICENCE}. Something else altogether, and longer than a chunk of eight words"),
    );
    let lines = records(&dir.run("dedup-spex", &["c"]).ok());
    dir.run("dedup-spex", &["-q", "--with-text", "-o", "i", "c"])
        .ok();
    dir.run("dedup-index", &["verify", "i"]).ok();
    fs::remove_dir_all(dir.path("c")).unwrap();
    let between =
        |a: &str, b: &str| records(&dir.run("dedup-query", &["between", "i", a, b]).0.stdout);
    let shares = |line: &&Value, id: &str| {
        line["documents"]
            .as_array()
            .unwrap()
            .iter()
            .any(|document| document["doc"] == id)
    };
    for (a, b) in [
        ("c/one.txt", "c/two.txt"),
        ("c/copy.txt", "c/three.txt"),
        ("c/one.txt", "c/three.txt"),
        ("c/one.txt", "c/one.txt"),
    ] {
        let expected = lines
            .iter()
            .filter(|line| shares(line, a) && shares(line, b));
        let expected: Vec<_> = expected
            .map(|line| json!({"blot": line["blot"], "text": line["text"]}))
            .collect();
        assert_eq!(between(a, b), expected, "{a} {b}");
        assert_eq!(
            dir.run("dedup-query", &["between", "i", a, b]).code(),
            i32::from(expected.is_empty()),
            "{a} {b}"
        );
    }
    let blot = lines[0]["blot"].as_str().unwrap();
    let shown = records(&dir.run("dedup-query", &["blot", "i", blot]).ok());
    assert!(shown.iter().all(|line| line["text"] == lines[0]["text"]) && !shown.is_empty());
    assert_eq!(dir.run("dedup-spex", &["--add", "i", "."]).code(), 2);
    let whole = dir.read("i/000001.text");
    for at in (0..whole.len()).step_by(11) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        dir.write("i/000001.text", flipped);
        assert_eq!(dir.run("dedup-index", &["verify", "i"]).code(), 2, "{at}");
        assert_eq!(
            dir.run("dedup-query", &["between", "i", "c/one.txt", "c/two.txt"])
                .code(),
            2,
            "{at}"
        );
    }
}

#[test]
fn damage_to_stored_tokens_is_detected() {
    let dir = library();
    dir.run("dedup-spex", &["-q", "-o", "i", "c"]).ok();
    let whole = dir.read("i/000001.spex");
    for at in (0..whole.len()).step_by(7) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        dir.write("i/000001.spex", flipped);
        let ran = dir.run("dedup-spex", &["--add", "i", "c"]);
        assert!(
            ran.code() == 2 && ran.stderr().contains("i/000001.spex"),
            "{at}: {}",
            ran.stderr()
        );
        assert_eq!(dir.run("dedup-index", &["verify", "i"]).code(), 2, "{at}");
    }
    dir.write("i/000001.spex", &whole[..whole.len() / 2]);
    assert_eq!(dir.run("dedup-spex", &["--add", "i", "c"]).code(), 2);
    dir.write("i/000001.spex", whole);
    dir.run("dedup-index", &["verify", "i"]).ok();
    dir.run("dedup-spex", &["-q", "--add", "i", "c"]).ok();
}

#[test]
fn passes_are_reported_and_plotted() {
    let dir = library();
    let ran = dir.run(
        "dedup-spex",
        &[
            "-q",
            "-v",
            "--schedule",
            "1,2,8",
            "--plot",
            "p.svg",
            "-o",
            "i",
            "c",
        ],
    );
    assert_eq!(ran.code(), 0);
    let stderr = ran.stderr();
    let rows: Vec<Vec<&str>> = stderr
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0][..2], ["length", "tokens"]);
    assert_eq!(
        rows[1..4].iter().map(|row| row[0]).collect::<Vec<_>>(),
        ["1", "2", "8"]
    );
    assert_eq!((rows[1][1], rows[1][2]), ("50", "50"), "{stderr}");
    assert!(stderr.contains("12 of 29 chunks are left"), "{stderr}");
    let checked = dir.shell("python3 -c 'import xml.dom.minidom as x; print(len(x.parse(\"p.svg\").getElementsByTagName(\"circle\")))'");
    assert_eq!(checked.ok_text(), "6\n");
}

#[test]
fn invalid_options_are_refused() {
    let dir = library();
    let ran = dir.run(
        "dedup-spex",
        &["-q", "-v", "--memory", "1K", "--filter-out", "f", "c"],
    );
    assert!(
        ran.code() == 0 && ran.stderr().contains("length") && !ran.stderr().contains("are left"),
        "{}",
        ran.stderr()
    );
    dir.run("dedup-spex", &["-q", "-o", "i", "c"]).ok();
    dir.run("dedup-spex", &["-q", "-o", "final", "--final", "c"])
        .ok();
    let state = dir.read("i/manifest.json");
    for (line, expected) in [
        (
            "dedup-spex --schedule 2,4 c",
            "the schedule ends with 4, but chunks are of 8 tokens",
        ),
        (
            "dedup-spex --schedule 4,2,8 c",
            "the lengths of a schedule must rise",
        ),
        (
            "dedup-spex --schedule 0,8 c",
            "the lengths of a schedule must rise",
        ),
        (
            "dedup-spex --select winnow:4 c",
            "--select winnow:4: here there are spex and mod:N",
        ),
        ("dedup-spex --within --add i c", "cannot be used with"),
        ("dedup-spex --with-text --add i c", "cannot be used with"),
        ("dedup-spex --with-text c", "required"),
        (
            "dedup-query between i c/one.txt c/four.txt",
            "i: no document 'c/four.txt'",
        ),
        ("dedup-spex -o i c", "holds an index already"),
        ("dedup-spex --tokenizer dna c", "both strands"),
        ("dedup-blot c | dedup-spex", "dedup-spex"),
        ("dedup-blot --select spex c", "--select spex needs a file"),
        (
            "dedup-blot -k 5 --select spex:f c",
            "a filter for 'words@18.0/49 ordered:8', where 'words@18.0/49 ordered:5' is made",
        ),
        ("dedup-blot --bits 11 --select spex:f c", "11"),
        (
            "dedup-blot --select spex:c/one.txt c",
            "c/one.txt: not a filter of dedup-spex, or damaged",
        ),
        (
            "dedup-spex --add i -l 9 c",
            "an index of 'words@18.0/49 ordered:8:64 spex', where chunks of 9 tokens are asked for",
        ),
        (
            "dedup-spex --add i --tokenizer line c",
            "the index has tokens of 'words@18.0/49'",
        ),
        (
            "dedup-spex --add final c",
            "no index that dedup-spex can add to",
        ),
        ("dedup-spex --add none c", "none"),
        (
            "echo other >>c/two.txt; dedup-spex --add i c",
            "the index has a document 'c/two.txt' with another text",
        ),
        ("dedup-index add i c/one.txt", "dedup-spex"),
        ("dedup-index remove i c/one.txt", "dedup-spex"),
        ("dedup-index sync i c", "dedup-spex"),
    ] {
        let ran = dir.shell(&format!("set -o pipefail; {line}"));
        assert_eq!(ran.code(), 2, "{line}: {}", ran.stderr());
        assert!(ran.stderr().contains(expected), "{line}: {}", ran.stderr());
    }
    assert_eq!(dir.read("i/manifest.json"), state);
    let whole = dir.read("f");
    for cut in (0..whole.len()).step_by(37) {
        dir.write("cut", &whole[..cut]);
        assert_eq!(
            dir.run("dedup-blot", &["--select", "spex:cut", "c"]).code(),
            2
        );
        let mut flipped = whole.clone();
        flipped[cut] ^= 4;
        dir.write("cut", flipped);
        assert_eq!(
            dir.run("dedup-blot", &["--select", "spex:cut", "c"]).code(),
            2
        );
    }
}
