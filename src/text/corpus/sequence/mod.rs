//! Files that hold many documents, one file of code per format: tables (CSV, Parquet), JSON arrays, web archives.
//!
//! A reader yields records as they came. What to do with a record that has no text, which id a record without one gets,
//! and whether ids repeat is for the caller to decide.

mod csv;
mod http;
mod json_array;
#[cfg(feature = "parquet")]
mod parquet;
mod warc;

pub use csv::CsvRows;
pub use json_array::{ArrayRun, ArrayScanner, JsonArrayLines};
#[cfg(feature = "parquet")]
pub use parquet::{
    ColumnBatch, ColumnCursor, GroupRows, ParquetTable, RowGroupSize, SelectedColumns, guarded,
};
pub use warc::{PassedRecords, RawWarcRecords, WarcRecords};

/// One record of a file, as it came: its id and text are still to be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceRecord {
    /// The row, element or record, from 1.
    pub number: u64,
    /// The line where it starts, if the file is text.
    pub line: Option<u64>,
    /// Its id, if it has one.
    pub id: Option<String>,
    /// Its text, or why there is none.
    pub text: Result<String, RecordFault>,
}

/// Why a record, or all records of a file, have no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordFault {
    /// The field is there, but this record has no value in it.
    Null,
    /// The text field is missing.
    NoText {
        /// Fields that are there, at most [`MOST_NAMES`].
        fields: Vec<String>,
    },
    /// The text is not UTF-8.
    NotUtf8 {
        /// The place and the byte.
        what: String,
        /// The text.
        bytes: Vec<u8>,
    },
    /// The record is damaged or of the wrong type; what is wrong with it.
    Bad(String),
    /// The text has more bytes than a document may have.
    TooLarge,
}

/// How many field names a message lists.
pub const MOST_NAMES: usize = 20;

/// Reads the records of an input one after the other.
pub trait RecordSequence: Send {
    /// The next record, and `None` at the end. After an error, which names the place, the rest cannot be read.
    fn next_record(&mut self) -> Option<Result<SequenceRecord, String>>;

    /// How many records were passed over because they hold no text, such as images in a web archive.
    fn records_passed(&self) -> u64 {
        0
    }
}

/// Which fields hold the id and the text. A dot leads into a nested field (`meta.url`), unless a field has a name with
/// that very dot.
#[derive(Debug, Clone, Copy)]
pub struct FieldNames<'a> {
    /// The field with the id.
    pub id: &'a str,
    /// The field with the text.
    pub text: &'a str,
}

/// The text in `bytes`, if they are UTF-8.
fn checked_text(bytes: &[u8]) -> Result<String, RecordFault> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(not_utf8(bytes, &error)),
    }
}

/// Names the first byte that is not UTF-8.
fn not_utf8(bytes: &[u8], error: &std::str::Utf8Error) -> RecordFault {
    let at = error.valid_up_to();
    let what = match bytes.get(at) {
        Some(byte) => format!("byte 0x{byte:02x} at byte {at} of the text is not UTF-8"),
        None => "the text is not UTF-8".to_owned(),
    };
    RecordFault::NotUtf8 {
        what,
        bytes: bytes.to_vec(),
    }
}

/// The first names of a list, for a message.
fn first_names<S: AsRef<str>>(names: impl Iterator<Item = S>) -> Vec<String> {
    names
        .take(MOST_NAMES)
        .map(|name| name.as_ref().to_owned())
        .collect()
}

#[cfg(test)]
mod samples;
