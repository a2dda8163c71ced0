//! Exclusions (quotations, bibliographies, base text, short passages) and the word counts that
//! report them.

use crate::test_dir::{TestDir, records};
use serde_json::{Value, json};

const COPY: &str = "Ice that is pressed by its own weight begins to flow downhill, slowly, and carries the stones of the valley with it.";
const QUOTATION: &str = "Bread was baked once a week in the village oven, and every family marked its loaves with a sign of its own.";
const LIST: &str = "References\n\n[1] J. F. Nye. The mechanics of glacier flow. J. Glaciol., 2(12):82-93, 1952.\n\
    [2] J. W. Glen. The creep of polycrystalline ice. Proc. R. Soc. A, 228:519-538, 1955.\n";
const HANDOUT: &str = "Exercise three. Explain in your own words why glaciers move, and give two examples of valleys that were shaped by them.";

/// An essay that copies a sentence, quotes another, and has the bibliography and the exercise of
/// its source.
fn fixture() -> TestDir {
    let essay = format!(
        "{HANDOUT}\n\nMy answer. {COPY} As it is said: “{QUOTATION}” That is all.\n\n{LIST}"
    );
    let source = format!(
        "{HANDOUT}\n\nOn glaciers. {COPY} And on bread: {QUOTATION} Nothing more.\n\n{LIST}"
    );
    let dir = TestDir::with(&[
        ("essay.txt", essay),
        ("source.txt", source),
        ("handout/3.txt", HANDOUT.to_owned()),
        ("pairs", "essay.txt\tsource.txt\n".to_owned()),
    ]);
    dir.shell("dedup-index build -q -o my.idx source.txt").ok();
    dir.shell("dedup-index build -q -o two.idx essay.txt source.txt")
        .ok();
    dir
}

const ALL: [&str; 6] = [
    "--exclude-quotes",
    "--exclude-bibliography",
    "--base",
    "handout",
    "--min-match-words",
    "12",
];

fn words(text: &str) -> usize {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .count()
}

fn texts(dir: &TestDir, record: &Value) -> Vec<String> {
    let essay = String::from_utf8(dir.read("essay.txt")).unwrap();
    let span = |passage: &Value| {
        essay
            [passage["a"][0].as_u64().unwrap() as usize..passage["a"][1].as_u64().unwrap() as usize]
            .to_owned()
    };
    record["passages"]
        .as_array()
        .unwrap()
        .iter()
        .map(span)
        .collect()
}

#[test]
fn word_counts_report_each_exclusion() {
    let dir = fixture();
    let counted = words(COPY) + words("My answer. As it is said That is all");
    let essay = json!({
        "words": counted + words(HANDOUT) + words(LIST) + words(QUOTATION),
        "excluded": {"base": words(HANDOUT), "bibliography": words(LIST), "quotes": words(QUOTATION)},
        "counted": counted, "matched": words(COPY), "share": (1e6 * words(COPY) as f64 / counted as f64).round() / 1e6,
    });
    // Only base text is excluded from a source.
    let all = words(&String::from_utf8(dir.read("source.txt")).unwrap());
    let source = json!({
        "words": all, "excluded": {"base": words(HANDOUT), "bibliography": 0, "quotes": 0}, "counted": all - words(HANDOUT),
        "matched": words(COPY), "share": (1e6 * words(COPY) as f64 / (all - words(HANDOUT)) as f64).round() / 1e6,
    });
    for arguments in [
        &["align", "--pairs", "pairs"][..],
        &["my.idx", "essay.txt", "--passages"],
    ] {
        let found = records(&dir.run("dedup-query", &[arguments, &ALL].concat()).ok());
        assert_eq!(found.len(), 1);
        assert_eq!(
            (&found[0]["a_words"], &found[0]["b_words"]),
            (&essay, &source),
            "{arguments:?}"
        );
        assert_eq!(texts(&dir, &found[0]), [COPY]);
    }
    let pair = &records(
        &dir.run(
            "dedup-query",
            &[&["align", "--pairs", "pairs"], &ALL[..]].concat(),
        )
        .ok(),
    )[0];
    assert_eq!(
        (&pair["a_in_b"], &pair["b_in_a"]),
        (&essay["share"], &source["share"])
    );
    // Neither document of a pair is the source, so what one of them quotes or lists is excluded for
    // both.
    let found = records(
        &dir.run(
            "dedup-extract",
            &[&["two.idx", "--passages"], &ALL[..]].concat(),
        )
        .ok(),
    );
    assert_eq!(found[0]["base"], json!(["handout"]));
    assert_eq!(found[1]["a_words"], essay);
    assert_eq!(
        found[1]["b_words"]["excluded"],
        json!({"base": words(HANDOUT), "bibliography": words(LIST), "quotes": 0})
    );
    assert_eq!(texts(&dir, &found[1]), [COPY]);
    // Without exclusions the record has no word counts.
    let plain = &records(
        &dir.run("dedup-query", &["my.idx", "essay.txt", "--passages"])
            .ok(),
    )[0];
    assert!(plain.get("a_words").is_none());
}

