//! dedup-extract clean removes duplicates from a corpus, and dedup-extract spans lists the text
//! seen in earlier documents.

use crate::test_dir::{TestDir, records};
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
    of.iter()
        .map(|&line| format!("{}\n", COPIES[line]))
        .collect()
}

fn copies() -> TestDir {
    let work = TestDir::with(&[("c.jsonl", lines(&[0, 1, 2, 3, 4, 5, 6, 7, 8]))]);
    work.run("dedup-index", &["build", "-o", "i", "c.jsonl"])
        .ok();
    work
}

/// The output of `dedup-extract clean i` with some options, and the content of its --dropped file.
fn clean(work: &TestDir, options: &str) -> (String, String) {
    let kept = work
        .shell(&format!(
            "dedup-extract clean i -q --dropped gone {options}"
        ))
        .ok_text();
    (kept, String::from_utf8(work.read("gone")).unwrap())
}

#[test]
fn kept_lines_are_printed_unchanged() {
    let work = copies();
    // Three of the four windows of b are in a, which is less than four fifths.
    assert_eq!(clean(&work, "c.jsonl").0, lines(&[0, 1, 2, 4, 5, 8]));
    assert_eq!(
        clean(&work, "c.jsonl --keep last").0,
        lines(&[1, 2, 3, 4, 7, 8])
    );
    let record = |doc: &str, of: &str, reason: &str, shared: u32, share: &str| {
        format!(
            "{{\"doc\":\"{doc}\",\"duplicate_of\":\"{of}\",\"reason\":\"{reason}\",\"shared\":{shared},\"share\":{share}}}\n"
        )
    };
    let (kept, dropped) = clean(&work, "c.jsonl --near 0.75");
    assert_eq!(kept, lines(&[0, 2, 4, 5, 8]));
    assert_eq!(
        dropped,
        record("b", "a", "near", 3, "0.75")
            + &record("c.jsonl:4", "a", "exact", 3, "1")
            + &record("e", "5", "exact", 0, "1")
            + &record("f", "5", "exact", 0, "1")
    );
    let (kept, dropped) = clean(&work, "c.jsonl --keep longest");
    assert_eq!(kept, lines(&[1, 2, 4, 5, 8]));
    assert_eq!(
        dropped,
        record("a", "b", "near", 3, "1")
            + &record("c.jsonl:4", "b", "near", 3, "1")
            + &record("e", "5", "exact", 0, "1")
            + &record("f", "5", "exact", 0, "1")
    );
    assert_eq!(
        clean(&work, "c.jsonl --by jaccard --near 0.75 --keep shortest").0,
        lines(&[0, 2, 4, 5, 8])
    );
    assert_eq!(
        clean(&work, "c.jsonl --by jaccard --near 0.76 --keep longest").0,
        lines(&[0, 1, 2, 4, 5, 8])
    );
}

/// The first line of the expected account.
fn account(read: u64, kept: u64, [bytes, bytes_kept]: [usize; 2], exact: u64, near: u64) -> String {
    format!(
        "dedup-extract: {read} documents read ({bytes} B), {kept} kept ({bytes_kept} B), {exact} dropped as exact duplicates, {near} as near duplicates\n"
    )
}

#[test]
fn the_report_accounts_for_all_documents() {
    let work = copies();
    let ran = work.shell("dedup-extract clean i c.jsonl");
    let bytes = [
        ran.stdout().len() + lines(&[3, 6, 7]).len(),
        ran.stdout().len(),
    ];
    assert_eq!(
        (ran.code(), ran.stderr()),
        (
            0,
            account(8, 5, bytes, 3, 0) + "dedup-extract: most were dropped for '5' (2), 'a' (1)\n"
        )
    );
    let many: String = (0..9)
        .map(|number| format!("{{\"id\":\"{number}\",\"text\":\"one two three\"}}\n"))
        .collect();
    work.write("m.jsonl", &many);
    let ran = work.shell("dedup-index build -q -o m m.jsonl && dedup-extract clean m m.jsonl");
    assert_eq!(
        ran.stderr(),
        account(9, 1, [many.len(), many.len() / 9], 8, 0)
            + "dedup-extract: most were dropped for '0' (8)\n\
         dedup-extract: warning: more than half of the documents were dropped; look at --dropped FILE before you throw the originals away; a higher --near, --max-df or --exclude-text keep more\n"
    );
    assert_eq!(
        work.shell("dedup-extract clean m -q m.jsonl").ok_text(),
        many.lines().next().unwrap().to_owned() + "\n"
    );
}

