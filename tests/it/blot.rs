//! dedup-blot: the blots it writes for each scheme and selection, and the arguments it refuses.

use crate::test_dir::{TestDir, records};
use std::collections::BTreeSet;

fn blots(arguments: &[&str], text: &str) -> Vec<String> {
    let ran = TestDir::new().run_with("dedup-blot", arguments, text.as_bytes());
    records(&ran.ok())[1]["blots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|blot| blot.as_str().unwrap().to_owned())
        .collect()
}

const TEXT: &str = "lorem ipsum dolor sit amet";

#[test]
fn the_stream_has_header_records_and_end() {
    let ran =
        TestDir::with(&[("a.txt", TEXT)]).run("dedup-blot", &["-k", "3", "--positions", "a.txt"]);
    assert_eq!(
        ran.ok_text(),
        r#"{"dedup":"blots","version":1,"scheme":"words@18.0/49 ordered:3:40 all"}
{"doc":"a.txt","bytes":26,"hash":"72c1a3dd9a84d69efa92a935498285dc","tokens":5,"blots":["d96da3656b","17faaf2576","6807242378"],"positions":[0,1,2]}
{"end":{"records":1}}
"#
    );
}

#[test]
fn every_window_has_a_blot() {
    assert_eq!(blots(&["-k", "2"], "a b c").len(), 2);
    assert_eq!(blots(&[], "a b c").len(), 1);
    assert_eq!(blots(&["--records", "text"], "").len(), 0);
    assert_eq!(
        blots(&["-k", "3", "--bits", "18"], TEXT),
        ["365b6", "05fea", "1a01c"]
    );
    assert_eq!(
        blots(&["-k", "3", "--bits", "64"], TEXT)[0],
        "d96da3656b6147c1"
    );
    assert_eq!(
        blots(&["-k", "2", "--interleave", "2", "--bits", "18"], TEXT),
        ["28c89", "01bfd", "3186a"]
    );
    assert_eq!(
        blots(&["-k", "3", "--scheme", "xor"], TEXT),
        ["91fefd8911", "22b44be823", "30a822723a"]
    );
}

#[test]
fn only_the_ordered_scheme_depends_on_word_order() {
    for (scheme, agree) in [("ordered", false), ("xor", true)] {
        let of = |text| blots(&["-k", "3", "--scheme", scheme], text);
        assert_eq!(of("one two three") == of("three one two"), agree);
    }
}

#[test]
fn each_selection_keeps_the_expected_blots() {
    let text: String = (0..500).map(|n| format!("w{n} ")).collect();
    let all = blots(&[], &text);
    let number = |blot: &String| u64::from_str_radix(blot, 16).unwrap();
    let kept = |which| blots(&["--select", which], &text);
    assert_eq!(
        kept("mod:4"),
        all.iter()
            .filter(|blot| number(blot) % 4 == 0)
            .cloned()
            .collect::<Vec<_>>()
    );
    assert_eq!(
        kept("every:10"),
        all.iter().step_by(10).cloned().collect::<Vec<_>>()
    );
    let winnowed = kept("winnow:4");
    assert!((150..250).contains(&winnowed.len()), "{}", winnowed.len());
    assert!(
        all.windows(4)
            .all(|window| window.iter().any(|blot| winnowed.contains(blot)))
    );
    let chain: BTreeSet<_> = kept("winnow:4,mod:4").into_iter().collect();
    assert_eq!(
        chain,
        kept("mod:4")
            .into_iter()
            .filter(|blot| winnowed.contains(blot))
            .collect()
    );
}

#[test]
fn the_anchor_selection_keeps_windows_by_their_first_word() {
    let dir = TestDir::with(&[
        ("anchors", "The\nin part*\n"),
        ("a.txt", "the first of the parts, in particular the last"),
    ]);
    let ran = dir.run(
        "dedup-blot",
        &[
            "-k",
            "2",
            "--positions",
            "--select",
            "anchor:anchors",
            "a.txt",
        ],
    );
    let found = records(&ran.ok());
    assert_eq!(found[1]["positions"].to_string(), "[0,3,5,7]");
    assert_eq!(
        found[0]["scheme"],
        "words@18.0/49 ordered:2:40 anchor:=563d1a65c3d49379"
    );
}

#[test]
fn both_strands_of_dna_have_the_same_blots() {
    let forward = "ACGTTGCAACGGTACCATTGACGTAGCTAGGCTATTACGGAT";
    let reverse: String = forward
        .chars()
        .rev()
        .map(|base| match base {
            'A' => 'T',
            'C' => 'G',
            'G' => 'C',
            _ => 'A',
        })
        .collect();
    let dir = TestDir::with(&[(
        "both.fa",
        format!(
            ">one x\n{forward}\n>two\n{}\n{}\n",
            &reverse[..20],
            &reverse[20..]
        ),
    )]);
    let found = records(
        &dir.run("dedup-blot", &["--tokenizer", "dna", "both.fa"])
            .ok(),
    );
    let set = |record: &serde_json::Value| {
        record["blots"]
            .as_array()
            .unwrap()
            .iter()
            .map(|blot| blot.as_str().unwrap().to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(
        (found[1]["doc"].as_str(), found[2]["doc"].as_str()),
        (Some("one"), Some("two"))
    );
    assert_eq!(set(&found[1]), set(&found[2]));
    assert_eq!(set(&found[1]).len(), forward.len() - 30);
    assert_eq!(found[0]["scheme"], "dna@18.0 ordered:31:40 all");
}

#[test]
fn token_streams_of_other_programs_are_read() {
    let lines = "{\"doc\":\"x\",\"tokens\":[\"lorem\",\"ipsum\",\"dolor\"]}\n{\"doc\":\"y\",\"tokens\":[]}\n";
    let ran = TestDir::new().run_with("dedup-blot", &["-k", "3"], lines.as_bytes());
    assert_eq!(
        ran.ok_text(),
        r#"{"dedup":"blots","version":1,"scheme":"words@18.0/49 ordered:3:40 all"}
{"doc":"x","hash":"2395a67e0e829f0a2ef6533ab30585d3","tokens":3,"blots":["d96da3656b"]}
{"doc":"y","hash":"99aa06d3014798d86001c324468d497f","tokens":0,"blots":[]}
{"end":{"records":2}}
"#
    );
    let stream = format!(
        "{{\"dedup\":\"tokens\",\"version\":1,\"scheme\":\"mine@2\"}}\n{lines}{{\"end\":{{\"records\":2}}}}\n"
    );
    let ran = TestDir::new().run_with("dedup-blot", &["-k", "3"], stream.as_bytes());
    assert_eq!(records(&ran.ok())[0]["scheme"], "mine@2 ordered:3:40 all");
}

#[test]
fn a_scheme_mismatch_names_both_schemes() {
    let dir = TestDir::with(&[("a.txt", TEXT)]);
    dir.run(
        "dedup-tokenize",
        &["--tokenizer", "char:3", "-o", "t", "a.txt"],
    )
    .ok();
    let ran = dir.run("dedup-blot", &["--tokenizer", "word", "t"]);
    assert_eq!(ran.code(), 2);
    assert_eq!(
        ran.stderr(),
        "dedup-blot: t: scheme is 'char:3@18.0', expected 'word@18.0'; give the same options to both, or leave them out to take those of the stream\n"
    );
    dir.run("dedup-blot", &["-k", "3", "-o", "b", "t"]).ok();
    let ran = dir.run("dedup-blot", &["--bits", "20", "b"]);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-blot: b: scheme is 'char:3@18.0 ordered:3:40 all', expected 'char:3@18.0 ordered:3:20 all'; blots cannot be made into others: start from the documents\n"
        )
    );
    let ran = dir.run("dedup-tokenize", &["b"]);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-tokenize: b: a stream of blots, which this program does not read\n"
        )
    );
}

