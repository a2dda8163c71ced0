//! Records as NDJSON or TSV.

use crate::base::ids::DocNo;
use crate::{
    base::{
        codec::{put_escaped, put_json_string},
        error::Result,
    },
    index::View,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Ndjson,
    Tsv,
}

/// A field of a record.
#[derive(Debug, Clone, Copy)]
pub enum Value<'v> {
    /// As [`Ids`] has it.
    Id(&'v [u8]),
    Ids(&'v [u8]),
    Count(u64),
    Number(f64),
    Hex(u64, u8),
    Flag(bool),
    None,
}

/// Writes the names of the fields, where the format has a line for them.
pub fn put_names(out: &mut Vec<u8>, format: Format, names: &[&str]) {
    if format == Format::Tsv {
        out.extend_from_slice(names.join("\t").as_bytes());
        out.push(b'\n');
    }
}

/// Appends a record.
pub fn put_record(out: &mut Vec<u8>, format: Format, fields: &[(&str, Value<'_>)]) {
    for (at, (name, value)) in fields.iter().enumerate() {
        match format {
            Format::Ndjson => {
                out.extend_from_slice(if at == 0 { b"{\"" } else { b",\"" });
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b"\":");
            }
            Format::Tsv if at > 0 => out.push(b'\t'),
            Format::Tsv => {}
        }
        value.put(out, format);
    }
    out.extend_from_slice(if format == Format::Ndjson {
        b"}\n"
    } else {
        b"\n"
    });
}

impl Value<'_> {
    fn put(&self, out: &mut Vec<u8>, format: Format) {
        match *self {
            Self::Id(bytes) | Self::Ids(bytes) => out.extend_from_slice(bytes),
            Self::Count(count) => put_count(out, count),
            Self::Number(number) => put_number(out, number),
            Self::Hex(number, bits) => {
                let digits = usize::from(bits.div_ceil(4));
                let (open, close) = if format == Format::Ndjson {
                    ("\"", "\"")
                } else {
                    ("", "")
                };
                out.extend_from_slice(format!("{open}{number:0digits$x}{close}").as_bytes());
            }
            Self::Flag(flag) => out.extend_from_slice(if flag { b"true" } else { b"false" }),
            Self::None if format == Format::Ndjson => out.extend_from_slice(b"null"),
            Self::None => {}
        }
    }
}

/// Appends a number in decimal digits.
pub fn put_count(out: &mut Vec<u8>, count: u64) {
    let (mut digits, mut at, mut left) = ([0; 20], 20, count);
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Six decimals at most, and no zeros at their end; from a milliard on none.
pub fn put_number(out: &mut Vec<u8>, number: f64) {
    if number >= 1e9 {
        return put_count(out, number.round() as u64);
    }
    let millionths = (number * 1e6).round() as u64;
    put_count(out, millionths / 1_000_000);
    let (mut decimals, mut width) = (millionths % 1_000_000, 6);
    if decimals == 0 {
        return;
    }
    while decimals.is_multiple_of(10) {
        (decimals, width) = (decimals / 10, width - 1);
    }
    out.push(b'.');
    let start = out.len();
    out.resize(start + width, b'0');
    for digit in out[start..].iter_mut().rev() {
        *digit += (decimals % 10) as u8;
        decimals /= 10;
    }
}

/// The ids of all documents, ready to be written. Memory: as many bytes as they have, and eight each.
pub struct Ids {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Ids {
    pub fn new(view: &View<'_>, format: Format) -> Result<Self> {
        let mut ids = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(view.documents()),
        };
        for document in 0..view.documents() {
            put_id(
                &mut ids.bytes,
                format,
                &view.id(DocNo::from_index(document))?,
            );
            ids.ends.push(ids.bytes.len());
        }
        Ok(ids)
    }

    pub fn get(&self, document: u32) -> &[u8] {
        let at = document as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }

    /// Appends a JSON array of ids. They must be those for NDJSON, whatever they are written into.
    pub fn put_list(&self, out: &mut Vec<u8>, documents: impl Iterator<Item = u32>) {
        out.push(b'[');
        for (at, document) in documents.enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(self.get(document));
        }
        out.push(b']');
    }
}

/// Appends an id, as a [`Value::Id`] has it.
pub fn put_id(out: &mut Vec<u8>, format: Format, id: &str) {
    match format {
        Format::Ndjson => put_json_string(out, id),
        Format::Tsv => put_escaped(out, id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.5, "0.5"),
            (1.0 / 3.0, "0.333333"),
            (2.0 / 3.0, "0.666667"),
            (0.000_04, "0.00004"),
            (0.000_000_4, "0"),
            (0.999_999_9, "1"),
            (1234.25, "1234.25"),
            (4e12, "4000000000000"),
        ] {
            let mut out = Vec::new();
            put_number(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn records_in_both_formats() {
        let fields = [
            ("id", Value::Id(b"x")),
            ("n", Value::Count(7)),
            ("blot", Value::Hex(0xab, 17)),
            ("is", Value::Flag(true)),
            ("of", Value::None),
        ];
        for (format, expected) in [
            (
                Format::Ndjson,
                "{\"id\":x,\"n\":7,\"blot\":\"000ab\",\"is\":true,\"of\":null}\n",
            ),
            (Format::Tsv, "x\t7\t000ab\ttrue\t\n"),
        ] {
            let mut out = Vec::new();
            put_record(&mut out, format, &fields);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn fields_keep_to_their_line_and_column() {
        for (format, expected) in [
            (Format::Tsv, "a\\tb\\u009b\\n"),
            (Format::Ndjson, "\"a\\tb\\u009b\\n\""),
        ] {
            let mut out = Vec::new();
            put_id(&mut out, format, "a\tb\u{9b}\n");
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
