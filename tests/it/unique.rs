//! A corpus in, a clean corpus out; and what of each document was seen before.

use crate::work::{Work, records};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

const COPIES: [&str; 9] = [
    r#"{"id":"a","text":"one two three four five six seven eight nine ten"}"#,
    r#"  { "text" : "One, two; three four five six seven eight nine ten eleven" , "more":[1, 2], "id":"b" }"#,
    r#"{"id":"c","text":"nothing of all this is in any other document of the corpus"}"#,
    r#"{"text":"ONE TWO three four five six seven eight nine ten"}"#,
    "",
    r#"{"id":5,"text":"…"}"#,
    r#"{"id":"e","text":""}"#,
    r#"{"id":"f","text":"!"}"#,
    r#"{"id":"g","text":"one two three four five six"}"#,
];

/// Joins lines of [`COPIES`].
fn lines(of: &[usize]) -> String {
    of.iter().map(|&line| format!("{}\n", COPIES[line])).collect()
}

fn copies() -> Work {
    let work = Work::with(&[("c.jsonl", lines(&[0, 1, 2, 3, 4, 5, 6, 7, 8]))]);
    work.run("dedup-index", &["build", "-o", "i", "c.jsonl"]).ok();
    work
}

#[test]
fn lines_to_keep_are_printed_as_they_came() {
    let work = copies();
    assert_eq!(work.run("dedup-extract", &["i", "--unique", "c.jsonl"]).ok_text(), lines(&[0, 2, 4, 5, 8]));
    let longest = ["i", "--unique", "c.jsonl", "--keep", "longest", "--dropped", "d"];
    assert_eq!(work.run("dedup-extract", &longest).ok_text(), lines(&[1, 2, 4, 5, 8]));
    assert_eq!(
        String::from_utf8(work.read("d")).unwrap(),
        "{\"doc\":\"a\",\"duplicate_of\":\"b\",\"shared\":3,\"score\":1}\n\
         {\"doc\":\"c.jsonl:4\",\"duplicate_of\":\"b\",\"shared\":3,\"score\":1}\n\
         {\"doc\":\"e\",\"duplicate_of\":\"5\",\"shared\":0,\"score\":null}\n\
         {\"doc\":\"f\",\"duplicate_of\":\"5\",\"shared\":0,\"score\":null}\n"
    );
    assert_eq!(work.run("dedup-extract", &["i", "--unique", "c.jsonl", "--keep", "last"]).ok_text(), lines(&[2, 3, 4, 7, 8]));
    // Exact duplicates are dropped, whatever the threshold.
    assert_eq!(work.run("dedup-extract", &["i", "--unique", "c.jsonl", "--score", "s1"]).ok_text(), lines(&[0, 1, 2, 4, 5, 8]));
}

#[test]
fn several_files_stdin_and_what_is_packed() {
    let work = copies();
    work.write("d.jsonl", lines(&[2, 3]).trim_end());
    work.shell("zstd -q c.jsonl -o c.jsonl.zst; gzip -k d.jsonl").ok();
    let line = "dedup-extract i --unique d.jsonl.gz c.jsonl.zst -o o.jsonl.zst && zstd -t -q o.jsonl.zst && zstdcat o.jsonl.zst > o.jsonl";
    let ran = work.shell(line);
    // The ids of lines without one are those of their files: these two are not in the index.
    assert_eq!(ran.stderr(), "dedup-extract: 2 of 10 documents are not in i, and are kept\n");
    assert_eq!(ran.code(), 0);
    assert_eq!(String::from_utf8(work.read("o.jsonl")).unwrap(), lines(&[2, 3, 0, 2, 3, 4, 5, 8]));
    work.shell("dedup-extract i -q --unique < c.jsonl -o o.gz && gunzip -c o.gz > o").ok();
    assert_eq!(work.read("o"), lines(&[0, 2, 3, 4, 5, 8]).as_bytes());
    assert_eq!(work.run_with("dedup-extract", &["i", "--unique", "-q", "-"], lines(&[0, 1]).as_bytes()).ok_text(), lines(&[0]));
}

