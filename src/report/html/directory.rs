//! A directory of pages: one for each pair, and an overview.

use super::overview::{Overview, Row};
use crate::base::num::ToU32;
use crate::{
    align::{Passage, PreparedText},
    base::{
        error::{Error, Result},
        files::durable,
    },
    report::{HtmlPages, PairTexts, Sink},
    text::corpus::Account,
};
use std::{
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

impl PairPage {
    /// Makes the page of two documents from their ids, the passages that they share, with spans in bytes, and notes on how words are
    /// counted ([`super::DocumentPage::with_notes`]).
    pub fn of(
        a: (&str, &PreparedText),
        b: (&str, &PreparedText),
        passages: &[Passage],
        notes: &[String],
    ) -> Result<Self> {
        let pair = PairTexts {
            ids: [a.0, b.0],
            texts: [a.1, b.1],
            passages,
            notes,
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
/// Memory: that of the overview, about fifty bytes a pair, and each id once.
pub struct Directory {
    path: PathBuf,
    overview: Overview,
}

impl Directory {
    /// Makes the directory if there is none. `title` stands on the overview: what was compared. `notes` as for [`super::DocumentPage::with_notes`].
    pub fn create(path: &Path, title: &str, notes: &[String]) -> Result<Self> {
        durable::create_dir_all(path)?;
        Ok(Self {
            path: path.to_owned(),
            overview: Overview::new(title, notes),
        })
    }

    /// Writes the page of a pair.
    pub fn add(&mut self, page: &PairPage) -> Result<()> {
        let number = self.overview.add(&page.row);
        write_file(&self.path.join(page_name(number)), |out| {
            out.write_all(&page.html).map_err(Error::output)
        })
    }

    /// Puts a notice at the top of the overview.
    pub fn say(&mut self, notice: &str) {
        self.overview.say(notice);
    }

    /// Shows what was read and left out, on the overview.
    pub fn show_input(&mut self, account: &Account) {
        self.overview.show_input(account);
    }

    /// Writes the overview, and syncs all files.
    pub fn finish(self) -> Result<()> {
        write_file(&self.path.join(OVERVIEW), |out| self.overview.write(out))?;
        durable::sync_tree(&self.path)
    }
}

/// `pair-000001.html`; the first number is 1.
pub fn page_name(number: usize) -> String {
    format!("pair-{number:06}.html")
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
