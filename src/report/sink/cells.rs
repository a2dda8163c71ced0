//! Records as rows of a table: each field of the record is a cell. A field that is an array or an
//! object is one cell of JSON; one without a value is an empty cell.

use super::ndjson::{escaped_byte, write_escape};
use crate::{
    base::{
        codec::escape_unsafe,
        error::{Error, Result},
    },
    report::decimal::Decimal,
};
use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, Serializer};
use std::io;

/// How cells are set apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CellStyle {
    /// By tabs. What could end a cell or a line is escaped as in JSON.
    Tabs,
    /// By commas. Texts stand in quotes, and quotes in them are doubled (RFC 4180).
    QuotedCommas,
}

impl CellStyle {
    fn separator(self) -> &'static [u8] {
        match self {
            Self::Tabs => b"\t",
            Self::QuotedCommas => b",",
        }
    }
}

/// Appends the names of a record's fields, as the first line of a table.
pub fn put_names<R: Serialize + ?Sized>(
    style: CellStyle,
    shape: &R,
    out: &mut Vec<u8>,
) -> Result<()> {
    for (number, name) in field_names(shape)?.iter().enumerate() {
        if number > 0 {
            out.extend_from_slice(style.separator());
        }
        out.extend_from_slice(name.as_bytes());
    }
    out.push(b'\n');
    Ok(())
}

/// Appends a record as a row.
pub fn put_row<R: Serialize + ?Sized>(
    style: CellStyle,
    record: &R,
    out: &mut Vec<u8>,
) -> Result<()> {
    let formatter = CellFormatter {
        style,
        nesting: Nesting::default(),
    };
    serialize(record, &mut *out, formatter)?;
    out.push(b'\n');
    Ok(())
}

/// Appends a text as a cell.
pub fn put_text(style: CellStyle, text: &str, out: &mut Vec<u8>) -> Result<()> {
    let formatter = CellFormatter {
        style,
        nesting: Nesting::default(),
    };
    serialize(text, out, formatter)
}

/// The names of a record's fields, without those that it leaves out.
pub fn field_names<R: Serialize + ?Sized>(shape: &R) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let formatter = NameCollector {
        names: &mut names,
        nesting: Nesting::default(),
    };
    serialize(shape, io::sink(), formatter)?;
    Ok(names)
}

fn serialize<R: Serialize + ?Sized>(
    record: &R,
    out: impl io::Write,
    formatter: impl Formatter,
) -> Result<()> {
    record
        .serialize(&mut Serializer::with_formatter(out, formatter))
        .map_err(|error| Error::output(error.into()))
}

/// Where a serializer is: the record itself has depth 1, its fields are at depth 1, too.
#[derive(Default)]
struct Nesting {
    depth: u32,
    is_in_key: bool,
}

impl Nesting {
    fn is_in_field_name(&self) -> bool {
        self.depth == 1 && self.is_in_key
    }
}

/// Collects the names of the fields of a record, not those of objects within.
struct NameCollector<'n> {
    names: &'n mut Vec<String>,
    nesting: Nesting,
}

impl Formatter for NameCollector<'_> {
    fn begin_object<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.nesting.depth += 1;
        Ok(())
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.nesting.depth -= 1;
        Ok(())
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, _: &mut W, _: bool) -> io::Result<()> {
        self.nesting.is_in_key = true;
        Ok(())
    }

    fn end_object_key<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.nesting.is_in_key = false;
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        _: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if self.nesting.is_in_field_name() {
            self.names.push(fragment.to_owned());
        }
        Ok(())
    }
}

/// Writes the fields of a record as cells, and nested values as JSON.
struct CellFormatter {
    style: CellStyle,
    nesting: Nesting,
}

impl CellFormatter {
    fn is_cell(&self) -> bool {
        self.nesting.depth <= 1
    }

    fn quotes(&self) -> bool {
        self.style == CellStyle::QuotedCommas
    }

    /// The quote around a cell.
    fn write_cell_quote<W: ?Sized + io::Write>(&self, out: &mut W) -> io::Result<()> {
        out.write_all(if self.quotes() { b"\"" } else { b"" })
    }

    /// A quote inside of a cell.
    fn write_inner_quote<W: ?Sized + io::Write>(&self, out: &mut W) -> io::Result<()> {
        out.write_all(if self.quotes() { b"\"\"" } else { b"\"" })
    }

    fn write_string_quote<W: ?Sized + io::Write>(&self, out: &mut W) -> io::Result<()> {
        if self.nesting.is_in_field_name() {
            Ok(())
        } else if self.is_cell() {
            self.write_cell_quote(out)
        } else {
            self.write_inner_quote(out)
        }
    }

    fn open<W: ?Sized + io::Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.nesting.depth += 1;
        if self.nesting.depth == 2 {
            self.write_cell_quote(out)?;
        }
        if self.nesting.depth > 1 {
            out.write_all(bracket)?;
        }
        Ok(())
    }

    fn close<W: ?Sized + io::Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.nesting.depth -= 1;
        if self.nesting.depth > 0 {
            out.write_all(bracket)?;
        }
        if self.nesting.depth == 1 {
            self.write_cell_quote(out)?;
        }
        Ok(())
    }
}

impl Formatter for CellFormatter {
    /// Bytes are a text that the format has encoded already: see [`EncodedText`](crate::report::records::EncodedText).
    fn write_byte_array<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        encoded: &[u8],
    ) -> io::Result<()> {
        out.write_all(encoded)
    }

    fn write_null<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(if self.is_cell() { b"" } else { b"null" })
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, out: &mut W, number: f64) -> io::Result<()> {
        out.write_all(Decimal::of_number(number).as_bytes())
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"]")
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        is_first: bool,
    ) -> io::Result<()> {
        self.nesting.is_in_key = true;
        match is_first {
            true => Ok(()),
            false if self.is_cell() => out.write_all(self.style.separator()),
            false => out.write_all(b","),
        }
    }

    fn end_object_key<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.nesting.is_in_key = false;
        Ok(())
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(if self.is_cell() { b"" } else { b":" })
    }

    fn begin_string<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.write_string_quote(out)
    }

    fn end_string<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.write_string_quote(out)
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if self.nesting.is_in_field_name() {
            Ok(())
        } else if self.is_cell() && self.quotes() {
            out.write_all(fragment.as_bytes())
        } else {
            out.write_all(escape_unsafe(fragment).as_bytes())
        }
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        match escaped_byte(&escape) {
            _ if !self.quotes() => write_escape(out, &escape),
            b'"' if self.is_cell() => self.write_inner_quote(out),
            b'"' => out
                .write_all(b"\\")
                .and_then(|()| self.write_inner_quote(out)),
            byte if self.is_cell() => out.write_all(&[byte]),
            _ => write_escape(out, &escape),
        }
    }
}
