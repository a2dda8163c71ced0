//! Parquet tables: a document a row, from two columns; the other columns are never read.
//!
//! A table is opened once, and its row groups are read independently, by several threads if wanted. The footer is checked
//! (`footer`) before the parquet crate parses it; pages are read and unpacked here (`pages`, `codec`), with every size
//! checked; the crate decodes the values of a page.

mod codec;
mod columns;
mod cursor;
mod delta;
mod footer;
mod pages;
mod thrift;

pub use cursor::{ColumnBatch, ColumnCursor, guarded};

use super::{FieldNames, RecordFault, RecordSequence, SequenceRecord, checked_text};
use crate::base::num::ToU64;
use codec::PageCodec;
use columns::ChosenColumn;
use cursor::{IdCursor, TextValue};
use pages::{CheckedPages, PageFile, PageProgress};
use parquet::{
    data_type::{ByteArrayType, DataType},
    file::metadata::{
        ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader,
        ParquetStatisticsPolicy,
    },
};
use std::{collections::VecDeque, fs::File, ops::Range, sync::Arc};

/// Rows of which the file has no trace are not believed: a run of nulls needs some bytes each for a million rows.
const MOST_ROWS_OF_BYTE: u64 = 1 << 16;
/// Pages have a megabyte, or some hundred of the largest documents.
const LEAST_PAGE_LIMIT: u64 = 256 << 20;

/// An open Parquet file. Memory: its footer.
#[derive(Clone)]
pub struct ParquetTable {
    file: Arc<File>,
    file_bytes: u64,
    metadata: Arc<ParquetMetaData>,
    names: Arc<Vec<String>>,
    /// For each row group: the number of rows before it; and at the end the number of all.
    starts: Arc<Vec<u64>>,
    /// The bytes of the footer, with its length and the mark behind it.
    footer_bytes: u64,
}

/// What a row group holds of the chosen columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowGroupSize {
    /// Its rows.
    pub rows: u64,
    /// The bytes to read.
    pub packed_bytes: u64,
    /// The bytes after decompression, as the file claims.
    pub unpacked_bytes: u64,
}

impl ParquetTable {
    /// Reads the footer. The error says what is wrong with the file.
    pub fn open(file: File) -> Result<Self, String> {
        let options = ParquetMetaDataOptions::new()
            .with_column_stats_policy(ParquetStatisticsPolicy::SkipAll)
            .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll)
            .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
        Self::open_by(file, &options)
    }

    /// The same, with the statistics of the columns: for a copy of the file.
    pub fn open_with_statistics(file: File) -> Result<Self, String> {
        let options = ParquetMetaDataOptions::new().with_encoding_stats_as_mask(false);
        Self::open_by(file, &options)
    }

    fn open_by(file: File, options: &ParquetMetaDataOptions) -> Result<Self, String> {
        let file_bytes = footer::file_bytes(&file)?;
        let footer = footer::read_footer(&file, file_bytes)?;
        let metadata =
            guarded(|| ParquetMetaDataReader::decode_metadata_with_options(&footer, Some(options)));
        let metadata = metadata.map_err(|error| format!("the footer is damaged: {error}"))?;
        let starts = group_starts(&metadata, file_bytes)?;
        let names = columns::column_names(metadata.file_metadata().schema_descr());
        Ok(Self {
            file: Arc::new(file),
            file_bytes,
            metadata: Arc::new(metadata),
            names: Arc::new(names),
            starts: Arc::new(starts),
            footer_bytes: footer.len().to_u64() + footer::TAIL_BYTES,
        })
    }

    /// What the footer says.
    pub fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The number of rows before a row group.
    pub fn rows_before(&self, group: usize) -> u64 {
        self.starts.get(group).copied().unwrap_or(self.rows())
    }

    /// The names of all columns, dotted where they are nested.
    pub fn columns(&self) -> &[String] {
        &self.names
    }

    /// Chooses the columns for ids and texts. A text of more than `most_bytes` is not read.
    pub fn select(
        &self,
        fields: &FieldNames<'_>,
        most_bytes: u64,
    ) -> Result<SelectedColumns, RecordFault> {
        let schema = self.metadata.file_metadata().schema_descr();
        let (text, id) = columns::choose(schema, &self.names, fields)?;
        Ok(SelectedColumns {
            table: self.clone(),
            text,
            id,
            most_bytes,
        })
    }
}