fn words(of: &str, count: usize) -> String {
    (0..count).map(|number| format!("{of}{number} ")).collect()
}

fn line(id: &str, text: &str) -> String {
    format!("{}\n", serde_json::json!({ "id": id, "text": text }))
}

#[test]
fn articles_that_end_with_the_text_of_a_stub_are_kept() {
    let (work, banner) = (TestDir::new(), words("banner", 50));
    let article = |of: &str| line(of, &format!("{}{banner}", words(of, 750)));
    let corpus = line("stub", &banner) + &article("a") + &article("b") + &article("c");
    work.write("c.jsonl", &corpus);
    work.shell("dedup-index build -q -o i c.jsonl").ok();
    for keep in ["first", "shortest"] {
        assert_eq!(
            clean(&work, &format!("c.jsonl --keep {keep}")),
            (corpus.clone(), String::new()),
            "{keep}"
        );
    }
    // All of the stub is in an article, which is visited first.
    for (keep, of) in [("longest", "a"), ("last", "c")] {
        let dropped = format!(
            "{{\"doc\":\"stub\",\"duplicate_of\":\"{of}\",\"reason\":\"near\",\"shared\":43,\"share\":1}}\n"
        );
        assert_eq!(
            clean(&work, &format!("c.jsonl --keep {keep}")),
            (article("a") + &article("b") + &article("c"), dropped),
            "{keep}"
        );
    }
}

/// Pages of a crawl: articles with one of a few banners, stubs that consist of a banner, copies,
/// copies with another banner, and excerpts.
#[test]
fn no_article_of_a_crawl_is_dropped() {
    let (work, mut corpus, mut expected) = (TestDir::new(), String::new(), Vec::new());
    for page in 0..300 {
        let (banner, article) = (
            words(&format!("banner{}x", page % 7), 60),
            words(&format!("page{page}x"), 40 + page % 11 * 60),
        );
        corpus += &line(&format!("article{page}"), &format!("{banner}{article}"));
        expected.push(format!("article{page}"));
        if page % 10 == 0 {
            corpus += &line(&format!("stub{page}"), &banner);
        }
        if page % 6 == 0 {
            corpus += &line(
                &format!("copy{page}"),
                &format!("{} {}", banner.to_uppercase(), article),
            );
        }
        if page % 5 == 0 && page % 11 > 8 {
            corpus += &line(
                &format!("moved{page}"),
                &format!(
                    "{article}{}",
                    words(&format!("banner{}x", (page + 1) % 7), 60)
                ),
            );
        }
    }
    work.write("c.jsonl", &corpus);
    work.shell("dedup-index build -q -o i c.jsonl").ok();
    for keep in ["first", "longest"] {
        let (kept, dropped) = clean(&work, &format!("c.jsonl --keep {keep}"));
        let ids: Vec<String> = records(kept.as_bytes())
            .iter()
            .map(|record| record["id"].as_str().unwrap().to_owned())
            .collect();
        let (articles, others): (Vec<_>, Vec<_>) =
            ids.into_iter().partition(|id| id.starts_with("article"));
        assert_eq!(articles, expected, "{keep}");
        assert!(
            others.iter().all(|id| id.starts_with("stub")),
            "{keep}: {others:?}"
        );
        assert!(
            records(dropped.as_bytes())
                .iter()
                .all(|record| record["share"].as_f64().unwrap() >= 0.8)
        );
    }
}

#[test]
fn documents_are_dropped_only_for_documents_of_the_input() {
    let work = copies();
    assert_eq!(
        clean(&work, "--near 0.75 < <(sed -n 2p c.jsonl)").0,
        lines(&[1])
    );
    assert_eq!(
        clean(&work, "--near 0.75 < <(sed -n 1,2p c.jsonl)").0,
        lines(&[0])
    );
    assert_eq!(
        clean(&work, "--near 0.75 --keep last < <(sed -n 1,2p c.jsonl)").0,
        lines(&[1])
    );
}

#[test]
fn a_document_that_differs_from_the_index_is_kept() {
    let work = copies();
    let other = lines(&[0]).replace("nine ten", "nine and a half");
    work.write("c.jsonl", other.clone() + &lines(&[1, 2]));
    let ran = work.run(
        "dedup-extract",
        &["clean", "i", "c.jsonl", "--near", "0.75"],
    );
    assert_eq!((ran.code(), ran.stdout()), (0, other + &lines(&[1, 2])));
    assert!(
        ran.stderr().ends_with("dedup-extract: 1 of 3 documents have another text than in i, and are kept; bring the index up to date\n")
    );
    work.write(
        "c.jsonl",
        lines(&[0]).replace("one two", "One... TWO!") + &lines(&[1]),
    );
    assert_eq!(
        clean(&work, "c.jsonl --near 0.75").0,
        lines(&[0]).replace("one two", "One... TWO!")
    );
}