#[test]
fn each_flag_excludes_its_own_kind_of_passage() {
    let dir = fixture();
    let found = |arguments: &[&str]| {
        let ran = dir.run(
            "dedup-query",
            &[&["align", "--pairs", "pairs"], arguments].concat(),
        );
        texts(&dir, &records(&ran.0.stdout)[0])
    };
    let has = |found: &[String], text: &str| {
        found
            .iter()
            .any(|passage| passage.contains(&text[text.len() / 2..text.len() - 2]))
    };
    let shown = |arguments: &[&str]| {
        let found = found(arguments);
        [HANDOUT, COPY, QUOTATION, LIST].map(|text| has(&found, text))
    };
    assert_eq!(shown(&[]), [true; 4]);
    assert_eq!(shown(&["--exclude-quotes"]), [true, true, false, true]);
    assert_eq!(
        shown(&["--exclude-bibliography"]),
        [true, true, true, false]
    );
    assert_eq!(
        shown(&["--base", "handout/3.txt"]),
        [false, true, true, true]
    );
    assert_eq!(shown(&["--min-match-words", "1000"]), [false; 4]);
}

#[test]
fn a_match_without_remaining_passages_is_dropped() {
    let dir = TestDir::with(&[
        ("a.txt", format!("I quote: “{QUOTATION}” So.")),
        ("b.txt", format!("{QUOTATION} More.")),
        ("c.txt", format!("{HANDOUT} Mine.")),
        ("d.txt", format!("{HANDOUT} His own.")),
        ("base.txt", HANDOUT.to_owned()),
    ]);
    dir.shell("dedup-index build -q -o my.idx a.txt b.txt c.txt d.txt")
        .ok();
    let pairs = |arguments: &[&str]| {
        let out = dir
            .run("dedup-extract", &[&["my.idx"], arguments].concat())
            .ok();
        records(&out)
            .iter()
            .filter(|record| record.get("a").is_some())
            .map(|record| format!("{}{}", record["a"], record["b"]))
            .collect::<Vec<_>>()
    };
    let (ab, cd) = (
        "\"a.txt\"\"b.txt\"".to_owned(),
        "\"c.txt\"\"d.txt\"".to_owned(),
    );
    assert_eq!(pairs(&["--passages"]), [ab.clone(), cd.clone()]);
    assert_eq!(
        pairs(&["--passages", "--exclude-quotes"]),
        std::slice::from_ref(&cd)
    );
    assert_eq!(pairs(&["--base", "base.txt"]), std::slice::from_ref(&ab));
    let asked = |arguments: &[&str]| dir.run("dedup-query", &[&["my.idx"], arguments].concat());
    assert_eq!(
        asked(&["a.txt", "--passages", "--exclude-quotes", "--group-by", "1"]).code(),
        1
    );
    assert_eq!(
        asked(&["b.txt", "--passages", "--exclude-quotes", "--group-by", "1"]).code(),
        0,
        "it has no marks of its own"
    );
    assert_eq!(
        asked(&["c.txt", "--base", "base.txt", "--group-by", "1"]).code(),
        1
    );
    let missing = asked(&["c.txt", "--passages", "--base", "none"]);
    assert!(
        missing.code() == 2 && missing.stderr().contains("none: No such file"),
        "{}",
        missing.stderr()
    );
}

#[test]
fn html_pages_report_the_exclusions() {
    let dir = fixture();
    dir.run(
        "dedup-query",
        &[&["align", "--pairs", "pairs", "--html", "report"], &ALL[..]].concat(),
    )
    .ok();
    dir.run(
        "dedup-query",
        &[&["my.idx", "essay.txt", "--html", "essay.html"], &ALL[..]].concat(),
    )
    .ok();
    for (page, judged) in [
        ("report/pair-000001.html", "the first text"),
        ("essay.html", "the document"),
    ] {
        let page = String::from_utf8(dir.read(page)).unwrap();
        assert!(page.contains(&format!(
            "The list of references of {judged} does not count."
        )));
        for part in [
            "\"words\":108,\"counts\":31,",
            "Passages of fewer than 12 words in common are left out.",
            "of the base text",
            "\"in quotations\"]",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }
    let overview = String::from_utf8(dir.read("report/index.html")).unwrap();
    assert!(overview.contains("Passages of fewer than 12 words"));
}
