//! TSV: columns between tabs, below a line of their names.
//!
//! A cell of text is the inside of a JSON string, so that no tab or line feed stands in it.

use super::{
    Sink,
    cells::{CellStyle, put_names, put_row},
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
