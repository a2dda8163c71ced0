//! TSV: columns between tabs, below a line of their names.
//!
//! A cell of text is the inside of a JSON string, so that it contains no tab or line feed.

use super::{
    RecordSyntax, Sink,
    cells::{self, CellStyle, put_names, put_row},
};
use crate::base::error::Result;
use serde::Serialize;

/// Writes each record as a row.
pub struct Tsv;

impl<R: Serialize + ?Sized> Sink<R> for Tsv {
    fn put_head(&self, shape: &R, out: &mut Vec<u8>) -> Result<()> {
        put_names(CellStyle::Tabs, shape, out)
    }

    fn put_record(&self, record: &R, out: &mut Vec<u8>) -> Result<()> {
        put_row(CellStyle::Tabs, record, out)
    }
}

impl RecordSyntax for Tsv {
    const NAME: &'static str = "tsv";
    const IS_TABLE: bool = true;
    const RECORD_END: &'static [u8] = b"\n";

    fn before_field(number: usize, _: &str) -> String {
        if number == 0 { "" } else { "\t" }.to_owned()
    }

    fn put_text(text: &str, out: &mut Vec<u8>) -> Result<()> {
        cells::put_text(CellStyle::Tabs, text, out)
    }
}
