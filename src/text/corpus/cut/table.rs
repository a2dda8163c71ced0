//! Finds where rows of a CSV or TSV file begin.
//!
//! Whether a line feed ends a row depends on all quotes before it, so the file is read from its beginning, on one core.
//! The rules are those of csv-core: a quote opens a field only where the field begins, two quotes inside are one, and
//! line ends that follow each other end one row.

use crate::{
    base::num::ToU64,
    text::corpus::{
        Options,
        sequence::{CsvRows, FieldNames},
        skipped_kind::BOM,
        walk::FileEntry,
    },
};
use memchr::{memchr, memchr_iter, memchr3};
use std::{
    fs::File,
    io::{self, Read},
};

const READ_BYTES: usize = 1 << 20;

/// Where a table is cut.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TableCut {
    /// Where the header ends.
    pub header_end: u64,
    /// Where each part begins; the last one is the end of the file.
    pub begins: Vec<RowBegin>,
}

/// Where a row begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowBegin {
    /// The byte of the file.
    pub at: u64,
    /// Its line.
    pub line: u64,
    /// The number of the record.
    pub record: u64,
}

/// Finds the first row that begins behind each wanted place. The error is none if reading the table reports what is wrong.
pub(super) fn cut_table(
    file: File,
    entry: &FileEntry,
    delimiter: u8,
    options: &Options,
    wanted: &[u64],
) -> Result<TableCut, Option<io::Error>> {
    let fields = FieldNames {
        id: &options.fields.id_field,
        text: &options.fields.text_field,
    };
    let whole = entry.open().map_err(Some)?;
    CsvRows::open(whole, delimiter, &fields, options.max_document).map_err(|_| None)?;
    let mut scanner = RowScanner::new(delimiter, wanted);
    scanner.scan(file).map_err(Some)?;
    scanner.finish().ok_or(None)
}

/// What the bytes so far came to.
struct RowScanner<'w> {
    delimiter: u8,
    /// Places that are still to come.
    wanted: &'w [u64],
    /// The bytes, line feeds and rows so far.
    at: u64,
    lines: u64,
    rows: u64,
    is_quoted: bool,
    /// The byte before is a quote inside of a quoted field: another one would be text.
    is_after_quote: bool,
    /// The row has a byte.
    is_in_row: bool,
    last_byte: u8,
    header_end: Option<u64>,
    begins: Vec<RowBegin>,
}

impl<'w> RowScanner<'w> {
    fn new(delimiter: u8, wanted: &'w [u64]) -> Self {
        Self {
            delimiter,
            wanted,
            at: 0,
            lines: 0,
            rows: 0,
            is_quoted: false,
            is_after_quote: false,
            is_in_row: false,
            last_byte: b'\n',
            header_end: None,
            begins: vec![RowBegin {
                at: 0,
                line: 1,
                record: 1,
            }],
        }
    }

    fn scan(&mut self, mut input: impl Read) -> io::Result<()> {
        let mut head = Vec::new();
        input
            .by_ref()
            .take(BOM.len().to_u64())
            .read_to_end(&mut head)?;
        if head == BOM {
            self.at = BOM.len().to_u64();
        } else {
            self.take(&head);
        }
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match input.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(0) => return Ok(()),
                Ok(count) => self.take(&buffer[..count]),
            }
        }
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let used = if self.is_after_quote {
                self.is_after_quote = false;
                // Two quotes are text; anything else is behind the end of the quoted text.
                self.is_quoted = bytes[0] == b'"';
                usize::from(self.is_quoted)
            } else if self.is_quoted {
                self.take_quoted(bytes)
            } else {
                self.take_unquoted(bytes)
            };
            if let Some(&last) = bytes[..used].last() {
                self.last_byte = last;
            }
            self.at += used.to_u64();
            bytes = &bytes[used..];
            self.note_begin();
        }
    }

    /// Up to and with the quote that may end the text.
    fn take_quoted(&mut self, bytes: &[u8]) -> usize {
        let end = memchr(b'"', bytes);
        self.is_after_quote = end.is_some();
        let used = end.map_or(bytes.len(), |end| end + 1);
        self.lines += memchr_iter(b'\n', &bytes[..used]).count().to_u64();
        used
    }

    /// Up to and with the next quote or line end.
    fn take_unquoted(&mut self, bytes: &[u8]) -> usize {
        let Some(found) = memchr3(b'"', b'\n', b'\r', bytes) else {
            self.is_in_row = true;
            return bytes.len();
        };
        self.is_in_row |= found > 0;
        if bytes[found] == b'"' {
            let before = match found.checked_sub(1) {
                Some(before) => bytes[before],
                None => self.last_byte,
            };
            self.is_quoted = [self.delimiter, b'\n', b'\r'].contains(&before);
            self.is_in_row = true;
        } else {
            self.rows += u64::from(self.is_in_row);
            self.is_in_row = false;
            self.lines += u64::from(bytes[found] == b'\n');
        }
        found + 1
    }

    /// Notes a border behind a line feed that ends a row, if a part is wanted from here on.
    fn note_begin(&mut self) {
        let is_border = self.last_byte == b'\n' && !self.is_quoted && !self.is_in_row;
        if !is_border || self.rows == 0 {
            return;
        }
        let Some(_) = self.header_end else {
            self.header_end = Some(self.at).filter(|_| self.rows == 1);
            return;
        };
        let passed = self.wanted.partition_point(|&wanted| wanted <= self.at);
        if passed > 0 {
            self.wanted = &self.wanted[passed..];
            self.begins.push(RowBegin {
                at: self.at,
                line: self.lines + 1,
                record: self.rows,
            });
        }
    }

    /// The borders; none if the last quote never ends, or there is no header of its own.
    fn finish(mut self) -> Option<TableCut> {
        if self.is_quoted && !self.is_after_quote {
            return None;
        }
        let rows = self.rows + u64::from(self.is_in_row);
        let end = RowBegin {
            at: self.at,
            line: self.lines + 1,
            record: rows,
        };
        // A part without a row would be one too many.
        if self.begins.last().is_some_and(|last| last.record == rows) && self.begins.len() > 1 {
            self.begins.pop();
        }
        self.begins.push(end);
        Some(TableCut {
            header_end: self.header_end?,
            begins: self.begins,
        })
    }
}
