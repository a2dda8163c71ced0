//! Output formats: each turns records into bytes, one file per format.
//!
//! Where the bytes go is up to the caller: one stream, or a file for each record.

mod cells;
mod csv;
mod dot;
mod graphml;
mod html;
mod ndjson;
mod pan_xml;
mod tsv;

pub use cells::field_names;
pub use csv::Csv;
pub use dot::Dot;
pub use graphml::Graphml;
pub use html::{HtmlPages, PairTexts};
pub use ndjson::{Ndjson, put_json};
pub use pan_xml::{PanXml, PanXmlDirectory};
pub use tsv::Tsv;

#[cfg(test)]
mod tests;

use self::cells::CellStyle;
use super::records::GraphElement;
use crate::base::error::Result;
use serde::Serialize;

/// An output format for records of the type `R`. Threads share one sink.
pub trait Sink<R: ?Sized>: Sync {
    /// Appends what comes before the first record, such as the names of columns. `shape` is any
    /// record with the same optional fields as those that follow.
    fn put_head(&self, _shape: &R, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    /// Appends a record.
    fn put_record(&self, record: &R, out: &mut Vec<u8>) -> Result<()>;

    /// Appends what comes after the last record.
    fn put_foot(&self, _out: &mut Vec<u8>) {}
}

/// Formats that any record can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A JSON object a line.
    Ndjson,
    /// Columns between tabs, below a line of their names.
    Tsv,
    /// Columns between commas, below a line of their names.
    Csv,
}

impl Format {
    /// Whether records are rows of a table; otherwise they may be nested.
    pub fn is_table(self) -> bool {
        self != Self::Ndjson
    }

    /// Appends a text as a field of a record has it.
    pub fn put_text(self, text: &str, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Ndjson => put_json(text, out),
            Self::Tsv => cells::put_text(CellStyle::Tabs, text, out),
            Self::Csv => cells::put_text(CellStyle::QuotedCommas, text, out),
        }
    }

    /// What stands before each of some fields, and after the last.
    pub fn field_frames(self, names: &[String]) -> (Vec<Vec<u8>>, &'static [u8]) {
        let before = |(number, name): (usize, &String)| match (self, number) {
            (Self::Ndjson, 0) => format!("{{\"{name}\":"),
            (Self::Ndjson, _) => format!(",\"{name}\":"),
            (_, 0) => String::new(),
            (Self::Tsv, _) => "\t".to_owned(),
            (Self::Csv, _) => ",".to_owned(),
        };
        let frames = names.iter().enumerate().map(before);
        let end: &[u8] = if self.is_table() { b"\n" } else { b"}\n" };
        (frames.map(String::into_bytes).collect(), end)
    }
}

impl<R: Serialize + ?Sized> Sink<R> for Format {
    fn put_head(&self, shape: &R, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Ndjson => Ndjson.put_head(shape, out),
            Self::Tsv => Tsv.put_head(shape, out),
            Self::Csv => Csv.put_head(shape, out),
        }
    }

    fn put_record(&self, record: &R, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Ndjson => Ndjson.put_record(record, out),
            Self::Tsv => Tsv.put_record(record, out),
            Self::Csv => Csv.put_record(record, out),
        }
    }
}

/// Formats of graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphFormat {
    /// For Graphviz.
    Dot,
    /// For Gephi, yEd, NetworkX.
    Graphml,
}

impl GraphFormat {
    fn sink(self) -> &'static dyn for<'e> Sink<GraphElement<'e>> {
        match self {
            Self::Dot => &Dot,
            Self::Graphml => &Graphml,
        }
    }
}

impl Sink<GraphElement<'_>> for GraphFormat {
    fn put_head(&self, shape: &GraphElement<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.sink().put_head(shape, out)
    }

    fn put_record(&self, record: &GraphElement<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.sink().put_record(record, out)
    }

    fn put_foot(&self, out: &mut Vec<u8>) {
        self.sink().put_foot(out);
    }
}
