//! Which chunks of tokens occur more than once, in little memory.
//!
//! SPEX (Bernstein and Zobel 2006): a chunk of `l` tokens can occur twice only if all shorter chunks in it do. So chunks of one length are counted, then of a
//! greater one only those that consist of chunks which were counted more than once, and so on to `l`. Counters have two bits a field and do not
//! resolve collisions, so that little memory is enough for any collection; what is left at the end is every chunk that occurs more than
//! once, and a few that do not, which whoever gets them must tell apart.
//!
//! ```text
//! tokens ──► hashes, and a count of the shortest chunks ──► segments in which all chunks repeat ──► … ──► chunks of l tokens
//!             [Stream]               [Counter]                [sieve], counts longer ones                   [survivors]
//! ```
//!
//! Unlike the published one this reads the text once: later passes run over a file of hashes, of which each pass leaves only
//! segments that can still hold a chunk of `l` tokens. Two counters are in memory at a time.

mod counter;
mod token_file;
mod token_stream;

pub use counter::{ChunkCounter, Occupancy};
pub use token_file::{TokenFile, TokenFileWriter};
pub use token_stream::{BlockLocation, TokenBlock, TokenRun, TokenStream};

use crate::{
    base::{
        error::{Error, Result},
        files::TempDir,
        parallel::{self, Budget, Limits, Weighted},
    },
    blot::ordered_windows,
};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// Of the chunks that were counted, in tokens.
    pub length: u32,
    /// How many there were.
    pub counted: u64,
    pub occupancy: Occupancy,
    pub fields: u64,
    /// Tokens that were left when they were counted.
    pub tokens: u64,
}

/// How to sift.
pub struct Sift<'a> {
    /// Rising, and the last is that of the chunks which are looked for.
    pub lengths: &'a [u32],
    pub counter_bytes: u64,
    /// Documents whose chunks are all kept: they have exact duplicates.
    pub is_kept: &'a (dyn Fn(u32) -> bool + Sync),
    pub limits: Limits,
    pub directory: &'a TempDir,
}

impl Sift<'_> {
    fn target(&self) -> u32 {
        self.lengths.last().copied().unwrap_or(1)
    }

    /// Counts the shortest chunks of documents that were hashed before.
    pub fn count_kept(&self, stream: &TokenStream, counter: &ChunkCounter) -> Result<u64> {
        let counted = AtomicU64::new(0);
        let worker = || {
            let mut chunks = Vec::new();
            let counted = &counted;
            move |place: BlockLocation| -> Result<()> {
                for (_, hashes) in stream.read(&place)?.iter() {
                    chunks.clear();
                    ordered_windows(hashes, self.lengths[0] as usize, &mut chunks);
                    counter.count(&chunks);
                    counted.fetch_add(chunks.len() as u64, Relaxed);
                }
                Ok(())
            }
        };
        self.each_block(stream, worker, |()| 1, |()| Ok(()))?;
        Ok(counted.into_inner())
    }

    /// All passes but the first, whose counter and number of chunks come in. Gives what is left, the last counter, and what each pass did.
    pub fn run(
        &self,
        mut stream: TokenStream,
        mut counter: ChunkCounter,
        first_counted: u64,
    ) -> Result<(TokenStream, ChunkCounter, Vec<Pass>)> {
        let describe = |length: u32, counted: u64, counter: &ChunkCounter, tokens: u64| Pass {
            length,
            counted,
            occupancy: counter.occupancy(),
            fields: counter.fields(),
            tokens,
        };
        let mut passes = vec![describe(
            self.lengths[0],
            first_counted,
            &counter,
            stream.tokens(),
        )];
        for step in self.lengths.windows(2) {
            let next = ChunkCounter::new(self.counter_bytes);
            let (left, counted) = self.pass(&stream, (step[0], &counter), (step[1], &next))?;
            (stream, counter) = (left, next);
            passes.push(describe(step[1], counted, &counter, stream.tokens()));
        }
        Ok((stream, counter, passes))
    }

    /// Counts the chunks of one length that consist of chunks of the length before which were counted more than once.
    fn pass(
        &self,
        stream: &TokenStream,
        before: (u32, &ChunkCounter),
        next: (u32, &ChunkCounter),
    ) -> Result<(TokenStream, u64)> {
        let (mut left, counted) = (TokenStream::new(self.directory)?, AtomicU64::new(0));
        let worker = || {
            let mut sieve = Sieve::new(self.target() as usize, before, self.is_kept);
            let counted = &counted;
            move |place: BlockLocation| -> Result<TokenBlock> {
                let (block, mut chunks) = (sieve.sift(&stream.read(&place)?), Vec::new());
                stream.release(&place);
                for (segment, hashes) in block.iter() {
                    chunks.clear();
                    ordered_windows(hashes, next.0 as usize, &mut chunks);
                    next.1.count(&chunks);
                    counted.fetch_add(chunks.len() as u64, Relaxed);
                    if (self.is_kept)(segment.document) {
                        // Once more for its duplicates.
                        next.1.count(&chunks);
                    }
                }
                Ok(block)
            }
        };
        self.each_block(
            stream,
            worker,
            |block: &TokenBlock| block.bytes(),
            |block| left.push(&block),
        )?;
        Ok((left, counted.into_inner()))
    }

    /// The chunks that are left, document by document, each with the number of its first token. Documents come in order. What `work` makes of a block, so many
    /// bytes, goes to `sink`.
    pub fn survivors<R: Send>(
        &self,
        stream: &TokenStream,
        counter: &ChunkCounter,
        work: impl Fn(&mut dyn Iterator<Item = (u32, &[(u32, u64)])>) -> R + Sync,
        weigh: impl Fn(&R) -> u64 + Sync,
        sink: impl FnMut(R) -> Result<()>,
    ) -> Result<()> {
        let worker = || {
            let mut finder = Finder {
                target: self.target() as usize,
                counter,
                is_kept: self.is_kept,
                chunks: Vec::new(),
                repeated: Vec::new(),
            };
            let work = &work;
            move |place: BlockLocation| -> Result<R> {
                let block = stream.read(&place)?;
                stream.release(&place);
                let found = finder.find(&block);
                Ok(work(
                    &mut found
                        .iter()
                        .map(|(document, chunks)| (*document, &chunks[..])),
                ))
            }
        };
        self.each_block(stream, worker, weigh, sink)
    }

    /// Works on all blocks in parallel, and gives the results in order.
    fn each_block<R: Send, W: FnMut(BlockLocation) -> Result<R>>(
        &self,
        stream: &TokenStream,
        worker: impl Fn() -> W + Sync,
        weigh: impl Fn(&R) -> u64 + Sync,
        mut sink: impl FnMut(R) -> Result<()>,
    ) -> Result<()> {
        let blocks = stream.places().iter().map(|place| {
            Ok::<_, Error>(Weighted {
                item: place.clone(),
                bytes: place.bytes(),
            })
        });
        let weigh = |made: &Result<R>| made.as_ref().map_or(0, &weigh);
        // Not a rayon iterator: blocks are read from disk, within a budget of bytes, and leave in order.
        let budget = Budget::Bytes(self.limits.memory_bytes);
        parallel::ordered(self.limits.threads, budget, blocks, worker, weigh, |made| {
            sink(made?)
        })
    }
}

