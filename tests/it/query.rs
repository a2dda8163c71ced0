//! dedup-query: answers match brute force, in order, with the right counts and exclusions.

use crate::test_dir::{TestDir, records};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The blots of a document and its number of tokens.
type Document = (BTreeSet<u32>, u32);

fn documents(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Document>> {
    let document = (prop::collection::btree_set(0_u32..40, 0..25), 1_u32..60);
    prop::collection::vec(document, count)
}

fn line(id: &str, document: &Document) -> String {
    let (blots, tokens) = document;
    let hex: Vec<_> = blots
        .iter()
        .map(|blot| format!("{:08x}", blot.wrapping_mul(0x9e37_79b9)))
        .collect();
    let hash = blots.iter().fold(u64::from(*tokens), |hash, blot| {
        hash.wrapping_mul(1_000_003) + u64::from(*blot) + 1
    });
    json!({"doc": id, "hash": format!("{hash:032x}"), "tokens": tokens, "blots": hex}).to_string()
        + "\n"
}

fn stream<'d>(prefix: &str, documents: impl Iterator<Item = (usize, &'d Document)>) -> String {
    let head =
        "{\"dedup\":\"blots\",\"version\":1,\"scheme\":\"words@18.0/49 ordered:8:32 all\"}\n"
            .to_owned();
    let lines: Vec<_> = documents
        .map(|(at, document)| line(&format!("{prefix}{at:03}"), document))
        .collect();
    format!(
        "{head}{}{{\"end\":{{\"records\":{}}}}}\n",
        lines.concat(),
        lines.len()
    )
}

/// Matches of a query by brute force: id, shared, a_in_b, b_in_a, score; the best first.
fn matches_by_brute_force(
    all: &BTreeMap<usize, Document>,
    query: &Document,
    score: &str,
    max_df: usize,
) -> Vec<(usize, usize, f64, f64, f64)> {
    let df = |blot: &u32| {
        all.values()
            .filter(|(blots, _)| blots.contains(blot))
            .count()
    };
    let rarity =
        |blots: &BTreeSet<u32>| blots.iter().map(|blot| 1.0 / df(blot) as f64).sum::<f64>();
    let query_blots: BTreeSet<u32> = query
        .0
        .iter()
        .copied()
        .filter(|blot| df(blot) <= max_df)
        .collect();
    let mut found = Vec::new();
    for (&id, (blots, _)) in all {
        let common: BTreeSet<u32> = &query_blots & blots;
        if common.is_empty() {
            continue;
        }
        let [shared, a, b] = [&common, &query_blots, blots].map(|blots| blots.len() as f64);
        let value = match score {
            "containment" => shared / a.min(b),
            "jaccard" => shared / (a + b - shared),
            "s1" => shared,
            "s2" => shared / a.min(b),
            "s3" => shared / ((a + b) / 2.0),
            "s4" => (rarity(&common) / ((a + b) / 2.0) * 1e9).round() / 1e9,
            "relative-rarity" => {
                let product = (a / 1000.0) * (b / 1000.0);
                (rarity(&common) / product.sqrt().sqrt() * 1e9).round() / 1e9
            }
            _ => (rarity(&common) * 1e9).round() / 1e9,
        };
        found.push((id, common.len(), shared / a, shared / b, value));
    }
    found.sort_by(|one, two| two.4.total_cmp(&one.4).then(one.0.cmp(&two.0)));
    found
}