/// The number of the first row of each group.
fn group_starts(metadata: &ParquetMetaData, file_bytes: u64) -> Result<Vec<u64>, String> {
    let columns = metadata.file_metadata().schema_descr().num_columns();
    let mut starts = vec![0_u64];
    let mut all = 0_u64;
    for (number, group) in metadata.row_groups().iter().enumerate() {
        if group.num_columns() != columns {
            let found = group.num_columns();
            return Err(format!(
                "row group {number} has {found} columns, the schema {columns}"
            ));
        }
        let rows = u64::try_from(group.num_rows()).ok();
        let sum = rows.and_then(|rows| all.checked_add(rows));
        all = sum
            .filter(|&sum| sum / MOST_ROWS_OF_BYTE <= file_bytes)
            .ok_or_else(|| {
                let rows = group.num_rows();
                format!("row group {number} claims {rows} rows, in a file of {file_bytes} bytes")
            })?;
        starts.push(all);
    }
    let claimed = metadata.file_metadata().num_rows();
    if u64::try_from(claimed) != Ok(all) {
        return Err(format!(
            "the footer claims {claimed} rows, the row groups have {all}"
        ));
    }
    Ok(starts)
}

/// A table and the columns that are to be read from it.
#[derive(Clone)]
pub struct SelectedColumns {
    table: ParquetTable,
    text: ChosenColumn,
    id: Option<ChosenColumn>,
    most_bytes: u64,
}

impl SelectedColumns {
    /// The sizes of all row groups, as far as the chosen columns go.
    pub fn row_groups(&self) -> Vec<RowGroupSize> {
        let groups = self.table.metadata.row_groups().iter();
        groups
            .map(|group| {
                let chosen = [Some(&self.text), self.id.as_ref()].into_iter().flatten();
                let chunks = || chosen.clone().map(|column| group.column(column.number));
                let sum = |sizes: &mut dyn Iterator<Item = i64>| {
                    sizes.map(|size| u64::try_from(size).unwrap_or(0)).sum()
                };
                RowGroupSize {
                    rows: u64::try_from(group.num_rows()).unwrap_or(0),
                    packed_bytes: sum(&mut chunks().map(ColumnChunkMetaData::compressed_size)),
                    unpacked_bytes: sum(&mut chunks().map(ColumnChunkMetaData::uncompressed_size)),
                }
            })
            .collect()
    }

    /// The bytes of the file that reading some row groups needs, each as its start and end, in rising order.
    pub fn extents(&self, groups: Range<usize>) -> Result<Vec<[u64; 2]>, String> {
        let table = &self.table;
        let footer_start = table.file_bytes.saturating_sub(table.footer_bytes);
        let mut places = vec![[0, footer::MARK_BYTES], [footer_start, table.file_bytes]];
        for group in groups {
            for column in [Some(&self.text), self.id.as_ref()].into_iter().flatten() {
                let place = self.place_of_chunk(group, column)?;
                places.push([place.start, place.end]);
            }
        }
        places.sort_unstable();
        let mut joined: Vec<[u64; 2]> = Vec::new();
        for [start, end] in places {
            match joined.last_mut() {
                Some(last) if start <= last[1] => last[1] = last[1].max(end),
                _ => joined.push([start, end]),
            }
        }
        Ok(joined)
    }

    /// The number of the text's column among all leaf columns.
    pub fn text_column(&self) -> usize {
        self.text.number
    }

    /// The type of any column.
    pub fn physical_type(&self, number: usize) -> parquet::basic::Type {
        self.any_column(number).descriptor.physical_type()
    }

    /// Any column of a row group, to be read batch by batch.
    pub fn column<T: DataType>(
        &self,
        group: usize,
        number: usize,
    ) -> Result<ColumnCursor<T>, String> {
        self.cursor(group, &self.any_column(number))
    }

    /// Where in the file a column of a row group is.
    pub fn column_bytes(&self, group: usize, number: usize) -> Result<Range<u64>, String> {
        self.place_of_chunk(group, &self.any_column(number))
    }

    fn any_column(&self, number: usize) -> ChosenColumn {
        let schema = self.table.metadata.file_metadata().schema_descr();
        ChosenColumn {
            number,
            name: self.table.names[number].clone(),
            descriptor: schema.column(number),
        }
    }

