//! Reads a column batch by batch, as the parquet crate decodes it.

use super::{
    columns::{ChosenColumn, IdForm},
    pages::{CheckedPages, PageProgress},
};
use crate::base::num::{ToU64, ToUsize};
use parquet::{
    basic::Type,
    column::reader::ColumnReaderImpl,
    data_type::{ByteArrayType, DataType, FixedLenByteArrayType, Int32Type, Int64Type},
    errors::ParquetError,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// A list may have any number of pages, so few are read at once.
const LIST_BATCH_ROWS: u64 = 16;
/// A dictionary and two pages.
const PAGES_OF_BATCH: u64 = 3;

/// Runs code of the parquet crate. All sizes and counts that it would trust were checked before, but its decoders still
/// index into what they are given: a panic there is a damaged file, and nothing of what it touched is used again.
pub fn guarded<T>(run: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(|error| match error {
            ParquetError::General(what) => what,
            other => other.to_string(),
        }),
        Err(_) => Err("the data is damaged: its decoder failed".to_owned()),
    }
}

/// A text, or null.
pub enum TextValue<'a> {
    Null,
    Bytes(&'a [u8]),
}

/// The values of a batch of rows of a column.
pub struct ColumnCursor<T: DataType> {
    reader: ColumnReaderImpl<T>,
    progress: Arc<PageProgress>,
    most_bytes: u64,
    is_list: bool,
    most_level: i16,
    rows: u64,
    values: Vec<T::T>,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
}

/// Some rows of a column, as the file has them.
pub struct ColumnBatch<'a, T: DataType> {
    /// The values that are not null.
    pub values: &'a [T::T],
    /// For each value or null: how much of its path is there.
    pub definitions: &'a [i16],
    /// In a list, for each value or null: 0 if it starts a row. Empty for other columns.
    pub repetitions: &'a [i16],
    /// The definition level of a value.
    pub most_level: i16,
}

impl<T: DataType> ColumnCursor<T> {
    /// Reads a column from its pages.
    pub(super) fn new(
        column: &ChosenColumn,
        pages: CheckedPages,
        progress: Arc<PageProgress>,
    ) -> Self {
        let most_bytes = pages.most_bytes();
        Self {
            reader: ColumnReaderImpl::new(Arc::clone(&column.descriptor), Box::new(pages)),
            progress,
            most_bytes,
            is_list: column.is_list(),
            most_level: column.descriptor.max_def_level(),
            rows: 0,
            values: Vec::new(),
            definitions: Vec::new(),
            repetitions: Vec::new(),
        }
    }

    /// How many rows to read next, so that at most one page is held: what is left of it, or a single row, which makes
    /// the reader fetch the next one.
    pub fn batch_rows(&self) -> u64 {
        if self.is_list {
            return LIST_BATCH_ROWS;
        }
        let left = self.progress.levels.load(Relaxed).saturating_sub(self.rows);
        left.min(self.progress.batch_rows.load(Relaxed)).max(1)
    }

    fn allow_pages(&self) {
        let bytes = self.most_bytes.saturating_mul(PAGES_OF_BATCH);
        self.progress.left_bytes.store(bytes, Relaxed);
    }

    /// Passes over rows.
    pub fn skip(&mut self, rows: u64) -> Result<(), String> {
        let mut left = rows;
        while left > 0 {
            self.allow_pages();
            let part = left.min(if self.is_list {
                LIST_BATCH_ROWS
            } else {
                1 << 16
            });
            let skipped = guarded(|| self.reader.skip_records(part.to_usize()))?.to_u64();
            if skipped == 0 {
                return Err("the column ends before the row group does".to_owned());
            }
            left = left.saturating_sub(skipped);
        }
        // Whole pages were passed over unseen: start at the page that is next or, if one is begun, with single rows.
        self.rows = self.progress.levels.load(Relaxed);
        Ok(())
    }

    /// Reads these rows, in place of those before.
    pub fn read(&mut self, rows: u64) -> Result<(), String> {
        self.values.clear();
        self.definitions.clear();
        self.repetitions.clear();
        self.allow_pages();
        let (read, ..) = guarded(|| {
            self.reader.read_records(
                rows.to_usize(),
                Some(&mut self.definitions),
                Some(&mut self.repetitions),
                &mut self.values,
            )
        })?;
        self.rows += rows;
        if read.to_u64() != rows {
            return Err("the column ends before the row group does".to_owned());
        }
        // A column that cannot be null has no levels.
        if self.most_level == 0 {
            self.definitions.resize(rows.to_usize(), 0);
        }
        Ok(())
    }

