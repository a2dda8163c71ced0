//! The verbs of the programs: help, sources, and messages for removed flags.

use crate::test_dir::{TestDir, records, root};

pub const PROGRAMS: [(&str, &[&str]); 7] = [
    ("dedup-tokenize", &[]),
    ("dedup-blot", &[]),
    ("dedup-spex", &[]),
    (
        "dedup-index",
        &[
            "build", "add", "remove", "sync", "merge", "split", "compact", "pin", "unpin", "stats",
            "verify", "dump",
        ],
    ),
    (
        "dedup-extract",
        &[
            "pairs", "table", "clusters", "graph", "exact", "blots", "passages", "spans",
            "compare", "report", "clean",
        ],
    ),
    (
        "dedup-query",
        &[
            "search",
            "align",
            "blot",
            "between",
            "history",
            "history stats",
            "history verify",
            "history dump",
            "history backup",
            "history remove",
            "history split",
            "history merge",
            "history repair",
            "serve",
        ],
    ),
    (
        "dedup-shard",
        &["plan", "run", "task", "status", "gather", "clean"],
    ),
];

#[test]
fn help_is_at_most_a_screen_and_a_half_with_examples_first() {
    let dir = TestDir::new();
    for (program, verbs) in PROGRAMS {
        for verb in verbs.iter().chain(&[""]) {
            let words: Vec<&str> = verb.split_whitespace().collect();
            let [short, long] = ["-h", "--help"]
                .map(|flag| dir.run(program, &[&words[..], &[flag]].concat()).ok_text());
            assert_eq!(short, long, "{program} {verb}");
            let lines: Vec<&str> = long.lines().collect();
            assert!(lines.len() <= 66, "{program} {verb}: {} lines", lines.len());
            let at = |start: &str| lines.iter().position(|line| line.starts_with(start));
            assert!(at("Usage:").is_some(), "{program} {verb}: {long}");
            // The verbs of dedup-extract and dedup-query have examples of their own.
            if words.is_empty() || ["dedup-extract", "dedup-query"].contains(&program) {
                assert_eq!(at("Examples:"), Some(2), "{program} {verb}: {long}");
                assert!(lines[3].starts_with("  # "), "{program} {verb}: {long}");
            }
            assert!(
                lines.iter().all(|line| line.chars().count() <= 100),
                "{program} {verb}: {long}"
            );
        }
    }
}

/// Essays that share text, and a directory for temporary files.
fn essays() -> TestDir {
    let dir = TestDir::new();
    let corpus = root().join("testdata/corpus/essays");
    dir.shell(&format!("cp -r {} essays && mkdir tmp", corpus.display()))
        .ok();
    dir
}

fn temporary_files(dir: &TestDir) -> String {
    dir.shell("ls -A tmp").ok_text()
}

#[test]
fn documents_give_the_results_of_their_index() {
    let dir = essays();
    dir.run("dedup-index", &["build", "-q", "-o", "i", "essays"])
        .ok();
    for verb in ["pairs", "table", "clusters", "graph", "exact", "blots"] {
        let answer =
            |source: &str| dir.shell(&format!("TMPDIR=tmp dedup-extract {verb} -q {source}"));
        assert_eq!(answer("essays").ok_text(), answer("i").ok_text(), "{verb}");
    }
    for verb in ["passages", "spans", "compare"] {
        let answer =
            |source: &str| dir.shell(&format!("TMPDIR=tmp dedup-extract {verb} -q {source}"));
        assert_eq!(
            answer("essays").ok_text(),
            answer("i essays").ok_text(),
            "{verb}"
        );
    }
    let passages = |source: &str| {
        let flags = "pairs -q --passages --tmp-dir tmp";
        dir.shell(&format!("dedup-extract {flags} {source}"))
    };
    assert_eq!(passages("essays").ok_text(), passages("i").ok_text());
    let piped = dir.shell("tar c essays > /dev/null; cat essays/tides.txt | dedup-extract exact -");
    assert_eq!((piped.code(), piped.stdout().as_str()), (0, ""));
    assert_eq!(temporary_files(&dir), "");
}

#[test]
fn a_document_is_not_an_answer_to_itself() {
    let dir = essays();
    for document in ["essays/tides.txt", "./essays/tides.txt"] {
        let found = records(&dir.run("dedup-query", &["-q", "essays", document]).ok());
        assert_eq!(found[0]["doc"], "essays/tides-revised.txt");
        assert!(found.iter().all(|found| found["doc"] != "essays/tides.txt"));
    }
    let shown = dir.run(
        "dedup-query",
        &["-q", "essays", "essays/tides.txt", "--passages"],
    );
    assert!(!records(&shown.ok())[0]["passages"].is_null());
}

