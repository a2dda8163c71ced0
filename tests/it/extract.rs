//! dedup-extract: its output in every format, and the options it refuses.

use crate::range_counts::{CountedTable, count};
use crate::{
    documentation::examples,
    test_dir::{TestDir, records, root},
};

/// An index of testdata/corpus.
fn demo_index(options: &str) -> TestDir {
    let dir = TestDir::new();
    let corpus = root().join("testdata/corpus");
    dir.shell(&format!(
        "dedup-index build -o i --relative {options} {}",
        corpus.display()
    ))
    .ok();
    dir
}

#[test]
fn pairs_are_written_as_tsv_and_ndjson() {
    let dir = demo_index("");
    assert_eq!(
        dir.run("dedup-extract", &["i", "--format", "tsv"])
            .ok_text(),
        "a\tb\tshared\ta_in_b\tb_in_a\tscore\n\
         anthology-review\tlanguages/czech.txt\t53\t0.389706\t0.311765\t0.209486\n\
         essays/bread.txt\tformats/recipe.html\t77\t0.261905\t0.423077\t0.192982\n\
         essays/gettysburg-telegram.txt\tessays/gettysburg.txt\t265\t1\t1\t1\n\
         essays/harbour-inspection.txt\tessays/tides.txt\t69\t0.223301\t0.183024\t0.111831\n\
         essays/tides-revised.txt\tessays/tides.txt\t281\t0.72987\t0.745358\t0.5842\n\
         ferry-april\tferry-march\t62\t0.579439\t0.568807\t0.402597\n\
         ferry-april\tferry-march-reprint\t62\t0.579439\t0.568807\t0.402597\n\
         ferry-march\tferry-march-reprint\t109\t1\t1\t1\n"
    );
    let json = dir
        .run(
            "dedup-extract",
            &["i", "--score", "jaccard", "--threshold", "0.55"],
        )
        .ok_text();
    assert_eq!(
        json.lines().nth(1),
        // 281 / (385 + 377 - 281)
        Some(
            r#"{"a":"essays/tides-revised.txt","b":"essays/tides.txt","shared":281,"a_in_b":0.72987,"b_in_a":0.745358,"score":0.5842}"#
        )
    );
    assert_eq!(json.lines().count(), 3);
}

#[test]
fn a_table_has_both_directions() {
    assert_eq!(
        demo_index("")
            .run(
                "dedup-extract",
                &[
                    "table",
                    "i",
                    "--top",
                    "1",
                    "--threshold",
                    "0.2",
                    "--format",
                    "tsv"
                ]
            )
            .ok_text(),
        "a\tb\tshared\ta_in_b\tb_in_a\n\
         anthology-review\tlanguages/czech.txt\t53\t0.389706\t0.311765\n\
         essays/bread.txt\tformats/recipe.html\t77\t0.261905\t0.423077\n\
         essays/gettysburg-telegram.txt\tessays/gettysburg.txt\t265\t1\t1\n\
         essays/gettysburg.txt\tessays/gettysburg-telegram.txt\t265\t1\t1\n\
         essays/harbour-inspection.txt\tessays/tides.txt\t69\t0.223301\t0.183024\n\
         essays/tides-revised.txt\tessays/tides.txt\t281\t0.72987\t0.745358\n\
         essays/tides.txt\tessays/tides-revised.txt\t281\t0.745358\t0.72987\n\
         ferry-april\tferry-march\t62\t0.579439\t0.568807\n\
         ferry-march\tferry-march-reprint\t109\t1\t1\n\
         ferry-march-reprint\tferry-march\t109\t1\t1\n\
         formats/recipe.html\tessays/bread.txt\t77\t0.423077\t0.261905\n\
         languages/czech.txt\tanthology-review\t53\t0.311765\t0.389706\n"
    );
}