#[test]
fn clean_reads_several_files_stdin_and_compressed_files() {
    let work = copies();
    work.write("d.jsonl", lines(&[2, 3]).trim_end());
    work.shell("zstd -q c.jsonl -o c.jsonl.zst; gzip -k d.jsonl")
        .ok();
    for keep in ["first", "shortest"] {
        let line = format!(
            "dedup-extract clean i --keep {keep} d.jsonl.gz c.jsonl.zst -o o.jsonl.zst; code=$?; zstd -t -q o.jsonl.zst && zstdcat o.jsonl.zst > o.jsonl; exit $code"
        );
        let ran = work.shell(&line);
        let bytes = work.read("c.jsonl").len() + work.read("d.jsonl").len();
        // A line without an id is named after its file, so these two are not in the index.
        assert_eq!(
            ran.stderr(),
            "dedup-extract: c.jsonl.zst:3: a line with the id 'c' came before; this one is kept\n"
                .to_owned()
                + &account(10, 8, [bytes, bytes - lines(&[6, 7]).len()], 2, 0)
                + "dedup-extract: most were dropped for '5' (2)\n\
             dedup-extract: 2 of 10 documents are not in i, and are kept\n"
        );
        assert_eq!(ran.code(), 2);
        assert_eq!(
            String::from_utf8(work.read("o.jsonl")).unwrap(),
            lines(&[2, 3, 0, 1, 2, 3, 4, 5, 8]),
            "{keep}"
        );
    }
    work.shell("dedup-extract clean i -q < c.jsonl -o o.gz && gunzip -c o.gz > o")
        .ok();
    assert_eq!(work.read("o"), lines(&[0, 1, 2, 3, 4, 5, 8]).as_bytes());
    let stdin = lines(&[0, 1]);
    assert_eq!(
        work.run_with(
            "dedup-extract",
            &["clean", "i", "-q", "--near", "0.75", "-"],
            stdin.as_bytes()
        )
        .ok_text(),
        lines(&[0])
    );
}

#[test]
fn clean_drops_nothing_but_duplicates() {
    let work = copies();
    let bad = "not JSON\n{\"id\":\"b\"}\n\u{feff}\n{\"id\":\"x\",\"text\":\"new\"}\r\n";
    work.write("c.jsonl", lines(&[0, 1]) + bad + &lines(&[1]));
    let bytes = work.read("c.jsonl").len();
    for keep in ["first", "shortest"] {
        let ran = work.run(
            "dedup-extract",
            &["clean", "i", "c.jsonl", "--near", "0.75", "--keep", keep],
        );
        assert_eq!(
            (ran.code(), ran.stdout()),
            (2, lines(&[0]) + bad + &lines(&[1]))
        );
        assert_eq!(
            ran.stderr(),
            "dedup-extract: c.jsonl:3: not JSON: expected ident at column 2; the line is kept\n\
             dedup-extract: c.jsonl:4: no field 'text' with a text; the line is kept\n\
             dedup-extract: c.jsonl:5: not JSON: expected value at column 1; the line is kept\n\
             dedup-extract: c.jsonl:7: a line with the id 'b' came before; this one is kept\n"
                .to_owned()
                + &account(4, 3, [bytes, bytes - lines(&[1]).len()], 0, 1)
                + "dedup-extract: most were dropped for 'a' (1)\n\
             dedup-extract: 1 of 4 documents are not in i, and are kept\n"
        );
        let ran = work.run(
            "dedup-extract",
            &[
                "clean",
                "i",
                "-q",
                "--skip-bad",
                "c.jsonl",
                "--near",
                "0.75",
                "--keep",
                keep,
            ],
        );
        assert_eq!(ran.ok_text(), lines(&[0]) + bad + &lines(&[1]));
    }
    work.write("latin.jsonl", b"{\"id\":\"b\",\"text\":\"\xe9\"}\n");
    let ran = work.run("dedup-extract", &["clean", "i", "latin.jsonl"]);
    assert_eq!((ran.code(), ran.0.stdout), (2, work.read("latin.jsonl")));
    let ran = work.run("dedup-extract", &["clean", "i", "--lossy", "latin.jsonl"]);
    assert_eq!((ran.code(), &ran.0.stdout), (0, &work.read("latin.jsonl")));
    assert!(
        ran.stderr()
            .contains("1 of 1 documents have another text than in i"),
        "{}",
        ran.stderr()
    );
    let ran = work.run(
        "dedup-extract",
        &["clean", "i", "--id-field", "no", "latin.jsonl", "--lossy"],
    );
    assert!(
        ran.code() == 0
            && ran.stderr().ends_with(
                "1 of 1 documents are not in i, and are kept; is it the index of this corpus, and --id-field as it was built with?\n"
            )
    );
}

