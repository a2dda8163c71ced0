//! Where records of one type are written, in a format that is chosen when the program runs.

#[cfg(feature = "parquet")]
use super::parquet_records::ParquetRecords;
use super::sink::{Format, Sink};
use crate::base::error::{Error, Result};
use serde::Serialize;
use std::io::Write;

/// An output for records.
pub type RecordBytes<'o> = &'o mut (dyn Write + Send);

/// Where records of one type are written.
pub enum RecordTarget<'o> {
    /// Line by line.
    Lines(Format, RecordBytes<'o>),
    /// A Parquet table that has not begun.
    #[cfg(feature = "parquet")]
    NewTable(RecordBytes<'o>),
    /// A Parquet table.
    #[cfg(feature = "parquet")]
    Table(Box<ParquetRecords<RecordBytes<'o>>>),
}

impl RecordTarget<'_> {
    /// Writes what comes before the first record. `shape`: a record with values of the types that follow.
    pub fn begin<R: Serialize>(self, shape: &R) -> Result<Self> {
        match self {
            Self::Lines(format, out) => {
                let mut bytes = Vec::new();
                format.put_head(shape, &mut bytes)?;
                out.write_all(&bytes).map_err(Error::output)?;
                Ok(Self::Lines(format, out))
            }
            #[cfg(feature = "parquet")]
            Self::NewTable(out) => {
                let names = super::field_names(shape)?;
                let table = ParquetRecords::new(out, shape, &names)?;
                Ok(Self::Table(Box::new(table)))
            }
            #[cfg(feature = "parquet")]
            Self::Table(_) => Ok(self),
        }
    }

    /// Writes a record.
    pub fn put<R: Serialize>(&mut self, record: &R) -> Result<()> {
        match self {
            Self::Lines(format, out) => {
                let mut bytes = Vec::new();
                format.put_record(record, &mut bytes)?;
                out.write_all(&bytes).map_err(Error::output)
            }
            #[cfg(feature = "parquet")]
            Self::NewTable(_) => Ok(()),
            #[cfg(feature = "parquet")]
            Self::Table(table) => table.push(record),
        }
    }

    /// Writes what comes after the last record.
    pub fn end(self) -> Result<()> {
        match self {
            Self::Lines(..) => Ok(()),
            #[cfg(feature = "parquet")]
            Self::NewTable(_) => Ok(()),
            #[cfg(feature = "parquet")]
            Self::Table(table) => table.finish().map(drop),
        }
    }
}
