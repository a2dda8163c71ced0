//! A directory of pages: of documents, of pairs, and an overview.

use super::{
    document::PageLinks,
    overview::{Overview, Row},
};
use crate::base::num::ToU32;
use crate::{
    align::{Passage, PreparedText},
    base::{
        error::{Error, Result},
        files::durable,
    },
    report::{HtmlPages, PairTexts, Sink},
};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

/// The finished page of a pair, and its row of the overview. Any thread can make it.
#[derive(Debug, Clone, PartialEq)]
pub struct PairPage {
    /// The page.
    pub html: Vec<u8>,
    /// The row of the overview.
    pub row: Row,
}

/// The name of the overview of all pairs.
pub const OVERVIEW: &str = "index.html";

/// What a numbered page shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageKind {
    /// A document and all its sources.
    Document,
    /// Two documents side by side.
    Pair,
}

impl PageKind {
    const ALL: [Self; 2] = [Self::Document, Self::Pair];

    fn prefix(self) -> &'static str {
        match self {
            Self::Document => "document-",
            Self::Pair => "pair-",
        }
    }
}

/// `pair-000001.html`; the first number is 1.
pub fn page_name(kind: PageKind, number: usize) -> String {
    format!("{}{number:06}.html", kind.prefix())
}

impl PairPage {
    /// Makes the page of two documents from their ids, the passages that they share, with spans in bytes, and notes on how words are
    /// counted ([`super::DocumentPage::with_notes`]). `links`: where else the page leads.
    pub fn of(
        a: (&str, &PreparedText),
        b: (&str, &PreparedText),
        passages: &[Passage],
        notes: &[String],
        links: PageLinks,
    ) -> Result<Self> {
        let pair = PairTexts {
            ids: [a.0, b.0],
            texts: [a.1, b.1],
            passages,
            notes,
            links,
        };
        let mut html = Vec::new();
        HtmlPages.put_record(&pair, &mut html)?;
        let row = Row {
            a: a.0.to_owned(),
            b: b.0.to_owned(),
            a_in_b: a.1.matched_share(passages.iter().map(|passage| passage.a)),
            b_in_a: b.1.matched_share(passages.iter().map(|passage| passage.b)),
            passages: passages.len().to_u32(),
            longest: passages
                .iter()
                .map(|passage| passage.tokens)
                .max()
                .unwrap_or(0),
            tokens: passages
                .iter()
                .fold(0, |sum, passage| sum.saturating_add(passage.tokens)),
        };
        Ok(Self { html, row })
    }
}

/// Writes pages as they come, and the overview at the end. Files are named by numbers, never by ids.
///
/// Memory: that of the overview, and some bytes a page.
pub struct Directory {
    path: PathBuf,
    overview: Overview,
    written: BTreeSet<String>,
    pairs: usize,
}

impl Directory {
    /// Makes the directory if there is none. `title` stands on the overview: what was compared. `notes` as for [`super::DocumentPage::with_notes`].
    pub fn create(path: &Path, title: &str, notes: &[String]) -> Result<Self> {
        durable::create_dir_all(path)?;
        Ok(Self {
            path: path.to_owned(),
            overview: Overview::new(title, notes),
            written: BTreeSet::new(),
            pairs: 0,
        })
    }

    /// Writes the page of the next pair.
    pub fn add(&mut self, page: &PairPage) -> Result<()> {
        self.pairs += 1;
        let number = self.pairs;
        self.overview.add(&page.row, number);
        self.put_page(PageKind::Pair, number, &page.html)
    }

    /// Writes a page that the overview does not list by itself.
    pub fn put_page(&mut self, kind: PageKind, number: usize, html: &[u8]) -> Result<()> {
        let name = page_name(kind, number);
        write_file(&self.path.join(&name), |out| {
            out.write_all(html).map_err(Error::output)
        })?;
        self.written.insert(name);
        Ok(())
    }

    /// The overview, which is written at the end.
    pub fn overview(&mut self) -> &mut Overview {
        &mut self.overview
    }

    /// Writes the overview, removes pages of an earlier report that this one does not have, and syncs all files.
    pub fn finish(self) -> Result<()> {
        let Self {
            path,
            overview,
            written,
            ..
        } = self;
        write_file(&path.join(OVERVIEW), |out| overview.write(out))?;
        remove_older(&path, &written)?;
        durable::sync_tree(&path)
    }
}

/// Removes pages with names of ours that are not among those that were written.
fn remove_older(directory: &Path, written: &BTreeSet<String>) -> Result<()> {
    let named = |error| Error::io(directory.display(), error);
    for entry in fs::read_dir(directory).map_err(named)? {
        let entry = entry.map_err(named)?;
        let name = entry.file_name();
        let is_older = |name: &str| is_page_name(name) && !written.contains(name);
        if name.to_str().is_some_and(is_older) {
            fs::remove_file(entry.path())
                .map_err(|error| Error::io(entry.path().display(), error))?;
        }
    }
    Ok(())
}

/// Whether a file has a name that [`page_name`] gives.
fn is_page_name(name: &str) -> bool {
    let number = |kind: PageKind| name.strip_prefix(kind.prefix())?.strip_suffix(".html");
    let is_number =
        |digits: &str| digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
    PageKind::ALL.into_iter().filter_map(number).any(is_number)
}

/// Writes under another name first, so that a reader never sees half a page. As there may be many files, they are synced together at the end.
fn write_file(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let named = |error| Error::io(path.display(), error);
    let beside = path.with_extension("html.tmp");
    let written = File::create(&beside).map_err(named).and_then(|file| {
        let mut out = BufWriter::with_capacity(1 << 16, file);
        write(&mut out)?;
        out.flush().map_err(named)
    });
    let done = written.and_then(|()| fs::rename(&beside, path).map_err(named));
    done.map_err(|error| {
        let _ = fs::remove_file(&beside);
        match error {
            Error::Output(cause) => named(cause),
            error => error,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_an_earlier_report_are_removed() {
        let ours = ["pair-000001.html", "document-1234567.html"];
        let others = [
            "index.html",
            "pair-1.html",
            "pair-00000x.html",
            "pair-000001.html.bak",
            "my-pair-000001.html",
            "document-.html",
        ];
        assert!(ours.iter().all(|name| is_page_name(name)));
        assert!(!others.iter().any(|name| is_page_name(name)));
        assert_eq!(page_name(PageKind::Document, 1_234_567), ours[1]);
    }
}
