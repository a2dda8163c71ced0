//! NDJSON: a JSON object a line.

use super::{RecordSyntax, Sink};
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

/// Writes each record as a line of JSON.
pub struct Ndjson;

impl<R: Serialize + ?Sized> Sink<R> for Ndjson {
    fn put_record(&self, record: &R, out: &mut Vec<u8>) -> Result<()> {
        put_json(record, out)?;
        out.push(b'\n');
        Ok(())
    }
}

impl RecordSyntax for Ndjson {
    const NAME: &'static str = "ndjson";
    const IS_TABLE: bool = false;
    const RECORD_END: &'static [u8] = b"}\n";

    fn before_field(number: usize, name: &str) -> String {
        let start = if number == 0 { '{' } else { ',' };
        format!("{start}\"{name}\":")
    }

    fn put_text(text: &str, out: &mut Vec<u8>) -> Result<()> {
        put_json(text, out)
    }
}

/// Appends a value as JSON, with short numbers and without characters that a terminal obeys.
pub fn put_json(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) -> Result<()> {
    value
        .serialize(&mut Serializer::with_formatter(out, JsonFormatter))
        .map_err(|error| Error::output(error.into()))
}

struct JsonFormatter;

impl Formatter for JsonFormatter {
    /// Bytes are a text that the format has encoded already: see [`EncodedText`](crate::report::records::EncodedText).
    fn write_byte_array<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        encoded: &[u8],
    ) -> io::Result<()> {
        out.write_all(encoded)
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, out: &mut W, number: f64) -> io::Result<()> {
        out.write_all(Decimal::of_number(number).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        out.write_all(escape_unsafe(fragment).as_bytes())
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        write_escape(out, &escape)
    }
}

/// Writes the escape of a character: `\"`, `\\`, `\t`, `\n`, `\r` or `\u00XX`.
pub(super) fn write_escape<W: ?Sized + io::Write>(
    out: &mut W,
    escape: &CharEscape,
) -> io::Result<()> {
    match escaped_byte(escape) {
        b'"' => out.write_all(b"\\\""),
        b'\\' => out.write_all(b"\\\\"),
        b'\t' => out.write_all(b"\\t"),
        b'\n' => out.write_all(b"\\n"),
        b'\r' => out.write_all(b"\\r"),
        byte => write!(out, "\\u{byte:04x}"),
    }
}

/// The character that an escape stands for, which is ASCII.
pub(super) fn escaped_byte(escape: &CharEscape) -> u8 {
    match escape {
        CharEscape::Quote => b'"',
        CharEscape::ReverseSolidus => b'\\',
        CharEscape::Solidus => b'/',
        CharEscape::Backspace => 8,
        CharEscape::FormFeed => 12,
        CharEscape::LineFeed => b'\n',
        CharEscape::CarriageReturn => b'\r',
        CharEscape::Tab => b'\t',
        CharEscape::AsciiControl(byte) => *byte,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::codec::put_json_string;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strings_are_escaped_as_elsewhere(text in "(?s:.|[\"\\\\\0-\u{1f}\u{7f}-\u{9f}]){0,30}") {
            let (mut record, mut expected) = (Vec::new(), Vec::new());
            put_json(&text, &mut record).unwrap();
            put_json_string(&mut expected, &text);
            prop_assert_eq!(record, expected);
        }
    }
}
