//! Which bytes of each document an earlier document has: the bytes to remove from training data.

use super::put;
use crate::base::ids::{ContentNo, DocNo};
use crate::base::num::{ToU32, ToUsize};
use crate::base::setting::Setting;
use crate::{
    base::error::{Error, Result},
    blot::select,
    commands::{
        BlotOptions, DocumentStage, Observer, Settings, Summary, blot::DocumentBlotter, run,
    },
    index::{BlotTarget, DocumentRow, Index, RowLocation, View},
    report::{Format, Sink, records::SpansRecord},
    text::{
        corpus::{InputDocument, Source},
        stream::{Batch, Span},
    },
};
use std::{
    hint::black_box,
    io::Write,
    sync::atomic::{AtomicU32, Ordering},
};

/// Writes, for each document of a corpus, the byte ranges that are in a window of an earlier document. The index must have all documents of the corpus.
///
/// A document is earlier if its id is smaller. The order of reading would not do: documents of the index that are not read have no place
/// in it, and two runs over halves of a corpus would both leave in what the halves share. Document numbers would not do either, as they
/// depend on the commits.
///
/// Memory: about 40 bytes for each document of the index, about 9 for each blot of several contents, and the documents under way; while
/// the index is read also the ids.
pub fn spans(
    index: &Index,
    format: Format,
    settings: &Settings,
    out: &mut impl Write,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    if !select::is_complete(&index.scheme.select) {
        let what = format!(
            "the index has selected blots ({}), so that most windows are not in it",
            index.scheme.select
        );
        return Err(Error::Usage(format!(
            "{}: {what}; spans need one that was built with {}",
            index.directory.display(),
            Setting::Select.to("all")
        )));
    }
    let blots = DocumentBlotter::for_comparison(&BlotOptions::default(), index)?.with_spans();
    let mut source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
    blots.expect_in(&mut source);
    let seen = EarlierBlots::new(index, settings.limits.threads)?;
    let mut head = Vec::new();
    let shape = SpansRecord {
        bytes: Some(0),
        ..SpansRecord::default()
    };
    format.put_head(&shape, &mut head)?;
    put(out, &head)?;
    let (sought, windows, first, places, found) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let stage = SpanStage {
        blots,
        seen: &seen,
        format,
        sought,
        windows,
        first,
        places,
        found,
    };
    run(&stage, source, settings, observer, |batch, _| {
        put(out, &batch.bytes)
    })?
    .ensure_documents(settings)
}

/// The earliest document of each blot that several contents have.
struct EarlierBlots<'i> {
    index: &'i Index,
    /// Documents in the byte order of their ids.
    view: View<'i>,
    /// For each row of each segment, the earliest document with its content.
    first_at: Vec<Vec<u32>>,
    shared: SharedBlots,
}

/// The blots that several contents have; a blot of one content was not seen before.
enum SharedBlots {
    /// All of them in a table, which is far faster than the index.
    FirstDocumentTable(FirstDocumentTable),
    /// Too many for a table: look-ups go to the index. Caches, for each set of each segment, the earliest document of its members.
    InIndex(Vec<Vec<AtomicU32>>),
}

/// Blots in rising order, and the earliest document with each.
struct FirstDocumentTable {
    bits: u8,
    /// Blots without their top bits, which say where they are.
    entries: Vec<(u32, u32)>,
    /// Where the blots with each value of the top bits start.
    starts: Vec<u32>,
    start_bits: u8,
}

/// A table has this many entries at most: 8 bytes each, and half a byte to find them.
const MAX_ENTRIES: u64 = 1 << 28;
/// The number of blots that are looked up together, so that their cache misses overlap.
const AT_ONCE: usize = 128;

