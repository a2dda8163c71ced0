//! What users get wrong: misspelt names, an index where documents belong, documents where an index does, questions that are too short.

use crate::test_dir::TestDir;

const TIDES: &str =
    "the tide comes in twice a day and carries the wood of wrecks to the northern beach";

fn essays() -> TestDir {
    TestDir::with(&[
        ("essays/lund.txt", TIDES),
        ("essays/conti.txt", TIDES),
        (
            "essays/tanaka.txt",
            "bread needs flour and water and salt and above all the patience to leave it alone",
        ),
    ])
}

#[test]
fn misspelt_names_get_a_suggestion() {
    let dir = essays();
    for (command, said) in [
        (
            "dedup-tokenize -q esays",
            "dedup-tokenize: esays: No such file or directory (os error 2); did you mean essays?\n\
             dedup-tokenize: no document was read; name files or directories that hold some, or write some to stdin\n",
        ),
        (
            "dedup-extract report esays -o r",
            "dedup-extract: esays: no such file or directory; did you mean essays?\n",
        ),
        (
            "dedup-extract esays/lund.txt",
            "dedup-extract: esays/lund.txt: no such file or directory, and no verb; did you mean essays/lund.txt?\n",
        ),
        (
            "dedup-extract clen essays",
            "dedup-extract: clen: no such file or directory, and no verb; did you mean clean?\n",
        ),
        (
            "dedup-extract -q essays -o pairs.xlsx",
            "dedup-extract: pairs.xlsx: this format is not written; pairs.csv is a table that spreadsheets open\n",
        ),
    ] {
        let ran = dir.shell(&format!("{command} > /dev/null"));
        assert_eq!((ran.code(), ran.stderr().as_str()), (2, said), "{command}");
    }
}

#[test]
fn an_index_is_no_document() {
    let dir = essays();
    dir.shell("dedup-index build -q -o essays/my.idx essays; dedup-query history seen -q essays/lund.txt > /dev/null; true").ok();
    for name in ["essays/my.idx", "seen"] {
        let ran = dir.shell(&format!("dedup-tokenize -q {name} > /dev/null"));
        let said = format!(
            "dedup-tokenize: {name}: is an index or a history, not documents; give the files that it was made of\n\
             dedup-tokenize: no document was read; name files or directories that hold some, or write some to stdin\n"
        );
        assert_eq!((ran.code(), ran.stderr()), (2, said));
    }
    // Beside documents it is passed over.
    assert_eq!(
        dir.shell("dedup-blot essays 2>&1 > /dev/null").ok_text(),
        "dedup-blot: read 3 documents in 3 files (245 bytes); left out 1 file: index 1\n"
    );
}

#[test]
fn documents_stand_for_an_index() {
    let dir = essays();
    dir.shell("dedup-index build -q -o my.idx essays").ok();
    let between = |source| {
        let command = format!("dedup-query between {source} essays/lund.txt essays/conti.txt -q");
        dir.shell(&command).ok_text()
    };
    let shared = between("essays");
    assert_eq!(shared, between("my.idx"));
    assert_eq!(shared.lines().count(), 10);
    let blot = &shared[9..19];
    let texts = dir
        .shell(&format!("dedup-query blot essays {blot} -q | jq -r .doc"))
        .ok_text();
    assert_eq!(texts, "essays/conti.txt\nessays/lund.txt\n");
}

#[test]
fn a_question_without_an_answer_says_why() {
    let dir = essays();
    dir.shell("dedup-index build -q -o my.idx essays; dedup-index build -q --preset ocr -o ocr.idx essays")
        .ok();
    for (source, remedy) in [
        ("my.idx", "build an index of"),
        ("essays -q", ""),
        ("essays", "compare"),
    ] {
        let ran = dir.shell(&format!("echo carries the wood | dedup-query {source} -"));
        let said: Vec<String> = ran.stderr().lines().map(str::to_owned).collect();
        let last = format!(
            "dedup-query: the question is no longer than a window (ordered:8), so only the same words from first to last are found; \
             ask with more text, or {remedy} shorter windows (-k 4)"
        );
        assert_eq!(ran.code(), 1);
        assert_eq!(said.last(), (!remedy.is_empty()).then_some(&last));
    }
    let ran = dir
        .shell("echo the tide of wrecks and flour and patience in the north | dedup-query ocr.idx");
    assert!(
        ran.stderr().ends_with("dedup-query: nothing reaches a score (rarity) of 7; --threshold 0 lists all that has any text in common\n"),
        "{}",
        ran.stderr()
    );
}

#[test]
fn the_first_twenty_bad_records_are_named() {
    let dir = TestDir::new();
    dir.write(
        "bad.jsonl",
        format!("{{\"text\":\"fine\"}}\n{}", "{\"text\":\n".repeat(50)),
    );
    let named = |flag: &str| {
        let ran = dir.shell(&format!("dedup-tokenize {flag} bad.jsonl > /dev/null"));
        let named = ran.stderr().matches("not JSON").count();
        let rest = ran
            .stderr()
            .contains("dedup-tokenize: and 30 more problems like these; -v names them\n");
        (ran.code(), named, rest)
    };
    assert_eq!(named(""), (2, 20, true));
    assert_eq!(named("-v"), (2, 50, false));
}