#[test]
fn clusters_name_what_is_dropped_and_why() {
    let dir = demo_index("");
    assert_eq!(
        dir.run(
            "dedup-extract",
            &[
                "clusters",
                "i",
                "--score",
                "containment",
                "--keep",
                "longest",
                "--format",
                "tsv"
            ]
        )
        .ok_text(),
        "cluster\tdoc\tkept\tduplicate_of\tshared\tscore\n\
         1\tessays/gettysburg-telegram.txt\t1\t\t\t\n\
         1\tessays/gettysburg.txt\t0\tessays/gettysburg-telegram.txt\t265\t1\n\
         2\tessays/tides-revised.txt\t1\t\t\t\n\
         2\tessays/tides.txt\t0\tessays/tides-revised.txt\t281\t0.745358\n\
         3\tferry-march\t1\t\t\t\n\
         3\tferry-april\t0\tferry-march\t62\t0.579439\n\
         3\tferry-march-reprint\t0\tferry-march\t109\t1\n"
    );
    let shortest = dir
        .run(
            "dedup-extract",
            &[
                "clusters",
                "i",
                "--score",
                "containment",
                "--keep",
                "shortest",
            ],
        )
        .ok_text();
    assert_eq!(
        shortest.lines().nth(2),
        Some(
            r#"{"cluster":3,"size":3,"kept":"ferry-april","members":["ferry-april","ferry-march","ferry-march-reprint"],"dropped":[{"doc":"ferry-march","duplicate_of":"ferry-april","shared":62,"score":0.579439},{"doc":"ferry-march-reprint","duplicate_of":"ferry-april","shared":62,"score":0.579439}]}"#
        )
    );
}

