//! Tables of text: a header and a row a record, separated by commas, tabs or another byte.
//!
//! csv-core finds fields and rows; this file owns the buffers, so that a row beyond the limit is passed over without
//! being held, and a quote that never ends is named.

use super::{FieldNames, RecordFault, RecordSequence, SequenceRecord, checked_text, first_names};
use crate::base::num::{ToU64, ToUsize};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use std::io::{BufRead, BufReader, Cursor, Read};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const INPUT_BYTES: usize = 64 << 10;
/// A header is no document: one beyond this is not a table.
const MOST_HEADER_BYTES: u64 = 16 << 20;
const FIRST_ROW_BYTES: usize = 4 << 10;
const MOST_COLUMNS: usize = 1 << 20;

/// The rows of a CSV or TSV file. Memory: one row, of at most the given size, and an input buffer.
pub struct CsvRows {
    input: BufReader<Box<dyn Read + Send>>,
    parser: Reader,
    row: CsvRow,
    columns: usize,
    text_column: usize,
    id_column: Option<usize>,
    names: Vec<String>,
    most_bytes: u64,
    number: u64,
    /// The line that the parser has come to.
    line: u64,
    /// The parser was given a line feed after the end of the input.
    is_end_fed: bool,
    has_ended: bool,
}

/// The fields of a row, one after the other in one buffer.
#[derive(Default)]
struct CsvRow {
    bytes: Vec<u8>,
    /// Where each field ends in `bytes`.
    ends: Vec<usize>,
    byte_count: usize,
    field_count: usize,
    /// The line of the file where the row starts.
    line: u64,
    /// Of a row that is too large: the line of the field where that was seen.
    large_field_line: Option<u64>,
    is_too_large: bool,
}

/// What reading a row came to.
enum RowRead {
    Row,
    End,
}

impl CsvRows {
    /// Reads the header. The error tells which columns there are, if the text is in none of them.
    pub fn open(
        input: impl Read + Send + 'static,
        delimiter: u8,
        fields: &FieldNames<'_>,
        most_bytes: u64,
    ) -> Result<Self, RecordFault> {
        let mut rows = Self {
            input: BufReader::with_capacity(INPUT_BYTES, without_mark(input)?),
            parser: ReaderBuilder::new().delimiter(delimiter).build(),
            row: CsvRow::new(),
            columns: 0,
            text_column: 0,
            id_column: None,
            names: Vec::new(),
            most_bytes: MOST_HEADER_BYTES,
            number: 0,
            line: 1,
            is_end_fed: false,
            has_ended: false,
        };
        match rows.read_row().map_err(RecordFault::Bad)? {
            RowRead::End => rows.has_ended = true,
            RowRead::Row => rows.set_header(fields)?,
        }
        rows.most_bytes = most_bytes;
        Ok(rows)
    }

    /// Goes on as if the next row were another than the first: `line` is where it starts, `number` is its number.
    pub fn starting_at_row(mut self, line: u64, number: u64) -> Self {
        self.line = line;
        self.number = number.saturating_sub(1);
        self
    }

    fn set_header(&mut self, fields: &FieldNames<'_>) -> Result<(), RecordFault> {
        if self.row.is_too_large {
            let what = format!("the header row is larger than {MOST_HEADER_BYTES} bytes");
            return Err(RecordFault::Bad(what));
        }
        self.columns = self.row.field_count;
        let names: Vec<_> = (0..self.columns)
            .map(|at| String::from_utf8_lossy(self.row.field(at)).into_owned())
            .collect();
        self.names = first_names(names.iter());
        let missing = || RecordFault::NoText {
            fields: self.names.clone(),
        };
        self.text_column = find_column(&names, fields.text)?.ok_or_else(missing)?;
        self.id_column = find_column(&names, fields.id)?;
        Ok(())
    }

