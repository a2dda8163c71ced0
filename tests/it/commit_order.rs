//! Answers depend on the documents and not on the order of commits: ties are broken by id.

use crate::range_counts::{CountedTable, count};
use crate::{
    incremental::{self, Model, apply_step, build, steps},
    test_dir::TestDir,
};
use dedup::{
    base::{ids::DocNo, parallel::Limits},
    commands::{Extract, ExtractOptions, RowFormat, extract},
    index::{Index, View},
    report::{Format, GraphFormat},
    similar::{Discovery, DiscoveryOptions, KeepRule, Measure, Neighbour, Score},
};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

fn answer(index: &Index, what: Extract, score: Score, threshold: f64) -> String {
    let options = ExtractOptions {
        what,
        score,
        threshold,
        common: None.into(),
        limits: Limits::new(2, 1 << 20),
    };
    let mut out = Vec::new();
    extract(&options, index, &mut out, &mut |_, _| {}).unwrap();
    String::from_utf8(out).unwrap()
}

/// All answers of dedup-extract and dedup-query on an index.
fn answers(dir: &TestDir, directory: &Path) -> Vec<String> {
    let index = Index::open(directory).unwrap();
    let mut answers = Vec::new();
    for score in [Score::Containment, Score::S3, Score::S4, Score::Rarity] {
        answers.push(answer(&index, Extract::Pairs(Format::Tsv), score, 0.0));
    }
    for top in [1, 2, 100] {
        answers.push(answer(
            &index,
            Extract::Table {
                top,
                rows: RowFormat::new(Format::Ndjson),
            },
            Score::Inclusion,
            0.0,
        ));
    }
    for (_, keep) in KeepRule::NAMES {
        answers.push(answer(
            &index,
            Extract::Clusters {
                keep,
                format: Format::Ndjson,
            },
            Score::Jaccard,
            0.3,
        ));
    }
    answers.push(answer(
        &index,
        Extract::Exact(Format::Ndjson),
        Score::Containment,
        0.0,
    ));
    answers.push(answer(
        &index,
        Extract::Blots {
            sigma: None,
            format: Format::Tsv,
        },
        Score::Containment,
        0.0,
    ));
    answers.push(answer(
        &index,
        Extract::Graph(GraphFormat::Dot),
        Score::Containment,
        0.2,
    ));
    let asked = format!("{{\"id\":\"q\",\"text\":\"{}\"}}\n", incremental::text(7));
    let directory = directory.to_str().unwrap();
    for top in ["1", "3"] {
        answers.push(
            dir.run_with(
                "dedup-query",
                &[directory, "--stream", "--top", top, "--score", "s1"],
                asked.as_bytes(),
            )
            .stdout(),
        );
    }
    answers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("DEDUP_SOAK").is_some() { 500 } else { 24 }))]
    #[test]
    fn every_sequence_of_commits_gives_the_answers_of_one_build(steps in steps(), seed: u64) {
        let dir = TestDir::new();
        let mut model = Model::new();
        let mut index = build(&dir, "i", &[]);
        steps.iter().for_each(|step| apply_step(&dir, &mut index, &mut model, step));
        // A single build of the documents in any order.
        let mut documents: Vec<(String, String)> = model.into_iter().collect();
        documents.sort_by_key(|(id, _)| id.bytes().fold(seed, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let fresh = build(&dir, "fresh", &documents);
        prop_assert_eq!(answers(&dir, &index), answers(&dir, &fresh));
    }
}

#[test]
fn rows_at_the_limit_are_the_first_by_id_after_build_and_after_add() {
    let dir = TestDir::new();
    let line = |number: u32| {
        format!(
            "{{\"id\":\"{:03}\",\"text\":\"one two three four five six seven eight nine w{number}\"}}\n",
            7 * number % 50
        )
    };
    let lines: Vec<String> = (0..50).map(line).collect();
    dir.write("all.jsonl", lines.concat());
    dir.write("first.jsonl", lines[20..].concat());
    dir.write("second.jsonl", lines[..20].concat());
    dir.shell("dedup-index build -q -o all all.jsonl && dedup-index build -q -o two first.jsonl && dedup-index add -q two second.jsonl")
        .ok();
    let table = |index: &str| {
        dir.run(
            "dedup-extract",
            &["table", index, "--top", "2", "--format", "tsv"],
        )
        .ok_text()
    };
    let mut expected = "a\tb\tshared\ta_in_b\tb_in_a\n".to_owned();
    for a in 0..50 {
        for b in (0..50).filter(|&b| b != a).take(2) {
            expected += &format!("{a:03}\t{b:03}\t2\t0.666667\t0.666667\n");
        }
    }
    assert_eq!((table("all"), table("two")), (expected.clone(), expected));
    let clusters = |index: &str| dir.run("dedup-extract", &["clusters", index]).ok_text();
    assert_eq!(clusters("all"), clusters("two"));
}

/// A repetitive document: 2,213 words, 110 distinct windows of eight.
fn repeating() -> String {
    (0..2213)
        .map(|word| format!("w{}", word % 110))
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn repetitive_documents_score_one_with_their_copies() {
    let (dir, text) = (TestDir::new(), repeating());
    dir.write("a.txt", &text);
    dir.write("b.txt", &text);
    // The same words are repeated once more: more tokens, the same windows.
    dir.write(
        "c.txt",
        format!(
            "{text} {}",
            (13..113)
                .map(|word| format!("w{}", word % 110))
                .collect::<Vec<_>>()
                .join(" ")
        ),
    );
    dir.shell("dedup-index build -q -o i a.txt b.txt c.txt")
        .ok();
    for (score, expected) in [
        ("s1", "110"),
        ("s2", "1"),
        ("s3", "1"),
        ("containment", "1"),
        ("jaccard", "1"),
        ("s4", "0.333333"),
    ] {
        let pairs = dir
            .run(
                "dedup-extract",
                &["i", "--score", score, "--threshold", "0", "--format", "tsv"],
            )
            .ok_text();
        let line = |a: &str, b: &str| format!("{a}.txt\t{b}.txt\t110\t1\t1\t{expected}\n");
        let head = "a\tb\tshared\ta_in_b\tb_in_a\tscore\n";
        assert_eq!(
            pairs,
            [head, &line("a", "b"), &line("a", "c"), &line("b", "c")].concat(),
            "{score}"
        );
        let found = dir
            .run(
                "dedup-query",
                &["i", "c.txt", "--score", score, "--format", "tsv"],
            )
            .ok_text();
        let line =
            |rank: usize, id: &str| format!("c.txt\t{rank}\t{id}.txt\t110\t1\t1\t{expected}\n");
        let head = "query\trank\tdoc\tshared\ta_in_b\tb_in_a\tscore\n";
        assert_eq!(
            found,
            [head, &line(1, "a"), &line(2, "b")].concat(),
            "{score}"
        );
    }
}

/// Rows of the table by document: the other document and the shared blots, from all neighbours or
/// from the best.
fn rows(discovery: &Discovery<'_>, count: usize, from_best: bool) -> Vec<Vec<(DocNo, u32)>> {
    type Made = Vec<Vec<(DocNo, u32)>>;
    let dir = |document: DocNo, neighbours: &Arc<[Neighbour]>, made: &mut Made| {
        made.push(
            discovery
                .table_rows(document, neighbours, count)
                .into_iter()
                .map(|(other, neighbour)| (other, neighbour.shared))
                .collect(),
        );
    };
    let mut all = Vec::new();
    let sink = |made: Made| {
        all.extend(made);
        Ok(())
    };
    if from_best {
        discovery.for_each_best(count, dir, |_| 1, sink)
    } else {
        discovery.for_each_document(dir, |_| 1, sink)
    }
    .unwrap();
    all
}

/// Documents made of a few common sentences and a few words of their own.
fn documents() -> impl Strategy<Value = Vec<(BTreeSet<u32>, u32)>> {
    let sentences = prop::collection::vec(1_u32..5, 1..8);
    let document = (
        prop::collection::vec(prop::bool::weighted(0.6), 8),
        prop::collection::btree_set(1000_u32..1030, 0..4),
        0_u32..3,
    );
    (sentences, prop::collection::vec(document, 0..60)).prop_map(|(sentences, documents)| {
        let blots = |picks: Vec<bool>, own: BTreeSet<u32>| {
            let picked = sentences.iter().enumerate().filter(|(at, _)| picks[*at]);
            picked
                .flat_map(|(at, &length)| (0..length).map(move |blot| 10 * at as u32 + blot))
                .chain(own)
                .collect::<BTreeSet<u32>>()
        };
        documents
            .into_iter()
            .map(|(picks, own, extra)| (blots(picks, own), 10 + extra))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Whatever length counts as long for a set, the rows equal those of visiting all sets.
    #[test]
    fn the_best_neighbours_give_the_table_of_all_neighbours(
        documents in documents(), long_set in 0_usize..40, count in prop_oneof![1_usize..4, 1_usize..70],
        threshold in prop::sample::select(vec![0.0, 0.1, 0.3, 0.5, 0.9, 1.0]), max_df in prop_oneof![Just(u64::MAX), 0_u64..60], memory in prop::sample::select(vec![1, 1 << 22]),
    ) {
        let dir = TestDir::new();
        let index = crate::extract_oracle::index_of(&dir, &documents);
        let view = View::by_id(&index).unwrap();
        let measure = Measure { score: Score::Inclusion, threshold, selection: None };
        let mut discovery = Discovery::new(&view, DiscoveryOptions { measure, common: Some(max_df).into(), limits: Limits::new(2, memory) }).unwrap();
        let expected = rows(&discovery, count, false);
        discovery.long_set = long_set;
        prop_assert_eq!(rows(&discovery, count, true), expected);
    }
}

/// 700 documents: all have one sentence, 600 another, 13 a third; some are copies. Every set of the
/// first two is long.
fn long_corpus() -> Vec<String> {
    let words = |name: &str, count: u32| {
        (0..count)
            .map(|word| format!("{name}{word}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let document = |number: u32| {
        let mut text = vec![words("a", 14)];
        if number % 7 != 3 {
            text.push(words("b", 11));
        }
        if number % 50 == 1 {
            text.push(words("c", 12));
        }
        // Every 31st document is a copy of the one before.
        let own = if number % 31 == 5 { number - 1 } else { number };
        text.push(words(&format!("own{own}x"), 5 + own % 9));
        format!(
            "{{\"id\":\"{:03}\",\"text\":\"{}\"}}\n",
            389 * number % 701,
            text.join(" ")
        )
    };
    (0..700).map(document).collect()
}

/// The table computed from all pairs.
fn table_of_pairs(pairs: &str, top: usize, threshold: f64) -> String {
    let mut rows: BTreeMap<String, Vec<(i64, String, f64, f64)>> = BTreeMap::new();
    for line in pairs.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [a_in_b, b_in_a] = [fields[3], fields[4]].map(|number| number.parse::<f64>().unwrap());
        let shared: i64 = fields[2].parse().unwrap();
        rows.entry(fields[0].to_owned()).or_default().push((
            -shared,
            fields[1].to_owned(),
            a_in_b,
            b_in_a,
        ));
        rows.entry(fields[1].to_owned()).or_default().push((
            -shared,
            fields[0].to_owned(),
            b_in_a,
            a_in_b,
        ));
    }
    let mut table = "a\tb\tshared\ta_in_b\tb_in_a\n".to_owned();
    for (a, mut rows) in rows {
        rows.retain(|row| row.2 >= threshold);
        rows.sort_by(|one, two| (one.0, &one.1).cmp(&(two.0, &two.1)));
        for (shared, b, a_in_b, b_in_a) in rows.iter().take(top) {
            table += &format!("{a}\t{b}\t{}\t{a_in_b}\t{b_in_a}\n", -shared);
        }
    }
    table
}

#[test]
fn long_sets_give_the_table_of_all_pairs_by_counts_and_since() {
    let (dir, lines) = (TestDir::new(), long_corpus());
    dir.write("old.jsonl", lines[..640].concat());
    dir.write("new.jsonl", lines[600..].concat());
    dir.shell("dedup-index build -q -o i old.jsonl").ok();
    let table = |top: &str, threshold: &str, more: &[&str]| {
        let arguments = [
            &[
                "table",
                "i",
                "--format",
                "tsv",
                "--top",
                top,
                "--threshold",
                threshold,
            ],
            more,
        ]
        .concat();
        dir.run("dedup-extract", &arguments).ok_text()
    };
    let old = [("7", "0.3"), ("200", "0.1")].map(|(top, threshold)| table(top, threshold, &[]));
    dir.shell("dedup-index add -q --no-compact i new.jsonl && dedup-index remove -q --no-compact i 000 389").ok();
    let pairs = dir
        .run(
            "dedup-extract",
            &[
                "i",
                "--threshold",
                "0",
                "--max-df",
                "none",
                "--format",
                "tsv",
            ],
        )
        .ok_text();
    for range in 0..2 {
        count(&dir, "i", (range, 2), None, &format!("n{range}")).unwrap();
        count(&dir, "i", (range, 2), Some(1), &format!("s{range}")).unwrap();
    }
    for ((top, threshold), old) in [("7", "0.3"), ("200", "0.1")].iter().zip(old) {
        let new = table(top, threshold, &[]);
        let counted = |since| CountedTable {
            top: top.parse().unwrap(),
            threshold: threshold.parse().unwrap(),
            max_df: None,
            since,
            ranks: false,
        };
        assert!(
            new == table_of_pairs(&pairs, top.parse().unwrap(), threshold.parse().unwrap()),
            "--top {top}"
        );
        assert!(
            new == counted(None).make(&dir, "i", &["n0", "n1"]).unwrap(),
            "--top {top}, by counts"
        );
        let changes = table(top, threshold, &["--since", "1"]);
        assert!(
            changes == counted(Some(1)).make(&dir, "i", &["s0", "s1"]).unwrap(),
            "--top {top}, changes by counts"
        );
        let changed = apply(&old, &changes);
        assert!(
            changed == new.lines().skip(1).map(str::to_owned).collect(),
            "--top {top}, by changes"
        );
    }
}

/// Applies changes to a table; returns its lines in any order.
fn apply(table: &str, changes: &str) -> BTreeSet<String> {
    let key = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        (fields[0].to_owned(), fields[1].to_owned())
    };
    let mut rows: BTreeMap<(String, String), String> = table
        .lines()
        .skip(1)
        .map(|line| (key(line), line.to_owned()))
        .collect();
    for line in changes.lines().skip(1) {
        let (change, row) = line.split_once('\t').unwrap();
        if change == "delete" {
            rows.remove(&key(row)).unwrap();
        } else {
            assert_eq!(
                rows.insert(key(row), row.to_owned()).is_some(),
                change == "update",
                "{line}"
            );
        }
    }
    rows.into_values().collect()
}
