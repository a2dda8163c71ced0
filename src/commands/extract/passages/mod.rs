//! What many documents have in common: maximal shared passages, with all their places.
//!
//! A *passage* is a run of at least `min_tokens` tokens that stands in two documents or more and is maximal: there is no token by which all its
//! places could be made longer, to the left or to the right. Repeats within a document are places like others; but of text that is repeated right after
//! itself only the first and the last repetition count, and what only copies of one text have, is the whole text. Exact duplicates are documents of their own.
//!
//! Passages come by falling length in tokens × places; of equal ones that with the first place comes first. One is listed unless
//! all of its places but one lie within places of those that were listed before it: so a licence in 5,000 files is one passage, and its
//! paragraphs are not told once more.
//!
//! ```text
//! documents ──► tokens, spans, texts ──► on disk ───────────────────────────────┐
//!          └──► windows ──► those that several texts have, and that several ──► trees of what follows ──► repeats ──► by weight ──► passages
//!                           tokens stand before [marks]                         [repeat]                            [list]
//! ```
//!
//! Tokens are compared by 64-bit hashes, so that blots that collide make no passage. The index says which windows several texts have; of those only
//! the ones that are not always preceded by the same token, few within what was copied, are sorted and compared.

mod list;
mod marks;
mod read;
mod taboo;
#[cfg(test)]
mod tests;

use self::{
    list::Listing,
    marks::Marks,
    read::{Mapped, Store, ToTexts, rank_and_place},
    taboo::Taboo,
};
use super::{
    put,
    stored::{self, Stored},
};
use crate::base::num::{ToU64, ToUsize};
use crate::{
    align::repeat::{MaximalRepeat, RepeatFinder, TextBounds},
    base::{
        error::{Error, Result},
        files::{Mapping, TempDir, TempFile},
        parallel::{self, Budget, Limits, Weighted},
    },
    blot::{self, select},
    commands::{BlotOptions, Settings, Summary, Watch, blot::ToBlots, run},
    index::{Index, View, posting::Buckets},
    report::{
        Format, Ndjson, Sink,
        records::{PassageFamily, PassagesHeader},
    },
};
use std::{io::Write, path::PathBuf};

/// Which passages, and how they are written.
#[derive(Debug, Clone)]
pub struct PassagesOptions {
    /// None: as many as a window of the index reaches over.
    pub min_tokens: Option<u32>,
    /// What stands wholly in one of these documents is not listed.
    pub taboo: Vec<PathBuf>,
    /// Only so many.
    pub top: Option<u64>,
    pub format: Format,
    pub memory_bytes: u64,
    /// Documents are the files that their ids name, below the first of these that has them if any are given; else those of the settings.
    pub by_id: Option<Vec<PathBuf>>,
}

/// Writes the passages that documents of an index share.
///
/// The same documents give the same bytes, whatever the threads and the memory. Memory: `memory_bytes`, some 10 bytes for each blot that several texts have, 60 bytes a
/// document, a bit a token; for taboo documents 24 bytes a token. Temporary files take 8 bytes a token and the texts once for every distinct text, 3 bytes a token for every document.
pub fn passages(
    index: &Index,
    options: &PassagesOptions,
    settings: &Settings,
    out: &mut impl Write,
    watch: &mut dyn Watch,
) -> Result<Summary> {
    passages_with(index, options, settings, None, out, watch)
}

