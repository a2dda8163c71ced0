//! The dictionary of an index (--dictionary), and the filter of pairs by shared words that uses it.

use crate::test_dir::{TestDir, records};

/// The two documents of the paper, and an exact duplicate of the second.
fn example() -> TestDir {
    let dir = TestDir::with(&[
        ("c/da", "A B C C G C E D F"),
        ("c/db", "F D E C C F A G G H"),
        ("c/dc", "f, d, e; c c f a g g h."),
    ]);
    dir.run(
        "dedup-index",
        &["build", "--dictionary", "--relative", "-o", "i", "c"],
    )
    .ok();
    dir
}

/// The lines of a dictionary, sorted.
fn words(dir: &TestDir, index: &str) -> Vec<String> {
    let word = |record: serde_json::Value| {
        format!(
            "{} {} {} {}",
            record["word"], record["df"], record["docs"], record["times"]
        )
    };
    let mut words: Vec<_> = records(
        &dir.run("dedup-index", &["dump", "--dictionary", index])
            .ok(),
    )
    .into_iter()
    .map(word)
    .collect();
    words.sort();
    words
}

#[test]
fn the_dictionary_has_the_tables_of_the_paper() {
    let dir = example();
    let expected = [
        r#""a" 3 ["da","db","dc"] [1,1,1]"#,
        r#""b" 1 ["da"] [1]"#,
        r#""c" 3 ["da","db","dc"] [3,2,2]"#,
        r#""d" 3 ["da","db","dc"] [1,1,1]"#,
        r#""e" 3 ["da","db","dc"] [1,1,1]"#,
        r#""f" 3 ["da","db","dc"] [1,2,2]"#,
        r#""g" 3 ["da","db","dc"] [1,2,2]"#,
        r#""h" 2 ["db","dc"] [1,1]"#,
    ];
    assert_eq!(words(&dir, "i"), expected);
    assert_eq!(
        dir.shell("dedup-index stats --json i | jq -c .dictionary")
            .ok_text(),
        "{\"words\":8,\"pairs\":21,\"singletons\":1}\n"
    );
    let table = dir.run("dedup-index", &["stats", "i"]).ok_text();
    assert!(
        table.contains("\nwords                                  8\n")
            && table.contains("\n  dictionary "),
        "{table}"
    );
    // Documents are added and removed; a representative passes its words on to its duplicate.
    dir.shell("dedup-index remove i db da && echo 'a x' > dd && dedup-index add i dd && dedup-index verify i").ok();
    let expected = [
        r#""a" 2 ["dd","dc"] [1,1]"#,
        r#""c" 1 ["dc"] [2]"#,
        r#""d" 1 ["dc"] [1]"#,
        r#""e" 1 ["dc"] [1]"#,
    ];
    assert_eq!(words(&dir, "i")[..4], expected);
    let before = words(&dir, "i");
    dir.shell("dedup-index split i --parts 3 -o parts && dedup-index merge -o joined parts/* && dedup-index compact i && dedup-index verify joined").ok();
    assert_eq!(
        [words(&dir, "i"), words(&dir, "joined")],
        [before.clone(), before]
    );
    // The example of the manual page: c occurs three times at place 0 and twice at place 2.
    let dir = TestDir::with(&[("a", "c c c"), ("b", "x"), ("d", "c c")]);
    dir.run(
        "dedup-index",
        &["build", "--dictionary", "-o", "i", "a", "b", "d"],
    )
    .ok();
    let bytes = std::fs::read(dir.path("i/000001.words")).unwrap();
    assert!(
        bytes
            .windows(5)
            .any(|window| window == [0x01, 0x63, 0x01, 0x02, 0x05]),
        "{bytes:02x?}"
    );
}

