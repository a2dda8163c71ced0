//! dedup-extract passages: the passages that several documents share.

use crate::test_dir::{TestDir, records, root};
use serde_json::{Value, json};

/// This many words that occur nowhere else.
fn words(of: &str, count: usize) -> String {
    (0..count).map(|number| format!("{of}{number} ")).collect()
}

/// The length and the places of each passage.
fn shown(stream: &[u8]) -> Vec<(u64, String)> {
    let place = |place: &Value| {
        format!(
            "{}:{}-{}",
            place["doc"].as_str().unwrap(),
            place["start"],
            place["end"]
        )
    };
    let places = |record: &Value| {
        record["places"]
            .as_array()
            .unwrap()
            .iter()
            .map(place)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let passages = records(stream)
        .into_iter()
        .filter(|record| record["dedup"].is_null());
    passages
        .map(|record| (record["tokens"].as_u64().unwrap(), places(&record)))
        .collect()
}

/// Four documents: b contains the end of a and all of c; d is c in upper case and parentheses.
fn fixture() -> TestDir {
    let (one, two) = (words("one", 10), words("two", 9));
    let line = |id: &str, text: &str| format!("{}\n", json!({ "id": id, "text": text }));
    let dir = TestDir::new();
    dir.write(
        "c.jsonl",
        line("a", &format!("x {one}"))
            + &line("b", &format!("{one}y {two}"))
            + &line("c", &two)
            + &line("d", &format!("({})", two.to_uppercase())),
    );
    dir.run("dedup-index", &["build", "-o", "i", "c.jsonl"])
        .ok();
    dir
}

#[test]
fn a_licence_in_five_thousand_files_is_one_line() {
    let dir = TestDir::new();
    let licence = words("licence", 200);
    for number in 0..5000 {
        dir.write(
            &format!("files/{number:04}"),
            format!(
                "{}{licence}{}",
                words(&format!("a{number}x"), 3),
                words(&format!("b{number}x"), 2)
            ),
        );
    }
    dir.run("dedup-index", &["build", "-o", "i", "files"]).ok();
    let found = records(&dir.run("dedup-extract", &["passages", "i"]).ok());
    let [passage] = &found[..] else {
        panic!("{} lines", found.len())
    };
    assert_eq!(
        [
            &passage["tokens"],
            &passage["count"],
            &passage["documents"],
            &passage["new"]
        ],
        [200, 5000, 5000, 1_000_000]
    );
    assert!(
        passage["text"]
            .as_str()
            .unwrap()
            .starts_with("licence0 licence1 ")
            && passage["text"].as_str().unwrap().ends_with('…')
    );
    assert_eq!(passage["text"].as_str().unwrap().chars().count(), 301);
    assert_eq!(
        passage["places"][4999],
        json!({ "doc": "files/4999", "start": 24, "end": 24 + licence.trim_end().len() })
    );
}

#[test]
fn passages_of_ndjson_documents_are_written() {
    let dir = fixture();
    assert_eq!(
        dir.run("dedup-extract", &["passages", "i", "c.jsonl"])
            .ok_text(),
        "{\"passage\":1,\"tokens\":9,\"count\":3,\"documents\":3,\"new\":27,\"text\":\"two0 two1 two2 two3 two4 two5 two6 two7 two8\",\
         \"places\":[{\"doc\":\"b\",\"start\":52,\"end\":96},{\"doc\":\"c\",\"start\":0,\"end\":44},{\"doc\":\"d\",\"start\":1,\"end\":45}]}\n\
         {\"passage\":2,\"tokens\":10,\"count\":2,\"documents\":2,\"new\":20,\"text\":\"one0 one1 one2 one3 one4 one5 one6 one7 one8 one9\",\
         \"places\":[{\"doc\":\"a\",\"start\":2,\"end\":51},{\"doc\":\"b\",\"start\":0,\"end\":49}]}\n"
    );
    let all = dir.run("dedup-extract", &["passages", "i", "c.jsonl"]).ok();
    for options in ["--threads 3", "--threads 1 --memory 1"] {
        assert_eq!(
            dir.shell(&format!("dedup-extract passages i c.jsonl {options}"))
                .ok(),
            all
        );
    }
    assert_eq!(
        dir.run(
            "dedup-extract",
            &["passages", "i", "c.jsonl", "--top", "1", "--format", "tsv"]
        )
        .ok_text(),
        "passage\ttokens\tcount\tdocuments\tnew\ttext\tplaces\n1\t9\t3\t3\t27\ttwo0 two1 two2 two3 two4 two5 two6 two7 two8\t\
         [{\"doc\":\"b\",\"start\":52,\"end\":96},{\"doc\":\"c\",\"start\":0,\"end\":44},{\"doc\":\"d\",\"start\":1,\"end\":45}]\n"
    );
    let piped = dir.shell("dedup-tokenize --spans c.jsonl | dedup-extract passages i -");
    assert_eq!(shown(&piped.ok()), shown(&all));
    assert!(
        records(&piped.ok())
            .iter()
            .all(|record| record["text"].is_null())
    );
    let ran = dir.shell("dedup-blot c.jsonl | dedup-extract passages i -");
    assert_eq!((ran.code(), ran.stdout().as_str()), (2, ""));
    assert!(
        ran.stderr().contains(
            "it came without the places of its tokens in the text; start from the documents"
        ),
        "{}",
        ran.stderr()
    );
}

#[test]
fn only_passages_of_the_given_documents_are_written() {
    let dir = fixture();
    let some = dir
        .shell("grep -v '\"b\"' c.jsonl | dedup-extract passages i -")
        .ok();
    assert_eq!(shown(&some), [(9, "c:0-44 d:1-45".to_owned())]);
    assert_eq!(
        dir.shell("head -n 1 c.jsonl | dedup-extract passages i -")
            .ok(),
        b""
    );
}

#[test]
fn min_tokens_and_taboo_drop_passages() {
    let dir = fixture();
    let run = |options: &str| dir.shell(&format!("dedup-extract passages i c.jsonl {options}"));
    let long = run("--min-tokens 10").ok();
    assert_eq!(shown(&long), [(10, "a:2-51 b:0-49".to_owned())]);
    let header = json!({ "dedup": "extract", "version": 1, "scheme": "words@18.0/49 ordered:8:32 all", "min_tokens": 10, "taboo": [] });
    assert_eq!(records(&long)[0], header);
    dir.write("taboo/all", format!("before {} after", words("TWO", 9)));
    dir.write("part", words("one", 9));
    assert_eq!(
        shown(&run("--taboo taboo").ok()),
        [(10, "a:2-51 b:0-49".to_owned())]
    );
    assert_eq!(shown(&run("--taboo part").ok()), shown(&run("").ok()));
    assert_eq!(
        run("--taboo part --taboo taboo --taboo c.jsonl")
            .ok_text()
            .lines()
            .count(),
        1
    );
    let ran = run("--taboo nowhere");
    assert_eq!((ran.code(), ran.stdout().as_str()), (2, ""));
    assert!(
        ran.stderr()
            .ends_with("dedup-extract: some taboo text could not be read: see above\n"),
        "{}",
        ran.stderr()
    );
}

#[test]
fn documents_are_read_by_their_ids() {
    let (dir, corpus) = (TestDir::new(), root().join("testdata/corpus/essays"));
    dir.shell(&format!(
        "cp -r {} essays && dedup-index build -o whole essays && dedup-index build -o i --relative essays",
        corpus.display()
    ))
    .ok();
    let found = dir
        .run("dedup-extract", &["passages", "i", "--corpus", "essays"])
        .ok();
    assert_eq!(
        dir.run("dedup-extract", &["passages", "i", "--relative", "essays"])
            .ok(),
        found
    );
    assert_eq!(
        shown(&found)[0],
        (
            272,
            "gettysburg-telegram.txt:0-1440 gettysburg.txt:0-1474".to_owned()
        )
    );
    let whole = dir.run("dedup-extract", &["passages", "whole"]).ok_text();
    assert_eq!(
        whole.replace("essays/", ""),
        String::from_utf8(found).unwrap()
    );

    // Unreadable or changed documents are reported; the others are processed.
    dir.write("essays/gettysburg.txt", "Four score and eight years ago");
    dir.shell("rm essays/tides-revised.txt").ok();
    let ran = dir.run("dedup-extract", &["passages", "i", "--corpus", "essays"]);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-extract: essays/gettysburg.txt: 'gettysburg.txt' is not what the index has under this id; bring the index up to date first\n\
             dedup-extract: essays/tides-revised.txt: No such file or directory (os error 2); if ids are no paths, say where the documents are with PATH\n"
        )
    );
    assert_eq!(
        shown(&ran.0.stdout)[0],
        (
            76,
            "harbour-inspection.txt:889-1284 tides.txt:796-1191".to_owned()
        )
    );
}