#[test]
fn nothing_else_is_lost() {
    let work = copies();
    let bad = "not JSON\n{\"id\":\"b\"}\n\u{feff}\n{\"id\":\"x\",\"text\":\"new\"}\r\n";
    work.write("c.jsonl", lines(&[0, 1]) + bad + &lines(&[1]));
    let ran = work.run("dedup-extract", &["i", "--unique", "c.jsonl"]);
    assert_eq!((ran.code(), ran.stdout()), (2, lines(&[0]) + bad + &lines(&[1])));
    assert_eq!(
        ran.stderr(),
        "dedup-extract: c.jsonl:3: not JSON: expected ident at column 2; the line is kept\n\
         dedup-extract: c.jsonl:4: no field 'text' with a text; the line is kept\n\
         dedup-extract: c.jsonl:5: not JSON: expected value at column 1; the line is kept\n\
         dedup-extract: c.jsonl:7: a line with the id 'b' came before; this one is kept\n\
         dedup-extract: 1 of 4 documents are not in i, and are kept\n"
    );
    let ran = work.run("dedup-extract", &["i", "-q", "--skip-bad", "--unique", "c.jsonl"]);
    assert_eq!(ran.ok_text(), lines(&[0]) + bad + &lines(&[1]));
    work.write("latin.jsonl", b"{\"id\":\"b\",\"text\":\"\xe9\"}\n");
    let ran = work.run("dedup-extract", &["i", "--unique", "latin.jsonl"]);
    assert_eq!((ran.code(), ran.0.stdout), (2, work.read("latin.jsonl")));
    assert_eq!(work.run("dedup-extract", &["i", "--unique", "--lossy", "latin.jsonl"]).ok(), b"");
    let ran = work.run("dedup-extract", &["i", "--unique", "--id-field", "no", "latin.jsonl", "--lossy"]);
    assert!(
        ran.code() == 0
            && ran.stderr().ends_with(
                "1 of 1 documents are not in i, and are kept; is it the index of this corpus, and --id-field as it was built with?\n"
            )
    );
}

#[test]
fn boilerplate_makes_no_duplicate() {
    let notice = (0..40).map(|n| format!("notice{n} ")).collect::<String>();
    let text = |n: usize| format!("{notice}{}", (0..20).map(|w| format!("own{n}x{w} ")).collect::<String>());
    let line = |n: usize| format!("{{\"id\":\"{n}\",\"text\":\"{}\"}}\n", text(n));
    let work = Work::new();
    work.write("c.jsonl", (0..3).map(line).collect::<String>());
    work.write("notice", &notice);
    work.shell("dedup-index build -o i c.jsonl && dedup-index build -o ref notice").ok();
    assert_eq!(work.run("dedup-extract", &["i", "--unique", "c.jsonl"]).ok_text(), line(0));
    for flags in [["--exclude", "notice"], ["--exclude-index", "ref"]] {
        let kept = work.run("dedup-extract", &[&["i", "--unique", "c.jsonl"], &flags[..]].concat()).ok_text();
        assert_eq!(kept, (0..3).map(line).collect::<String>(), "{flags:?}");
    }
}

#[test]
fn damage_leaves_no_output() {
    let work = copies();
    work.shell(
        "zstd -q c.jsonl -o c.zst; head -c -9 c.zst > cut.jsonl.zst; gzip -c c.jsonl | head -c -9 > cut.jsonl.gz; echo text > note.txt",
    )
    .ok();
    for (name, message) in [
        ("cut.jsonl.zst", "incomplete frame"),
        ("cut.jsonl.gz", ""),
        ("none.jsonl", "No such file or directory (os error 2)"),
        (
            "note.txt",
            "note.txt: not a document a line; --records ndjson reads it as if it were, --as clusters says which whole files to drop",
        ),
    ] {
        let ran = work.run("dedup-extract", &["i", "--unique", "c.jsonl", name, "-o", "out", "--dropped", "gone"]);
        assert_eq!(ran.code(), 2, "{name}");
        assert!(ran.stderr().contains(message) && !ran.stderr().contains("left out"), "{}", ran.stderr());
        assert!(!work.path("out").exists() && !work.path("gone").exists());
    }
    assert_eq!(work.shell("ls -A | grep tmp").stdout(), "");
    for (arguments, message) in [
        (&["i", "c.jsonl"][..], "PATH has no meaning with --as pairs; leave it out"),
        (&["i", "--unique", "--top", "3"], "--top has no meaning with --unique; leave it out"),
        (&["i", "--unique", "--dropped", "-"], "what is kept and what is dropped would go to one place; give -o and --dropped two files"),
    ] {
        assert_eq!(work.run("dedup-extract", arguments).stderr(), format!("dedup-extract: {message}\n"));
    }
    assert_eq!(
        work.shell("dedup-extract i --unique c.jsonl > /dev/full").stderr(),
        "dedup-extract: stdout: No space left on device (os error 28)\n"
    );
}