/// `most_blots`: of more there is no table.
fn passages_with(
    index: &Index,
    options: &PassagesOptions,
    settings: &Settings,
    most_blots: Option<u64>,
    out: &mut impl Write,
    watch: &mut dyn Watch,
) -> Result<Summary> {
    let reach = reach_of(index)?;
    let min_tokens = options.min_tokens.unwrap_or(reach);
    if min_tokens < reach {
        let what = format!(
            "the windows of the index are {reach} tokens long, so that shorter passages are not seen"
        );
        return Err(Error::Usage(format!(
            "{}: {what}; give at least that to --min-tokens, not {min_tokens}",
            index.directory.display()
        )));
    }
    let (threads, view) = (settings.limits.threads, View::by_id(index)?);
    let blots = ToBlots::for_comparison(&BlotOptions::default(), index)?.with_spans();
    let taboo = Taboo::read(&options.taboo, &blots, min_tokens, settings, watch)?;
    let mut source = stored::open(&view, options.by_id.as_deref(), settings)?;
    blots.expect_in(&mut source);
    let marks = Marks::new(&view, index.scheme.bits, threads, most_blots)?;
    let mut store = Store::new(index, marks.ranks(), options.memory_bytes / 2)?;
    let is_dna = index.scheme.tokens.is_dna();
    let (hashes, ranks) = (Vec::new(), Vec::new());
    let stage = ToTexts {
        blots,
        index,
        marks: &marks,
        reach,
        min_tokens,
        is_dna,
        hashes,
        ranks,
    };
    let summary = run(&stage, source, settings, watch, |read, _| store.add(&read))?
        .ensure_documents(settings)?;
    let mapped = store.map()?;
    let texts = texts_of(&store.stored, &mapped);
    let limits = Limits::new(threads, options.memory_bytes / 2);
    let repeats = find(&store, &marks, mapped.tokens(), &texts, min_tokens, limits)?;
    drop(marks);
    put_header(index, options, out)?;
    let listing = Listing::new(index, &store.stored, &mapped, &texts, &taboo);
    listing.write(&repeats, options, out)?;
    Ok(summary)
}

/// How many tokens a window reaches over.
fn reach_of(index: &Index) -> Result<u32> {
    let usage = |what: String| Error::Usage(format!("{}: {what}", index.directory.display()));
    if !select::is_complete(&index.scheme.select) {
        let what = format!(
            "the index has selected blots ({}), so that most windows are not in it",
            index.scheme.select
        );
        return Err(usage(format!(
            "{what}; passages need one that was built with --select all"
        )));
    }
    let no_windows = || {
        usage(format!(
            "no windows of a length in '{}'; build with --scheme ordered",
            index.scheme.windows
        ))
    };
    blot::verbatim(&index.scheme.windows)
        .map(|(_, tokens)| tokens)
        .ok_or_else(no_windows)
}

fn texts_of(stored: &Stored, mapped: &Mapped<'_>) -> TextBounds {
    let mut copies = vec![0; stored.texts.len()];
    stored
        .documents
        .iter()
        .for_each(|document| copies[document.text.to_usize()] += 1);
    TextBounds::new(
        stored.texts.iter().map(|text| text.start).collect(),
        copies,
        mapped.tokens().len().to_u64(),
    )
}

/// With NDJSON, and if something is asked for, the first line says what.
fn put_header(index: &Index, options: &PassagesOptions, out: &mut impl Write) -> Result<()> {
    let is_plain = options.min_tokens.is_none() && options.taboo.is_empty();
    let mut head = Vec::new();
    if options.format == Format::Ndjson && !is_plain {
        let header = PassagesHeader {
            dedup: "extract",
            min_tokens: options.min_tokens,
            scheme: &index.manifest.scheme,
            taboo: &options.taboo,
            version: 1,
        };
        Ndjson.put_record(&header, &mut head)?;
    }
    options
        .format
        .put_head(&PassageFamily::default(), &mut head)?;
    put(out, &head)
}

/// Repeats by weight, and their places.
struct Repeats {
    /// Records of [`to_record`], by classes of falling weight.
    by_weight: Buckets<5>,
    places: Mapping,
}

/// So many classes an octave, as a power of two.
const CLASS_BITS: u32 = 3;
const CLASSES: usize = (64 - CLASS_BITS as usize + 1) << CLASS_BITS;

/// The class of a weight: the greatest is the first.
fn class_of(weight: u64) -> usize {
    let octave = (weight | 1 << CLASS_BITS).ilog2() - CLASS_BITS;
    CLASSES - 1 - (((octave.to_usize()) << CLASS_BITS) + (weight >> octave).to_usize())
}

