//! Parquet: records as rows of a table, column by column.
//!
//! Threads make rows, but only one writer can put them into columns. So a row is a line of JSON on
//! its way there, as in NDJSON, and [`ParquetLines`](crate::report::ParquetLines) collects the
//! lines. The first line has a value of each column, which tells its type.

use super::{Ndjson, RecordSyntax, Sink, cells::field_names};
use crate::base::error::{Error, Result};
use serde::Serialize;

/// Writes each record as a row.
pub struct Parquet;

impl<R: Serialize + ?Sized> Sink<R> for Parquet {
    fn put_head(&self, shape: &R, out: &mut Vec<u8>) -> Result<()> {
        let failed = |error: serde_json::Error| Error::output(error.into());
        let values = serde_json::to_value(shape).map_err(failed)?;
        let columns: Vec<_> = field_names(shape)?
            .into_iter()
            .map(|name| {
                let value = values[&name].clone();
                (name, value)
            })
            .collect();
        serde_json::to_writer(&mut *out, &columns).map_err(failed)?;
        out.push(b'\n');
        Ok(())
    }

    fn put_record(&self, record: &R, out: &mut Vec<u8>) -> Result<()> {
        Ndjson.put_record(record, out)
    }
}

impl RecordSyntax for Parquet {
    const NAME: &'static str = "parquet";
    const IS_TABLE: bool = true;
    const RECORD_END: &'static [u8] = Ndjson::RECORD_END;

    fn before_field(number: usize, name: &str) -> String {
        Ndjson::before_field(number, name)
    }

    fn put_text(text: &str, out: &mut Vec<u8>) -> Result<()> {
        Ndjson::put_text(text, out)
    }
}
