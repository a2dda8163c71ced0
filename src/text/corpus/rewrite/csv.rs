//! Tables of text: a header and a row a record. Rows that stay as they are keep their quotes and line ends.
//!
//! csv-core finds where rows end, as it does when a table is read, so that both count the same rows: lines without a byte
//! are none. Only a row that is changed is held in memory and taken apart.

use super::{
    CopyError, CopyStart, NOTE_FIELD, PackedWriter, RecordChange, RecordCopier, RecordFate,
    RecordFates, lines::cut_bytes,
};
use crate::text::corpus::unpack::Input;
use csv_core::{ReadFieldResult, ReadRecordResult, Reader, ReaderBuilder};
use std::{
    io::{BufRead, Write},
    ops::Range,
};

/// Copies the rows of a CSV or TSV file.
pub struct CsvCopier {
    /// What stands between two fields.
    pub delimiter: u8,
    /// The column with the text.
    pub text_column: String,
}

impl RecordCopier for CsvCopier {
    fn copy(
        &self,
        input: Input,
        start: CopyStart,
        fates: &mut dyn RecordFates,
        mut out: PackedWriter<'_>,
    ) -> Result<(), CopyError> {
        let mut rows = CsvScanner::new(input, self.delimiter);
        let (mut row, mut changed) = (Vec::new(), Vec::new());
        let has_notes = fates.has_notes();
        let mut columns = None;
        if let Some(header) = &start.header {
            columns = Some(CsvHeader::parse(header, self, has_notes)?);
        } else if rows.pass_blank_lines(&mut out)? {
            rows.pass_row(&mut |bytes| {
                row.extend_from_slice(bytes);
                Ok(())
            })?;
            let header = CsvHeader::parse(&row, self, has_notes)?;
            header.write(&row, self, &mut changed);
            out.write_all(&changed).map_err(CopyError::Output)?;
            columns = Some(header);
        }
        for number in start.record.. {
            if !rows.pass_blank_lines(&mut out)? {
                break;
            }
            let change = match fates.fate(number)? {
                RecordFate::Drop => {
                    rows.pass_row(&mut |_| Ok(()))?;
                    continue;
                }
                RecordFate::Keep if !has_notes => {
                    rows.pass_row(&mut |bytes| out.write_all(bytes).map_err(CopyError::Output))?;
                    continue;
                }
                RecordFate::Keep => RecordChange::default(),
                RecordFate::Change(change) => change,
            };
            row.clear();
            changed.clear();
            rows.pass_row(&mut |bytes| {
                row.extend_from_slice(bytes);
                Ok(())
            })?;
            let Some(header) = &mut columns else { break };
            header
                .change(&row, self, &change, &mut changed)
                .map_err(|what| CopyError::Input(format!("row {number}: {what}")))?;
            out.write_all(&changed).map_err(CopyError::Output)?;
        }
        out.finish().map_err(CopyError::Output)
    }
}

/// Finds where rows end. Memory: the buffer of the input.
struct CsvScanner {
    input: Input,
    parser: Reader,
    /// Fields are not looked at here.
    unquoted: [u8; 4096],
    ends: [usize; 256],
}

impl CsvScanner {
    fn new(input: Input, delimiter: u8) -> Self {
        Self {
            input,
            parser: ReaderBuilder::new().delimiter(delimiter).build(),
            unquoted: [0; 4096],
            ends: [0; 256],
        }
    }

    /// Copies line ends, up to the next row; false if there is none.
    fn pass_blank_lines(&mut self, out: &mut PackedWriter<'_>) -> Result<bool, CopyError> {
        loop {
            let input = self.input.fill_buf();
            let input = input.map_err(|error| CopyError::reading(&error))?;
            let is_end = |byte: &&u8| matches!(byte, b'\r' | b'\n');
            let blank = input.iter().take_while(is_end).count();
            let has_row = blank < input.len();
            let is_done = has_row || input.is_empty();
            out.write_all(&input[..blank]).map_err(CopyError::Output)?;
            self.input.consume(blank);
            if is_done {
                return Ok(has_row);
            }
        }
    }

