//! Files that other programs wrote (`scripts/dev/make-record-samples`): the same documents in each.

use super::*;
use serde_json::Value;
use std::{
    fs::File,
    io::{BufReader, Read},
    path::PathBuf,
};

const FIELDS: FieldNames<'static> = FieldNames {
    id: "id",
    text: "text",
};

fn path(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.join("testdata/corpus-kinds").join(name)
}

fn open(name: &str) -> BufReader<File> {
    BufReader::new(File::open(path(name)).unwrap())
}

/// The documents of a JSON array, by serde_json: id, address, text.
fn expected() -> Vec<(String, String, String)> {
    let records: Vec<Value> = serde_json::from_reader(open("compact.json")).unwrap();
    let field = |value: &Value| value.as_str().unwrap().to_owned();
    records
        .iter()
        .map(|record| {
            let url = &record["meta"]["url"];
            (field(&record["id"]), field(url), field(&record["text"]))
        })
        .collect()
}

fn ids_and_texts() -> Vec<(String, String)> {
    let documents = expected().into_iter();
    documents.map(|(id, _, text)| (id, text)).collect()
}

fn all(rows: &mut impl RecordSequence) -> Vec<SequenceRecord> {
    std::iter::from_fn(|| rows.next_record())
        .map(Result::unwrap)
        .collect()
}

fn pairs(records: Vec<SequenceRecord>) -> Vec<(String, String)> {
    let pair = |record: SequenceRecord| (record.id.unwrap(), record.text.unwrap());
    records.into_iter().map(pair).collect()
}

#[test]
fn tables_of_text() {
    for name in [
        "python.csv",
        "python-excel.csv",
        "pandas.csv",
        "pyarrow.csv",
    ] {
        let mut rows = CsvRows::open(open(name), b',', &FIELDS, 1 << 20)
            .ok()
            .unwrap();
        assert_eq!(pairs(all(&mut rows)), ids_and_texts(), "{name}");
    }
    let mut rows = CsvRows::open(open("python.tsv"), b'\t', &FIELDS, 1 << 20)
        .ok()
        .unwrap();
    assert_eq!(pairs(all(&mut rows)), ids_and_texts());
}

#[test]
fn json_arrays() {
    for name in ["compact.json", "indented.json"] {
        let mut lines = String::new();
        let mut reader = JsonArrayLines::new(open(name));
        reader.read_to_string(&mut lines).unwrap();
        let records = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let records = records.map(|record: Value| {
            let field = |name| record[name].as_str().unwrap().to_owned();
            (field("id"), field("text"))
        });
        assert_eq!(records.collect::<Vec<_>>(), ids_and_texts(), "{name}");
    }
}

fn urls_and_texts() -> Vec<(String, String)> {
    let documents = expected().into_iter();
    documents.map(|(_, url, text)| (url, text)).collect()
}

#[test]
fn extracted_text_of_web_archives() {
    let mut records = WarcRecords::open(open("texts.warc.wet"), 1 << 20);
    assert_eq!(pairs(all(&mut records)), urls_and_texts());
    let by_type = [("warcinfo".to_owned(), 1)].into();
    let passed = PassedRecords {
        by_type,
        ..PassedRecords::default()
    };
    assert_eq!(records.passed(), &passed);
}

#[test]
fn pages_of_web_archives() {
    let mut records = WarcRecords::open(open("pages.warc"), 1 << 20);
    let mut pages = pairs(all(&mut records));
    for (_, text) in &mut pages {
        *text = text.trim_matches('\n').to_owned();
    }
    let mut expected = urls_and_texts();
    let latin = "https://example.org/latin".to_owned();
    expected.push((latin, "Käse und Öl".to_owned()));
    expected.push(("file:///note.txt".to_owned(), "a note".to_owned()));
    assert_eq!(pages, expected);
    let count = |reason: &str, number| (reason.to_owned(), number);
    let passed = PassedRecords {
        by_type: [count("warcinfo", 1), count("request", 6)].into(),
        left_out: [count("image/png", 1), count("HTTP status 404", 1)].into(),
    };
    assert_eq!(records.passed(), &passed);
}

#[cfg(feature = "parquet")]
mod parquet_files {
    use super::*;

    fn table(name: &str) -> ParquetTable {
        ParquetTable::open(File::open(path(name)).unwrap()).unwrap()
    }

    fn select(name: &str, id: &str, text: &str) -> SelectedColumns {
        let fields = FieldNames { id, text };
        table(name).select(&fields, 1 << 20).ok().unwrap()
    }

