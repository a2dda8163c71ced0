//! Files of every kind, written again and read again.

use super::*;
use crate::text::corpus::{Content, DocumentReader, Source};
use proptest::{prelude::*, sample::Index};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufReader, Cursor},
    path::{Path, PathBuf},
    process::Command,
};

/// What a test decides about records; all others stay.
#[derive(Debug, Default, Clone)]
pub struct Fates {
    /// By the number of the record.
    pub of: BTreeMap<u64, TestFate>,
    /// Whether there are notes.
    pub has_notes: bool,
    /// The record that was asked for last.
    pub last: Option<u64>,
}

/// What a test decides about a record.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct TestFate {
    /// It goes.
    pub is_dropped: bool,
    /// Cut out of its text.
    pub cuts: Vec<Span>,
    /// Its new field.
    pub note: Option<String>,
}

impl TestFate {
    /// The record goes.
    pub fn dropped() -> Self {
        Self {
            is_dropped: true,
            ..Self::default()
        }
    }

    /// The text without what is cut out of it.
    pub fn cut(&self, text: &str) -> String {
        let mut out = Vec::new();
        lines::cut_bytes(text.as_bytes(), &self.cuts, &mut out);
        String::from_utf8(out).unwrap()
    }
}

impl Fates {
    /// These records go.
    pub fn dropping(records: impl IntoIterator<Item = u64>) -> Self {
        let of = records.into_iter();
        Self {
            of: of.map(|record| (record, TestFate::dropped())).collect(),
            ..Self::default()
        }
    }

    /// The fate of a record; it stays if nothing else was decided.
    pub fn get(&self, record: u64) -> TestFate {
        self.of.get(&record).cloned().unwrap_or_default()
    }
}

impl RecordFates for Fates {
    fn fate(&mut self, record: u64) -> Result<RecordFate<'_>> {
        assert!(
            self.last < Some(record),
            "record {record} was asked for too late"
        );
        self.last = Some(record);
        Ok(match self.of.get(&record) {
            None => RecordFate::Keep,
            Some(fate) if fate.is_dropped => RecordFate::Drop,
            Some(fate) => RecordFate::Change(RecordChange {
                cuts: &fate.cuts,
                note: fate.note.as_deref(),
            }),
        })
    }

    fn has_notes(&self) -> bool {
        self.has_notes
    }
}

/// What a copier makes of some bytes, which it gets in pieces of a size.
pub(super) fn copied(
    copier: &dyn RecordCopier,
    input: &[u8],
    piece_bytes: usize,
    fates: &Fates,
) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let input = BufReader::with_capacity(piece_bytes, Cursor::new(input.to_vec()));
    let writer = PackedWriter::new(&mut out, Packing::Plain).unwrap();
    match copier.copy(
        Box::new(input),
        CopyStart::default(),
        &mut fates.clone(),
        writer,
    ) {
        Ok(()) => Ok(out),
        Err(CopyError::Input(what)) => Err(what),
        Err(error) => panic!("{error:?}"),
    }
}

/// A part of a text, between characters.
pub fn cut_between(text: &str, from: Index, to: Index) -> Vec<Span> {
    let borders: Vec<_> = text
        .char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .collect();
    let [one, two] = [from, to].map(|index| borders[index.index(borders.len())] as u32);
    let cut = Span {
        start: one.min(two),
        end: one.max(two),
    };
    if cut.start < cut.end {
        vec![cut]
    } else {
        Vec::new()
    }
}

/// What is drawn for a record: an action, and the borders of a cut.
pub type Draw = (u8, Index, Index);

/// Any decision about a record.
pub fn any_draw() -> impl Strategy<Value = Draw> {
    (0_u8..4, any::<Index>(), any::<Index>())
}

/// The fate that was drawn for a record with this text.
pub fn drawn_fate(text: &str, (action, from, to): Draw, has_notes: bool) -> Option<TestFate> {
    match action {
        0 => Some(TestFate::dropped()),
        1 => Some(TestFate {
            is_dropped: false,
            cuts: cut_between(text, from, to),
            note: has_notes.then(|| format!("{{\"keep\":\"{action}, é\"}}")),
        }),
        2 if has_notes => Some(TestFate {
            note: Some("7".to_owned()),
            ..TestFate::default()
        }),
        _ => None,
    }
}

fn sample(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.join("testdata/corpus-kinds").join(name)
}

/// The record, the id and the text of each document.
fn documents(path: &Path, options: &Options) -> Vec<TestDocument> {
    let entry = FileEntry::named(path.to_owned(), "file").unwrap();
    let mut reader = DocumentReader::new(options);
    let mut found = Vec::new();
    for chunk in Source::of(vec![entry], options.clone(), 2).unwrap() {
        reader
            .read(chunk.unwrap().item, &mut |document| {
                let Ok(document) = document else { return };
                if let Content::Text(text) = document.content {
                    found.push((document.record, document.id.to_owned(), text.to_owned()));
                }
            })
            .unwrap();
    }
    found
}

