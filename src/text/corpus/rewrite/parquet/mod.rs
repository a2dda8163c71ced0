//! Parquet tables: a row is a record.
//!
//! A column of a row group that does not change is copied as it is packed. Others are decoded and written again with the codec
//! that they had. A table that does not change at all keeps every byte.

mod arrow_schema;
mod columns;
mod output;

use super::{CopyError, NOTE_FIELD, PackedWriter, RecordFate, RecordFates};
use crate::{
    base::num::ToU64,
    text::{
        corpus::{
            Options,
            sequence::{FieldNames, ParquetTable, RecordFault, SelectedColumns, guarded},
        },
        stream::Span,
    },
};
use output::TableOutput;
use parquet::file::{metadata::ColumnChunkMetaData, writer::SerializedRowGroupWriter};
use std::{
    fs::File,
    io::{self, Seek, SeekFrom},
};

/// What becomes of a row.
enum RowFate {
    Keep,
    Drop,
    Change(Box<RowChange>),
}

/// How a row is changed.
struct RowChange {
    cuts: Vec<Span>,
    note: Option<String>,
}

impl RowFate {
    fn is_kept(&self) -> bool {
        !matches!(self, Self::Drop)
    }

    fn cuts(&self) -> &[Span] {
        match self {
            Self::Change(change) => &change.cuts,
            Self::Keep | Self::Drop => &[],
        }
    }

    fn note(&self) -> Option<&str> {
        match self {
            Self::Change(change) => change.note.as_deref(),
            Self::Keep | Self::Drop => None,
        }
    }
}

impl From<RecordFate<'_>> for RowFate {
    fn from(fate: RecordFate<'_>) -> Self {
        match fate {
            RecordFate::Keep => Self::Keep,
            RecordFate::Drop => Self::Drop,
            RecordFate::Change(change) => Self::Change(Box::new(RowChange {
                cuts: change.cuts.to_vec(),
                note: change.note.map(str::to_owned),
            })),
        }
    }
}

/// Copies a table. Memory: the fates of the rows of a row group, and the encoded pages of one of its columns.
pub fn copy(
    file: File,
    options: &Options,
    fates: &mut dyn RecordFates,
    out: PackedWriter<'_>,
) -> Result<(), CopyError> {
    let table = ParquetTable::open_with_statistics(file)?;
    let fields = FieldNames {
        id: &options.fields.id_field,
        text: &options.fields.text_field,
    };
    let columns = table
        .select(&fields, options.max_document)
        .map_err(|fault| CopyError::Input(message(fault, fields.text)))?;
    let copy = TableCopy {
        has_notes: fates.has_notes(),
        text: columns.text_column(),
        table,
        columns,
    };
    copy.ensure_text_stays()?;
    copy.run(fates, out)
}

fn message(fault: RecordFault, text: &str) -> String {
    match fault {
        RecordFault::NoText { fields } => {
            format!("there is no column {text:?}, but {}", fields.join(", "))
        }
        RecordFault::NotUtf8 { what, .. } | RecordFault::Bad(what) => what,
        RecordFault::Null => format!("the column {text:?} has no value"),
        RecordFault::TooLarge => "the table is too large".to_owned(),
    }
}

struct TableCopy {
    table: ParquetTable,
    columns: SelectedColumns,
    /// The column with the text.
    text: usize,
    has_notes: bool,
}

impl TableCopy {
    fn ensure_text_stays(&self) -> Result<(), CopyError> {
        if self.is_copied(self.text) {
            return Ok(());
        }
        Err(CopyError::Input(format!(
            "the text is in column {NOTE_FIELD}, which notes would replace; rename it"
        )))
    }

    /// Whether a column goes into the copy: an older column of notes does not.
    fn is_copied(&self, number: usize) -> bool {
        let schema = self.table.metadata().file_metadata().schema_descr();
        let column = schema.column(number);
        let first = column.path().parts().first();
        !self.has_notes || first.is_none_or(|first| first != NOTE_FIELD)
    }

