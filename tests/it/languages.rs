//! Copies are found in scripts that are written without spaces, to the character, and unrelated texts have none.

use crate::test_dir::{TestDir, root};
use serde_json::Value;
use std::fs;

const LANGUAGES: [&str; 7] = ["tha", "lao", "khm", "mya", "cmn_hans", "cmn_hant", "jpn"];
const ARTICLES: [&str; 4] = ["12", "18", "24", "27"];

fn article(language: &str, number: &str) -> String {
    let path = format!("testdata/udhr/{language}/{number}.txt");
    fs::read_to_string(root().join(path)).unwrap()
}

/// The passages of two texts, with offsets in characters.
fn passages(a: &str, b: &str) -> Vec<Value> {
    let dir = TestDir::new();
    dir.write("a", a);
    dir.write("b", b);
    let ran = dir.run("dedup-query", &["align", "-q", "--chars", "a", "b"]);
    let record: Value = serde_json::from_str(ran.stdout().trim()).unwrap();
    record["passages"].as_array().unwrap().clone()
}

fn span(passage: &Value, side: &str) -> [usize; 2] {
    serde_json::from_value(passage[side].clone()).unwrap()
}

#[test]
fn a_copied_paragraph_is_found_to_the_character() {
    for language in LANGUAGES {
        let [source, before, after] = ["27", "24", "12"].map(|number| article(language, number));
        let copied = source.lines().next().unwrap();
        let host = format!("{before}{copied}\n{after}");
        let found = passages(&host, &source);
        assert_eq!(found.len(), 1, "{language}: {found:?}");
        let start = before.chars().count();
        let length = copied.chars().count();
        assert_eq!(found[0]["kind"], "verbatim", "{language}");
        assert_eq!(span(&found[0], "a"), [start, start + length], "{language}");
        assert_eq!(span(&found[0], "b"), [0, length], "{language}");
    }
}

/// Words at the ends of a copy are cut differently, yet its ends are found.
#[test]
fn a_copy_cut_inside_words_is_found_to_the_character() {
    for language in LANGUAGES {
        let source: Vec<char> = article(language, "18").chars().collect();
        let host: Vec<char> = article(language, "24").chars().collect();
        for start in [5, 6, 7] {
            let end = start + 60;
            let copied = &source[start..end];
            let place = host.len() / 2;
            let text: String = [&host[..place], copied, &host[place..]]
                .concat()
                .iter()
                .collect();
            let found = passages(&text, &source.iter().collect::<String>());
            assert_eq!(found.len(), 1, "{language}: {found:?}");
            for (side, expected) in [("a", [place, place + 60]), ("b", [start, end])] {
                let near = span(&found[0], side)
                    .iter()
                    .zip(expected)
                    .all(|(found, expected)| found.abs_diff(expected) <= 1);
                assert!(near, "{language} {side}: {found:?}, expected {expected:?}");
            }
        }
    }
}

#[test]
fn unrelated_articles_share_nothing() {
    for language in LANGUAGES {
        for (at, one) in ARTICLES.iter().enumerate() {
            for two in &ARTICLES[..at] {
                let found = passages(&article(language, one), &article(language, two));
                assert!(found.is_empty(), "{language} {one} {two}: {found:?}");
            }
        }
    }
}

/// Words of these scripts are cut by default, in an index too; the index says so, and one of single characters stays
/// in use.
#[test]
fn an_index_of_single_characters_is_still_queried() {
    let dir = TestDir::new();
    dir.write("thai.txt", article("tha", "18"));
    for (index, options, scheme) in [
        ("new.idx", &[][..], "words@18.0/49 ordered:8:40 all"),
        (
            "old.idx",
            &["--tokenizer", "word"],
            "word@18.0 ordered:8:40 all",
        ),
    ] {
        let build = [&["build", "-q", "-o", index, "thai.txt"], options].concat();
        dir.run("dedup-index", &build).ok();
        let manifest: Value =
            serde_json::from_slice(&fs::read(dir.path(index).join("manifest.json")).unwrap())
                .unwrap();
        assert_eq!(manifest["scheme"], scheme);
        dir.write("asked.txt", article("tha", "18"));
        let ran = dir.run(
            "dedup-query",
            &[index, "-q", "--format", "tsv", "asked.txt"],
        );
        assert!(ran.stdout().contains("thai.txt"), "{}", ran.stderr());
        dir.write("more.txt", article("tha", "12"));
        dir.run("dedup-index", &["add", "-q", index, "more.txt"])
            .ok();
    }
}
