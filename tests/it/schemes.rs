//! Blot schemes: copies that only one of them finds, and several schemes in one index.

use crate::test_dir::{TestDir, records};
use proptest::prelude::*;
use std::{collections::BTreeMap, fs, path::Path};

const SOURCE: &str = "The old lighthouse keeper climbed the narrow stairs every evening to light the lamp that guided fishing boats safely into the harbour";
const REWORDED: &str = "Each evening, to guide boats of fishermen into their safe harbour, a lamp was lit: the keeper of that old lighthouse climbed its narrow stair";
const MISREAD: &str = "Tbe old Iighthouse kceper cl1mbed the narrow sta irs eve ry evening to l ight thelamp thatguided fishing boat5 safely into tbe harb0ur";
const OTHER: &str = "Nothing grows in this garden but thistles, nettles and a single apple tree which has not borne any fruit for twenty years";

fn library(scheme: &str) -> TestDir {
    let dir = TestDir::with(&[
        ("c/source.txt", SOURCE),
        ("c/other.txt", OTHER),
        ("reworded.txt", REWORDED),
        ("misread.txt", MISREAD),
    ]);
    dir.run(
        "dedup-index",
        &["build", "-q", "-o", "i", "--scheme", scheme, "c"],
    )
    .ok();
    dir.run("dedup-index", &["verify", "i"]).ok();
    dir
}

/// The documents found for a query, and the number of shared blots.
fn found(dir: &TestDir, document: &str) -> Vec<(String, u64)> {
    let ran = dir.run("dedup-query", &["i", document]);
    records(&ran.0.stdout)
        .iter()
        .map(|found| {
            (
                found["doc"].as_str().unwrap().to_owned(),
                found["shared"].as_u64().unwrap(),
            )
        })
        .collect()
}

#[test]
fn each_scheme_finds_its_kind_of_copy() {
    for (scheme, finds_reworded, finds_misread) in [
        ("ordered", false, false),
        ("sorted:5", false, false),
        ("spaced", false, false),
        ("context", true, true),
        ("letters:14", false, true),
        ("ordered,context:3", true, true),
        ("ordered:8,letters:14/winnow:3", false, true),
    ] {
        let dir = library(scheme);
        let is_found = |document: &str| {
            found(&dir, document)
                .iter()
                .map(|found| found.0.clone())
                .collect::<Vec<_>>()
                == ["c/source.txt"]
        };
        assert_eq!(
            (is_found("reworded.txt"), is_found("misread.txt")),
            (finds_reworded, finds_misread),
            "{scheme}"
        );
        dir.shell("cp c/source.txt whole.txt").ok();
        assert!(is_found("whole.txt"), "{scheme}");
    }
}

#[test]
fn a_query_uses_all_schemes_of_the_index() {
    let alone = ["ordered:5", "context:3", "letters:10"]
        .map(|scheme| found(&library(scheme), "misread.txt"));
    let together = found(&library("ordered:5,context:3,letters:10"), "misread.txt");
    let shared = |found: &[(String, u64)]| found.iter().map(|found| found.1).sum::<u64>();
    assert_eq!(
        shared(&together),
        alone.iter().map(|found| shared(found)).sum::<u64>()
    );
    assert!(shared(&together) > 0);
}

#[test]
fn the_text_of_a_blot_is_shown_for_every_scheme() {
    let dir = library("ordered:4,spaced:1101,context:2,letters:12");
    let lines = records(
        &dir.run(
            "dedup-blot",
            &[
                "--scheme",
                "ordered:4,spaced:1101,context:2,letters:12",
                "--positions",
                "c/source.txt",
            ],
        )
        .ok(),
    );
    let (blots, positions) = (
        lines[1]["blots"].as_array().unwrap(),
        lines[1]["positions"].as_array().unwrap(),
    );
    assert!(positions.is_sorted_by_key(|position| position.as_u64()));
    let mut texts: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (blot, position) in blots.iter().zip(positions) {
        let shown = records(
            &dir.run("dedup-query", &["blot", "i", blot.as_str().unwrap()])
                .ok(),
        );
        let text = shown
            .iter()
            .find(|line| line["doc"] == "c/source.txt")
            .unwrap()["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{blot}"));
        texts
            .entry(position.as_u64().unwrap())
            .or_default()
            .push(text.to_owned());
    }
    let of_old = &texts[&1];
    assert_eq!(
        of_old[..2],
        [
            "old lighthouse keeper climbed",
            "old lighthouse keeper climbed"
        ]
    );
    assert!(
        of_old[2..]
            .iter()
            .all(|text| text.starts_with("old lighthouse")),
        "{of_old:?}"
    );
    assert!(
        texts[&2].contains(&"lighthouse keeper climbed".to_owned()),
        "{:?}",
        texts[&2]
    );
}

fn bytes_of(index: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(index)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            (
                path.file_name().unwrap().to_str().unwrap().to_owned(),
                fs::read(path).unwrap(),
            )
        })
        .collect()
}

