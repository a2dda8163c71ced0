//! dedup-query history: answers from a growing history, removal, verification, and the state after
//! a crash.

use crate::test_dir::{RunResult, TestDir, records, root};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::Stdio,
};

/// Documents of some hundred words; every third is an earlier one with one word changed, every
/// tenth an exact copy.
fn documents(count: usize) -> String {
    let text = |seed: usize| {
        (0..150)
            .map(|n| format!("w{} ", (seed * 7919 + n * n * 31) % 5000))
            .collect::<String>()
    };
    let line = |number: usize| {
        let body = match number {
            n if n % 10 == 9 => text(n - 4),
            n if n % 3 == 2 => text(n - 1).replacen("w", "changed", 1),
            n => text(n),
        };
        format!("{{\"id\":\"d{number}\", \"text\":\"{body}\"}}\n")
    };
    (0..count).map(line).collect()
}

const ASK: [&str; 4] = ["history", "h", "--min-similarity", "0.9"];

/// The same documents under other names, so that each is compared with itself.
fn renamed(input: &str) -> String {
    input
        .replace("{\"id\":\"d", "{\"id\":\"q")
        .replace("{\"doc\":\"p", "{\"doc\":\"q")
}

fn query_history(dir: &TestDir, more: &[&str], input: &str) -> RunResult {
    dir.run_with("dedup-query", &[&ASK, more].concat(), input.as_bytes())
}

#[test]
fn a_print_depends_on_the_set_of_tokens() {
    let dir = TestDir::with(&[
        ("a", "Lorem, ipsum!"),
        ("b", "..."),
        ("c", "ipsum IPSUM lorem"),
    ]);
    let made = dir.run("dedup-blot", &["--scheme", "minhash:256", "a", "b", "c"]);
    let print = "4d1a679fed514ebcdc9270513610a7c6a081a7711de5f013564be2bdd1c2c821";
    assert_eq!(
        made.ok_text(),
        format!(
            r#"{{"dedup":"prints","version":1,"scheme":"words@18.0/49 minhash:256@2"}}
{{"doc":"a","bytes":13,"hash":"ee0f464e4cceef28aa1c6caef9a33d5b","tokens":2,"print":"{print}"}}
{{"doc":"b","bytes":3,"hash":"99aa06d3014798d86001c324468d497f","tokens":0,"print":null}}
{{"doc":"c","bytes":17,"hash":"{}","tokens":3,"print":"{print}"}}
{{"end":{{"records":3}}}}
"#,
            records(made.ok().as_slice())[3]["hash"].as_str().unwrap()
        )
    );
    let binary = dir
        .run(
            "dedup-blot",
            &["--scheme", "minhash:256", "--binary", "a", "b", "c"],
        )
        .ok();
    assert_eq!(dir.run_with("dedup-blot", &[], &binary).ok(), made.ok());
    assert_eq!(
        dir.run_with("dedup-blot", &["--binary"], &made.ok()).ok(),
        binary
    );
    assert_eq!(
        dir.shell("dedup-tokenize a b c | dedup-blot --scheme minhash:256")
            .ok(),
        made.ok()
    );
}

/// Another program in another language computes the definition of dedup-stream(5).
#[test]
fn prints_match_an_independent_implementation_of_the_manual() {
    let dir = TestDir::new();
    if dir.shell("command -v xxhsum python3").code() != 0 {
        return eprintln!("no xxhsum or python3 here: skipped");
    }
    let script = root().join("tests/it/prints.py");
    for words in [
        "lorem",
        "lorem ipsum",
        "lorem ipsum dolor sit amet",
        "příliš žluťoučký kůň úpěl ďábelské ódy a b c d e f g h 1 2 3 4",
    ] {
        dir.write("words", words);
        let made = records(
            &dir.run("dedup-blot", &["--scheme", "minhash:256", "words"])
                .ok(),
        );
        let other = dir
            .shell(&format!("python3 {} {words}", script.display()))
            .ok_text();
        assert_eq!(made[1]["print"], other.trim_end(), "{words}");
    }
}

