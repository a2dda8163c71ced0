//! Which bytes of each document an earlier document has: the bytes to remove from training data.

use super::put;
use crate::base::ids::DocNo;
use crate::base::num::ToUsize;
use crate::base::setting::Setting;
use crate::{
    base::error::{Error, Result},
    blot::select,
    commands::{
        BlotOptions, DocumentStage, Observer, Settings, Summary,
        blot::{DocumentBlotter, DocumentWindows},
        run,
    },
    index::{BlotTable, BlotTarget, DocumentRow, Index, NewBlots, RowLocation, View},
    report::{Format, Sink, records::SpansRecord},
    text::{
        corpus::{InputDocument, Source},
        stream::{Batch, Span},
    },
};
use std::{
    io::Write,
    sync::atomic::{AtomicU32, Ordering},
};

/// Writes, for each document of a corpus, the byte ranges that are in a window of an earlier document. The index must have all documents of the corpus.
///
/// A document is earlier if its id is smaller. The order of reading would not do: documents of the index that are not read have no place
/// in it, and two runs over halves of a corpus would both leave in what the halves share. Document numbers would not do either, as they
/// depend on the commits.
///
/// Memory: about 40 bytes for each document of the index, 8 for each distinct blot, up to 16 while the index is read, and the documents
/// under way; while the index is read also the ids.
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
    let stage = SpanStage {
        blots,
        seen: &seen,
        format,
        new: BlotTable::default(),
        found: Vec::new(),
    };
    run(&stage, source, settings, observer, |batch, _| {
        put(out, &batch.bytes)
    })?
    .ensure_documents(settings)
}

/// The earliest document of each blot.
struct EarlierBlots<'i> {
    index: &'i Index,
    /// Documents in the byte order of their ids.
    view: View<'i>,
    /// For each row of each segment, the earliest document with its content.
    first_at: Vec<Vec<u32>>,
    /// For each set of each segment, the earliest document of its members, once it is known.
    first_of_set: Vec<Vec<AtomicU32>>,
    /// The blots that no document before a document has; `None` if there are too many.
    new: Option<NewBlots>,
}

/// A document that no earlier one equals.
struct FirstDocument {
    /// Its rank in the order of ids.
    rank: u32,
    /// Whether it has the tokens of the document that was indexed, as far as can be known.
    is_checked: bool,
}

/// The number of blots that are looked up in the index together.
const AT_ONCE: usize = 128;

/// No document has the blot.
const NEVER: u32 = u32::MAX;
const NOT_ASKED: u32 = u32::MAX - 1;

impl<'i> EarlierBlots<'i> {
    fn new(index: &'i Index, threads: usize) -> Result<Self> {
        let view = View::by_id(index)?;
        let first_at = view.document_at();
        let unknown = |sets: u64| (0..sets).map(|_| AtomicU32::new(NOT_ASKED)).collect();
        let segments = index.segments.iter();
        let first_of_set = segments
            .map(|segment| unknown(segment.sets.len()))
            .collect();
        // A blot that the index lacks is in no list, as if an earlier document had it.
        let has_all = !select::is_scheme_shared_only(&index.scheme);
        let new = has_all.then(|| NewBlots::new(&view, threads)).transpose()?;
        Ok(Self {
            index,
            view,
            first_at,
            first_of_set,
            new: new.flatten(),
        })
    }

    /// The blots that no document before this one has, if they are known without a look-up of each.
    fn new_of(&self, document: &FirstDocument) -> Option<&[u64]> {
        let new = self.new.as_ref().filter(|_| document.is_checked)?;
        Some(new.of(self.view.content_of(DocNo::new(document.rank)).get()))
    }

    /// Replaces `out` by the earliest document that has each blot, or [`NEVER`] for a blot that is in
    /// no set: only the document in question has it.
    fn look_up(&self, blots: &[u64], out: &mut Vec<u32>, places: &mut Vec<u32>) -> Result<()> {
        out.clear();
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
                    BlotTarget::Set(set) => self.first_of_set[number].get(set.index()),
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

    /// A document of the index; `None` if an earlier one has the same tokens.
    fn document(&self, id: &str, hash: Option<u128>) -> Result<Option<FirstDocument>, String> {
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
        let is_first = self.view.at(DocNo::new(first)) == at;
        Ok(is_first.then_some(FirstDocument {
            rank: first,
            is_checked: row.hash.is_some(),
        }))
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
    /// The blots that no document before the current one has.
    new: BlotTable,
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

/// Finds the windows that a document before this one has by looking all of them up in the index.
fn look_up(
    seen: &EarlierBlots<'_>,
    document: &FirstDocument,
    windows: &DocumentWindows<'_>,
    found: &mut SeenSpans<'_>,
) -> Result<(), String> {
    let (mut first, mut places) = (Vec::new(), Vec::new());
    let mut all = windows.iter();
    loop {
        let (sought, positions): (Vec<u64>, Vec<u32>) = all.by_ref().take(AT_ONCE).unzip();
        if sought.is_empty() {
            return Ok(());
        }
        seen.look_up(&sought, &mut first, &mut places)
            .map_err(|error| error.to_string())?;
        let earlier = positions.iter().zip(&first);
        earlier
            .filter(|(_, first)| **first < document.rank)
            .for_each(|(&position, _)| found.add(position));
    }
}

/// Joins windows to spans. Most follow the one before: only the bytes of the first and the last of such a run are looked up.
struct SeenSpans<'s> {
    windows: &'s DocumentWindows<'s>,
    /// The first and the last window of the run that is not in `found` yet.
    run: Option<[u32; 2]>,
    found: &'s mut Vec<Span>,
}

impl SeenSpans<'_> {
    /// Adds the window that starts with this token.
    fn add(&mut self, position: u32) {
        match &mut self.run {
            Some([_, last]) if *last + 1 == position && self.windows.overlap() => *last = position,
            _ => {
                self.finish_run();
                self.run = Some([position, position]);
            }
        }
    }

    fn finish_run(&mut self) {
        if let Some([first, last]) = self.run.take() {
            push(self.found, self.windows.span(first, last));
        }
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
            new,
            found,
            ..
        } = self;
        let windows = blots.windows(item)?;
        found.clear();
        let mut spans = SeenSpans {
            windows: &windows,
            run: None,
            found,
        };
        match seen.document(item.id, windows.hash)? {
            // An exact copy of an earlier document: all of it was seen.
            None => windows.iter().for_each(|(_, position)| spans.add(position)),
            Some(document) => match seen.new_of(&document) {
                Some(of_document) => {
                    new.fill(of_document);
                    windows
                        .iter()
                        .filter(|&(blot, _)| !new.contains(blot))
                        .for_each(|(_, position)| spans.add(position));
                }
                None => look_up(seen, &document, &windows, &mut spans)?,
            },
        }
        spans.finish_run();
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
