use super::*;
use crate::text::corpus::{Account, Content, DocumentReader, Source};
use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use std::{fs, io::Write};

/// All documents and problems with their ids, lines and numbers, and the account.
fn read(entries: Vec<FileEntry>, options: &Options) -> Vec<String> {
    let (mut found, mut account) = (Vec::new(), Account::default());
    let mut reader = DocumentReader::new(options);
    for chunk in Source::of(entries, options.clone(), 1).unwrap() {
        let read = reader.read(chunk.unwrap().item, &mut |item| {
            found.push(match item {
                Ok(document) => {
                    let text = match document.content {
                        Content::Text(text) => text,
                        _ => "not a text",
                    };
                    let (id, line, record) = (document.id, document.line, document.record);
                    format!("{id} {line:?} {record} {text}")
                }
                Err(skipped) => format!("{skipped:?}"),
            });
        });
        account.add(&read.unwrap());
    }
    found.push(account.to_string());
    found
}

/// Cuts a file, and compares its parts with the whole. Returns the number of parts.
fn ensure_parts_are_whole(name: &str, bytes: &[u8], part_bytes: u64, options: &Options) -> usize {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, bytes).unwrap();
    let entry = FileEntry::named(path, "a").unwrap();
    let size = CutSize {
        part_bytes,
        is_written: false,
    };
    let parts = match cut_file(&entry, options, size) {
        Ok(parts) => parts,
        Err(_) => return 1,
    };
    let entries = parts.iter().map(|part| FileEntry {
        part: Some(Arc::new(part.clone())),
        ..entry.clone()
    });
    assert_eq!(
        read(entries.collect(), options),
        read(vec![entry.clone()], options),
        "{parts:?}"
    );
    // A host gets a copy with holes.
    for part in &parts {
        let copy = directory.path().join("copy");
        let mut holes = vec![0; bytes.len()];
        for [start, end] in &part.extents {
            let extent = usize::try_from(*start).unwrap()..usize::try_from(*end).unwrap();
            holes[extent.clone()].copy_from_slice(&bytes[extent]);
        }
        fs::write(&copy, holes).unwrap();
        let of = |copy: Option<_>| {
            vec![FileEntry {
                part: Some(Arc::new(part.clone())),
                copy,
                ..entry.clone()
            }]
        };
        assert_eq!(read(of(Some(copy)), options), read(of(None), options));
    }
    let ends = parts.windows(2).map(|pair| pair[0].numbers[1]);
    assert!(ends.eq(parts.iter().skip(1).map(|part| part.numbers[0])));
    parts.len()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// As bgzip writes it: members that tell their length.
fn bgzip(bytes: &[u8]) -> Vec<u8> {
    let member = gzip(bytes);
    let length = u16::try_from(member.len() + 8 - 1).unwrap();
    let mut block = member[..10].to_vec();
    block[3] = 4;
    block.extend([6, 0, b'B', b'C', 2, 0]);
    block.extend(length.to_le_bytes());
    block.extend(&member[10..]);
    block
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut packed = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    packed
        .include_checksum(bytes.len().is_multiple_of(2))
        .unwrap();
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// With and without an id, blank, not JSON, with a line end of Windows; the last one may have no line end.
fn ndjson() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        6 => "[a-z ]{0,30}".prop_map(|text| format!("{{\"text\":\"{text}\"}}")),
        3 => "[a-z]{1,3}".prop_map(|id| format!("{{\"id\":\"{id}\",\"text\":\"b\"}}\r")),
        1 => Just(String::new()),
        1 => Just("no json".to_owned()),
        1 => Just("{\"id\":\"x\"}".to_owned()),
    ];
    let lines = prop::collection::vec(line, 1..40);
    let start = prop_oneof![9 => Just(""), 1 => Just("\u{feff}")];
    (start, lines, any::<bool>()).prop_map(|(start, lines, ends)| {
        // The first line tells what the file is.
        let all = format!("{start}{{\"text\":\"first\"}}\n{}", lines.join("\n"));
        if ends { all + "\n" } else { all }
    })
}

fn options() -> Options {
    Options {
        max_document: 1 << 20,
        ..Options::of_files(Vec::new())
    }
}

