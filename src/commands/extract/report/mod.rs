//! A report for a browser: an overview of the documents that were checked and of all pairs, a page for each document with its
//! sources, and a page for each pair with both texts side by side.
//!
//! ```text
//! discovery ──► FoundPairs ──► PagePlan ──► pages of pairs ──► pages of documents ──► overview
//!               the best pairs  what gets      which of them     link to those           links to all
//!               and counts      a page         could be made     of pairs
//! ```

mod days;
mod examined;
mod found_pairs;
mod page_plan;
mod pages;

use super::{ExtractOptions, LeaveOut, Progress, discovery};
use crate::base::num::{ToU64, ToUsize};
use crate::base::setting::Setting;
use crate::{
    base::{error::Result, ids::DocNo},
    commands::{Observer, passage_options::PassageOptions, text_cache::TextCache},
    index::{Index, View},
    report::html::{Directory, DocumentRow, ReportFacts, count, counted},
    text::corpus::{Account, LeftOutFile},
};
pub use days::date_of;
use examined::Examined;
use found_pairs::{FoundPair, FoundPairs};
use page_plan::{PageLimits, PagePlan};
use pages::{DocumentPages, PageMaker, PairPages};
use std::path::PathBuf;

/// What a report shows, and where it goes.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// The directory to write pages to.
    pub directory: PathBuf,
    /// What was compared, for the overview.
    pub title: String,
    /// What was read and left out, if the documents were read for this report.
    pub input: Option<Account>,
    /// Files that should have been checked, and were not read.
    pub unread: Vec<LeftOutFile>,
    /// How the report is made, for the overview.
    pub facts: ReportFacts,
    /// The most pairs that get a page, those with the highest scores; and the most documents.
    pub top: usize,
    /// About how large all pages may be together.
    pub page_bytes: u64,
    /// How passages are found and shown.
    pub passages: PassageOptions,
}

/// The numbers of pairs and pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportSummary {
    /// Documents that were checked.
    pub documents: u64,
    /// All pairs of the index; documents with the same words count once.
    pub pairs: u64,
    /// Pairs that have a page.
    pub pages: u64,
    /// Documents that have a page.
    pub document_pages: u64,
    /// Documents whose text could not be read, and ids that are not known.
    pub problems: u64,
}

/// The most pairs in the table of the overview: more make a page that a browser opens slowly.
const LISTED_PAIRS: usize = 60_000;
/// The most documents in its other table.
const LISTED_DOCUMENTS: usize = 60_000;

/// Writes an overview, a page for each of the best pairs, and a page for each document of them. A pair has no page if one of the texts cannot
/// be read, or if nothing that they share counts.
///
/// Memory: that of discovering pairs; some hundred bytes for each pair and document that is listed; and about 34 times the size of the texts
/// under way, two for each thread.
pub fn write_report(
    options: &ExtractOptions,
    pages: &ReportOptions,
    leave_out: &LeaveOut,
    index: &Index,
    observer: &mut dyn Observer,
    progress: &mut Progress<'_>,
) -> Result<ReportSummary> {
    let view = View::by_id(index)?;
    let texts = TextCache::new(&pages.passages, index, 4 * options.limits.threads);
    let ((found, examined), unknown) =
        leave_out.with(index, options.limits, observer, |without, observer| {
            let discovery = discovery(options, without, index, &view, observer)?;
            let most = LISTED_PAIRS.max(pages.top);
            let mut found = FoundPairs::find(&discovery, most, progress)?;
            let examined = Examined::of(&discovery, &texts, &found.best)?;
            found.best.iter_mut().for_each(|pair| examined.turn(pair));
            Ok((found, examined))
        })?;
    let report = Report {
        options,
        pages,
        view: &view,
        texts: &texts,
        found: &found,
        examined: &examined,
    };
    let mut summary = report.write(progress)?;
    summary.problems = unknown + texts.report_unread(observer);
    Ok(summary)
}

/// What was found, and what is to be made of it.
struct Report<'r> {
    options: &'r ExtractOptions,
    pages: &'r ReportOptions,
    view: &'r View<'r>,
    texts: &'r TextCache<'r>,
    found: &'r FoundPairs,
    examined: &'r Examined,
}

