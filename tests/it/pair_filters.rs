//! Filters on pairs (--groups, --new): a filtered run gives the unfiltered pairs without the
//! excluded ones.

use crate::{
    extract_oracle::index_of,
    test_dir::{TestDir, records},
};
use dedup::{
    base::{error::Problem, parallel::Limits},
    commands::{
        Extract, ExtractOptions, Grouping, LeaveOut, NewDocuments, Observer, RowFormat,
        WantedPairs, extract_without,
    },
    index::Index,
    report::Format,
    similar::{KeepRule, Score},
};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

struct Silent;

impl Observer for Silent {
    fn problem(&mut self, problem: &Problem) {
        panic!("{problem}");
    }

    fn progress(&mut self, _: u64, _: u64) {}
}

fn extracted(
    index: &Index,
    what: Extract,
    score: Score,
    threshold: f64,
    pairs: &WantedPairs,
) -> Vec<Value> {
    let options = ExtractOptions {
        what,
        score,
        threshold,
        common: None.into(),
        limits: Limits::new(2, 1 << 16),
    };
    let mut out = Vec::new();
    let leave_out = LeaveOut {
        pairs: pairs.clone(),
        ..LeaveOut::default()
    };
    assert_eq!(
        extract_without(
            &options,
            &leave_out,
            index,
            &mut out,
            &mut Silent,
            &mut |_, _| {}
        )
        .unwrap(),
        0
    );
    records(&out)
}

fn number(record: &Value, field: &str) -> usize {
    record[field].as_str().unwrap()[1..].parse().unwrap()
}

/// Connected components of the documents, by pairs.
fn components(documents: usize, pairs: &[(usize, usize)]) -> BTreeSet<BTreeSet<usize>> {
    let mut of: Vec<usize> = (0..documents).collect();
    for _ in 0..documents {
        for &(a, b) in pairs {
            let least = of[a].min(of[b]);
            (of[a], of[b]) = (least, least);
        }
    }
    let mut sets: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (document, &first) in of.iter().enumerate() {
        sets.entry(first).or_default().insert(document);
    }
    sets.into_values().filter(|set| set.len() > 1).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn pair_filters_give_the_results_of_brute_force(
        texts in prop::collection::vec(prop::collection::btree_set(0_u32..12, 1..8), 1..6),
        picks in prop::collection::vec((0_usize..6, 0_u8..5, any::<bool>()), 1..14),
        with_groups: bool, with_new: bool, by_count: bool, top in 1_usize..4,
    ) {
        let documents: Vec<_> = picks.iter().map(|&(pick, ..)| (texts[pick % texts.len()].clone(), 40)).collect();
        let dir = TestDir::new();
        let index = index_of(&dir, &documents);
        // Group 0 stands for "no group": such a document is alone.
        let lines = picks.iter().enumerate().filter(|(_, pick)| pick.1 > 0).map(|(at, pick)| format!("d{at:03}\tg{}\n", pick.1));
        dir.write("groups", lines.collect::<String>());
        let new = picks.iter().enumerate().filter(|(_, pick)| pick.2).map(|(at, _)| format!("d{at:03}\n"));
        dir.write("new", new.collect::<String>());
        let has_new = with_new && picks.iter().any(|pick| pick.2);
        let which = WantedPairs {
            groups: with_groups.then(|| Grouping::File(dir.path("groups"))),
            new: has_new.then(|| NewDocuments::Listed(dir.path("new"))).into_iter().collect(),
        };
        let wants = |a: usize, b: usize| {
            let together = with_groups && picks[a].1 > 0 && picks[a].1 == picks[b].1;
            !together && (!has_new || picks[a].2 || picks[b].2)
        };
        let (score, threshold) = if by_count { (Score::S1, 5.0) } else { (Score::Containment, 0.5) };
        let ask = |what, which: &WantedPairs| extracted(&index, what, score, threshold, which);
        let all = WantedPairs::default();
        let mut pairs = ask(Extract::Pairs(Format::Ndjson), &all);
        pairs.retain(|pair| wants(number(pair, "a"), number(pair, "b")));
        prop_assert_eq!(&ask(Extract::Pairs(Format::Ndjson), &which), &pairs);

        let mut rows = ask(Extract::Table { top: 100, rows: RowFormat { format: Format::Ndjson, ranks: true } }, &all);
        rows.retain(|row| wants(number(row, "a"), number(row, "b")));
        let mut rank = BTreeMap::new();
        rows.retain_mut(|row| {
            let rank = rank.entry(number(row, "a")).or_insert(0);
            *rank += 1;
            row["rank"] = (*rank).into();
            *rank <= top
        });
        prop_assert_eq!(&ask(Extract::Table { top, rows: RowFormat { format: Format::Ndjson, ranks: true } }, &which), &rows);

        let pairs: Vec<_> = pairs.iter().map(|pair| (number(pair, "a"), number(pair, "b"))).collect();
        let clusters = ask(Extract::Clusters { keep: KeepRule::First, format: Format::Ndjson }, &which);
        let members = |cluster: &Value| cluster["members"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()[1..].parse().unwrap()).collect();
        prop_assert_eq!(clusters.iter().map(members).collect::<BTreeSet<BTreeSet<usize>>>(), components(documents.len(), &pairs));
        for dropped in clusters.iter().flat_map(|cluster| cluster["dropped"].as_array().unwrap()) {
            let (a, b) = (number(dropped, "doc"), number(dropped, "duplicate_of"));
            prop_assert!(pairs.contains(&(a.min(b), a.max(b))), "{} is no pair", dropped);
        }
    }
}

