//! Writes a file of documents again, with some records left out or changed. Of all other records every byte is kept.
//!
//! Records are counted as [`InputDocument::record`](super::InputDocument::record) counts them, so that what was decided
//! about a document when it was read can be carried out here. To add a format: a file with a type that implements
//! `RecordCopier`, and an arm of `copier`.

mod csv;
mod document;
mod fasta;
mod json_array;
mod json_record;
mod lines;
mod pack;
#[cfg(feature = "parquet")]
mod parquet;
mod warc;

pub use pack::{PackedWriter, RawOutput};

use super::{
    Options, Records,
    account::SkippedFile,
    opener::{Candidate, Opener, Recognised},
    skipped_kind::BOM,
    sniff::Sniffed,
    unpack::{Input, Packing, inner_name, is_packed_twice},
    walk::FileEntry,
};
#[cfg(feature = "parquet")]
use super::{archive::most_member_bytes, spool::Spooled};
use crate::{
    base::error::{Error, Place, Result},
    text::stream::Span,
};
use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use std::{
    io::{self, Write},
    sync::Arc,
};

/// What becomes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordFate<'f> {
    /// It stays, byte for byte.
    Keep,
    /// It is left out.
    Drop,
    /// It stays, but not as it was.
    Change(RecordChange<'f>),
}

/// How a record is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordChange<'f> {
    /// The bytes of its text that are cut out, in rising order. They start and end between characters.
    pub cuts: &'f [Span],
    /// The value of its new field `dedup`, as JSON.
    pub note: Option<&'f str>,
}

/// The field that says what was found out about a record.
pub const NOTE_FIELD: &str = "dedup";

/// Says what becomes of each record.
pub trait RecordFates {
    /// The fate of a record; called with rising numbers.
    fn fate(&mut self, record: u64) -> Result<RecordFate<'_>>;

    /// Whether records get the field `dedup`. A table then has a column for it; where a record has no note, it is empty.
    fn has_notes(&self) -> bool {
        false
    }
}

/// How a file holds its documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardForm {
    /// What it is packed in.
    pub packing: Packing,
    /// What it holds.
    pub content: ShardContent,
}

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardContent {
    /// One document. `is_text`: its bytes are the text, nothing was extracted from them.
    Document {
        /// Not a document of an office program, a web page or the like.
        is_text: bool,
    },
    /// Many documents.
    Records {
        /// The format of the records.
        records: Records,
        /// They are UTF-8, so that offsets in the text of a record are those of the file.
        is_utf8: bool,
    },
}

impl ShardForm {
    /// Finds out what a file holds, in the way in which it is read. The error says why it cannot be written again; it is none if the file
    /// cannot be read either, which reading it reports.
    pub fn of(entry: &FileEntry, options: &Options) -> Result<Self, Option<SkippedFile>> {
        if let Some(part) = &entry.part {
            // Only such text is cut and written again.
            return Ok(Self {
                packing: Packing::Plain,
                content: ShardContent::Records {
                    records: part.records,
                    is_utf8: true,
                },
            });
        }
        let opener = Arc::new(Opener::new(options.clone()).map_err(|_| None)?);
        let candidate = Candidate {
            id: entry.id.clone(),
            file: entry.name(),
            name: inner_name(&entry.path),
            sniffed: Sniffed::open(entry, options).map_err(|_| None)?,
            disk: None,
            is_regular: entry.is_regular,
            is_named: entry.is_named,
            depth: 0,
        };
        let packing = candidate.sniffed.packing;
        let content = match opener.recognise(&candidate) {
            Recognised::Skipped(_) => return Err(None),
            _ if is_packed_twice(entry).map_err(|_| None)? => {
                return Err(Some(candidate.damaged("packed twice; unpack it once")));
            }
            Recognised::Converted => ShardContent::Document { is_text: false },
            Recognised::Text => ShardContent::Document { is_text: true },
            Recognised::Stream => {
                return Err(Some(candidate.damaged(
                    "a stream of tokens or blots, not of documents; give the documents",
                )));
            }
            Recognised::Archive(format) => {
                return Err(Some(candidate.damaged(&format!(
                    "a {} archive, which cannot be written again; unpack it, and give the directory",
                    format.name()
                ))));
            }
            Recognised::Records { encoding, .. } if encoding.is_some_and(is_utf16) => {
                return Err(Some(candidate.damaged(
                    "records in UTF-16, which cannot be written again; convert it to UTF-8 with iconv",
                )));
            }
            // In some of these a byte of a character looks like a backslash or a bracket.
            Recognised::Records {
                records: Records::Json,
                encoding: Some(encoding),
            } if !encoding.is_single_byte() => {
                return Err(Some(candidate.damaged(&format!(
                    "a JSON array in {}, which cannot be written again; convert it to UTF-8 with iconv",
                    encoding.name()
                ))));
            }
            Recognised::Records { records, encoding } => ShardContent::Records {
                records,
                is_utf8: encoding.is_none(),
            },
        };
        Ok(Self { packing, content })
    }