    /// Passes the bytes of a row on, with those of its line end.
    fn pass_row(
        &mut self,
        each: &mut dyn FnMut(&[u8]) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        loop {
            let input = self.input.fill_buf();
            let input = input.map_err(|error| CopyError::reading(&error))?;
            // Behind the end of the file, a line feed tells a quote that never ends, where it would be text.
            let is_end = input.is_empty();
            let bytes = if is_end { b"\n" } else { input };
            let (result, used, ..) =
                self.parser
                    .read_record(bytes, &mut self.unquoted, &mut self.ends);
            let is_row = result == ReadRecordResult::Record;
            let ends_in_return = is_row && bytes[..used].ends_with(b"\r");
            if is_end {
                if is_row {
                    return Ok(());
                }
                if result == ReadRecordResult::InputEmpty {
                    let what = "the quote of the last row never ends";
                    return Err(CopyError::Input(what.to_owned()));
                }
            } else {
                each(&input[..used])?;
                self.input.consume(used);
            }
            if ends_in_return {
                return self.pass_line_feed(each);
            }
            if is_row {
                return Ok(());
            }
        }
    }

    /// The line feed of CR LF.
    fn pass_line_feed(
        &mut self,
        each: &mut dyn FnMut(&[u8]) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        let input = self.input.fill_buf();
        let input = input.map_err(|error| CopyError::reading(&error))?;
        if input.first() == Some(&b'\n') {
            each(b"\n")?;
            self.input.consume(1);
        }
        Ok(())
    }
}

/// What the columns are.
struct CsvHeader {
    columns: usize,
    text: Option<usize>,
    /// The column for notes, if rows get one: one after the last, if it is new.
    note: Option<usize>,
    parser: Reader,
}

impl CsvHeader {
    fn parse(row: &[u8], table: &CsvCopier, has_notes: bool) -> Result<Self, CopyError> {
        let (content, _) = split_line_end(row);
        let mut parser = ReaderBuilder::new().delimiter(table.delimiter).build();
        let names = CsvFields::parse(content, &mut parser);
        let find = |name: &str| (0..names.len()).find(|&at| names.value(at) == name.as_bytes());
        if has_notes
            && find(NOTE_FIELD)
                .is_some_and(|note| names.value(note) == table.text_column.as_bytes())
        {
            let what =
                format!("the text is in column {NOTE_FIELD}, which notes would replace; rename it");
            return Err(CopyError::Input(what));
        }
        Ok(Self {
            columns: names.len(),
            text: find(&table.text_column),
            note: has_notes.then(|| find(NOTE_FIELD).unwrap_or(names.len())),
            parser,
        })
    }

    /// Appends the header row, with a column for notes if there is none yet.
    fn write(&self, row: &[u8], table: &CsvCopier, out: &mut Vec<u8>) {
        let (content, line_end) = split_line_end(row);
        out.extend_from_slice(content);
        if self.note == Some(self.columns) {
            out.push(table.delimiter);
            out.extend_from_slice(NOTE_FIELD.as_bytes());
        }
        out.extend_from_slice(line_end);
    }