    /// Reads the next row into the buffer.
    fn read_row(&mut self) -> Result<RowRead, String> {
        self.row.clear();
        self.skip_line_ends()?;
        self.row.line = self.line;
        loop {
            let input = self.input.fill_buf();
            let input = input.map_err(|error| format!("line {}: {error}", self.line))?;
            // csv-core ends the last row wherever the input ends. A line feed ends it as well, but not inside quotes,
            // where it is text: that tells a quote that never ends.
            let is_end = input.is_empty();
            let input = if is_end && !self.is_end_fed {
                b"\n"
            } else {
                input
            };
            let (bytes, ends) = self.row.free();
            let (result, used, written, ended) = self.parser.read_record(input, bytes, ends);
            if is_end {
                self.is_end_fed |= used > 0;
                if result == ReadRecordResult::InputEmpty && written > 0 {
                    let line = self.row.open_field_line();
                    return Err(format!("line {line}: the quote that opens here never ends"));
                }
            } else {
                self.line += line_feeds(&input[..used]);
                self.input.consume(used);
            }
            self.row.byte_count += written;
            self.row.field_count += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.row.grow(self.most_bytes),
                ReadRecordResult::OutputEndsFull => self.row.grow_ends()?,
                ReadRecordResult::Record => return Ok(RowRead::Row),
                ReadRecordResult::End => return Ok(RowRead::End),
            }
        }
    }

    /// Passes over empty lines and the line feed of CR LF, so that the line of the row is right.
    fn skip_line_ends(&mut self) -> Result<(), String> {
        loop {
            let input = self.input.fill_buf();
            let input = input.map_err(|error| format!("line {}: {error}", self.line))?;
            let is_end = |byte: &&u8| matches!(byte, b'\r' | b'\n');
            let used = input.iter().take_while(is_end).count();
            let is_done = used < input.len() || input.is_empty();
            self.line += line_feeds(&input[..used]);
            self.input.consume(used);
            if is_done {
                return Ok(());
            }
        }
    }

    fn record(&mut self) -> SequenceRecord {
        self.number += 1;
        SequenceRecord {
            number: self.number,
            line: Some(self.row.line),
            id: self.id(),
            text: self.text(),
        }
    }

    /// An empty cell is how a table says that there is none.
    fn id(&self) -> Option<String> {
        let id = self.id_column.filter(|_| self.is_complete())?;
        let id = std::str::from_utf8(self.row.field(id)).ok()?;
        (!id.is_empty()).then(|| id.to_owned())
    }

    fn text(&self) -> Result<String, RecordFault> {
        let text = self.row.field(self.text_column);
        if self.row.is_too_large || text.len().to_u64() > self.most_bytes {
            return Err(RecordFault::TooLarge);
        }
        if !self.is_complete() {
            return Err(RecordFault::Bad(format!(
                "the row has {} fields, the header has {}",
                self.row.field_count, self.columns
            )));
        }
        if let Some(id) = self.id_column
            && std::str::from_utf8(self.row.field(id)).is_err()
        {
            return Err(RecordFault::Bad("the id is not UTF-8".to_owned()));
        }
        checked_text(text)
    }

    /// A row with fields too few or too many has moved columns: none of them can be trusted.
    fn is_complete(&self) -> bool {
        !self.row.is_too_large && self.row.field_count == self.columns
    }
}

impl RecordSequence for CsvRows {
    fn next_record(&mut self) -> Option<Result<SequenceRecord, String>> {
        if self.has_ended {
            return None;
        }
        match self.read_row() {
            Ok(RowRead::Row) => Some(Ok(self.record())),
            Ok(RowRead::End) => {
                self.has_ended = true;
                None
            }
            Err(error) => {
                self.has_ended = true;
                Some(Err(error))
            }
        }
    }
}

impl CsvRow {
    fn new() -> Self {
        Self {
            bytes: vec![0; FIRST_ROW_BYTES],
            ends: vec![0; 64],
            ..Self::default()
        }
    }

    fn clear(&mut self) {
        self.byte_count = 0;
        self.field_count = 0;
        self.large_field_line = None;
        self.is_too_large = false;
    }

    /// Room for more of the row.
    fn free(&mut self) -> (&mut [u8], &mut [usize]) {
        (
            &mut self.bytes[self.byte_count..],
            &mut self.ends[self.field_count..],
        )
    }

    /// Makes room, or forgets the start of a row that is too large already.
    fn grow(&mut self, most_bytes: u64) {
        let is_full = self.bytes.len().to_u64() >= most_bytes;
        if is_full {
            // The line of the last field stays known: it is where a quote that never ends was opened.
            self.large_field_line = Some(self.open_field_line());
            self.is_too_large = true;
            self.byte_count = 0;
            self.field_count = 0;
        } else {
            let twice = (self.bytes.len() * 2).to_u64().min(most_bytes);
            self.bytes.resize(twice.to_usize(), 0);
        }
    }

    fn grow_ends(&mut self) -> Result<(), String> {
        if self.ends.len() >= MOST_COLUMNS {
            let line = self.line;
            return Err(format!("line {line}: a row of over {MOST_COLUMNS} fields"));
        }
        self.ends.resize(self.ends.len() * 2, 0);
        Ok(())
    }

    fn field(&self, at: usize) -> &[u8] {
        let end = |at: usize| self.ends[..self.field_count].get(at).copied();
        let start = at.checked_sub(1).and_then(end).unwrap_or(0);
        end(at)
            .and_then(|end| self.bytes.get(start..end))
            .unwrap_or_default()
    }

    /// The line where the field that has not ended yet starts.
    fn open_field_line(&self) -> u64 {
        let done = self.ends[..self.field_count].last().copied().unwrap_or(0);
        let in_row = || self.line + line_feeds(self.bytes.get(..done).unwrap_or_default());
        self.large_field_line.unwrap_or_else(in_row)
    }
}

fn line_feeds(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count().to_u64()
}

fn without_mark(
    mut input: impl Read + Send + 'static,
) -> Result<Box<dyn Read + Send>, RecordFault> {
    let mut start = Vec::new();
    let read = (&mut input).take(3).read_to_end(&mut start);
    read.map_err(|error| RecordFault::Bad(error.to_string()))?;
    if start == BYTE_ORDER_MARK {
        start.clear();
    }
    Ok(Box::new(Cursor::new(start).chain(input)))
}