#[test]
fn boilerplate_does_not_make_a_duplicate() {
    let notice = (0..40).map(|n| format!("notice{n} ")).collect::<String>();
    let text = |n: usize| {
        format!(
            "{notice}{}",
            (0..20).map(|w| format!("own{n}x{w} ")).collect::<String>()
        )
    };
    let line = |n: usize| format!("{{\"id\":\"{n}\",\"text\":\"{}\"}}\n", text(n));
    let work = TestDir::new();
    work.write("c.jsonl", (0..3).map(line).collect::<String>());
    work.write("notice", &notice);
    work.shell("dedup-index build -o i c.jsonl && dedup-index build -o ref notice")
        .ok();
    let unique = ["clean", "i", "-q", "c.jsonl", "--near", "0.6"];
    assert_eq!(work.run("dedup-extract", &unique).ok_text(), line(0));
    for flags in [["--exclude-text", "notice"], ["--exclude-index", "ref"]] {
        let kept = work
            .run("dedup-extract", &[&unique, &flags[..]].concat())
            .ok_text();
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
            "note.txt: not a document a line; --records ndjson reads it as if it were, dedup-extract pairs says which whole files are alike",
        ),
    ] {
        let ran = work.run(
            "dedup-extract",
            &[
                "clean",
                "i",
                "c.jsonl",
                name,
                "-o",
                "out",
                "--dropped",
                "gone",
            ],
        );
        assert_eq!(ran.code(), 2, "{name}");
        assert!(
            ran.stderr().contains(message) && !ran.stderr().contains("left out"),
            "{}",
            ran.stderr()
        );
        assert!(!work.path("out").exists() && !work.path("gone").exists());
    }
    assert_eq!(work.shell("ls -A | grep tmp").stdout(), "");
    for (arguments, message) in [
        (
            &["i", "c.jsonl"][..],
            "dedup-extract: c.jsonl: i is an index, and the only source of this verb; leave out what follows",
        ),
        (
            &["clean", "i", "--top", "3"],
            "error: unexpected argument '--top' found",
        ),
        (
            &["clean", "i", "--by", "s3"],
            "error: invalid value 's3' for '--by <SCORE>'",
        ),
        (
            &["clean", "i", "--near", "0"],
            "error: invalid value '0' for '--near <P%|off>': it must be above 0, or every document would go",
        ),
        (
            &["clean", "i", "--dropped", "-"],
            "dedup-extract: what is kept and what is dropped would go to one place; give -o and --dropped two files",
        ),
    ] {
        let said = work.run("dedup-extract", arguments).stderr();
        assert!(said.starts_with(message), "{said}");
    }
    assert_eq!(
        work.shell("dedup-extract clean i c.jsonl > /dev/full")
            .stderr(),
        "dedup-extract: stdout: No space left on device (os error 28)\n"
    );
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Exactly the documents of the rule are dropped, compared with brute force: in any order, with
    /// any number of threads, and for any history of the index.
    #[test]
    fn clean_drops_documents_contained_in_a_kept_one(
        texts in corpora(), keep in prop::sample::select(vec!["first", "last", "longest", "shortest"]), jaccard: bool, threshold in 0.1_f64..1.0, k in 1_usize..5, cut in 1_usize..24,
    ) {
        let (work, cut) = (TestDir::new(), cut.min(texts.len()));
        write_corpus(&work, &texts);
        work.shell(&format!(
            "set -e; dedup-index build -q -k {k} -o i c.jsonl
            tail -n +{} c.jsonl > late.jsonl; head -n {cut} c.jsonl > early.jsonl
            echo '{{\"id\":\"gone\",\"text\":\"a b c a b c\"}}' | dedup-index build -q -k {k} -o j - late.jsonl
            dedup-index remove -q j gone; dedup-index add -q --no-compact j early.jsonl", cut + 1
        )).ok();
        let expected = dropped_by_brute_force(&work, &texts, keep, (jaccard, threshold), k);
        let lines = String::from_utf8(work.read("c.jsonl")).unwrap();
        let is_kept = |(number, _): &(usize, &str)| !expected.iter().any(|row| row["doc"] == format!("d{number}"));
        let kept: String = lines.lines().enumerate().filter(is_kept).map(|(_, line)| format!("{line}\n")).collect();
        for (index, threads) in [("i", 1), ("i", 8), ("j", 2)] {
            let score = if jaccard { "jaccard" } else { "containment" };
            let ran = work.shell(&format!("dedup-extract clean {index} -q c.jsonl --by {score} --near {threshold} --keep {keep} --threads {threads} --dropped gone"));
            prop_assert_eq!(ran.ok_text(), kept.clone());
            let dropped = records(&work.read("gone"));
            prop_assert_eq!(&dropped, &expected);
            // The document that a duplicate refers to is kept, so there are no chains.
            prop_assert!(dropped.iter().all(|row| !dropped.iter().any(|other| other["doc"] == row["duplicate_of"])));
        }
    }
}

