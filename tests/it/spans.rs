//! dedup-extract spans lists the text that earlier documents have.

use crate::{
    clean::lines,
    test_dir::{TestDir, records},
};
use proptest::prelude::*;
use std::collections::HashSet;

fn copies() -> TestDir {
    let dir = TestDir::with(&[("c.jsonl", lines(&[0, 1, 2, 3, 4, 5, 6, 7, 8]))]);
    dir.run("dedup-index", &["build", "-o", "i", "c.jsonl"])
        .ok();
    dir
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

fn write_corpus(work: &TestDir, texts: &[String]) {
    let line = |(number, text): (usize, &String)| {
        format!(
            "{}\n",
            serde_json::json!({ "id": format!("d{number}"), "text": text })
        )
    };
    work.write(
        "c.jsonl",
        texts.iter().enumerate().map(line).collect::<String>(),
    );
}

/// The expected spans, from tokens and their places: a window counts as seen if a document with a
/// lesser id has it.
fn spans_by_brute_force(tokens: &[serde_json::Value], k: usize) -> Vec<Vec<[u64; 2]>> {
    let mut before = HashSet::new();
    let mut all = vec![Vec::new(); tokens.len()];
    let mut order: Vec<usize> = (0..tokens.len()).collect();
    order.sort_by_key(|&at| tokens[at]["doc"].as_str());
    for (place, record) in order.into_iter().map(|at| (at, &tokens[at])) {
        let words: Vec<_> = record["tokens"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap())
            .collect();
        let places: Vec<[u64; 2]> = serde_json::from_value(record["spans"].clone()).unwrap();
        let width = k.min(words.len()).max(1);
        let (mut found, mut own): (Vec<[u64; 2]>, _) = (Vec::new(), Vec::new());
        for (at, window) in words.windows(width).enumerate() {
            let [start, end] = [places[at][0], places[at + width - 1][1]];
            match found.last_mut() {
                _ if !before.contains(&window.join("\n")) => {}
                Some(last) if last[1] >= start => last[1] = end,
                _ => found.push([start, end]),
            }
            own.push(window.join("\n"));
        }
        before.extend(own);
        all[place] = found;
    }
    all
}

/// Windows of k tokens that no cut crosses.
fn uncut_windows(record: &serde_json::Value, cut: &[[u64; 2]], k: usize) -> HashSet<String> {
    let places: Vec<[u64; 2]> = serde_json::from_value(record["spans"].clone()).unwrap();
    let words: Vec<_> = record["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .zip(places)
        .collect();
    let is_whole = |window: &&[(&serde_json::Value, [u64; 2])]| {
        let (start, end) = (window[0].1[0], window[k - 1].1[1]);
        cut.iter().all(|span| span[1] <= start || end <= span[0])
    };
    let join = |window: &[(&serde_json::Value, [u64; 2])]| {
        window.iter().map(|word| format!("{}\n", word.0)).collect()
    };
    words.windows(k).filter(is_whole).map(join).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Spans match brute force, for any history of the index and any number of threads; without
    /// them, no window occurs twice.
    #[test]
    fn spans_are_text_of_earlier_documents(texts in corpora(), first in 0_usize..24, k in 1_usize..5) {
        let work = TestDir::new();
        write_corpus(&work, &texts);
        let first = first.clamp(1, texts.len() - 1);
        work.shell(&format!("head -n {first} c.jsonl > one.jsonl; tail -n +{} c.jsonl > two.jsonl", first + 1)).ok();
        work.shell(&format!("dedup-index build -q -k {k} -o i c.jsonl && dedup-index build -q -k {k} -o j one.jsonl && dedup-index add -q j two.jsonl")).ok();
        // The second half was added first, and removed documents were added again.
        work.shell(&format!("dedup-index build -q -k {k} -o l two.jsonl && dedup-index add -q l one.jsonl && cp -r i m && dedup-index remove -q m d0 && dedup-index add -q m c.jsonl")).ok();
        let tokens = records(&work.shell("dedup-tokenize --spans c.jsonl").ok());
        let tokens = &tokens[1..tokens.len() - 1];
        let found = work.run("dedup-extract", &["spans", "i", "c.jsonl", "--threads", "1"]).ok();
        for (index, threads) in [("i", "8"), ("j", "2"), ("l", "2"), ("m", "1")] {
            prop_assert_eq!(&work.run("dedup-extract", &["spans", index, "c.jsonl", "--threads", threads]).ok(), &found, "{}", index);
        }
        let found = records(&found);
        let spans: Vec<Vec<[u64; 2]>> = found.iter().map(|record| serde_json::from_value(record["spans"].clone()).unwrap()).collect();
        prop_assert_eq!(&spans, &spans_by_brute_force(tokens, k));
        let mut windows = HashSet::new();
        for ((record, found), (spans, text)) in tokens.iter().zip(&found).zip(spans.iter().zip(&texts)) {
            prop_assert_eq!(&found["doc"], &record["doc"]);
            prop_assert_eq!(found["bytes"].as_u64(), Some(text.len() as u64));
            prop_assert_eq!(found["seen"].as_u64(), Some(spans.iter().map(|span| span[1] - span[0]).sum()));
            let left = uncut_windows(record, spans, k);
            prop_assert!(left.is_disjoint(&windows));
            windows.extend(left);
        }
    }
}

/// Ids decide which document is earlier, not commits or the order of the input.
#[test]
fn spans_do_not_depend_on_commits() {
    let work = TestDir::new();
    let text = |own: &str| format!("one two three four five six seven eight nine ten {own}");
    let line = |id: &str| format!("{{\"id\":\"{id}\",\"text\":\"{}\"}}\n", text(id));
    work.write("c.jsonl", ["c", "a", "b"].map(line).concat());
    work.write("ac.jsonl", ["c", "a"].map(line).concat());
    work.write("b.jsonl", line("b"));
    work.write("reversed.jsonl", ["b", "a", "c"].map(line).concat());
    work.shell("dedup-index build -q -o built c.jsonl && dedup-index build -q -o added b.jsonl && dedup-index add -q added ac.jsonl").ok();
    work.shell(
        "cp -r built back && dedup-index remove -q back a && dedup-index add -q back c.jsonl",
    )
    .ok();
    work.shell("cp -r built packed && dedup-index remove -q packed a && dedup-index compact packed && dedup-index add -q packed c.jsonl")
        .ok();
    // Too wide for the table of shared blots.
    work.shell(
        "dedup-index build -q --bits 64 -o wide b.jsonl && dedup-index add -q wide ac.jsonl",
    )
    .ok();
    let record = |id: &str, spans: &str, seen: u32| {
        format!("{{\"doc\":\"{id}\",\"bytes\":50,\"spans\":{spans},\"seen\":{seen}}}\n")
    };
    let [a, b, c] = [
        record("a", "[]", 0),
        record("b", "[[0,48]]", 48),
        record("c", "[[0,48]]", 48),
    ];
    for index in ["built", "added", "back", "packed", "wide"] {
        let spans = |file: &str| work.run("dedup-extract", &["spans", index, file]).ok_text();
        assert_eq!(spans("c.jsonl"), [&*c, &a, &b].concat(), "{index}");
        assert_eq!(spans("reversed.jsonl"), [&*b, &a, &c].concat(), "{index}");
        // Some of the documents give the same spans as all of them.
        assert_eq!(spans("b.jsonl"), b, "{index}");
    }
}

#[test]
fn spans_of_copies_are_written() {
    let work = copies();
    assert_eq!(
        work.run(
            "dedup-extract",
            &["spans", "i", "c.jsonl", "--format", "tsv"]
        )
        .ok_text(),
        "doc\tbytes\tspans\tseen\n\
         a\t48\t[]\t0\n\
         b\t57\t[[0,50]]\t50\n\
         c\t58\t[]\t0\n\
         c.jsonl:4\t48\t[[0,48]]\t48\n\
         5\t3\t[]\t0\n\
         e\t0\t[]\t0\n\
         f\t1\t[]\t0\n\
         g\t27\t[]\t0\n"
    );
    work.write(
        "new.jsonl",
        lines(&[1]) + "{\"id\":\"a\",\"text\":\"other\"}\n{\"id\":\"z\",\"text\":\"new\"}\n",
    );
    let ran = work.run("dedup-extract", &["spans", "i", "new.jsonl"]);
    assert_eq!(
        (ran.code(), ran.stdout().as_str()),
        (
            2,
            "{\"doc\":\"b\",\"bytes\":57,\"spans\":[[0,50]],\"seen\":50}\n"
        )
    );
    assert_eq!(
        ran.stderr(),
        "dedup-extract: new.jsonl:2: 'a' is not what the index has under this id; bring the index up to date first\n\
         dedup-extract: new.jsonl:3: no document 'z' is in the index; add it first\n"
    );
    let ran = work.shell("dedup-blot c.jsonl | dedup-extract spans i");
    assert!(
        ran.code() == 2
            && ran
                .stderr()
                .contains("stdin:2: it came without the places of its tokens"),
        "{}",
        ran.stderr()
    );
    let piped = work
        .shell("dedup-tokenize --spans c.jsonl | dedup-extract spans i")
        .ok();
    assert_eq!(
        piped,
        work.run("dedup-extract", &["spans", "i", "c.jsonl"]).ok()
    );
    work.run(
        "dedup-index",
        &["build", "-q", "-o", "m", "--select", "mod:2", "c.jsonl"],
    )
    .ok();
    assert_eq!(
        work.run("dedup-extract", &["spans", "m", "c.jsonl"])
            .stderr(),
        "dedup-extract: m: the index has selected blots (mod:2), so that most windows are not in it; spans need one that was built with --select all\n"
    );
}

/// With aliases, removals and interleaved windows.
#[test]
fn spans_reflect_changes_of_the_index() {
    let work = copies();
    work.run("dedup-index", &["remove", "-q", "i", "a"]);
    work.write(
        "rest.jsonl",
        lines(&[1, 2]) + &lines(&[3]).replace("{\"text", "{\"id\":\"c.jsonl:4\",\"text"),
    );
    let spans = |index: &str| {
        let found = records(
            &work
                .run("dedup-extract", &["spans", index, "rest.jsonl"])
                .ok(),
        );
        found
            .into_iter()
            .map(|record| record["spans"].to_string())
            .collect::<Vec<_>>()
    };
    // Now b is the first document with this text.
    assert_eq!(spans("i"), ["[]", "[]", "[[0,48]]"]);
    work.run(
        "dedup-index",
        &[
            "build",
            "-q",
            "-o",
            "x",
            "-k",
            "3",
            "--scheme",
            "xor",
            "--interleave",
            "2",
            "rest.jsonl",
        ],
    )
    .ok();
    assert_eq!(spans("x"), ["[]", "[]", "[[0,48]]"]);
}
