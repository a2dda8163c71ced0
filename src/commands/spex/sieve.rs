//! The passes of SPEX over the tokens of a collection: for a filter, for the figures of each pass,
//! and to list chunks.

use super::{SpexOptions, documents::block_limits};
use crate::{
    base::{
        error::{Error, Result},
        num::ToU64,
    },
    blot::{
        ordered_windows,
        select::write_filter,
        spex::{ChunkCounter, Pass, Sift, TokenBlock, TokenStream},
    },
    text::scheme::BlotScheme,
};
use std::{
    io::Write,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Whether a document has exact duplicates: then all its chunks are shared.
pub type HasAlias<'a> = &'a (dyn Fn(u32) -> bool + Sync);

/// The chunks that are left after all passes.
pub struct SiftedChunks {
    pub stream: TokenStream,
    pub counter: ChunkCounter,
    pub passes: Vec<Pass>,
}

impl SiftedChunks {
    /// Runs all passes but the first, which counted the shortest chunks.
    pub fn new(
        options: &SpexOptions,
        stream: TokenStream,
        counter: ChunkCounter,
        counted: u64,
        has_alias: HasAlias<'_>,
    ) -> Result<Self> {
        let (stream, counter, passes) = sift(options, has_alias).run(stream, counter, counted)?;
        Ok(Self {
            stream,
            counter,
            passes,
        })
    }

    /// Runs all passes over contents: each with the number of its document, and the hashes of its tokens.
    pub fn of_contents(
        options: &SpexOptions,
        contents: impl FnOnce(&mut dyn FnMut(u32, &[u64]) -> Result<()>) -> Result<()>,
        has_alias: HasAlias<'_>,
    ) -> Result<Self> {
        let counter = ChunkCounter::new(options.counter_bytes);
        let mut stream = TokenStream::new(&options.resources.tmp_dir)?;
        let (mut chunks, mut counted) = (Vec::new(), 0);
        contents(&mut |document, hashes| {
            chunks.clear();
            ordered_windows(hashes, options.lengths[0] as usize, &mut chunks);
            counter.count(&chunks);
            counted += chunks.len().to_u64();
            let mut block = TokenBlock::default();
            block.push(document, 0, hashes);
            stream.push(&block)
        })?;
        Self::new(options, stream, counter, counted, has_alias)
    }

    /// The number of places of chunks that are left.
    pub fn survivors(&self, options: &SpexOptions, has_alias: HasAlias<'_>) -> Result<u64> {
        let survivors = AtomicU64::new(0);
        let count = |found: &mut dyn Iterator<Item = (u32, &[(u32, u64)])>| {
            found.for_each(|(_, chunks)| {
                survivors.fetch_add(chunks.len().to_u64(), Relaxed);
            });
        };
        sift(options, has_alias).survivors(
            &self.stream,
            &self.counter,
            count,
            |()| 1,
            |()| Ok(()),
        )?;
        Ok(survivors.into_inner())
    }

    /// Writes the last counter as a filter for blots.
    pub fn write_filter(&self, scheme: &BlotScheme, out: &mut dyn Write) -> Result<()> {
        let scheme = format!("{} {}", scheme.tokens, scheme.windows);
        write_filter(out, &scheme, self.counter.bits(), self.counter.repeats())
            .map_err(Error::output)
    }
}

pub fn sift<'a>(options: &'a SpexOptions, has_alias: HasAlias<'a>) -> Sift<'a> {
    let SpexOptions {
        lengths,
        counter_bytes,
        resources,
        ..
    } = options;
    Sift {
        lengths,
        counter_bytes: *counter_bytes,
        is_kept: has_alias,
        limits: block_limits(resources),
        directory: &resources.tmp_dir,
    }
}