    /// The group with this row, which is counted from 1, and the row's place in it, from 0.
    pub fn find_row(&self, number: u64) -> Option<(usize, u64)> {
        let row = number
            .checked_sub(1)
            .filter(|&row| row < self.table.rows())?;
        let group = self.table.starts.partition_point(|&start| start <= row) - 1;
        Some((group, row - self.table.starts[group]))
    }

    /// Reads all rows of a row group, and passes each on. Memory: a page of each column, and its dictionary.
    pub fn read_group(
        &self,
        group: usize,
        each: &mut dyn FnMut(SequenceRecord),
    ) -> Result<(), String> {
        self.read_rows(group, 0..u64::MAX, each)
    }

    /// Reads some rows of a row group; those before them are skipped, by whole pages where that can be.
    pub fn read_rows(
        &self,
        group: usize,
        rows: Range<u64>,
        each: &mut dyn FnMut(SequenceRecord),
    ) -> Result<(), String> {
        let mut reader = self.open_group(group)?;
        let rows = rows.start.min(reader.rows)..rows.end.min(reader.rows);
        reader.skip(rows.start)?;
        while reader.at < rows.end {
            reader.read_batch(rows.end - reader.at, each)?;
        }
        Ok(())
    }

    /// The rows of a row group, to be read one after the other; the group is opened with the first.
    pub fn group_rows(&self, group: usize) -> GroupRows {
        GroupRows {
            columns: self.clone(),
            group,
            reader: None,
            batch: VecDeque::new(),
            has_ended: false,
        }
    }

    fn open_group(&self, group: usize) -> Result<GroupReader, String> {
        let (Some(&start), Some(&end)) = (
            self.table.starts.get(group),
            self.table.starts.get(group + 1),
        ) else {
            return Err(format!("there is no row group {group}"));
        };
        let id = self.id.as_ref();
        Ok(GroupReader {
            text: self.cursor(group, &self.text)?,
            id: id.map(|id| self.id_cursor(group, id)).transpose()?,
            columns: self.clone(),
            group,
            start,
            rows: end - start,
            at: 0,
        })
    }

    fn checked(&self, value: TextValue<'_>) -> Result<String, RecordFault> {
        match value {
            TextValue::Null => Err(RecordFault::Null),
            TextValue::Bytes(bytes) if bytes.len().to_u64() > self.most_bytes => {
                Err(RecordFault::TooLarge)
            }
            TextValue::Bytes(bytes) => checked_text(bytes),
        }
    }

    fn id_cursor(&self, group: usize, column: &ChosenColumn) -> Result<IdCursor, String> {
        IdCursor::new(column, |column| self.pages(group, column))
    }

    fn cursor<T: DataType>(
        &self,
        group: usize,
        column: &ChosenColumn,
    ) -> Result<ColumnCursor<T>, String> {
        let (pages, progress) = self.pages(group, column)?;
        Ok(ColumnCursor::new(column, pages, progress))
    }

    /// Where the pages of a column are, after a check that they are inside of the file.
    fn place_of_chunk(&self, group: usize, column: &ChosenColumn) -> Result<Range<u64>, String> {
        let chunk = self.table.metadata.row_group(group).column(column.number);
        let bad = |what: String| format!("row group {group}, column {}: {what}", column.name);
        if let Some(path) = chunk.file_path().filter(|path| !path.is_empty()) {
            return Err(bad(format!("its data is in another file, {path:?}")));
        }
        chunk_bytes(chunk, self.table.file_bytes).map_err(bad)
    }

    fn pages(
        &self,
        group: usize,
        column: &ChosenColumn,
    ) -> Result<(CheckedPages, Arc<PageProgress>), String> {
        let chunk = self.table.metadata.row_group(group).column(column.number);
        let bad = |what: String| format!("row group {group}, column {}: {what}", column.name);
        let bytes = self.place_of_chunk(group, column)?;
        let progress = Arc::new(PageProgress::default());
        let pages = CheckedPages::new(PageFile {
            file: Arc::clone(&self.table.file),
            start: bytes.start,
            end: bytes.end,
            codec: PageCodec::new(chunk.compression()).map_err(bad)?,
            column: Arc::clone(&column.descriptor),
            most_bytes: self.most_bytes.max(LEAST_PAGE_LIMIT),
            progress: Arc::clone(&progress),
        });
        Ok((pages, progress))
    }
}