const COPY: &str = "ice that is pressed by its own weight begins to flow downhill slowly and carries the stones of the valley with it";

fn homework_of_a_class() -> TestDir {
    let dir = TestDir::new();
    for (id, word) in [
        ("2025/ann/1", "one"),
        ("2025/ben/1", "two"),
        ("2026/ann/1", "three"),
        ("2026/ann/2", "four"),
        ("2026/cem/1", "five"),
    ] {
        dir.write(&format!("class/{id}.txt"), format!("{COPY} {word}"));
    }
    dir.shell(
        "cd class && dedup-index build -q -o ../my.idx 2025 && dedup-index add -q ../my.idx 2026",
    )
    .ok();
    dir
}

fn pairs(dir: &TestDir, arguments: &[&str]) -> Vec<String> {
    let out = dir
        .run(
            "dedup-extract",
            &[&["my.idx", "--format", "tsv"], arguments].concat(),
        )
        .ok_text();
    let short = |id: &str| id.replace("20", "").replace(".txt", "").replace('/', "");
    out.lines()
        .skip(1)
        .map(|line| {
            line.split('\t')
                .take(2)
                .map(short)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

#[test]
fn filters_drop_pairs_inside_groups_and_pairs_of_old_documents() {
    let dir = homework_of_a_class();
    let all = [
        "25ann1 25ben1",
        "25ann1 26ann1",
        "25ann1 26ann2",
        "25ann1 26cem1",
        "25ben1 26ann1",
        "25ben1 26ann2",
        "25ben1 26cem1",
        "26ann1 26ann2",
        "26ann1 26cem1",
        "26ann2 26cem1",
    ];
    assert_eq!(pairs(&dir, &[]), all);
    let new: Vec<&str> = all[1..].to_vec();
    assert_eq!(pairs(&dir, &["--new", "2026/"]), new);
    assert_eq!(pairs(&dir, &["--new-since", "1"]), new);
    dir.write("new", "2026/ann/1.txt\n2026/ann/2.txt\n2026/cem/1.txt\n");
    assert_eq!(pairs(&dir, &["--new-from", "new"]), new);
    let apart: Vec<&str> = new
        .iter()
        .copied()
        .filter(|pair| *pair != "26ann1 26ann2")
        .collect();
    assert_eq!(pairs(&dir, &["--new", "2026/", "--group-by", "2"]), apart);
    dir.write(
        "groups",
        "2025/ann/1.txt\tann\n2026/ann/1.txt\tann\n2026/ann/2.txt\tann\n",
    );
    assert_eq!(pairs(&dir, &["--groups", "groups"]).len(), 7);
    assert_eq!(pairs(&dir, &["--group-by", "1"]).len(), 6);
    let graph = dir
        .run("dedup-extract", &["graph", "my.idx", "--group-by", "1"])
        .ok_text();
    assert_eq!(graph.matches("--").count(), 6, "{graph}");
    // The query document belongs to a group as well.
    let asked = |arguments: &[&str]| {
        dir.run(
            "dedup-query",
            &[&["my.idx", "class/2026/ann/1.txt"], arguments].concat(),
        )
    };
    assert_eq!(records(&asked(&[]).ok()).len(), 5);
    dir.write(
        "asked",
        "class/2026/ann/1.txt\tann\n2026/ann/1.txt\tann\n2026/ann/2.txt\tann\n",
    );
    let found: Vec<String> = records(&asked(&["--groups", "asked"]).ok())
        .iter()
        .map(|record| record["doc"].to_string())
        .collect();
    assert_eq!(
        found,
        [
            "\"2025/ann/1.txt\"",
            "\"2025/ben/1.txt\"",
            "\"2026/cem/1.txt\""
        ]
    );
    assert_eq!(
        records(&asked(&["--groups", "asked", "--top", "2"]).ok()).len(),
        2
    );
}

#[test]
fn missing_groups_and_documents_are_reported() {
    let dir = homework_of_a_class();
    dir.write("groups", "2025/ann/1.txt\tann\nnobody.txt\tann\n");
    for tool in [
        &["dedup-extract", "my.idx"][..],
        &["dedup-query", "my.idx", "class/2025/ann/1.txt"],
    ] {
        let ran = dir.run(tool[0], &[&tool[1..], &["--groups", "groups"]].concat());
        assert_eq!(
            (ran.code(), ran.stderr()),
            (
                2,
                format!("{}: groups:2: there is no document 'nobody.txt'\n", tool[0])
            )
        );
        assert!(!ran.stdout().is_empty());
    }
    dir.write("new", "nobody.txt\n2026/cem/1.txt\n");
    let ran = dir.run("dedup-extract", &["my.idx", "--new-from", "new"]);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-extract: new:1: there is no document 'nobody.txt'\n"
        )
    );
    for (arguments, what) in [
        (&["--new", "2027/"][..], "no document of the index is new"),
        (&["--new-since", "9"], "generation 9 is not there"),
        (&["--groups", "none"], "none: No such file"),
        (
            &["--groups", "groups", "--group-by", "1"],
            "cannot be used with",
        ),
        (
            &["exact", "--group-by", "1"],
            "unexpected argument '--group-by'",
        ),
        (&["blots", "--new", "2026/"], "unexpected argument '--new'"),
        (
            &["clean", "--groups", "groups"],
            "unexpected argument '--groups'",
        ),
        (
            &["exact", "--base", "class"],
            "unexpected argument '--base'",
        ),
        (
            &["pairs", "--exclude-quotes"],
            "not provided:\n  --passages",
        ),
        (
            &["table", "--min-match-words", "9"],
            "unexpected argument '--min-match-words'",
        ),
    ] {
        let ran = dir.run("dedup-extract", &[arguments, &["my.idx"]].concat());
        assert!(
            ran.code() == 2 && ran.stderr().contains(what),
            "{arguments:?}: {}",
            ran.stderr()
        );
    }
    let ran = dir.run("dedup-query", &["align", "--pairs", "x", "--group-by", "1"]);
    assert_eq!(ran.code(), 2);
    let ran = dir.run(
        "dedup-query",
        &["my.idx", "class/2025/ann/1.txt", "--exclude-bibliography"],
    );
    assert!(
        ran.code() == 2
            && ran
                .stderr()
                .contains("not provided:\n  <--passages|--html <FILE>>"),
        "{}",
        ran.stderr()
    );
}
