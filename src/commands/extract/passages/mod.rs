//! Lists the passages that many documents share, with all their places.
//!
//! [`crate::align::many`] says what a passage is and in which order passages are listed. This
//! module reads the documents, keeps their tokens on disk and writes the records.

mod excluded;
mod list;
mod noisy;
mod read;
#[cfg(test)]
mod tests;

use self::{
    excluded::read_excluded_texts,
    list::PassageList,
    read::{MappedTexts, TextStage, TextStore, rank_and_place},
};
use super::{
    put,
    stored_tokens::{self, Stored},
};
use crate::base::num::{ToU64, ToUsize};
use crate::base::setting::Setting;
use crate::{
    align::many::{
        FamilyBuilder, MaximalRepeat, RankedRepeats, RepeatFinder, RepeatPlace, RepeatRanker,
        SharedWindows, TextBounds,
    },
    base::{
        error::{Error, Result},
        parallel::{self, Budget, Limits, Weighted},
    },
    blot::{self, select},
    commands::{BlotOptions, Observer, Settings, Summary, blot::DocumentBlotter, run},
    index::{Index, View},
    report::{
        Format, Ndjson, Sink,
        records::{PassagesHeader, PlaceRow},
    },
};
use std::{io::Write, path::PathBuf};

/// Which passages to list, and how to write them.
#[derive(Debug, Clone)]
pub struct PassagesOptions {
    /// The fewest tokens of a passage; by default the length of a window of the index.
    pub min_tokens: Option<u32>,
    /// What passages have in common with these documents is cut out of them.
    pub taboo: Vec<PathBuf>,
    /// The most passages to list.
    pub top: Option<u64>,
    /// The output format.
    pub format: Format,
    /// The memory to aim at.
    pub memory_bytes: u64,
    /// If set, documents are the files that their ids name, below the first of these directories
    /// that has them; else those of the settings.
    pub by_id: Option<Vec<PathBuf>>,
}

/// Writes the passages that documents of an index share.
///
/// The same documents give the same bytes with any number of threads and any memory. Memory:
/// `memory_bytes`, about 10 bytes per blot that several texts have, 60 bytes per document, a bit
/// per token, 50 bytes per place of a repeat that starts or continues a family; for excluded
/// documents 24 bytes per token. Temporary files take 8 bytes per token and
/// the text itself for every distinct text, and 3 bytes per token for every document.
pub fn passages(
    index: &Index,
    options: &PassagesOptions,
    settings: &Settings,
    out: &mut impl Write,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    passages_with(index, options, settings, None, out, observer)
}

/// As [`passages`]; `most_blots`: the most shared blots that are kept in a table.
fn passages_with(
    index: &Index,
    options: &PassagesOptions,
    settings: &Settings,
    most_blots: Option<u64>,
    out: &mut impl Write,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    if is_noisy(index) {
        return noisy::passages(index, options, settings, most_blots, out, observer);
    }
    let reach = reach_of(index)?;
    let min_tokens = options.min_tokens.unwrap_or(reach);
    if min_tokens < reach {
        let what = format!(
            "the windows of the index are {reach} tokens long, so that shorter passages are not seen"
        );
        return Err(Error::Usage(format!(
            "{}: {what}; give at least that to {}, not {min_tokens}",
            index.directory.display(),
            Setting::MinTokens
        )));
    }
    let (threads, view) = (settings.limits.threads, View::by_id(index)?);
    let blots = DocumentBlotter::for_comparison(&BlotOptions::default(), index)?.with_spans();
    let excluded = read_excluded_texts(&options.taboo, &blots, min_tokens, settings, observer)?;
    let mut source = stored_tokens::open(&view, options.by_id.as_deref(), settings)?;
    blots.expect_in(&mut source);
    let shared = SharedWindows::new(&view, index.scheme.bits, threads, most_blots)?;
    let mut store = TextStore::new(index, shared.ranks(), options.memory_bytes / 2)?;
    let is_dna = index.scheme.tokens.is_dna();
    let (hashes, reverse, ranks) = (Vec::new(), Vec::new(), Vec::new());
    let stage = TextStage {
        blots,
        index,
        shared: &shared,
        reach,
        min_tokens,
        is_dna,
        hashes,
        reverse,
        ranks,
    };
    let summary = run(&stage, source, settings, observer, |read, _| {
        store.add(&read)
    })?
    .ensure_documents(settings)?;
    let mapped = store.map()?;
    let texts = texts_of(&store.stored, &mapped, is_dna);
    let limits = Limits::new(threads, options.memory_bytes / 2);
    let repeats = find(&store, &shared, mapped.tokens(), &texts, min_tokens, limits)?;
    drop(shared);
    let excluded = excluded.find_in(mapped.tokens(), &texts);
    let mut families = FamilyBuilder::new(
        mapped.tokens(),
        &texts,
        min_tokens,
        excluded.as_ref(),
        repeats.len(),
        limits.memory_bytes,
    );
    repeats.for_each(|repeat| families.add(&repeat))?;
    let families = families.finish();
    drop(repeats);
    put_header(index, options, out)?;
    let listing = PassageList::new(index, &store.stored, &mapped, &texts);
    listing.write(&families, options, out)?;
    Ok(summary)
}