    fn rows(columns: &SelectedColumns) -> Vec<SequenceRecord> {
        let mut rows = Vec::new();
        for group in 0..columns.row_groups().len() {
            columns
                .read_group(group, &mut |row| rows.push(row))
                .unwrap();
        }
        rows
    }

    #[test]
    fn every_way_to_write_the_same_table() {
        #[rustfmt::skip]
        let names = [
            "none", "snappy", "gzip", "brotli", "zstd", "lz4", "plain-v1", "plain-v2", "dictionary-v1", "dictionary-v2",
            "delta-byte-array", "delta-length-byte-array", "large-string", "binary", "list", "required", "pandas",
        ];
        for name in names {
            let columns = select(&format!("{name}.parquet"), "id", "text");
            let rows = rows(&columns);
            let numbers: Vec<_> = rows.iter().map(|row| row.number).collect();
            assert_eq!(numbers, [1, 2, 3, 4, 5, 6], "{name}");
            assert_eq!(pairs(rows), ids_and_texts(), "{name}");
        }
    }

    #[test]
    fn nested_columns() {
        let columns = select("zstd.parquet", "meta.url", "text");
        assert_eq!(pairs(rows(&columns)), urls_and_texts());
        let columns = select("zstd.parquet", "other", "meta.url");
        let (id, url) = pairs(rows(&columns)).swap_remove(5);
        assert_eq!((&*id, url), ("5", expected()[5].1.clone()));
        let names = ["other", "id", "text", "meta.url", "meta.n"];
        assert_eq!(table("zstd.parquet").columns(), names);
        assert_eq!(table("list.parquet").columns()[2], "text");
    }

    #[test]
    fn row_groups() {
        let columns = select("zstd.parquet", "id", "text");
        let groups = columns.row_groups();
        assert_eq!(
            groups.iter().map(|group| group.rows).collect::<Vec<_>>(),
            [4, 2]
        );
        assert!(groups.iter().all(|group| 0 < group.packed_bytes));
        assert!(groups[1].unpacked_bytes > 3000);
        assert_eq!(columns.find_row(4), Some((0, 3)));
        assert_eq!(columns.find_row(5), Some((1, 0)));
        assert_eq!((columns.find_row(0), columns.find_row(7)), (None, None));
    }

