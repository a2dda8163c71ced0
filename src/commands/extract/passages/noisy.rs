//! Passages of an index of letters or content words: families of reprints.

use super::{
    super::{
        spans::indexed,
        stored_tokens::{self, hash_tokens},
    },
    PassagesOptions,
    list::PassageList,
    put_header,
    read::{ReadTexts, TextStore, rank_and_place},
    texts_of,
};
use crate::base::num::ToUsize;
use crate::{
    align::many::{Families, ReprintFinder, SharedWindows, TextBounds, UNSHARED},
    base::error::Result,
    commands::{
        BlotOptions, DocumentStage, Observer, Settings, Summary, blot::DocumentBlotter,
        excluded_text::blots_of_files, run,
    },
    index::{Index, View},
    text::corpus::InputDocument,
};
use std::{collections::HashSet, io::Write};

/// The fewest tokens of a passage if the user sets none: shorter phrases are shared by chance.
const MIN_TOKENS: u32 = 20;

/// As [`super::passages`], for text with errors.
pub fn passages(
    index: &Index,
    options: &PassagesOptions,
    settings: &Settings,
    most_blots: Option<u64>,
    out: &mut impl Write,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    let min_tokens = options.min_tokens.unwrap_or(MIN_TOKENS);
    let view = View::by_id(index)?;
    let blots = DocumentBlotter::for_comparison(&BlotOptions::default(), index)?.with_spans();
    let excluded = blots_of_files(&options.taboo, &blots, settings, observer)?;
    let mut source = stored_tokens::open(&view, options.by_id.as_deref(), settings)?;
    blots.expect_in(&mut source);
    let threads = settings.limits.threads;
    let shared = SharedWindows::new(&view, index.scheme.bits, threads, most_blots)?;
    let mut store = TextStore::new(index, shared.ranks(), options.memory_bytes / 2)?;
    let (hashes, ranks) = (Vec::new(), Vec::new());
    let stage = SeedStage {
        blots,
        index,
        shared: &shared,
        excluded: &excluded,
        hashes,
        ranks,
    };
    let summary = run(&stage, source, settings, observer, |read, _| {
        store.add(&read)
    })?
    .ensure_documents(settings)?;
    let mapped = store.map()?;
    let texts = texts_of(&store.stored, &mapped, false);
    let memory_bytes = options.memory_bytes / 2;
    let finder = ReprintFinder::new(&texts, min_tokens, mapped.reaches(), memory_bytes);
    let families = find(&store, &shared, &texts, finder, excluded.is_empty())?;
    drop(shared);
    put_header(index, options, out)?;
    PassageList::new(index, &store.stored, &mapped, &texts).write(&families, options, out)?;
    Ok(summary)
}

/// Links the places of each seed.
fn find<'t>(
    store: &TextStore,
    shared: &SharedWindows,
    texts: &TextBounds,
    mut finder: ReprintFinder<'t>,
    takes_copies: bool,
) -> Result<Families<'t>> {
    for (number, text) in (0..).zip(&store.stored.texts) {
        if takes_copies && texts.copies(number) > 1 {
            finder.add_copied_text(text.start..text.start + u64::from(text.tokens));
        }
    }
    let mut places = Vec::new();
    for bucket in 0..store.windows.len() {
        let windows = store.windows_of(bucket, shared)?;
        for same in windows.chunk_by(|&one, &two| rank_and_place(one).0 == rank_and_place(two).0) {
            places.clear();
            places.extend(same.iter().map(|&window| rank_and_place(window).1));
            places.dedup();
            finder.add_seed(&places)?;
        }
    }
    finder.finish()
}

/// Turns documents into tokens and seeds.
#[derive(Clone)]
struct SeedStage<'s> {
    blots: DocumentBlotter,
    index: &'s Index,
    shared: &'s SharedWindows,
    /// Blots of excluded texts.
    excluded: &'s HashSet<u64>,
    hashes: Vec<u64>,
    ranks: Vec<u32>,
}

impl DocumentStage for SeedStage<'_> {
    type Out = ReadTexts;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut ReadTexts) -> Result<(), String> {
        let (tokens, blots, blotter, hash) = self.blots.unit_parts(item)?;
        let (at, row) = indexed(self.index, item.id, hash)?;
        hash_tokens(tokens, None, &mut self.hashes);
        self.ranks.clear();
        self.shared.rank(&blots.values, &mut self.ranks);
        let first = out.reaches.len();
        out.reaches.resize(first + tokens.len(), 0);
        let seeds = blots.values.iter().zip(&blots.positions).zip(&self.ranks);
        for ((blot, &position), &rank) in seeds.filter(|(_, rank)| **rank != UNSHARED) {
            if self.excluded.contains(blot) {
                continue;
            }
            // Every seed counts, whatever is before it.
            self.shared.add_predecessor(rank, None);
            out.windows
                .push(u64::from(rank) << 32 | u64::from(position));
            let reach = &mut out.reaches[first + position.to_usize()];
            if *reach == 0 {
                let last = blotter.last_token(tokens, position.to_usize());
                *reach = u8::try_from(last + 1 - position.to_usize()).unwrap_or(u8::MAX);
            }
        }
        out.tokens.push(at, &row, tokens, &self.hashes);
        out.end_document(item);
        Ok(())
    }

    fn finish(&mut self, _: &mut ReadTexts) {
        self.blots.release_buffers();
        crate::base::codec::clear_buffer(&mut self.hashes);
        crate::base::codec::clear_buffer(&mut self.ranks);
    }
}