/// The rows of a row group. Memory: a page of each column, its dictionary, and the texts of a batch.
pub struct GroupRows {
    columns: SelectedColumns,
    group: usize,
    reader: Option<GroupReader>,
    batch: VecDeque<SequenceRecord>,
    has_ended: bool,
}

impl GroupRows {
    /// Fills the batch; false at the end of the group.
    fn read_batch(&mut self) -> Result<bool, String> {
        if self.reader.is_none() {
            self.reader = Some(self.columns.open_group(self.group)?);
        }
        let Some(reader) = self
            .reader
            .as_mut()
            .filter(|reader| reader.at < reader.rows)
        else {
            return Ok(false);
        };
        let rows = reader.rows - reader.at;
        reader.read_batch(rows, &mut |record| self.batch.push_back(record))?;
        Ok(true)
    }
}

impl RecordSequence for GroupRows {
    fn next_record(&mut self) -> Option<Result<SequenceRecord, String>> {
        while self.batch.is_empty() && !self.has_ended {
            match self.read_batch() {
                Ok(has_rows) => self.has_ended = !has_rows,
                Err(error) => {
                    self.has_ended = true;
                    return Some(Err(error));
                }
            }
        }
        self.batch.pop_front().map(Ok)
    }
}

/// Reads the two columns of a row group side by side.
struct GroupReader {
    columns: SelectedColumns,
    text: ColumnCursor<ByteArrayType>,
    id: Option<IdCursor>,
    group: usize,
    /// Rows of the file before this group.
    start: u64,
    /// Rows of this group.
    rows: u64,
    /// Rows of the group that were read.
    at: u64,
}

impl GroupReader {
    fn skip(&mut self, rows: u64) -> Result<(), String> {
        let text = self.text.skip(rows);
        text.map_err(|error| self.place(Some(&self.columns.text), error))?;
        let id = self.id.as_mut().map_or(Ok(()), |id| id.skip(rows));
        id.map_err(|error| self.place(self.columns.id.as_ref(), error))?;
        self.at = rows;
        Ok(())
    }

    /// Reads as many rows as the pages suggest, at most these.
    fn read_batch(
        &mut self,
        most: u64,
        each: &mut dyn FnMut(SequenceRecord),
    ) -> Result<(), String> {
        let rows = self.id.as_ref().map_or(u64::MAX, IdCursor::batch_rows);
        let rows = rows.min(self.text.batch_rows()).min(most);
        let text = self.text.read(rows);
        text.map_err(|error| self.place(Some(&self.columns.text), error))?;
        let ids = self.id.as_mut().map_or(Ok(Vec::new()), |id| id.read(rows));
        let ids = ids.map_err(|error| self.place(self.columns.id.as_ref(), error))?;
        self.pass_on(ids, each);
        self.at += rows;
        Ok(())
    }

    fn pass_on(&self, ids: Vec<Option<String>>, each: &mut dyn FnMut(SequenceRecord)) {
        let mut ids = ids.into_iter();
        let mut number = self.start + self.at;
        self.text.each_text(&self.columns.text, &mut |value| {
            number += 1;
            each(SequenceRecord {
                number,
                line: None,
                id: ids.next().flatten(),
                text: self.columns.checked(value),
            });
        });
    }

    /// The error with the group, the column and the first row of the batch.
    fn place(&self, column: Option<&ChosenColumn>, error: String) -> String {
        let group = self.group;
        let row = self.start + self.at + 1;
        let name = column.map_or("", |column| &column.name);
        format!("row group {group}, column {name}, row {row}: {error}")
    }
}

/// Where the pages of a column are.
fn chunk_bytes(chunk: &ColumnChunkMetaData, file_bytes: u64) -> Result<Range<u64>, String> {
    let data = chunk.data_page_offset();
    // Some writers have 0 for a dictionary that there is not.
    let dictionary = chunk
        .dictionary_page_offset()
        .filter(|&at| at > 0 && at < data);
    let start = u64::try_from(dictionary.unwrap_or(data));
    let size = u64::try_from(chunk.compressed_size());
    let (Ok(start), Ok(size)) = (start, size) else {
        return Err("its place or size is negative".to_owned());
    };
    match start.checked_add(size).filter(|&end| end <= file_bytes) {
        Some(end) => Ok(start..end),
        None => Err(format!(
            "its {size} bytes from byte {start} on are not in the file of {file_bytes} bytes"
        )),
    }
}