#[test]
fn exact_groups_and_blots_are_written() {
    let dir = demo_index("");
    assert_eq!(
        dir.run("dedup-extract", &["exact", "i", "--format", "tsv"])
            .ok_text(),
        "group\tdoc\n1\tessays/gettysburg-telegram.txt\n1\tessays/gettysburg.txt\n2\tferry-march\n2\tferry-march-reprint\n"
    );
    assert_eq!(
        dir.run("dedup-extract", &["exact", "i"])
            .ok_text()
            .lines()
            .nth(1),
        Some(r#"{"group":2,"size":2,"tokens":116,"docs":["ferry-march","ferry-march-reprint"]}"#)
    );
    let blots = dir
        .run("dedup-extract", &["blots", "i", "--format", "tsv"])
        .ok_text();
    assert_eq!(
        blots.lines().take(2).collect::<Vec<_>>(),
        [
            "blot\tdf\tdocs",
            "044f5700ec\t3\t[\"essays/harbour-inspection.txt\",\"essays/tides-revised.txt\",\"essays/tides.txt\"]"
        ]
    );
    let few = dir
        .run(
            "dedup-extract",
            &["blots", "i", "--format", "tsv", "--memory", "1"],
        )
        .ok_text();
    assert_eq!(few, blots);
}

#[test]
fn graphs_are_well_formed() {
    let dir = TestDir::with(&[
        (
            "say \"hi\" & <bye>\\",
            "one two three four five six seven eight nine",
        ),
        ("b", "One two three four five six seven eight nine ten"),
    ]);
    dir.shell("dedup-index build -o i b say*").ok();
    assert_eq!(
        dir.run("dedup-extract", &["graph", "i"]).ok_text(),
        "graph dedup {\n  d0 [label=\"b\" tokens=10];\n  d1 [label=\"say \\\"hi\\\" &amp; <bye>\\\\\" tokens=9];\n  \
         d0 -- d1 [shared=2 a_in_b=0.666667 b_in_a=1 score=0.666667];\n}\n"
    );
    let graphml = dir
        .run("dedup-extract", &["graph", "i", "--format", "graphml"])
        .ok_text();
    assert!(
        graphml.contains("<data key=\"label\">say &quot;hi&quot; &amp; &lt;bye&gt;\\</data>"),
        "{graphml}"
    );
    dir.write("g.xml", graphml);
    let checked = dir.shell("python3 -c 'import sys, xml.dom.minidom as x; d = x.parse(\"g.xml\"); print(len(d.getElementsByTagName(\"node\")), len(d.getElementsByTagName(\"edge\")))'");
    assert_eq!(checked.ok_text(), "2 1\n");
}

#[test]
fn ids_with_tabs_and_line_breaks_stay_in_their_column() {
    let text = "one two three four five six seven eight nine";
    let dir = TestDir::new();
    let line = |id: &str| {
        format!(
            "{{\"id\":{},\"text\":\"{text}\"}}\n",
            serde_json::to_string(id).unwrap()
        )
    };
    dir.write("c.jsonl", line("a\tb\nc\\d\"e") + &line("\"quoted\""));
    dir.run("dedup-index", &["build", "-o", "i", "c.jsonl"])
        .ok();
    let table = dir
        .run("dedup-extract", &["i", "--format", "tsv"])
        .ok_text();
    assert_eq!(
        table,
        "a\tb\tshared\ta_in_b\tb_in_a\tscore\n\\\"quoted\\\"\ta\\tb\\nc\\\\d\\\"e\t2\t1\t1\t1\n"
    );
    let pair = &records(&dir.run("dedup-extract", &["i"]).ok())[0];
    assert_eq!(
        (pair["a"].as_str(), pair["b"].as_str()),
        (Some("\"quoted\""), Some("a\tb\nc\\d\"e"))
    );
}

#[test]
fn estimates_from_selected_blots_are_marked() {
    let dir = demo_index("--select mod:2");
    let pairs = records(&dir.run("dedup-extract", &["i"]).ok());
    assert!(
        !pairs.is_empty()
            && pairs
                .iter()
                .all(|pair| pair["estimate"] == true && pair["shared"].as_u64().unwrap() % 2 == 0)
    );
    let table = dir
        .run("dedup-extract", &["table", "i", "--format", "tsv"])
        .ok_text();
    assert!(
        table.starts_with("a\tb\tshared\ta_in_b\tb_in_a\testimate\n")
            && table.lines().skip(1).all(|line| line.ends_with("\ttrue"))
    );
    let scored = records(
        &dir.run(
            "dedup-extract",
            &["i", "--score", "s1", "--threshold", "250"],
        )
        .ok(),
    );
    assert!(
        scored
            .iter()
            .any(|pair| pair["score"] == pair["shared"] && pair["score"].as_u64() > Some(250)),
        "{scored:?}"
    );
}

#[test]
fn documents_without_blots_are_exact_duplicates_and_nothing_else() {
    let dir = TestDir::with(&[
        ("c/a", ""),
        ("c/b", "…"),
        ("c/c", "some words"),
        ("c/d", "Some words!"),
    ]);
    dir.run("dedup-index", &["build", "-o", "i", "c"]).ok();
    assert_eq!(
        dir.run(
            "dedup-extract",
            &["i", "--threshold", "0", "--format", "tsv"]
        )
        .ok_text(),
        "a\tb\tshared\ta_in_b\tb_in_a\tscore\nc/c\tc/d\t1\t1\t1\t1\n"
    );
    assert_eq!(
        dir.run("dedup-extract", &["exact", "i", "--format", "tsv"])
            .ok_text(),
        "group\tdoc\n1\tc/a\n1\tc/b\n2\tc/c\n2\tc/d\n"
    );
}

#[test]
fn a_damaged_index_gives_an_error_or_the_right_result() {
    let dir = TestDir::with(&[
        ("c/a", "some words that are copied into another text"),
        ("c/b", "some words that are copied into another text too"),
        ("c/c", "Some words that are copied into another text!"),
    ]);
    dir.run("dedup-index", &["build", "-o", "i", "c"]).ok();
    let commands = [&["i"][..], &["clusters", "i"], &["blots", "i"]];
    let whole = commands.map(|arguments| dir.run("dedup-extract", arguments).ok());
    for name in [
        "000001.000.part",
        "000001.docs",
        "000001.sets",
        "manifest.json",
    ] {
        let bytes = dir.read(&format!("i/{name}"));
        for at in (0..bytes.len()).step_by(23) {
            let mut altered = bytes.clone();
            altered[at] ^= 1 << (at % 8);
            for damage in [altered, bytes[..at].to_vec()] {
                dir.write(&format!("i/{name}"), damage);
                let ran = dir.run("dedup-extract", commands[at % 3]);
                assert!(
                    ran.code() == 2 || ran.0.stdout == whole[at % 3],
                    "{name} {at}"
                );
                assert!(
                    !ran.stderr().contains("panicked"),
                    "{name} {at}: {}",
                    ran.stderr()
                );
            }
        }
        dir.write(&format!("i/{name}"), bytes);
    }
}

#[test]
fn contradictory_options_are_refused() {
    let dir = demo_index("");
    for (arguments, message) in [
        (
            &["none"][..],
            "dedup-extract: none: no such file or directory, and no verb",
        ),
        (
            &["i", "--top", "3"],
            "error: unexpected argument '--top' found",
        ),
        (
            &["table", "i", "--score", "s1"],
            "error: unexpected argument '--score' found",
        ),
        (
            &["graph", "i", "--format", "tsv"],
            "error: invalid value 'tsv' for '--format <FORMAT>'",
        ),
        (
            &["i", "--format", "dot"],
            "error: invalid value 'dot' for '--format <FORMAT>'",
        ),
        (
            &["i", "--threshold", "50"],
            "dedup-extract: --threshold 50: jaccard ranges from 0 to 1; did you mean 50%?\n",
        ),
        (
            &["table", "i", "--threshold", "7"],
            "dedup-extract: --threshold 7: a_in_b ranges from 0 to 1; did you mean 7%?\n",
        ),
        (
            &["i", "--score", "s1", "--threshold", "7%"],
            "dedup-extract: --threshold 7%: s1 is a count, not a share; give a number such as 20\n",
        ),
    ] {
        let ran = dir.run("dedup-extract", arguments);
        assert_eq!(
            (ran.code(), ran.stdout().as_str()),
            (2, ""),
            "{arguments:?}"
        );
        assert!(ran.stderr().starts_with(message), "{}", ran.stderr());
    }
    for (arguments, message) in [
        (
            ["pairs", "--threshold", "NaN"],
            "'NaN' is not a number such as 0.5, or a percentage such as 50%",
        ),
        (
            ["pairs", "--threshold", "-0.5"],
            "-0.5 is negative; give a number such as 0.5, or a percentage such as 50%",
        ),
        (
            ["blots", "--sigma", "NaN"],
            "'NaN' is not a number such as 0.5, or a percentage such as 50%",
        ),
        (
            ["blots", "--sigma", "inf"],
            "'inf' is not a number such as 0.5, or a percentage such as 50%",
        ),
        (
            ["compare", "--p-common", "2"],
            "2 is not a share from 0 to 1, or from 0% to 100%",
        ),
    ] {
        let ran = dir.run("dedup-extract", &[&arguments[..], &["i"]].concat());
        assert_eq!(
            (ran.code(), ran.stdout().as_str()),
            (2, ""),
            "{arguments:?}"
        );
        assert!(ran.stderr().contains(message), "{}", ran.stderr());
    }
    dir.write("hosts", "localhost slots=2\n");
    for tool in [
        &["dedup-query", "i", "--threshold", "50"][..],
        &[
            "dedup-shard",
            "plan",
            "-o",
            "r",
            "--hosts",
            "hosts",
            "--table",
            "--threshold",
            "50",
            ".",
        ],
    ] {
        let ran = dir.run(tool[0], &tool[1..]);
        assert_eq!(ran.code(), 2);
        assert!(
            ran.stderr()
                .contains("ranges from 0 to 1; did you mean 50%?"),
            "{}",
            ran.stderr()
        );
    }
    let [share, percent] = ["0.58", "58%"].map(|threshold| {
        dir.run("dedup-extract", &["i", "--threshold", threshold])
            .ok_text()
    });
    assert_eq!((share.lines().count(), &share), (3, &percent));
    let ran = dir.shell("dedup-extract i > /dev/full");
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-extract: stdout: No space left on device (os error 28)\n"
        )
    );
    let closed = dir.shell("dedup-extract blots i | head -1 > /dev/null; echo ${PIPESTATUS[0]}");
    assert_eq!(closed.ok_text(), "0\n");
}

