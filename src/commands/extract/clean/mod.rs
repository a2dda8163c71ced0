//! Cleans a corpus: copies its lines, without documents that are nearly whole in another document
//! that is copied.
//!
//! The documents of the input are visited in order of preference. See [`crate::similar::DuplicateFilter`]
//! for what is dropped. Documents that only the index has are never a reason to drop one: the text
//! of a dropped document is still in what is written.

mod classify;
mod stored_lines;

use super::{LeaveOut, put, selection};
use crate::{
    base::{
        error::{Error, Result},
        files::TempDir,
        ids::DocNo,
        num::{ToU64, ToUsize},
        parallel::{self, Budget, Limits},
    },
    commands::{Observer, Settings},
    index::{Index, View},
    report::{
        Ndjson, Sink,
        records::{DropReason, DroppedDocument},
    },
    similar::{
        Discovery, DiscoveryOptions, DuplicateDecision, DuplicateFilter, KeepRule, Measure,
        RankedSets, Score,
    },
    text::corpus::{Account, Chunk, Source},
};
use classify::{ClassifiedLines, LineClass, LineClassifier};
use std::{cmp::Reverse, collections::HashMap, io::Write, ops::Range, sync::atomic::Ordering};
use stored_lines::StoredLines;

/// Which documents are duplicates, and which of them stay.
#[derive(Debug, Clone)]
pub struct CleanOptions {
    /// [`Score::Inclusion`], the share of a dropped document that is in the one that stays, or [`Score::Jaccard`].
    pub score: Score,
    /// The least score of a near duplicate.
    pub threshold: f64,
    /// Blots of more documents do not count.
    pub max_df: Option<u64>,
    /// Which documents are preferred. Among equals the first one of the input stays.
    pub keep: KeepRule,
    /// As [`super::ExtractOptions::limits`].
    pub limits: Limits,
    /// Text and pairs that do not count.
    pub leave_out: LeaveOut,
}

/// An account of what was read, kept and dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Documents that were read.
    pub read: u64,
    /// Documents that were dropped because another one has the same tokens.
    pub dropped_exact: u64,
    /// Documents that were dropped because another one is similar enough.
    pub dropped_near: u64,
    /// Documents that the index does not have: they are kept.
    pub unknown: u64,
    /// Documents whose text is not the one that was indexed under their id: they are kept, and nothing is dropped for them.
    pub changed: u64,
    /// Lines that are not documents, or have an id that came before: they are kept, too.
    pub problems: u64,
    /// The size of the input.
    pub bytes_read: u64,
    /// The size of the output.
    pub bytes_kept: u64,
    /// The documents for which most others were dropped, and how many each; at most five.
    pub largest: Vec<(String, u64)>,
}

impl Cleaned {
    /// Documents that stay.
    pub fn kept(&self) -> u64 {
        self.read - self.dropped()
    }

    /// Documents that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped_exact + self.dropped_near
    }
}

/// How many groups are listed.
const LARGEST: usize = 5;
const NONE: u32 = u32::MAX;

