//! An index of shared chunks gives the same answers as a full index.

use crate::test_dir::{TestDir, records};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Documents of few words, with passages in common, and some copies.
fn corpora() -> impl Strategy<Value = Vec<String>> {
    let passage = prop::sample::select(vec![
        "a b c d e f",
        "c d e f g",
        "a a a a a a a",
        "x y",
        "b b a b b a b b a",
    ]);
    let part = prop_oneof![passage.prop_map(str::to_owned), "([a-p] ){0,6}"];
    let text = prop::collection::vec(part, 0..5).prop_map(|parts| parts.join(" "));
    (
        prop::collection::vec(text, 2..10),
        prop::collection::vec(any::<prop::sample::Index>(), 0..3),
    )
        .prop_map(|(texts, copies)| {
            let copied: Vec<String> = copies
                .iter()
                .map(|copy| copy.get(&texts).to_uppercase())
                .collect();
            texts.into_iter().chain(copied).collect()
        })
}

fn lines(texts: &[String], from: usize) -> String {
    let line = |(number, text): (usize, &String)| {
        format!(
            "{}\n",
            json!({"id": format!("d{}", from + number), "text": text})
        )
    };
    texts.iter().enumerate().map(line).collect()
}

/// All commands that depend on shared blots, with rare options.
const ANSWERS: [&str; 16] = [
    "INDEX --threshold 0",
    "INDEX --threshold 0.3",
    "INDEX --score jaccard --threshold 0.1",
    "INDEX --score s1 --threshold 1",
    "INDEX --score s2 --threshold 0.05",
    "INDEX --score s3 --threshold 0.05",
    "INDEX --score s4 --threshold 0.01",
    "INDEX --score rarity --threshold 0.1",
    "INDEX --threshold 0.1 --max-df 2",
    "table INDEX --threshold 0 --format tsv",
    "table INDEX --threshold 0.2 --max-df 3",
    "clusters INDEX --threshold 0.4",
    "clusters INDEX --score jaccard --threshold 0.2 --keep longest",
    "graph INDEX --threshold 0.2",
    "exact INDEX",
    "spans INDEX c.jsonl",
];