#[test]
fn the_examples_in_the_help_run_and_the_man_page_is_current() {
    let dir = demo_index("");
    let articles = root().join("testdata/corpus/formats/articles.jsonl");
    dir.shell(&format!(
        "mv i my.idx; zstd -q -c {0} > articles.jsonl.zst; mkdir crawl eval; cp {0} crawl; head -n 1 {0} > eval/one.jsonl",
        articles.display()
    ))
    .ok();
    let corpus = root().join("testdata/corpus");
    std::os::unix::fs::symlink(&corpus, dir.path("corpus")).unwrap();
    std::os::unix::fs::symlink(corpus.join("essays"), dir.path("essays")).unwrap();
    dir.write("template.txt", "some words");
    let examples = examples(&dir, "dedup-extract");
    assert!(examples.len() >= 12);
    for example in examples {
        let ran = dir.shell(&format!("{example} > /dev/null"));
        assert_eq!(ran.code(), 0, "{example}: {}", ran.stderr());
        // Verbs that read documents end with an account of the input, and a report with what it holds.
        assert!(
            ran.stderr().is_empty()
                || example.contains(" clean ")
                || ran.stderr().starts_with("dedup-extract: checked ")
                || ran.stderr().starts_with("dedup-extract: read "),
            "{example}: {}",
            ran.stderr()
        );
    }
    let page = dir.run("dedup-extract", &["--generate", "man"]).ok_text();
    assert!(
        page == std::fs::read_to_string(root().join("man/dedup-extract.1")).unwrap(),
        "man/dedup-extract.1 is not current; run make man"
    );
}