/// Writes the lines of a corpus that are to be kept, each as it came, and to `dropped` a record for each that is not.
///
/// Memory: sets and documents of the index as for pairs, what a [`DuplicateFilter`] takes, 20 bytes a document, some 60 for each that is dropped, and the lines under way. To visit documents in another
/// order than that of the input, all lines are stored in a temporary file, packed, with 16 bytes of memory a line.
pub fn clean(
    options: &CleanOptions,
    index: &Index,
    settings: &Settings,
    out: &mut dyn Write,
    dropped: Option<&mut dyn Write>,
    observer: &mut dyn Observer,
) -> Result<Cleaned> {
    if !matches!(options.score, Score::Inclusion | Score::Jaccard) {
        return Err(Error::Usage(
            "documents are dropped by their share in another one, or by jaccard; other scores have no such meaning".to_owned(),
        ));
    }
    let source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
    let view = View::of(index)?;
    let measure = Measure {
        score: options.score,
        threshold: options.threshold,
        selection: selection(&index.scheme.select),
    };
    let (lists, _) = options
        .leave_out
        .with(index, options.limits, observer, |without| {
            let max_df = options.max_df.unwrap_or(u64::MAX);
            Ok(Discovery::excluding(
                &without.text,
                &view,
                DiscoveryOptions {
                    measure,
                    max_df,
                    limits: options.limits,
                },
            )?
            .sets)
        })?;
    let classifier = LineClassifier::new(index, &view, settings)?;
    let decisions = Decisions::new(&view, &lists, measure);
    let mut filter = LineFilter {
        view: &view,
        measure,
        decisions,
        cleaned: Cleaned::default(),
        out,
        dropped,
    };
    if options.keep == KeepRule::First {
        filter.cleaned.problems =
            read(source, settings, (&classifier, &view), observer, |lines| {
                lines
                    .documents()
                    .for_each(|document| filter.decisions.visit(document));
                filter.filter(&lines)
            })?;
    } else {
        let mut stored = StoredLines::new(&TempDir(None))?;
        filter.cleaned.problems =
            read(source, settings, (&classifier, &view), observer, |lines| {
                stored.push(&lines)
            })?;
        let tokens =
            |document: u32| view.contents()[view.content_of(DocNo::new(document)).index()].tokens;
        let mut order = stored.documents();
        match options.keep {
            KeepRule::First => {}
            KeepRule::Last => order.reverse(),
            KeepRule::Longest => order.sort_by_key(|&document| Reverse(tokens(document))),
            KeepRule::Shortest => order.sort_by_key(|&document| tokens(document)),
        }
        order
            .iter()
            .for_each(|&document| filter.decisions.visit(document));
        stored.for_each(|lines| filter.filter(&lines))?;
    }
    filter.cleaned.largest = filter.decisions.largest()?;
    Ok(filter.cleaned)
}

/// Reads all lines on many threads, and passes them on in order. Returns the number of problems.
fn read(
    source: Source,
    settings: &Settings,
    (classifier, view): (&LineClassifier<'_>, &View<'_>),
    observer: &mut dyn Observer,
    mut sink: impl FnMut(ClassifiedLines) -> Result<()>,
) -> Result<u64> {
    let stop = source.stop();
    let worker = || {
        let mut classifier = classifier.clone();
        move |chunk: Chunk| classifier.classify(chunk)
    };
    let weigh = |lines: &Result<ClassifiedLines>| lines.as_ref().map_or(0, ClassifiedLines::weight);
    let (mut is_seen, mut problems, mut account) =
        (vec![false; view.documents()], 0, Account::default());
    observer.account(&account);
    let budget = Budget::Bytes(settings.limits.memory_bytes);
    parallel::ordered(
        settings.limits.threads,
        budget,
        source,
        worker,
        weigh,
        |lines| {
            let mut lines = lines?;
            lines.mark_repeated(view, &mut is_seen)?;
            lines
                .problems
                .iter()
                .for_each(|problem| observer.problem(problem));
            problems += lines.problems.len().to_u64();
            observer.progress(
                lines.bytes.len().to_u64(),
                lines
                    .lines
                    .iter()
                    .filter(|(_, class)| class.is_document())
                    .count()
                    .to_u64(),
            );
            observer.account(&lines.account);
            account.add(&lines.account);
            sink(lines).inspect_err(|_| stop.store(true, Ordering::Relaxed))
        },
    )?;
    account.ensure_documents(&settings.corpus)?;
    Ok(problems)
}

/// What became of each document that was visited.
struct Decisions<'v> {
    view: &'v View<'v>,
    cleaner: DuplicateFilter<'v>,
    /// Of documents that are dropped.
    verdicts: HashMap<u32, DuplicateDecision>,
    /// Documents that stay, in the order in which they were visited, and how many were dropped for each.
    kept: Vec<(u32, u64)>,
}

impl<'v> Decisions<'v> {
    fn new(view: &'v View<'v>, lists: &'v RankedSets, measure: Measure) -> Self {
        Self {
            view,
            cleaner: DuplicateFilter::new(lists, measure),
            verdicts: HashMap::new(),
            kept: Vec::new(),
        }
    }