    fn run(&self, fates: &mut dyn RecordFates, out: PackedWriter<'_>) -> Result<(), CopyError> {
        let mut out = Some(out);
        let mut output: Option<TableOutput<'_>> = None;
        let mut first_row = 1;
        for group in 0..self.table.metadata().num_row_groups() {
            let rows = self.fates_of_group(group, first_row, fates)?;
            first_row += rows.len().to_u64();
            let is_same = !self.has_notes && rows.iter().all(|row| matches!(row, RowFate::Keep));
            if is_same && output.is_none() {
                continue;
            }
            if let Some(out) = out.take() {
                // All groups before this one stay as they are.
                let mut started = TableOutput::start(self, out)?;
                (0..group).try_for_each(|before| self.copy_group(before, None, &mut started))?;
                output = Some(started);
            }
            if let Some(output) = &mut output {
                self.copy_group(group, Some(&rows), output)?;
            }
        }
        match (output, out) {
            (Some(output), _) => output.finish(),
            (None, Some(out)) if self.has_notes => TableOutput::start(self, out)?.finish(),
            (None, Some(out)) => self.copy_file(out),
            (None, None) => Ok(()),
        }
    }

    fn fates_of_group(
        &self,
        group: usize,
        first_row: u64,
        fates: &mut dyn RecordFates,
    ) -> Result<Vec<RowFate>, CopyError> {
        let rows = self.table.metadata().row_group(group).num_rows();
        let rows = u64::try_from(rows).unwrap_or(0);
        let mut found = Vec::new();
        for row in first_row..first_row + rows {
            let fate = RowFate::from(fates.fate(row)?);
            if fate.note().is_some() && !self.has_notes {
                let what = format!("row {row}: a note for a table without a column for notes");
                return Err(CopyError::Input(what));
            }
            found.push(fate);
        }
        Ok(found)
    }

    fn copy_file(&self, mut out: PackedWriter<'_>) -> Result<(), CopyError> {
        let mut file = self.table.file();
        file.seek(SeekFrom::Start(0))
            .map_err(|error| CopyError::reading(&error))?;
        io::copy(&mut file, &mut out).map_err(CopyError::Output)?;
        out.finish().map_err(CopyError::Output)
    }

    /// Copies a row group, unless no row of it is left. Without fates, all rows stay as they are.
    fn copy_group(
        &self,
        group: usize,
        rows: Option<&[RowFate]>,
        output: &mut TableOutput<'_>,
    ) -> Result<(), CopyError> {
        let all = self.table.metadata().row_group(group).num_rows();
        let is_empty = rows.map_or(all == 0, |rows| !rows.iter().any(RowFate::is_kept));
        if is_empty {
            return Ok(());
        }
        output.write_group(|writer| self.write_group(group, rows.unwrap_or(&[]), writer))
    }

    fn write_group(
        &self,
        group: usize,
        rows: &[RowFate],
        writer: &mut SerializedRowGroupWriter<'_, output::WatchedOutput<'_>>,
    ) -> Result<(), String> {
        let has_all = rows.iter().all(RowFate::is_kept);
        let has_cuts = rows.iter().any(|row| !row.cuts().is_empty());
        let columns = self.table.metadata().row_group(group).num_columns();
        for number in (0..columns).filter(|&number| self.is_copied(number)) {
            let is_same = has_all && !(has_cuts && number == self.text);
            if is_same {
                self.append_column(group, number, writer)?;
            } else {
                let place = |error| {
                    let name = &self.table.columns()[number];
                    format!("row group {group}, column {name}: {error}")
                };
                let cuts_text = number == self.text;
                columns::copy(&self.columns, (group, number), rows, cuts_text, writer)
                    .map_err(place)?;
            }
        }
        if self.has_notes {
            columns::write_notes(rows, writer)?;
        }
        Ok(())
    }

    /// Copies the pages of a column as they are.
    fn append_column(
        &self,
        group: usize,
        number: usize,
        writer: &mut SerializedRowGroupWriter<'_, output::WatchedOutput<'_>>,
    ) -> Result<(), String> {
        let bytes = self.columns.column_bytes(group, number)?;
        let group = self.table.metadata().row_group(group);
        let metadata = group.column(number);
        // Some writers have 0 for a dictionary that there is not.
        let dictionary = metadata
            .dictionary_page_offset()
            .filter(|&at| u64::try_from(at) == Ok(bytes.start) && at < metadata.data_page_offset());
        let metadata: ColumnChunkMetaData = guarded(|| {
            let builder = metadata.clone().into_builder();
            builder.set_dictionary_page_offset(dictionary).build()
        })?;
        let rows = u64::try_from(group.num_rows()).unwrap_or(0);
        guarded(|| {
            writer.append_column(
                self.table.file(),
                parquet::column::writer::ColumnCloseResult {
                    bytes_written: bytes.end - bytes.start,
                    rows_written: rows,
                    metadata,
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                },
            )
        })
    }
}

#[cfg(test)]
mod tests;
