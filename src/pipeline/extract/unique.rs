//! A corpus in, a clean corpus out: of documents that are alike one is kept.

use super::{
    LeaveOut,
    pairs::{ESTIMATE, shown_by},
    put, selection,
};
use crate::{
    corpus::{Account, Chunk, LineReader, RawLine, Source},
    error::{Place, Problem, Result},
    index::{Content, Index, LeftOut, View},
    parallel::{self, Limits},
    pipeline::{Settings, Watch},
    report::{Format, Value, put_id, put_record},
    similar::{Discovery, Keep, Measure, Options, Score, clusters},
};
use std::{io::Write, ops::Range, sync::atomic::Ordering};

#[derive(Debug, Clone)]
pub struct UniqueOptions {
    pub score: Score,
    pub threshold: f64,
    /// Blots of more documents do not count.
    pub max_df: Option<u64>,
    pub keep: Keep,
    /// For the clusters, as [`super::ExtractOptions::limits`].
    pub limits: Limits,
    pub leave_out: LeaveOut,
}

/// What became of the lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sifted {
    pub documents: u64,
    pub dropped: u64,
    /// Documents that the index does not have: they are kept.
    pub unknown: u64,
    /// Lines that are no documents, or not the one that the index has: they are kept, too.
    pub problems: u64,
}

/// Writes the lines of a corpus that are to be kept, each as it came, and to `dropped` a record for each that is not.
///
/// Memory: what clusters take, and then 40 bytes a document, 24 for each that can go, and the lines under way.
pub fn unique(
    options: &UniqueOptions,
    index: &Index,
    settings: &Settings,
    out: &mut dyn Write,
    dropped: Option<&mut dyn Write>,
    watch: &mut dyn Watch,
) -> Result<Sifted> {
    let source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
    let view = View::of(index)?;
    let measure = Measure { score: options.score, threshold: options.threshold, selection: selection(&index.scheme.select) };
    let (gone, _) = options.leave_out.with(index, options.limits, watch, |without| gone(options, measure, &view, &without.text))?;
    let stop = source.stop();
    let worker = || {
        let (gone, mut lines) = (&gone, LineReader::new(&settings.corpus));
        move |chunk: Chunk| judge(index, gone, &mut lines, chunk)
    };
    let weigh = |judged: &Result<Judged>| judged.as_ref().map_or(0, Judged::weight);
    let mut sifter =
        Sifter { view: &view, measure, is_gone: vec![false; gone.len()], gone: &gone, sifted: Sifted::default(), out, dropped };
    let mut account = Account::default();
    watch.account(&account);
    parallel::ordered(settings.limits, source, worker, weigh, |judged| {
        let mut judged = judged?;
        let before = sifter.sifted.documents;
        let written = sifter.sift(&mut judged);
        judged.problems.iter().for_each(|problem| watch.problem(problem));
        watch.progress(judged.bytes.len() as u64, sifter.sifted.documents - before);
        watch.account(&judged.account);
        account.add(&judged.account);
        written.inspect_err(|_| stop.store(true, Ordering::Relaxed))
    })?;
    account.ensure_documents(&settings.corpus)?;
    Ok(sifter.sifted)
}

/// A document that can go.
#[derive(Debug, Clone, Copy)]
struct Gone {
    /// In the index.
    number: u32,
    duplicate_of: u32,
    shared: u32,
    /// None for documents of the same tokens that are no pair.
    score: Option<f64>,
}

/// All documents that can go, by number: of each cluster, and of documents with the same tokens, all but one.
fn gone(options: &UniqueOptions, measure: Measure, view: &View<'_>, left_out: &LeftOut<'_>) -> Result<Vec<Gone>> {
    let max_df = options.max_df.unwrap_or(u64::MAX);
    let discovery = Discovery::without(left_out, view, Options { measure, max_df, limits: options.limits })?;
    let (mut gone, mut is_clustered) = (Vec::new(), vec![false; view.contents().len()]);
    clusters(&discovery, options.keep, |cluster| {
        is_clustered[view.content_of(cluster.kept as usize) as usize] = true;
        for dropped in &cluster.dropped {
            is_clustered[view.content_of(dropped.document as usize) as usize] = true;
            let number = view.row(dropped.document as usize)?.number;
            gone.push(Gone { number, duplicate_of: dropped.duplicate_of, shared: dropped.shared, score: Some(dropped.score) });
        }
        Ok(())
    })?;
    for (content, &Content { blots, .. }) in (0..).zip(view.contents()) {
        let documents = view.documents_of(content);
        if documents.len() < 2 || is_clustered[content as usize] {
            continue;
        }
        let kept = if options.keep == Keep::Last { documents[documents.len() - 1] } else { documents[0] };
        for &document in documents.iter().filter(|&&document| document != kept) {
            gone.push(Gone { number: view.row(document as usize)?.number, duplicate_of: kept, shared: blots, score: None });
        }
    }
    gone.sort_unstable_by_key(|gone| gone.number);
    Ok(gone)
}

