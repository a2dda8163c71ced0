//! Tables of all types, compared before and after by the parquet crate's own reader of rows, and by pyarrow.

use super::*;
use crate::text::corpus::{
    Packing,
    rewrite::tests::{Fates, TestFate},
};
use parquet::{
    file::{
        metadata::ParquetMetaData,
        reader::{FileReader, SerializedFileReader},
    },
    record::Field,
};
use proptest::prelude::*;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn sample(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.join("testdata/corpus-kinds").join(name)
}

fn copied(path: &Path, fates: &Fates) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let writer = PackedWriter::new(&mut out, Packing::Plain).unwrap();
    let file = File::open(path).unwrap();
    match copy(file, &Options::default(), &mut fates.clone(), writer) {
        Ok(()) => Ok(out),
        Err(CopyError::Input(what)) => Err(what),
        Err(error) => panic!("{error:?}"),
    }
}

/// A table, as the parquet crate reads it.
struct ReadTable {
    rows: Vec<Vec<(String, Field)>>,
    metadata: ParquetMetaData,
}

fn read(bytes: Vec<u8>) -> ReadTable {
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    ReadTable {
        rows: rows.map(|row| row.unwrap().into_columns()).collect(),
        metadata: reader.metadata().clone(),
    }
}

/// The codec of each column of a row group.
fn codecs(table: &ReadTable, group: usize) -> Vec<String> {
    let columns = table.metadata.row_group(group).columns().iter();
    columns
        .map(|column| format!("{} {:?}", column.column_path(), column.compression_codec()))
        .collect()
}

fn group_rows(table: &ReadTable) -> Vec<i64> {
    let groups = table.metadata.row_groups().iter();
    groups.map(|group| group.num_rows()).collect()
}

const ROWS: u64 = 12;
const GROUPS: [std::ops::RangeInclusive<u64>; 3] = [1..=5, 6..=10, 11..=12];

/// The row with its text cut, and its note.
fn expected_row(
    mut row: Vec<(String, Field)>,
    fate: &TestFate,
    has_notes: bool,
) -> Vec<(String, Field)> {
    for (name, value) in &mut row {
        if name == "text"
            && let Field::Str(text) = value
        {
            *text = fate.cut(text);
        }
    }
    if has_notes {
        let note = fate.note.clone().map_or(Field::Null, Field::Str);
        row.push((NOTE_FIELD.to_owned(), note));
    }
    row
}

fn any_fate() -> impl Strategy<Value = TestFate> {
    (0_u8..4, 0_u32..10, 10_u32..25).prop_map(|(action, start, end)| TestFate {
        is_dropped: action == 0,
        cuts: if action == 1 {
            vec![Span { start, end }]
        } else {
            Vec::new()
        },
        note: (action == 2).then(|| format!("{{\"n\":{start}}}")),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_types_stay_as_they_are(drawn in prop::collection::btree_map(1..=ROWS, any_fate(), 0..=12), has_notes: bool, only_group in prop::option::of(0_usize..3)) {
        let mut fates = Fates { of: drawn, has_notes, ..Fates::default() };
        for fate in fates.of.values_mut().filter(|_| !has_notes) {
            fate.note = None;
        }
        if let Some(group) = only_group {
            fates.of.retain(|row, _| GROUPS[group].contains(row));
        }
        let before = read(fs::read(sample("types.parquet")).unwrap());
        let after = read(copied(&sample("types.parquet"), &fates).unwrap());
        let rows = (1..).zip(before.rows.clone()).filter(|(number, _)| !fates.get(*number).is_dropped);
        let expected: Vec<_> = rows.map(|(number, row)| expected_row(row, &fates.get(number), has_notes)).collect();
        prop_assert_eq!(&after.rows, &expected);
        let kept = |group: &std::ops::RangeInclusive<u64>| group.clone().filter(|&row| !fates.get(row).is_dropped).count() as i64;
        let expected: Vec<_> = GROUPS.iter().map(kept).filter(|&rows| rows > 0).collect();
        prop_assert_eq!(group_rows(&after), expected);
        let fields = |table: &ReadTable| table.metadata.file_metadata().schema_descr().root_schema().get_fields().to_vec();
        prop_assert_eq!(&fields(&after)[..19], &fields(&before)[..]);
        prop_assert_eq!(fields(&after).len(), 19 + usize::from(has_notes));
        for group in 0..group_rows(&after).len() {
            let expected = codecs(&before, 0);
            prop_assert_eq!(&codecs(&after, group)[..expected.len()], &expected[..]);
        }
        if !has_notes {
            prop_assert_eq!(after.metadata.file_metadata().key_value_metadata(), before.metadata.file_metadata().key_value_metadata());
        }
    }
}

#[test]
fn nothing_changes_nothing() {
    let whole = fs::read(sample("types.parquet")).unwrap();
    assert!(copied(&sample("types.parquet"), &Fates::default()).unwrap() == whole);
    // A copy of a copy is the same.
    let file = tempfile::NamedTempFile::new().unwrap();
    let once = copied(&sample("types.parquet"), &Fates::dropping([3])).unwrap();
    fs::write(file.path(), &once).unwrap();
    assert!(copied(file.path(), &Fates::default()).unwrap() == once);
    let mut fates = Fates::default();
    fates.of.insert(11, TestFate::default());
    assert_eq!(
        read(copied(file.path(), &fates).unwrap()).rows,
        read(once).rows
    );
}

#[test]
fn what_cannot_be_done_is_named() {
    let mut fates = Fates::default();
    fates.of.entry(2).or_default().note = Some("1".to_owned());
    assert_eq!(
        copied(&sample("types.parquet"), &fates).unwrap_err(),
        "row 2: a note for a table without a column for notes"
    );
    let mut damaged = fs::read(sample("zstd.parquet")).unwrap();
    damaged[4] ^= 0xff;
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), damaged).unwrap();
    let failed = copied(file.path(), &Fates::dropping([1])).unwrap_err();
    assert!(
        failed.starts_with("row group 0, column other: "),
        "{failed}"
    );
}

