//! The XML of PAN (<https://pan.webis.de>), which evaluations of plagiarism detection read: a
//! document for each pair.

use super::Sink;
use crate::{
    base::{
        codec::is_unsafe,
        error::{Error, Result},
        files::durable,
    },
    report::{
        records::{AlignedPair, PassageRecord},
        xml::xml_text,
    },
};
use std::{
    collections::HashMap,
    ffi::OsStr,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

/// Writes the passages of `a` that are from `b`. Their offsets must count characters.
pub struct PanXml;

impl Sink<AlignedPair> for PanXml {
    /// The evaluations know documents by the names of their files; the ids tell apart those of one
    /// name.
    fn put_record(&self, pair: &AlignedPair, out: &mut Vec<u8>) -> Result<()> {
        let [a_id, b_id] = [&pair.a, &pair.b].map(|id| xml_text(id));
        let [a_name, b_name] = [&pair.a, &pair.b].map(|id| xml_text(file_name(id)));
        let head = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<document reference=\"{a_name}\" id=\"{a_id}\">\n"
        );
        out.extend_from_slice(head.as_bytes());
        let source = format!("source_reference=\"{b_name}\" source_id=\"{b_id}\"");
        pair.passages
            .iter()
            .for_each(|passage| put_feature(passage, &source, out));
        out.extend_from_slice(b"</document>\n");
        Ok(())
    }
}

fn put_feature(passage: &PassageRecord, source: &str, out: &mut Vec<u8>) {
    let [a_start, a_end] = passage.a;
    let [b_start, b_end] = passage.b;
    // Writing to a vector cannot fail.
    let _ = writeln!(
        out,
        "<feature name=\"detected-plagiarism\" this_offset=\"{a_start}\" this_length=\"{}\" {source} source_offset=\"{b_start}\" source_length=\"{}\" />",
        a_end - a_start,
        b_end - b_start
    );
}

fn file_name(path: &str) -> &str {
    Path::new(path)
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or(path)
}

/// A directory with a file for each pair.
pub struct PanXmlDirectory {
    path: PathBuf,
    names: PairFileNames,
}

impl PanXmlDirectory {
    /// Makes the directory if there is none.
    pub fn create(path: &Path) -> Result<Self> {
        durable::create_dir_all(path)?;
        Ok(Self {
            path: path.to_owned(),
            names: PairFileNames::default(),
        })
    }

    /// Writes the file of a pair.
    pub fn write(&mut self, pair: &AlignedPair) -> Result<()> {
        let name = self.names.next(&pair.a, &pair.b);
        let mut bytes = Vec::new();
        PanXml.put_record(pair, &mut bytes)?;
        write_file(&self.path.join(format!("{name}.xml")), &bytes)
    }

    /// Returns when all files are on disk.
    pub fn finish(self) -> Result<()> {
        durable::sync_tree(&self.path)
    }
}

/// Writes under a temporary name first, so that a reader never sees half a file. There may be many
/// files: they are synced together at the end.
fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension("xml.tmp");
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        Error::io(path.display(), error)
    })
}

/// Chooses names of files, none of them twice.
///
/// A pair is named after the files of its documents, without directories, as the evaluations
/// expect. Further pairs of the same name get `~2`, `~3` and so on, in input order. Memory: each
/// name once.
#[derive(Default)]
struct PairFileNames(HashMap<String, u32>);

impl PairFileNames {
    fn next(&mut self, a: &str, b: &str) -> String {
        let name = format!("{}-{}", safe_name(file_stem(a)), safe_name(file_stem(b)));
        let count = self.0.entry(name.clone()).or_insert(0);
        *count += 1;
        // `safe_name` escapes every other `~`.
        if *count == 1 {
            name
        } else {
            format!("{name}~{count}")
        }
    }
}

fn file_stem(path: &str) -> &str {
    Path::new(path)
        .file_stem()
        .and_then(OsStr::to_str)
        .unwrap_or("-")
}

/// The longest name in bytes: two of them, a number and an extension must not be too long for a
/// file system.
const MAX_NAME_BYTES: usize = 100;

/// Part of a file's name: no hidden file, nothing that a terminal obeys, and not too long.
fn safe_name(stem: &str) -> String {
    let mut name = String::new();
    for (place, c) in stem.char_indices() {
        let start = name.len();
        if is_unsafe(c) || matches!(c, '/' | '%' | '~') || (place == 0 && c == '.') {
            c.encode_utf8(&mut [0; 4])
                .bytes()
                .for_each(|byte| name.push_str(&format!("%{byte:02X}")));
        } else {
            name.push(c);
        }
        if name.len() > MAX_NAME_BYTES {
            name.truncate(start);
            break;
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_are_escaped() {
        let pair = AlignedPair {
            a: "x/a\"<&>\u{7}".to_owned(),
            b: "b.txt".to_owned(),
            passages: vec![PassageRecord {
                a: [1, 4],
                b: [0, 9],
                tokens: 2,
                score: 2.0 / 3.0,
                p_value: None,
                kind: "edited",
                reverse: false,
                excerpts: Default::default(),
            }],
            ..AlignedPair::default()
        };
        let mut out = Vec::new();
        PanXml.put_record(&pair, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<document reference=\"a&quot;&lt;&amp;&gt;\u{fffd}\" id=\"x/a&quot;&lt;&amp;&gt;\u{fffd}\">\n\
             <feature name=\"detected-plagiarism\" this_offset=\"1\" this_length=\"3\" source_reference=\"b.txt\" source_id=\"b.txt\" source_offset=\"0\" source_length=\"9\" />\n\
             </document>\n"
        );
    }

    #[test]
    fn no_name_is_used_twice_or_leads_elsewhere() {
        let mut names = PairFileNames::default();
        let long = "x".repeat(300);
        for (a, b, expected) in [
            ("susp/one.txt", "src/two.txt", "one-two".to_owned()),
            ("ann/essay.txt", "ben/essay.txt", "essay-essay".to_owned()),
            ("ann/essay.txt", "cid/essay.txt", "essay-essay~2".to_owned()),
            ("ann/essay.txt", "essay~2.txt", "essay-essay%7E2".to_owned()),
            ("ben/essay.txt", "cid/essay.txt", "essay-essay~3".to_owned()),
            ("..", "../../x.txt", "--x".to_owned()),
            (
                "a/.b\u{1b}\u{202e}%\u{9b}",
                "\n",
                "%2Eb%1B%E2%80%AE%25%C2%9B-%0A".to_owned(),
            ),
            (&long, "y", format!("{}-y", "x".repeat(100))),
        ] {
            assert_eq!(names.next(a, b), expected);
        }
    }
}
