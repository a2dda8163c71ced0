//! Lines of the sink [`Parquet`](super::Parquet) as a Parquet table.

use super::parquet_records::ParquetRecords;
use serde_json::Value;
use std::io::{self, Write};

/// Collects lines into a table. The first line has the name of each column and a value of its type;
/// each other line is a row. Memory: a row group.
pub struct ParquetLines<W: Write + Send> {
    table: Table<W>,
    /// The beginning of a line whose end is not there yet.
    begun: Vec<u8>,
}

enum Table<W: Write + Send> {
    /// The columns are not known yet.
    New(W),
    Rows(Box<ParquetRecords<W>>),
    /// An error has ended it.
    Failed,
}

impl<W: Write + Send> ParquetLines<W> {
    /// Writes a table to `out`.
    pub fn new(out: W) -> Self {
        Self {
            table: Table::New(out),
            begun: Vec::new(),
        }
    }

    /// Writes the rest, and returns what it was written to.
    pub fn finish(self) -> io::Result<W> {
        match self.table {
            Table::New(out) => Ok(out),
            Table::Rows(rows) => rows.finish().map_err(io::Error::other),
            Table::Failed => Err(io::Error::other("the table is not complete")),
        }
    }

    fn take_line(&mut self, line: &[u8]) -> io::Result<()> {
        match &mut self.table {
            Table::New(_) => {
                let columns: Vec<(String, Value)> = serde_json::from_slice(line)?;
                let Table::New(out) = std::mem::replace(&mut self.table, Table::Failed) else {
                    return Ok(());
                };
                let rows = ParquetRecords::new(out, &columns).map_err(io::Error::other)?;
                self.table = Table::Rows(Box::new(rows));
                Ok(())
            }
            Table::Rows(rows) => rows
                .push(serde_json::from_slice(line)?)
                .map_err(io::Error::other),
            Table::Failed => Err(io::Error::other("the table is not complete")),
        }
    }
}

impl<W: Write + Send> Write for ParquetLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let Some(end) = piece.strip_suffix(b"\n") else {
                self.begun.extend_from_slice(piece);
                continue;
            };
            if self.begun.is_empty() {
                self.take_line(end)?;
            } else {
                self.begun.extend_from_slice(end);
                let line = std::mem::take(&mut self.begun);
                self.take_line(&line)?;
            }
        }
        Ok(bytes.len())
    }

    /// A table is written in groups of rows.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Parquet, Sink};
    use parquet::{
        file::reader::{FileReader, SerializedFileReader},
        record::RowAccessor,
    };
    use serde::Serialize;

    #[derive(Default, Serialize)]
    struct Row<'r> {
        id: &'r str,
        score: f64,
        shared: Option<u64>,
        is_new: bool,
        spans: Vec<[u32; 2]>,
    }

    #[test]
    fn rows_keep_the_types_of_their_fields_wherever_writes_are_cut() {
        let mut lines = Vec::new();
        let shape = Row {
            shared: Some(0),
            ..Row::default()
        };
        Parquet.put_head(&shape, &mut lines).unwrap();
        for (id, score, shared) in [("a\n\"b", 1.0, Some(7)), ("ü", 0.25, None)] {
            let row = Row {
                id,
                score,
                shared,
                is_new: true,
                spans: vec![[1, 2]],
            };
            Parquet.put_record(&row, &mut lines).unwrap();
        }
        for piece in [1, 3, 1000] {
            let mut table = ParquetLines::new(Vec::new());
            for bytes in lines.chunks(piece) {
                table.write_all(bytes).unwrap();
            }
            let file = bytes::Bytes::from(table.finish().unwrap());
            let rows: Vec<_> = SerializedFileReader::new(file)
                .unwrap()
                .get_row_iter(None)
                .unwrap()
                .map(Result::unwrap)
                .collect();
            assert_eq!(rows.len(), 2);
            assert_eq!(rows[0].get_string(0).unwrap(), "a\n\"b");
            assert_eq!(rows[0].get_double(1).unwrap(), 1.0);
            assert_eq!(rows[0].get_long(2).unwrap(), 7);
            assert!(rows[0].get_bool(3).unwrap());
            assert_eq!(rows[0].get_string(4).unwrap(), "[[1,2]]");
            assert_eq!(rows[1].get_string(0).unwrap(), "ü");
            assert!(rows[1].get_long(2).is_err(), "null");
        }
    }

    #[test]
    fn a_table_without_rows_has_columns() {
        let mut lines = Vec::new();
        Parquet.put_head(&Row::default(), &mut lines).unwrap();
        let mut table = ParquetLines::new(Vec::new());
        table.write_all(&lines).unwrap();
        let file = bytes::Bytes::from(table.finish().unwrap());
        let reader = SerializedFileReader::new(file).unwrap();
        let schema = reader.metadata().file_metadata().schema();
        let names: Vec<_> = schema
            .get_fields()
            .iter()
            .map(|field| field.name())
            .collect();
        assert_eq!(names, ["id", "score", "shared", "is_new", "spans"]);
    }
}
