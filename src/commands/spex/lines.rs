//! Lists shared chunks with their texts and documents, or only counts them for a filter.

use super::{
    SpexOptions, SpexSummary,
    chunks::{self, ChunkList},
    documents::{HashOptions, HashStage, SpexDocuments},
    sieve::{SiftedChunks, sift},
    tokens::{ChunkScheme, open},
};
use crate::{
    base::{
        error::{Error, Result},
        num::ToU64,
    },
    blot::spex::{ChunkCounter, TokenStream},
    commands::{Observer, Settings, run},
    text::stream::{Blots, Tokens},
};
use std::{
    io::Write,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// The bits of a chunk in a list.
const BITS: u8 = 64;

/// Finds shared chunks: writes a line of JSON for each of them, and the last counter to `filter`.
pub fn write(
    options: &SpexOptions,
    settings: &Settings,
    lines: Option<&mut dyn Write>,
    filter: Option<&mut dyn Write>,
    observer: &mut dyn Observer,
) -> Result<SpexSummary> {
    let (source, tokens) = open(options, settings, None)?;
    let options = &SpexOptions {
        bits: Some(BITS),
        ..options.clone()
    };
    let chunks = ChunkScheme::new(options, tokens)?;
    let mut documents = SpexDocuments::new(&options.resources.tmp_dir, lines.is_some())?;
    let mut stream = TokenStream::new(&options.resources.tmp_dir)?;
    let counter = ChunkCounter::new(options.counter_bytes);
    let counted = AtomicU64::new(0);
    let stage = HashStage::new(HashOptions {
        scheme: &chunks.scheme.tokens,
        counter: &counter,
        length: options.lengths[0],
        counted: &counted,
        with_text: lines.is_some(),
    });
    let summary = run(&stage, source, settings, observer, |hashed, ids| {
        stream.push(&documents.add(hashed, ids)?)
    })?
    .ensure_documents(settings)?;
    let has_alias = |document: u32| documents.has_alias(document);
    let sifted = SiftedChunks::new(options, stream, counter, counted.into_inner(), &has_alias)?;
    let mut survivors = 0;
    if let Some(out) = lines {
        survivors = write_lines(options, &chunks, &documents, &sifted, out)?;
    }
    if let Some(out) = filter {
        sifted.write_filter(&chunks.scheme, out)?;
    }
    Ok(SpexSummary {
        summary,
        passes: sifted.passes,
        chunks: documents.chunks(chunks.length),
        survivors,
        ..SpexSummary::default()
    })
}

/// Returns the number of places of chunks that are left after all passes.
fn write_lines(
    options: &SpexOptions,
    of: &ChunkScheme,
    documents: &SpexDocuments,
    sifted: &SiftedChunks,
    out: &mut dyn Write,
) -> Result<u64> {
    let has_alias = |document: u32| documents.has_alias(document);
    let survivors = AtomicU64::new(0);
    let mut list = ChunkList::new(&options.resources);
    let gather = |found: &mut dyn Iterator<Item = (u32, &[(u32, u64)])>| {
        let (mut selection, mut blots, mut keys) =
            (of.selection.clone(), Blots::default(), Vec::new());
        for (document, found) in found {
            survivors.fetch_add(found.len().to_u64(), Relaxed);
            blots.clear();
            let places = found.iter();
            places.for_each(|&(position, chunk)| blots.push(chunk, position));
            selection.apply(&Tokens::default(), &mut blots);
            let places = blots.values.iter().zip(&blots.positions);
            keys.extend(places.map(|(&chunk, &position)| chunks::key(chunk, document, position)));
        }
        keys
    };
    let weigh = |keys: &Vec<chunks::Key>| 16 * keys.len().to_u64();
    sift(options, &has_alias).survivors(
        &sifted.stream,
        &sifted.counter,
        gather,
        weigh,
        |keys| list.push(&keys),
    )?;
    let worked = |places: &[chunks::Key], lines: &mut Vec<u8>| {
        chunks::put_chunk(lines, places, documents, of.length)
    };
    list.each_shared(documents, options.within, worked, |lines| {
        out.write_all(&lines).map_err(Error::output)
    })?;
    Ok(survivors.into_inner())
}