#[test]
fn a_temporary_index_is_removed_after_success_error_and_signals() {
    let dir = essays();
    dir.shell("TMPDIR=tmp dedup-extract -q essays").ok();
    assert_eq!(temporary_files(&dir), "");
    // A failure after the index was made.
    let ran = dir.shell("TMPDIR=tmp dedup-extract essays --groups none");
    assert_eq!(ran.code(), 2);
    assert_eq!(temporary_files(&dir), "");
    let ran = dir.shell("TMPDIR=tmp dedup-extract -q essays > /dev/full");
    assert_eq!(ran.code(), 2);
    assert_eq!(temporary_files(&dir), "");
    for (signal, code) in [("TERM", "143"), ("INT", "130")] {
        let ran = dir.shell(&format!(
            "rm -f p; mkfifo p; TMPDIR=tmp dedup-extract essays p & tool=$!
             exec 3> p; until ls -A tmp | grep -q dedup-; do :; done
             kill -{signal} $tool; wait $tool; echo $?; ls -A tmp"
        ));
        assert_eq!(
            (ran.stdout(), ran.stderr()),
            (format!("{code}\n"), String::new())
        );
    }
}

#[test]
fn an_invalid_source_is_refused_with_valid_ones() {
    let dir = essays();
    for (line, message) in [
        (
            "dedup-extract nonsense",
            "dedup-extract: nonsense: no such file or directory, and no verb; give an index or documents, after one of the verbs pairs, table, ",
        ),
        (
            "dedup-extract -q table essays",
            "dedup-extract: table: no such file or directory; a verb comes first: dedup-extract table …",
        ),
        (
            "dedup-query nonsense essays/tides.txt",
            "dedup-query: nonsense: no such file or directory, and no verb; ",
        ),
        (
            "dedup-index build -q -o i essays; dedup-extract pairs i essays",
            "dedup-extract: essays: i is an index, and the only source of this verb",
        ),
        (
            "dedup-extract pairs essays i",
            "dedup-extract: i: an index among documents; give the index first",
        ),
        (
            "dedup-extract i -k 5",
            "dedup-extract: -k is for documents; i is an index, which has its scheme already",
        ),
        (
            "dedup-extract passages - < essays/tides.txt",
            "dedup-extract: this verb reads the documents twice, which stdin does not allow; give files",
        ),
    ] {
        let ran = dir.shell(line);
        assert!(
            ran.code() == 2 && ran.stderr().starts_with(message),
            "{line}: {}",
            ran.stderr()
        );
    }
    // A directory with the name of a verb, and a manifest of another kind.
    dir.shell("mv essays pairs && echo '{\"name\":\"a page\"}' > pairs/manifest.json")
        .ok();
    assert_ne!(dir.shell("dedup-extract ./pairs").ok_text(), "");
}

#[test]
fn removed_flags_are_refused_with_their_replacement() {
    for (line, tip) in [
        (
            "dedup-extract --as table my.idx",
            "tip: use: dedup-extract table SOURCE…",
        ),
        (
            "dedup-extract my.idx --as=clusters",
            "tip: use: dedup-extract clusters SOURCE…",
        ),
        (
            "dedup-extract my.idx --unique",
            "tip: use: dedup-extract clean SOURCE…",
        ),
        (
            "dedup-extract my.idx --html report",
            "tip: use: dedup-extract report SOURCE… -o DIR",
        ),
        (
            "dedup-extract my.idx --areas",
            "tip: use: dedup-extract compare SOURCE…",
        ),
        (
            "dedup-query --pairs list",
            "tip: use: dedup-query align --pairs list",
        ),
        (
            "dedup-query --history seen",
            "tip: use: dedup-query history seen [PATH…]",
        ),
        (
            "dedup-query my.idx --blot 12ab",
            "tip: use: dedup-query blot IDX 12ab",
        ),
        (
            "dedup-query my.idx --between a b",
            "tip: use: dedup-query between IDX A B",
        ),
    ] {
        let ran = TestDir::new().shell(line);
        assert!(
            ran.code() == 2 && ran.stderr().contains(tip),
            "{line}: {}",
            ran.stderr()
        );
    }
}