    /// Whether passages can be cut out of its documents.
    pub fn can_cut(self) -> bool {
        match self.content {
            ShardContent::Document { is_text } => is_text && self.packing == Packing::Plain,
            ShardContent::Records { records, is_utf8 } => {
                is_utf8
                    && match records {
                        Records::Ndjson
                        | Records::Lines
                        | Records::Json
                        | Records::Csv
                        | Records::Tsv
                        | Records::Parquet => true,
                        Records::Text | Records::Fasta | Records::Warc => false,
                    }
            }
        }
    }

    /// Whether its records have fields, so that one can be added.
    pub fn has_fields(self) -> bool {
        match self.content {
            ShardContent::Document { .. } => false,
            ShardContent::Records { records, .. } => match records {
                Records::Ndjson
                | Records::Json
                | Records::Csv
                | Records::Tsv
                | Records::Parquet => true,
                Records::Text | Records::Lines | Records::Fasta | Records::Warc => false,
            },
        }
    }
}

fn is_utf16(encoding: &'static Encoding) -> bool {
    encoding == UTF_16LE || encoding == UTF_16BE
}

/// Where the records of an input begin: at the beginning of a file, or where a part of it does.
#[derive(Debug)]
struct CopyStart {
    /// The line of the first record.
    line: u64,
    /// The number of the first record.
    record: u64,
    /// The header of the table, if it comes before the part. It is not written again.
    header: Option<Vec<u8>>,
}

impl Default for CopyStart {
    fn default() -> Self {
        Self {
            line: 1,
            record: 1,
            header: None,
        }
    }
}

/// Copies the records of one format.
trait RecordCopier {
    /// Copies all records, each as its fate says. `input` is unpacked. Formats of which no part is written begin at the beginning.
    fn copy(
        &self,
        input: Input,
        start: CopyStart,
        fates: &mut dyn RecordFates,
        out: PackedWriter<'_>,
    ) -> Result<(), CopyError>;
}

/// Why a file could not be copied.
#[derive(Debug)]
enum CopyError {
    /// The input cannot be read, or is not what it was.
    Input(String),
    /// The output cannot be written.
    Output(io::Error),
    /// The fate of a record is not known.
    Fate(Error),
}

impl From<Error> for CopyError {
    fn from(error: Error) -> Self {
        Self::Fate(error)
    }
}

/// What is wrong with the input.
impl From<String> for CopyError {
    fn from(what: String) -> Self {
        Self::Input(what)
    }
}

impl CopyError {
    fn reading(error: &io::Error) -> Self {
        Self::Input(error.to_string())
    }

    fn of(self, file: &FileEntry) -> Error {
        match self {
            Self::Input(what) => Error::damaged(Place::file(file.name()), what),
            Self::Output(error) => Error::output(error),
            Self::Fate(error) => error,
        }
    }
}

