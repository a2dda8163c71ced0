//! The kinds of files that documents are read from, each in a file of its own.
//!
//! To add one: a file with an implementation of [`InputFormat`], a variant of [`Records`], and a row
//! in [`FORMATS`]. A kind that is recognised only to be skipped, with advice how to convert it, is a row
//! of `skipped_kind`.

pub(super) mod fasta;
mod json;
mod lines;
mod ndjson;
#[cfg(feature = "parquet")]
mod parquet;
mod table;
mod text;
mod warc;

use super::{
    Options,
    chunk::{Chunk, ChunkIter, Chunks, Container},
    document_reader::{DocumentReader, Visit},
    part::FilePart,
    sequence::RecordFault,
    skipped_kind::extension,
    sniff::Sniffed,
    unpack::{Input, MOST_BYTES},
    walk::FileEntry,
};
use crate::base::{error::Result, parallel::Weighted};
use std::{fs::File, io, iter, path::Path, sync::Arc};

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
    /// An array of JSON objects.
    Json,
    /// Rows of columns that are separated by commas.
    Csv,
    /// Rows of columns that are separated by tabs.
    Tsv,
    /// Rows of a Parquet table.
    Parquet,
    /// Records of a web archive.
    Warc,
}

/// All formats. The first that recognises an input is taken.
const FORMATS: &[&dyn InputFormat] = &[
    #[cfg(feature = "parquet")]
    &parquet::Parquet,
    &warc::Warc,
    &json::JsonArray,
    &ndjson::Ndjson,
    &table::CSV,
    &table::TSV,
    &fasta::Fasta,
    &lines::TextLines,
    &text::Text,
];

impl Records {
    /// The formats as users name them.
    pub const NAMES: [(&str, Self); 9] = [
        ("text", Self::Text),
        ("ndjson", Self::Ndjson),
        ("json", Self::Json),
        ("csv", Self::Csv),
        ("tsv", Self::Tsv),
        ("parquet", Self::Parquet),
        ("warc", Self::Warc),
        ("fasta", Self::Fasta),
        ("lines", Self::Lines),
    ];

    /// What users and accounts call it.
    pub fn name(self) -> &'static str {
        let is_it = |(_, records): &&(&str, Self)| *records == self;
        Self::NAMES.iter().find(is_it).map_or("", |(name, _)| name)
    }

    /// Whether it is text, which may be in any encoding.
    pub(super) fn is_text(self) -> bool {
        !matches!(self, Self::Parquet | Self::Warc)
    }

    /// How files of this format are read.
    pub(super) fn format(self) -> &'static dyn InputFormat {
        let is_it = |format: &&dyn InputFormat| format.records() == self;
        FORMATS.iter().copied().find(is_it).unwrap_or(&text::Text)
    }

    /// What the name of a file says about its format, if anything.
    ///
    /// `name`: without the endings of what the file is packed in.
    pub(super) fn of_name(name: &Path) -> Option<Self> {
        let extension = extension(name)?;
        let has_it = |format: &&&dyn InputFormat| format.extensions().contains(&extension.as_str());
        FORMATS.iter().find(has_it).map(|format| format.records())
    }

    /// The format of an input, where the user did not say it. Only a format that recognises it is returned.
    pub(super) fn recognise(probe: &Probe<'_>) -> Option<Self> {
        let format = FORMATS.iter().find(|format| format.recognises(probe))?;
        Some(format.records())
    }
}

/// What is known about an input before its records are read.
pub(super) struct Probe<'a> {
    /// What the name of the file says.
    pub named: Option<Records>,
    /// The name of the file, without the endings of what it is packed in.
    pub name: &'a Path,
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

/// Where the records of a file are read from.
pub(super) struct FormatInput {
    /// The records, unpacked.
    pub input: Input,
    /// The file itself, if it is a regular one that is not packed: for formats that are not read from their beginning.
    #[cfg_attr(
        not(feature = "parquet"),
        expect(dead_code, reason = "only tables seek")
    )]
    pub disk: Option<File>,
}

/// The parts of a file, in order; each is a sequence of chunks that can be read on a thread of its own.
pub(super) type Parts = Box<dyn Iterator<Item = ChunkIter> + Send>;

/// A file that is read from its beginning to its end.
pub(super) fn one_part(
    chunks: impl Iterator<Item = Result<Weighted<Chunk>>> + Send + 'static,
) -> Parts {
    let chunks: ChunkIter = Box::new(chunks);
    Box::new(iter::once(chunks))
}

fn unreadable(error: &io::Error) -> RecordFault {
    RecordFault::Bad(error.to_string())
}

/// A file that is cut into pieces of whole lines.
fn lines_of(of: Arc<Container>, input: Input, max_document: u64) -> Parts {
    // A record of tokens or blots may well be longer than its document.
    let most_bytes = if of.header.is_some() {
        MOST_BYTES
    } else {
        max_document
    };
    one_part(Chunks::lines(of, input, most_bytes))
}

/// A kind of file that many documents are read from.
pub(super) trait InputFormat: Sync {
    /// Which one it is.
    fn records(&self) -> Records;

    /// The extensions, in lower case, of files that have this format as a rule.
    fn extensions(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether an input has this format, by its name and its first bytes.
    fn recognises(&self, probe: &Probe<'_>) -> bool;

    /// Opens a file. Where it is not changed, the file is cut into pieces of whole records, and
    /// [`read`](Self::read) takes them apart on the threads of the workers.
    fn open(
        &self,
        of: Arc<Container>,
        input: FormatInput,
        options: &Options,
    ) -> Result<Parts, RecordFault> {
        Ok(lines_of(of, input.input, options.max_document))
    }

    /// Opens a part of a file that was cut; see [`cut_file`](super::cut::cut_file).
    fn open_part(
        &self,
        of: Arc<Container>,
        entry: &FileEntry,
        part: &FilePart,
        options: &Options,
    ) -> Result<Parts, RecordFault> {
        let opened = part.open(entry).map_err(|error| unreadable(&error))?;
        let chunks = Chunks::lines(of, opened.input, options.max_document);
        Ok(one_part(chunks.starting_at_line(part.line)))
    }

    /// The bytes around the border of two records: the first one ends a record.
    fn border(&self) -> &'static [u8] {
        b"\n"
    }

    /// Visits the documents of a piece in order. Runs on the threads of the workers.
    fn read(&self, _: RecordPiece<'_>, _: &mut DocumentReader, _: &mut Visit<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::corpus::unpack::inner_name;

    #[test]
    fn every_format_has_a_row_and_a_name() {
        #[cfg(feature = "parquet")]
        assert_eq!(FORMATS.len(), Records::NAMES.len());
        for (name, records) in Records::NAMES {
            let is_there = cfg!(feature = "parquet") || records != Records::Parquet;
            assert!(!is_there || records.format().records() == records, "{name}");
        }
    }

    #[test]
    fn names_of_files_tell_their_format() {
        let of_name = |name: &str| Records::of_name(&inner_name(Path::new(name)));
        assert_eq!(of_name("a.jsonl.gz"), Some(Records::Ndjson));
        assert_eq!(of_name("A.NDJSON"), Some(Records::Ndjson));
        assert_eq!(of_name("a.txt.zst"), Some(Records::Text));
        assert_eq!(of_name("a.json"), None);
        assert_eq!(of_name("txt"), None);
    }
}