proptest! {
    #[test]
    fn parts_of_lines_are_the_file(text in ndjson(), part_bytes in 1_u64..300) {
        ensure_parts_are_whole("a.jsonl", text.as_bytes(), part_bytes, &options());
        let lines = Options { records: Some(Records::Lines), ..options() };
        ensure_parts_are_whole("a", text.as_bytes(), part_bytes, &lines);
    }

    #[test]
    fn parts_of_sequences_are_the_file(text in "(>[a-z]{0,4}( x)?\n([ACGT]{0,9}\n){0,3}|\n){1,20}", part_bytes in 1_u64..99) {
        let fasta = Options { records: Some(Records::Fasta), ..options() };
        ensure_parts_are_whole("a", text.as_bytes(), part_bytes, &fasta);
    }

    #[test]
    fn parts_of_tables_are_the_file(
        header in prop_oneof![Just("id,text\n"), Just("\u{feff}text,id\r\n"), Just("\n\"id\",\"te\"\"xt\",text\n"), Just("text\n")],
        rows in "([a-c\"]{0,3}(,|\n|\r\n)|\"([a-c,\n\r]|\"\"){0,9}\"(,|\n|\r\n)|\r|\n){0,60}",
        part_bytes in 1_u64..120,
    ) {
        ensure_parts_are_whole("a.csv", format!("{header}{rows}").as_bytes(), part_bytes, &options());
    }

    #[test]
    fn parts_of_packed_lines_are_the_file(
        text in ndjson(),
        cuts in prop::collection::btree_set(1_usize..1500, 0..12),
        part_bytes in 1_u64..200,
    ) {
        let cuts = cuts.into_iter().filter(|&cut| cut < text.len());
        let ends: Vec<usize> = cuts.chain([text.len()]).collect();
        let starts = [0].into_iter().chain(ends.iter().copied());
        let pieces: Vec<&[u8]> = starts.zip(&ends).map(|(start, &end)| &text.as_bytes()[start..end]).collect();
        for (name, pack) in [("a.jsonl.gz", gzip as fn(&[u8]) -> Vec<u8>), ("a.jsonl.gz", bgzip), ("a.jsonl.zst", zstd)] {
            let packed: Vec<u8> = pieces.iter().flat_map(|piece| pack(piece)).collect();
            ensure_parts_are_whole(name, &packed, part_bytes, &options());
        }
    }
}

#[test]
fn files_are_cut_as_finely_as_asked() {
    let text = "{\"text\":\"0123456789\"}\n".repeat(100);
    let count = |name: &str, bytes: &[u8], part_bytes: u64| {
        ensure_parts_are_whole(name, bytes, part_bytes, &options())
    };
    assert_eq!(count("a.jsonl", text.as_bytes(), 220), 10);
    let pieces = |pack: fn(&[u8]) -> Vec<u8>| -> Vec<u8> {
        text.as_bytes().chunks(105).flat_map(pack).collect()
    };
    for (name, pack) in [
        ("a.jsonl.gz", gzip as fn(&[u8]) -> Vec<u8>),
        ("a.jsonl.gz", bgzip),
        ("a.jsonl.zst", zstd),
    ] {
        let packed = pieces(pack);
        let bytes = u64::try_from(packed.len()).unwrap();
        assert_eq!(count(name, &packed, bytes.div_ceil(5)), 5, "{name}");
    }
    let rows = format!("id,text\n{}", "a,\"b\nc\"\n".repeat(60));
    assert_eq!(count("a.csv", rows.as_bytes(), 122), 4);
}

#[test]
fn what_cannot_be_cut_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let why = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        let entry = FileEntry::named(path, "a").unwrap();
        let size = CutSize {
            part_bytes: 10,
            is_written: false,
        };
        cut_file(&entry, &options(), size).map_err(|uncut| uncut.map(|uncut| uncut.why))
    };
    let text = "{\"text\":\"0123456789\"}\n".repeat(100);
    let err = |why: &str| Err(Some(why.to_owned()));
    assert_eq!(
        why("a.jsonl.gz", &gzip(text.as_bytes())),
        err("one stream that cannot be cut")
    );
    assert_eq!(
        why("a.jsonl.zst", &zstd(text.as_bytes())),
        err("one frame that cannot be cut")
    );
    let twice = gzip(&gzip(text.as_bytes()));
    assert_eq!(why("a.jsonl.gz.gz", &twice), err("packed twice"));
    let array = format!("[{}]", text.trim_end().replace('\n', ","));
    assert_eq!(
        why("a.json", array.as_bytes()),
        err("a JSON array, which is not cut")
    );
    // One document, and a table whose last quote never ends, which reading reports.
    assert_eq!(why("a.txt", b"one text of some words"), Err(None));
    assert_eq!(why("a.csv", b"id,text\na,b\na,\"b\na,b\n"), Err(None));
    // A part of a frame is missing.
    let mut cut = zstd(text.as_bytes());
    cut.pop();
    assert_eq!(
        why("b.jsonl.zst", &cut),
        err("it cannot be cut (a frame is cut off)")
    );
}