impl FirstDocumentTable {
    /// `None` if there are too many blots, or they are too wide.
    fn new(view: &View<'_>, bits: u8, threads: usize) -> Result<Option<Self>> {
        let most = view.stored_blots();
        let start_bits = (most.max(1).ilog2() as u8)
            .saturating_sub(3)
            .max(bits.saturating_sub(32))
            .clamp(1, bits);
        if most > MAX_ENTRIES || start_bits > 28 {
            return Ok(None);
        }
        let shift = bits - start_bits;
        let (mut entries, mut starts) = (Vec::new(), Vec::with_capacity((1 << start_bits) + 1));
        view.for_each_shared(
            threads,
            // Contents stand in the order of their first documents.
            |contents| view.documents_of(ContentNo::new(contents[0]))[0].get(),
            |blot, first| {
                let blot = blot.get();
                starts.resize((blot >> shift) as usize + 1, entries.len().to_u32());
                entries.push(((blot & ((1 << shift) - 1)) as u32, first));
                Ok(())
            },
        )?;
        starts.resize((1 << start_bits) + 1, entries.len().to_u32());
        Ok(Some(Self {
            bits,
            entries,
            starts,
            start_bits,
        }))
    }

    /// Appends the earliest document of each blot.
    fn first(&self, blots: &[u64], out: &mut Vec<u32>) {
        let shift = self.bits - self.start_bits;
        let start = |blot: u64| self.starts[(blot >> shift) as usize] as usize;
        black_box(blots.iter().fold(0, |sum, &blot| sum ^ start(blot)));
        black_box(blots.iter().fold(0, |sum, &blot| {
            sum ^ self.entries.get(start(blot)).map_or(0, |entry| entry.0)
        }));
        out.extend(blots.iter().map(|&blot| {
            let low = (blot & ((1 << shift) - 1)) as u32;
            let bucket =
                &self.entries[start(blot)..self.starts[(blot >> shift) as usize + 1] as usize];
            bucket
                .iter()
                .find(|entry| entry.0 >= low)
                .filter(|entry| entry.0 == low)
                .map_or(NEVER, |entry| entry.1)
        }));
    }
}

/// No document has the blot.
const NEVER: u32 = u32::MAX;
const NOT_ASKED: u32 = u32::MAX - 1;

impl<'i> EarlierBlots<'i> {
    fn new(index: &'i Index, threads: usize) -> Result<Self> {
        let view = View::by_id(index)?;
        let first_at = view.document_at();
        let unknown = |sets: u64| (0..sets).map(|_| AtomicU32::new(NOT_ASKED)).collect();
        let shared = match FirstDocumentTable::new(&view, index.scheme.bits, threads)? {
            Some(table) => SharedBlots::FirstDocumentTable(table),
            None => SharedBlots::InIndex(
                index
                    .segments
                    .iter()
                    .map(|segment| unknown(segment.sets.len()))
                    .collect(),
            ),
        };
        Ok(Self {
            index,
            view,
            first_at,
            shared,
        })
    }

    /// Replaces `out` by the earliest document that has each blot, or [`NEVER`] for a blot of only one content: the document in question
    /// has that content itself.
    fn first(&self, blots: &[u64], out: &mut Vec<u32>, places: &mut Vec<u32>) -> Result<()> {
        out.clear();
        let first_of = match &self.shared {
            SharedBlots::FirstDocumentTable(table) => {
                table.first(blots, out);
                return Ok(());
            }
            SharedBlots::InIndex(first_of) => first_of,
        };
        out.resize(blots.len(), NEVER);
        let mut found = Vec::with_capacity(blots.len());
        for (number, segment) in self.index.segments.iter().enumerate() {
            found.clear();
            segment.find_all(blots, self.index.scheme.bits, &mut found)?;
            for (first, posted) in out
                .iter_mut()
                .zip(&found)
                .filter_map(|(first, posted)| posted.map(|posted| (first, posted)))
            {
                let kept = match posted {
                    BlotTarget::Set(set) => first_of[number].get(set.index()),
                    BlotTarget::One(_) => None,
                };
                let mut here = kept.map_or(NOT_ASKED, |kept| kept.load(Ordering::Relaxed));
                if here == NOT_ASKED {
                    segment.places(posted, places)?;
                    here = places
                        .iter()
                        .map(|&place| self.first_at[number][place.to_usize()])
                        .min()
                        .unwrap_or(NEVER);
                    // Threads that do this at the same time find the same value.
                    kept.into_iter()
                        .for_each(|kept| kept.store(here, Ordering::Relaxed));
                }
                *first = here.min(*first);
            }
        }
        Ok(())
    }

