//! The pages of a column in a row group, read and unpacked with every size checked.
//!
//! The parquet crate has a page reader of its own, but with gzip and brotli it unpacks whatever is there, and it
//! decodes some counts in a page without a bound. This one does not; the crate decodes the values.

use super::{
    codec::PageCodec,
    delta,
    thrift::{ThriftError, ThriftReader, kind},
};
use crate::base::num::{ToU64, ToUsize};
use bytes::Bytes;
use parquet::{
    basic::{Encoding, Type},
    column::page::{Page, PageMetadata, PageReader},
    errors::{ParquetError, Result},
    schema::types::ColumnDescPtr,
};
use std::{
    fs::File,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Most headers have less; statistics can make one as large as two values.
const FIRST_HEADER_BYTES: u64 = 256;
const MOST_HEADER_BYTES: u64 = 64 << 20;
/// How many bytes the values of a batch may have where decoding copies them.
const COPIED_BYTES: u64 = 8 << 20;
/// How many rows are decoded at once.
const BATCH_ROWS: u64 = 1024;
/// What the crate needs for a level and a value of a list.
const BYTES_OF_LEVEL: u64 = 40;

/// What the reader of a column needs to know of its pages.
#[derive(Default)]
pub struct PageProgress {
    /// Levels (values and nulls) of all pages so far.
    pub levels: AtomicU64,
    /// How many rows of the page should be decoded at once.
    pub batch_rows: AtomicU64,
    /// How many bytes may still be unpacked for the rows that are being read.
    pub left_bytes: AtomicU64,
}

/// Where the pages are, and what is in them.
pub struct PageFile {
    pub file: Arc<File>,
    pub start: u64,
    pub end: u64,
    pub codec: PageCodec,
    pub column: ColumnDescPtr,
    /// The most bytes of a page after unpacking.
    pub most_bytes: u64,
    pub progress: Arc<PageProgress>,
}

/// The pages, in their order.
pub struct CheckedPages {
    pages: PageFile,
    has_dictionary: bool,
    peeked: Option<PageHeader>,
}

/// The header of a page.
#[derive(Debug, Default, Clone)]
struct PageHeader {
    kind: i64,
    unpacked_bytes: u64,
    packed_bytes: u64,
    values: u32,
    nulls: u32,
    rows: u32,
    encoding: i64,
    level_encodings: [i64; 2],
    definition_bytes: u32,
    repetition_bytes: u32,
    is_packed: bool,
}

const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const DATA_PAGE_V2: i64 = 3;

impl CheckedPages {
    pub fn new(pages: PageFile) -> Self {
        Self {
            pages,
            has_dictionary: false,
            peeked: None,
        }
    }

    /// The most bytes of a page after unpacking.
    pub fn most_bytes(&self) -> u64 {
        self.pages.most_bytes
    }

    /// The next header that is of a page with values.
    fn next_header(&mut self) -> Result<Option<PageHeader>> {
        if let Some(header) = self.peeked.take() {
            return Ok(Some(header));
        }
        while self.pages.start < self.pages.end {
            let header = self.read_header()?;
            let left = self.pages.end - self.pages.start;
            if header.packed_bytes > left {
                let size = header.packed_bytes;
                return Err(self.bad(&format!("a page of {size} bytes, but {left} are left")));
            }
            if matches!(header.kind, DATA_PAGE | DICTIONARY_PAGE | DATA_PAGE_V2) {
                return Ok(Some(header));
            }
            self.pages.start += header.packed_bytes;
        }
        Ok(None)
    }

    fn read_header(&mut self) -> Result<PageHeader> {
        let left = self.pages.end - self.pages.start;
        let mut size = FIRST_HEADER_BYTES.min(left);
        loop {
            let bytes = self.read(size)?;
            let mut reader = ThriftReader::new(&bytes);
            match PageHeader::read(&mut reader) {
                Ok(header) => {
                    self.pages.start += reader.position().to_u64();
                    return Ok(header);
                }
                Err(ThriftError::Short) if size < left.min(MOST_HEADER_BYTES) => {
                    size = (size * 8).min(left);
                }
                Err(_) => return Err(self.bad("the header of a page is damaged")),
            }
        }
    }

    fn read(&self, size: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; size.to_usize()];
        let read = self.pages.file.read_exact_at(&mut bytes, self.pages.start);
        read.map_err(|error| self.bad(&error.to_string()))?;
        Ok(bytes)
    }

    fn bad(&self, what: &str) -> ParquetError {
        ParquetError::General(format!("byte {}: {what}", self.pages.start))
    }

    fn take_budget(&self, header: &PageHeader) -> Result<()> {
        let is_list = self.pages.column.max_rep_level() > 0;
        let levels = if is_list {
            u64::from(header.values) * BYTES_OF_LEVEL
        } else {
            0
        };
        let needed = header.unpacked_bytes.saturating_add(levels);
        let left = self.pages.progress.left_bytes.load(Relaxed);
        if header.unpacked_bytes > self.pages.most_bytes || needed > left {
            return Err(self.bad(&format!(
                "a page of {} bytes and {} values after unpacking; at most {} bytes are read at once",
                header.unpacked_bytes, header.values, self.pages.most_bytes
            )));
        }
        self.pages.progress.left_bytes.store(left - needed, Relaxed);
        Ok(())
    }

    /// The page without compression. Levels of a version 2 page are never compressed.
    fn unpack(&mut self, header: &PageHeader) -> Result<Bytes> {
        let packed = self.read(header.packed_bytes)?;
        let levels = header.level_bytes();
        let size = header.unpacked_bytes.to_usize();
        if levels > size || levels > packed.len() {
            return Err(self.bad("the levels of a page are larger than the page"));
        }
        if !header.is_packed || self.pages.codec.is_plain() {
            if packed.len() != size {
                return Err(self.bad(&format!("a page of {} bytes claims {size}", packed.len())));
            }
            return Ok(Bytes::from(packed));
        }
        let mut page = Vec::with_capacity(size);
        page.extend_from_slice(&packed[..levels]);
        let unpacked = self.pages.codec.unpack(&packed[levels..], &mut page, size);
        unpacked.map_err(|error| self.bad(&error))?;
        Ok(Bytes::from(page))
    }

    fn page(&mut self, header: PageHeader) -> Result<Page> {
        self.take_budget(&header)?;
        let buf = self.unpack(&header)?;
        let encoding = self.encoding(header.encoding)?;
        if header.kind == DICTIONARY_PAGE {
            self.ensure_dictionary_fits(&header, &buf)?;
            self.has_dictionary = true;
            return Ok(Page::DictionaryPage {
                buf,
                num_values: header.values,
                encoding,
                is_sorted: false,
            });
        }
        self.ensure_values_fit(&header, encoding, &buf)?;
        let progress = &self.pages.progress;
        progress.levels.fetch_add(u64::from(header.values), Relaxed);
        progress
            .batch_rows
            .store(batch_rows(encoding, &buf), Relaxed);
        if header.kind == DATA_PAGE_V2 {
            return Ok(Page::DataPageV2 {
                buf,
                num_values: header.values,
                encoding,
                num_nulls: header.nulls,
                num_rows: header.rows,
                def_levels_byte_len: header.definition_bytes,
                rep_levels_byte_len: header.repetition_bytes,
                is_compressed: false,
                statistics: None,
            });
        }
        Ok(Page::DataPage {
            buf,
            num_values: header.values,
            encoding,
            def_level_encoding: self.encoding(header.level_encodings[0])?,
            rep_level_encoding: self.encoding(header.level_encodings[1])?,
            statistics: None,
        })
    }

    /// The crate makes room for all values that a dictionary claims.
    fn ensure_dictionary_fits(&self, header: &PageHeader, page: &[u8]) -> Result<()> {
        let least_bytes = match self.pages.column.physical_type() {
            Type::INT64 | Type::DOUBLE => 8,
            Type::INT96 => 12,
            Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(self.pages.column.type_length())
                .unwrap_or(0)
                .max(1),
            _ => 4,
        };
        if self.has_dictionary {
            return Err(self.bad("a second dictionary"));
        }
        if u64::from(header.values) * least_bytes > page.len().to_u64() {
            let what = format!(
                "a dictionary of {} bytes claims {} values",
                page.len(),
                header.values
            );
            return Err(self.bad(&what));
        }
        Ok(())
    }

    /// The crate makes room for all lengths that a page with deltas claims, and needs a dictionary where one is used.
    #[expect(deprecated, reason = "old files have bit-packed levels")]
    fn ensure_values_fit(
        &self,
        header: &PageHeader,
        encoding: Encoding,
        page: &[u8],
    ) -> Result<()> {
        let is_dictionary = matches!(
            encoding,
            Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY
        );
        if is_dictionary && !self.has_dictionary {
            return Err(self.bad("a page needs a dictionary, and there is none"));
        }
        if header.level_encodings.contains(&4) && header.kind == DATA_PAGE {
            let has_levels =
                self.pages.column.max_def_level() > 0 || self.pages.column.max_rep_level() > 0;
            debug_assert_eq!(Encoding::BIT_PACKED as i64, 4);
            if has_levels && !self.bit_packed_fits(header, page) {
                return Err(self.bad("the levels of a page are larger than the page"));
            }
        }
        let parts = match encoding {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
            Encoding::DELTA_BYTE_ARRAY => 2,
            _ => return Ok(()),
        };
        let values = self.values_of(header, page);
        let fits =
            values.is_some_and(|bytes| delta::counts_fit(bytes, parts, u64::from(header.values)));
        if fits {
            Ok(())
        } else {
            Err(self.bad("the lengths of values in a page are damaged"))
        }
    }

    fn bit_packed_fits(&self, header: &PageHeader, page: &[u8]) -> bool {
        let bits = |level: i16| u64::from(16 - level.leading_zeros());
        let column = &self.pages.column;
        let all = bits(column.max_def_level()) + bits(column.max_rep_level());
        (u64::from(header.values) * all).div_ceil(8) + 2 <= page.len().to_u64()
    }

    /// The page after its levels.
    fn values_of<'a>(&self, header: &PageHeader, page: &'a [u8]) -> Option<&'a [u8]> {
        if header.kind == DATA_PAGE_V2 {
            return page.get(header.level_bytes()..);
        }
        let column = &self.pages.column;
        let mut rest = page;
        for (level, encoding) in [
            (column.max_rep_level(), header.level_encodings[1]),
            (column.max_def_level(), header.level_encodings[0]),
        ] {
            if level > 0 {
                // Deltas and bit-packed levels come from different times.
                let is_run_length = encoding == 3;
                let (length, after) = rest.split_at_checked(4).filter(|_| is_run_length)?;
                let length = u32::from_le_bytes(length.try_into().ok()?);
                rest = after.get(length.to_usize()..)?;
            }
        }
        Some(rest)
    }

    #[expect(deprecated, reason = "old files have bit-packed levels")]
    fn encoding(&self, number: i64) -> Result<Encoding> {
        Ok(match number {
            0 => Encoding::PLAIN,
            2 => Encoding::PLAIN_DICTIONARY,
            3 => Encoding::RLE,
            4 => Encoding::BIT_PACKED,
            5 => Encoding::DELTA_BINARY_PACKED,
            6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
            7 => Encoding::DELTA_BYTE_ARRAY,
            8 => Encoding::RLE_DICTIONARY,
            9 => Encoding::BYTE_STREAM_SPLIT,
            other => return Err(self.bad(&format!("encoding {other} is not known"))),
        })
    }
}