/// The two ids that identify a row.
type Key = (String, String);

/// The rows of a table by their ids.
pub type Rows = std::collections::BTreeMap<Key, Vec<String>>;

/// The columns of a TSV table and its rows, each with its ids.
fn tsv_rows(text: &str) -> (Vec<String>, Vec<(Key, Vec<String>)>) {
    let mut lines = text
        .lines()
        .map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let at = |name: &str| names.iter().position(|column| column == name).unwrap();
    let rows = lines
        .map(|row| ((row[at("a")].clone(), row[at("b")].clone()), row))
        .collect();
    (names, rows)
}

pub fn table_rows(text: &str) -> Rows {
    tsv_rows(text).1.into_iter().collect()
}

/// Applies changes to a table; each change must fit the table.
pub fn apply(changes: &str, table: &mut Rows) {
    let (names, changes) = tsv_rows(changes);
    assert_eq!(names[0], "change");
    for (key, row) in changes {
        let (change, row) = (&row[0], row[1..].to_vec());
        let was = if change == "delete" {
            table.remove(&key)
        } else {
            table.insert(key, row.clone())
        };
        assert_eq!(was.is_some(), change != "insert", "{change} {row:?}");
        assert_eq!(
            was.as_ref() == Some(&row),
            change == "delete",
            "{change} {row:?}, was {was:?}"
        );
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(16))]
    /// The old table plus the changes gives the new table, whatever was added, replaced or removed.
    #[test]
    fn old_table_and_changes_give_the_new_table(
        first in proptest::collection::vec(0_u32..12, 1..10),
        steps in proptest::collection::vec((proptest::bool::ANY, proptest::collection::vec((0_usize..14, 0_u32..12), 1..5)), 1..4),
        top in 1_usize..6, max_df in proptest::option::of(1_u32..6), with_ranks in proptest::bool::ANY, select in proptest::sample::select(vec!["all", "mod:2"]),
    ) {
        let dir = TestDir::new();
        let text = |of: u32| (0..14).map(|n| format!("w{} ", if n < 7 { of / 2 * 100 + n } else { of % 3 * 1000 + n })).collect::<String>();
        let line = |id: usize, of: u32| format!("{{\"id\":\"d{id}\",\"text\":\"{}\"}}\n", text(of));
        dir.write("first.jsonl", first.iter().enumerate().map(|(id, &of)| line(id, of)).collect::<String>());
        dir.run("dedup-index", &["build", "-q", "-k", "3", "--select", select, "-o", "i", "first.jsonl"]).ok();
        let top = top.to_string();
        let more = max_df.map_or_else(Vec::new, |df| vec!["--max-df".to_owned(), df.to_string()]);
        let more: Vec<String> = more.into_iter().chain(with_ranks.then(|| "--rank".to_owned())).collect();
        let table = |since: &[&str]| {
            let more: Vec<&str> = more.iter().map(String::as_str).collect();
            dir.run("dedup-extract", &[&["table", "i", "--format", "tsv", "--top", &top], since, &more].concat()).ok_text()
        };
        let rows = table_rows(&table(&[]));
        for (is_removal, documents) in &steps {
            if *is_removal {
                let ids: Vec<_> = documents.iter().map(|(id, _)| format!("d{id}")).collect();
                dir.shell(&format!("dedup-index remove -q --skip-bad --no-compact i {}", ids.join(" "))).ok();
            } else {
                dir.write("more.jsonl", documents.iter().map(|&(id, of)| line(id, of)).collect::<String>());
                dir.shell("dedup-index add -q --skip-bad --no-compact i more.jsonl").ok();
            }
            let changes = table(&["--since", "1"]);
            // With a limit that nothing reaches, all rows of both tables are made and compared.
            if max_df.is_none() {
                let all = table(&["--since", "1", "--max-df", "99999"]);
                proptest::prop_assert_eq!(&changes, &all);
                dir.shell("rm -rf n0 n1 n2").ok();
                for range in 0..3 {
                    count(&dir, "i", (range, 3), Some(1), &format!("n{range}")).unwrap();
                }
                let counted = CountedTable { top: top.parse().unwrap(), threshold: 0.1, max_df: None, since: Some(1), ranks: with_ranks };
                let by_counts = counted.make(&dir, "i", &["n0", "n2", "n1"]).unwrap();
                proptest::prop_assert_eq!(&changes, &by_counts);
            }
            let mut after = rows.clone();
            apply(&changes, &mut after);
            proptest::prop_assert_eq!(&after, &table_rows(&table(&[])));
        }
    }
}

