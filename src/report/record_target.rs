//! Where records of one type are written, in a format that is chosen when the program runs.

use super::sink::{Format, Sink};
use crate::base::error::{Error, Result};
use serde::Serialize;
use std::io::Write;

/// Where records of one type are written.
pub struct RecordTarget<'o> {
    /// How they are written.
    pub format: Format,
    /// What takes the bytes of the format.
    pub out: &'o mut (dyn Write + Send),
}

impl RecordTarget<'_> {
    /// Writes what comes before the first record. `shape`: a record with values of the types that follow.
    pub fn begin<R: Serialize>(self, shape: &R) -> Result<Self> {
        let mut bytes = Vec::new();
        self.format.put_head(shape, &mut bytes)?;
        self.out.write_all(&bytes).map_err(Error::output)?;
        Ok(self)
    }

    /// Writes a record.
    pub fn put<R: Serialize>(&mut self, record: &R) -> Result<()> {
        let mut bytes = Vec::new();
        self.format.put_record(record, &mut bytes)?;
        self.out.write_all(&bytes).map_err(Error::output)
    }
}
