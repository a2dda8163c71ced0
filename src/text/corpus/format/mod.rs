//! The kinds of files that documents are read from, each in a file of its own.
//!
//! To add one: a file with an implementation of [`InputFormat`], a variant of [`Records`], and a row
//! in [`FORMATS`]. A kind that is recognised only to be skipped, with advice how to convert it, is a row
//! of `skipped_kind`.

pub(super) mod fasta;
mod lines;
mod ndjson;
mod text;

use super::{
    Options,
    chunk::Container,
    document_reader::{DocumentReader, Visit},
    skipped_kind::{extension, inner_name},
    sniff::Sniffed,
};
use std::path::Path;

/// The name of an input format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Records {
    /// A file is one document.
    Text,
    /// A line is one document, as JSON.
    Ndjson,
    /// A line is one document, as it is; the id is the file and the line.
    Lines,
    /// Sequences, each after a line that starts with `>`.
    Fasta,
}

/// All formats. The first that recognises an input is taken.
const FORMATS: [&dyn InputFormat; 4] = [
    &ndjson::Ndjson,
    &fasta::Fasta,
    &lines::TextLines,
    &text::Text,
];

impl Records {
    /// The formats as users name them.
    pub const NAMES: [(&str, Self); 4] = [
        ("text", Self::Text),
        ("ndjson", Self::Ndjson),
        ("lines", Self::Lines),
        ("fasta", Self::Fasta),
    ];

    /// How files of this format are read.
    pub(super) fn format(self) -> &'static dyn InputFormat {
        let is_it = |format: &&dyn InputFormat| format.records() == self;
        FORMATS.into_iter().find(is_it).unwrap_or(&text::Text)
    }

    /// What the name of a file says about its format, if anything.
    pub(super) fn of_name(path: &Path) -> Option<Self> {
        let extension = extension(inner_name(path))?;
        let has_it = |format: &&dyn InputFormat| format.extensions().contains(&extension.as_str());
        let format = FORMATS.into_iter().find(has_it)?;
        Some(format.records())
    }

    /// The format of an input, where the user did not say it. Only a format that recognises it is returned.
    pub(super) fn recognise(probe: &Probe<'_>) -> Option<Self> {
        let format = FORMATS
            .into_iter()
            .find(|format| format.recognises(probe))?;
        Some(format.records())
    }
}

/// What is known about an input before its records are read.
pub(super) struct Probe<'a> {
    /// What the name of the file says.
    pub named: Option<Records>,
    /// The beginning of the input, unpacked.
    pub sniffed: &'a Sniffed,
    /// Not a pipe or a terminal.
    pub is_file: bool,
    /// The options of the corpus.
    pub options: &'a Options,
}

/// Whole records of a file, read into memory.
pub(super) struct RecordPiece<'a> {
    /// The file.
    pub container: &'a Container,
    /// The number of the first line.
    pub first_line: u64,
    /// The records.
    pub bytes: Vec<u8>,
}

/// A kind of file that documents are read from.
pub(super) trait InputFormat: Sync {
    /// Which one it is.
    fn records(&self) -> Records;

    /// The extensions, in lower case, of files that have this format as a rule.
    fn extensions(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether an input has this format, by its name and its first bytes.
    fn recognises(&self, probe: &Probe<'_>) -> bool;

    /// The bytes around the border of two records: the first one ends a record.
    fn border(&self) -> &'static [u8] {
        b"\n"
    }

    /// Visits the documents of a piece in order. Runs on the threads of the workers.
    fn read(&self, piece: RecordPiece<'_>, reader: &mut DocumentReader, visit: &mut Visit<'_>);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_a_row_and_a_name() {
        assert_eq!(FORMATS.len(), Records::NAMES.len());
        for (name, records) in Records::NAMES {
            assert_eq!(records.format().records(), records, "{name}");
        }
    }

    #[test]
    fn names_of_files_tell_their_format() {
        let of_name = |name: &str| Records::of_name(Path::new(name));
        assert_eq!(of_name("a.jsonl.gz"), Some(Records::Ndjson));
        assert_eq!(of_name("A.NDJSON"), Some(Records::Ndjson));
        assert_eq!(of_name("a.txt.zst"), Some(Records::Text));
        assert_eq!(of_name("a.json"), None);
        assert_eq!(of_name("txt"), None);
    }
}