    #[test]
    fn rows_that_are_looked_up() {
        for name in [
            "zstd",
            "plain-v1",
            "plain-v2",
            "dictionary-v2",
            "list",
            "delta-byte-array",
        ] {
            let columns = select(&format!("{name}.parquet"), "id", "text");
            for number in 1..=6 {
                let (group, row) = columns.find_row(number).unwrap();
                let mut found = Vec::new();
                let each = &mut |record| found.push(record);
                columns.read_rows(group, row..row + 1, each).unwrap();
                assert_eq!(found.len(), 1, "{name}");
                assert_eq!(found[0].number, number);
                assert_eq!(
                    pairs(found)[0],
                    ids_and_texts()[number as usize - 1],
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn nulls() {
        let rows = rows(&select("nulls.parquet", "id", "text"));
        let is_null = |row: &SequenceRecord| matches!(row.text, Err(RecordFault::Null));
        assert_eq!(
            rows.iter().map(is_null).collect::<Vec<_>>(),
            [false, true, false, true, false, true]
        );
        let ids: Vec<_> = rows.iter().map(|row| row.id.as_deref()).collect();
        assert_eq!(ids, [Some("plain"), None, None, Some("empty"), None, None]);
    }

    #[test]
    fn lists_with_nulls() {
        let rows = rows(&select("list-nulls.parquet", "id", "text"));
        let texts: Vec<_> = rows.iter().map(|row| row.text.as_deref().ok()).collect();
        assert_eq!(
            texts,
            [
                Some("a\nb"),
                Some(""),
                None,
                Some(""),
                Some("c"),
                Some("d\n")
            ]
        );
    }

    /// Texts in structs, in lists in structs, and in lists of structs, as data sets have conversations.
    #[test]
    fn structs_and_lists_of_them() {
        for (field, expected) in [
            ("meta.body.text", [Some("some words"), None, None]),
            ("parts.lines", [Some("b\nc"), None, None]),
            ("messages.content", [Some("one\ntwo"), Some(""), None]),
        ] {
            let rows = rows(&select("struct.parquet", "meta.url", field));
            let texts: Vec<_> = rows.iter().map(|row| row.text.as_deref().ok()).collect();
            assert_eq!(texts, expected, "{field}");
            let ids: Vec<_> = rows.iter().map(|row| row.id.as_deref()).collect();
            assert_eq!(ids, [Some("a"), None, Some("d")], "{field}");
        }
    }

    #[test]
    fn numbers_as_ids() {
        #[rustfmt::skip]
        let cases = [
            ("int8", "-1", "127"), ("uint8", "0", "255"), ("int64", "-9223372036854775808", "9223372036854775807"),
            ("uint64", "0", "18446744073709551615"),
            ("uuid", "00000000000000000000000000000000", "00000000000000000000000000000005"),
        ];
        for (kind, first, last) in cases {
            let rows = pairs(rows(&select(&format!("id-{kind}.parquet"), "id", "text")));
            assert_eq!((&*rows[0].0, &*rows[5].0), (first, last));
        }
    }

    #[test]
    fn columns_that_cannot_be_read() {
        let fault = |name: &str, id, text| {
            let fields = FieldNames { id, text };
            table(name).select(&fields, 1 << 20).err().unwrap()
        };
        let bad = |what: &str| RecordFault::Bad(what.to_owned());
        let names = ["other", "id", "text", "meta.url", "meta.n"];
        let fields = names.map(str::to_owned).to_vec();
        assert_eq!(
            fault("zstd.parquet", "id", "body"),
            RecordFault::NoText { fields }
        );
        assert_eq!(
            fault("zstd.parquet", "id", "other"),
            bad("column other is INT32, not a string or a list of strings")
        );
        assert_eq!(
            fault("zstd.parquet", "id", "meta"),
            bad("column meta is a struct; choose one of its fields: meta.url, meta.n")
        );
        assert_eq!(
            fault("nested-list.parquet", "id", "text"),
            bad(
                "column text is 2 nested lists of BYTE_ARRAY (UTF8), not a string or a list of strings"
            )
        );
        assert_eq!(
            fault("list.parquet", "text", "id"),
            bad(
                "column text is a list of BYTE_ARRAY (UTF8), not a string, an integer or fixed bytes"
            )
        );
        assert!(select("zstd.parquet", "no such", "text").row_groups().len() == 2);
    }

    #[test]
    fn texts_beyond_the_limit() {
        let columns = table("zstd.parquet").select(&FIELDS, 100).ok().unwrap();
        let rows = rows(&columns);
        assert_eq!(rows[5].text, Err(RecordFault::TooLarge));
        assert!(rows[..5].iter().all(|row| row.text.is_ok()));
    }

    /// Opens and reads bytes as a file: the rows, or what is wrong.
    fn read(bytes: &[u8]) -> Result<Vec<SequenceRecord>, String> {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, bytes).unwrap();
        let table = ParquetTable::open(file)?;
        let columns = table
            .select(&FIELDS, 1 << 20)
            .map_err(|fault| format!("{fault:?}"))?;
        let mut rows = Vec::new();
        for group in 0..columns.row_groups().len() {
            columns.read_group(group, &mut |row| rows.push(row))?;
        }
        Ok(rows)
    }

    #[test]
    fn damaged_files_are_named() {
        let whole = std::fs::read(path("zstd.parquet")).unwrap();
        let mut encrypted = whole.clone();
        let end = whole.len();
        encrypted[end - 1] = b'E';
        let mut long = whole.clone();
        long[end - 8..end - 4].copy_from_slice(&u32::MAX.to_le_bytes());
        let room = end - 12;
        #[rustfmt::skip]
        let cases = [
            (&whole[..8], "not a Parquet file: it has only 8 bytes".to_owned()),
            (&whole[..end - 1], "the file does not end with PAR1; it may be truncated".to_owned()),
            (&whole[1..], "not a Parquet file: it does not start with PAR1".to_owned()),
            (&encrypted, "the file is encrypted; decrypt it first".to_owned()),
            (&long, format!("the footer claims 4294967295 bytes, the file has room for {room}")),
        ];
        for (bytes, expected) in cases {
            assert_eq!(read(bytes).unwrap_err(), expected);
        }
        // Data is missing in the middle: the footer is whole, and points past the file.
        let mut short = b"PAR1".to_vec();
        short.extend_from_slice(&whole[end - 6000..]);
        let error = read(&short).unwrap_err();
        assert!(error.starts_with("row group 0, column "), "{error}");
    }

    /// Every byte changed in three ways, and the file cut at each byte: rows or an error, within bounds, no panic.
    #[test]
    fn every_flip() {
        for name in [
            "delta-byte-array.parquet",
            "list-nulls.parquet",
            "required.parquet",
        ] {
            let whole = std::fs::read(path(name)).unwrap();
            for at in 0..whole.len() {
                for flip in [1, 0x80, 0xff] {
                    let mut flipped = whole.clone();
                    flipped[at] ^= flip;
                    let _ = read(&flipped);
                }
                assert!(read(&whole[..at]).is_err());
            }
        }
    }
}
