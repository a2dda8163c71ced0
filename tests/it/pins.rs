//! A pinned generation of an index stays available after any later change of the index.

use crate::{
    extract::{Rows, apply, table_rows},
    incremental::{Silent, build, change, dump, id, resources, settings, text, write_documents},
    test_dir::TestDir,
};
use dedup::base::ids::DocNo;
use dedup::{
    base::parallel::Limits,
    commands::{self, ChangeOptions, Extract, ExtractOptions, RowFormat},
    index::{Index, View, verify},
    report::Format,
    similar::Score,
};
use proptest::prelude::*;
use std::{collections::BTreeMap, path::Path};

#[derive(Debug, Clone)]
enum Step {
    /// Ids and texts.
    Add(Vec<(u8, u8)>),
    Remove(Vec<u8>),
    Compact,
    Pin(u8),
    Unpin(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let add = prop::collection::vec((0_u8..14, 0_u8..12), 1..5).prop_map(Step::Add);
    let remove = prop::collection::vec(0_u8..14, 1..4).prop_map(Step::Remove);
    let pin = (0_u8..3).prop_map(Step::Pin);
    let step = prop_oneof![6 => add, 4 => remove, 1 => Just(Step::Compact), 2 => pin, 1 => (0_u8..3).prop_map(Step::Unpin)];
    prop::collection::vec(step, 1..40)
}

/// The table, or its changes since a generation.
fn table(directory: &Path, since: Option<u64>) -> String {
    let rows = RowFormat::new(Format::Tsv);
    let what = since.map_or(Extract::Table { top: 3, rows }, |generation| {
        Extract::TableSince {
            top: 3,
            rows,
            generation,
        }
    });
    let options = ExtractOptions {
        what,
        score: Score::Inclusion,
        threshold: 0.1,
        common: None.into(),
        limits: Limits::new(2, 1 << 20),
    };
    let mut out = Vec::new();
    commands::extract(
        &options,
        &Index::open(directory).unwrap(),
        &mut out,
        &mut |_, _| {},
    )
    .unwrap();
    String::from_utf8(out).unwrap()
}

/// The documents with their blots, in the order of their ids.
fn sorted_dump(index: &Index) -> Vec<String> {
    let text = String::from_utf8(dump(index)).unwrap();
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with("{\"doc\""))
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// With commits, automatic merges and compaction: the table at the pin plus the changes gives
    /// the current table, and the index equals a new build.
    #[test]
    fn the_table_at_a_pin_plus_changes_gives_the_current_table(first in prop::collection::vec((0_u8..14, 0_u8..12), 0..8), steps in steps()) {
        let dir = TestDir::new();
        let mut model: BTreeMap<String, String> = BTreeMap::new();
        for &(number, of) in &first {
            model.entry(id(number)).or_insert_with(|| text(of));
        }
        let directory = build(&dir, "i", &model.clone().into_iter().collect::<Vec<_>>());
        let changing = ChangeOptions { compacts: true, ..change() };
        let mut pinned: BTreeMap<String, (u64, Rows)> = BTreeMap::new();
        for step in &steps {
            match step {
                Step::Add(documents) => {
                    let mut added = BTreeMap::new();
                    for &(number, of) in documents {
                        added.entry(id(number)).or_insert_with(|| text(of));
                    }
                    write_documents(&dir.path("add.jsonl"), added.clone().into_iter());
                    commands::add(&changing, &settings(vec![dir.path("add.jsonl")]), &directory, &mut Silent).unwrap();
                    model.extend(added);
                }
                Step::Remove(numbers) => {
                    commands::remove(&changing, numbers.iter().map(|&number| Ok(id(number))), &directory, &mut Silent).unwrap();
                    numbers.iter().for_each(|&number| drop(model.remove(&id(number))));
                }
                Step::Compact => commands::compact(&directory, &resources(1 << 20)).unwrap(),
                Step::Pin(name) => {
                    let name = format!("pin{name}");
                    let generation = commands::pin(&directory, &name, None).unwrap();
                    pinned.insert(name, (generation, table_rows(&table(&directory, None))));
                }
                Step::Unpin(name) => {
                    let name = format!("pin{name}");
                    prop_assert_eq!(commands::unpin(&directory, &name).is_ok(), pinned.remove(&name).is_some());
                }
            }
            let index = Index::open(&directory).unwrap();
            verify(&index).unwrap();
            let view = View::of(&index).unwrap();
            let mut ids: Vec<String> = (0..view.documents()).map(|document| view.id(DocNo::from_index(document)).unwrap()).collect();
            ids.sort();
            prop_assert_eq!(ids, model.keys().cloned().collect::<Vec<_>>());
            prop_assert_eq!(index.manifest.pins.len(), pinned.len());
            // Accumulated segments are merged before a commit; removing a pin lets two groups of
            // segments become one.
            let is_commit = matches!(step, Step::Add(_) | Step::Remove(_));
            prop_assert!(!is_commit || index.segments.len() <= 8 * (pinned.len() + 1), "{} segments", index.segments.len());
            let now = table_rows(&table(&directory, None));
            for (generation, rows) in pinned.values() {
                let mut rows = rows.clone();
                apply(&table(&directory, Some(*generation)), &mut rows);
                prop_assert_eq!(&rows, &now);
            }
        }
        let fresh = build(&dir, "fresh", &model.into_iter().collect::<Vec<_>>());
        prop_assert_eq!(sorted_dump(&Index::open(&directory).unwrap()), sorted_dump(&Index::open(&fresh).unwrap()));
        for (name, (generation, _)) in &pinned {
            prop_assert_eq!(commands::unpin(&directory, name).unwrap(), *generation);
        }
        commands::compact(&directory, &resources(1)).unwrap();
        prop_assert!(Index::open(&directory).unwrap().is_compact());
    }
}