/// Writes a file again; the copy has the same name.
fn rewritten(path: &Path, into: &Path, options: &Options, fates: &Fates) -> PathBuf {
    let entry = FileEntry::named(path.to_owned(), "file").unwrap();
    let form = ShardForm::of(&entry, options).unwrap();
    let mut out = Vec::new();
    rewrite(&entry, form, options, &mut fates.clone(), &mut out).unwrap();
    let copy = into.join(path.file_name().unwrap());
    fs::write(&copy, out).unwrap();
    copy
}

#[rustfmt::skip]
const SAMPLES: [&str; 11] = [
    "python.csv", "python-excel.csv", "pandas.csv", "pyarrow.csv", "python.tsv", "compact.json", "indented.json",
    "texts.warc.wet", "pages.warc", "some.fasta", "some.jsonl",
];

#[cfg(feature = "parquet")]
#[rustfmt::skip]
const TABLES: [&str; 20] = [
    "none", "snappy", "gzip", "brotli", "zstd", "lz4", "plain-v1", "plain-v2", "dictionary-v1", "dictionary-v2",
    "delta-byte-array", "delta-length-byte-array", "large-string", "binary", "list", "required", "pandas", "nulls",
    "list-nulls", "types",
];
#[cfg(not(feature = "parquet"))]
const TABLES: [&str; 0] = [];

/// The samples, and two of our own, in a directory.
fn samples(into: &Path) -> Vec<PathBuf> {
    let tables = TABLES.map(|name| format!("{name}.parquet"));
    let names = SAMPLES.iter().map(|&name| name.to_owned()).chain(tables);
    fs::write(
        into.join("some.fasta"),
        ">a one\nACGT\nAC\n>b\n\n>c\r\nGG\n>d\nTTTT",
    )
    .unwrap();
    fs::write(
        into.join("some.jsonl"),
        "\n{\"text\":\"a b c\"}\r\n\n{\"text\":\"d\\n\"}",
    )
    .unwrap();
    let own = |name: &String| into.join(name);
    names
        .map(|name| {
            if own(&name).exists() {
                own(&name)
            } else {
                sample(&name)
            }
        })
        .collect()
}

fn options_of(path: &Path) -> Options {
    Options {
        prefer_fasta: path.extension().is_some_and(|ending| ending == "fasta"),
        ..Options::default()
    }
}

type TestDocument = (u64, String, String);

fn texts(documents: &[TestDocument]) -> Vec<&str> {
    documents.iter().map(|(_, _, text)| &**text).collect()
}

/// Records have the numbers that reading gives them: each one that goes is the one that is missed then.
#[test]
fn what_goes_is_missing_and_nothing_else() {
    let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for path in samples(from.path()) {
        let options = options_of(&path);
        let all = documents(&path, &options);
        assert!(all.len() > 1, "{path:?}");
        for drop in 0_u32..1 << all.len().min(6) {
            let (mut goes, mut stays) = (Vec::new(), all.clone());
            for at in (0..all.len()).rev().filter(|at| drop >> at & 1 == 1) {
                goes.push(stays.remove(at).0);
            }
            let is_named = !has_ending(&path, "json") && !has_ending(&path, "fasta");
            if stays.is_empty() && !is_named {
                // Only its first record tells what the file is; without one it is a text.
                continue;
            }
            let copy = rewritten(&path, into.path(), &options, &Fates::dropping(goes));
            if drop == 0 {
                assert_eq!(
                    fs::read(&path).unwrap(),
                    fs::read(&copy).unwrap(),
                    "{path:?}"
                );
            }
            let found = documents(&copy, &options);
            assert_eq!(texts(&found), texts(&stays), "{path:?} {drop:b}");
        }
    }
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found == ending)
}

/// A note for each document, and the first half of the text of every other cut.
fn cuts_and_notes(documents: &[TestDocument], has_notes: bool) -> Fates {
    let mut fates = Fates {
        has_notes,
        ..Fates::default()
    };
    for (record, _, text) in documents {
        let end = (text.len() / 2..)
            .find(|&at| text.is_char_boundary(at))
            .unwrap();
        let cut = Span {
            start: 0,
            end: end as u32,
        };
        let fate = fates.of.entry(*record).or_default();
        fate.cuts = if record % 2 == 0 {
            vec![cut]
        } else {
            Vec::new()
        };
        fate.note = has_notes.then(|| format!("{{\"record\":{record}}}"));
    }
    fates
}

#[test]
fn texts_are_cut_and_notes_are_added() {
    let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for path in samples(from.path()) {
        let options = options_of(&path);
        let entry = FileEntry::named(path.clone(), "file").unwrap();
        let form = ShardForm::of(&entry, &options).unwrap();
        if !form.can_cut() {
            continue;
        }
        let all = documents(&path, &options);
        for has_notes in [false, true] {
            let fates = cuts_and_notes(&all, has_notes);
            let copy = rewritten(&path, into.path(), &options, &fates);
            // The strings of a list stay, and with them the line feeds between them.
            let is_list = path.to_str().unwrap().contains("list");
            let shown = |text: String| {
                if is_list {
                    text.replace('\n', "")
                } else {
                    text
                }
            };
            let found = documents(&copy, &options).into_iter();
            let found: Vec<_> = found
                .map(|(record, id, text)| (record, id, shown(text)))
                .collect();
            let expected = all.iter().map(|(record, id, text)| {
                (*record, id.clone(), shown(fates.get(*record).cut(text)))
            });
            assert_eq!(found, expected.collect::<Vec<_>>(), "{path:?}");
            if has_notes {
                ensure_notes(&copy, &all, &options, &fates);
            }
        }
    }
}

