//! A temporary file of token hashes, which each pass reads and replaces with a shorter one.
//!
//! A block has the remaining segments of some documents: runs of consecutive tokens.

use crate::base::{
    error::Result,
    files::{TempDir, TempFile},
};
use std::ops::Range;

/// Consecutive tokens of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRun {
    /// The number of the document.
    pub document: u32,
    /// The number of the first token in the document.
    pub first: u32,
    /// The number of tokens.
    pub tokens: u32,
}

/// The remaining segments of some documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenBlock {
    /// The segments, in order.
    pub segments: Vec<TokenRun>,
    /// The hashes of all tokens of all segments.
    pub hashes: Vec<u64>,
}

impl TokenBlock {
    /// Adds a segment.
    pub fn push(&mut self, document: u32, first: u32, hashes: &[u64]) {
        self.segments.push(TokenRun {
            document,
            first,
            tokens: hashes.len() as u32,
        });
        self.hashes.extend_from_slice(hashes);
    }

    /// The size in memory.
    pub fn bytes(&self) -> u64 {
        (size_of_val(&self.segments[..]) + size_of_val(&self.hashes[..])) as u64
    }

    /// Each segment with its hashes.
    pub fn iter(&self) -> impl Iterator<Item = (TokenRun, &[u64])> {
        let mut start = 0;
        self.segments.iter().map(move |&segment| {
            let hashes = &self.hashes[start..start + segment.tokens as usize];
            start += hashes.len();
            (segment, hashes)
        })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(4 + 12 * self.segments.len() + 8 * self.hashes.len());
        bytes.extend_from_slice(&(self.segments.len() as u32).to_le_bytes());
        for TokenRun {
            document,
            first,
            tokens,
        } in &self.segments
        {
            [document, first, tokens]
                .iter()
                .for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        }
        self.hashes
            .iter()
            .for_each(|hash| bytes.extend_from_slice(&hash.to_le_bytes()));
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Self {
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
        let count = number(0) as usize;
        let segments = (0..count).map(|at| 4 + 12 * at).map(|at| TokenRun {
            document: number(at),
            first: number(at + 4),
            tokens: number(at + 8),
        });
        let hashes = bytes[4 + 12 * count..]
            .chunks_exact(8)
            .map(|hash| u64::from_le_bytes(std::array::from_fn(|index| hash[index])));
        Self {
            segments: segments.collect(),
            hashes: hashes.collect(),
        }
    }
}

/// The location of a block.
#[derive(Debug, Clone)]
pub struct BlockLocation {
    range: Range<u64>,
}

impl BlockLocation {
    /// The size on disk.
    pub fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// All blocks, in a temporary file.
pub struct TokenStream {
    file: TempFile,
    blocks: Vec<BlockLocation>,
    tokens: u64,
}

impl TokenStream {
    /// An empty stream.
    pub fn new(directory: &TempDir) -> Result<Self> {
        Ok(Self {
            file: TempFile::new(directory)?,
            blocks: Vec::new(),
            tokens: 0,
        })
    }

    /// Writes a block; skips an empty one.
    pub fn push(&mut self, block: &TokenBlock) -> Result<()> {
        if !block.segments.is_empty() {
            self.tokens += block.hashes.len() as u64;
            let range = self.file.append(&block.to_bytes())?;
            self.blocks.push(BlockLocation { range });
        }
        Ok(())
    }

    /// The number of tokens.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The locations of the blocks, in order.
    pub fn places(&self) -> &[BlockLocation] {
        &self.blocks
    }

    /// Reads a block.
    pub fn read(&self, place: &BlockLocation) -> Result<TokenBlock> {
        let mut bytes = vec![0; place.bytes() as usize];
        self.file.read_at(&mut bytes, place.range.start)?;
        Ok(TokenBlock::of_bytes(&bytes))
    }

    /// Frees the room of a block, which is not read again.
    pub fn release(&self, place: &BlockLocation) {
        self.file.release(&place.range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_back() {
        let mut stream = TokenStream::new(&TempDir(None)).unwrap();
        let [mut one, mut two] = [TokenBlock::default(), TokenBlock::default()];
        one.push(0, 0, &[1, 2, 3]);
        one.push(2, 7, &[u64::MAX]);
        two.push(3, 1, &[]);
        for block in [&one, &TokenBlock::default(), &two] {
            stream.push(block).unwrap();
        }
        let read: Vec<_> = stream
            .places()
            .iter()
            .map(|place| stream.read(place).unwrap())
            .collect();
        assert_eq!(read, [one.clone(), two]);
        assert_eq!(
            one.iter()
                .map(|(segment, hashes)| (segment.document, hashes.to_vec()))
                .collect::<Vec<_>>(),
            [(0, vec![1, 2, 3]), (2, vec![u64::MAX])]
        );
        assert_eq!(stream.tokens(), 4);
    }
}
