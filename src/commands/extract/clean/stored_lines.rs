//! Lines that wait until all are read, in a temporary file.

use super::{
    NONE,
    classify::{ClassifiedLines, LineClass},
};
use crate::base::num::ToUsize;
use crate::base::{
    error::{Error, Result},
    files::{TempDir, TempFile},
};
use std::ops::Range;

/// Packing is to save room on disk, not to take time.
const LEVEL: i32 = 1;

/// All lines in order. Memory: 16 bytes a line.
pub struct StoredLines {
    file: TempFile,
    chunks: Vec<StoredChunk>,
}

struct StoredChunk {
    packed: Range<u64>,
    bytes: usize,
    /// Where each line ends, and which document it is; or what else, beyond all documents.
    lines: Vec<(u64, u32)>,
}

const PASSED: u32 = NONE;
const UNKNOWN: u32 = NONE - 1;
const CHANGED: u32 = NONE - 2;
const REPEATED: u32 = NONE - 3;

impl StoredLines {
    pub fn new(directory: &TempDir) -> Result<Self> {
        Ok(Self {
            file: TempFile::new(directory)?,
            chunks: Vec::new(),
        })
    }

    pub fn push(&mut self, classified: &ClassifiedLines) -> Result<()> {
        let packed = zstd::bulk::compress(&classified.bytes, LEVEL).map_err(Error::output)?;
        let line = |(range, class): &(Range<usize>, LineClass)| {
            let what = match class {
                LineClass::Passed => PASSED,
                LineClass::Unknown => UNKNOWN,
                LineClass::Changed => CHANGED,
                LineClass::Repeated => REPEATED,
                LineClass::Known(document) => *document,
            };
            (range.end as u64, what)
        };
        let lines = classified.lines.iter().map(line).collect();
        self.chunks.push(StoredChunk {
            packed: self.file.append(&packed)?,
            bytes: classified.bytes.len(),
            lines,
        });
        Ok(())
    }

    /// The documents in the order of their lines.
    pub fn documents(&self) -> Vec<u32> {
        let all = self
            .chunks
            .iter()
            .flat_map(|chunk| &chunk.lines)
            .map(|&(_, document)| document);
        all.filter(|&document| document < REPEATED).collect()
    }

    /// Returns all lines, in input order.
    pub fn for_each(self, mut each: impl FnMut(ClassifiedLines) -> Result<()>) -> Result<()> {
        for StoredChunk {
            packed,
            bytes,
            lines,
        } in self.chunks
        {
            let mut read = vec![0; (packed.end - packed.start) as usize];
            self.file.read_at(&mut read, packed.start)?;
            self.file.release(&packed);
            let bytes = zstd::bulk::decompress(&read, bytes).map_err(Error::output)?;
            let mut start = 0;
            let lines = lines.into_iter().map(|(end, what)| {
                let range = std::mem::replace(&mut start, end.to_usize())..end as usize;
                let class = match what {
                    PASSED => LineClass::Passed,
                    UNKNOWN => LineClass::Unknown,
                    CHANGED => LineClass::Changed,
                    REPEATED => LineClass::Repeated,
                    document => LineClass::Known(document),
                };
                (range, class)
            });
            each(ClassifiedLines {
                lines: lines.collect(),
                bytes,
                ..ClassifiedLines::default()
            })?;
        }
        Ok(())
    }
}