impl Report<'_> {
    fn write(&self, progress: &mut Progress<'_>) -> Result<ReportSummary> {
        let notes = self.pages.passages.notes("the first text");
        let limits = PageLimits {
            pages: self.pages.top,
            bytes: self.pages.page_bytes,
        };
        let is_checked = |document| self.examined.is_checked(document);
        let bytes = |document| self.text_bytes(document);
        let plan = PagePlan::make(&self.found.best, limits, is_checked, bytes);
        let mut directory = Directory::create(&self.pages.directory, &self.pages.title, &notes)?;
        let facts = ReportFacts {
            newest: self.examined.newest(),
            ..self.pages.facts.clone()
        };
        // Pages are attached to case files one by one.
        let notes: Vec<String> = notes.into_iter().chain([facts.sentence()]).collect();
        let maker = PageMaker {
            view: self.view,
            texts: self.texts,
            limits: self.options.limits,
            notes: &notes,
            best: &self.found.best,
            plan: &plan,
        };
        let pairs = maker.make_pairs(&mut directory, progress)?;
        let documents = maker.make_documents(&pairs, &mut directory, progress)?;
        self.list_pairs(&pairs, &mut directory)?;
        let listed = self.list_documents(&plan, &pairs, &documents, &mut directory)?;
        let overview = directory.overview();
        overview.show_facts(&facts);
        overview.show_unread(&self.pages.unread);
        if let Some(notice) = self.notice(&plan, &pairs) {
            overview.say(&notice);
        }
        if let Some(account) = &self.pages.input {
            overview.show_input(account);
        }
        directory.finish()?;
        Ok(ReportSummary {
            documents: listed,
            pairs: self.found.pairs,
            pages: pairs.rows.len().to_u64(),
            document_pages: documents.pages(),
            problems: 0,
        })
    }

    /// About how large a text is.
    fn text_bytes(&self, document: DocNo) -> u64 {
        const TOKEN_BYTES: u64 = 7;
        self.view.row(document).map_or(0, |row| {
            row.bytes.unwrap_or(TOKEN_BYTES * u64::from(row.tokens))
        })
    }

    /// Rows for pairs, the best first: what was found in their texts, or else an estimate.
    fn list_pairs(&self, made: &PairPages, directory: &mut Directory) -> Result<()> {
        let overview = directory.overview();
        for (bin, pairs) in self.found.bins_beyond_best().into_iter().enumerate() {
            overview.add_unlisted(bin, pairs);
        }
        for (at, pair) in self.found.best.iter().enumerate() {
            if let Some(row) = made.rows.get(&at) {
                overview.add(row, at + 1);
            } else if !made.nothing_left.contains(&at) {
                let ids = [self.view.id(pair.a)?, self.view.id(pair.b)?];
                overview.add_estimate([&ids[0], &ids[1]], pair.shares);
            }
        }
        Ok(())
    }

    /// Rows for documents, those with the best pairs first; returns how many documents were checked.
    fn list_documents(
        &self,
        plan: &PagePlan,
        pairs: &PairPages,
        made: &DocumentPages,
        directory: &mut Directory,
    ) -> Result<u64> {
        let languages =
            self.examined
                .other_languages(self.view, self.texts, self.options.limits)?;
        let sources = self.found.best_sources(self.view, pairs);
        let overview = directory.overview();
        let (groups, mut checked) = (self.examined.groups(self.view, &self.found.best), 0);
        for (listed, group) in groups.iter().enumerate() {
            checked += group.len().to_u64();
            if listed >= LISTED_DOCUMENTS {
                overview.add_unlisted_documents(group.len().to_u64());
                continue;
            }
            let content = self.view.content_of(group[0]);
            let best = sources.get(&content).map_or(&[][..], |best| &best[..]);
            let mut row = self.document_row(group, best, plan, made)?;
            let language = group.iter().find_map(|document| languages.get(document));
            row.flags.extend(language.map(|name| format!("in {name}")));
            overview.add_document(row);
        }
        Ok(checked)
    }

    /// The row of documents with the same words. `best`: their best sources.
    fn document_row(
        &self,
        group: &[DocNo],
        best: &[(DocNo, f64)],
        plan: &PagePlan,
        made: &DocumentPages,
    ) -> Result<DocumentRow> {
        let ids = group.iter().map(|&document| self.view.id(document));
        let mut ids = ids.collect::<Result<Vec<_>>>()?.into_iter();
        let id = ids.next().unwrap_or_default();
        let page = group.iter().find_map(|&document| plan.page_of(document));
        let summary = page.and_then(|page| made.summaries.get(&page));
        let (share, best) = match summary {
            Some(summary) => (summary.share, summary.best.clone()),
            None => (
                best.first().map_or(0.0, |&(_, share)| share),
                best.iter()
                    .map(|&(other, share)| Ok((self.view.id(other)?, share)))
                    .collect::<Result<_>>()?,
            ),
        };
        let row = self.view.row(group[0])?;
        Ok(DocumentRow {
            flags: examined::flags(&id, row.tokens, self.texts),
            id,
            copies: ids.collect(),
            words: row.tokens,
            share,
            is_exact: summary.is_some(),
            sources: summary.map_or_else(
                || self.found.partners_of(self.view, group[0]),
                |summary| summary.sources,
            ),
            best,
            page: page.filter(|_| summary.is_some_and(|summary| summary.has_page)),
        })
    }

    /// A notice for the reader, if the report does not show all pairs.
    fn notice(&self, plan: &PagePlan, made: &PairPages) -> Option<String> {
        let mut parts = Vec::new();
        let (all, listed) = (self.found.pairs, self.found.best.len().to_u64());
        if listed < all {
            parts.push(format!(
                "The table lists the {} pairs with the highest scores, of {}; the figure counts all of them.",
                count(listed),
                count(all)
            ));
        }
        let paged = plan.pairs.to_u64();
        if paged < all {
            parts.push(format!(
                "The {} pairs with the highest scores have a page, of {}; {} and {} make more, and dedup-query align shows any two documents.",
                count(paged),
                count(all),
                Setting::Top,
                Setting::PageBytes
            ));
        }
        let nothing_left = made.nothing_left.len().to_u64();
        let unread = paged - made.rows.len().to_u64() - nothing_left;
        for (pairs, why) in [
            (nothing_left, "what is shared does not count"),
            (
                unread,
                "a text could not be read, or is not the one that was indexed",
            ),
        ] {
            if pairs > 0 {
                parts.push(format!(
                    "Without a page: {} of which {why}.",
                    counted(pairs, "pair")
                ));
            }
        }
        (!parts.is_empty()).then(|| parts.join(" "))
    }
}

/// The place of a pair in the list of the best.
fn place_in(best: &[FoundPair], at: u32) -> &FoundPair {
    &best[at.to_usize()]
}
