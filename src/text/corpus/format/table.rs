//! CSV and TSV: a document per row, with the names of the columns in the first one.

use super::{Container, FormatInput, InputFormat, Options, Parts, Probe, Records, one_part};
use crate::text::corpus::{
    rows::SequenceChunks,
    sequence::{CsvRows, FieldNames, RecordFault},
};
use std::sync::Arc;

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
}