#[test]
fn every_way_of_building_gives_the_same_dictionary() {
    let dir = TestDir::new();
    for number in 0..60 {
        dir.write(
            &format!("c/{number}"),
            (0..200)
                .map(|n| format!("w{} ", (n * n * number) % 701))
                .collect::<String>(),
        );
    }
    dir.run("dedup-index", &["build", "--dictionary", "-o", "i", "c"])
        .ok();
    for (name, build) in [
        (
            "threads",
            "dedup-index build --dictionary --threads 1 -o {} c",
        ),
        (
            "many",
            "dedup-index build --dictionary --threads 8 --memory 1 -o {} c",
        ),
        (
            "tokens",
            "dedup-tokenize c | dedup-index build --dictionary -o {}",
        ),
        (
            "binary",
            "dedup-tokenize --binary c | dedup-index build --dictionary -o {}",
        ),
    ] {
        dir.shell(&build.replace("{}", name)).ok();
        dir.shell(&format!(
            "cmp i/000001.words {name}/000001.words && cmp i/manifest.json {name}/manifest.json"
        ))
        .ok();
    }
}

#[test]
fn input_without_words_is_refused() {
    let dir = example();
    let ran = dir.shell("dedup-blot c/da | dedup-index build --dictionary -o j");
    let expected = "dedup-index: stdin:2: a blot stream has no words for the dictionary; start from documents or tokens\n";
    let nothing = "dedup-index: no document could be read, so no index was made\n";
    assert_eq!(
        (ran.code(), ran.stderr()),
        (2, format!("{expected}{nothing}"))
    );
    let ran = dir.shell("dedup-blot c/da | sed 's/c.da/new/' | dedup-index add i");
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr().starts_with(expected), "{}", ran.stderr());
    dir.run("dedup-index", &["build", "-o", "plain", "c"]).ok();
    let ran = dir.run("dedup-index", &["dump", "--dictionary", "plain"]);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-index: plain: has no dictionary; build it with dedup-index build --dictionary\n"
        )
    );
    let ran = dir.run("dedup-index", &["merge", "-o", "m", "i", "plain"]);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (2, "dedup-index: plain: has no dictionary, and i has one\n")
    );
}

#[test]
fn a_damaged_dictionary_is_detected() {
    let dir = example();
    let path = dir.path("i/000001.words");
    let bytes = std::fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        let mut altered = bytes.clone();
        altered[at] ^= 1 << (at % 8);
        std::fs::write(&path, &altered).unwrap();
        assert_eq!(dir.run("dedup-index", &["verify", "i"]).code(), 2, "{at}");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(
        dir.run("dedup-index", &["verify", "i"])
            .stderr()
            .contains("000001.words")
    );
}

/// A text of words that occur nowhere else, except that every `step`th word is replaced.
fn text(of: &str, step: usize) -> String {
    (0..120)
        .map(|number| {
            if number % step == step - 1 {
                format!("{of}{number} ")
            } else {
                format!("word{number} ")
            }
        })
        .collect()
}

/// Copies in which no window of eight words survives, a verbatim copy, and other texts.
fn library() -> TestDir {
    let dir = TestDir::new();
    let line =
        |id: &str, text: String| format!("{}\n", serde_json::json!({ "id": id, "text": text }));
    let other = |of: &str| {
        (0..50)
            .map(|number| format!("{of}{number} "))
            .collect::<String>()
    };
    let documents = [
        line("original", text("o", 1000)),
        line("edited", text("e", 7)),
        line("copy", format!("{} {}", other("x"), text("c", 1000))),
        line("empty", String::new()),
        line("one", "word".to_owned()),
        line("other", other("y")),
        line("copy of other", other("y").to_uppercase()),
        line("two", "word word".to_owned()),
    ];
    dir.write("c.jsonl", documents.concat());
    dir.run(
        "dedup-index",
        &["build", "--dictionary", "-o", "i", "c.jsonl"],
    )
    .ok();
    dir
}

/// The pairs, each with one field of its record.
fn pairs(dir: &TestDir, options: &str, field: &str) -> Vec<String> {
    let lines = dir
        .shell(&format!("dedup-extract compare i {options}"))
        .ok();
    records(&lines)
        .iter()
        .map(|record| format!("{} {} {}", record["a"], record["b"], record[field]).replace('"', ""))
        .collect()
}

