//! Output formats: each turns records into bytes, one file per format.
//!
//! Where the bytes go is up to the caller: one stream, or a file for each record.
//!
//! To add a format that any record can be written in: a file here with a type that implements
//! [`Sink`] and `RecordSyntax`, and a row of `formats!`; for a format of graphs, `Sink` for graph
//! elements and `GraphSyntax`, and a row of `graph_formats!`.

mod cells;
mod csv;
mod dot;
mod graphml;
mod html;
mod ndjson;
mod pan_xml;
mod parquet;
mod tsv;

pub use cells::field_names;
pub use csv::Csv;
pub use dot::Dot;
pub use graphml::Graphml;
pub use html::{HtmlPages, PairTexts};
pub use ndjson::{Ndjson, put_json};
pub use pan_xml::{PanXml, PanXmlDirectory};
pub use parquet::Parquet;
pub use tsv::Tsv;

#[cfg(test)]
mod tests;

use super::records::GraphElement;
use crate::base::error::Result;
use serde::Serialize;
use std::path::Path;

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

/// What a format that any record can be written in has besides its [`Sink`].
trait RecordSyntax {
    /// The name by which users select it.
    const NAME: &'static str;
    /// Whether records are rows of a table; otherwise they may be nested.
    const IS_TABLE: bool;
    /// What stands after the last field of a record.
    const RECORD_END: &'static [u8];

    /// What stands before a field of a record.
    fn before_field(number: usize, name: &str) -> String;

    /// Appends a text as a field of a record has it.
    fn put_text(text: &str, out: &mut Vec<u8>) -> Result<()>;
}

/// Defines [`Format`] from the rows, and calls the sink of a format.
macro_rules! formats {
    ($($(#[$doc:meta])* $format:ident,)*) => {
        /// Formats that any record can be written in.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Format {
            $($(#[$doc])* $format,)*
        }

        impl Format {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$format,)*];

            /// The name by which users select it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$format => $format::NAME,)*
                }
            }

            /// The format that the name of a file ends with, before `.gz` or `.zst`.
            pub fn of_file(name: &Path) -> Option<Self> {
                let name = name.file_name()?.to_string_lossy().to_lowercase();
                let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
                let (_, ending) = name.rsplit_once('.')?;
                Self::ALL.iter().copied().find(|format| format.name() == ending)
            }

            /// Whether records are rows of a table; otherwise they may be nested.
            pub fn is_table(self) -> bool {
                match self {
                    $(Self::$format => $format::IS_TABLE,)*
                }
            }

            /// Appends a text as a field of a record has it.
            pub fn put_text(self, text: &str, out: &mut Vec<u8>) -> Result<()> {
                match self {
                    $(Self::$format => $format::put_text(text, out),)*
                }
            }

            /// What stands before each of some fields, and after the last.
            pub fn field_frames(self, names: &[String]) -> (Vec<Vec<u8>>, &'static [u8]) {
                let (before, end): (fn(usize, &str) -> String, _) = match self {
                    $(Self::$format => ($format::before_field, $format::RECORD_END),)*
                };
                let frames = names.iter().enumerate();
                let frames = frames.map(|(number, name)| before(number, name).into_bytes());
                (frames.collect(), end)
            }
        }

        impl<R: Serialize + ?Sized> Sink<R> for Format {
            fn put_head(&self, shape: &R, out: &mut Vec<u8>) -> Result<()> {
                match self {
                    $(Self::$format => $format.put_head(shape, out),)*
                }
            }

            fn put_record(&self, record: &R, out: &mut Vec<u8>) -> Result<()> {
                match self {
                    $(Self::$format => $format.put_record(record, out),)*
                }
            }
        }
    };
}

formats! {
    /// A JSON object a line.
    Ndjson,
    /// Columns between tabs, below a line of their names.
    Tsv,
    /// Columns between commas, below a line of their names.
    Csv,
    /// Columns of types, for pandas, DuckDB, Spark.
    Parquet,
}

/// What a format of graphs has besides its [`Sink`].
trait GraphSyntax {
    /// The name by which users select it.
    const NAME: &'static str;
}

/// Defines [`GraphFormat`] from the rows.
macro_rules! graph_formats {
    ($($(#[$doc:meta])* $format:ident,)*) => {
        /// Formats of graphs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum GraphFormat {
            $($(#[$doc])* $format,)*
        }

        impl GraphFormat {
            /// All of them; the first is the default.
            pub const ALL: [Self; [$(stringify!($format)),*].len()] = [$(Self::$format,)*];

            /// The name by which users select it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$format => $format::NAME,)*
                }
            }

            fn sink(self) -> &'static dyn for<'e> Sink<GraphElement<'e>> {
                match self {
                    $(Self::$format => &$format,)*
                }
            }
        }
    };
}

graph_formats! {
    /// For Graphviz.
    Dot,
    /// For Gephi, yEd, NetworkX.
    Graphml,
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
