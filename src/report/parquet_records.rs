//! A Parquet table of rows that are objects of JSON.

use crate::base::error::{Error, Result};
use parquet::{
    basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel},
    data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type},
    errors::ParquetError,
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::types::Type,
};
use serde_json::Value;
use std::{
    io::{self, Write},
    sync::Arc,
};

/// Rows of one row group.
const GROUP_ROWS: usize = 1 << 16;

/// Writes rows in groups. Memory: a group.
pub struct ParquetRecords<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<(String, CellType)>,
    /// The rows that are not written yet.
    rows: Vec<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellType {
    Text,
    Integer,
    Number,
    Flag,
}

impl CellType {
    /// The type of the cells that are like this one; a list or an object becomes a text of JSON.
    fn of(value: &Value) -> Self {
        match value {
            Value::Bool(_) => Self::Flag,
            Value::Number(number) if number.is_f64() => Self::Number,
            Value::Number(_) => Self::Integer,
            Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => Self::Text,
        }
    }

    fn physical(self) -> PhysicalType {
        match self {
            Self::Text => PhysicalType::BYTE_ARRAY,
            Self::Integer => PhysicalType::INT64,
            Self::Number => PhysicalType::DOUBLE,
            Self::Flag => PhysicalType::BOOLEAN,
        }
    }
}

impl<W: Write + Send> ParquetRecords<W> {
    /// A table with columns of these names; the type of each is that of the value.
    pub fn new(out: W, columns: &[(String, Value)]) -> Result<Self> {
        let columns: Vec<_> = columns
            .iter()
            .map(|(name, value)| (name.clone(), CellType::of(value)))
            .collect();
        let fields = columns
            .iter()
            .map(|(name, cell)| {
                let field = Type::primitive_type_builder(name, cell.physical())
                    .with_repetition(Repetition::OPTIONAL);
                let is_text = *cell == CellType::Text;
                let field = field.with_logical_type(is_text.then_some(LogicalType::String));
                field.build().map(Arc::new)
            })
            .collect::<Result<Vec<_>, _>>()
            .map_err(failed)?;
        let schema = Type::group_type_builder("records")
            .with_fields(fields)
            .build()
            .map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .build();
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties));
        Ok(Self {
            writer: writer.map_err(failed)?,
            columns,
            rows: Vec::new(),
        })
    }

    /// Adds a row, an object with a value for each column.
    pub fn push(&mut self, row: Value) -> Result<()> {
        self.rows.push(row);
        if self.rows.len() < GROUP_ROWS {
            return Ok(());
        }
        self.write_group()
    }

    /// Writes the rest, and returns what it was written to.
    pub fn finish(mut self) -> Result<W> {
        self.write_group()?;
        self.writer.into_inner().map_err(failed)
    }

    fn write_group(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        let mut group = self.writer.next_row_group().map_err(failed)?;
        for (name, cell) in &self.columns {
            let values = || rows.iter().map(|row| &row[name]);
            let written = match cell {
                CellType::Text => put::<ByteArrayType, _>(&mut group, values().map(text_of)),
                CellType::Integer => put::<Int64Type, _>(&mut group, values().map(Value::as_i64)),
                CellType::Number => put::<DoubleType, _>(&mut group, values().map(Value::as_f64)),
                CellType::Flag => put::<BoolType, _>(&mut group, values().map(Value::as_bool)),
            };
            written.map_err(failed)?;
        }
        group.close().map(drop).map_err(failed)
    }
}

fn text_of(value: &Value) -> Option<ByteArray> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(ByteArray::from(text.as_str())),
        other => Some(ByteArray::from(other.to_string().as_str())),
    }
}

/// Writes the next column of a row group; a cell without a value is null.
fn put<T: DataType, W: Write + Send>(
    group: &mut parquet::file::writer::SerializedRowGroupWriter<'_, W>,
    cells: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    for cell in cells {
        levels.push(i16::from(cell.is_some()));
        values.extend(cell);
    }
    let Some(mut column) = group.next_column()? else {
        return Ok(());
    };
    column
        .typed::<T>()
        .write_batch(&values, Some(&levels), None)?;
    column.close()
}

fn failed(error: ParquetError) -> Error {
    Error::output(match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(cause) => *cause,
            Err(cause) => io::Error::other(cause),
        },
        other => io::Error::other(other),
    })
}