#[test]
fn changes_list_a_row_that_only_moved_only_with_ranks() {
    let own = |of: &str, count: usize| (0..count).map(|n| format!("{of}{n} ")).collect::<String>();
    let dir = TestDir::with(&[
        ("a", own("s", 40)),
        ("b", own("s", 20) + &own("b", 20)),
        ("c", own("s", 15) + &own("c", 15)),
    ]);
    dir.shell("dedup-index build -q -o i a b c").ok();
    dir.write("d", own("s", 30) + &own("d", 10));
    dir.shell("dedup-index add -q i d").ok();
    let changes = |more: &str| {
        dir.shell(&format!(
            "dedup-extract table i --threshold 0.2 --since 1 --format tsv {more}"
        ))
        .ok_text()
    };
    assert_eq!(
        changes(""),
        "change\ta\tb\tshared\ta_in_b\tb_in_a\n\
         insert\ta\td\t23\t0.69697\t0.69697\n\
         insert\tb\td\t13\t0.393939\t0.393939\n\
         insert\tc\td\t8\t0.347826\t0.242424\n\
         insert\td\ta\t23\t0.69697\t0.69697\n\
         insert\td\tb\t13\t0.393939\t0.393939\n\
         insert\td\tc\t8\t0.242424\t0.347826\n"
    );
    assert_eq!(
        changes("--rank")
            .lines()
            .filter(|line| line.starts_with("update"))
            .collect::<Vec<_>>(),
        [
            "update\ta\t2\tb\t13\t0.393939\t0.393939",
            "update\ta\t3\tc\t8\t0.242424\t0.347826",
            "update\tb\t3\tc\t8\t0.242424\t0.347826"
        ]
    );
    let ran = dir.run("dedup-extract", &["i", "--rank"]);
    assert!(
        ran.code() == 2
            && ran
                .stderr()
                .starts_with("error: unexpected argument '--rank' found"),
        "{}",
        ran.stderr()
    );
}