#[test]
fn passages_reflect_changes_of_the_index() {
    let dir = fixture();
    dir.write(
        "e.jsonl",
        format!(
            "{}\n",
            json!({ "id": "e", "text": format!("{}z", words("two", 9)) })
        ),
    );
    dir.run("dedup-index", &["add", "--no-compact", "i", "e.jsonl"])
        .ok();
    dir.run("dedup-index", &["remove", "i", "a", "c"]).ok();
    let found = dir
        .shell("grep -v -e '\"a\"' -e '\"c\"' c.jsonl | cat - e.jsonl | dedup-extract passages i -")
        .ok();
    assert_eq!(shown(&found), [(9, "b:52-96 d:1-45 e:0-44".to_owned())]);
}

#[test]
fn unknown_bases_are_not_shared() {
    let bases = "acgttgcaacgtgatccagtnnnnnnnnnnnnnnnnacgatcgatgcatgcatcgatt";
    let dir = TestDir::with(&[("s.fa", format!(">one\ntttt{bases}\n>two\ngggg{bases}\n"))]);
    dir.shell("dedup-index build -o i --tokenizer dna -k 8 --records fasta s.fa")
        .ok();
    let found = dir
        .shell("dedup-extract passages i --records fasta s.fa")
        .ok();
    assert_eq!(
        shown(&found)
            .iter()
            .map(|passage| passage.0)
            .collect::<Vec<_>>(),
        [22, 20]
    );
}

