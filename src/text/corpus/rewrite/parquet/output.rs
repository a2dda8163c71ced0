//! The table that is written: its schema, its properties, and whether an error is one of the output.

use super::{CopyError, NOTE_FIELD, PackedWriter, TableCopy, arrow_schema};
use crate::text::corpus::sequence::guarded;
use parquet::{
    basic::{ConvertedType, Encoding, LogicalType, Repetition, Type as PhysicalType},
    errors::ParquetError,
    file::{
        metadata::{ColumnChunkMetaData, KeyValue, ParquetMetaData, SortingColumn},
        properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion},
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::types::{Type, TypePtr},
};
use std::{
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
};

/// What pyarrow remembers of a table's types.
const ARROW_SCHEMA: &str = "ARROW:schema";

/// A table that is being written.
pub struct TableOutput<'w> {
    writer: SerializedFileWriter<WatchedOutput<'w>>,
    failure: Failure,
}

/// The first error of an output.
type Failure = Arc<Mutex<Option<io::Error>>>;

/// An output that remembers its error: the parquet crate does not say which side an error is of.
pub struct WatchedOutput<'w> {
    out: PackedWriter<'w>,
    failure: Failure,
}

impl WatchedOutput<'_> {
    fn watch<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
            kind.into()
        })
    }
}

impl Write for WatchedOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.out.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => return self.watch(written),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.watch(flushed)
    }
}

impl<'w> TableOutput<'w> {
    pub fn start(copy: &TableCopy, out: PackedWriter<'w>) -> Result<Self, CopyError> {
        let metadata = copy.table.metadata();
        let failure = Failure::default();
        let out = WatchedOutput {
            out,
            failure: Arc::clone(&failure),
        };
        let started = guarded(|| {
            let schema = schema(metadata, copy.has_notes)?;
            let properties = Arc::new(properties(copy));
            SerializedFileWriter::new(out, schema, properties)
        });
        let writer = started.map_err(|what| error_of(&failure, what))?;
        Ok(Self { writer, failure })
    }

    /// Writes a row group with all of its columns.
    pub fn write_group(
        &mut self,
        write: impl FnOnce(&mut SerializedRowGroupWriter<'_, WatchedOutput<'w>>) -> Result<(), String>,
    ) -> Result<(), CopyError> {
        let writer = &mut self.writer;
        let written = guarded(|| writer.next_row_group()).and_then(|mut group| {
            write(&mut group)?;
            guarded(|| group.close()).map(drop)
        });
        written.map_err(|what| error_of(&self.failure, what))
    }

    pub fn finish(self) -> Result<(), CopyError> {
        let finished = guarded(|| self.writer.into_inner());
        let watched = finished.map_err(|what| error_of(&self.failure, what))?;
        watched.out.finish().map_err(CopyError::Output)
    }
}

fn error_of(failure: &Failure, what: String) -> CopyError {
    let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
    failure
        .take()
        .map_or(CopyError::Input(what), CopyError::Output)
}

/// The schema, with a column for notes as the last one if there are any.
fn schema(metadata: &ParquetMetaData, has_notes: bool) -> Result<TypePtr, ParquetError> {
    let root = metadata.file_metadata().schema_descr().root_schema_ptr();
    if !has_notes {
        return Ok(root);
    }
    let note = Type::primitive_type_builder(NOTE_FIELD, PhysicalType::BYTE_ARRAY)
        .with_repetition(Repetition::OPTIONAL)
        .with_converted_type(ConvertedType::UTF8)
        .with_logical_type(Some(LogicalType::String))
        .build()?;
    let others = root.get_fields().iter();
    let mut fields: Vec<_> = others
        .filter(|field| field.name() != NOTE_FIELD)
        .cloned()
        .collect();
    fields.push(Arc::new(note));
    let root = Type::group_type_builder(root.name()).with_fields(fields);
    root.build().map(Arc::new)
}

fn properties(copy: &TableCopy) -> WriterProperties {
    let metadata = copy.table.metadata();
    let mut builder = WriterProperties::builder()
        // Every program reads these pages.
        .set_writer_version(WriterVersion::PARQUET_1_0)
        // A copied column has no index of pages: a table has them for all columns, or none.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_sorting_columns(sorting_columns(copy))
        .set_key_value_metadata(key_values(metadata, copy.has_notes));
    if let Some(group) = metadata.row_groups().first() {
        for number in (0..group.num_columns()).filter(|&number| copy.is_copied(number)) {
            builder = with_column(builder, group.column(number));
        }
        let text = group.column(copy.text).compression();
        builder = builder.set_column_compression(NOTE_FIELD.into(), text);
    }
    builder.build()
}

/// Writes a column as it was written.
fn with_column(
    builder: WriterPropertiesBuilder,
    column: &ColumnChunkMetaData,
) -> WriterPropertiesBuilder {
    let path = column.column_path();
    let mut encodings: Vec<Encoding> = column.encodings().collect();
    let is_dictionary = |encoding: &Encoding| {
        matches!(
            encoding,
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY
        )
    };
    let has_dictionary = encodings.iter().any(is_dictionary);
    encodings.retain(|encoding| {
        matches!(
            encoding,
            Encoding::DELTA_BINARY_PACKED
                | Encoding::DELTA_LENGTH_BYTE_ARRAY
                | Encoding::DELTA_BYTE_ARRAY
                | Encoding::BYTE_STREAM_SPLIT
        )
    });
    let builder = builder
        .set_column_compression(path.clone(), column.compression())
        .set_column_dictionary_enabled(path.clone(), has_dictionary);
    match encodings.first() {
        Some(&encoding) => builder.set_column_encoding(path.clone(), encoding),
        None => builder,
    }
}

/// The order of the rows, if all row groups have the same: by the columns before the text, which may change.
fn sorting_columns(copy: &TableCopy) -> Option<Vec<SortingColumn>> {
    let groups = copy.table.metadata().row_groups();
    let columns = groups.first()?.sorting_columns()?;
    let has_same = groups
        .iter()
        .all(|group| group.sorting_columns() == Some(columns));
    let stays = |column: &&SortingColumn| {
        let number = usize::try_from(column.column_idx);
        // Columns after one that is replaced have other numbers.
        number.is_ok_and(|number| {
            number != copy.text && (0..=number).all(|number| copy.is_copied(number))
        })
    };
    let sorting: Vec<_> = columns.iter().take_while(stays).cloned().collect();
    (has_same && !sorting.is_empty()).then_some(sorting)
}

fn key_values(metadata: &ParquetMetaData, has_notes: bool) -> Option<Vec<KeyValue>> {
    let key_values = metadata.file_metadata().key_value_metadata()?;
    let kept = key_values.iter().filter_map(|pair| {
        if !has_notes || pair.key != ARROW_SCHEMA {
            return Some(pair.clone());
        }
        // pyarrow ignores a schema that lacks a column, and loses what only that has, such as time zones.
        let schema = arrow_schema::with_note(pair.value.as_ref()?)?;
        Some(KeyValue::new(pair.key.clone(), schema))
    });
    Some(kept.collect())
}