/// Sorts by falling weight, then by the first place, then by falling length.
fn to_record(repeat: &MaximalRepeat, offset: u64) -> [u64; 5] {
    let MaximalRepeat {
        tokens,
        count,
        before,
        start,
        copies,
        ..
    } = *repeat;
    [
        !(u64::from(tokens) * copies),
        start,
        !u64::from(tokens),
        offset,
        (count.to_u64()) << 32 | u64::from(before),
    ]
}

/// Finds all repeats, bucket by bucket.
fn find(
    store: &Store,
    marks: &Marks,
    tokens: &[[u8; 8]],
    texts: &TextBounds,
    min_tokens: u32,
    limits: Limits,
) -> Result<Repeats> {
    let mut by_weight = Buckets::new(CLASSES, limits.memory_bytes, TempDir(None));
    let mut file = TempFile::new(&TempDir(None))?;
    let add = |found: Vec<(MaximalRepeat, u64)>,
               places: &[u8],
               file: &mut TempFile,
               by_weight: &mut Buckets<5>| {
        let base = file.append(places)?.start / 8;
        for (repeat, offset) in found {
            by_weight.push(
                class_of(u64::from(repeat.tokens) * repeat.copies),
                to_record(&repeat, base + offset),
            );
        }
        by_weight.settle()
    };
    for (number, text) in (0..)
        .zip(&store.stored.texts)
        .filter(|(number, text)| texts.copies(*number) > 1 && text.tokens >= min_tokens)
    {
        let (start, tokens, copies) = (text.start, text.tokens, u64::from(texts.copies(number)));
        let whole = MaximalRepeat {
            tokens,
            first: 0,
            count: 1,
            before: 0,
            start,
            copies,
        };
        add(
            vec![(whole, 0)],
            &start.to_le_bytes(),
            &mut file,
            &mut by_weight,
        )?;
    }
    let worker = || {
        let mut finder = RepeatFinder::new(tokens, texts, min_tokens);
        move |bucket| repeats_of(store, marks, bucket, &mut finder)
    };
    let source = (0..store.windows.len()).map(|item| {
        Ok(Weighted {
            item,
            bytes: store.windows.bytes(item),
        })
    });
    let weigh = |found: &Result<FoundIn>| {
        found.as_ref().map_or(0, |found| {
            (8 * found.places.len() + 48 * found.repeats.len()).to_u64()
        })
    };
    let budget = Budget::Bytes(limits.memory_bytes);
    parallel::ordered(limits.threads, budget, source, worker, weigh, |found| {
        let FoundIn { repeats, places } = found?;
        add(repeats, places.as_flattened(), &mut file, &mut by_weight)
    })?;
    Ok(Repeats {
        by_weight,
        places: file.map()?,
    })
}

/// Repeats, each with where its places begin among all of these.
struct FoundIn {
    repeats: Vec<(MaximalRepeat, u64)>,
    places: Vec<[u8; 8]>,
}

fn repeats_of(
    store: &Store,
    marks: &Marks,
    bucket: usize,
    finder: &mut RepeatFinder<'_>,
) -> Result<FoundIn> {
    let windows = store.windows_of(bucket, marks)?;
    let (mut repeats, mut places, mut starts, mut found) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for same in windows
        .chunk_by(|&one, &two| rank_and_place(one).0 == rank_and_place(two).0)
        .filter(|same| same.len() > 1)
    {
        starts.clear();
        starts.extend(same.iter().map(|&window| rank_and_place(window).1));
        finder.find(&mut starts, &mut found);
        if !found.is_empty() {
            let base = places.len().to_u64();
            repeats.extend(
                found
                    .iter()
                    .map(|&repeat| (repeat, base + repeat.first.to_u64())),
            );
            places.extend(finder.places().map(u64::to_le_bytes));
        }
    }
    Ok(FoundIn { repeats, places })
}
