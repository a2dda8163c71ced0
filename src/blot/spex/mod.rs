//! Finds the chunks of tokens that occur more than once, in little memory.
//!
//! SPEX (Bernstein and Zobel 2006): a chunk of `l` tokens can occur twice only if all shorter
//! chunks in it do. So the first pass counts all chunks of one length; each following pass counts
//! only those longer chunks that consist of chunks with a count above one, up to the length `l`.
//! Counters have two bits per field and do not resolve collisions, so little memory is enough for
//! any collection. The result is every chunk that occurs more than once, and a few that occur once:
//! the caller must tell them apart.
//!
//! ```text
//! tokens ──► hashes, and counts  ──► segments of repeated chunks, ──► … ──► chunks of l tokens
//!            of the shortest chunks  and counts of longer chunks
//!            [TokenStream]           [Sieve] [ChunkCounter]                 [Sift::survivors]
//! ```
//!
//! Unlike the published algorithm this reads the text once: later passes read a file of hashes, and
//! each pass keeps only the segments that can still contain a chunk of `l` tokens. Two counters are
//! in memory at a time.

mod counter;
mod token_stream;

pub use counter::{ChunkCounter, Occupancy};
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

/// The statistics of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// The length of the counted chunks, in tokens.
    pub length: u32,
    /// The number of counted chunks.
    pub counted: u64,
    /// The use of the counter.
    pub occupancy: Occupancy,
    /// The number of fields of the counter.
    pub fields: u64,
    /// The number of remaining tokens.
    pub tokens: u64,
}

/// The options of the passes.
pub struct Sift<'a> {
    /// The chunk length of each pass, rising; the last is the length of the chunks to find.
    pub lengths: &'a [u32],
    /// The size of a counter.
    pub counter_bytes: u64,
    /// Whether to keep all chunks of a document, because it has exact duplicates.
    pub is_kept: &'a (dyn Fn(u32) -> bool + Sync),
    /// The threads and the memory of the passes.
    pub limits: Limits,
    /// Where temporary files are created.
    pub directory: &'a TempDir,
}

impl Sift<'_> {
    /// The length of the chunks to find.
    fn target(&self) -> u32 {
        self.lengths.last().copied().unwrap_or(1)
    }

    /// Runs all passes but the first, whose counter and number of chunks are given.
    ///
    /// Returns the remaining tokens, the last counter, and the statistics of each pass.
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

    /// Counts the chunks that consist of chunks of the previous length with a count above one.
    fn pass(
        &self,
        stream: &TokenStream,
        before: (u32, &ChunkCounter),
        next: (u32, &ChunkCounter),
    ) -> Result<(TokenStream, u64)> {
        let mut left = TokenStream::new(self.directory)?;
        let counted = AtomicU64::new(0);
        let worker = || {
            let mut sieve = Sieve::new(self.target() as usize, before, self.is_kept);
            let counted = &counted;
            move |place: BlockLocation| -> Result<TokenBlock> {
                let block = sieve.sift(&stream.read(&place)?);
                let mut chunks = Vec::new();
                stream.release(&place);
                for (segment, hashes) in block.iter() {
                    chunks.clear();
                    ordered_windows(hashes, next.0 as usize, &mut chunks);
                    next.1.count(&chunks);
                    counted.fetch_add(chunks.len() as u64, Relaxed);
                    if (self.is_kept)(segment.document) {
                        // Count them again for the duplicates of the document.
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

    /// Passes the remaining chunks of each block to `work`, document by document, each with the
    /// number of its first token, and the results to `sink`, in order.
    ///
    /// `weigh` returns the size of a result in bytes.
    pub fn survivors<R: Send>(
        &self,
        stream: &TokenStream,
        counter: &ChunkCounter,
        work: impl Fn(&mut dyn Iterator<Item = (u32, &[(u32, u64)])>) -> R + Sync,
        weigh: impl Fn(&R) -> u64 + Sync,
        sink: impl FnMut(R) -> Result<()>,
    ) -> Result<()> {
        let worker = || {
            let mut finder = RepeatFinder {
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

    /// Runs the workers on all blocks in parallel, and passes the results to `sink` in order.
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
        // Not a rayon iterator: blocks are read from disk, within a budget of bytes, and leave in
        // order.
        let budget = Budget::Bytes(self.limits.memory_bytes);
        parallel::ordered(self.limits.threads, budget, blocks, worker, weigh, |made| {
            sink(made?)
        })
    }
}

/// Reduces each segment to the runs in which all chunks of a length have a count above one.
struct Sieve<'a> {
    /// Runs of fewer tokens are dropped.
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

/// Finds the chunks of a block that have a count above one.
struct RepeatFinder<'a> {
    target: usize,
    counter: &'a ChunkCounter,
    is_kept: &'a (dyn Fn(u32) -> bool + Sync),
    chunks: Vec<u64>,
    repeated: Vec<bool>,
}

impl RepeatFinder<'_> {
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