/// Each word has its own print, and no two prints are near each other.
#[test]
fn different_single_words_are_all_new() {
    let dir = TestDir::new();
    let input: String = (0..20_000)
        .map(|n| format!("{{\"id\":\"{n}\",\"text\":\"word{n}\"}}\n"))
        .collect();
    let ran = dir.run_with(
        "dedup-query",
        &["history", "h", "--min-similarity", "94%", "--only-new"],
        input.as_bytes(),
    );
    assert!(
        ran.ok_text() == input,
        "{} of 20000 pass",
        ran.stdout().lines().count()
    );
}

#[test]
fn invalid_options_for_prints_are_refused() {
    let dir = TestDir::with(&[("a", "one two"), ("i/foreign", "x")]);
    dir.shell(
        "dedup-blot --scheme minhash:256 a > prints; dedup-blot a > blots; dedup-blot --scheme minhash:256 --tokenizer char:3 a > other",
    )
    .ok();
    dir.shell("dedup-index build -q -o idx a; dedup-query history h --min-similarity 1 a")
        .stdout();
    for (command, message) in [
        (
            "dedup-blot --scheme minhash:256 -k 3 a",
            "dedup-blot: -k has no meaning with --scheme minhash:256, which is one print of the whole document",
        ),
        (
            "dedup-blot --scheme minhash:256 --tokenizer dna a",
            "dedup-blot: of sequences there are no prints",
        ),
        (
            "dedup-blot --scheme ordered,minhash:256 a",
            "dedup-blot: minhash:256: a print of the whole document, which has no blots",
        ),
        (
            "dedup-index build -o x --scheme minhash:256 a",
            "dedup-index: minhash:256: a print of the whole document, which has no blots",
        ),
        (
            "dedup-index build -o x prints",
            "dedup-index: prints: a stream of prints, which has no blots to index",
        ),
        (
            "dedup-tokenize prints",
            "dedup-tokenize: prints: a stream of prints, which has no blots to index or tokens to read",
        ),
        (
            "dedup-query history h --min-similarity 0.9 blots",
            "dedup-query: blots: a stream of blots, which this program does not read",
        ),
        (
            "dedup-query history h --min-similarity 0.9 other",
            "dedup-query: h: scheme is 'words@18.0/49 minhash:256@2', expected 'char:3@18.0 minhash:256@2'; prints of two schemes cannot be compared",
        ),
        (
            "dedup-query history h --min-similarity 0.9 --tokenizer line a",
            "dedup-query: h: scheme is 'words@18.0/49 minhash:256@2', expected 'line",
        ),
        (
            "dedup-query history h --min-similarity 94 a",
            "error: invalid value '94' for '--min-similarity <X>'",
        ),
        (
            "dedup-query history h --min-similarity 1 --score s1 a",
            "error: unexpected argument '--score' found",
        ),
        (
            "dedup-query idx --min-similarity 1 a",
            "error: unexpected argument '--min-similarity' found",
        ),
        (
            "dedup-query history i --min-similarity 1 a",
            "dedup-query: i: holds 'foreign' and no history; choose another name",
        ),
        (
            "dedup-query history idx --min-similarity 1 a",
            "dedup-query: idx/manifest.json: not the manifest of a history",
        ),
        (
            "dedup-query history none --min-similarity 1 --no-add a",
            "dedup-query: none: no history is here",
        ),
        (
            "dedup-query history remove none x",
            "dedup-query: none: no history is here",
        ),
        (
            "dedup-query h a",
            "dedup-query: h/manifest.json: the manifest of a history, not of an index; dedup-query history asks it\n",
        ),
        (
            "dedup-query history h --min-similarity 1 --only-new prints",
            "dedup-query: prints: a stream of tokens or prints; only documents",
        ),
        (
            "dedup-query history h --min-similarity 1 --only-new a",
            "dedup-query: a: not a document a line; --records ndjson",
        ),
    ] {
        let ran = dir.shell(command);
        assert!(
            ran.code() == 2 && ran.stderr().starts_with(message),
            "{command}: {} {}",
            ran.code(),
            ran.stderr()
        );
    }
}

