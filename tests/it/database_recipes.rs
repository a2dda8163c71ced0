//! The recipes of docs/tables.md work as printed, with SQLite, DuckDB, pandas and R.

use crate::test_dir::{TestDir, records, root, search_path, tools};
use serde_json::{Value, json};
use std::{fs, process::Command};

/// Ids that break naive imports: quotes, tabs, backslashes, line breaks, other scripts, invisible
/// characters, and strings that look like a number, a null or JSON.
const IDS: [&str; 16] = [
    "it's",
    "\"quoted\"",
    "a\tb",
    "a\\tb",
    "back\\slash\\",
    "two\nlines",
    "cr\r\nlf",
    "žluťoučký 日本語 🦀",
    " ",
    "",
    "9007199254740993",
    "1e5",
    "null",
    "{\"a\":1}",
    "a|b,c;d",
    "'; drop table alike; --",
];

/// The shell blocks about the table that follows an index that call a program: the first loads it, the second applies
/// changes.
fn recipes(program: &str) -> Vec<String> {
    let guide = fs::read_to_string(root().join("docs/tables.md")).unwrap();
    let (_, rest) = guide
        .split_once("## A table that follows an index")
        .unwrap();
    let blocks = rest
        .split("\n```sh\n")
        .skip(1)
        .map(|rest| rest.split("\n```").next().unwrap().to_owned());
    blocks
        .filter(|block| block.contains(&format!("\n{program} ")))
        .collect()
}

/// Writes documents `from..to` that share text, each with one of the ids.
fn write(dir: &TestDir, name: &str, from: usize, to: usize, turn: usize) {
    let text = |number: usize| {
        let own = (0..10 + number).map(|word| format!("own{turn}x{number}x{word} "));
        (0..150 + number)
            .map(|word| format!("shared{word} "))
            .chain(own)
            .collect::<String>()
    };
    let lines = (from..to)
        .map(|number| format!("{}\n", json!({ "id": IDS[number], "text": text(number) })));
    dir.write(name, lines.collect::<String>());
}

/// Runs the recipes, and compares the database with the table before and after a change.
fn ensure_recipes_work(program: &str, query: &dyn Fn(&TestDir, &str) -> Vec<Value>) {
    let dir = TestDir::new();
    if dir.shell(&format!("command -v {program}")).code() != 0 {
        return eprintln!("no {program} here: its recipes were not run");
    }
    let [load, update] = &recipes(program)[..] else {
        panic!("docs/tables.md has other recipes for {program} than it had")
    };
    write(&dir, "first.jsonl", 0, 12, 1);
    dir.run(
        "dedup-index",
        &["build", "-q", "-o", "my.idx", "first.jsonl"],
    )
    .ok();
    dir.shell(&format!("set -e; {load}")).ok();
    ensure_same(&dir, query);
    // Some documents change, some are removed, some are added.
    write(&dir, "more.jsonl", 9, 16, 2);
    dir.run("dedup-index", &["add", "-q", "my.idx", "more.jsonl"])
        .ok();
    dir.run(
        "dedup-index",
        &["remove", "-q", "my.idx", IDS[0], IDS[5], IDS[8]],
    )
    .ok();
    for _ in 0..2 {
        dir.shell(&format!("set -e; {update}")).ok();
        ensure_same(&dir, query);
    }
}