/// Leaves of each segment the runs in which all chunks of a length were counted more than once.
struct Sieve<'a> {
    /// A run that has no room for so many tokens is of no use.
    target: usize,
    length: usize,
    counter: &'a ChunkCounter,
    is_kept: &'a (dyn Fn(u32) -> bool + Sync),
    chunks: Vec<u64>,
    repeated: Vec<bool>,
}

impl<'a> Sieve<'a> {
    fn new(
        target: usize,
        (length, counter): (u32, &'a ChunkCounter),
        is_kept: &'a (dyn Fn(u32) -> bool + Sync),
    ) -> Self {
        Self {
            target,
            length: length as usize,
            counter,
            is_kept,
            chunks: Vec::new(),
            repeated: Vec::new(),
        }
    }

    fn sift(&mut self, block: &TokenBlock) -> TokenBlock {
        let mut left = TokenBlock::default();
        for (segment, hashes) in block.iter() {
            if (self.is_kept)(segment.document) {
                left.push(segment.document, segment.first, hashes);
            } else if hashes.len() >= self.target {
                self.sift_segment(segment, hashes, &mut left);
            }
        }
        left
    }

    fn sift_segment(&mut self, segment: TokenRun, hashes: &[u64], left: &mut TokenBlock) {
        self.chunks.clear();
        ordered_windows(hashes, self.length, &mut self.chunks);
        self.counter.repeated(&self.chunks, &mut self.repeated);
        let mut start = 0;
        for run in self.repeated.chunk_by(|one, two| one == two) {
            let end = start + run.len() + self.length - 1;
            if run[0] && end - start >= self.target {
                left.push(
                    segment.document,
                    segment.first + start as u32,
                    &hashes[start..end],
                );
            }
            start += run.len();
        }
    }
}

/// Finds the chunks of a block that were counted more than once.
struct Finder<'a> {
    target: usize,
    counter: &'a ChunkCounter,
    is_kept: &'a (dyn Fn(u32) -> bool + Sync),
    chunks: Vec<u64>,
    repeated: Vec<bool>,
}

impl Finder<'_> {
    fn find(&mut self, block: &TokenBlock) -> Vec<(u32, Vec<(u32, u64)>)> {
        let mut found: Vec<(u32, Vec<(u32, u64)>)> = Vec::new();
        for (segment, hashes) in block.iter() {
            let is_kept = (self.is_kept)(segment.document);
            if hashes.len() < self.target && !is_kept {
                continue;
            }
            self.chunks.clear();
            ordered_windows(hashes, self.target, &mut self.chunks);
            self.counter.repeated(&self.chunks, &mut self.repeated);
            let chunks = self.chunks.iter().zip(&self.repeated).zip(segment.first..);
            let chunks = chunks
                .filter(|((_, repeated), _)| **repeated || is_kept)
                .map(|((&chunk, _), position)| (position, chunk));
            match found.last_mut() {
                Some((document, of)) if *document == segment.document => of.extend(chunks),
                _ => found.push((segment.document, chunks.collect())),
            }
        }
        found
    }
}