/// Small documents of few words, so that many are alike.
fn corpora() -> impl Strategy<Value = Vec<String>> {
    let text = prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "Dé", "e-f"]), 0..14).prop_map(|words| words.join(" "));
    prop::collection::vec(text, 0..24)
}

fn write_corpus(work: &Work, texts: &[String]) {
    let line = |(number, text): (usize, &String)| format!("{}\n", serde_json::json!({ "id": format!("d{number}"), "text": text }));
    work.write("c.jsonl", texts.iter().enumerate().map(line).collect::<String>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// What is printed is what no cluster and no exact group drops, for any number of threads.
    #[test]
    fn unique_is_what_clusters_keep(texts in corpora(), keep in prop::sample::select(vec!["first", "last", "longest", "shortest"]), threshold in 0.1_f64..1.0, k in 1_u32..5) {
        let work = Work::new();
        write_corpus(&work, &texts);
        work.shell(&format!("dedup-index build -q -k {k} -o i c.jsonl")).ok();
        let options = format!("--score jaccard --threshold {threshold} --keep {keep}");
        let clusters = records(&work.shell(&format!("dedup-extract i --as clusters {options}")).ok());
        let mut gone: HashMap<String, serde_json::Value> =
            clusters.iter().flat_map(|cluster| cluster["dropped"].as_array().unwrap()).map(|row| (row["doc"].as_str().unwrap().to_owned(), row.clone())).collect();
        let empty: Vec<_> = (0..texts.len()).filter(|&at| texts[at].is_empty()).map(|at| format!("d{at}")).collect();
        if let Some(kept) = if keep == "last" { empty.last() } else { empty.first() } {
            let row = |doc: &String| serde_json::json!({ "doc": doc, "duplicate_of": kept, "shared": 0, "score": null });
            gone.extend(empty.iter().filter(|doc| *doc != kept).map(|doc| (doc.clone(), row(doc))));
        }
        let lines = String::from_utf8(work.read("c.jsonl")).unwrap();
        let id = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
        let (dropped, kept): (Vec<_>, Vec<_>) = lines.lines().partition(|line| gone.contains_key(&id(line)));
        let kept: String = kept.iter().map(|line| format!("{line}\n")).collect();
        for threads in [1, 8] {
            let ran = work.shell(&format!("dedup-extract i --unique c.jsonl {options} --threads {threads} --dropped gone"));
            prop_assert_eq!(ran.ok_text(), kept.clone());
            let expected: Vec<_> = dropped.iter().map(|line| gone[&id(line)].clone()).collect();
            prop_assert_eq!(records(&work.read("gone")), expected);
        }
    }
}

#[test]
fn many_lines_come_out_the_same_for_any_number_of_threads() {
    let work = Work::new();
    let line = |number: usize| {
        format!("{{\"id\":{number},\"text\":\"{} some more words of a text that is long {}\"}}\n", number % 701, number % 701)
    };
    work.write("c.jsonl", (0..20_000).map(line).collect::<String>());
    work.run("dedup-index", &["build", "-q", "-o", "i", "c.jsonl"]).ok();
    let [one, eight] = ["1", "8"].map(|threads| {
        work.run("dedup-extract", &["i", "--unique", "c.jsonl", "--score", "jaccard", "--threshold", "1", "--threads", threads]).ok()
    });
    let expected: String = (0..701).map(line).collect();
    assert!(one == eight && one == expected.as_bytes());
    let ids: HashSet<_> = records(&one).iter().map(|record| record["id"].clone()).collect();
    assert_eq!(ids.len(), 701);
}

/// What `--as spans` must say, from tokens and their places: a window counts as seen if an earlier document has it.
fn brute_spans(tokens: &[serde_json::Value], k: usize) -> Vec<Vec<[u64; 2]>> {
    let mut before = HashSet::new();
    let mut all = Vec::new();
    for record in tokens {
        let words: Vec<_> = record["tokens"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
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
        all.push(found);
    }
    all
}

/// Windows of k tokens that no cut went through.
fn uncut_windows(record: &serde_json::Value, cut: &[[u64; 2]], k: usize) -> HashSet<String> {
    let places: Vec<[u64; 2]> = serde_json::from_value(record["spans"].clone()).unwrap();
    let words: Vec<_> = record["tokens"].as_array().unwrap().iter().zip(places).collect();
    let is_whole = |window: &&[(&serde_json::Value, [u64; 2])]| {
        let (start, end) = (window[0].1[0], window[k - 1].1[1]);
        cut.iter().all(|span| span[1] <= start || end <= span[0])
    };
    let join = |window: &[(&serde_json::Value, [u64; 2])]| window.iter().map(|word| format!("{}\n", word.0)).collect();
    words.windows(k).filter(is_whole).map(join).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Spans are those of brute force, however the index came about and for any number of threads; cut out, they leave nothing twice.
    #[test]
    fn spans_are_what_came_before(texts in corpora(), first in 0_usize..24, k in 1_usize..5) {
        let work = Work::new();
        write_corpus(&work, &texts);
        let first = first.min(texts.len());
        work.shell(&format!("head -n {first} c.jsonl > one.jsonl; tail -n +{} c.jsonl > two.jsonl", first + 1)).ok();
        work.shell(&format!("dedup-index build -q -k {k} -o i c.jsonl && dedup-index build -q -k {k} -o j one.jsonl && dedup-index add -q j two.jsonl")).ok();
        let tokens = records(&work.shell("dedup-tokenize --spans c.jsonl").ok());
        let tokens = &tokens[1..tokens.len() - 1];
        let found = work.run("dedup-extract", &["i", "--as", "spans", "c.jsonl", "--threads", "1"]).ok();
        for (index, threads) in [("i", "8"), ("j", "2")] {
            prop_assert_eq!(&work.run("dedup-extract", &[index, "--as", "spans", "c.jsonl", "--threads", threads]).ok(), &found);
        }
        let found = records(&found);
        let spans: Vec<Vec<[u64; 2]>> = found.iter().map(|record| serde_json::from_value(record["spans"].clone()).unwrap()).collect();
        prop_assert_eq!(&spans, &brute_spans(tokens, k));
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

#[test]
fn spans_of_copies() {
    let work = copies();
    assert_eq!(
        work.run("dedup-extract", &["i", "--as", "spans", "c.jsonl", "--format", "tsv"]).ok_text(),
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
    work.write("new.jsonl", lines(&[1]) + "{\"id\":\"a\",\"text\":\"other\"}\n{\"id\":\"z\",\"text\":\"new\"}\n");
    let ran = work.run("dedup-extract", &["i", "--as", "spans", "new.jsonl"]);
    assert_eq!((ran.code(), ran.stdout().as_str()), (2, "{\"doc\":\"b\",\"bytes\":57,\"spans\":[[0,50]],\"seen\":50}\n"));
    assert_eq!(
        ran.stderr(),
        "dedup-extract: new.jsonl:2: 'a' is not what the index has under this id; bring the index up to date first\n\
         dedup-extract: new.jsonl:3: no document 'z' is in the index; add it first\n"
    );
    let ran = work.shell("dedup-blot c.jsonl | dedup-extract i --as spans");
    assert!(ran.code() == 2 && ran.stderr().contains("stdin:2: it came without the places of its tokens"), "{}", ran.stderr());
    let piped = work.shell("dedup-tokenize --spans c.jsonl | dedup-extract i --as spans").ok();
    assert_eq!(piped, work.run("dedup-extract", &["i", "--as", "spans", "c.jsonl"]).ok());
    work.run("dedup-index", &["build", "-q", "-o", "m", "--select", "mod:2", "c.jsonl"]).ok();
    assert_eq!(
        work.run("dedup-extract", &["m", "--as", "spans", "c.jsonl"]).stderr(),
        "dedup-extract: m: the index has selected blots (mod:2), so that most windows are not in it; spans need one that was built with --select all\n"
    );
}

/// Aliases, removals and interleaved windows.
#[test]
fn spans_follow_the_index() {
    let work = copies();
    work.run("dedup-index", &["remove", "-q", "i", "a"]);
    work.write("rest.jsonl", lines(&[1, 2]) + &lines(&[3]).replace("{\"text", "{\"id\":\"c.jsonl:4\",\"text"));
    let spans = |index: &str| {
        let found = records(&work.run("dedup-extract", &[index, "--as", "spans", "rest.jsonl"]).ok());
        found.into_iter().map(|record| record["spans"].to_string()).collect::<Vec<_>>()
    };
    // Now b is the first that has it.
    assert_eq!(spans("i"), ["[]", "[]", "[[0,48]]"]);
    work.run("dedup-index", &["build", "-q", "-o", "x", "-k", "3", "--scheme", "xor", "--interleave", "2", "rest.jsonl"]).ok();
    assert_eq!(spans("x"), ["[]", "[]", "[[0,48]]"]);
}
