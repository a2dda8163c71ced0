//! Chunks with all their places, sorted: which are shared, and by whom.

use super::documents::Documents;
use crate::{
    error::{Error, Result},
    index::Means,
    parallel::{self, Limits, Weighted},
    posting::Buckets,
    report::{Format, put_id},
};
use std::io::Write;

/// Chunks are kept apart by their top eight bits, so that a bucket of them fits into memory.
const BUCKETS: usize = 256;

/// A chunk, and a place: the document and the number of the first token. Sorts by chunk.
type Key = [u64; 2];

pub fn key(chunk: u64, document: u32, first: u32) -> Key {
    [chunk, u64::from(document) << 32 | u64::from(first)]
}

fn document_of([_, place]: Key) -> u32 {
    (place >> 32) as u32
}

/// All places of chunks.
pub struct Chunks {
    buckets: Buckets<2>,
    limits: Limits,
}

impl Chunks {
    pub fn new(means: &Means) -> Self {
        let buckets = Buckets::new(BUCKETS, means.memory_bytes / 2, means.tmp_dir.clone());
        Self { buckets, limits: Limits::new(means.threads, 2 * means.threads as u64) }
    }

    pub fn push(&mut self, keys: &[Key]) -> Result<()> {
        keys.iter().for_each(|&key| self.buckets.push((key[0] >> 56) as usize, key));
        self.buckets.settle()
    }

    /// Writes a line for each chunk that is shared.
    pub fn write(self, documents: &Documents, length: u32, within: bool, out: &mut dyn Write) -> Result<()> {
        let buckets = (0..BUCKETS).map(|item| Ok::<_, Error>(Weighted { item, bytes: 1 }));
        let worker = || {
            |bucket: usize| -> Result<Vec<u8>> {
                let (mut keys, mut lines) = (self.buckets.take(bucket)?, Vec::new());
                keys.sort_unstable();
                for places in keys.chunk_by(|one, two| one[0] == two[0]) {
                    put_chunk(&mut lines, places, documents, length, within)?;
                }
                Ok(lines)
            }
        };
        parallel::ordered(self.limits, buckets, worker, |_| 1, |lines: Result<Vec<u8>>| out.write_all(&lines?).map_err(Error::output))
    }
}

/// Writes a chunk, if it is shared: by several documents, exact duplicates among them, or with `within` by several places.
fn put_chunk(out: &mut Vec<u8>, places: &[Key], documents: &Documents, length: u32, within: bool) -> Result<()> {
    let first = places[0];
    let is_across = document_of(first) != document_of(places[places.len() - 1]) || documents.has_alias(document_of(first));
    let is_shared = is_across || within && places.len() > 1;
    if !is_shared {
        return Ok(());
    }
    let text = documents.text(document_of(first), first[1] as u32, length)?;
    write!(out, "{{\"blot\":\"{:016x}\",\"text\":", first[0]).map_err(Error::output)?;
    put_id(out, Format::Ndjson, &String::from_utf8_lossy(&text));
    out.extend_from_slice(b",\"documents\":[");
    for of_document in places.chunk_by(|one, two| document_of(*one) == document_of(*two)) {
        for id in documents.alike(document_of(of_document[0])) {
            out.extend_from_slice(b"{\"doc\":");
            put_id(out, Format::Ndjson, id);
            write!(out, ",\"count\":{}}},", of_document.len()).map_err(Error::output)?;
        }
    }
    out.pop();
    out.extend_from_slice(b"]}\n");
    Ok(())
}
