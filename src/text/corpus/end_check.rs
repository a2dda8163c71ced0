//! The end of an NDJSON stream.

use crate::{
    base::error::{Error, Place, Result},
    text::stream::{Header, Line},
};
use std::sync::Arc;

/// Checks that an NDJSON stream that opens with a header closes with an end record and the right count.
///
/// Streams of one scheme may follow one another.
pub struct EndCheck {
    header: Header,
    records: u64,
    is_open: bool,
}

impl EndCheck {
    /// Expects streams with this header.
    pub fn new(header: Header) -> Self {
        Self {
            header,
            records: 0,
            is_open: false,
        }
    }

    /// Checks some lines of the stream.
    pub fn check(&mut self, file: &Arc<str>, first_line: u64, piece: &[u8]) -> Result<()> {
        for (line, number) in piece.split(|&byte| byte == b'\n').zip(first_line..) {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let checked = if Header::is_likely(line) {
                self.check_header(line)
            } else if Line::is_end(line) {
                self.check_end(line)
            } else if self.is_open {
                self.records += 1;
                Ok(())
            } else {
                Err("a record after the end record".to_owned())
            };
            checked.map_err(|what| Error::damaged(Place::line(file, number), what))?;
        }
        Ok(())
    }

    fn check_header(&mut self, line: &[u8]) -> Result<(), String> {
        let header = Header::parse(line)?;
        if self.is_open {
            return Err("a second header before the end record; the program that wrote the first stream did not finish".to_owned());
        }
        if header != self.header {
            return Err(format!(
                "scheme is '{}', expected '{}'; only streams of one kind and scheme can be joined",
                header.scheme, self.header.scheme
            ));
        }
        (self.is_open, self.records) = (true, 0);
        Ok(())
    }

    fn check_end(&mut self, line: &[u8]) -> Result<(), String> {
        #[derive(serde::Deserialize)]
        struct EndLine {
            end: EndCounts,
        }
        #[derive(serde::Deserialize)]
        struct EndCounts {
            records: u64,
        }
        let EndLine {
            end: EndCounts { records },
        } = serde_json::from_slice(line).map_err(|error| format!("not an end record: {error}"))?;
        if !self.is_open {
            return Err("a second end record".to_owned());
        }
        if records != self.records {
            return Err(format!(
                "the end record counts {records} records, but {} are here",
                self.records
            ));
        }
        self.is_open = false;
        Ok(())
    }

    /// Checks that the last stream is complete.
    pub fn ensure_ended(&self, file: &Arc<str>, line: u64) -> Result<()> {
        if self.is_open {
            return Err(Error::damaged(
                Place::line(file, line),
                "the stream ends without an end record; the program that wrote it did not finish",
            ));
        }
        Ok(())
    }
}
