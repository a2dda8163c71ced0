//! A permanent file of the hashes of all tokens, to add documents without reading the others again.
//!
//! Each block has its segments, the distinct hashes of its tokens in rising order, and for each
//! token the index of its hash, in as many bits as the largest index needs. Most words of a text
//! are common, so a token takes two to three bytes.

use super::token_stream::{TokenBlock, TokenRun};
use crate::base::{
    codec::{BitReader, BitWriter, Fields, put_varint},
    error::{Error, Result},
    files::{Sealed, SealedWriter},
};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{BufWriter, Write},
    ops::Range,
    path::PathBuf,
};

const KIND: &str = "spex";

#[derive(Debug, Serialize, Deserialize)]
struct TokenFileDescription {
    kind: String,
    scheme: String,
    tokens: u64,
    /// The start of each block, and the end of the last one.
    blocks: Vec<u64>,
}

/// Writes a [`TokenFile`].
pub struct TokenFileWriter {
    out: SealedWriter<BufWriter<File>>,
    path: PathBuf,
    tokens: u64,
    blocks: Vec<u64>,
}

impl TokenFileWriter {
    /// Creates the file.
    pub fn create(path: PathBuf) -> Result<Self> {
        let out = SealedWriter::create(&path).map_err(|error| Error::io(path.display(), error))?;
        Ok(Self {
            blocks: vec![out.position()],
            out,
            path,
            tokens: 0,
        })
    }

    /// Writes a block; skips an empty one.
    pub fn push(&mut self, block: &TokenBlock) -> Result<()> {
        if !block.segments.is_empty() {
            self.tokens += block.hashes.len() as u64;
            self.out
                .write_all(&to_bytes(block))
                .map_err(|error| Error::io(self.path.display(), error))?;
            self.blocks.push(self.out.position());
        }
        Ok(())
    }

    /// Completes the file, and returns it with its path.
    pub fn finish(self, scheme: &str) -> Result<(TokenFile, PathBuf)> {
        let Self {
            out,
            path,
            tokens,
            blocks,
        } = self;
        let description = TokenFileDescription {
            kind: KIND.to_owned(),
            scheme: scheme.to_owned(),
            tokens,
            blocks,
        };
        out.finish(&description)
            .map_err(|error| Error::io(path.display(), error))?;
        Ok((TokenFile::new(Sealed::open(&path)?, scheme)?, path))
    }
}

/// A file of token hashes.
pub struct TokenFile {
    file: Sealed,
    description: TokenFileDescription,
}

impl TokenFile {
    /// Checks the description: the scheme must be the same.
    pub fn new(file: Sealed, scheme: &str) -> Result<Self> {
        let description: TokenFileDescription = file.describe()?;
        if description.kind != KIND
            || description.scheme != scheme
            || !description.blocks.is_sorted()
        {
            return Err(file.damaged(0, format!("not the hashes of tokens of '{scheme}'")));
        }
        Ok(Self { file, description })
    }

    /// The number of tokens.
    pub fn tokens(&self) -> u64 {
        self.description.tokens
    }

    /// The bytes of each block, in order.
    pub fn places(&self) -> impl Iterator<Item = Range<u64>> {
        self.description
            .blocks
            .windows(2)
            .map(|border| border[0]..border[1])
    }

    /// Reads a block.
    pub fn read(&self, place: &Range<u64>) -> Result<TokenBlock> {
        let bytes = self.file.bytes(place.start, place.end - place.start)?;
        let block = of_bytes(bytes).ok_or_else(|| {
            self.file
                .damaged(place.start, "a block of hashes does not fit")
        });
        self.file.release();
        block
    }
}

fn to_bytes(block: &TokenBlock) -> Vec<u8> {
    let mut distinct = block.hashes.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let mut bytes = Vec::new();
    put_varint(&mut bytes, block.segments.len() as u64);
    put_varint(&mut bytes, distinct.len() as u64);
    for TokenRun {
        document,
        first,
        tokens,
    } in &block.segments
    {
        [document, first, tokens]
            .iter()
            .for_each(|number| put_varint(&mut bytes, u64::from(**number)));
    }
    distinct
        .iter()
        .for_each(|hash| bytes.extend_from_slice(&hash.to_le_bytes()));
    let mut bits = BitWriter::after(bytes);
    let width = width_of(distinct.len());
    for hash in &block.hashes {
        bits.put(distinct.partition_point(|known| known < hash) as u64, width);
    }
    bits.align();
    bits.bytes
}

/// The bits of an index into `count` items.
fn width_of(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

fn of_bytes(bytes: &[u8]) -> Option<TokenBlock> {
    let mut fields = Fields::new(bytes);
    let number = |fields: &mut Fields<'_>| fields.varint("a number").ok();
    let (count, distinct) = (number(&mut fields)?, number(&mut fields)?);
    let mut block = TokenBlock::default();
    for _ in 0..count {
        let mut number = || u32::try_from(number(&mut fields)?).ok();
        block.segments.push(TokenRun {
            document: number()?,
            first: number()?,
            tokens: number()?,
        });
    }
    let hashes = fields.take(distinct.checked_mul(8)?, "hashes").ok()?;
    let rest = fields.take(fields.left(), "tokens").ok()?;
    let hashes: Vec<u64> = hashes
        .chunks_exact(8)
        .map(|hash| u64::from_le_bytes(std::array::from_fn(|at| hash[at])))
        .collect();
    let mut bits = BitReader::new(rest);
    let width = width_of(hashes.len());
    let tokens: u64 = block
        .segments
        .iter()
        .map(|segment| u64::from(segment.tokens))
        .sum();
    if tokens.checked_mul(u64::from(width))?.div_ceil(8) != rest.len() as u64 {
        return None;
    }
    block.hashes.reserve(tokens as usize);
    for _ in 0..tokens {
        block.hashes.push(*hashes.get(bits.take(width) as usize)?);
    }
    Some(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_are_read_back(segments in prop::collection::vec((any::<u32>(), any::<u32>(), prop::collection::vec(0_u64..9, 0..20)), 0..9)) {
            let mut block = TokenBlock::default();
            segments.iter().for_each(|(document, first, hashes)| block.push(*document, *first, hashes));
            let bytes = to_bytes(&block);
            prop_assert_eq!(of_bytes(&bytes), Some(block));
            // A truncated block never causes a panic.
            (0..bytes.len()).for_each(|end| drop(of_bytes(&bytes[..end])));
        }
    }
}
