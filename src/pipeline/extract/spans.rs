//! What of each document was seen before: the bytes to cut for training data.

use super::put;
use crate::{
    corpus::{Item, Source},
    error::{Error, Result},
    format::{Batch, Span},
    index::{Index, Posted, View},
    pipeline::{BlotOptions, Settings, Stage, Summary, Watch, blot::ToBlots, run},
    report::{Format, Value, put_id, put_names, put_record},
};
use std::{
    io::Write,
    sync::atomic::{AtomicU32, Ordering},
};

/// Writes for each document of a corpus, which the index must have, the byte ranges that are in a window of an earlier document of the index.
///
/// Memory: some 40 bytes a document of the index, some 13 for each blot of several contents, and the documents under way.
pub fn spans(index: &Index, format: Format, settings: &Settings, out: &mut impl Write, watch: &mut dyn Watch) -> Result<Summary> {
    if index.scheme.select != "all" {
        let what = format!("the index has selected blots ({}), so that most windows are not in it", index.scheme.select);
        return Err(Error::Usage(format!("{}: {what}; spans need one that was built with --select all", index.directory.display())));
    }
    let blots = ToBlots::as_index(&BlotOptions::default(), &index.manifest, &index.directory)?.with_spans();
    let mut source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
    blots.expect_in(&mut source);
    let seen = Seen::new(index)?;
    let mut names = Vec::new();
    put_names(&mut names, format, &["doc", "bytes", "spans", "seen"]);
    put(out, &names)?;
    let stage = Mark { blots, seen: &seen, format, places: Vec::new(), found: Vec::new() };
    run(&stage, source, settings, watch, |batch, _| put(out, &batch.bytes))
}

/// Where blots come first.
struct Seen<'i> {
    index: &'i Index,
    /// For each segment and place, the least number of a document with the content there.
    first_at: Vec<Vec<u32>>,
    /// For each segment and set, the least of its members', once it was asked for.
    first_of: Vec<Vec<AtomicU32>>,
    /// All that is shared, if there is memory for it: far faster than a look-up in the index for each window.
    shared: Option<Shared>,
}

/// The blots of several contents, in rising order, and the least number of a document with each.
struct Shared {
    bits: u8,
    blots: Vec<u64>,
    first: Vec<u32>,
    /// Where those start that agree in so many top bits.
    starts: Vec<u32>,
    start_bits: u8,
}

/// Shared blots are held up to this many: 12 bytes each, and half a byte to find them.
const MOST_SHARED: usize = 1 << 28;

impl Shared {
    /// None if there are too many.
    fn new(view: &View<'_>, bits: u8) -> Result<Option<Self>> {
        let (mut blots, mut first) = (Vec::new(), Vec::new());
        let mut is_too_much = false;
        view.for_each_blot(|blot, contents| {
            is_too_much |= blots.len() == MOST_SHARED;
            if let ([least, _, ..], false) = (contents, is_too_much) {
                blots.push(blot);
                // Contents stand in the order of their first documents.
                first.push(view.row(view.documents_of(*least)[0] as usize)?.number);
            }
            Ok(())
        })?;
        if is_too_much {
            return Ok(None);
        }
        let start_bits = (blots.len().max(1).ilog2() as u8).saturating_sub(3).clamp(1, bits);
        let mut starts: Vec<u32> = Vec::with_capacity((1 << start_bits) + 1);
        for (at, blot) in blots.iter().enumerate() {
            starts.resize((blot >> (bits - start_bits)) as usize + 1, at as u32);
        }
        starts.resize((1 << start_bits) + 1, blots.len() as u32);
        Ok(Some(Self { bits, blots, first, starts, start_bits }))
    }

    fn first(&self, blot: u64) -> u32 {
        let bucket = (blot >> (self.bits - self.start_bits)) as usize;
        let range = self.starts[bucket] as usize..self.starts[bucket + 1] as usize;
        let found = self.blots[range.clone()].binary_search(&blot);
        found.map_or(NEVER, |at| self.first[range.start + at])
    }
}

/// No document has it.
const NEVER: u32 = u32::MAX;
const NOT_ASKED: u32 = u32::MAX - 1;

impl<'i> Seen<'i> {
    fn new(index: &'i Index) -> Result<Self> {
        let view = View::of(index)?;
        let mut first_at = view.document_at();
        for first in first_at.iter_mut().flatten().filter(|first| **first != NEVER) {
            *first = view.row(*first as usize)?.number;
        }
        let unknown = |sets: u64| (0..sets).map(|_| AtomicU32::new(NOT_ASKED)).collect();
        let first_of = index.segments.iter().map(|segment| unknown(segment.sets.len())).collect();
        let shared = Shared::new(&view, index.scheme.bits)?;
        Ok(Self { index, first_at, first_of, shared })
    }