#[test]
fn a_missing_generation_is_refused() {
    let dir = TestDir::with(&[("a", "one two three"), ("b", "four five six")]);
    dir.shell("dedup-index build -o i a; dedup-index add -q i b; dedup-index compact i")
        .ok();
    let ran = dir.run("dedup-extract", &["table", "i", "--since", "1"]);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-extract: i: generation 1 is no longer available: of earlier states the index has 2 to 3; dedup-index pin keeps one for as long as it is pinned\n"
        )
    );
    assert_eq!(
        dir.run("dedup-extract", &["table", "i", "--since", "2"])
            .ok_text(),
        ""
    );
    let ran = dir.run("dedup-extract", &["i", "--since", "2"]);
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr()
            .starts_with("error: unexpected argument '--since' found")
    );
}

#[test]
fn boilerplate_does_not_count() {
    let licence = "permission is hereby granted free of charge to any person obtaining a copy of this software";
    let files: Vec<(String, String)> = (0..6)
        .map(|n| {
            (
                format!("c/{n}"),
                format!(
                    "{licence} {}",
                    (0..20).map(|w| format!("own{n}x{w} ")).collect::<String>()
                ),
            )
        })
        .collect();
    let dir = TestDir::new();
    files.iter().for_each(|(name, text)| dir.write(name, text));
    dir.write("c/copy", format!("{} and so on", files[0].1));
    dir.write("licence", licence);
    dir.shell("dedup-index build -o i c && dedup-index build -o ref licence")
        .ok();
    let pairs = |more: &[&str]| {
        dir.run(
            "dedup-extract",
            &[&["i", "--score", "containment", "--threshold", "0.1"], more].concat(),
        )
        .ok_text()
    };
    assert_eq!(pairs(&[]).lines().count(), 21);
    let pair = |shared: u32, part: &str| {
        format!(
            "{{\"a\":\"c/0\",\"b\":\"c/copy\",\"shared\":{shared},\"a_in_b\":1,\"b_in_a\":{part},\"score\":1}}\n"
        )
    };
    assert_eq!(
        dir.run(
            "dedup-extract",
            &["i", "--score", "containment", "--threshold", "0.9"]
        )
        .ok_text(),
        pair(29, "0.90625")
    );
    // Nine windows consist of the licence alone; windows that reach beyond it count.
    let without = pair(20, "0.869565");
    for (more, header) in [
        (
            ["--exclude-text", "licence"],
            "\"exclude\":[\"licence\"],\"exclude_index\":[],\"max_df\":null",
        ),
        (
            ["--exclude-index", "ref"],
            "\"exclude\":[],\"exclude_index\":[\"ref\"],\"max_df\":null",
        ),
        (
            ["--max-df", "3"],
            "\"exclude\":[],\"exclude_index\":[],\"max_df\":3",
        ),
    ] {
        let head = format!(
            "{{\"dedup\":\"extract\",{},\"scheme\":\"words@18.0/49 ordered:8:40 all\",\"version\":1}}\n",
            header
        );
        assert_eq!(pairs(&more), head + &without, "{more:?}");
    }
    let ran = dir.run("dedup-extract", &["i", "--exclude-text", "nothing"]);
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr()
            .starts_with("dedup-extract: nothing: No such file"),
        "{}",
        ran.stderr()
    );
}

#[test]
fn the_versions_script_judges_pairs_by_groups() {
    let dir = TestDir::with(&[
        ("groups", "one\ta1\none\ta2\none\ta3\ntwo\tb1\ntwo\tb2\n"),
        (
            "pairs",
            "a\tb\tshared\na1\ta2\t9\na1\ta3\t9\nb1\tother\t9\na1\tb1\t9\n",
        ),
    ]);
    // 2 of 4 pairs of versions are found; 2 of 4 found pairs are right; of the pairs of a1 2 in 3,
    // of a2 and a3 all, of b1 none: (⅔ + 1 + 1 + 0) ÷ 4.
    let judged = dir
        .shell(&format!(
            "{}/scripts/evaluate/versions --judge groups pairs",
            root().display()
        ))
        .ok_text();
    assert_eq!(
        judged,
        "4 pairs: coverage 50.0 %, average precision 66.7 %, density 50.0 %\n"
    );
}
