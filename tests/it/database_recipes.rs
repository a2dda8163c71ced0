//! The database recipes of README.md work as printed, with SQLite and DuckDB.

use crate::test_dir::{TestDir, records, root, search_path};
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

/// The shell blocks of README.md that call a program: the first loads a table, the second applies
/// changes.
fn recipes(program: &str) -> Vec<String> {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let blocks = readme
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
        panic!("the README has other recipes for {program} than it had")
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