fn assert_equal_answers(
    dir: &TestDir,
    indexes: &[&str],
    answers: &[&str],
) -> Result<(), TestCaseError> {
    for answer in answers {
        // Except for the header, which names the scheme.
        let run = |index: &str| {
            dir.shell(&format!(
                "set -o pipefail; dedup-extract {} | sed 's/\"scheme\":\"[^\"]*\"//'",
                answer.replace("INDEX", &format!("{index} -q"))
            ))
            .ok_text()
        };
        let full = run("full");
        for index in indexes {
            prop_assert_eq!(&run(index), &full, "{} {}", index, answer);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// The same bytes, whether the index was built in one run, extended, filtered, dumped and rebuilt,
    /// or split and merged.
    #[test]
    fn an_index_of_shared_chunks_answers_as_a_full_one(texts in corpora(), length in 2_usize..5, first in 0_usize..9) {
        let (dir, first) = (TestDir::new(), first.clamp(1, texts.len() - 1));
        dir.write("c.jsonl", lines(&texts, 0));
        dir.write("one.jsonl", lines(&texts[..first], 0));
        dir.write("two.jsonl", lines(&texts[first..], first));
        let filtered = format!("-k {length} --select spex:f");
        dir.shell(&format!(
            "set -e
            dedup-index build -q -k {length} -o full c.jsonl
            dedup-spex -q -l {length} --memory 64K --filter-out f -o spex c.jsonl
            dedup-spex -q -l {length} --memory 64 --within -o within c.jsonl
            dedup-spex -q -l {length} -o added one.jsonl
            dedup-spex -q -l {length} --add added two.jsonl
            dedup-index dump spex | dedup-index build -q -o dumped -
            dedup-index split -o parts --parts 3 spex
            dedup-index merge -o merged parts/*
            dedup-index build -q {filtered} -o filtered c.jsonl
            dedup-blot {filtered} c.jsonl | dedup-index build -q -o piped -
            dedup-blot --binary {filtered} c.jsonl | dedup-index build -q -o binary -
            dedup-index build -q {filtered} -o grown one.jsonl
            dedup-index add -q --select spex:f grown two.jsonl
            dedup-index build -q {filtered} -o half one.jsonl
            dedup-index build -q {filtered} -o rest two.jsonl
            dedup-index merge -o joined half rest
            for i in spex within added dumped merged filtered piped binary grown joined; do dedup-index verify $i; done
            diff -r filtered piped
            diff -r filtered binary"
        )).ok();
        let indexes = ["spex", "within", "added", "dumped", "merged", "filtered", "piped", "binary", "grown", "joined"];
        assert_equal_answers(&dir, &indexes, &ANSWERS)?;
        for keep in ["first", "last", "longest", "shortest"] {
            let answer = format!("clean INDEX --near 0.6 --keep {keep} c.jsonl --dropped gone > kept; cat kept gone");
            assert_equal_answers(&dir, &indexes, &[&answer])?;
        }
    }

    /// A sample of the shared chunks gives the same estimate as an index of that sample of all chunks.
    #[test]
    fn a_sample_of_shared_chunks_answers_as_the_sample_alone(texts in corpora(), length in 2_usize..4) {
        let dir = TestDir::new();
        dir.write("c.jsonl", lines(&texts, 0));
        dir.shell(&format!(
            "set -e
            dedup-index build -q -k {length} --select mod:2 -o full c.jsonl
            dedup-spex -q -l {length} --select spex,mod:2 --filter-out f -o spex c.jsonl
            dedup-index build -q -k {length} --select mod:2,spex:f -o filtered c.jsonl"
        )).ok();
        let estimates = ANSWERS.iter().copied().filter(|answer| !answer.contains("spans")).collect::<Vec<_>>();
        assert_equal_answers(&dir, &["spex", "filtered"], &estimates)?;
    }
}

fn words(of: &str, count: usize) -> String {
    (0..count).map(|number| format!("{of}{number} ")).collect()
}

/// Two texts of 500 words that have only nine words in common.
fn phrase() -> TestDir {
    let text = |of: &str| {
        format!(
            "{}{}{}",
            words(of, 250),
            words("phrase", 9),
            words(&format!("{of}x"), 241)
        )
    };
    TestDir::with(&[("c/a.txt", text("a")), ("c/b.txt", text("b"))])
}

#[test]
fn a_shared_phrase_of_nine_words_is_not_a_copy() {
    let dir = phrase();
    dir.shell("dedup-index build -q -o full c && dedup-spex -q --filter-out f -o spex c && dedup-index build -q --select spex:f -o filtered c").ok();
    for index in ["full", "spex", "filtered"] {
        assert_eq!(dir.run("dedup-extract", &[index]).ok(), b"", "{index}");
        assert_eq!(
            dir.run("dedup-extract", &[index, "--threshold", "0"])
                .ok_text(),
            "{\"a\":\"c/a.txt\",\"b\":\"c/b.txt\",\"shared\":2,\"a_in_b\":0.004057,\"b_in_a\":0.004057,\"score\":0.002033}\n"
        );
        // The query counts with all its blots, whether they can be found or not.
        let asked = records(
            &dir.run("dedup-query", &["-q", index, "c/a.txt", "--top", "2"])
                .ok(),
        );
        let shares = |record: &Value| {
            (
                record["doc"].clone(),
                record["a_in_b"].clone(),
                record["b_in_a"].clone(),
            )
        };
        assert_eq!(
            shares(asked.last().unwrap()),
            (json!("c/b.txt"), json!(0.004057), json!(0.004057)),
            "{index}"
        );
    }
    let stream = dir.shell("dedup-blot --select spex:f c/a.txt").ok();
    assert_eq!(records(&stream)[1]["distinct"], 493);
    let piped = dir
        .shell("dedup-blot --select spex:f c/a.txt | dedup-query -q filtered -")
        .ok();
    assert_eq!(records(&piped)[0]["a_in_b"], 0.004057);
}

#[test]
fn a_query_warns_about_blots_that_the_index_lacks() {
    let dir = phrase();
    dir.shell(
        "dedup-index build -q -o full c && dedup-spex -q --filter-out f -o spex c && dedup-index build -q --select spex:f -o filtered c",
    )
    .ok();
    dir.write("q.txt", words("a", 120));
    dir.write(
        "q.jsonl",
        format!("{}\n", json!({"id": "q", "text": words("a", 120)})),
    );
    let limits = |index: &str| {
        format!(
            "dedup-query: {index}: holds only chunks that at least two of its 2 documents share: 4 of 986 distinct chunks of its documents (0.4 %); \
             text copied from a single document is not found; build a full index with dedup-index build\n"
        )
    };
    assert_eq!(
        dir.run("dedup-query", &["full", "q.txt"]).docs(),
        ["c/a.txt"]
    );
    for index in ["spex", "filtered"] {
        for arguments in [
            &[index, "q.txt"][..],
            &[index, "--stream", "q.jsonl"],
            &[index, "q.txt", "--passages"],
        ] {
            let ran = dir.run("dedup-query", arguments);
            assert_eq!(
                (ran.code(), ran.stderr()),
                (1, limits(index)),
                "{arguments:?}"
            );
        }
        assert_eq!(dir.run("dedup-query", &["-q", index, "q.txt"]).stderr(), "");
    }
}

#[test]
fn incomplete_results_are_refused() {
    let dir = phrase();
    dir.shell("dedup-spex -q --filter-out f -o a c/a.txt && dedup-spex -q -o b c/b.txt")
        .ok();
    dir.shell("dedup-blot --select spex:f c | sed 's/\"distinct\":[0-9]*,//' > old.blots; dedup-blot c | sed 's/\"blots\":\\[/\"distinct\":9,&/' > odd.blots").ok();
    for (line, expected) in [
        (
            "dedup-index merge -o m a b",
            "a: an index of shared chunks, which lacks what its documents share with those of another index; make one of all documents with dedup-spex",
        ),
        (
            "dedup-index build -o m old.blots",
            "its record lacks 'distinct', the number of all its distinct blots, which a record of scheme 'words@18.0/49 ordered:8:40 spex:",
        ),
        (
            "dedup-index build -o m odd.blots",
            "'distinct' has no meaning in scheme 'words@18.0/49 ordered:8:40 all', which leaves no blots out",
        ),
    ] {
        let ran = dir.shell(line);
        assert!(
            ran.code() == 2 && ran.stderr().contains(expected),
            "{line}: {}",
            ran.stderr()
        );
        dir.shell("rm -rf m").ok();
    }
}

#[test]
fn exclusions_that_cannot_be_applied_are_reported() {
    let dir = phrase();
    dir.shell("dedup-spex -q -o spex c && dedup-index build -q -o full c")
        .ok();
    dir.write("template.txt", words("phrase", 9));
    let message = "spex: holds no text that a single document has, so where --exclude-text, --exclude-index or --base name such text, the document is still measured with it; \
                for exact shares build a full index with dedup-index build\n";
    let ran = dir.run(
        "dedup-extract",
        &["spex", "--threshold", "0", "--exclude-text", "template.txt"],
    );
    assert_eq!(
        (ran.code(), ran.stderr()),
        (0, format!("dedup-extract: {message}"))
    );
    let ran = dir.run(
        "dedup-query",
        &["spex", "c/a.txt", "--exclude-text", "template.txt"],
    );
    assert!(
        ran.stderr().ends_with(&format!("dedup-query: {message}")),
        "{}",
        ran.stderr()
    );
    assert_eq!(
        dir.run(
            "dedup-extract",
            &["full", "--threshold", "0", "--exclude-text", "template.txt"]
        )
        .stderr(),
        ""
    );
}
