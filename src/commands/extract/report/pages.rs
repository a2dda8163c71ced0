//! Makes the pages of pairs and of documents, on many threads.

use super::{
    found_pairs::FoundPair,
    page_plan::{PagePlan, PlannedDocument},
    place_in,
};
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{
    base::{
        error::{Error, Result},
        ids::DocNo,
        parallel::{self, Budget, Limits, Weighted},
    },
    commands::{extract::Progress, text_cache::TextCache},
    index::View,
    report::html::{
        Directory, DocumentPage, OVERVIEW, PageKind, PageLinks, PairPage, Row, page_name,
    },
};
use std::collections::{HashMap, HashSet};

/// Makes pages.
pub struct PageMaker<'m> {
    pub view: &'m View<'m>,
    pub texts: &'m TextCache<'m>,
    pub limits: Limits,
    /// Sentences on what counts.
    pub notes: &'m [String],
    pub best: &'m [FoundPair],
    pub plan: &'m PagePlan,
}

/// What became of the pairs that should have pages, by their places in the list of pairs.
#[derive(Debug, Default)]
pub struct PairPages {
    /// Those that have one.
    pub rows: HashMap<usize, Row>,
    /// Those that share nothing that counts.
    pub nothing_left: HashSet<usize>,
}

/// What is known of documents that should have pages, by number of the page.
#[derive(Debug, Default)]
pub struct DocumentPages {
    pub summaries: HashMap<usize, ShownDocument>,
}

/// What the page of a document shows.
#[derive(Debug)]
pub struct ShownDocument {
    /// The share of its words that is in sources.
    pub share: f64,
    /// The sources, and what each adds to the share.
    pub best: Vec<(String, f64)>,
    /// How many documents share text with it.
    pub sources: u64,
    /// There is a page: some source has some of it.
    pub has_page: bool,
}

impl DocumentPages {
    /// How many pages there are.
    pub fn pages(&self) -> u64 {
        let with_page = self.summaries.values().filter(|shown| shown.has_page);
        with_page.count().to_u64()
    }
}

enum PairOutcome {
    Page(Box<PairPage>),
    NothingLeft,
    UnreadableText,
}

/// A page that was made, and its number or place.
type Made<T> = (usize, Result<T>);

