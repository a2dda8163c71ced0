//! Writes a column of a row group again: rows that stay, with what is cut out of their text.

use super::{RowFate, output::WatchedOutput};
use crate::{
    base::num::{ToU64, ToUsize},
    text::{
        corpus::{
            rewrite::lines::cut_bytes,
            sequence::{ColumnBatch, SelectedColumns, guarded},
        },
        stream::Span,
    },
};
use parquet::{
    basic::Type,
    column::writer::ColumnWriterImpl,
    data_type::{
        BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, FloatType,
        Int32Type, Int64Type, Int96Type,
    },
    errors::ParquetError,
    file::writer::{SerializedColumnWriter, SerializedRowGroupWriter},
};

type GroupWriter<'g, 'w> = SerializedRowGroupWriter<'g, WatchedOutput<'w>>;

/// Copies the rows of a column that stay. `place`: the row group and the column.
pub fn copy(
    columns: &SelectedColumns,
    place: (usize, usize),
    rows: &[RowFate],
    cuts_text: bool,
    writer: &mut GroupWriter<'_, '_>,
) -> Result<(), String> {
    let mut column = next_column(writer)?;
    let mut task = ColumnTask {
        columns,
        place,
        rows,
        column: &mut column,
    };
    match columns.physical_type(place.1) {
        Type::BOOLEAN => task.run::<BoolType>(|_, _| ()),
        Type::INT32 => task.run::<Int32Type>(|_, _| ()),
        Type::INT64 => task.run::<Int64Type>(|_, _| ()),
        Type::INT96 => task.run::<Int96Type>(|_, _| ()),
        Type::FLOAT => task.run::<FloatType>(|_, _| ()),
        Type::DOUBLE => task.run::<DoubleType>(|_, _| ()),
        Type::BYTE_ARRAY if cuts_text => task.run::<ByteArrayType>(cut_strings),
        Type::BYTE_ARRAY => task.run::<ByteArrayType>(|_, _| ()),
        Type::FIXED_LEN_BYTE_ARRAY => task.run::<FixedLenByteArrayType>(|_, _| ()),
    }?;
    guarded(|| column.close())
}

fn next_column<'g>(
    writer: &'g mut GroupWriter<'_, '_>,
) -> Result<SerializedColumnWriter<'g>, String> {
    guarded(|| {
        writer
            .next_column()?
            .ok_or_else(|| ParquetError::General("a column too many".to_owned()))
    })
}

struct ColumnTask<'t, 'g> {
    columns: &'t SelectedColumns,
    place: (usize, usize),
    rows: &'t [RowFate],
    column: &'t mut SerializedColumnWriter<'g>,
}

impl ColumnTask<'_, '_> {
    /// Copies batch by batch. `cut` cuts the values of one row.
    fn run<T: DataType>(&mut self, cut: fn(&mut [T::T], &[Span])) -> Result<(), String> {
        let mut cursor = self.columns.column::<T>(self.place.0, self.place.1)?;
        let writer = self.column.typed::<T>();
        let (mut kept, mut rest) = (KeptRows::<T>::default(), self.rows);
        while !rest.is_empty() {
            let count = cursor.batch_rows().min(rest.len().to_u64());
            cursor.read(count)?;
            let (batch, after) = rest.split_at(count.to_usize());
            kept.select(&cursor.batch(), batch, cut);
            kept.write(writer)?;
            rest = after;
        }
        Ok(())
    }
}

/// The rows of a batch that stay.
struct KeptRows<T: DataType> {
    values: Vec<T::T>,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
}

impl<T: DataType> Default for KeptRows<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            definitions: Vec::new(),
            repetitions: Vec::new(),
        }
    }
}

impl<T: DataType> KeptRows<T> {
    fn select(
        &mut self,
        batch: &ColumnBatch<'_, T>,
        rows: &[RowFate],
        cut: fn(&mut [T::T], &[Span]),
    ) {
        self.values.clear();
        self.definitions.clear();
        self.repetitions.clear();
        let (mut level, mut values) = (0, batch.values);
        for row in rows {
            // A row of a list goes on until the next repetition level of 0.
            let more = batch.repetitions.get(level + 1..).unwrap_or_default();
            let levels = 1 + more
                .iter()
                .take_while(|&&repetition| repetition > 0)
                .count();
            let end = (level + levels).min(batch.definitions.len());
            let definitions = &batch.definitions[level.min(end)..end];
            let is_value = |level: &&i16| **level == batch.most_level;
            let count = definitions.iter().filter(is_value).count();
            let (of_row, after) = values.split_at(count.min(values.len()));
            if row.is_kept() {
                let from = self.values.len();
                self.values.extend_from_slice(of_row);
                cut(&mut self.values[from..], row.cuts());
                self.definitions.extend_from_slice(definitions);
                let repetitions = batch.repetitions.get(level..end);
                self.repetitions
                    .extend_from_slice(repetitions.unwrap_or_default());
            }
            (level, values) = (end, after);
        }
    }

    fn write(&self, writer: &mut ColumnWriterImpl<'_, T>) -> Result<(), String> {
        if self.definitions.is_empty() {
            return Ok(());
        }
        let column = writer.get_descriptor();
        let definitions = (column.max_def_level() > 0).then_some(&self.definitions[..]);
        let repetitions = (column.max_rep_level() > 0).then_some(&self.repetitions[..]);
        guarded(|| writer.write_batch(&self.values, definitions, repetitions)).map(drop)
    }
}

/// Cuts bytes out of the text of a row. The text of a list is its strings with a line feed between them.
fn cut_strings(strings: &mut [ByteArray], cuts: &[Span]) {
    if cuts.is_empty() {
        return;
    }
    let mut start = 0;
    for string in strings {
        let end = start + string.len();
        let within = |at: u32| at.to_usize().clamp(start, end) - start;
        let cuts: Vec<Span> = cuts
            .iter()
            .map(|cut| Span {
                start: offset(within(cut.start)),
                end: offset(within(cut.end)),
            })
            .filter(|cut| cut.start < cut.end)
            .collect();
        if !cuts.is_empty() {
            let mut left = Vec::new();
            cut_bytes(string.data(), &cuts, &mut left);
            *string = ByteArray::from(left);
        }
        start = end + 1;
    }
}

/// An offset in a string: those of a cut are as wide.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Writes the column of notes, which is the last.
pub fn write_notes(rows: &[RowFate], writer: &mut GroupWriter<'_, '_>) -> Result<(), String> {
    let mut column = next_column(writer)?;
    let mut notes = KeptRows::<ByteArrayType>::default();
    for row in rows.iter().filter(|row| row.is_kept()) {
        notes.definitions.push(i16::from(row.note().is_some()));
        notes.values.extend(row.note().map(ByteArray::from));
    }
    notes.write(column.typed::<ByteArrayType>())?;
    guarded(|| column.close())
}
