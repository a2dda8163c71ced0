//! dedup-extract compare: aligns all pairs, or the pairs that share blots, whole or in slices.

use crate::test_dir::{TestDir, records};
use serde_json::{Value, json};

fn words(prefix: &str, count: usize) -> String {
    (0..count)
        .map(|number| format!("{prefix}{number}"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A text of 100 words; a text with 40 of them, two replaced; an exact copy; a text with three
/// words in common; and nearly empty documents.
fn fixture() -> TestDir {
    let copy = words("w", 40).replace("w10 ", "x ").replace("w20 ", "y ");
    let dir = TestDir::with(&[
        ("c/a.txt", words("w", 100)),
        ("c/b.txt", format!("Žluť! {copy} {}", words("b", 20))),
        ("c/copy.txt", format!("  {}\n", words("W", 100))),
        ("c/empty.txt", String::new()),
        ("c/empty2.txt", " ".to_owned()),
        (
            "c/few.txt",
            format!("{} w0 w1 w2 {}", words("f", 30), words("g", 30)),
        ),
        ("c/one.txt", "w0".to_owned()),
        ("c/two.txt", "w0 w1".to_owned()),
    ]);
    dir.shell("dedup-index build -q -o idx c").ok();
    dir
}

const EXHAUSTIVE: [&str; 4] = ["compare", "idx", "--method", "exhaustive"];

fn compare_exhaustively(dir: &TestDir, more: &[&str]) -> Vec<Value> {
    records(
        &dir.run("dedup-extract", &[&EXHAUSTIVE[..], more].concat())
            .ok(),
    )
}

/// 40 words in order with 2 replaced: 38 × 5 − 2 × 10.
fn expected() -> Vec<Value> {
    let (whole, part) = (words("w", 100).len(), words("w", 40).len());
    let in_b = [8, 8 + part - 4];
    let area = |a: Value| json!([{"a": a, "b": in_b, "tokens": 38, "score": 170}]);
    vec![
        json!({"a": "c/a.txt", "b": "c/copy.txt", "similarity": 500, "areas": [{"a": [0, whole], "b": [2, whole + 2], "tokens": 100, "score": 500}]}),
        json!({"a": "c/a.txt", "b": "c/b.txt", "similarity": 170, "areas": area(json!([0, part]))}),
        json!({"a": "c/b.txt", "b": "c/copy.txt", "similarity": 170, "areas": [{"a": in_b, "b": [2, part + 2], "tokens": 38, "score": 170}]}),
    ]
}

#[test]
fn exhaustive_comparison_gives_all_pairs_with_their_areas() {
    let dir = fixture();
    assert_eq!(compare_exhaustively(&dir, &[]), expected());
    assert_eq!(
        compare_exhaustively(&dir, &["--min-similarity", "171"]),
        expected()[..1]
    );
    let three = compare_exhaustively(&dir, &["--min-similarity", "15"]);
    let with_few: Vec<_> = three
        .iter()
        .filter(|record| record["b"] == "c/few.txt" || record["a"] == "c/few.txt")
        .collect();
    assert_eq!(with_few.len(), 3, "{three:?}");
    assert!(with_few.iter().all(|record| record["similarity"] == 15));
    let tsv = dir
        .run(
            "dedup-extract",
            &[&EXHAUSTIVE[..], &["--format", "tsv"]].concat(),
        )
        .ok_text();
    let lines = "a\tb\tsimilarity\tareas\nc/a.txt\tc/copy.txt\t500\t1\nc/a.txt\tc/b.txt\t170\t1\nc/b.txt\tc/copy.txt\t170\t1\n";
    assert_eq!(tsv, lines);
}

#[test]
fn compare_reads_documents_from_any_source() {
    let dir = fixture();
    dir.shell("mkdir moved && cp -r c moved/").ok();
    assert_eq!(
        compare_exhaustively(&dir, &["--corpus", "moved"]),
        expected()
    );
    assert_eq!(compare_exhaustively(&dir, &["c"]), expected());
    // compare reads only these documents, so it compares only these.
    assert_eq!(
        compare_exhaustively(&dir, &["c/a.txt", "c/b.txt"]),
        expected()[1..2]
    );
    dir.shell("rm c/b.txt").ok();
    let ran = dir.run("dedup-extract", &EXHAUSTIVE);
    let message = "dedup-extract: c/b.txt: No such file or directory (os error 2); if ids are no paths, say where the documents are with PATH\n";
    assert_eq!(
        (ran.code(), ran.stderr().as_str(), records(&ran.0.stdout)),
        (2, message, expected()[..1].to_vec())
    );
}

#[test]
fn comparing_by_blots_gives_the_pairs_of_the_exhaustive_comparison() {
    let dir = fixture();
    let areas = dir.run("dedup-extract", &["compare", "idx"]).ok();
    assert_eq!(records(&areas), expected());
    let half = records(
        &dir.run("dedup-extract", &["compare", "idx", "--threshold", "0.9"])
            .ok(),
    );
    assert_eq!(half, expected()[..1]);
    assert_eq!(
        dir.run("dedup-extract", &["compare", "idx", "--method", "blots"])
            .ok(),
        areas
    );
}

#[test]
fn candidates_say_how_they_were_found() {
    let dir = fixture();
    let pair = |a: &str, b: &str, by: &str| json!({"a": format!("c/{a}.txt"), "b": format!("c/{b}.txt"), "by": by});
    let by_blots = records(
        &dir.run("dedup-extract", &["compare", "idx", "--candidates"])
            .ok(),
    );
    assert_eq!(
        by_blots,
        [
            pair("a", "copy", "exact"),
            pair("a", "b", "blots"),
            pair("b", "copy", "blots")
        ]
    );
    let all = compare_exhaustively(&dir, &["--candidates"]);
    // A document without tokens is a candidate for others, but not for another document without
    // tokens.
    assert_eq!(
        (all.len(), &all[1]),
        (8 * 7 / 2 - 1, &pair("a", "b", "exhaustive"))
    );
}

#[test]
fn slices_joined_equal_the_whole_for_any_number_of_threads() {
    let dir = TestDir::new();
    for number in 0..60 {
        let text = format!(
            "{} {} {}",
            words("a", number % 7 * 10),
            words(&format!("own{number}x"), 30),
            words("b", number % 5 * 10)
        );
        dir.write(&format!("c/{number:02}.txt"), text);
    }
    dir.shell("dedup-index build -q -o idx c").ok();
    for method in [
        &["--method", "exhaustive"][..],
        &["--method", "exhaustive", "--p-values"],
        &["--candidates"],
        &["--method", "blots"],
    ] {
        for format in ["ndjson", "tsv"] {
            let run = |more: &[&str]| {
                dir.run(
                    "dedup-extract",
                    &[&["compare", "idx", "--format", format], method, more].concat(),
                )
                .ok()
            };
            let whole = run(&[]);
            assert!(whole.len() > 1000);
            for threads in ["1", "8"] {
                assert_eq!(run(&["--threads", threads]), whole, "{method:?} {threads}");
            }
            for of in [2, 7] {
                let parts: Vec<_> = (1..=of)
                    .map(|number| run(&["--slice", &format!("{number}/{of}")]))
                    .collect();
                assert_eq!(parts.concat(), whole, "{method:?} {of}");
            }
        }
    }
}

#[test]
fn p_values_fall_with_similarity_and_need_a_collection() {
    let dir = fixture();
    let refused = dir.run(
        "dedup-extract",
        &[&EXHAUSTIVE[..], &["--p-values"]].concat(),
    );
    assert_eq!(refused.code(), 2);
    let message = "too few to tell what unrelated texts score; it takes 100";
    assert!(refused.stderr().contains(message), "{}", refused.stderr());
    let dir = TestDir::new();
    for number in 0..30 {
        let own = words(&format!("own{number}x"), 200);
        let shared = words("w", 3 * (number % 10));
        dir.write(&format!("c/{number:02}.txt"), format!("{own} {shared}"));
    }
    dir.shell("dedup-index build -q -o idx c").ok();
    let found = compare_exhaustively(&dir, &["--p-values", "--min-similarity", "15"]);
    let mut values: Vec<(u64, f64)> = found
        .iter()
        .map(|pair| {
            let p_value = pair["p_value"].as_f64().unwrap();
            (pair["similarity"].as_u64().unwrap(), p_value)
        })
        .collect();
    assert!(!values.is_empty() && values.iter().all(|(_, p)| *p > 0.0 && *p <= 1.0));
    values.sort_by_key(|value| value.0);
    assert!(values[0].1 > values[values.len() - 1].1);
}

#[test]
fn only_allowed_pairs_are_compared() {
    let dir = fixture();
    assert_eq!(
        compare_exhaustively(&dir, &["--new", "c/b"]),
        expected()[1..]
    );
    dir.write("groups", "c/a.txt\tann\nc/copy.txt\tann\n");
    assert_eq!(
        compare_exhaustively(&dir, &["--groups", "groups"]),
        expected()[1..]
    );
}

#[test]
fn compare_reads_other_schemes_and_compressed_ndjson() {
    let dir = TestDir::new();
    let lines: String = [("a", 50), ("b", 60), ("c", 0)]
        .map(|(id, count)| {
            json!({"id": id, "text": format!("{id} {}", words("w", count))}).to_string() + "\n"
        })
        .concat();
    dir.write("d.jsonl", lines);
    dir.shell("gzip d.jsonl").ok();
    let plain = json!({"a": "a", "b": "b", "similarity": 250, "areas": [{"a": [2, 191], "b": [2, 191], "tokens": 50, "score": 250}]});
    for (number, scheme) in [
        "ordered",
        "ordered --select mod:4",
        "context:3",
        "letters:12",
        "ordered:8,context:3",
    ]
    .iter()
    .enumerate()
    {
        dir.shell(&format!(
            "dedup-index build -q -o idx{number} --scheme {scheme} d.jsonl.gz"
        ))
        .ok();
        let index = format!("idx{number}");
        let found = records(
            &dir.run(
                "dedup-extract",
                &["compare", &index, "--method", "exhaustive", "d.jsonl.gz"],
            )
            .ok(),
        );
        assert_eq!(found, std::slice::from_ref(&plain), "{scheme}");
        assert_eq!(
            records(
                &dir.run(
                    "dedup-extract",
                    &["compare", &index, "--corpus", "d.jsonl.gz"]
                )
                .ok()
            )
            .len(),
            1,
            "{scheme}"
        );
    }
}

#[test]
fn contradictory_options_are_refused() {
    let dir = fixture();
    for (arguments, message) in [
        (
            "--method exhaustive,blots",
            "exhaustive compares all pairs; leave out the other methods",
        ),
        (
            "--method exhaustive --score s1",
            "--score, --threshold and --max-df are about blots; add --method blots",
        ),
        (
            "--method exhaustive --max-df 3",
            "--score, --threshold and --max-df are about blots; add --method blots",
        ),
        (
            "--candidates c",
            "c: idx is an index, and the only source of this verb; leave out what follows",
        ),
    ] {
        let ran = dir.run(
            "dedup-extract",
            &[
                &["compare", "idx"][..],
                &arguments.split(' ').collect::<Vec<_>>(),
            ]
            .concat(),
        );
        assert_eq!(
            (ran.code(), ran.stderr()),
            (2, format!("dedup-extract: {message}\n")),
            "{arguments}"
        );
    }
    for (arguments, message) in [
        ("compare idx --keep first", "unexpected argument '--keep'"),
        ("compare idx --passages", "unexpected argument '--passages'"),
        (
            "compare idx --exclude-text c/a.txt",
            "unexpected argument '--exclude-text'",
        ),
        (
            "compare idx --format dot",
            "invalid value 'dot' for '--format <FORMAT>'",
        ),
        ("pairs idx --slice 1/2", "unexpected argument '--slice'"),
        (
            "compare idx --candidates --min-similarity 5",
            "cannot be used with",
        ),
    ] {
        let ran = dir.shell(&format!("dedup-extract {arguments}"));
        assert!(
            ran.code() == 2 && ran.stderr().contains(message),
            "{arguments}: {}",
            ran.stderr()
        );
    }
    for slice in ["0/3", "4/3", "x"] {
        let ran = dir.run(
            "dedup-extract",
            &[&EXHAUSTIVE[..], &["--slice", slice]].concat(),
        );
        assert!(
            ran.code() == 2 && ran.stderr().contains("is not a slice such as 1/8"),
            "{slice}: {}",
            ran.stderr()
        );
    }
    dir.write("dna.fa", ">x\nacgtacgtacgtacgtacgtacgtacgtacgtacgt\n");
    dir.shell("dedup-index build -q --tokenizer dna -o dna.idx dna.fa")
        .ok();
    let ran = dir.run(
        "dedup-extract",
        &["compare", "dna.idx", "--method", "exhaustive", "dna.fa"],
    );
    assert!(
        ran.code() == 2 && ran.stderr().contains("compare them with --passages"),
        "{}",
        ran.stderr()
    );
}