#[test]
fn each_document_is_compared_with_earlier_ones() {
    let (dir, input) = (TestDir::new(), documents(40));
    let ran = query_history(&dir, &[], &input);
    assert_eq!((ran.code(), ran.stderr().as_str()), (0, ""));
    let answers = records(ran.stdout().as_bytes());
    assert_eq!(
        answers
            .iter()
            .map(|answer| answer["doc"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>(),
        (0..40).map(|n| format!("d{n}")).collect::<Vec<_>>()
    );
    assert!(answers[0]["best"].is_null() && answers[1]["best"].is_null());
    assert_eq!(answers[2]["best"]["doc"], "d1");
    assert!((0.9..1.0).contains(&answers[2]["best"]["similarity"].as_f64().unwrap()));
    assert_eq!(
        answers[19]["best"].to_string(),
        r#"{"doc":"d15","similarity":1}"#
    );
    // Under other names each document is found as the first one with its text, and nothing is
    // added.
    let again = query_history(&dir, &["--no-add", "--top", "2"], &renamed(&input));
    let answers = records(again.stdout().as_bytes());
    assert!(answers.iter().all(
        |answer| answer["best"]["similarity"] == 1.0 && answer["best"] == answer["matches"][0]
    ));
    assert_eq!(
        answers[19]["matches"].to_string(),
        r#"[{"doc":"d15","similarity":1},{"doc":"d19","similarity":1}]"#
    );
    assert_eq!(
        query_history(&dir, &["--no-add", "--top", "2"], &renamed(&input)).stdout(),
        again.stdout()
    );
    // Under its own name each is the same document as before and gets the same answer, with or
    // without --no-add.
    for more in [&["--no-add"][..], &[], &["--threads", "2"]] {
        assert_eq!(query_history(&dir, more, &input).stdout(), ran.stdout());
    }
    assert_eq!(
        records(
            &dir.run("dedup-query", &["history", "stats", "--json", "h"])
                .ok()
        )[0]["entries"],
        40
    );
    // Another text under a known name is another version; both are kept.
    let changed = input.lines().nth(10).unwrap().replace("\"d10\"", "\"d0\"") + "\n";
    assert_eq!(
        query_history(&dir, &[], &changed).stdout(),
        "{\"doc\":\"d0\",\"best\":{\"doc\":\"d10\",\"similarity\":1}}\n"
    );
    assert_eq!(
        records(
            &dir.run("dedup-query", &["history", "stats", "--json", "h"])
                .ok()
        )[0]["entries"],
        41
    );
    // Nothing is similar to a document without words, or with other words.
    let none = query_history(
        &dir,
        &[],
        "{\"id\":\"e\",\"text\":\"...\"}\n{\"id\":\"f\",\"text\":\"...\"}\n",
    );
    assert_eq!(
        (none.code(), none.stdout().as_str()),
        (
            1,
            "{\"doc\":\"e\",\"best\":null}\n{\"doc\":\"f\",\"best\":null}\n"
        )
    );
}

#[test]
fn answers_do_not_depend_on_threads_forms_and_batches() {
    let (dir, input) = (TestDir::new(), documents(3000));
    dir.write("d.jsonl", &input);
    dir.shell("dedup-blot --scheme minhash:256 d.jsonl > n; dedup-blot --scheme minhash:256 --binary d.jsonl > b").ok();
    let expected = dir
        .run(
            "dedup-query",
            &[
                "history",
                "h1",
                "--min-similarity",
                "90%",
                "--threads",
                "1",
                "d.jsonl",
            ],
        )
        .ok();
    for (name, arguments) in [
        ("h2", "--threads 8 d.jsonl"),
        ("h3", "--threads 2 n"),
        ("h4", "--sync-every each b"),
        ("h5", "--sync-every never d.jsonl"),
    ] {
        let ran = dir.shell(&format!(
            "dedup-query history {name} --min-similarity 0.9 {arguments}"
        ));
        assert!(ran.ok() == expected, "{arguments}");
    }
    let in_pieces =
        dir.shell("split -l 170 d.jsonl part.; for part in part.*; do dedup-query history h6 --min-similarity 0.9 < $part; done");
    assert!(
        in_pieces.stdout().into_bytes() == expected,
        "{}",
        in_pieces.stderr()
    );
}

#[test]
fn only_new_passes_new_lines_unchanged() {
    let (dir, input) = (TestDir::new(), documents(40));
    let answers = records(
        query_history(&TestDir::new(), &[], &input)
            .stdout()
            .as_bytes(),
    );
    let new: Vec<&str> = input
        .split_inclusive('\n')
        .zip(&answers)
        .filter(|(_, answer)| answer["best"].is_null())
        .map(|(line, _)| line)
        .collect();
    let ran = query_history(&dir, &["--only-new"], &input);
    assert_eq!(ran.ok_text(), new.concat());
    // The same documents again are still new; the same texts under other names are not.
    assert_eq!(
        query_history(&dir, &["--only-new"], &input).ok_text(),
        new.concat()
    );
    assert_eq!(
        query_history(&dir, &["--only-new"], &renamed(&input)).ok_text(),
        ""
    );
    // A line that is not a document is reported and kept; a last line without a line feed gets one.
    let odd = query_history(
        &dir,
        &["--only-new"],
        "{\"id\":\"x\",\"text\":\"all new\"}\r\n\nno JSON\n{\"id\":\"y\",\"text\":\"some more words\"}",
    );
    assert_eq!(
        odd.stdout(),
        "{\"id\":\"x\",\"text\":\"all new\"}\r\n\nno JSON\n{\"id\":\"y\",\"text\":\"some more words\"}\n"
    );
    assert_eq!(
        (odd.code(), odd.stderr().as_str()),
        (
            2,
            "dedup-query: stdin:3: not JSON: expected ident at column 2; the line is kept\n"
        )
    );
}

/// A service reads these fields as commands. A corpus may use the same names for anything, and must
/// not lose a document because of them.
#[test]
fn fields_of_a_corpus_are_not_commands() {
    let dir = TestDir::new();
    let text = "a text of some words that comes again and again";
    let fields = [
        r#""add":false"#,
        r#""add":"false""#,
        r#""min_similarity":7"#,
        r#""top":"shelf""#,
        r#""top":9,"add":null"#,
    ];
    let lines: String = fields
        .iter()
        .enumerate()
        .map(|(number, field)| format!("{{\"id\":\"{number}\",\"text\":\"{text}\",{field}}}\n"))
        .collect();
    dir.write("c.jsonl", &lines);
    let first = "{\"doc\":\"0\",\"best\":null}\n".to_owned();
    let others = (1..5).map(|number| {
        format!("{{\"doc\":\"{number}\",\"best\":{{\"doc\":\"0\",\"similarity\":1}}}}\n")
    });
    let expected = first + &others.collect::<String>();
    assert_eq!(
        dir.run_with(
            "dedup-query",
            &["history", "h", "--min-similarity", "0.9"],
            lines.as_bytes()
        )
        .ok_text(),
        expected
    );
    assert_eq!(
        dir.run(
            "dedup-query",
            &["history", "i", "--min-similarity", "0.9", "c.jsonl"]
        )
        .ok_text(),
        expected
    );
    let passed = dir
        .run(
            "dedup-query",
            &[
                "history",
                "j",
                "--min-similarity",
                "0.9",
                "--only-new",
                "c.jsonl",
            ],
        )
        .ok_text();
    assert_eq!(passed, lines.split_inclusive('\n').next().unwrap());
    // All documents were added.
    for history in ["h", "i", "j"] {
        let removed = dir.run(
            "dedup-query",
            &["history", "remove", history, "0", "1", "2", "3", "4"],
        );
        assert_eq!(
            (removed.code(), removed.stderr()),
            (0, String::new()),
            "{history}"
        );
    }
}

#[test]
fn each_line_is_answered_before_the_next_is_read() {
    let dir = TestDir::new();
    let mut child = dir
        .command("dedup-query", &ASK)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, mut output) = (
        child.stdin.take().unwrap(),
        BufReader::new(child.stdout.take().unwrap()),
    );
    for (line, expected) in documents(3).lines().zip(["null", "null", "\"d1\""]) {
        writeln!(input, "{line}").unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        assert!(
            answer.contains(&format!("\"best\":{expected}"))
                || answer.contains(&format!("\"best\":{{\"doc\":{expected}")),
            "{answer}"
        );
    }
    // Meanwhile no other process may write, but all may read.
    let other = dir.run_with("dedup-query", &ASK, b"{\"id\":\"x\",\"text\":\"y\"}\n");
    assert_eq!(
        (other.code(), other.stderr()),
        (
            2,
            format!(
                "dedup-query: h: process {} is writing this history; wait for it to end\n",
                child.id()
            )
        )
    );
    let found = "{\"doc\":\"q0\",\"best\":{\"doc\":\"d0\",\"similarity\":1}}\n";
    assert_eq!(
        query_history(&dir, &["--no-add"], &renamed(&documents(1))).stdout(),
        found
    );
    dir.run("dedup-query", &["history", "verify", "h"]).ok();
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn entries_are_removed_and_forgotten() {
    let (dir, input) = (TestDir::new(), documents(20));
    query_history(&dir, &[], &input);
    dir.write("list", "d4\n");
    let removed = dir.shell(
        "dedup-query history remove h d0 d1 none; dedup-query history remove h --files-from list",
    );
    assert_eq!(
        (removed.code(), removed.stderr().as_str()),
        (0, "dedup-query: h: no entry has the id 'none'\n")
    );
    let found = |more: &[&str], number: usize| {
        let line = renamed(input.lines().nth(number).unwrap());
        records(
            query_history(&dir, &[&["--no-add"], more].concat(), &format!("{line}\n"))
                .stdout()
                .as_bytes(),
        )[0]["best"]["doc"]
            .as_str()
            .map(str::to_owned)
    };
    assert_eq!(
        [0, 3].map(|number| found(&[], number)),
        [None, Some("d3".to_owned())]
    );
    // The documents with one word changed are left.
    assert_eq!(found(&[], 4).as_deref(), Some("d5"));
    assert_eq!(found(&[], 1).as_deref(), Some("d2"));
    assert_eq!(
        [3, 15, 18].map(|number| found(&["--max-entries", "4"], number).is_some()),
        [false, true, true]
    );
    assert_eq!(found(&["--max-entries", "4"], 15).as_deref(), Some("d19"));
    assert!(found(&["--max-age", "1d"], 3).is_some());
}

/// Killed at any system call: everything that was answered is there, nothing else is, and all
/// answers are right.
#[test]
fn answered_documents_survive_a_kill() {
    let (dir, input) = (TestDir::new(), documents(60));
    dir.write("d.jsonl", &input);
    if dir.shell("strace -f -qq -o /dev/null true").code() != 0 {
        return eprintln!("no strace here, or no right to use it: skipped");
    }
    let whole = query_history(&TestDir::new(), &[], &input).stdout();
    let calls = "write,pwrite64,fsync,fdatasync,rename,unlink,ftruncate,openat,mkdir";
    let step = if std::env::var_os("DEDUP_SOAK").is_some() {
        1
    } else {
        5
    };
    for number in (1..).step_by(step) {
        let _ = fs::remove_dir_all(dir.path("h"));
        let feed = "while read -r line; do printf '%s\\n' \"$line\"; done < d.jsonl";
        let run = format!(
            "strace -f -qq -o /dev/null -e trace={calls} -e inject={calls}:signal=KILL:when={number} dedup-query history h --min-similarity 0.9 --sync-every each"
        );
        let ran = dir.shell(&format!("set -o pipefail; {feed} | {run}"));
        let answered = ran.stdout();
        assert!(whole.starts_with(&answered), "killed at call {number}");
        let count = answered.lines().count();
        // The next run continues with the documents that were not answered.
        let rest: String = input.split_inclusive('\n').skip(count).collect();
        let known = if dir.path("h/manifest.json").exists() {
            query_history(&dir, &["--no-add"], &renamed(&input)).stdout()
        } else {
            String::new()
        };
        let is_known = |line: &str| !line.contains("\"best\":null");
        assert!(
            known.lines().take(count).all(is_known),
            "killed at call {number}: an entry that was answered is lost"
        );
        let again = query_history(&dir, &["--no-add"], &rest);
        assert!(
            count == 0 || again.code() != 2,
            "killed at call {number}: {}",
            again.stderr()
        );
        if ran.code() == 0 {
            assert_eq!(answered, whole);
            break;
        }
        // Queried again from the start, each document gets the answer that it got, or would have
        // got.
        let last = query_history(&dir, &[], &input);
        let is_repaired = last.stderr().is_empty()
            || last
                .stderr()
                .ends_with("everything that was synced is there\n");
        assert!(is_repaired, "killed at call {number}: {}", last.stderr());
        assert_eq!(last.stdout(), whole, "killed at call {number}");
        dir.run("dedup-query", &["history", "verify", "h"]).ok();
    }
}

/// Enough prints for several segments, as NDJSON.
fn prints(count: u64) -> String {
    let mut state = 7_u64;
    let mut next = || {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state ^ state >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd)
    };
    (0..count)
        .map(|n| {
            format!(
                "{{\"doc\":\"p{n}\",\"print\":\"{:016x}{:016x}{:016x}{:016x}\"}}\n",
                next(),
                next(),
                next(),
                next()
            )
        })
        .collect()
}

/// With more entries than a journal holds there is a segment; it is used, and verify names a
/// damaged one.
#[test]
fn segments_are_used_and_verified() {
    let dir = TestDir::new();
    let input = prints(140_000);
    dir.write("p.jsonl", &input);
    let exact = ["history", "h", "--min-similarity", "1"];
    let first = dir.run(
        "dedup-query",
        &[
            &exact[..],
            &[
                "--sync-every",
                "never",
                "--file-entries",
                "131072",
                "p.jsonl",
            ],
        ]
        .concat(),
    );
    assert_eq!((first.code(), first.stderr().as_str()), (1, ""));
    assert_eq!(
        dir.shell("ls h | grep -v json").ok_text(),
        "000001.prints\n000002.journal\nsynced\n"
    );
    dir.run("dedup-query", &["history", "verify", "h"]).ok();
    dir.write("q.jsonl", renamed(&input));
    let again = dir
        .run(
            "dedup-query",
            &[&exact[..], &["--no-add", "q.jsonl"]].concat(),
        )
        .ok_text();
    assert!(again.lines().enumerate().all(|(n, line)| line
        == format!("{{\"doc\":\"q{n}\",\"best\":{{\"doc\":\"p{n}\",\"similarity\":1}}}}")));
    // An entry removed from a segment stays removed.
    dir.run("dedup-query", &["history", "remove", "h", "p5", "p139999"])
        .ok();
    let lines: Vec<&str> = input.lines().collect();
    let asked = [lines[5], lines[6], lines[139_999], ""].join("\n");
    let some = dir
        .run_with(
            "dedup-query",
            &[&exact[..], &["--no-add"]].concat(),
            renamed(&asked).as_bytes(),
        )
        .stdout();
    assert_eq!(
        some.lines()
            .map(|line| line.contains("\"best\":null"))
            .collect::<Vec<_>>(),
        [true, false, true]
    );
    for (file, at) in [
        ("000001.prints", 300_000_u64),
        ("000002.journal", 5000),
        ("manifest.json", 60),
    ] {
        let path = dir.path("h").join(file);
        let bytes = fs::read(&path).unwrap();
        let mut altered = bytes.clone();
        altered[at as usize] ^= 4;
        for damaged in [&altered, &bytes[..bytes.len() / 2].to_vec()] {
            fs::write(&path, damaged).unwrap();
            for arguments in [
                &[&exact[..], &["--no-add", "q.jsonl"]].concat()[..],
                &["history", "verify", "h"],
            ] {
                let ran = dir.run("dedup-query", arguments);
                assert_eq!(ran.code(), 2, "{file}: {}", ran.stderr());
                assert!(
                    ran.stderr()
                        .starts_with(&format!("dedup-query: h/{file}: ")),
                    "{file}: {}",
                    ran.stderr()
                );
            }
        }
        fs::write(&path, bytes).unwrap();
    }
    fs::remove_file(dir.path("h/000001.prints")).unwrap();
    let gone = dir.run("dedup-query", &[&exact[..], &["p.jsonl"]].concat());
    assert_eq!(
        (gone.code(), gone.stderr().as_str()),
        (
            2,
            "dedup-query: h/000001.prints: No such file or directory (os error 2)\n"
        )
    );
}

/// A truncated journal looks like one that was not written to its end, but the synced length is
/// recorded.
#[test]
fn a_truncated_journal_is_refused_with_its_position() {
    let (dir, input) = (TestDir::new(), documents(200));
    assert_eq!(query_history(&dir, &[], &input).code(), 0);
    let bytes = fs::metadata(dir.path("h/000001.journal")).unwrap().len();
    dir.shell("truncate -s 32 h/000001.journal").ok();
    let message = format!(
        "dedup-query: h/000001.journal: byte 32: the journal ends here, but {bytes} bytes of it were on disk; it was cut\n"
    );
    for command in [
        "history verify h",
        "history stats h",
        "history h --min-similarity 0.9 --no-add",
        "history h --min-similarity 0.9",
    ] {
        let ran = dir.run("dedup-query", &command.split(' ').collect::<Vec<_>>());
        assert_eq!(
            (ran.code(), ran.stdout(), ran.stderr()),
            (2, String::new(), message.clone()),
            "{command}"
        );
    }
    // The refused journal was not changed.
    assert_eq!(
        fs::metadata(dir.path("h/000001.journal")).unwrap().len(),
        32
    );
}

#[test]
fn stats_report_the_content_of_a_history() {
    let dir = TestDir::new();
    let wanted = [
        "history",
        "h",
        "--min-similarity",
        "1",
        "--file-entries",
        "100",
    ];
    dir.run_with("dedup-query", &wanted, prints(250).as_bytes());
    dir.run("dedup-query", &["history", "remove", "h", "p3", "p249"])
        .ok();
    let stats = &records(
        &dir.run("dedup-query", &["history", "stats", "h", "--json"])
            .ok(),
    )[0];
    assert_eq!(
        (
            &stats["entries"],
            &stats["removed"],
            &stats["arrived"],
            &stats["version"]
        ),
        (&248.into(), &2.into(), &250.into(), &2.into()),
        "{stats}"
    );
    let bytes = |file: &str| fs::metadata(dir.path(file)).unwrap().len();
    let journal = serde_json::json!([{"file": "000003.journal", "entries": 50, "bytes": bytes("h/000003.journal"), "unfinished_bytes": 0}]);
    assert_eq!(stats["journals"], journal);
    assert_eq!(
        stats["segments"][1],
        serde_json::json!({"file": "000002.prints", "level": 0, "entries": 100, "bytes": bytes("h/000002.prints")})
    );
    let table = dir.run("dedup-query", &["history", "stats", "h"]).ok_text();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    assert_eq!(
        rows[..2],
        [
            vec!["scheme", "words@18.0/49 minhash:256@2"],
            vec!["entries", "248"]
        ],
        "{table}"
    );
    assert!(
        table.contains("\n  000002.prints ") && table.ends_with(" 50 entries\n"),
        "{table}"
    );
    // Leftover files of a killed writer are reported, and removed by the next writer.
    dir.shell("head -c 49 h/000003.journal | tail -c 17 >> h/000003.journal")
        .ok();
    let unfinished = &records(
        &dir.run("dedup-query", &["history", "stats", "--json", "h"])
            .ok(),
    )[0]["journals"][0]["unfinished_bytes"];
    assert_eq!(*unfinished, 17);
    dir.run("dedup-query", &["history", "verify", "h"]).ok();
    let ran = dir.run("dedup-query", &["history", "remove", "h", "p4"]);
    let message = format!(
        "dedup-query: h/000003.journal: dropped 17 bytes of an unfinished group from byte {} on; everything that was synced is there\n",
        journal[0]["bytes"]
    );
    assert_eq!((ran.code(), ran.stderr()), (0, message));
    for (command, message) in [
        (
            "history verify none",
            "dedup-query: none: no history is here",
        ),
        (
            "history stats none",
            "dedup-query: none: no history is here",
        ),
    ] {
        let ran = dir.run("dedup-query", &command.split(' ').collect::<Vec<_>>());
        assert!(
            ran.code() == 2 && ran.stderr().starts_with(message),
            "{command}: {}",
            ran.stderr()
        );
    }
    dir.shell("sed -i 's/\"version\": 2/\"version\": 1/' h/manifest.json")
        .ok();
    let old = dir.run("dedup-query", &["history", "verify", "h"]);
    let message = "dedup-query: h/manifest.json: a history of version 1, with prints whose bits depend on one another; \
                this program reads version 2: make it again from the documents, in a new directory\n";
    assert_eq!((old.code(), old.stderr().as_str()), (2, message));
}

/// Wherever a byte of segments, journals and manifest is flipped, verify names the file. With
/// `DEDUP_SOAK=1` every byte is flipped.
#[test]
fn verify_finds_every_flipped_byte_in_a_history() {
    let dir = TestDir::new();
    let wanted = [
        "history",
        "h",
        "--min-similarity",
        "1",
        "--file-entries",
        "100",
    ];
    dir.run_with("dedup-query", &wanted, prints(230).as_bytes());
    dir.run("dedup-query", &["history", "remove", "h", "p3"])
        .ok();
    let step = if std::env::var_os("DEDUP_SOAK").is_some() {
        1
    } else {
        331
    };
    for file in ["000001.prints", "000003.journal", "manifest.json"] {
        let path = dir.path("h").join(file);
        let bytes = fs::read(&path).unwrap();
        for at in (0..bytes.len()).step_by(step) {
            let mut altered = bytes.clone();
            altered[at] ^= 4;
            fs::write(&path, &altered).unwrap();
            let ran = dir.run("dedup-query", &["history", "verify", "h"]);
            assert!(
                ran.code() == 2
                    && ran
                        .stderr()
                        .starts_with(&format!("dedup-query: h/{file}: ")),
                "{file} {at}: {}",
                ran.stderr()
            );
        }
        fs::write(&path, &bytes).unwrap();
    }
    dir.run("dedup-query", &["history", "verify", "h"]).ok();
}

/// A program without the feature says how to get it, and makes nothing.
#[cfg(not(feature = "nats"))]
#[test]
fn a_program_without_the_feature_says_so() {
    let dir = TestDir::new();
    let log = "nats://127.0.0.1:4222/h";
    let ran = dir.run("dedup-query", &["history", "h", "--log", log]);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-query: nats://127.0.0.1:4222/h: this program was built without the feature nats, which --log needs; \
             build it with cargo build --release --features nats\n"
        )
    );
    assert!(!dir.path("h").exists());
}