impl PageMaker<'_> {
    /// Writes the pages of pairs.
    pub fn make_pairs(
        &self,
        directory: &mut Directory,
        progress: &mut Progress<'_>,
    ) -> Result<PairPages> {
        let mut pages = PairPages::default();
        let (mut done, all) = (0, self.plan.pairs.to_u64());
        let weigh = |(_, made): &Made<PairOutcome>| match made {
            Ok(PairOutcome::Page(page)) => page.html.capacity().to_u64(),
            _ => 0,
        };
        self.run(
            0..self.plan.pairs,
            |at| self.pair_page(at),
            weigh,
            |(at, made)| {
                done += 1;
                progress(done, all);
                match made? {
                    PairOutcome::Page(page) => {
                        directory.put_page(PageKind::Pair, at + 1, &page.html)?;
                        pages.rows.insert(at, page.row);
                    }
                    PairOutcome::NothingLeft => {
                        pages.nothing_left.insert(at);
                    }
                    PairOutcome::UnreadableText => {}
                }
                Ok(())
            },
        )?;
        Ok(pages)
    }

    /// Writes the pages of documents, with links to those of pairs that were made.
    pub fn make_documents(
        &self,
        pairs: &PairPages,
        directory: &mut Directory,
        progress: &mut Progress<'_>,
    ) -> Result<DocumentPages> {
        let mut pages = DocumentPages::default();
        let (mut done, all) = (0, self.plan.documents.len().to_u64());
        let weigh = |(_, made): &Made<Option<(Vec<u8>, ShownDocument)>>| match made {
            Ok(Some((html, _))) => html.capacity().to_u64(),
            _ => 0,
        };
        self.run(
            0..self.plan.documents.len(),
            |at| self.document_page(&self.plan.documents[at], pairs),
            weigh,
            |(at, made)| {
                done += 1;
                progress(done, all);
                if let Some((html, shown)) = made? {
                    if shown.has_page {
                        directory.put_page(PageKind::Document, at + 1, &html)?;
                    }
                    pages.summaries.insert(at + 1, shown);
                }
                Ok(())
            },
        )?;
        Ok(pages)
    }

    fn run<T: Send>(
        &self,
        places: std::ops::Range<usize>,
        make: impl Fn(usize) -> Result<T> + Sync,
        weigh: impl Fn(&Made<T>) -> u64 + Sync,
        sink: impl FnMut(Made<T>) -> Result<()>,
    ) -> Result<()> {
        let source = places.map(|item| {
            Ok::<_, Error>(Weighted {
                item,
                bytes: 1 << 16,
            })
        });
        let budget = Budget::Bytes(self.limits.memory_bytes.min(256 << 20));
        let worker = || |at: usize| (at, make(at));
        parallel::ordered(self.limits.threads, budget, source, worker, weigh, sink)
    }

    fn pair_page(&self, at: usize) -> Result<PairOutcome> {
        let pair = &self.best[at];
        let [a, b] = [self.view.id(pair.a)?, self.view.id(pair.b)?];
        let (Some(one), Some(two)) = (self.texts.get(&a), self.texts.get(&b)) else {
            return Ok(PairOutcome::UnreadableText);
        };
        let options = self.texts.options;
        let shared = options.shared_text(&one, &two);
        if options.leaves_out() && shared.passages.is_empty() {
            return Ok(PairOutcome::NothingLeft);
        }
        let page = self
            .page_with(pair.a, at)
            .filter(|_| !shared.passages.is_empty());
        let links = PageLinks {
            all_sources: page.map(|number| page_name(PageKind::Document, number)),
            more: None,
        };
        Ok(PairOutcome::Page(Box::new(PairPage::of(
            (&a, &one),
            (&b, &two),
            &shared.passages,
            self.notes,
            links,
        )?)))
    }

    /// The page of a document that shows a pair of it.
    fn page_with(&self, document: DocNo, pair: usize) -> Option<usize> {
        let page = self.plan.page_of(document)?;
        let planned = self.plan.documents.get(page - 1)?;
        planned.pairs.contains(&pair.to_u32()).then_some(page)
    }

    /// The page of a document; none if its text cannot be read.
    fn document_page(
        &self,
        planned: &PlannedDocument,
        pairs: &PairPages,
    ) -> Result<Option<(Vec<u8>, ShownDocument)>> {
        let id = self.view.id(planned.document)?;
        let Some(text) = self.texts.get(&id) else {
            return Ok(None);
        };
        let more = format!("{OVERVIEW}#document={}", percent_encoded(&id));
        let links = PageLinks {
            all_sources: None,
            more: (planned.more > 0).then_some((planned.more, more)),
        };
        let mut page = DocumentPage::new(&id, &text)
            .with_overview(OVERVIEW)
            .with_list()
            .with_links(links)
            .with_notes(self.notes);
        let (mut sources, mut sharing) = (Vec::new(), 0);
        for &at in &planned.pairs {
            let source = self.view.id(self.source_of(planned.document, at))?;
            let Some(other) = self.texts.get(&source) else {
                continue;
            };
            let options = self.texts.options;
            let shared = options.shared_text(&text, &other);
            if options.leaves_out() && shared.passages.is_empty() {
                continue;
            }
            page.add_source(&source, &other, &shared.passages)?;
            if pairs.rows.contains_key(&at.to_usize()) {
                page.link_source(page_name(PageKind::Pair, at.to_usize() + 1));
            }
            sharing += u64::from(!shared.passages.is_empty());
            sources.push(source);
        }
        let mut html = Vec::new();
        let summary = page.write(&mut html)?;
        let best = summary.credits.into_iter();
        let shown = ShownDocument {
            share: summary.share,
            sources: if sharing > 0 {
                sharing + planned.more
            } else {
                0
            },
            has_page: sharing > 0,
            best: best
                .map(|(source, credit)| (std::mem::take(&mut sources[source]), credit))
                .filter(|&(_, credit)| credit > 0.0)
                .collect(),
        };
        Ok(Some((html, shown)))
    }

    /// The other document of a pair.
    fn source_of(&self, document: DocNo, pair: u32) -> DocNo {
        let pair = place_in(self.best, pair);
        if pair.a == document { pair.b } else { pair.a }
    }
}

/// For the part of an address after `#`.
fn percent_encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_hold_any_id() {
        assert_eq!(
            percent_encoded("a b/é<\">#%.txt"),
            "a%20b/%C3%A9%3C%22%3E%23%25.txt"
        );
    }
}