    /// The number of the first document that has a blot, of a document that is the first with its content: others must have it to matter.
    fn first(&self, blot: u64, places: &mut Vec<u32>) -> Result<u32> {
        if let Some(shared) = &self.shared {
            return Ok(shared.first(blot));
        }
        let mut first = NEVER;
        for (number, segment) in self.index.segments.iter().enumerate() {
            let Some(posted) = segment.find(blot, self.index.scheme.bits)? else { continue };
            let kept = match posted {
                Posted::Set(set) => self.first_of[number].get(set as usize),
                Posted::One(_) => None,
            };
            let known = kept.map_or(NOT_ASKED, |kept| kept.load(Ordering::Relaxed));
            let here = if known == NOT_ASKED {
                segment.places(posted, places)?;
                let least = places.iter().map(|&place| self.first_at[number][place as usize]).min().unwrap_or(NEVER);
                // Whoever asks at the same time finds the same.
                kept.into_iter().for_each(|kept| kept.store(least, Ordering::Relaxed));
                least
            } else {
                known
            };
            first = first.min(here);
        }
        Ok(first)
    }

    /// The number of a document, and that of the first one with the same tokens.
    fn document(&self, id: &str, hash: Option<u128>) -> Result<(u32, u32), String> {
        let found = self.index.find_id(id).and_then(|at| at.map(|at| self.index.row(at)).transpose());
        let row = found.map_err(|error| error.to_string())?.ok_or_else(|| format!("no document '{id}' is in the index; add it first"))?;
        if row.hash.is_some() && row.hash != hash {
            return Err(format!("'{id}' is not what the index has under this id; bring the index up to date first"));
        }
        let content = self.index.find_number(row.representative).map_err(|error| error.to_string())?;
        let first = content.map_or(row.number, |at| self.first_at[at.segment][at.place as usize]);
        Ok((row.number, first))
    }
}

#[derive(Clone)]
struct Mark<'s> {
    blots: ToBlots,
    seen: &'s Seen<'s>,
    format: Format,
    places: Vec<u32>,
    found: Vec<Span>,
}

impl Stage for Mark<'_> {
    type Out = Batch;

    fn take(&mut self, item: &Item<'_>, out: &mut Batch) -> Result<(), String> {
        let Self { blots, seen, places, found, .. } = self;
        let (hash, windows) = blots.windows(item)?;
        let (number, first) = seen.document(item.id, hash)?;
        found.clear();
        for (blot, window) in windows {
            // All of a copy was seen.
            if first < number || seen.first(blot, places).map_err(|error| error.to_string())? < number {
                push(found, window);
            }
        }
        join(found);
        self.put(item, out);
        out.finish_record();
        Ok(())
    }

    fn finish(&mut self, _: &mut Batch) {
        self.blots.give_back();
        crate::format::empty(&mut self.found);
    }
}

/// Adds a window to those found so far, or to the last of them.
fn push(found: &mut Vec<Span>, window: Span) {
    match found.last_mut() {
        Some(last) if last.start <= window.start && window.start <= last.end => last.end = last.end.max(window.end),
        _ => found.push(window),
    }
}

/// Joins what overlaps or touches: interleaved windows come in another order.
fn join(found: &mut Vec<Span>) {
    found.sort_unstable_by_key(|span| (span.start, span.end));
    found.dedup_by(|next, last| {
        let joins = next.start <= last.end;
        if joins {
            last.end = last.end.max(next.end);
        }
        joins
    });
}

impl Mark<'_> {
    fn put(&self, item: &Item<'_>, out: &mut Batch) {
        let (mut doc, mut spans) = (Vec::new(), vec![b'[']);
        put_id(&mut doc, self.format, item.id);
        for (at, Span { start, end }) in self.found.iter().enumerate() {
            // Writing to a vector cannot fail.
            let _ = write!(spans, "{}[{start},{end}]", if at > 0 { "," } else { "" });
        }
        spans.push(b']');
        let fields = [
            ("doc", Value::Id(&doc)),
            ("bytes", item.bytes.map_or(Value::None, Value::Count)),
            ("spans", Value::Ids(&spans)),
            ("seen", Value::Count(self.found.iter().map(|span| u64::from(span.end - span.start)).sum())),
        ];
        put_record(&mut out.bytes, self.format, &fields);
    }
}