/// The records of --dropped by the rule itself, with sets of windows.
fn dropped_by_brute_force(
    work: &TestDir,
    texts: &[String],
    keep: &str,
    (jaccard, threshold): (bool, f64),
    k: usize,
) -> Vec<serde_json::Value> {
    let tokens = records(&work.shell("dedup-tokenize c.jsonl").ok());
    let words: Vec<Vec<String>> = (1..=texts.len())
        .map(|at| serde_json::from_value(tokens[at]["tokens"].clone()).unwrap())
        .collect();
    let windows = |words: &Vec<String>| {
        words
            .windows(k.min(words.len()).max(1))
            .map(|window| window.join("\n"))
            .collect::<HashSet<_>>()
    };
    let sets: Vec<HashSet<String>> = words.iter().map(windows).collect();
    let mut order: Vec<usize> = (0..texts.len()).collect();
    match keep {
        "last" => order.reverse(),
        "longest" => order.sort_by_key(|&at| std::cmp::Reverse(words[at].len())),
        "shortest" => order.sort_by_key(|&at| words[at].len()),
        _ => {}
    }
    let (mut stays, mut dropped): (Vec<usize>, HashMap<usize, serde_json::Value>) =
        (Vec::new(), HashMap::new());
    for at in order {
        let row = |of: usize, reason: &str, shared: usize, share: f64| {
            let share = (share * 1e6).round() / 1e6;
            let share = if share == 1.0 {
                serde_json::json!(1)
            } else {
                serde_json::json!(share)
            };
            serde_json::json!({ "doc": format!("d{at}"), "duplicate_of": format!("d{of}"), "reason": reason, "shared": shared, "share": share })
        };
        if let Some(&of) = stays.iter().find(|&&of| words[of] == words[at]) {
            dropped.insert(at, row(of, "exact", sets[at].len(), 1.0));
            continue;
        }
        let mut best: Option<(usize, usize)> = None;
        for &of in &stays {
            let shared = sets[at].intersection(&sets[of]).count();
            let whole = if jaccard {
                sets[at].union(&sets[of]).count()
            } else {
                sets[at].len()
            };
            if shared > 0
                && shared as f64 / whole as f64 >= threshold
                && best.is_none_or(|(most, _)| shared > most)
            {
                best = Some((shared, of));
            }
        }
        match best {
            Some((shared, of)) => drop(dropped.insert(
                at,
                row(of, "near", shared, shared as f64 / sets[at].len() as f64),
            )),
            None => stays.push(at),
        }
    }
    (0..texts.len())
        .filter_map(|at| dropped.remove(&at))
        .collect()
}

#[test]
fn the_output_is_the_same_for_any_number_of_threads() {
    let work = TestDir::new();
    let line = |number: usize| {
        format!(
            "{{\"id\":{number},\"text\":\"{} some more words of a text that is long {}\"}}\n",
            number % 701,
            number % 701
        )
    };
    work.write("c.jsonl", (0..20_000).map(line).collect::<String>());
    work.run("dedup-index", &["build", "-q", "-o", "i", "c.jsonl"])
        .ok();
    let [one, eight] = ["1", "8"].map(|threads| {
        work.run(
            "dedup-extract",
            &[
                "clean",
                "i",
                "-q",
                "c.jsonl",
                "--by",
                "jaccard",
                "--near",
                "1",
                "--threads",
                threads,
            ],
        )
        .ok()
    });
    let expected: String = (0..701).map(line).collect();
    assert!(one == eight && one == expected.as_bytes());
    let ids: HashSet<_> = records(&one)
        .iter()
        .map(|record| record["id"].clone())
        .collect();
    assert_eq!(ids.len(), 701);
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