#[test]
fn the_dictionary_filter_finds_copies_that_blots_miss() {
    let dir = library();
    assert_eq!(
        pairs(&dir, "c.jsonl", "similarity"),
        ["copy original 600", "copy of other other 250"]
    );
    let all = [
        "copy edited 350",
        "copy original 600",
        "copy of other other 250",
        "edited original 350",
    ];
    assert_eq!(
        pairs(&dir, "--method exhaustive c.jsonl", "similarity"),
        all
    );
    assert_eq!(pairs(&dir, "--method gdic c.jsonl", "similarity"), all);
    assert_eq!(
        pairs(&dir, "--method gdic,blots c.jsonl", "similarity"),
        all
    );
    // The two documents share one word, which is common.
    let found = [
        "copy edited gdic",
        "copy original blots,gdic",
        "copy of other other exact",
        "edited original gdic",
        "one two gdic",
    ];
    assert_eq!(pairs(&dir, "--method blots,gdic --candidates", "by"), found);
    for threads in 1..4 {
        let options = format!("--method gdic --candidates --memory 1 --threads {threads}");
        assert_eq!(pairs(&dir, &options, "by").len(), found.len());
        let slices: Vec<String> = (1..=3)
            .flat_map(|slice| {
                pairs(
                    &dir,
                    &format!("--method blots,gdic --candidates --slice {slice}/3"),
                    "by",
                )
            })
            .collect();
        assert_eq!(slices, found);
    }
}

#[test]
fn parameters_decide_which_pairs_are_candidates() {
    let dir = library();
    let found = |options: &str| {
        pairs(&dir, &format!("--method gdic --candidates {options}"), "by").len() - 1
    };
    assert_eq!(found(""), 4);
    // Words of three documents of eight, and of two.
    assert_eq!(
        [
            found("--p-stop 0.375"),
            found("--p-stop 0.374"),
            found("--p-stop 0.24")
        ],
        [4, 2, 0]
    );
    // 120 words with 17 replaced have 103 of 120 in common.
    assert_eq!(
        [
            found("--p-common 0.858"),
            found("--p-common 0.859"),
            found("--p-common 1")
        ],
        [4, 2, 2]
    );
    assert_eq!(
        [
            found("--p-common 1 --n-match 1 --s-match 2"),
            found("--p-common 1 --n-match 1 --s-match 3")
        ],
        [4, 2]
    );
    // 103 words of three documents and 68 of two, of 238.
    let of_vocabulary = |share: &str| found(&format!("--p-stop-of vocabulary --p-stop {share}"));
    assert_eq!(
        [
            of_vocabulary("0"),
            of_vocabulary("0.43"),
            of_vocabulary("0.44"),
            of_vocabulary("1")
        ],
        [4, 4, 2, 0]
    );
}

#[test]
fn impossible_parameters_are_refused() {
    let dir = library();
    dir.run("dedup-index", &["build", "-o", "plain", "c.jsonl"])
        .ok();
    for (line, expected) in [
        (
            "plain --method gdic",
            "plain: has no dictionary, which --method gdic needs; build it with dedup-index build --dictionary",
        ),
        (
            "i --p-stop 0.5",
            "are about words in common; add --method gdic",
        ),
        (
            "i --method exhaustive --n-match 2",
            "are about words in common; add --method gdic",
        ),
        (
            "i --method gdic --p-common 0",
            "--p-common 0 would take all pairs; for that there is --method exhaustive",
        ),
        (
            "i --method gdic --p-common 2",
            "2 is not a share from 0 to 1",
        ),
        (
            "i --method gdic --p-stop x",
            "'x' is not a number such as 0.5, or a percentage such as 50%",
        ),
        ("i --method gdic --n-match 0", "0 is not in 1.."),
        (
            "i --method gdic,exhaustive",
            "exhaustive compares all pairs; leave out the other methods",
        ),
        ("i --method gdic --top 3", "unexpected argument '--top'"),
    ] {
        let ran = dir.shell(&format!("dedup-extract compare {line}"));
        assert!(
            ran.code() == 2 && ran.stderr().contains(expected),
            "{line}: {}",
            ran.stderr()
        );
    }
    // Empty input gives empty output.
    dir.write("none", "{\"dedup\":\"tokens\",\"version\":1,\"scheme\":\"words@18.0/49\"}\n{\"end\":{\"records\":0}}\n");
    dir.shell("dedup-index build --dictionary -o none.idx none && dedup-extract compare none.idx --method gdic --candidates").ok();
}
