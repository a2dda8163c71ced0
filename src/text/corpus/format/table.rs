//! CSV and TSV: a document per row, with the names of the columns in the first one.

use super::{
    Container, FileEntry, FilePart, FormatInput, InputFormat, Options, Parts, Probe, Records,
    one_part, unreadable,
};
use crate::text::corpus::{
    rows::SequenceChunks,
    sequence::{CsvRows, FieldNames, RecordFault},
};
use std::{
    io::{Cursor, Read},
    sync::Arc,
};

/// A row is one document.
pub(super) struct Table {
    records: Records,
    extensions: &'static [&'static str],
    delimiter: u8,
}

/// Columns are separated by commas.
pub(super) const CSV: Table = Table {
    records: Records::Csv,
    extensions: &["csv"],
    delimiter: b',',
};

/// Columns are separated by tabs.
pub(super) const TSV: Table = Table {
    records: Records::Tsv,
    extensions: &["tsv"],
    delimiter: b'\t',
};

impl InputFormat for Table {
    fn records(&self) -> Records {
        self.records
    }

    fn extensions(&self) -> &'static [&'static str] {
        self.extensions
    }

    fn recognises(&self, probe: &Probe<'_>) -> bool {
        probe.named == Some(self.records)
    }

    fn open(
        &self,
        of: Arc<Container>,
        input: FormatInput,
        options: &Options,
    ) -> Result<Parts, RecordFault> {
        let fields = FieldNames {
            id: &options.fields.id_field,
            text: &options.fields.text_field,
        };
        let rows = CsvRows::open(input.input, self.delimiter, &fields, options.max_document)?;
        Ok(one_part(SequenceChunks::new(of, rows)))
    }

    /// Each part is read as a table of its own, with the header of the file.
    fn open_part(
        &self,
        of: Arc<Container>,
        entry: &FileEntry,
        part: &FilePart,
        options: &Options,
    ) -> Result<Parts, RecordFault> {
        let fields = FieldNames {
            id: &options.fields.id_field,
            text: &options.fields.text_field,
        };
        let opened = part.open(entry).map_err(|error| unreadable(&error))?;
        let rows = match opened.header {
            None => CsvRows::open(opened.input, self.delimiter, &fields, options.max_document)?,
            Some(header) => {
                let header = one_line_end(header);
                let table = Cursor::new(header).chain(opened.input);
                CsvRows::open(table, self.delimiter, &fields, options.max_document)?
                    .starting_at_row(part.line, part.numbers[0])
            }
        };
        Ok(one_part(SequenceChunks::new(of, rows)))
    }
}

/// A header with one line feed behind it, so that reading it ends before the line of the first row.
fn one_line_end(mut header: Vec<u8>) -> Vec<u8> {
    while matches!(header.last(), Some(b'\r' | b'\n')) {
        header.pop();
    }
    header.push(b'\n');
    header
}