fn near(one: &Value, two: f64) -> bool {
    (one.as_f64().unwrap() - two).abs() < 1e-5
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn answers_match_brute_force(
        first in documents(0..12), second in documents(0..8), removed in prop::collection::btree_set(0_usize..12, 0..4), asked in documents(1..5), top in 1_usize..12,
        threshold in 0.0..0.8, max_df in prop::option::of(1_usize..6),
    ) {
        let dir = TestDir::new();
        dir.run_with("dedup-index", &["build", "-o", "i"], stream("d", first.iter().enumerate()).as_bytes()).ok();
        let mut all: BTreeMap<usize, Document> = first.iter().cloned().enumerate().collect();
        for at in removed.iter().filter(|at| all.remove(at).is_some()) {
            dir.run("dedup-index", &["remove", "-q", "i", &format!("d{at:03}")]).ok();
        }
        // New documents take the numbers of removed ones; matches of equal score are still ordered
        // by id.
        let added = second.iter().enumerate().map(|(at, document)| (first.len() + at, document));
        dir.run_with("dedup-index", &["add", "-q", "i"], stream("d", added.clone()).as_bytes()).ok();
        all.extend(added.map(|(at, document)| (at, document.clone())));
        let queries = stream("q", asked.iter().enumerate());
        for score in [
            "containment",
            "jaccard",
            "s1",
            "s2",
            "s3",
            "s4",
            "rarity",
            "relative-rarity",
        ] {
            let (threshold, top_text) = (format!("{threshold:.3}"), top.to_string());
            let df = max_df.unwrap_or(usize::MAX).to_string();
            let mut arguments = vec!["i", "--stream", "--score", score, "--threshold", &threshold, "--top", &top_text];
            if max_df.is_some() {
                arguments.extend(["--max-df", &df]);
            }
            let ran = dir.run_with("dedup-query", &arguments, queries.as_bytes());
            let answers = records(&ran.0.stdout);
            prop_assert_eq!(answers.len(), asked.len());
            let mut any = false;
            for (answer, query) in answers.iter().zip(&asked) {
                let mut expected = matches_by_brute_force(&all, query, score, max_df.unwrap_or(usize::MAX));
                // Rounding may decide either way exactly at the threshold.
                let border: f64 = threshold.parse().unwrap();
                prop_assume!(expected.iter().all(|found| (found.4 - border).abs() > 1e-9));
                expected.retain(|found| found.4 >= border);
                expected.truncate(top);
                any |= !expected.is_empty();
                let found = answer["matches"].as_array().unwrap();
                prop_assert_eq!(found.len(), expected.len(), "{}: {:?} {:?}", score, found, expected);
                for (found, (_, shared, a_in_b, b_in_a, value)) in found.iter().zip(&expected) {
                    prop_assert_eq!(found["shared"].as_u64(), Some(*shared as u64), "{} {:?}", score, expected);
                    prop_assert!(near(&found["score"], *value) && near(&found["a_in_b"], *a_in_b) && near(&found["b_in_a"], *b_in_a), "{} {}", found, value);
                }
                let ids: Vec<_> = expected.iter().map(|found| format!("d{:03}", found.0)).collect();
                prop_assert_eq!(found.iter().map(|found| found["doc"].as_str().unwrap().to_owned()).collect::<Vec<_>>(), ids);
            }
            prop_assert_eq!(ran.code(), i32::from(!any));
        }
    }
}

const LICENCE: &str = "permission is hereby granted free of charge to any person obtaining a copy of this software to deal in it";

fn library() -> TestDir {
    let dir = TestDir::with(&[
        ("c/ferry.txt", format!("The ferry leaves the harbour at nine every morning and comes back at noon. {LICENCE}")),
        ("c/garden.txt", format!("Nothing grows in this garden but thistles and a single very old apple tree. {LICENCE}")),
        ("c/copy.txt", "NOTHING grows in this garden — but thistles,\nand a single\nvery old apple-tree!".to_owned()),
        (
            "essay.txt",
            "As they say: nothing grows in this garden but thistles, and a single very old apple tree. That was that.".to_owned(),
        ),
        ("licence.txt", LICENCE.to_owned()),
        ("other.txt", "quite another text that nobody ever wrote before or after this one".to_owned()),
    ]);
    dir.run("dedup-index", &["build", "-o", "i", "c"]).ok();
    dir
}

#[test]
fn line_breaks_case_and_punctuation_do_not_matter() {
    let dir = library();
    let ran = dir.run("dedup-query", &["i", "essay.txt", "--format", "tsv"]);
    assert_eq!(
        ran.ok_text(),
        "query\trank\tdoc\tshared\ta_in_b\tb_in_a\tscore\nessay.txt\t1\tc/copy.txt\t7\t0.538462\t1\t1\nessay.txt\t2\tc/garden.txt\t7\t0.538462\t0.259259\t0.538462\n"
    );
    assert_eq!(
        (
            dir.run("dedup-query", &["i", "other.txt"]).code(),
            dir.run("dedup-query", &["i", "other.txt"]).stdout()
        ),
        (1, String::new())
    );
    let ran = dir.run(
        "dedup-query",
        &["i", "missing.txt", "essay.txt", "--top", "1"],
    );
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-query: missing.txt: No such file or directory (os error 2)\n"
        )
    );
    assert_eq!(records(&ran.0.stdout).len(), 1);
}

