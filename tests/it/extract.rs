//! dedup-extract from outside: what it writes, and how it refuses.

use crate::work::{Work, records, root};

/// An index of the collection that comes along.
fn demo(options: &str) -> Work {
    let work = Work::new();
    let corpus = root().join("testdata/corpus");
    work.shell(&format!("dedup-index build -o i --relative {options} {}", corpus.display())).ok();
    work
}

#[test]
fn pairs_as_table_and_as_json() {
    let work = demo("");
    assert_eq!(
        work.run("dedup-extract", &["i", "--format", "tsv"]).ok_text(),
        "a\tb\tshared\ta_in_b\tb_in_a\tscore\n\
         essays/gettysburg-telegram.txt\tessays/gettysburg.txt\t265\t1\t1\t1\n\
         essays/tides-revised.txt\tessays/tides.txt\t281\t0.72987\t0.745358\t0.745358\n\
         ferry-march\tferry-march-reprint\t109\t1\t1\t1\n\
         ferry-march\tferry-april\t62\t0.568807\t0.579439\t0.579439\n\
         ferry-march-reprint\tferry-april\t62\t0.568807\t0.579439\t0.579439\n"
    );
    let json = work.run("dedup-extract", &["i", "--score", "jaccard", "--threshold", "0.55"]).ok_text();
    assert_eq!(
        json.lines().nth(1),
        // 281 / (385 + 377 - 281)
        Some(r#"{"a":"essays/tides-revised.txt","b":"essays/tides.txt","shared":281,"a_in_b":0.72987,"b_in_a":0.745358,"score":0.5842}"#)
    );
    assert_eq!(json.lines().count(), 3);
}

#[test]
fn a_table_has_both_directions() {
    assert_eq!(
        demo("").run("dedup-extract", &["i", "--as", "table", "--top", "1", "--threshold", "0.2", "--format", "tsv"]).ok_text(),
        "a\trank\tb\tshared\ta_in_b\tb_in_a\n\
         essays/gettysburg-telegram.txt\t1\tessays/gettysburg.txt\t265\t1\t1\n\
         essays/gettysburg.txt\t1\tessays/gettysburg-telegram.txt\t265\t1\t1\n\
         essays/harbour-inspection.txt\t1\tessays/tides.txt\t69\t0.223301\t0.183024\n\
         essays/tides-revised.txt\t1\tessays/tides.txt\t281\t0.72987\t0.745358\n\
         essays/tides.txt\t1\tessays/tides-revised.txt\t281\t0.745358\t0.72987\n\
         ferry-march\t1\tferry-march-reprint\t109\t1\t1\n\
         ferry-march-reprint\t1\tferry-march\t109\t1\t1\n\
         ferry-april\t1\tferry-march\t62\t0.579439\t0.568807\n\
         anthology-review\t1\tlanguages/czech.txt\t53\t0.389706\t0.311765\n\
         languages/czech.txt\t1\tanthology-review\t53\t0.311765\t0.389706\n"
    );
}

#[test]
fn clusters_name_what_is_dropped_and_why() {
    let work = demo("");
    assert_eq!(
        work.run("dedup-extract", &["i", "--as", "clusters", "--keep", "longest", "--format", "tsv"]).ok_text(),
        "cluster\tdoc\tkept\tduplicate_of\tshared\tscore\n\
         1\tessays/gettysburg-telegram.txt\t1\t\t\t\n\
         1\tessays/gettysburg.txt\t0\tessays/gettysburg-telegram.txt\t265\t1\n\
         2\tessays/tides-revised.txt\t1\t\t\t\n\
         2\tessays/tides.txt\t0\tessays/tides-revised.txt\t281\t0.745358\n\
         3\tferry-march\t1\t\t\t\n\
         3\tferry-march-reprint\t0\tferry-march\t109\t1\n\
         3\tferry-april\t0\tferry-march\t62\t0.579439\n"
    );
    let shortest = work.run("dedup-extract", &["i", "--as", "clusters", "--keep", "shortest"]).ok_text();
    assert_eq!(
        shortest.lines().nth(2),
        Some(
            r#"{"cluster":3,"size":3,"kept":"ferry-april","members":["ferry-march","ferry-march-reprint","ferry-april"],"dropped":[{"doc":"ferry-march","duplicate_of":"ferry-april","shared":62,"score":0.579439},{"doc":"ferry-march-reprint","duplicate_of":"ferry-april","shared":62,"score":0.579439}]}"#
        )
    );
}

#[test]
fn exact_groups_and_blots() {
    let work = demo("");
    assert_eq!(
        work.run("dedup-extract", &["i", "--as", "exact", "--format", "tsv"]).ok_text(),
        "group\tdoc\n1\tessays/gettysburg-telegram.txt\n1\tessays/gettysburg.txt\n2\tferry-march\n2\tferry-march-reprint\n"
    );
    assert_eq!(
        work.run("dedup-extract", &["i", "--as", "exact"]).ok_text().lines().nth(1),
        Some(r#"{"group":2,"size":2,"tokens":116,"docs":["ferry-march","ferry-march-reprint"]}"#)
    );
    let blots = work.run("dedup-extract", &["i", "--as", "blots", "--format", "tsv"]).ok_text();
    assert_eq!(
        blots.lines().take(2).collect::<Vec<_>>(),
        ["blot\tdf\tdocs", "044f5700\t3\t[\"essays/harbour-inspection.txt\",\"essays/tides-revised.txt\",\"essays/tides.txt\"]"]
    );
    let few = work.run("dedup-extract", &["i", "--as", "blots", "--format", "tsv", "--memory", "1"]).ok_text();
    assert_eq!(few, blots);
}

#[test]
fn graphs_are_well_formed() {
    let work = Work::with(&[
        ("say \"hi\" & <bye>\\", "one two three four five six seven eight nine"),
        ("b", "One two three four five six seven eight nine ten"),
    ]);
    work.shell("dedup-index build -o i b say*").ok();
    assert_eq!(
        work.run("dedup-extract", &["i", "--as", "graph"]).ok_text(),
        "graph dedup {\n  d0 [label=\"b\" tokens=10];\n  d1 [label=\"say \\\"hi\\\" &amp; <bye>\\\\\" tokens=9];\n  \
         d0 -- d1 [shared=2 a_in_b=0.666667 b_in_a=1 score=1];\n}\n"
    );
    let graphml = work.run("dedup-extract", &["i", "--as", "graph", "--format", "graphml"]).ok_text();
    assert!(graphml.contains("<data key=\"label\">say &quot;hi&quot; &amp; &lt;bye&gt;\\</data>"), "{graphml}");
    work.write("g.xml", graphml);
    let checked = work.shell("python3 -c 'import sys, xml.dom.minidom as x; d = x.parse(\"g.xml\"); print(len(d.getElementsByTagName(\"node\")), len(d.getElementsByTagName(\"edge\")))'");
    assert_eq!(checked.ok_text(), "2 1\n");
}

#[test]
fn ids_stay_in_their_column() {
    let text = "one two three four five six seven eight nine";
    let work = Work::new();
    let line = |id: &str| format!("{{\"id\":{},\"text\":\"{text}\"}}\n", serde_json::to_string(id).unwrap());
    work.write("c.jsonl", line("a\tb\nc\\d\"e") + &line("\"quoted\""));
    work.run("dedup-index", &["build", "-o", "i", "c.jsonl"]).ok();
    let table = work.run("dedup-extract", &["i", "--format", "tsv"]).ok_text();
    assert_eq!(table, "a\tb\tshared\ta_in_b\tb_in_a\tscore\na\\tb\\nc\\\\d\\\"e\t\\\"quoted\\\"\t2\t1\t1\t1\n");
    let pair = &records(&work.run("dedup-extract", &["i"]).ok())[0];
    assert_eq!((pair["a"].as_str(), pair["b"].as_str()), (Some("a\tb\nc\\d\"e"), Some("\"quoted\"")));
}

#[test]
fn a_table_goes_into_sqlite() {
    let work = demo("");
    if work.shell("command -v sqlite3").code() != 0 {
        return eprintln!("no sqlite3 here: skipped");
    }
    work.run("dedup-extract", &["i", "--as", "table", "--format", "tsv", "-o", "t.tsv"]).ok();
    let line =
        "sqlite3 t.db '.mode tabs' '.import t.tsv similar' \"select b, a_in_b from similar where a = 'ferry-april' order by rank + 0\"";
    assert_eq!(work.shell(line).ok_text(), "ferry-march\t0.579439\nferry-march-reprint\t0.579439\n");
}

#[test]
fn selected_blots_give_estimates_that_say_so() {
    let work = demo("--select mod:2");
    let pairs = records(&work.run("dedup-extract", &["i"]).ok());
    assert!(!pairs.is_empty() && pairs.iter().all(|pair| pair["estimate"] == true && pair["shared"].as_u64().unwrap() % 2 == 0));
    let table = work.run("dedup-extract", &["i", "--as", "table", "--format", "tsv"]).ok_text();
    assert!(
        table.starts_with("a\trank\tb\tshared\ta_in_b\tb_in_a\testimate\n") && table.lines().skip(1).all(|line| line.ends_with("\ttrue"))
    );
    let scored = records(&work.run("dedup-extract", &["i", "--score", "s1", "--threshold", "250"]).ok());
    assert!(scored.iter().any(|pair| pair["score"] == pair["shared"] && pair["score"].as_u64() > Some(250)), "{scored:?}");
}

#[test]
fn documents_without_blots_are_exact_duplicates_and_nothing_else() {
    let work = Work::with(&[("c/a", ""), ("c/b", "…"), ("c/c", "some words"), ("c/d", "Some words!")]);
    work.run("dedup-index", &["build", "-o", "i", "c"]).ok();
    assert_eq!(
        work.run("dedup-extract", &["i", "--threshold", "0", "--format", "tsv"]).ok_text(),
        "a\tb\tshared\ta_in_b\tb_in_a\tscore\nc/c\tc/d\t1\t1\t1\t1\n"
    );
    assert_eq!(
        work.run("dedup-extract", &["i", "--as", "exact", "--format", "tsv"]).ok_text(),
        "group\tdoc\n1\tc/a\n1\tc/b\n2\tc/c\n2\tc/d\n"
    );
}

#[test]
fn damage_is_an_error_or_does_no_harm() {
    let work = Work::with(&[
        ("c/a", "some words that are copied into another text"),
        ("c/b", "some words that are copied into another text too"),
        ("c/c", "Some words that are copied into another text!"),
    ]);
    work.run("dedup-index", &["build", "-o", "i", "c"]).ok();
    let commands = [&["i"][..], &["i", "--as", "clusters"], &["i", "--as", "blots"]];
    let whole = commands.map(|arguments| work.run("dedup-extract", arguments).ok());
    for name in ["000001.000.part", "000001.docs", "000001.sets", "manifest.json"] {
        let bytes = work.read(&format!("i/{name}"));
        for at in (0..bytes.len()).step_by(23) {
            let mut altered = bytes.clone();
            altered[at] ^= 1 << (at % 8);
            for damage in [altered, bytes[..at].to_vec()] {
                work.write(&format!("i/{name}"), damage);
                let ran = work.run("dedup-extract", commands[at % 3]);
                assert!(ran.code() == 2 || ran.0.stdout == whole[at % 3], "{name} {at}");
                assert!(!ran.stderr().contains("panicked"), "{name} {at}: {}", ran.stderr());
            }
        }
        work.write(&format!("i/{name}"), bytes);
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let work = demo("");
    for (arguments, message) in [
        (&["none"][..], "none: no dedup index is here"),
        (&["i", "--top", "3"], "--top has no meaning with --as pairs; leave it out"),
        (&["i", "--as", "table", "--score", "s1"], "--score has no meaning with --as table; leave it out"),
        (&["i", "--as", "graph", "--format", "tsv"], "--as graph is written as dot or graphml, not as tsv"),
        (&["i", "--format", "dot"], "--as pairs is written as ndjson or tsv, not as dot"),
        (&["i", "--threshold", "NaN"], "the threshold is NaN; it must be a number"),
    ] {
        let ran = work.run("dedup-extract", arguments);
        assert_eq!((ran.code(), ran.stdout().as_str()), (2, ""), "{arguments:?}");
        assert!(ran.stderr().starts_with(&format!("dedup-extract: {message}")), "{}", ran.stderr());
    }
    assert_eq!(work.run("dedup-extract", &["i", "--threshold", "7"]).ok(), b"");
    let ran = work.shell("dedup-extract i > /dev/full");
    assert_eq!((ran.code(), ran.stderr().as_str()), (2, "dedup-extract: stdout: No space left on device (os error 28)\n"));
    let closed = work.shell("dedup-extract i --as blots | head -1 > /dev/null; echo ${PIPESTATUS[0]}");
    assert_eq!(closed.ok_text(), "0\n");
}

#[test]
fn the_examples_of_help_run_and_the_page_is_current() {
    let work = demo("");
    let articles = root().join("testdata/corpus/formats/articles.jsonl");
    work.shell(&format!("mv i my.idx; zstd -q -c {} > articles.jsonl.zst", articles.display())).ok();
    std::os::unix::fs::symlink(root().join("testdata/corpus"), work.path("corpus")).unwrap();
    work.write("template.txt", "some words");
    let help = work.run("dedup-extract", &["--help"]).ok_text();
    let examples: Vec<_> = help.split("Examples:").nth(1).unwrap().lines().filter_map(|line| line.strip_prefix("    ")).collect();
    assert!(examples.len() >= 6);
    for example in examples {
        work.shell(&format!("{example} > /dev/null")).ok();
    }
    let page = work.run("dedup-extract", &["--generate", "man"]).ok_text();
    assert!(
        page == std::fs::read_to_string(root().join("man/dedup-extract.1")).unwrap(),
        "man/dedup-extract.1 is not current; run make man"
    );
}

/// The table as rows by both ids.
fn table_rows(bytes: &[u8]) -> std::collections::BTreeMap<(String, String), Vec<String>> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let rows = text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
    rows.map(|row| ((row[0].clone(), row[2].clone()), row)).collect()
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(16))]
    /// The old table and the changes give the new table, whatever was added, replaced or removed.
    #[test]
    fn old_table_and_changes_give_the_new_table(
        first in proptest::collection::vec(0_u32..12, 1..10),
        steps in proptest::collection::vec((proptest::bool::ANY, proptest::collection::vec((0_usize..14, 0_u32..12), 1..5)), 1..4),
        top in 1_usize..6, max_df in proptest::option::of(1_u32..6),
    ) {
        let work = Work::new();
        let text = |of: u32| (0..14).map(|n| format!("w{} ", if n < 7 { of / 2 * 100 + n } else { of % 3 * 1000 + n })).collect::<String>();
        let line = |id: usize, of: u32| format!("{{\"id\":\"d{id}\",\"text\":\"{}\"}}\n", text(of));
        work.write("first.jsonl", first.iter().enumerate().map(|(id, &of)| line(id, of)).collect::<String>());
        work.run("dedup-index", &["build", "-q", "-k", "3", "-o", "i", "first.jsonl"]).ok();
        let top = top.to_string();
        let more: Vec<String> = max_df.map_or_else(Vec::new, |df| vec!["--max-df".to_owned(), df.to_string()]);
        let table = |since: &[&str]| {
            let more: Vec<&str> = more.iter().map(String::as_str).collect();
            work.run("dedup-extract", &[&["i", "--as", "table", "--format", "tsv", "--top", &top], since, &more].concat()).ok()
        };
        let rows = table_rows(&table(&[]));
        for (is_removal, documents) in &steps {
            if *is_removal {
                let ids: Vec<_> = documents.iter().map(|(id, _)| format!("d{id}")).collect();
                work.shell(&format!("dedup-index remove -q --skip-bad --no-compact i {}", ids.join(" "))).ok();
            } else {
                work.write("more.jsonl", documents.iter().map(|&(id, of)| line(id, of)).collect::<String>());
                work.shell("dedup-index add -q --skip-bad --no-compact i more.jsonl").ok();
            }
            let changes = String::from_utf8(table(&["--since", "1"])).unwrap();
            // A limit that nothing reaches: all rows of both tables are made, and compared.
            if max_df.is_none() {
                let all = String::from_utf8(table(&["--since", "1", "--max-df", "99999"])).unwrap();
                proptest::prop_assert_eq!(&changes, &all);
                let counted = "for n in 0 1 2; do rm -rf n$n; dedup-index step count --since 1 --range $n/3 -o n$n i; done";
                work.shell(counted).ok();
                let by_counts = table(&["--since", "1", "--counts", "n0/counts", "--counts", "n2/counts", "--counts", "n1/counts"]);
                proptest::prop_assert_eq!(&changes, &String::from_utf8(by_counts).unwrap());
            }
            let mut after = rows.clone();
            for change in changes.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>()) {
                let key = (change[1].clone(), change[3].clone());
                let was = if change[0] == "delete" { after.remove(&key) } else { after.insert(key, change[1..].to_vec()) };
                proptest::prop_assert_eq!(was.is_some(), change[0] != "insert", "{:?}", change);
                proptest::prop_assert!(was != Some(change[1..].to_vec()) || change[0] == "delete", "{:?}", change);
            }
            proptest::prop_assert_eq!(&after, &table_rows(&table(&[])));
        }
    }
}