fn letters(of: &str) -> String {
    (0..30).map(|n| format!("{of}{n} ")).collect()
}

/// An index of one document, to which others were added, one commit each.
fn grown(count: usize) -> TestDir {
    let dir = TestDir::with(&[("a", letters("s"))]);
    dir.shell("dedup-index build -q -o i a").ok();
    for number in 0..count {
        dir.write(
            &format!("d{number}"),
            letters("s") + &letters(&format!("d{number}x")),
        );
        dir.shell(&format!("dedup-index add -q i d{number}")).ok();
    }
    dir
}

#[test]
fn a_pinned_generation_outlives_automatic_merges_and_compaction() {
    let dir = grown(2);
    assert_eq!(
        dir.run("dedup-index", &["pin", "i", "monday"]).ok_text(),
        "i: generation 3 is pinned as monday\n"
    );
    let before = dir.shell("dedup-extract table i --format tsv").ok_text();
    for number in 2..20 {
        dir.write(
            &format!("d{number}"),
            letters("s") + &letters(&format!("d{number}x")),
        );
        dir.shell(&format!("dedup-index add -q i d{number}")).ok();
    }
    dir.shell("dedup-index remove -q i d0").ok();
    for command in ["dedup-index verify i", "dedup-index compact i"] {
        dir.shell(command).ok();
        let mut rows = table_rows(&before);
        apply(
            &dir.shell("dedup-extract table i --format tsv --since monday")
                .ok_text(),
            &mut rows,
        );
        assert_eq!(
            rows,
            table_rows(&dir.shell("dedup-extract table i --format tsv").ok_text())
        );
    }
    let stats: serde_json::Value =
        serde_json::from_str(&dir.shell("dedup-index stats --json i").ok_text()).unwrap();
    assert_eq!(
        (&stats["pins"], &stats["segments"]),
        (&serde_json::json!({"monday": 3}), &serde_json::json!(2))
    );
    assert_eq!(stats["generations"][0][0], 3);
    let table = dir.shell("dedup-index stats i").ok_text();
    let line = |name: &str| {
        table
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(line("pins"), "pins monday 3");
    assert!(
        line("generations kept").starts_with("generations kept 3, "),
        "{table}"
    );
    assert_eq!(
        dir.run("dedup-index", &["unpin", "i", "monday"]).ok_text(),
        "i: generation 3 is not pinned as monday any more\n"
    );
    dir.shell("dedup-index compact i").ok();
    assert_eq!(dir.shell("ls i | grep -c docs").ok_text(), "1\n");
}

#[test]
fn invalid_generations_are_refused_with_the_valid_ones() {
    let dir = grown(2);
    dir.shell("dedup-index pin -q i base --generation 1 && dedup-index compact i")
        .ok();
    let refused = |tool: &str, words: &[&str], what: &str| {
        let ran = dir.run(tool, words);
        assert_eq!(
            (ran.code(), ran.stdout().as_str(), ran.stderr()),
            (2, "", format!("{tool}: {what}\n")),
            "{words:?}"
        );
    };
    let gone = "i: generation 2 is no longer available: of earlier states the index has 1, 3 to 4; dedup-index pin keeps one for as long as it is pinned";
    refused("dedup-extract", &["table", "i", "--since", "2"], gone);
    refused("dedup-extract", &["i", "--new-since", "2"], gone);
    refused("dedup-index", &["pin", "i", "x", "--generation", "2"], gone);
    let not_yet = "i: generation 9 is not there yet: the index is at generation 4";
    refused("dedup-extract", &["table", "i", "--since", "9"], not_yet);
    refused(
        "dedup-index",
        &["pin", "i", "x", "--generation", "9"],
        not_yet,
    );
    let unknown = "i: has no pin 'week': it has base (generation 1); dedup-index pin makes one";
    refused("dedup-extract", &["table", "i", "--since", "week"], unknown);
    refused("dedup-index", &["unpin", "i", "week"], unknown);
    let rule = "the name of a pin has 1 to 64 ASCII letters, digits, '.', '_' and '-', and a letter among them";
    refused(
        "dedup-index",
        &["pin", "i", "17"],
        &format!("{rule}; '17' could be taken for a generation"),
    );
    refused(
        "dedup-index",
        &["pin", "i", "../x"],
        &format!("{rule}; '../x' has other characters than letters, digits, '.', '_' and '-'"),
    );
    dir.shell("dedup-index unpin -q i base").ok();
    refused(
        "dedup-index",
        &["unpin", "i", "base"],
        "i: has no pin 'base': it has none; dedup-index pin makes one",
    );
    dir.shell("dedup-spex a d0 d1 -q -o s").ok();
    refused(
        "dedup-index",
        &["pin", "s", "x"],
        "s: an index of shared chunks: dedup-spex --add writes all of it again, so that no earlier state can be kept",
    );
}

#[test]
fn a_pin_changes_only_the_manifest_and_can_be_moved() {
    let dir = grown(1);
    dir.shell(
        "ls i > before && cp -r i j && dedup-index pin -q i x --generation 1 && dedup-index pin i x > moved && ls i | diff before -",
    )
    .ok();
    assert_eq!(
        String::from_utf8(dir.read("moved")).unwrap(),
        "i: generation 2 is pinned as x\n"
    );
    dir.shell("dedup-index unpin -q i x && diff -r i j").ok();
}
