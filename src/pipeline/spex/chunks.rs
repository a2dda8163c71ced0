//! Chunks with all their places, sorted: which are shared, and by whom.

use super::documents::Documents;
use crate::{
    error::{Error, Result},
    index::Means,
    parallel::{self, Limits, Weighted},
    posting::TempFile,
    report::{Format, put_id},
};
use std::{io::Write, ops::Range};

/// Chunks are kept apart by their top eight bits, so that a part of them fits into memory.
const PARTS: usize = 256;
/// Keys of a part that are written together.
const PIECE_KEYS: usize = 1 << 12;

/// A chunk, and a place: the document and the number of the first token. Sorts by chunk.
pub fn key(chunk: u64, document: u32, first: u32) -> u128 {
    u128::from(chunk) << 64 | u128::from(document) << 32 | u128::from(first)
}

fn chunk_of(key: u128) -> u64 {
    (key >> 64) as u64
}

fn document_of(key: u128) -> u32 {
    (key >> 32) as u32
}

/// All places of chunks.
pub struct Chunks {
    parts: Vec<Part>,
    file: TempFile,
    limits: Limits,
}

#[derive(Default)]
struct Part {
    piece: Vec<u128>,
    pieces: Vec<Range<u64>>,
}

impl Chunks {
    pub fn new(means: &Means) -> Result<Self> {
        let parts = (0..PARTS).map(|_| Part::default()).collect();
        Ok(Self { parts, file: TempFile::new(&means.tmp_dir)?, limits: Limits::new(means.threads, 2 * means.threads as u64) })
    }

    pub fn push(&mut self, keys: &[u128]) -> Result<()> {
        for &key in keys {
            let part = &mut self.parts[(key >> 120) as usize];
            part.piece.push(key);
            if part.piece.len() == PIECE_KEYS {
                part.spill(&mut self.file)?;
            }
        }
        Ok(())
    }

    /// Writes a line for each chunk that is shared.
    pub fn write(mut self, documents: &Documents, length: u32, within: bool, out: &mut dyn Write) -> Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.spill(&mut self.file))?;
        let parts = self.parts.iter().map(|part| Ok::<_, Error>(Weighted { item: part, bytes: 1 }));
        let worker = || {
            |part: &Part| -> Result<Vec<u8>> {
                let (keys, mut lines) = (part.sorted(&self.file)?, Vec::new());
                for places in keys.chunk_by(|one, two| chunk_of(*one) == chunk_of(*two)) {
                    put_chunk(&mut lines, places, documents, length, within)?;
                }
                Ok(lines)
            }
        };
        parallel::ordered(self.limits, parts, worker, |_| 1, |lines: Result<Vec<u8>>| out.write_all(&lines?).map_err(Error::output))
    }
}

impl Part {
    fn spill(&mut self, file: &mut TempFile) -> Result<()> {
        let bytes: Vec<u8> = self.piece.drain(..).flat_map(u128::to_le_bytes).collect();
        self.pieces.push(file.append(&bytes)?);
        Ok(())
    }

    fn sorted(&self, file: &TempFile) -> Result<Vec<u128>> {
        let (mut keys, mut bytes) = (Vec::new(), Vec::new());
        for piece in &self.pieces {
            bytes.resize((piece.end - piece.start) as usize, 0);
            file.read_at(&mut bytes, piece.start)?;
            file.release(piece);
            keys.extend(bytes.chunks_exact(16).map(|key| u128::from_le_bytes(std::array::from_fn(|index| key[index]))));
        }
        keys.sort_unstable();
        Ok(keys)
    }
}

/// Writes a chunk, if it is shared: by several documents, exact duplicates among them, or with `within` by several places.
fn put_chunk(out: &mut Vec<u8>, places: &[u128], documents: &Documents, length: u32, within: bool) -> Result<()> {
    let first = places[0];
    let is_across = document_of(first) != document_of(places[places.len() - 1]) || documents.has_alias(document_of(first));
    let is_shared = is_across || within && places.len() > 1;
    if !is_shared {
        return Ok(());
    }
    let text = documents.text(document_of(first), first as u32, length)?;
    write!(out, "{{\"blot\":\"{:016x}\",\"text\":", chunk_of(first)).map_err(Error::output)?;
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