#[test]
fn a_generation_that_is_not_there_is_refused() {
    let work = Work::with(&[("a", "one two three"), ("b", "four five six")]);
    work.shell("dedup-index build -o i a; dedup-index add -q i b; dedup-index compact i").ok();
    let ran = work.run("dedup-extract", &["i", "--as", "table", "--since", "1"]);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (2, "dedup-extract: i: generation 1 is not there any more, or not yet: the index has 2 to 3\n")
    );
    assert_eq!(work.run("dedup-extract", &["i", "--as", "table", "--since", "2"]).ok_text(), "");
    let ran = work.run("dedup-extract", &["i", "--since", "2"]);
    assert_eq!((ran.code(), ran.stderr().as_str()), (2, "dedup-extract: --since has no meaning with --as pairs; leave it out\n"));
}

#[test]
fn boilerplate_does_not_count() {
    let licence = "permission is hereby granted free of charge to any person obtaining a copy of this software";
    let files: Vec<(String, String)> =
        (0..6).map(|n| (format!("c/{n}"), format!("{licence} {}", (0..20).map(|w| format!("own{n}x{w} ")).collect::<String>()))).collect();
    let work = Work::new();
    files.iter().for_each(|(name, text)| work.write(name, text));
    work.write("c/copy", format!("{} and so on", files[0].1));
    work.write("licence", licence);
    work.shell("dedup-index build -o i c && dedup-index build -o ref licence").ok();
    let pairs = |more: &[&str]| work.run("dedup-extract", &[&["i", "--threshold", "0.1"], more].concat()).ok_text();
    assert_eq!(pairs(&[]).lines().count(), 21);
    let pair = |shared: u32, part: &str| {
        format!("{{\"a\":\"c/0\",\"b\":\"c/copy\",\"shared\":{shared},\"a_in_b\":1,\"b_in_a\":{part},\"score\":1}}\n")
    };
    assert_eq!(work.run("dedup-extract", &["i", "--threshold", "0.9"]).ok_text(), pair(29, "0.90625"));
    // Nine windows are the licence alone; those that reach beyond it count.
    let without = pair(20, "0.869565");
    for (more, header) in [
        (["--exclude", "licence"], "\"exclude\":[\"licence\"],\"exclude_index\":[],\"max_df\":null"),
        (["--exclude-index", "ref"], "\"exclude\":[],\"exclude_index\":[\"ref\"],\"max_df\":null"),
        (["--ignore-df", "3"], "\"exclude\":[],\"exclude_index\":[],\"max_df\":3"),
    ] {
        let head = format!("{{\"dedup\":\"extract\",{},\"scheme\":\"word@18.0 ordered:8:32 all\",\"version\":1}}\n", header);
        assert_eq!(pairs(&more), head + &without, "{more:?}");
    }
    let ran = work.run("dedup-extract", &["i", "--exclude", "nothing"]);
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr().starts_with("dedup-extract: nothing: No such file"), "{}", ran.stderr());
}

#[test]
fn pairs_judged_by_groups_of_versions() {
    let work = Work::with(&[
        ("groups", "one\ta1\none\ta2\none\ta3\ntwo\tb1\ntwo\tb2\n"),
        ("pairs", "a\tb\tshared\na1\ta2\t9\na1\ta3\t9\nb1\tother\t9\na1\tb1\t9\n"),
    ]);
    // 2 of 4 pairs of versions; 2 of 4 are right; of a1's pairs 2 in 3, all of a2's and a3's, none of b1's: (⅔ + 1 + 1 + 0) ÷ 4.
    let judged = work.shell(&format!("{}/scripts/deco --judge groups pairs", root().display())).ok_text();
    assert_eq!(judged, "4 pairs: coverage 50.0 %, average precision 66.7 %, density 50.0 %\n");
}
