//! Blots that are too narrow for what an index holds: programs say so, and answers stay the same.

use crate::test_dir::TestDir;

/// Documents of words that occur once: 2,000 windows in all, of which blots of 16 bits match often.
fn documents() -> TestDir {
    let dir = TestDir::new();
    for document in 0..20 {
        let words: Vec<String> = (0..107).map(|word| format!("w{document}x{word}")).collect();
        dir.write(&format!("c/{document:02}.txt"), words.join(" "));
    }
    dir.write(
        "more.txt",
        "some other words that are in no other document at all",
    );
    dir
}

/// 1,998² / 2^17 = 30.5: two documents have a blot twice.
const WARNING: &str = "blots of 16 bits are too narrow for 1,998 postings: expect 30 matches by chance (1.5 % of the postings), \
                       which cost time and memory; make the index again with --bits 40\n";

#[test]
fn writers_stats_and_extraction_warn_of_narrow_blots() {
    let dir = documents();
    for (command, name) in [
        ("dedup-index build --bits 16 -o i c", "dedup-index: i: "),
        ("dedup-index merge -o merged i", "dedup-index: merged: "),
        ("dedup-index compact i", "dedup-index: i: "),
        ("dedup-index stats i", "dedup-index: i: "),
        ("dedup-extract i", "dedup-extract: i: "),
        ("dedup-extract table i", "dedup-extract: i: "),
        ("dedup-extract --bits 16 c", "dedup-extract: c: "),
        (
            "dedup-extract clean --bits 16 -k 8 c -o out",
            "dedup-extract: c: ",
        ),
        (
            "echo h > hosts && dedup-shard plan -o r --hosts hosts --bits 16 c && dedup-shard run r && dedup-shard gather r -o g",
            "/g: ",
        ),
    ] {
        let ran = dir.shell(command);
        assert_eq!(ran.code(), 0);
        let stderr = ran.stderr();
        assert!(
            stderr.contains(&format!("{name}{WARNING}")),
            "{command}: {stderr}"
        );
        assert!(
            name == "/g: " || stderr.matches("too narrow").count() == 1,
            "{command}: {stderr}"
        );
    }
    let ran = dir.run("dedup-index", &["add", "i", "more.txt"]);
    assert!(
        ran.stderr().contains("too narrow for 2,002 postings"),
        "{}",
        ran.stderr()
    );
    for quiet in [
        "dedup-index stats -q i",
        "dedup-extract -q i",
        "dedup-index compact -q i",
    ] {
        assert_eq!(dir.shell(quiet).stderr(), "", "{quiet}");
    }
}

#[test]
fn stats_have_the_numbers_and_wide_blots_are_fine() {
    let dir = documents();
    for (bits, expected) in [
        (
            "16",
            r#"{"bits":16,"postings":1998,"chance_matches":30,"too_narrow":true,"advised_bits":40}"#,
        ),
        (
            "40",
            r#"{"bits":40,"postings":2000,"chance_matches":0,"too_narrow":false,"advised_bits":40}"#,
        ),
    ] {
        dir.run(
            "dedup-index",
            &["build", "-q", "--bits", bits, "-o", bits, "c"],
        )
        .ok();
        let json = dir
            .run("dedup-index", &["stats", "-q", "--json", bits])
            .ok_text();
        assert!(json.contains(&format!("\"width\":{expected}")), "{json}");
    }
    let table = dir.run("dedup-index", &["stats", "-q", "16"]).ok_text();
    assert!(
        table.contains("chance matches                        30\n"),
        "{table}"
    );
    let ran =
        dir.shell("dedup-index build -o wide c && dedup-extract wide && dedup-index stats wide");
    ran.ok();
    assert!(!ran.stderr().contains("narrow"), "{}", ran.stderr());
}

/// With 20 documents, nearly all windows of which match some other one by chance, all verbs give
/// the same bytes whether sets fit into memory or not.
#[test]
fn little_memory_gives_the_same_bytes() {
    let dir = documents();
    let copy: Vec<String> = (0..90).map(|word| format!("w3x{word}")).collect();
    dir.write("c/copy.txt", copy.join(" "));
    dir.run(
        "dedup-index",
        &["build", "-q", "--bits", "16", "-o", "i", "c"],
    )
    .ok();
    for verb in [
        "pairs --threshold 0.01",
        "pairs --score jaccard --threshold 50%",
        "pairs --score s4 --threshold 0.0001",
        "table --threshold 0",
        "clusters --threshold 0.02",
        "graph",
    ] {
        let [little, much] = ["1K", "1G"].map(|memory| {
            dir.shell(&format!("dedup-extract {verb} -q --memory {memory} i"))
                .ok_text()
        });
        assert!(!little.is_empty(), "{verb}: {little}");
        assert_eq!(little, much, "{verb}");
    }
    for rules in [
        "--near 2%",
        "--near 80% --keep last",
        "--near 2% --keep none",
    ] {
        dir.shell(&format!(
            "rm -rf little much; for memory in 1K:little 1G:much; do \
             dedup-extract clean -q -k 8 --bits 16 {rules} --memory ${{memory%:*}} --dropped ${{memory#*:}}.jsonl c -o ${{memory#*:}} || exit 1; \
             done; diff -r -x .dedup-clean little much && cmp little.jsonl much.jsonl && test -s much.jsonl"
        ))
        .ok();
    }
}

#[test]
fn a_plan_says_beforehand_that_blots_will_be_too_narrow() {
    let dir = documents();
    let bytes: u64 = (0..20)
        .map(|document| dir.read(&format!("c/{document:02}.txt")).len() as u64)
        .sum();
    let ran = dir.shell("dedup-shard plan -o r --slots 1 --bits 16 c");
    assert_eq!(ran.code(), 0);
    let expected = format!(
        "dedup-shard: r: by the size of the files, blots of 16 bits are too narrow for {},{:03} postings: expect ",
        bytes / 6 / 1000,
        bytes / 6 % 1000
    );
    let stderr = ran.stderr();
    assert!(stderr.starts_with(&expected), "{stderr}");
    assert!(
        stderr.ends_with("; plan again with --bits 40\n"),
        "{stderr}"
    );
    for line in [
        "dedup-shard plan -o r2 --slots 1 c",
        "dedup-shard plan -q -o r3 --slots 1 --bits 16 c",
    ] {
        assert_eq!(dir.shell(line).stderr(), "", "{line}");
    }
}