fn ensure_same(dir: &TestDir, query: &dyn Fn(&TestDir, &str) -> Vec<Value>) {
    let key = |row: &Value| {
        (
            row["a"].as_str().unwrap().to_owned(),
            row["b"].as_str().unwrap().to_owned(),
        )
    };
    let mut expected = records(&dir.run("dedup-extract", &["table", "my.idx"]).ok());
    assert!(expected.len() > 100);
    let mut found = query(dir, "select a, b, shared, a_in_b, b_in_a from alike");
    expected.sort_by_key(key);
    found.sort_by_key(key);
    let numbers = |row: &Value| ["shared", "a_in_b", "b_in_a"].map(|name| number(&row[name]));
    let rows = |rows: &[Value]| {
        rows.iter()
            .map(|row| (key(row), numbers(row)))
            .collect::<Vec<_>>()
    };
    assert_eq!(rows(&found), rows(&expected));
    // Columns are typed, so numbers compare as numbers; ids are unchanged, so joins find them.
    let count = expected
        .iter()
        .filter(|row| row["shared"].as_u64().unwrap() > 99)
        .count();
    assert_eq!(
        number(&query(dir, "select count(*) as n from alike where shared > 99")[0]["n"]),
        count as f64
    );
    let quoted = |id: &str| format!("('{}')", id.replace('\'', "''"));
    let names = IDS.map(quoted).join(", ");
    let joined = format!(
        "with ids(id) as (values {names}) select count(*) as n from alike join ids on ids.id = alike.a"
    );
    assert_eq!(number(&query(dir, &joined)[0]["n"]), expected.len() as f64);
}

/// DuckDB prints unsigned 64-bit integers as strings.
fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
}

/// The rows of a database's answer.
fn answer(command: &mut Command, dir: &TestDir) -> Vec<Value> {
    serde_json::from_slice(
        &command
            .env("PATH", search_path())
            .current_dir(dir.temp.path())
            .output()
            .unwrap()
            .stdout,
    )
    .unwrap()
}

#[test]
fn sqlite_loads_a_table_and_its_changes() {
    ensure_recipes_work("sqlite3", &|dir, sql| {
        answer(
            Command::new("sqlite3").args(["-json", "alike.db", sql]),
            dir,
        )
    });
}

#[test]
fn duckdb_loads_a_table_and_its_changes() {
    ensure_recipes_work("duckdb", &|dir, sql| {
        answer(
            Command::new("duckdb").args(["-json", "alike.duckdb", sql]),
            dir,
        )
    });
}

/// Two pairs of documents that share passages, one of them with changes, and the two files that all recipes read.
fn passages() -> TestDir {
    let words = |seed: usize, count: usize| -> Vec<String> {
        (0..count)
            .map(|word| format!("w{}x{}", seed, (word * 7919 + seed * 31) % 9973))
            .collect()
    };
    let copied = words(1, 80);
    let mut edited = copied.clone();
    edited[20] = "other".to_owned();
    edited[50] = "words".to_owned();
    let text = |own: usize, shared: &[String]| {
        [words(own, 60), shared.to_vec(), words(own + 1, 60)]
            .concat()
            .join(" ")
    };
    let dir = TestDir::with(&[
        ("docs/a, \"quoted\".txt", text(10, &copied)),
        ("docs/b.txt", text(20, &copied)),
        ("docs/c.txt", text(30, &edited)),
    ]);
    let [write, ..] = &blocks_of_passages("sh")[..] else {
        panic!("docs/tables.md has no recipes")
    };
    let written = dir.shell(&format!("set -e; {write}"));
    assert_eq!(written.code(), 0, "{}", written.stderr());
    dir
}

/// The blocks of docs/tables.md about passages in a language.
fn blocks_of_passages(language: &str) -> Vec<String> {
    let guide = fs::read_to_string(root().join("docs/tables.md")).unwrap();
    let (part, _) = guide.split_once("## A table that follows").unwrap();
    let start = format!("\n```{language}\n");
    let blocks = part.split(&start).skip(1);
    blocks
        .map(|rest| rest.split("\n```").next().unwrap().to_owned())
        .collect()
}

/// Runs the block that mentions a word, as a script of a program; none if the program is not there.
fn run_block(dir: &TestDir, language: &str, word: &str, program: &str) -> Option<String> {
    if dir
        .shell(&format!("{program} --version > /dev/null 2>&1"))
        .code()
        != 0
    {
        eprintln!("skipped: no {program}");
        return None;
    }
    let blocks = blocks_of_passages(language);
    let block = blocks.iter().find(|block| block.contains(word)).unwrap();
    dir.write("block", block);
    Some(dir.shell(&format!("{program} block")).ok_text())
}