#[test]
fn invalid_options_are_refused() {
    let dir = fixture();
    dir.run(
        "dedup-index",
        &["build", "-o", "m", "--select", "mod:2", "c.jsonl"],
    )
    .ok();
    for (line, expected) in [
        (
            "i --min-tokens 7 c.jsonl",
            "i: the windows of the index are 8 tokens long, so that shorter passages are not seen; give at least that to --min-tokens, not 7",
        ),
        (
            "m c.jsonl",
            "m: the index has selected blots (mod:2), so that most windows are not in it; passages need one that was built with --select all",
        ),
        (
            "i c.jsonl --threshold 1",
            "error: unexpected argument '--threshold' found",
        ),
        (
            "i c.jsonl --exclude-text c.jsonl",
            "error: unexpected argument '--exclude-text' found",
        ),
        (
            "i c.jsonl --format dot",
            "error: invalid value 'dot' for '--format <FORMAT>'",
        ),
    ] {
        let ran = dir.shell(&format!("dedup-extract passages {line}"));
        let stderr = ran.stderr();
        let stderr = stderr.strip_prefix("dedup-extract: ").unwrap_or(&stderr);
        assert!(
            ran.code() == 2 && stderr.starts_with(expected),
            "{line}: {stderr}"
        );
    }
    for (line, expected) in [
        ("pairs i --taboo c.jsonl", "unexpected argument '--taboo'"),
        ("pairs i --corpus .", "not provided:\n  --passages"),
    ] {
        let ran = dir.shell(&format!("dedup-extract {line}"));
        assert!(
            ran.code() == 2 && ran.stderr().contains(expected),
            "{line}: {}",
            ran.stderr()
        );
    }
}

/// All places extend equally far, which must cost no more than reading the text.
#[test]
fn a_word_repeated_half_a_million_times_takes_linear_time() {
    let (dir, run, rows) = (
        TestDir::new(),
        "a ".repeat(500_000),
        "one row of ten words that are the same ever ".repeat(50_000),
    );
    let tail = words("tail", 8);
    let texts = [
        format!("x {run}"),
        format!("y {run}a {tail}"),
        format!("{}z {tail}", &run[..500_000]),
        rows.clone(),
        format!("{rows}one row"),
    ];
    let lines: Vec<_> = texts
        .iter()
        .enumerate()
        .map(|(number, text)| format!("{}\n", json!({ "id": number.to_string(), "text": text })))
        .collect();
    dir.write("c.jsonl", lines.concat());
    dir.run("dedup-index", &["build", "-o", "i", "c.jsonl"])
        .ok();
    let found = shown(&dir.run("dedup-extract", &["passages", "i", "c.jsonl"]).ok());
    let lengths: Vec<_> = found.iter().map(|passage| passage.0).collect();
    // All places but one of the 250,000 words are within those of the 500,000 words; the first and the
    // last eight words occur twice more.
    assert_eq!(lengths, [500_000, 500_000, 8, 8]);
}
