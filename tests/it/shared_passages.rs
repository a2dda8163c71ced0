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

/// A licence in the middle of other text, with another name and another year in each file.
#[test]
fn a_licence_with_a_name_in_each_file_is_one_line() {
    let dir = TestDir::new();
    let (start, end) = (words("start", 60), words("end", 90));
    let lines: Vec<_> = (0..2000)
        .map(|number: u32| {
            let text = format!(
                "{} {start} {} name{} {end} {} {}",
                words(&format!("a{number}x"), 3),
                1990 + number % 30,
                number % 700,
                // One more word that others have.
                ["and", "or", "but"][number as usize % 3],
                words(&format!("b{number}x"), 5)
            );
            format!(
                "{}\n",
                json!({ "id": format!("{number:04}"), "text": text })
            )
        })
        .collect();
    dir.write("c.jsonl", lines.concat());
    dir.run("dedup-index", &["build", "-o", "i", "c.jsonl"])
        .ok();
    let all = dir.run("dedup-extract", &["passages", "i", "c.jsonl"]).ok();
    let found = records(&all);
    let [family] = &found[..] else {
        panic!("{} lines", found.len())
    };
    assert_eq!(
        [&family["tokens"], &family["count"], &family["documents"]],
        [153, 2000, 2000]
    );
    assert_eq!(family["new"], 2000 * 153);
    let (from, text) = (
        number(&family["representative"]["start"]),
        family["text"].as_str().unwrap(),
    );
    assert!(text.starts_with("start0 start1 "), "{text}");
    // The year, the name and the last word differ.
    let year = from + start.len() as u64 + 1;
    let differs = family["differs"].as_array().unwrap();
    assert_eq!(number(&differs[0][0]), year, "{differs:?}");
    assert_eq!(differs.len(), 2);
    for options in ["--threads 3", "--threads 1 --memory 1"] {
        let again = dir.shell(&format!("dedup-extract passages i c.jsonl {options}"));
        assert_eq!(again.ok(), all);
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// Each of 40 documents has a text of 120 words in which every 12th letter is wrong.
#[test]
fn reprints_with_wrong_letters_are_one_family() {
    let dir = TestDir::new();
    let word = |number: u64| -> String {
        let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x1234_5678;
        let letters = (0..3 + number % 6).map(|_| {
            state = (state ^ state >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            char::from(b'a' + (state >> 40) as u8 % 26)
        });
        letters.collect()
    };
    let text = |from: u64, count: u64| -> String {
        (from..from + count)
            .map(|at| format!("{} ", word(at)))
            .collect()
    };
    let reprint = text(0, 120);
    let documents = (0..40_u64).map(|number| {
        let damaged: String = reprint
            .char_indices()
            .map(|(at, letter)| match (at as u64 * 31 + number * 37) % 43 {
                0 if letter != ' ' => 'q',
                _ => letter,
            })
            .collect();
        let [before, after] = [1, 2].map(|part| text(1000 * (2 * number + part), 80));
        let line =
            json!({ "id": format!("{number:02}"), "text": format!("{before}{damaged}{after}") });
        (line, before.len() as u64)
    });
    let (lines, starts): (Vec<_>, Vec<_>) = documents
        .map(|(line, start)| (format!("{line}\n"), start))
        .unzip();
    dir.write("c.jsonl", lines.concat());
    for scheme in ["letters:12/winnow:4", "context:3"] {
        let _ = std::fs::remove_dir_all(dir.path("i"));
        dir.run(
            "dedup-index",
            &["build", "-o", "i", "--scheme", scheme, "c.jsonl"],
        )
        .ok();
        let all = dir.run("dedup-extract", &["passages", "i", "c.jsonl"]).ok();
        let found = records(&all);
        let [family] = &found[..] else {
            panic!("{scheme}: {} lines", found.len())
        };
        assert_eq!(
            [&family["count"], &family["documents"]],
            [40, 40],
            "{scheme}"
        );
        for (place, start) in family["places"].as_array().unwrap().iter().zip(&starts) {
            let (from, to) = (number(&place["start"]), number(&place["end"]));
            let end = start + reprint.len() as u64;
            assert!(
                from.abs_diff(*start) < 120 && to.abs_diff(end) < 120,
                "{scheme}: {place}, {start} to {end}"
            );
        }
        for options in ["--threads 3", "--threads 1 --memory 1"] {
            let again = dir.shell(&format!("dedup-extract passages i c.jsonl {options}"));
            assert_eq!(again.ok(), all, "{scheme}");
        }
    }
    // If all seeds are excluded, only the header is left.
    let left = dir
        .shell("dedup-extract passages i c.jsonl --taboo c.jsonl -q")
        .ok();
    assert_eq!(records(&left).len(), 1);
}

#[test]
fn passages_of_both_strands_are_one_family() {
    let own = "gattacaggcctaaccgtttgacgcatcag";
    let opposite: String = own
        .chars()
        .rev()
        .map(|base| match base {
            'a' => 't',
            'c' => 'g',
            'g' => 'c',
            _ => 'a',
        })
        .collect();
    let dir = TestDir::with(&[(
        "s.fa",
        format!(">one\ncccccc{own}cccaaaa\n>two\nttt{opposite}tgtgtg\n>three\n{own}\n"),
    )]);
    dir.shell("dedup-index build -o i --tokenizer dna -k 12 --records fasta s.fa")
        .ok();
    let found = records(
        &dir.shell("dedup-extract passages i --records fasta s.fa")
            .ok(),
    );
    let [family] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(
        family["places"],
        json!([
            { "doc": "one", "start": 6, "end": 36 },
            { "doc": "two", "start": 3, "end": 33, "reverse": true },
            { "doc": "three", "start": 0, "end": 30 },
        ])
    );
}

#[test]
fn passages_of_ndjson_documents_are_written() {
    let dir = fixture();
    assert_eq!(
        dir.run("dedup-extract", &["passages", "i", "c.jsonl"])
            .ok_text(),
        "{\"passage\":1,\"tokens\":9,\"count\":3,\"documents\":3,\"variants\":1,\"new\":27,\"text\":\"two0 two1 two2 two3 two4 two5 two6 two7 two8\",\
         \"representative\":{\"doc\":\"b\",\"start\":52,\"end\":96},\"differs\":[],\"places\":[{\"doc\":\"b\",\"start\":52,\"end\":96},{\"doc\":\"c\",\"start\":0,\"end\":44},{\"doc\":\"d\",\"start\":1,\"end\":45}]}\n\
         {\"passage\":2,\"tokens\":10,\"count\":2,\"documents\":2,\"variants\":1,\"new\":20,\"text\":\"one0 one1 one2 one3 one4 one5 one6 one7 one8 one9\",\
         \"representative\":{\"doc\":\"a\",\"start\":2,\"end\":51},\"differs\":[],\"places\":[{\"doc\":\"a\",\"start\":2,\"end\":51},{\"doc\":\"b\",\"start\":0,\"end\":49}]}\n"
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
        "passage\ttokens\tcount\tdocuments\tdoc\tstart\tend\tvariant\treverse\ttext\n\
         1\t9\t3\t3\tb\t52\t96\t1\tfalse\ttwo0 two1 two2 two3 two4 two5 two6 two7 two8\n\
         1\t9\t3\t3\tc\t0\t44\t1\tfalse\ttwo0 two1 two2 two3 two4 two5 two6 two7 two8\n\
         1\t9\t3\t3\td\t1\t45\t1\tfalse\ttwo0 two1 two2 two3 two4 two5 two6 two7 two8\n"
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
    let header = json!({ "dedup": "extract", "version": 1, "scheme": "words@18.0/49 ordered:8:40 all", "min_tokens": 10, "taboo": [] });
    assert_eq!(records(&long)[0], header);
    dir.write("taboo/all", format!("before {} after", words("TWO", 9)));
    dir.write("part", words("one", 9));
    assert_eq!(
        shown(&run("--taboo taboo").ok()),
        [(10, "a:2-51 b:0-49".to_owned())]
    );
    // One word is left of the passage of ten.
    assert_eq!(
        shown(&run("--taboo part").ok()),
        [(9, "b:52-96 c:0-44 d:1-45".to_owned())]
    );
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
            .ends_with("dedup-extract: some text to exclude could not be read: see above\n"),
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
    // The words of all three documents, the rows, and the words at the end.
    assert_eq!(lengths, [500_000, 500_000, 8]);
}
