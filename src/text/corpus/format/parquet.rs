//! Parquet: a document per row.

use super::{
    Container, FileEntry, FilePart, FormatInput, InputFormat, Options, Parts, Probe, Records,
    unreadable,
};
use crate::text::corpus::{
    archive::most_member_bytes,
    chunk::ChunkIter,
    rows::SequenceChunks,
    sequence::{FieldNames, ParquetTable, RecordFault, SelectedColumns},
    spool::Spooled,
};
use std::{fs::File, io, ops::Range, sync::Arc};

/// A row is one document.
pub(super) struct Parquet;

impl InputFormat for Parquet {
    fn records(&self) -> Records {
        Records::Parquet
    }

    fn recognises(&self, probe: &Probe<'_>) -> bool {
        probe.sniffed.head.starts_with(b"PAR1")
    }

    /// Each row group is a part, so that several are read at once.
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
        let file = table_file(input, options)?;
        let table = ParquetTable::open(file).map_err(RecordFault::Bad)?;
        let columns = table.select(&fields, options.max_document)?;
        let groups = columns.row_groups().len();
        Ok(group_parts(of, columns, 0..groups))
    }

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
        let file = entry.open().map_err(|error| unreadable(&error))?;
        let table = ParquetTable::open(file).map_err(RecordFault::Bad)?;
        let columns = table.select(&fields, options.max_document)?;
        let [start, end] = part.row_groups.unwrap_or_default();
        Ok(group_parts(of, columns, start..end))
    }
}

fn group_parts(of: Arc<Container>, columns: SelectedColumns, groups: Range<usize>) -> Parts {
    Box::new(groups.map(move |group| {
        let rows = columns.group_rows(group);
        Box::new(SequenceChunks::new(of.clone(), rows)) as ChunkIter
    }))
}

/// A table is read from its end: one from a pipe, or out of an archive, goes into a temporary file first.
fn table_file(input: FormatInput, options: &Options) -> Result<File, RecordFault> {
    let failed = |error: io::Error| RecordFault::Bad(error.to_string());
    if let Some(file) = input.disk {
        return Ok(file);
    }
    let most_bytes = most_member_bytes(options.max_document);
    Spooled::read(input.input, most_bytes)
        .map_err(failed)?
        .ok_or(RecordFault::TooLarge)?
        .into_file()
        .map_err(failed)
}