#[test]
fn every_way_to_build_gives_the_same_index_of_several_schemes() {
    let dir = library("ordered:3,sorted,context,letters:8/winnow:4");
    let expected = bytes_of(&dir.path("i"));
    for (name, line) in [
        (
            "tokens",
            "dedup-tokenize c | dedup-index build -o tokens --scheme ordered:3,sorted:8,context:3,letters:8/winnow:4",
        ),
        (
            "blots",
            "dedup-blot --scheme ordered:3,sorted,context,letters:8/winnow:4 c | dedup-index build -o blots",
        ),
        (
            "binary",
            "dedup-blot --binary --positions --scheme ordered:3,sorted,context,letters:8/winnow:4 c | dedup-index build -o binary",
        ),
        (
            "dumped",
            "dedup-index dump i | dedup-index build -o dumped --memory 1",
        ),
        (
            "threads",
            "dedup-index build -o threads --threads 8 --memory 1 --scheme ordered:3,sorted,context,letters:8/winnow:4 c",
        ),
    ] {
        dir.shell(&format!("set -o pipefail; {line}")).ok();
        assert!(bytes_of(&dir.path(name)) == expected, "{name}");
    }
    // Documents that are added or queried use the schemes of the index.
    dir.write("c/third.txt", SOURCE.replace("lamp", "lantern"));
    dir.run("dedup-index", &["add", "-q", "i", "c/third.txt"])
        .ok();
    dir.run(
        "dedup-index",
        &[
            "build",
            "-q",
            "-o",
            "all",
            "--scheme",
            "ordered:3,sorted,context,letters:8/winnow:4",
            "c",
        ],
    )
    .ok();
    let dumps = ["i", "all"].map(|index| {
        let mut lines: Vec<_> = dir
            .run("dedup-index", &["dump", index])
            .ok_text()
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    });
    assert_eq!(dumps[0], dumps[1]);
}

#[test]
fn spans_cover_only_verbatim_text() {
    let dir = library("context:3,ordered:8");
    let spans = |index: &str| dir.run("dedup-extract", &["spans", index, "c"]);
    dir.run("dedup-index", &["build", "-q", "-o", "plain", "c"])
        .ok();
    dir.write("c/copy.txt", format!("{SOURCE}. {REWORDED}"));
    for index in ["i", "plain"] {
        dir.run("dedup-index", &["add", "-q", index, "c/copy.txt"])
            .ok();
    }
    assert_eq!(spans("i").ok_text(), spans("plain").ok_text());
    dir.run(
        "dedup-index",
        &["build", "-q", "-o", "reworded", "--scheme", "context", "c"],
    )
    .ok();
    let refused = spans("reworded");
    assert!(
        refused.stderr().contains("build with --scheme ordered"),
        "{}",
        refused.stderr()
    );
}

#[test]
fn contradictory_schemes_are_refused() {
    let dir = library("context:3");
    for (line, expected) in [
        (
            "dedup-blot --scheme contxt c",
            "no scheme 'contxt'; there are ordered[:K], xor[:K], sorted[:K], spaced[:MASK], context[:N], letters[:N]",
        ),
        (
            "dedup-blot --scheme context -k 3 c",
            "-k has no meaning with --scheme context, which says it all",
        ),
        (
            "dedup-blot --scheme ordered:8 --interleave 2 c",
            "--interleave has no meaning with --scheme ordered:8",
        ),
        (
            "dedup-blot --scheme ordered,ordered:8 c",
            "ordered:8: named twice",
        ),
        ("dedup-blot --scheme spaced:0110 c", "'0110' is not a mask"),
        (
            "dedup-blot --scheme letters/winow:3 c",
            "no selection 'winow:3'",
        ),
        (
            "dedup-blot --tokenizer dna --scheme context c",
            "context:3: of both strands of a sequence there are ordered, xor and sorted windows",
        ),
        (
            "dedup-query i --scheme ordered c/source.txt",
            "words@18.0/49 ordered:8:40 all",
        ),
    ] {
        let ran = dir.shell(line);
        assert_eq!(ran.code(), 2, "{line}");
        assert!(ran.stderr().contains(expected), "{line}: {}", ran.stderr());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// The blots of several schemes are the union of each scheme's, by first token and then by
    /// scheme.
    #[test]
    fn several_schemes_give_the_union_of_their_blots(words in prop::collection::vec("[a-d]{1,6}|[0-9]{1,2}|é[a-c]{3,5}|漢|字", 0..60)) {
        let dir = TestDir::new();
        dir.write("d.txt", words.join(" "));
        let blots = |scheme: &str| -> Vec<(u64, String)> {
            let lines = records(&dir.run("dedup-blot", &["--scheme", scheme, "--positions", "d.txt"]).ok());
            let list = |name: &str| lines[1][name].as_array().unwrap().clone();
            list("positions").iter().zip(list("blots")).map(|(at, blot)| (at.as_u64().unwrap(), blot.as_str().unwrap().to_owned())).collect()
        };
        let names = ["sorted:3", "spaced:101", "context:2", "letters:4/winnow:2", "ordered:2x2"];
        let mut each: Vec<_> = names.iter().flat_map(|name| blots(name)).collect();
        each.sort_by_key(|blot| blot.0);
        prop_assert_eq!(blots(&names.join(",")), each);
    }
}