/// Whether the index has no windows of tokens but windows of letters or content words.
fn is_noisy(index: &Index) -> bool {
    let windows = &index.scheme.windows;
    blot::verbatim(windows).is_none() && blot::has_units(windows)
}

/// The number of tokens that a window of the index covers.
fn reach_of(index: &Index) -> Result<u32> {
    let usage = |what: String| Error::Usage(format!("{}: {what}", index.directory.display()));
    if !select::is_complete(&index.scheme.select) {
        let what = format!(
            "the index has selected blots ({}), so that most windows are not in it",
            index.scheme.select
        );
        return Err(usage(format!(
            "{what}; passages need one that was built with {}",
            Setting::Select.to("all")
        )));
    }
    let no_windows = || {
        usage(format!(
            "no windows of a length in '{}'; build with {}",
            index.scheme.windows,
            Setting::Scheme.to("ordered")
        ))
    };
    blot::verbatim(&index.scheme.windows)
        .map(|(_, tokens)| tokens)
        .ok_or_else(no_windows)
}

fn texts_of(stored: &Stored, mapped: &MappedTexts<'_>, is_dna: bool) -> TextBounds {
    let mut copies = vec![0; stored.texts.len()];
    stored
        .documents
        .iter()
        .for_each(|document| copies[document.text.to_usize()] += 1);
    let starts = stored.texts.iter().flat_map(|text| {
        let opposite = text.start + u64::from(text.tokens) + 1;
        [text.start].into_iter().chain(is_dna.then_some(opposite))
    });
    TextBounds::new(starts.collect(), copies, mapped.tokens().len().to_u64())
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
    options.format.put_head(&PlaceRow::default(), &mut head)?;
    put(out, &head)
}

/// Finds all repeats, bucket by bucket.
fn find(
    store: &TextStore,
    shared: &SharedWindows,
    tokens: &[[u8; 8]],
    texts: &TextBounds,
    min_tokens: u32,
    limits: Limits,
) -> Result<RankedRepeats> {
    let mut ranker = RepeatRanker::new(limits.memory_bytes)?;
    add_copied_texts(store, texts, min_tokens, &mut ranker)?;
    let worker = || {
        let mut finder = RepeatFinder::new(tokens, texts, min_tokens);
        move |bucket| find_in_bucket(store, shared, texts, bucket, &mut finder)
    };
    let source = (0..store.windows.len()).map(|item| {
        Ok(Weighted {
            item,
            bytes: store.windows.bytes(item),
        })
    });
    let weigh = |found: &Result<BucketRepeats>| {
        found.as_ref().map_or(0, |found| {
            (8 * found.places.len() + 48 * found.repeats.len()).to_u64()
        })
    };
    let budget = Budget::Bytes(limits.memory_bytes);
    parallel::ordered(limits.threads, budget, source, worker, weigh, |found| {
        let BucketRepeats { repeats, places } = found?;
        ranker.add(&repeats, &places)
    })?;
    ranker.finish()
}

/// Adds each text of several documents, which is a passage of its own.
fn add_copied_texts(
    store: &TextStore,
    texts: &TextBounds,
    min_tokens: u32,
    ranker: &mut RepeatRanker,
) -> Result<()> {
    for (number, text) in (0..).zip(&store.stored.texts) {
        let copies = texts.copies(number);
        if copies > 1 && text.tokens >= min_tokens {
            let whole = MaximalRepeat {
                tokens: text.tokens,
                first: 0,
                count: 1,
                before: 0,
                start: text.start,
                copies: copies.into(),
            };
            let whole_place = RepeatPlace {
                at: text.start,
                period: 0,
            };
            ranker.add(&[(whole, 0)], &[whole_place.to_bytes()])?;
        }
    }
    Ok(())
}

/// The repeats of a bucket, each with the index of its first place.
struct BucketRepeats {
    repeats: Vec<(MaximalRepeat, u64)>,
    places: Vec<[u8; 8]>,
}

/// Finds the repeats of the windows of a bucket.
fn find_in_bucket(
    store: &TextStore,
    shared: &SharedWindows,
    texts: &TextBounds,
    bucket: usize,
    finder: &mut RepeatFinder<'_>,
) -> Result<BucketRepeats> {
    let windows = store.windows_of(bucket, shared)?;
    let (mut repeats, mut places, mut starts, mut found) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for same in windows
        .chunk_by(|&one, &two| rank_and_place(one).0 == rank_and_place(two).0)
        .filter(|same| same.len() > 1)
    {
        starts.clear();
        starts.extend(same.iter().map(|&window| rank_and_place(window).1));
        finder.find(&mut starts, &mut found);
        if texts.has_strands() {
            found.retain(|repeat| finder.is_first_strand(repeat));
        }
        if !found.is_empty() {
            let base = places.len().to_u64();
            repeats.extend(
                found
                    .iter()
                    .map(|&repeat| (repeat, base + repeat.first.to_u64())),
            );
            places.extend(finder.places().map(RepeatPlace::to_bytes));
        }
    }
    Ok(BucketRepeats { repeats, places })
}