/// The lines of a chunk, and what is known of each.
#[derive(Default)]
struct Judged {
    bytes: Vec<u8>,
    lines: Vec<(Range<usize>, Fate)>,
    problems: Vec<Problem>,
    account: Account,
}

enum Fate {
    /// Blank, or not a document.
    Passed,
    Kept,
    Unknown,
    /// Its place among all that can go, and what to call it.
    Gone(usize, String, Place),
}

impl Judged {
    /// Bytes of memory, about: an id, a place or a message takes some sixty on the heap.
    fn weight(&self) -> u64 {
        let parts = self.lines.len() * (size_of::<(Range<usize>, Fate)>() + 60) + self.problems.len() * (size_of::<Problem>() + 120);
        (self.bytes.capacity() + parts) as u64
    }
}

fn judge(index: &Index, gone: &[Gone], lines: &mut LineReader, chunk: Chunk) -> Result<Judged> {
    let (mut judged, mut failed) = (Judged::default(), Ok(()));
    let bytes = lines.read(chunk, &mut |RawLine { bytes, place, id }| {
        let fate = match id {
            Ok(Some(id)) => fate(index, gone, id, place).unwrap_or_else(|error| {
                failed = Err(error);
                Fate::Passed
            }),
            Ok(None) => Fate::Passed,
            Err(what) => {
                judged.problems.push(Problem::new(place, format!("{what}; the line is kept")));
                Fate::Passed
            }
        };
        judged.lines.push((bytes, fate));
    })?;
    failed?;
    judged.account = lines.take_account();
    judged.bytes = bytes;
    Ok(judged)
}

fn fate(index: &Index, gone: &[Gone], id: String, place: Place) -> Result<Fate> {
    let Some(at) = index.find_id(&id)? else { return Ok(Fate::Unknown) };
    let number = index.row(at)?.number;
    Ok(gone.binary_search_by_key(&number, |gone| gone.number).map_or(Fate::Kept, |at| Fate::Gone(at, id, place)))
}

/// Writes what is kept, and what became of the rest.
struct Sifter<'s, 'd> {
    view: &'s View<'s>,
    measure: Measure,
    gone: &'s [Gone],
    /// Of each whether its line has come.
    is_gone: Vec<bool>,
    sifted: Sifted,
    out: &'s mut dyn Write,
    dropped: Option<&'d mut (dyn Write + 'd)>,
}

impl Sifter<'_, '_> {
    fn sift(&mut self, judged: &mut Judged) -> Result<()> {
        // What is kept in a row is written in one go.
        let (mut kept, mut records) = (0..0, Vec::new());
        for (line, fate) in judged.lines.drain(..) {
            self.sifted.documents += u64::from(!matches!(fate, Fate::Passed));
            self.sifted.unknown += u64::from(matches!(fate, Fate::Unknown));
            let is_dropped = match fate {
                Fate::Gone(at, id, place) if self.is_gone[at] => {
                    let what = format!("a line with the id '{id}' came before; this one is kept");
                    judged.problems.push(Problem::new(place, what));
                    false
                }
                Fate::Gone(at, id, _) => {
                    self.is_gone[at] = true;
                    self.put_dropped(&mut records, &id, &self.gone[at])?;
                    true
                }
                Fate::Passed | Fate::Kept | Fate::Unknown => false,
            };
            self.sifted.dropped += u64::from(is_dropped);
            if is_dropped {
                put(self.out, &judged.bytes[kept])?;
                kept = line.end..line.end;
            } else {
                kept.end = line.end;
            }
        }
        judged.problems.sort_by_key(|problem| problem.place.at);
        self.sifted.problems += judged.problems.len() as u64;
        let last = judged.bytes[kept.clone()].last();
        let is_cut = last.is_some_and(|&last| last != b'\n');
        put(self.out, &judged.bytes[kept])?;
        // The next file must not go on in the last line of this one.
        put(self.out, if is_cut { b"\n" } else { b"" })?;
        self.dropped.as_mut().map_or(Ok(()), |dropped| put(dropped, &records))
    }

    fn put_dropped(&self, records: &mut Vec<u8>, id: &str, gone: &Gone) -> Result<()> {
        if self.dropped.is_none() {
            return Ok(());
        }
        let (mut doc, mut other) = (Vec::new(), Vec::new());
        put_id(&mut doc, Format::Ndjson, id);
        put_id(&mut other, Format::Ndjson, &self.view.id(gone.duplicate_of as usize)?);
        let fields = [
            ("doc", Value::Id(&doc)),
            ("duplicate_of", Value::Id(&other)),
            ("shared", Value::Count(self.measure.scaled(gone.shared))),
            ("score", gone.score.map_or(Value::None, Value::Number)),
            ESTIMATE,
        ];
        put_record(records, Format::Ndjson, shown_by(&self.measure, &fields));
        Ok(())
    }
}