/// A value of DELTA_BYTE_ARRAY may be as large as the page, and is a copy; others are parts of the page.
fn batch_rows(encoding: Encoding, page: &[u8]) -> u64 {
    if encoding == Encoding::DELTA_BYTE_ARRAY {
        return (COPIED_BYTES / page.len().to_u64().max(1)).clamp(1, BATCH_ROWS);
    }
    BATCH_ROWS
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        while let Some(header) = self.next_header()? {
            let packed_bytes = header.packed_bytes;
            // pyarrow writes such pages; the crate takes one for the end of the column.
            let is_empty = header.kind != DICTIONARY_PAGE && header.values == 0;
            let page = if is_empty {
                None
            } else {
                Some(self.page(header)?)
            };
            self.pages.start += packed_bytes;
            if page.is_some() {
                return Ok(page);
            }
        }
        Ok(None)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        let Some(header) = self.next_header()? else {
            return Ok(None);
        };
        let metadata = PageMetadata {
            num_rows: (header.kind == DATA_PAGE_V2).then_some(header.rows.to_usize()),
            num_levels: (header.kind != DICTIONARY_PAGE).then_some(header.values.to_usize()),
            is_dict: header.kind == DICTIONARY_PAGE,
        };
        self.peeked = Some(header);
        Ok(Some(metadata))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        if let Some(header) = self.next_header()? {
            self.pages.start += header.packed_bytes;
        }
        Ok(())
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageHeader {
    /// What a version 2 page has in front of its values, and does not compress.
    fn level_bytes(&self) -> usize {
        self.definition_bytes.to_usize() + self.repetition_bytes.to_usize()
    }

    fn read(reader: &mut ThriftReader<'_>) -> std::result::Result<Self, ThriftError> {
        let mut header = Self {
            kind: -1,
            is_packed: true,
            ..Self::default()
        };
        let mut last = 0;
        while let Some(field) = reader.field(&mut last)? {
            match (field.id, field.kind) {
                (1, kind::I32) => header.kind = reader.integer()?,
                (2, kind::I32) => header.unpacked_bytes = size(reader.integer()?)?.into(),
                (3, kind::I32) => header.packed_bytes = size(reader.integer()?)?.into(),
                (5 | 7 | 8, kind::STRUCT) => header.read_inner(reader, field.id)?,
                (_, kind) => reader.skip(kind)?,
            }
        }
        Ok(header)
    }

    /// The header of a data page (5), a dictionary (7) or a data page of version 2 (8).
    fn read_inner(
        &mut self,
        reader: &mut ThriftReader<'_>,
        outer: i16,
    ) -> std::result::Result<(), ThriftError> {
        let mut last = 0;
        while let Some(field) = reader.field(&mut last)? {
            match (outer, field.id, field.kind) {
                (_, 1, kind::I32) => self.values = size(reader.integer()?)?,
                (5 | 7, 2, kind::I32) | (8, 4, kind::I32) => self.encoding = reader.integer()?,
                (5, 3, kind::I32) => self.level_encodings[0] = reader.integer()?,
                (5, 4, kind::I32) => self.level_encodings[1] = reader.integer()?,
                (8, 2, kind::I32) => self.nulls = size(reader.integer()?)?,
                (8, 3, kind::I32) => self.rows = size(reader.integer()?)?,
                (8, 5, kind::I32) => self.definition_bytes = size(reader.integer()?)?,
                (8, 6, kind::I32) => self.repetition_bytes = size(reader.integer()?)?,
                (8, 7, kind::FALSE) => self.is_packed = false,
                (_, _, kind) => reader.skip(kind)?,
            }
        }
        Ok(())
    }
}

/// A size or count is a positive number of 32 bits.
fn size(number: i64) -> std::result::Result<u32, ThriftError> {
    let number = i32::try_from(number).ok();
    number
        .and_then(|number| u32::try_from(number).ok())
        .ok_or(ThriftError::Malformed)
}