    /// Appends a row with its changes.
    fn change(
        &mut self,
        row: &[u8],
        table: &CsvCopier,
        change: &RecordChange<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let (content, line_end) = split_line_end(row);
        let fields = CsvFields::parse(content, &mut self.parser);
        let is_complete = fields.len() == self.columns;
        let note = self.note.map(|at| (at, change.note.unwrap_or_default()));
        if change.note.is_some() && note.is_none() {
            return Err("a note for a table without a column for notes".to_owned());
        }
        if !change.cuts.is_empty() && !is_complete {
            let found = fields.len();
            let expected = self.columns;
            return Err(format!(
                "the row has {found} fields, the header has {expected}"
            ));
        }
        let text = self.text.filter(|_| !change.cuts.is_empty());
        if text.is_none() && !change.cuts.is_empty() {
            return Err(format!("there is no column {:?}", table.text_column));
        }
        let mut cut = Vec::new();
        for at in 0..fields.len() {
            if at > 0 {
                out.push(table.delimiter);
            }
            let written = &content[fields.written(at)];
            if text == Some(at) {
                cut_bytes(fields.value(at), change.cuts, &mut cut);
                // A row of one empty field would be a blank line, which is no row.
                let must_quote = written.starts_with(b"\"") || self.columns == 1;
                write_field(&cut, table.delimiter, must_quote, out);
            } else if let Some((_, note)) = note.filter(|&(column, _)| column == at && is_complete)
            {
                write_field(note.as_bytes(), table.delimiter, false, out);
            } else {
                out.extend_from_slice(written);
            }
        }
        if let Some((_, note)) = note.filter(|&(column, _)| column == self.columns) {
            out.push(table.delimiter);
            write_field(note.as_bytes(), table.delimiter, false, out);
        }
        out.extend_from_slice(line_end);
        Ok(())
    }
}

/// The fields of one row, as they are written and what they stand for.
#[derive(Default)]
struct CsvFields {
    values: Vec<u8>,
    /// Where each field ends in `values`.
    ends: Vec<usize>,
    written: Vec<Range<usize>>,
}

