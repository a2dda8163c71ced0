//! CSV (RFC 4180): columns between commas, below a line of their names. Every text is quoted, and
//! stands there as it is.

use super::{
    RecordSyntax, Sink,
    cells::{self, CellStyle, put_names, put_row},
};
use crate::base::error::Result;
use serde::Serialize;

/// Writes each record as a row.
pub struct Csv;

impl<R: Serialize + ?Sized> Sink<R> for Csv {
    fn put_head(&self, shape: &R, out: &mut Vec<u8>) -> Result<()> {
        put_names(CellStyle::QuotedCommas, shape, out)
    }

    fn put_record(&self, record: &R, out: &mut Vec<u8>) -> Result<()> {
        put_row(CellStyle::QuotedCommas, record, out)
    }
}

impl RecordSyntax for Csv {
    const NAME: &'static str = "csv";
    const IS_TABLE: bool = true;
    const RECORD_END: &'static [u8] = b"\n";

    fn before_field(number: usize, _: &str) -> String {
        if number == 0 { "" } else { "," }.to_owned()
    }

    fn put_text(text: &str, out: &mut Vec<u8>) -> Result<()> {
        cells::put_text(CellStyle::QuotedCommas, text, out)
    }
}
