//! A report for a browser: an overview of all pairs, and a page for each with both texts side by
//! side.

use super::{ExtractOptions, LeaveOut, Progress, discovery};
use crate::base::num::ToU64;
use crate::base::setting::Setting;
use crate::{
    base::{
        error::{Error, Result},
        ids::DocNo,
        parallel::{self, Budget, Weighted},
    },
    commands::{Observer, passage_options::PassageOptions, text_cache::TextCache},
    index::{Index, View},
    report::html::{Directory, PairPage, count, counted},
    similar::{Discovery, Neighbour},
    text::corpus::Account,
};
use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    path::PathBuf,
    sync::Arc,
};

/// What a report shows, and where it goes.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// The directory to write pages to.
    pub directory: PathBuf,
    /// What was compared, for the overview.
    pub title: String,
    /// What was read and left out, if the documents were read for this report.
    pub input: Option<Account>,
    /// The most pairs that get a page: those with the highest scores.
    pub top: usize,
    /// How passages are found and shown.
    pub passages: PassageOptions,
}

/// The numbers of pairs and pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportSummary {
    /// All pairs of the index.
    pub pairs: u64,
    /// Pages that were written.
    pub pages: u64,
    /// Documents whose text could not be read, and ids that are not known.
    pub problems: u64,
}

/// A pair, ordered by score, then by the order of the corpus; the best pair is the greatest.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ScoredPair {
    score: f64,
    a: DocNo,
    b: DocNo,
}

impl Eq for ScoredPair {}

impl Ord for ScoredPair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score
            .total_cmp(&other.score)
            .then_with(|| (other.a, other.b).cmp(&(self.a, self.b)))
    }
}

impl PartialOrd for ScoredPair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Writes an overview and a page for each of the best pairs, the best first. A pair has no page if one of the texts cannot be read, or
/// if nothing that they share counts.
///
/// Memory: that of discovering pairs; 16 bytes and a row of the overview for each page; and about 34 times the size of the texts under
/// way, two for each thread.
pub fn write_report(
    options: &ExtractOptions,
    pages: &ReportOptions,
    leave_out: &LeaveOut,
    index: &Index,
    observer: &mut dyn Observer,
    progress: &mut Progress<'_>,
) -> Result<ReportSummary> {
    let view = View::by_id(index)?;
    let ((best, pairs), unknown) =
        leave_out.with(index, options.limits, observer, |without, observer| {
            best_pairs(
                &discovery(options, without, index, &view, observer)?,
                pages.top,
                progress,
            )
        })?;
    let texts = TextCache::new(&pages.passages, index, 4 * options.limits.threads);
    let notes = pages.passages.notes("the first text");
    let mut directory = Directory::create(&pages.directory, &pages.title, &notes)?;
    let all = best.len().to_u64();
    let mut written = PageCounts {
        pages: 0,
        nothing_left: 0,
        looked_at: 0,
    };
    let worker = || |pair: ScoredPair| page(&view, &texts, pair, &notes);
    let weigh = |made: &Result<PairOutcome>| {
        if let Ok(PairOutcome::Page(page)) = made {
            page.html.capacity().to_u64()
        } else {
            0
        }
    };
    let source = best.into_iter().map(|item| {
        Ok::<_, Error>(Weighted {
            item,
            bytes: 1 << 16,
        })
    });
    let threads = options.limits.threads;
    let budget = Budget::Bytes(options.limits.memory_bytes.min(256 << 20));
    parallel::ordered(threads, budget, source, worker, weigh, |made| {
        written.looked_at += 1;
        progress(written.looked_at, all);
        match made? {
            PairOutcome::Page(page) => {
                written.pages += 1;
                directory.add(&page)
            }
            PairOutcome::NothingLeft => {
                written.nothing_left += 1;
                Ok(())
            }
            PairOutcome::UnreadableText => Ok(()),
        }
    })?;
    let unread = texts.report_unread(observer);
    if let Some(notice) = notice(pairs, all, &written) {
        directory.say(&notice);
    }
    if let Some(account) = &pages.input {
        directory.show_input(account);
    }
    directory.finish()?;
    Ok(ReportSummary {
        pairs,
        pages: written.pages,
        problems: unknown + unread,
    })
}

struct PageCounts {
    pages: u64,
    nothing_left: u64,
    looked_at: u64,
}

/// A notice for the reader, if the report does not show all pairs.
fn notice(pairs: u64, best: u64, written: &PageCounts) -> Option<String> {
    let mut parts = Vec::new();
    if best < pairs {
        let what = "Only the pairs with the highest scores are here";
        parts.push(format!(
            "{what}: {} of {}. Run it again with {} to see more.",
            count(best),
            count(pairs),
            Setting::Top
        ));
    }
    let unread = best - written.pages - written.nothing_left;
    for (pairs, why) in [
        (written.nothing_left, "what is shared does not count"),
        (
            unread,
            "a text could not be read, or is not the one that was indexed",
        ),
    ] {
        if pairs > 0 {
            parts.push(format!(
                "Not shown: {} of which {why}.",
                counted(pairs, "pair")
            ));
        }
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// The best pairs, the best first, and how many there are in all.
fn best_pairs(
    discovery: &Discovery<'_>,
    top: usize,
    progress: &mut Progress<'_>,
) -> Result<(Vec<ScoredPair>, u64)> {
    #[derive(Default)]
    struct BestPairs {
        documents: u64,
        pairs: u64,
        best: BinaryHeap<Reverse<ScoredPair>>,
    }
    let work = |document: DocNo, neighbours: &Arc<[Neighbour]>, found: &mut BestPairs| {
        found.documents += 1;
        for (other, neighbour) in discovery.partners_after(document, neighbours) {
            found.pairs += 1;
            found.best.push(Reverse(ScoredPair {
                score: neighbour.score,
                a: document,
                b: other,
            }));
            if found.best.len() > top {
                found.best.pop();
            }
        }
    };
    let (mut best, mut pairs, mut documents) = (BinaryHeap::new(), 0, 0);
    discovery.for_each_document(
        work,
        |found| size_of::<ScoredPair>() as u64 * found.best.len().to_u64(),
        |found| {
            pairs += found.pairs;
            documents += found.documents;
            progress(documents, discovery.view.documents() as u64);
            best.extend(found.best);
            while best.len() > top {
                best.pop();
            }
            Ok(())
        },
    )?;
    let mut best: Vec<ScoredPair> = best.into_iter().map(|Reverse(pair)| pair).collect();
    best.sort_unstable_by(|one, two| two.cmp(one));
    Ok((best, pairs))
}

enum PairOutcome {
    Page(Box<PairPage>),
    NothingLeft,
    UnreadableText,
}

fn page(
    view: &View<'_>,
    texts: &TextCache<'_>,
    pair: ScoredPair,
    notes: &[String],
) -> Result<PairOutcome> {
    let [a, b] = [view.id(pair.a)?, view.id(pair.b)?];
    let (Some(one), Some(two)) = (texts.get(&a), texts.get(&b)) else {
        return Ok(PairOutcome::UnreadableText);
    };
    let shared = texts.options.shared_text(&one, &two);
    if texts.options.leaves_out() && shared.passages.is_empty() {
        return Ok(PairOutcome::NothingLeft);
    }
    Ok(PairOutcome::Page(Box::new(PairPage::of(
        (&a, &one),
        (&b, &two),
        &shared.passages,
        notes,
    )?)))
}
