//! HTML: a page for each pair, with both texts side by side.

use super::Sink;
use crate::{
    align::{Passage, PreparedText},
    base::error::Result,
    report::html::{DocumentPage, OVERVIEW, PageLinks},
};

/// Two documents with their texts, and what they share.
pub struct PairTexts<'t> {
    /// The ids of both documents.
    pub ids: [&'t str; 2],
    /// The texts of both documents.
    pub texts: [&'t PreparedText; 2],
    /// With spans in bytes of the texts.
    pub passages: &'t [Passage],
    /// Sentences on what counts, for the help of the page.
    pub notes: &'t [String],
    /// Where else the page leads.
    pub links: PageLinks,
}

/// Writes each pair as a page, which links to the overview of all pairs.
pub struct HtmlPages;

impl Sink<PairTexts<'_>> for HtmlPages {
    fn put_record(&self, pair: &PairTexts<'_>, out: &mut Vec<u8>) -> Result<()> {
        let [a, b] = pair.ids;
        let mut page = DocumentPage::new(a, pair.texts[0])
            .with_overview(OVERVIEW)
            .with_links(pair.links.clone())
            .with_notes(pair.notes);
        page.add_source(b, pair.texts[1], pair.passages)?;
        page.write(out)?;
        Ok(())
    }
}
