//! Records as rows of tables: TSV, CSV and Parquet.

use crate::test_dir::{TestDir, records};
use parquet::{
    file::reader::{FileReader, SerializedFileReader},
    record::Field,
};
use serde_json::{Value, json};
use std::fs::File;

const SHARED: &str = "the keeper of the light wrote every evening into a large black book what ships had passed and how the wind had turned since noon";

/// Three documents that share a sentence, one of them twice, and an id that tables have to escape.
fn documents() -> TestDir {
    let text = |own: &str| format!("{own} {SHARED} and that is all there is to {own}");
    TestDir::with(&[
        ("docs/a.txt", text("anna")),
        ("docs/b.txt", text("bert")),
        ("docs/c, \"copy\".txt", text("bert")),
        ("docs/d.txt", text("dora")),
    ])
}

/// The rows of a Parquet table as JSON.
fn parquet_rows(dir: &TestDir, name: &str) -> Vec<Value> {
    let reader = SerializedFileReader::new(File::open(dir.path(name)).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| {
        let cells = row.unwrap().into_columns().into_iter();
        cells.map(|(name, cell)| (name, json_of(&cell))).collect()
    })
    .collect()
}

fn json_of(cell: &Field) -> Value {
    match cell {
        Field::Null => Value::Null,
        Field::Bool(flag) => json!(flag),
        Field::Long(number) => json!(number),
        Field::Double(number) => json!(number),
        Field::Str(text) => json!(text),
        other => panic!("no cell has the type of {other}"),
    }
}

fn extract(dir: &TestDir, arguments: &[&str]) -> Vec<u8> {
    dir.run("dedup-extract", arguments).ok()
}

#[test]
fn parquet_has_the_records_of_ndjson() {
    let dir = documents();
    for question in [
        &["pairs", "docs", "--score", "s1", "--threshold", "1"][..],
        &["table", "docs", "--rank"],
        &["spans", "docs"],
        &["blots", "docs"],
    ] {
        let lines = extract(&dir, question);
        extract(
            &dir,
            &[question, &["--format", "parquet", "-o", "by-flag"]].concat(),
        );
        extract(&dir, &[question, &["-o", "by-name.parquet"]].concat());
        assert_eq!(dir.read("by-flag"), dir.read("by-name.parquet"));
        let rows = parquet_rows(&dir, "by-flag");
        let expected = records(&lines);
        assert!(!expected.is_empty(), "{question:?}");
        assert_eq!(rows.len(), expected.len(), "{question:?}");
        for (row, record) in rows.iter().zip(&expected) {
            for (name, value) in record.as_object().unwrap() {
                match value {
                    // A list is a text of JSON.
                    Value::Array(_) => {
                        let list: Value =
                            serde_json::from_str(row[name].as_str().unwrap()).unwrap();
                        assert_eq!(&list, value);
                    }
                    Value::Number(number) => {
                        assert_eq!(row[name].as_f64(), number.as_f64(), "{question:?} {name}");
                    }
                    _ => assert_eq!(&row[name], value, "{question:?} {name}"),
                }
            }
        }
    }
}

#[test]
fn numbers_of_clusters_are_numbers_or_missing() {
    let dir = documents();
    extract(
        &dir,
        &["clusters", "docs", "--threshold", "0.1", "-o", "c.parquet"],
    );
    let rows = parquet_rows(&dir, "c.parquet");
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[0]["kept"], 1);
    assert!(rows[0]["score"].is_null() && rows[0]["shared"].is_null());
    assert!(
        rows[1..]
            .iter()
            .all(|row| row["score"].is_f64() && row["shared"].is_i64())
    );
}

#[test]
fn a_passage_of_several_documents_has_a_row_for_each_place() {
    let dir = documents();
    extract(&dir, &["passages", "docs", "-o", "p.parquet"]);
    extract(&dir, &["passages", "docs", "-o", "p.csv"]);
    let family = &records(&extract(&dir, &["passages", "docs"]))[0];
    let rows = parquet_rows(&dir, "p.parquet");
    let places = family["places"].as_array().unwrap();
    let of_first: Vec<_> = rows.iter().filter(|row| row["passage"] == 1).collect();
    assert_eq!(of_first.len(), places.len());
    for (row, place) in of_first.iter().zip(places) {
        for name in ["doc", "start", "end"] {
            assert_eq!(row[name], place[name]);
        }
        assert_eq!(
            (&row["tokens"], &row["text"]),
            (&family["tokens"], &family["text"])
        );
    }
    let csv = String::from_utf8(dir.read("p.csv")).unwrap();
    assert!(
        csv.starts_with("passage,tokens,count,documents,doc,start,end,variant,reverse,text\n1,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), rows.len() + 1);
}

#[test]
fn aligned_passages_are_rows_of_tables() {
    let dir = documents();
    let pair = &records(
        &dir.run("dedup-query", &["align", "docs/a.txt", "docs/b.txt"])
            .ok(),
    )[0];
    let passage = &pair["passages"][0];
    for name in ["p.tsv", "p.csv", "p.parquet"] {
        dir.run(
            "dedup-query",
            &["align", "docs/a.txt", "docs/b.txt", "-o", name],
        )
        .ok();
    }
    let row = &parquet_rows(&dir, "p.parquet")[0];
    assert_eq!(
        (&row["a_start"], &row["a_end"]),
        (&passage["a"][0], &passage["a"][1])
    );
    assert_eq!(
        (&row["b_start"], &row["b_end"]),
        (&passage["b"][0], &passage["b"][1])
    );
    let tsv = String::from_utf8(dir.read("p.tsv")).unwrap();
    assert!(tsv.starts_with("a\tb\ta_start\ta_end\tb_start\tb_end\ttokens\tscore\tkind\treverse\ta_text\tb_text\ndocs/a.txt\tdocs/b.txt\t"), "{tsv}");
    extract(
        &dir,
        &[
            "pairs",
            "docs",
            "--passages",
            "--score",
            "s1",
            "--threshold",
            "1",
            "-o",
            "q.parquet",
        ],
    );
    let rows = parquet_rows(&dir, "q.parquet");
    let same = rows
        .iter()
        .find(|row| row["a"] == "docs/a.txt" && row["b"] == "docs/b.txt");
    assert_eq!(same.unwrap()["a_start"], row["a_start"]);
}

#[test]
fn answers_are_a_table_too() {
    let dir = documents();
    let lines = dir.run("dedup-query", &["docs", "docs/a.txt"]).ok();
    let table = dir.run(
        "dedup-query",
        &["docs", "docs/a.txt", "--format", "parquet"],
    );
    dir.write("answers.parquet", table.ok());
    let rows = parquet_rows(&dir, "answers.parquet");
    let expected = records(&lines);
    assert!(!expected.is_empty());
    assert_eq!(rows.len(), expected.len());
    assert_eq!(rows[0]["doc"], expected[0]["doc"]);
}