/// Writes a file again, or a part of it. A file that is one document is its record 0.
///
/// Memory: the largest record, a row group of a Parquet file, or a document that is cut.
pub fn rewrite(
    file: &FileEntry,
    form: ShardForm,
    options: &Options,
    fates: &mut dyn RecordFates,
    out: RawOutput<'_>,
) -> Result<()> {
    let ShardContent::Records { records, .. } = form.content else {
        return document::copy(file, fates, out).map_err(|error| error.of(file));
    };
    let mut out = PackedWriter::new(out, form.packing).map_err(Error::output)?;
    if let (Some(part), Some(copier)) = (&file.part, copier(records, options)) {
        let failed = |error| Error::io(file.name(), error);
        let opened = part.open(file).map_err(failed)?;
        if opened.has_bom {
            out.write_all(BOM).map_err(Error::output)?;
        }
        let start = CopyStart {
            line: part.line,
            record: part.numbers[0],
            header: opened.header,
        };
        return copier
            .copy(opened.input, start, fates, out)
            .map_err(|error| error.of(file));
    }
    let sniffed = Sniffed::open(file, options).map_err(|error| Error::io(file.name(), error))?;
    let Some(copier) = copier(records, options) else {
        return copy_table(file, sniffed, options, fates, out).map_err(|error| error.of(file));
    };
    if sniffed.has_bom {
        out.write_all(BOM).map_err(Error::output)?;
    }
    copier
        .copy(sniffed.input, CopyStart::default(), fates, out)
        .map_err(|error| error.of(file))
}

/// A table is read from its end: one that is packed goes into a temporary file first.
#[cfg(feature = "parquet")]
fn copy_table(
    file: &FileEntry,
    sniffed: Sniffed,
    options: &Options,
    fates: &mut dyn RecordFates,
    out: PackedWriter<'_>,
) -> Result<(), CopyError> {
    let table = if sniffed.packing == Packing::Plain && file.is_regular {
        file.open()
    } else {
        let most_bytes = most_member_bytes(options.max_document);
        let spooled = Spooled::read(sniffed.input, most_bytes);
        spooled
            .map_err(|error| CopyError::reading(&error))?
            .ok_or_else(|| format!("the table has more than {most_bytes} bytes; unpack it"))?
            .into_file()
    };
    let table = table.map_err(|error| CopyError::reading(&error))?;
    parquet::copy(table, options, fates, out)
}

#[cfg(not(feature = "parquet"))]
fn copy_table(
    _: &FileEntry,
    _: Sniffed,
    _: &Options,
    _: &mut dyn RecordFates,
    _: PackedWriter<'_>,
) -> Result<(), CopyError> {
    Err(CopyError::Input(
        "a Parquet file, for which this program was not built; build it with the feature parquet"
            .to_owned(),
    ))
}

/// How the records of a format are copied; none for tables of Parquet, which are not read as a stream.
fn copier(records: Records, options: &Options) -> Option<Box<dyn RecordCopier>> {
    let fields = options.fields.clone();
    let table = |delimiter| csv::CsvCopier {
        delimiter,
        text_column: options.fields.text_field.clone(),
    };
    Some(match records {
        Records::Parquet => return None,
        Records::Ndjson => Box::new(lines::Lines {
            fields: Some(fields),
        }),
        Records::Lines | Records::Text => Box::new(lines::Lines { fields: None }),
        Records::Json => Box::new(json_array::ArrayCopier { fields }),
        Records::Csv => Box::new(table(b',')),
        Records::Tsv => Box::new(table(b'\t')),
        Records::Fasta => Box::new(fasta::FastaCopier),
        Records::Warc => Box::new(warc::WarcCopier),
    })
}

/// Whether a record stays, in a format in which records cannot be changed.
fn stays_whole(fate: RecordFate<'_>, what: &str) -> Result<bool, CopyError> {
    match fate {
        RecordFate::Keep => Ok(true),
        RecordFate::Drop => Ok(false),
        RecordFate::Change(change) if change == RecordChange::default() => Ok(true),
        RecordFate::Change(_) => Err(CopyError::Input(format!(
            "{what} cannot be changed, only kept or left out"
        ))),
    }
}

#[cfg(test)]
mod tests;