#[test]
fn excluded_text_does_not_count() {
    let dir = library();
    let query = |more: &[&str]| {
        dir.run(
            "dedup-query",
            &[&["i", "licence.txt", "--format", "tsv"], more].concat(),
        )
    };
    assert_eq!(query(&[]).ok_text().lines().count(), 3);
    assert_eq!(query(&["--exclude-text", "licence.txt"]).code(), 1);
    assert_eq!(query(&["--max-df", "1"]).code(), 1);
    dir.run("dedup-index", &["build", "-o", "ref", "licence.txt"])
        .ok();
    assert_eq!(query(&["--exclude-index", "ref"]).code(), 1);
    // Containment refers to the remaining blots of a document: all of them are in the copy.
    let ran = dir
        .run(
            "dedup-query",
            &[
                "i",
                "c/garden.txt",
                "--exclude-text",
                "licence.txt",
                "--format",
                "tsv",
                "--top",
                "3",
            ],
        )
        .ok_text();
    assert_eq!(
        ran.lines().nth(1),
        Some("c/garden.txt\t1\tc/copy.txt\t7\t0.5\t1\t1"),
        "{ran}"
    );
    dir.run(
        "dedup-index",
        &["build", "-o", "other", "-k", "5", "licence.txt"],
    )
    .ok();
    let ran = query(&["--exclude-index", "other"]);
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr().contains(
            "scheme is 'words@18.0/49 ordered:5:40 all', expected 'words@18.0/49 ordered:8:40 all'"
        ),
        "{}",
        ran.stderr()
    );
}

#[test]
fn each_line_of_a_stream_is_answered_before_the_next_is_read() {
    let dir = library();
    let line = |id: &str, text: &str| format!("{{\"id\":\"{id}\",\"text\":\"{text}\"}}\n");
    let asked = [
        line("a", LICENCE),
        line("b", "nothing of the kind"),
        line("a", LICENCE),
    ]
    .concat();
    let ran = dir.run_with(
        "dedup-query",
        &["i", "--stream", "--top", "1", "--threads", "3"],
        asked.as_bytes(),
    );
    let expected =
        "{\"doc\":\"c/ferry.txt\",\"shared\":13,\"a_in_b\":1,\"b_in_a\":0.481481,\"score\":1}";
    let found = format!("{{\"doc\":\"a\",\"matches\":[{expected}]}}\n");
    assert_eq!(
        ran.ok_text(),
        format!("{found}{{\"doc\":\"b\",\"matches\":[]}}\n{found}")
    );
    // The answer to a line arrives before the next line is sent.
    let script = "mkfifo in out; dedup-query i --stream --top 1 < in > out & exec 3> in 4< out
        for n in 1 2 3; do echo '{\"id\":\"x\",\"text\":\"nothing grows in this garden but thistles and a single\"}' >&3; read -t 20 -r answer <&4; echo \"$answer\" | jq -r '.matches[0].doc'; done
        exec 3>&- 4<&-; wait";
    assert_eq!(dir.shell(script).ok_text(), "c/copy.txt\n".repeat(3));
}

#[test]
fn the_verb_blot_shows_the_text_of_a_blot() {
    let dir = library();
    let blot = dir
        .shell("dedup-blot c/copy.txt | jq -r 'select(.doc) | .blots[0]'")
        .ok_text();
    let ran = dir.run("dedup-query", &["blot", "i", blot.trim()]);
    let found = records(&ran.ok());
    let text = |at: usize| found[at]["text"].as_str().unwrap().to_owned();
    assert_eq!(
        (text(0).as_str(), found[0]["bytes"].clone()),
        (
            "NOTHING grows in this garden — but thistles,\nand",
            json!([0, 50])
        )
    );
    assert_eq!(
        (found[1]["doc"].as_str(), text(1).as_str()),
        (
            Some("c/garden.txt"),
            "Nothing grows in this garden but thistles and"
        )
    );
    dir.shell("mv c d").ok();
    assert!(
        !dir.run("dedup-query", &["blot", "i", blot.trim()])
            .ok_text()
            .contains("\"text\"")
    );
    assert_eq!(dir.run("dedup-query", &["blot", "i", "0"]).code(), 1);
}

#[test]
fn estimates_are_marked_and_parts_of_an_index_are_refused() {
    let dir = library();
    dir.run(
        "dedup-index",
        &["build", "-o", "few", "--select", "mod:2", "c"],
    )
    .ok();
    let ran = dir.run("dedup-query", &["few", "licence.txt", "--top", "1"]);
    assert_eq!(records(&ran.ok())[0]["estimate"], true);
    dir.run("dedup-index", &["split", "i", "--parts", "2", "-o", "p"])
        .ok();
    let ran = dir.run("dedup-query", &["p/000", "essay.txt"]);
    let expected =
        "dedup-query: p/000: a part of an index; join all of them with dedup-index merge first\n";
    assert_eq!((ran.code(), ran.stderr().as_str()), (2, expected));
}