#[test]
fn passages_are_columns_with_positions_and_excerpts() {
    let dir = passages();
    let csv = String::from_utf8(dir.read("passages.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(
        lines[0],
        "a,b,a_start,a_end,b_start,b_end,tokens,score,kind,reverse,a_text,b_text"
    );
    assert_eq!(lines.len(), 4);
    assert!(lines[1].starts_with("\"docs/a, \"\"quoted\"\".txt\",\"docs/b.txt\","));
    let text = String::from_utf8(dir.read("docs/b.txt")).unwrap();
    let row: Vec<&str> = lines[3].split(',').collect();
    let [start, end] = [row[2], row[3]].map(|number| number.parse::<usize>().unwrap());
    let passage = &text[start..end];
    let shown = row[10].trim_matches('"');
    let excerpt = shown.trim_end_matches('…');
    assert!(
        shown.ends_with('…') && excerpt.chars().count() == 300,
        "{}",
        row[10]
    );
    assert_eq!(excerpt, &passage[..excerpt.len()]);
    assert_eq!(row[8], "\"edited\"");
    // Questions about a document have the same columns.
    let query = |format: &str| {
        let line = format!("dedup-query docs docs/c.txt --passages -q --format {format}");
        dir.shell(&line).ok_text()
    };
    assert!(query("csv").starts_with(lines[0]));
    assert_eq!(query("csv").lines().count(), 3);
    assert!(query("tsv").starts_with(&lines[0].replace(',', "\t")));
    dir.shell("dedup-query docs docs/c.txt --passages -q --format parquet > answers.parquet")
        .ok();
    assert!(dir.read("answers.parquet").starts_with(b"PAR1"));
    let aligned = dir
        .shell("dedup-query align docs/b.txt docs/c.txt -q --format csv")
        .ok_text();
    assert_eq!(aligned.lines().nth(1), Some(lines[3]));
}

#[test]
fn passages_in_duckdb() {
    let dir = passages();
    if dir.shell("duckdb --version").code() != 0 {
        return eprintln!("skipped: no duckdb");
    }
    let blocks = blocks_of_passages("sh");
    let block = blocks
        .iter()
        .find(|block| block.contains("duckdb"))
        .unwrap();
    let found = dir.shell(block).ok_text();
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!((lines[0], lines.len()), ("a,b,tokens,kind,a_text", 3));
    assert!(
        lines[2].starts_with("docs/b.txt,docs/c.txt,78,edited,\"w1x"),
        "{found}"
    );
}

#[test]
fn passages_in_sqlite() {
    let dir = passages();
    let blocks = blocks_of_passages("sh");
    let block = blocks
        .iter()
        .find(|block| block.contains("sqlite3"))
        .unwrap();
    assert_eq!(
        dir.shell(block).ok_text(),
        "docs/a, \"quoted\".txt|2|158\ndocs/b.txt|1|78\n"
    );
}

#[test]
fn passages_in_pandas() {
    let dir = passages();
    let python = tools().join("python/bin/python");
    let python = python.display().to_string();
    if dir
        .shell(&format!("{python} -c 'import pandas, pyarrow'"))
        .code()
        != 0
    {
        return eprintln!("skipped: no pandas; scripts/dev/install-deps installs it");
    }
    let found = run_block(&dir, "python", "groupby", &python).unwrap();
    assert_eq!(
        found,
        "a,tokens\n\"docs/a, \"\"quoted\"\".txt\",158\ndocs/b.txt,78\n\n"
    );
    let passage = run_block(&dir, "python", "iloc[0]", &python).unwrap();
    assert_eq!(passage.split_whitespace().count(), 80);
    assert!(passage.starts_with("w1x31 "), "{passage}");
}

#[test]
fn passages_in_r() {
    let dir = passages();
    if let Some(found) = run_block(&dir, "r", "aggregate", "Rscript") {
        assert_eq!(
            found,
            "\"a\",\"tokens\"\n\"docs/a, \"\"quoted\"\".txt\",158\n\"docs/b.txt\",78\n"
        );
    }
}