    /// The rows that were read last.
    pub fn batch(&self) -> ColumnBatch<'_, T> {
        ColumnBatch {
            values: &self.values,
            definitions: &self.definitions,
            repetitions: &self.repetitions,
            most_level: self.most_level,
        }
    }

    /// Each value of a column without lists, `None` for null.
    fn flat(&self) -> impl Iterator<Item = Option<&T::T>> {
        let mut values = self.values.iter();
        let most_level = self.most_level;
        self.definitions.iter().map(move |&level| {
            if level == most_level {
                values.next()
            } else {
                None
            }
        })
    }
}

impl ColumnCursor<ByteArrayType> {
    /// Passes on the text of each row; of a list, its strings with a line feed between them.
    pub fn each_text(&self, column: &ChosenColumn, each: &mut dyn FnMut(TextValue<'_>)) {
        if !self.is_list {
            for value in self.flat() {
                each(value.map_or(TextValue::Null, |value| TextValue::Bytes(value.data())));
            }
            return;
        }
        let mut values = self.values.iter();
        let mut levels = self.definitions.iter().zip(&self.repetitions).peekable();
        let mut joined = Vec::new();
        while let Some((&level, _)) = levels.next() {
            joined.clear();
            let mut strings = 0;
            let mut next = Some(level);
            while let Some(level) = next {
                if level == self.most_level
                    && let Some(value) = values.next()
                {
                    if strings > 0 {
                        joined.push(b'\n');
                    }
                    strings += 1;
                    joined.extend_from_slice(value.data());
                }
                // A repetition level of 0 starts the next row.
                let more = levels.next_if(|(_, repetition)| **repetition > 0);
                next = more.map(|(&level, _)| level);
            }
            each(if level < column.list_level() {
                TextValue::Null
            } else {
                TextValue::Bytes(&joined)
            });
        }
    }
}

/// The column of the ids, of one of the types that it may have.
pub enum IdCursor {
    Bytes(ColumnCursor<ByteArrayType>),
    Fixed(ColumnCursor<FixedLenByteArrayType>, IdForm),
    Int32(ColumnCursor<Int32Type>, IdForm),
    Int64(ColumnCursor<Int64Type>, IdForm),
}

impl IdCursor {
    pub fn new(
        column: &ChosenColumn,
        pages: impl FnOnce(&ChosenColumn) -> Result<(CheckedPages, Arc<PageProgress>), String>,
    ) -> Result<Self, String> {
        let form = IdForm::of(column);
        let (pages, progress) = pages(column)?;
        Ok(match column.descriptor.physical_type() {
            Type::FIXED_LEN_BYTE_ARRAY => {
                Self::Fixed(ColumnCursor::new(column, pages, progress), form)
            }
            Type::INT32 => Self::Int32(ColumnCursor::new(column, pages, progress), form),
            Type::INT64 => Self::Int64(ColumnCursor::new(column, pages, progress), form),
            _ => Self::Bytes(ColumnCursor::new(column, pages, progress)),
        })
    }

    pub fn batch_rows(&self) -> u64 {
        match self {
            Self::Bytes(cursor) => cursor.batch_rows(),
            Self::Fixed(cursor, _) => cursor.batch_rows(),
            Self::Int32(cursor, _) => cursor.batch_rows(),
            Self::Int64(cursor, _) => cursor.batch_rows(),
        }
    }

    pub fn skip(&mut self, rows: u64) -> Result<(), String> {
        match self {
            Self::Bytes(cursor) => cursor.skip(rows),
            Self::Fixed(cursor, _) => cursor.skip(rows),
            Self::Int32(cursor, _) => cursor.skip(rows),
            Self::Int64(cursor, _) => cursor.skip(rows),
        }
    }

    /// The ids of these rows. Bytes that are not UTF-8 are written in hexadecimal digits.
    pub fn read(&mut self, rows: u64) -> Result<Vec<Option<String>>, String> {
        match self {
            Self::Bytes(cursor) => ids(cursor, rows, |value| {
                match std::str::from_utf8(value.data()) {
                    Ok(id) => id.to_owned(),
                    Err(_) => IdForm::Hex.hex(value.data()),
                }
            }),
            Self::Fixed(cursor, form) => ids(cursor, rows, |value| form.hex(value.data())),
            Self::Int32(cursor, form) => ids(cursor, rows, |&value| form.int32(value)),
            Self::Int64(cursor, form) => ids(cursor, rows, |&value| form.int64(value)),
        }
    }
}

fn ids<T: DataType>(
    cursor: &mut ColumnCursor<T>,
    rows: u64,
    show: impl Fn(&T::T) -> String,
) -> Result<Vec<Option<String>>, String> {
    cursor.read(rows)?;
    Ok(cursor.flat().map(|value| value.map(&show)).collect())
}