/// The column of this name, which must be the only one.
fn find_column(names: &[String], name: &str) -> Result<Option<usize>, RecordFault> {
    let mut found = (0..names.len()).filter(|&at| names[at] == name);
    let Some(first) = found.next() else {
        return Ok(None);
    };
    match found.next() {
        None => Ok(Some(first)),
        Some(second) => Err(RecordFault::Bad(format!(
            "columns {} and {} are both named {name:?}; rename one of them",
            first + 1,
            second + 1
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: FieldNames<'static> = FieldNames {
        id: "id",
        text: "text",
    };

    /// The input, a byte at a time.
    struct Trickle(std::io::Cursor<Vec<u8>>);

    impl Read for Trickle {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let most = buffer.len().min(1);
            self.0.read(&mut buffer[..most])
        }
    }

    fn open(csv: &[u8], most_bytes: u64) -> Result<CsvRows, RecordFault> {
        let input = std::io::Cursor::new(csv.to_vec());
        CsvRows::open(Trickle(input), b',', &FIELDS, most_bytes)
    }

    /// Each row as `number:line:id:text`, or what is wrong with it.
    fn rows_within(csv: &[u8], most_bytes: u64) -> Vec<String> {
        let mut rows = open(csv, most_bytes).unwrap();
        let mut shown = Vec::new();
        while let Some(row) = rows.next_record() {
            shown.push(match row {
                Err(error) => error,
                Ok(row) => {
                    let (id, line) = (row.id.unwrap_or_default(), row.line.unwrap());
                    match row.text {
                        Ok(text) => format!("{}:{line}:{id}:{text}", row.number),
                        Err(fault) => format!("{}:{line}:{id}:{fault:?}", row.number),
                    }
                }
            });
        }
        assert!(rows.next_record().is_none());
        shown
    }

    fn rows(csv: &str) -> Vec<String> {
        rows_within(csv.as_bytes(), 1 << 20)
    }

    #[test]
    fn quotes_line_breaks_and_the_mark() {
        assert_eq!(
            rows("\u{feff}id,text\r\na,\"one, \"\"two\"\"\r\nthree\"\r\n\r\nb,four\r\n,five"),
            ["1:2:a:one, \"two\"\r\nthree", "2:5:b:four", "3:6::five"]
        );
        assert_eq!(rows("text,x\nt,1\n"), ["1:2::t"]);
        assert_eq!(rows("\n\nid,text\n\na,t"), ["1:5:a:t"]);
    }

    #[test]
    fn nothing_but_a_header_or_less() {
        assert!(rows("").is_empty());
        assert!(rows("\u{feff}").is_empty());
        assert!(rows("text").is_empty());
    }

    #[test]
    fn rows_that_do_not_fit_the_header() {
        assert_eq!(
            rows("id,text\na\nb,t,u\nc,v\n"),
            [
                "1:2::Bad(\"the row has 1 fields, the header has 2\")",
                "2:3::Bad(\"the row has 3 fields, the header has 2\")",
                "3:4:c:v"
            ]
        );
    }

    #[test]
    fn columns_that_are_missing_or_there_twice() {
        let fields = vec!["id".to_owned(), "body".to_owned()];
        let missing = open(b"id,body\na,b\n", 99).err();
        assert_eq!(missing, Some(RecordFault::NoText { fields }));
        let what = "columns 1 and 3 are both named \"text\"; rename one of them".to_owned();
        let twice = open(b"text,id,text\n", 99).err();
        assert_eq!(twice, Some(RecordFault::Bad(what)));
        assert_eq!(rows("x,x,text\n1,2,t\n"), ["1:2::t"]);
    }

    #[test]
    fn quotes_that_never_end() {
        let never = ["line 4: the quote that opens here never ends"];
        assert_eq!(rows("id,text\n\"a\n\n\",\"b\nc,d\n")[..], never);
        assert_eq!(
            rows_within(
                b"id,text\n\"a\n\n\",\"b\nc,ddddddddddddddddddddddddddd\n",
                16
            )[..],
            never
        );
        assert_eq!(
            rows("id,text\na,\"")[..],
            ["line 2: the quote that opens here never ends"]
        );
        assert_eq!(rows("id,text\na,\"\""), ["1:2:a:"]);
        assert_eq!(rows("id,text\na,5\" pipe"), ["1:2:a:5\" pipe"]);
    }

    #[test]
    fn rows_beyond_the_limit_are_passed_over() {
        let long = "x".repeat(100_000);
        assert_eq!(
            rows_within(format!("id,text\na,\"{long}\n\"\nb,t\n").as_bytes(), 5_000),
            ["1:2::TooLarge", "2:4:b:t"]
        );
    }

    #[test]
    fn bytes_that_are_not_utf8() {
        assert_eq!(
            rows_within(b"id,text\na,caf\xe9\n\xe9,t\nb,t", 99),
            [
                "1:2:a:NotUtf8 { what: \"byte 0xe9 at byte 3 of the text is not UTF-8\", bytes: [99, 97, 102, 233] }",
                "2:3::Bad(\"the id is not UTF-8\")",
                "3:4:b:t"
            ]
        );
    }
}