    /// The rank of a document in the order of ids; `None` if an earlier one has the same tokens.
    fn document(&self, id: &str, hash: Option<u128>) -> Result<Option<u32>, String> {
        let (at, row) = indexed(self.index, id, hash)?;
        let content = self
            .index
            .find_number(row.representative)
            .map_err(|error| error.to_string())?;
        let first = content.map_or(NEVER, |at| self.first_at[at.segment][at.place.to_usize()]);
        if first == NEVER {
            return Err(format!(
                "the index has '{id}' without its content; check it with dedup-index verify"
            ));
        }
        Ok((self.view.at(DocNo::new(first)) == at).then_some(first))
    }
}

/// Finds a document in the index, and refuses one that has changed since.
pub(super) fn indexed(
    index: &Index,
    id: &str,
    hash: Option<u128>,
) -> Result<(RowLocation, DocumentRow), String> {
    let found = index
        .find_id(id)
        .and_then(|at| at.map(|at| Ok((at, index.row(at)?))).transpose());
    let (at, row) = found
        .map_err(|error| error.to_string())?
        .ok_or_else(|| format!("no document '{id}' is in the index; add it first"))?;
    if row.hash.is_some() && row.hash != hash {
        return Err(format!(
            "'{id}' is not what the index has under this id; bring the index up to date first"
        ));
    }
    Ok((at, row))
}

#[derive(Clone)]
struct SpanStage<'s> {
    blots: DocumentBlotter,
    seen: &'s EarlierBlots<'s>,
    format: Format,
    /// Windows that are looked up together: their blots, and their spans.
    sought: Vec<u64>,
    windows: Vec<Span>,
    first: Vec<u32>,
    places: Vec<u32>,
    found: Vec<Span>,
}

impl DocumentStage for SpanStage<'_> {
    type Out = Batch;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut Batch) -> Result<(), String> {
        self.mark(item)?;
        let record = self.record(item);
        self.format
            .put_record(&record, &mut out.bytes)
            .map_err(|error| error.to_string())?;
        out.finish_record();
        Ok(())
    }

    fn finish(&mut self, _: &mut Batch) {
        self.blots.release_buffers();
        crate::base::codec::clear_buffer(&mut self.found);
    }
}

/// Appends a span, or extends the last one if they overlap or touch.
fn push(found: &mut Vec<Span>, window: Span) {
    match found.last_mut() {
        Some(last) if last.start <= window.start && window.start <= last.end => {
            last.end = last.end.max(window.end)
        }
        _ => found.push(window),
    }
}

/// Joins spans that overlap or touch. They need not be in order: interleaved windows are not.
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

impl SpanStage<'_> {
    /// Finds the spans of a document that an earlier one has.
    fn mark(&mut self, item: &InputDocument<'_>) -> Result<(), String> {
        let Self {
            blots,
            seen,
            sought,
            windows,
            first,
            places,
            found,
            ..
        } = self;
        let (hash, mut all) = blots.windows(item)?;
        let document = seen.document(item.id, hash)?;
        found.clear();
        loop {
            sought.clear();
            windows.clear();
            for (blot, window) in all.by_ref().take(AT_ONCE) {
                sought.push(blot);
                windows.push(window);
            }
            if sought.is_empty() {
                break;
            }
            let Some(document) = document else {
                // An exact copy of an earlier document: all of it was seen.
                windows.iter().for_each(|&window| push(found, window));
                continue;
            };
            seen.first(sought, first, places)
                .map_err(|error| error.to_string())?;
            windows
                .iter()
                .zip(&*first)
                .filter(|(_, first)| **first < document)
                .for_each(|(&window, _)| push(found, window));
        }
        join(found);
        Ok(())
    }

    fn record<'r>(&self, item: &'r InputDocument<'_>) -> SpansRecord<'r> {
        let length = |span: &Span| u64::from(span.end - span.start);
        SpansRecord {
            doc: item.id,
            bytes: item.bytes,
            spans: self
                .found
                .iter()
                .map(|span| [span.start, span.end])
                .collect(),
            seen: self.found.iter().map(length).sum(),
        }
    }
}
