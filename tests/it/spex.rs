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
    fn the_index_has_all_chunks_but_those_of_single_documents(
        texts in texts(), length in 1_u32..6, bits in prop::sample::select(vec!["16", "32", "40", "64"]),
    ) {
        let (dir, length) = (corpus(&texts), length.to_string());
        dir.run("dedup-spex", &["-q", "-l", &length, "--bits", bits, "-o", "shared", "c.jsonl"]).ok();
        dir.run("dedup-index", &["verify", "shared"]).ok();
        dir.run("dedup-index", &["build", "-q", "-k", &length, "--bits", bits, "-o", "all", "c.jsonl"]).ok();
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
    fn an_index_of_chunks_within_documents(texts in texts(), length in 1_u32..5) {
        let (dir, length) = (corpus(&texts), length.to_string());
        dir.run("dedup-spex", &["-q", "-l", &length, "--bits", "64", "--within", "--with-text", "-o", "i", "c.jsonl"]).ok();
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
        for file in FILES {
            prop_assert!(dir.read(&format!("grown/{name}.{file}")) == dir.read(&format!("whole/000001.{file}")), "{}", file);
        }
        let dump = |index: &str| dir.run("dedup-index", &["dump", index]).ok_text();
        prop_assert_eq!(dump("grown"), dump("whole"));
    }

    /// Any sequence of additions, replacements and removals gives the bytes of a full run.
    #[test]
    fn changes_give_the_bytes_of_a_full_run(
        first in texts(), changes in prop::collection::vec(change(), 1..5), bits in prop::sample::select(vec!["16", "40", "64"]),
        select in prop::sample::select(vec!["spex", "spex,mod:2"]), parts in prop::sample::select(vec!["1", "3"]),
    ) {
        let dir = TestDir::new();
        let spex = |arguments: &[&str]| dir.run("dedup-spex", &[&["-q", "-l", "3"], arguments].concat()).ok();
        let line = |(id, text): &(String, String)| format!("{}\n", json!({"id": id, "text": text}));
        let write = |name: &str, documents: &[(String, String)]| dir.write(name, documents.iter().map(line).collect::<String>());
        let mut documents: Vec<(String, String)> = first.iter().enumerate().map(|(number, words)| (format!("d{number}"), words.join(" "))).collect();
        write("c.jsonl", &documents);
        let made = ["--bits", bits, "--select", select, "--parts", parts];
        spex(&[&made[..], &["-o", "i", "c.jsonl"]].concat());
        for (number, change) in changes.iter().enumerate() {
            let threads = (number + 1).to_string();
            match change {
                Change::Add(texts) => {
                    let changed: BTreeMap<String, String> = texts.iter().map(|(id, words)| (format!("d{id}"), words.join(" "))).collect();
                    write("new.jsonl", &changed.clone().into_iter().collect::<Vec<_>>());
                    spex(&["--add", "i", "--threads", &threads, "--memory", "1", "new.jsonl"]);
                    for (id, text) in changed {
                        match documents.iter_mut().find(|document| document.0 == id) {
                            Some(document) => document.1 = text,
                            None => documents.push((id, text)),
                        }
                    }
                }
                Change::Remove(places) => {
                    let mut removed: Vec<String> = places.iter().filter(|_| !documents.is_empty()).map(|place| place.get(&documents).0.clone()).collect();
                    removed.sort();
                    removed.dedup();
                    // A full run without documents is an error.
                    removed.truncate(documents.len() - 1);
                    if removed.is_empty() {
                        continue;
                    }
                    spex(&[&["--remove", "i", "--threads", &threads][..], &removed.iter().map(String::as_str).collect::<Vec<_>>()].concat());
                    documents.retain(|(id, _)| !removed.contains(id));
                }
            }
            write("c.jsonl", &documents);
            let whole = format!("whole{number}");
            spex(&[&made[..], &["-o", &whole, "c.jsonl"]].concat());
            let manifest: Value = serde_json::from_slice(&dir.read("i/manifest.json")).unwrap();
            let name = manifest["segments"][0]["name"].as_str().unwrap();
            let files: Vec<String> = fs::read_dir(dir.path("i")).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
            prop_assert_eq!(files.len(), 4 + parts.parse::<usize>().unwrap(), "{:?}", files);
            for file in fs::read_dir(dir.path(&whole)).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()) {
                if let Some(ending) = file.strip_prefix("000001.") {
                    prop_assert!(dir.read(&format!("i/{name}.{ending}")) == dir.read(&format!("{whole}/{file}")), "{} {:?}", file, documents);
                }
            }
        }
        dir.run("dedup-index", &["verify", "i"]).ok();
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

/// The files of a segment and of the tokens that are kept with it.
const FILES: [&str; 4] = ["docs", "sets", "000.part", "spex"];

#[derive(Debug, Clone)]
enum Change {
    /// Documents by the number in their id; one that is there already is replaced.
    Add(BTreeMap<usize, Vec<String>>),
    Remove(Vec<prop::sample::Index>),
}

fn change() -> impl Strategy<Value = Change> {
    let added = prop::collection::vec(0_usize..14, 1..5).prop_flat_map(|ids| {
        texts().prop_map(move |texts| {
            let texts = texts.into_iter().cycle();
            Change::Add(ids.iter().copied().zip(texts).collect())
        })
    });
    let removed =
        prop::collection::vec(any::<prop::sample::Index>(), 1..4).prop_map(Change::Remove);
    prop_oneof![2 => added, 1 => removed]
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
    dir.run("dedup-spex", &["-q", "--bits", "64", "-o", "i", "c"])
        .ok();
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
        &[
            "-q",
            "--bits",
            "64",
            "--select",
            "spex,mod:2",
            "-o",
            "fewer",
            "c",
        ],
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
            "000001.spex",
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
    dir.shell(
        "dedup-spex -q --bits 64 --final --with-text -o i c && dedup-spex -q --bits 64 -o grows c",
    )
    .ok();
    dir.run("dedup-index", &["verify", "i"]).ok();
    fs::remove_dir_all(dir.path("c")).unwrap();
    // An index that can grow keeps all tokens anyway.
    assert_eq!(
        dir.shell("dedup-query between grows c/one.txt c/two.txt")
            .ok(),
        dir.shell("dedup-query between i c/one.txt c/two.txt").ok()
    );
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
    dir.write("new/four.txt", LICENCE);
    let whole = dir.read("i/000001.spex");
    for at in (0..whole.len()).step_by(7) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        dir.write("i/000001.spex", flipped);
        let ran = dir.run("dedup-spex", &["--add", "i", "new"]);
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
    dir.run("dedup-spex", &["-q", "--add", "i", "new"]).ok();
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
    dir.run("dedup-spex", &["-q", "--bits", "64", "-o", "i", "c"])
        .ok();
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
            "no index that dedup-spex can change",
        ),
        (
            "dedup-spex --remove final c/one.txt",
            "no index that dedup-spex can change",
        ),
        ("dedup-spex --add none c", "none"),
        (
            "dedup-spex --add i --bits 40 c",
            "an index of 'words@18.0/49 ordered:8:64 spex', where blots of 40 bits are asked for",
        ),
        ("dedup-spex --remove i", "say which documents to remove"),
        (
            "dedup-spex --remove i c/four.txt",
            "i: has no document 'c/four.txt'",
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

#[test]
fn documents_are_added_replaced_and_removed() {
    let dir = library();
    dir.run("dedup-spex", &["-q", "-o", "i", "c"]).ok();
    dir.write("c/two.txt", format!("Other words. {LICENCE}"));
    dir.write("c/z.txt", "The last one of all");
    let said = |line: &str| {
        let ran = dir.shell(line);
        assert_eq!(ran.code(), 0, "{line}: {}", ran.stderr());
        ran.stderr()
    };
    let changed = said("dedup-spex --add i c");
    assert!(
        changed.contains("added 1, replaced 1, removed 0, unchanged 2"),
        "{changed}"
    );
    // Documents keep their places.
    dir.shell(
        "dedup-spex -q -o whole c && dedup-index dump i > a && dedup-index dump whole | diff a -",
    )
    .ok();
    let removed = said("echo c/z.txt > ids; dedup-spex --remove i c/one.txt --files-from ids");
    assert!(removed.contains("removed 2"), "{removed}");
    dir.shell("dedup-index verify i && rm c/one.txt c/z.txt && dedup-spex -q -o rest c && dedup-index dump i > a && dedup-index dump rest | diff a -")
        .ok();
    // Nothing to do: the index stays as it is.
    let before = dir.read("i/manifest.json");
    said("dedup-spex --replace i c/two.txt");
    assert_eq!(dir.read("i/manifest.json"), before);
}

#[test]
fn an_index_that_does_not_pay_says_so() {
    let dir = TestDir::new();
    let words = |of: u32| {
        (0..4000)
            .map(|n| format!("w{} ", (n * n + of) % 7919))
            .collect::<String>()
    };
    (0..4).for_each(|of| dir.write(&format!("c/{of}.txt"), words(0)));
    let ran = dir.run("dedup-spex", &["-o", "same", "c"]);
    assert!(
        ran.stderr()
            .contains("an index of all chunks (dedup-index build) would take about"),
        "{}",
        ran.stderr()
    );
    (0..40).for_each(|of| dir.write(&format!("d/{of}.txt"), words(1000 * of)));
    let ran = dir.run("dedup-spex", &["--final", "-o", "differs", "d"]);
    assert!(!ran.stderr().contains("all chunks"), "{}", ran.stderr());
}