#[test]
fn arguments_out_of_range_are_refused() {
    for arguments in [
        &["-k", "0"][..],
        &["--bits", "15"],
        &["--bits", "65"],
        &["--interleave", "0"],
        &["--scheme", "sum"],
        &["--select", "mod:x"],
    ] {
        let ran = TestDir::new().run_with("dedup-blot", arguments, b"x");
        assert_eq!(
            (ran.code(), ran.stdout().as_str()),
            (2, ""),
            "{arguments:?}"
        );
        assert!(
            ran.stderr()
                .contains(arguments[1].split(':').next().unwrap()),
            "{}",
            ran.stderr()
        );
    }
}

#[test]
fn documents_after_a_blot_stream_get_its_scheme() {
    let dir = TestDir::with(&[("a", TEXT), ("b", "lorem ipsum dolor")]);
    dir.run(
        "dedup-blot",
        &[
            "-k", "3", "--scheme", "xor", "--bits", "64", "-o", "a.blots", "a",
        ],
    )
    .ok();
    let expected = dir
        .run(
            "dedup-blot",
            &["-k", "3", "--scheme", "xor", "--bits", "64", "a", "b"],
        )
        .ok();
    assert_eq!(dir.run("dedup-blot", &["a.blots", "b"]).ok(), expected);
    assert_eq!(
        dir.run("dedup-blot", &["-k", "3", "a.blots", "b"]).ok(),
        expected
    );
    dir.write("phrases", "lorem");
    dir.run(
        "dedup-blot",
        &["--select", "anchor:phrases", "-o", "c.blots", "a"],
    )
    .ok();
    dir.run("dedup-blot", &["c.blots"]).ok();
    let ran = dir.run("dedup-blot", &["c.blots", "b"]);
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr().starts_with("dedup-blot: b: this program cannot make blots of scheme 'words@18.0/49 ordered:8:40 anchor:="),
        "{}",
        ran.stderr()
    );
}

#[test]
fn records_without_required_fields_are_refused() {
    let dir = TestDir::with(&[("a", TEXT)]);
    let tokens = dir.run("dedup-tokenize", &["a"]).ok();
    let ran = dir.run_with("dedup-tokenize", &["--spans"], &tokens);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-tokenize: stdin:2: its tokens came without spans; start from the documents, or leave out --spans\n"
        )
    );
    let blots = dir.run("dedup-blot", &["a"]).ok();
    let ran = dir.run_with("dedup-blot", &["--positions"], &blots);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-blot: stdin:2: its blots came without positions; start from the documents, or leave out --positions\n"
        )
    );
}

#[test]
fn winnowing_keeps_a_common_blot_of_interleaved_windows() {
    let run: Vec<String> = (0..18).map(|n| format!("shared{n}")).collect();
    let around = |name: &str| {
        (0..25)
            .map(|n| format!("{name}{n}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    // W + (k - 1) * N tokens: 4 + 7 * 2.
    let dir = TestDir::with(&[
        (
            "a",
            format!("{} {} {}", around("a"), run.join(" "), around("b")),
        ),
        (
            "b",
            format!("{} {} {}", around("c"), run.join(" "), around("d")),
        ),
    ]);
    let found = records(
        &dir.run(
            "dedup-blot",
            &["--interleave", "2", "--select", "winnow:4", "a", "b"],
        )
        .ok(),
    );
    let set = |record: &serde_json::Value| {
        record["blots"]
            .as_array()
            .unwrap()
            .iter()
            .map(|blot| blot.as_str().unwrap().to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert!(!set(&found[1]).is_disjoint(&set(&found[2])));
}