    /// Decides the next document.
    fn visit(&mut self, document: u32) {
        let content = self.view.content_of(DocNo::new(document));
        let verdict = self.cleaner.visit(content);
        match verdict {
            DuplicateDecision::Keep => self.kept.push((document, 0)),
            DuplicateDecision::ExactDuplicate { of, .. }
            | DuplicateDecision::NearDuplicate { of, .. } => {
                self.kept[of.to_usize()].1 += 1;
                self.verdicts.insert(document, verdict);
            }
        }
    }

    /// Why a document is dropped, if it is.
    fn verdict(&self, document: u32) -> Option<DuplicateDecision> {
        self.verdicts.get(&document).copied()
    }

    fn largest(&self) -> Result<Vec<(String, u64)>> {
        let mut groups: Vec<(usize, &(u32, u64))> = self
            .kept
            .iter()
            .enumerate()
            .filter(|(_, (_, dropped))| *dropped > 0)
            .collect();
        groups.sort_by_key(|(number, (_, dropped))| (Reverse(*dropped), *number));
        groups
            .iter()
            .take(LARGEST)
            .map(|(_, (document, dropped))| Ok((self.view.id(DocNo::new(*document))?, *dropped)))
            .collect()
    }
}

/// Writes what is kept, and what became of the rest.
struct LineFilter<'s, 'd> {
    view: &'s View<'s>,
    measure: Measure,
    decisions: Decisions<'s>,
    cleaned: Cleaned,
    out: &'s mut dyn Write,
    dropped: Option<&'d mut (dyn Write + 'd)>,
}

impl LineFilter<'_, '_> {
    fn filter(&mut self, lines: &ClassifiedLines) -> Result<()> {
        // What is kept in a row is written in one go.
        let (mut kept, mut records) = (0..0, Vec::new());
        for (line, class) in &lines.lines {
            self.count(*class);
            match *class {
                LineClass::Known(document)
                    if let Some(verdict) = self.decisions.verdict(document) =>
                {
                    self.put_dropped(&mut records, document, verdict)?;
                    self.write(&lines.bytes, kept)?;
                    kept = line.end..line.end;
                }
                _ => kept.end = line.end,
            }
        }
        self.cleaned.bytes_read += lines.bytes.len().to_u64();
        let is_cut = lines.bytes[kept.clone()]
            .last()
            .is_some_and(|&last| last != b'\n');
        self.write(&lines.bytes, kept)?;
        // The next file must not go on in the last line of this one.
        put(self.out, if is_cut { b"\n" } else { b"" })?;
        self.dropped
            .as_mut()
            .map_or(Ok(()), |dropped| put(dropped, &records))
    }

    fn write(&mut self, bytes: &[u8], kept: Range<usize>) -> Result<()> {
        self.cleaned.bytes_kept += kept.len().to_u64();
        put(self.out, &bytes[kept])
    }

    fn count(&mut self, class: LineClass) {
        self.cleaned.read += u64::from(class.is_document());
        self.cleaned.unknown += u64::from(matches!(class, LineClass::Unknown));
        self.cleaned.changed += u64::from(matches!(class, LineClass::Changed));
    }

    fn put_dropped(
        &mut self,
        records: &mut Vec<u8>,
        document: u32,
        verdict: DuplicateDecision,
    ) -> Result<()> {
        let (of, reason, shared, share) = match verdict {
            DuplicateDecision::Keep => return Ok(()),
            DuplicateDecision::ExactDuplicate { of, shared } => {
                (of, DropReason::Exact, shared, 1.0)
            }
            DuplicateDecision::NearDuplicate { of, shared, share } => {
                (of, DropReason::Near, shared, share)
            }
        };
        match reason {
            DropReason::Exact => self.cleaned.dropped_exact += 1,
            DropReason::Near => self.cleaned.dropped_near += 1,
        }
        if self.dropped.is_none() {
            return Ok(());
        }
        let record = DroppedDocument {
            doc: &self.view.id(DocNo::new(document))?,
            duplicate_of: &self
                .view
                .id(DocNo::new(self.decisions.kept[of.to_usize()].0))?,
            reason,
            shared: self.measure.scaled(shared),
            share,
            estimate: self.measure.selection.is_some(),
        };
        Ndjson.put_record(&record, records)
    }
}