/// An output without room.
struct FullOutput;

impl io::Write for FullOutput {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn errors_of_the_output_are_told_from_damage() {
    let fates = [Fates::default(), Fates::dropping([1])];
    for mut fates in fates {
        let mut out = FullOutput;
        let writer = PackedWriter::new(&mut out, Packing::Plain).unwrap();
        let file = File::open(sample("types.parquet")).unwrap();
        let failed = copy(file, &Options::default(), &mut fates, writer).unwrap_err();
        assert!(
            matches!(&failed, CopyError::Output(error) if error.kind() == io::ErrorKind::StorageFull),
            "{failed:?}"
        );
    }
}

/// Every byte changed: a copy or an error, no panic.
#[test]
fn every_flip() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for name in ["list-nulls.parquet", "required.parquet"] {
        let whole = fs::read(sample(name)).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 0xff;
            fs::write(file.path(), flipped).unwrap();
            let _ = copied(file.path(), &Fates::dropping([2]));
        }
    }
}

/// The Python of `scripts/dev/make-record-samples`, or another that has pyarrow.
fn python_with_pyarrow() -> Option<PathBuf> {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/samples-venv/bin/python");
    [own, "python3".into()].into_iter().find(|python| {
        let ran = Command::new(python).args(["-c", "import pyarrow"]).output();
        ran.is_ok_and(|ran| ran.status.success())
    })
}

#[test]
fn pyarrow_finds_the_same_table() {
    let Some(python) = python_with_pyarrow() else {
        return eprintln!("no pyarrow here: skipped");
    };
    const SCRIPT: &str = r#"
import sys, pyarrow.parquet as pq
before, after, noted = map(pq.read_table, sys.argv[1:])
kept = before.take([n for n in range(len(before)) if n not in (0, 2, 5)])
assert after.schema.equals(before.schema, check_metadata=True), after.schema
assert after.to_pylist() == kept.to_pylist()
assert noted.schema.names == before.schema.names + ["dedup"], noted.schema
assert noted.schema.field("dedup").type == "string"
assert noted["dedup"].to_pylist() == [f'{{"n":{n}}}' if n % 2 else None for n in range(1, len(before) + 1)]
rest = noted.drop_columns(["dedup"])
assert rest.schema.equals(before.schema, check_metadata=True), rest.schema
assert rest.equals(before), rest
noted.validate(full=True)
"#;
    let directory = tempfile::tempdir().unwrap();
    let (after, noted) = (
        directory.path().join("after"),
        directory.path().join("noted"),
    );
    for name in [
        "types",
        "zstd",
        "list-nulls",
        "large-string",
        "pandas",
        "dictionary-v2",
        "brotli",
        "lz4",
    ] {
        let path = sample(&format!("{name}.parquet"));
        let mut notes = Fates {
            has_notes: true,
            ..Fates::default()
        };
        for row in (1..=ROWS).step_by(2) {
            notes.of.entry(row).or_default().note = Some(format!("{{\"n\":{row}}}"));
        }
        fs::write(&after, copied(&path, &Fates::dropping([1, 3, 6])).unwrap()).unwrap();
        fs::write(&noted, copied(&path, &notes).unwrap()).unwrap();
        // Notes that are there are replaced.
        fs::write(&noted, copied(&noted, &notes).unwrap()).unwrap();
        let script = Command::new(&python)
            .args(["-c", SCRIPT])
            .args([&path, &after, &noted])
            .output()
            .unwrap();
        assert!(
            script.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&script.stderr)
        );
    }
}