/// Notes can be read, and are replaced by the same ones without another change.
fn ensure_notes(copy: &Path, all: &[TestDocument], options: &Options, fates: &Fates) {
    let mut noted = options.clone();
    noted.fields.text_field = NOTE_FIELD.to_owned();
    if !has_ending(copy, "json") && !has_ending(copy, "jsonl") {
        let notes = documents(copy, &noted);
        let expected: Vec<_> = all
            .iter()
            .map(|(record, ..)| fates.get(*record).note.unwrap())
            .collect();
        assert_eq!(texts(&notes), expected, "{copy:?}");
    }
    let mut fates = fates.clone();
    fates.of.values_mut().for_each(|fate| fate.cuts.clear());
    let again = tempfile::tempdir().unwrap();
    let second = rewritten(copy, again.path(), options, &fates);
    assert!(
        fs::read(copy).unwrap() == fs::read(second).unwrap(),
        "{copy:?}"
    );
}

#[test]
fn packed_files_stay_packed() {
    let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in [
        "python-excel.csv",
        "indented.json",
        "pages.warc",
        #[cfg(feature = "parquet")]
        "gzip.parquet",
    ] {
        let path = from.path().join(format!("{name}.gz"));
        let mut packed = Vec::new();
        let mut writer = PackedWriter::new(&mut packed, Packing::Gzip).unwrap();
        writer.write_all(&fs::read(sample(name)).unwrap()).unwrap();
        writer.finish().unwrap();
        fs::write(&path, packed).unwrap();
        let options = Options::default();
        let mut expected = documents(&path, &options);
        let first = expected.remove(0).0;
        let copy = rewritten(&path, into.path(), &options, &Fates::dropping([first]));
        assert_eq!(Packing::of(&fs::read(&copy).unwrap()), Packing::Gzip);
        let found = documents(&copy, &options);
        assert_eq!(texts(&found), texts(&expected), "{name}");
    }
}

/// Python's own readers find the same rows and values.
#[test]
fn python_reads_what_is_written() {
    if !Command::new("python3")
        .arg("--version")
        .output()
        .is_ok_and(|ran| ran.status.success())
    {
        return eprintln!("no python3 here: skipped");
    }
    const SCRIPT: &str = r#"
import csv, json, sys
before, after = sys.argv[1:]
def load(path):
    if path.endswith("json"):
        return json.load(open(path, encoding="utf-8"))
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file, delimiter="\t" if path.endswith("tsv") else ","))
old, new = load(before), load(after)
assert len(new) == len(old) - 2, (len(new), len(old))
for record, copy in zip([record for at, record in enumerate(old) if at not in (0, 3)], new):
    note = copy.pop("dedup")
    if record["id"] == "quotes":
        assert record["text"][5:] == copy["text"], copy
        assert (json.loads(note) if isinstance(note, str) else note) == {"cut": 5}, note
        record["text"] = copy["text"]
    assert record == copy, (record, copy)
"#;
    let into = tempfile::tempdir().unwrap();
    for name in [
        "python.csv",
        "python-excel.csv",
        "pandas.csv",
        "python.tsv",
        "compact.json",
        "indented.json",
    ] {
        let mut fates = Fates::dropping([1, 4]);
        fates.has_notes = true;
        for record in [2, 3, 5, 6] {
            let note = if record == 2 { "{\"cut\": 5}" } else { "{}" };
            fates.of.insert(
                record,
                TestFate {
                    is_dropped: false,
                    cuts: if record == 2 {
                        vec![Span { start: 0, end: 5 }]
                    } else {
                        Vec::new()
                    },
                    note: Some(note.to_owned()),
                },
            );
        }
        let copy = rewritten(&sample(name), into.path(), &Options::default(), &fates);
        let ran = Command::new("python3")
            .args(["-c", SCRIPT])
            .arg(sample(name))
            .arg(&copy)
            .output()
            .unwrap();
        assert!(
            ran.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }
}

#[test]
fn an_array_in_an_encoding_with_brackets_in_characters_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.json");
    // The second byte of each character is a backslash.
    fs::write(&path, b"[{\"text\":\"\x83\\\x83\\\x83\\\"}]").unwrap();
    let entry = FileEntry::named(path, "file").unwrap();
    let form = |encoding| {
        let options = Options {
            encoding: crate::text::corpus::parse_encoding(encoding).unwrap(),
            ..Options::default()
        };
        ShardForm::of(&entry, &options)
    };
    let problem = form("shift_jis").unwrap_err().unwrap().problem;
    assert_eq!(
        problem.what,
        "left out: a JSON array in Shift_JIS, which cannot be written again; convert it to UTF-8 with iconv"
    );
    assert!(form("windows-1252").is_ok());
}
