//! Chunks of records that a reader has taken apart already: rows of tables, records of web archives.

use super::{
    chunk::{CHUNK_BYTES, CHUNK_RECORDS, Chunk, Container, LEFT_OUT},
    sequence::{RecordSequence, SequenceRecord},
};
use crate::base::{
    error::{Place, Problem, Result},
    num::ToU64,
    parallel::Weighted,
};
use std::sync::Arc;

/// About what a record takes besides its text and its id.
const RECORD_BYTES: usize = 64;

/// The chunks of a file whose records are read one after the other.
///
/// Memory: a chunk, or the longest record.
pub struct SequenceChunks<S> {
    of: Arc<Container>,
    records: S,
    /// An error, which comes after the records before it.
    failed: Option<String>,
    is_done: bool,
    /// The records that were passed over were counted.
    has_counted: bool,
}

impl<S: RecordSequence> SequenceChunks<S> {
    /// Reads all that the sequence has.
    pub fn new(of: Arc<Container>, records: S) -> Self {
        Self {
            of,
            records,
            failed: None,
            is_done: false,
            has_counted: false,
        }
    }

    fn next_rows(&mut self) -> Option<Weighted<Chunk>> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while bytes < CHUNK_BYTES && rows.len() < CHUNK_RECORDS {
            match self.records.next_record() {
                Some(Ok(record)) => {
                    bytes += weight(&record);
                    rows.push(record);
                }
                Some(Err(what)) => {
                    self.failed = Some(what);
                    break;
                }
                None => {
                    self.is_done = true;
                    break;
                }
            }
        }
        (!rows.is_empty()).then(|| Weighted {
            item: Chunk::Rows {
                of: self.of.clone(),
                rows,
            },
            bytes: bytes.to_u64(),
        })
    }
}

fn weight(record: &SequenceRecord) -> usize {
    let text = record.text.as_ref().map_or(0, String::len);
    RECORD_BYTES + text + record.id.as_ref().map_or(0, String::len)
}

impl<S: RecordSequence> Iterator for SequenceChunks<S> {
    type Item = Result<Weighted<Chunk>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed.is_none()
            && !self.is_done
            && let Some(rows) = self.next_rows()
        {
            return Some(Ok(rows));
        }
        let item = match self.failed.take() {
            Some(what) => Chunk::Problem(Problem::new(
                Place::file(self.of.file.clone()),
                what + LEFT_OUT,
            )),
            None if !self.has_counted => {
                self.has_counted = true;
                Chunk::Passed(self.records.records_passed())
            }
            None => return None,
        };
        self.is_done = true;
        Some(Ok(Weighted { item, bytes: 0 }))
    }
}