impl CsvFields {
    /// Takes a row without its line end apart.
    fn parse(row: &[u8], parser: &mut Reader) -> Self {
        parser.reset();
        // A parser that has begun takes no byte-order mark away: here it would be text.
        parser.read_field(b"\n", &mut []);
        let mut fields = Self::default();
        let (mut at, mut start, mut filled) = (0, 0, 0);
        // What a row stands for is never longer than the row.
        fields.values.resize(row.len() + 1, 0);
        loop {
            let (result, used, written) =
                parser.read_field(&row[at..], &mut fields.values[filled..]);
            let has_ended = at == row.len();
            at += used;
            filled += written;
            match result {
                ReadFieldResult::Field { record_end } => {
                    fields.ends.push(filled);
                    fields.written.push(start..at - usize::from(!record_end));
                    start = at;
                    if record_end {
                        return fields;
                    }
                }
                ReadFieldResult::InputEmpty if !has_ended => {}
                _ => return fields,
            }
        }
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn written(&self, at: usize) -> Range<usize> {
        self.written[at].clone()
    }

    fn value(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.values[start..self.ends[at]]
    }
}

/// Splits a row at its line end.
fn split_line_end(row: &[u8]) -> (&[u8], &[u8]) {
    let content = row.strip_suffix(b"\n").unwrap_or(row);
    let content = content.strip_suffix(b"\r").unwrap_or(content);
    row.split_at(content.len())
}

/// Appends a field, between quotes where RFC 4180 demands them.
fn write_field(value: &[u8], delimiter: u8, must_quote: bool, out: &mut Vec<u8>) {
    let needs_quotes = |&byte: &u8| byte == delimiter || matches!(byte, b'"' | b'\r' | b'\n');
    if !must_quote && !value.iter().any(needs_quotes) {
        out.extend_from_slice(value);
        return;
    }
    out.push(b'"');
    for &byte in value {
        out.push(byte);
        if byte == b'"' {
            out.push(byte);
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::corpus::{
        rewrite::tests::{Draw, Fates, any_draw, copied, drawn_fate},
        sequence::{CsvRows, FieldNames, RecordSequence},
    };
    use proptest::prelude::*;

    fn table(delimiter: u8) -> CsvCopier {
        CsvCopier {
            delimiter,
            text_column: "text".to_owned(),
        }
    }

    fn dropped(csv: &str, records: &[u64]) -> String {
        let fates = Fates::dropping(records.iter().copied());
        let out = copied(&table(b','), csv.as_bytes(), 3, &fates).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rows_go_with_their_line_ends() {
        let csv = "\r\nid,text\r\n\n1,\"a\r\n\"\"b\"\r\n\n2,b\n3,c";
        assert_eq!(dropped(csv, &[]), csv);
        assert_eq!(dropped(csv, &[1]), "\r\nid,text\r\n\n\n2,b\n3,c");
        assert_eq!(
            dropped(csv, &[2, 3]),
            "\r\nid,text\r\n\n1,\"a\r\n\"\"b\"\r\n\n"
        );
        assert_eq!(dropped("id,text\r1,a\r2,b\r", &[1]), "id,text\r2,b\r");
        assert_eq!(dropped("", &[1]), "");
        assert_eq!(dropped("id,text", &[1]), "id,text");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let failed =
            |csv: &str, fates: &Fates| copied(&table(b','), csv.as_bytes(), 3, fates).unwrap_err();
        assert_eq!(
            failed("id,text\n1,\"a\n", &Fates::default()),
            "the quote of the last row never ends"
        );
        let mut cut = Fates::default();
        let fate = cut.of.entry(1).or_default();
        fate.cuts = vec![crate::text::stream::Span { start: 0, end: 1 }];
        assert_eq!(
            failed("id,text\n1\n", &cut),
            "row 1: the row has 1 fields, the header has 2"
        );
        assert_eq!(
            failed("id\n1\n", &cut),
            "row 1: there is no column \"text\""
        );
        cut.of.entry(1).or_default().note = Some("1".to_owned());
        assert_eq!(
            failed("id,text\n1,a\n", &cut),
            "row 1: a note for a table without a column for notes"
        );
    }

    #[test]
    fn a_text_that_is_cut_to_nothing_is_still_a_row() {
        let mut fates = Fates::default();
        let fate = fates.of.entry(1).or_default();
        fate.cuts = vec![crate::text::stream::Span { start: 0, end: 3 }];
        let cut = |csv: &str| copied(&table(b','), csv.as_bytes(), 5, &fates).unwrap();
        assert_eq!(cut("text\nabc\ndef\n"), b"text\n\"\"\ndef\n");
        assert_eq!(cut("text,b\nabc,\n"), b"text,b\n,\n");
        // A byte-order mark that does not begin the file is text.
        assert_eq!(cut("text,b\n\u{feff}x,\n"), b"text,b\nx,\n");
    }

    /// A field as a program may write it.
    fn written(value: &str, delimiter: u8, is_quoted: bool) -> Vec<u8> {
        let mut out = Vec::new();
        write_field(value.as_bytes(), delimiter, is_quoted, &mut out);
        out
    }

    fn read(csv: &[u8], delimiter: u8, text: &str) -> Vec<(u64, Option<String>, String)> {
        let fields = FieldNames { id: "id", text };
        let input = std::io::Cursor::new(csv.to_vec());
        let mut rows = CsvRows::open(input, delimiter, &fields, 1 << 20)
            .ok()
            .unwrap();
        std::iter::from_fn(|| rows.next_record())
            .map(Result::unwrap)
            .map(|row| (row.number, row.id, row.text.unwrap()))
            .collect()
    }

    const CELL: &str = "[ab\",\t\r\n é]{0,6}";
    type DrawnRow = ([String; 3], [bool; 3], Draw, bool, u8);

    proptest! {
        #[test]
        fn kept_rows_keep_their_bytes(
            rows in prop::collection::vec((prop::array::uniform3(CELL), any::<[bool; 3]>(), any_draw(), any::<bool>(), 0_u8..4), 0..8),
            text_at in 0_usize..3,
            is_tsv: bool,
            has_notes: bool,
            has_old_notes: bool,
            piece_bytes in 1_usize..30,
        ) {
            let rows: Vec<DrawnRow> = rows;
            let delimiter = if is_tsv { b'\t' } else { b',' };
            let mut names = ["id", if has_old_notes { "dedup" } else { "more" }];
            if text_at == 2 {
                names.reverse();
            }
            let mut names = names.to_vec();
            names.insert(text_at, "text");
            let note_at = names.iter().position(|&name| name == "dedup").unwrap_or(3);
            let line = |cells: &[Vec<u8>], end: &str| [cells.join(&delimiter), end.as_bytes().to_vec()].concat();
            let header: Vec<_> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            let mut csv = line(&header, "\n");
            let mut noted = header;
            if has_notes && note_at == 3 {
                noted.push(b"dedup".to_vec());
            }
            let mut expected = line(&noted, "\n");
            let mut fates = Fates { has_notes, ..Fates::default() };
            let mut values = Vec::new();
            for (number, (cells, quotes, draw, is_crlf, blank)) in rows.iter().enumerate() {
                let number = number as u64 + 1;
                let blank = ["", "\n", "\r\n", "\n\r\n"][usize::from(*blank)];
                let is_last = number as usize == rows.len();
                let end = match (is_crlf, is_last) { (true, true) => "", (true, false) => "\r\n", _ => "\n" };
                let mut cells_written: Vec<_> = cells.iter().zip(quotes).map(|(cell, &quote)| written(cell, delimiter, quote)).collect();
                csv.extend_from_slice(blank.as_bytes());
                csv.extend(line(&cells_written, end));
                expected.extend_from_slice(blank.as_bytes());
                let fate = drawn_fate(&cells[text_at], *draw, has_notes);
                let (is_dropped, note, cut) = fate.as_ref().map_or((false, None, cells[text_at].clone()), |fate| {
                    (fate.is_dropped, fate.note.clone(), fate.cut(&cells[text_at]))
                });
                if cut != cells[text_at] {
                    cells_written[text_at] = written(&cut, delimiter, quotes[text_at] || cells_written[text_at].starts_with(b"\""));
                }
                if has_notes {
                    cells_written.resize(3.max(note_at + 1), Vec::new());
                    cells_written[note_at] = written(&note.unwrap_or_default(), delimiter, false);
                }
                if !is_dropped {
                    expected.extend(line(&cells_written, end));
                    values.push(cut);
                }
                fates.of.extend(fate.map(|fate| (number, fate)));
            }
            let found = copied(&table(delimiter), &csv, piece_bytes, &fates).unwrap();
            prop_assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(&expected));
            let texts: Vec<_> = read(&found, delimiter, "text").into_iter().map(|(_, _, text)| text).collect();
            prop_assert_eq!(texts, values);
            // The numbers are those of reading.
            let numbers: Vec<_> = read(&csv, delimiter, "text").into_iter().map(|(number, ..)| number).collect();
            prop_assert_eq!(numbers, (1..=rows.len() as u64).collect::<Vec<_>>());
        }

        /// Whatever is in a table, the rows that are read from the copy are those that were kept.
        #[test]
        fn any_bytes_are_counted_as_in_reading(csv in "id,text\n[ab\",\r\n]{0,40}", dropped in prop::collection::btree_set(1_u64..9, 0..5), piece_bytes in 1_usize..9) {
            let rows = |csv: &[u8]| {
                let fields = FieldNames { id: "id", text: "text" };
                let mut rows = CsvRows::open(std::io::Cursor::new(csv.to_vec()), b',', &fields, 1 << 20).ok().unwrap();
                let rows: Result<Vec<_>, _> = std::iter::from_fn(|| rows.next_record()).collect();
                rows.map(|rows| rows.into_iter().map(|row| (row.number, row.id, row.text)).collect::<Vec<_>>())
            };
            let fates = Fates::dropping(dropped.iter().copied());
            let found = copied(&table(b','), csv.as_bytes(), piece_bytes, &fates);
            match rows(csv.as_bytes()) {
                Err(_) => prop_assert!(found.is_err()),
                Ok(mut expected) => {
                    expected.retain(|(number, ..)| !dropped.contains(number));
                    let found = rows(&found.unwrap()).unwrap();
                    let values = |rows: Vec<(u64, _, _)>| -> Vec<_> { rows.into_iter().map(|(_, id, text)| (id, text)).collect() };
                    prop_assert_eq!(values(found), values(expected));
                }
            }
        }
    }
}
