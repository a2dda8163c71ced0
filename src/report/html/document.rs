//! The page of one document beside its sources, one or many.

use super::{
    blocks::{LeftOut, Mark, Text, put_blocks},
    escape::{put_html, put_json},
    frame::{Frame, name_among, put, put_element},
    number::{count, counted, percent},
    ranking::ranked,
};
use crate::base::num::{ToF64, ToU32, ToU64};
use crate::{
    align::{Passage, PassageCoverage, PreparedText, WordRange},
    base::error::{Error, Result},
    report::{describe_tally, put_number},
    text::stream::Span,
};
use std::{
    io::{self, Seek, Write},
    sync::LazyLock,
};
use tempfile::SpooledTempFile;

static FRAME: LazyLock<Frame> =
    LazyLock::new(|| Frame::new(include_str!("document.css"), include_str!("document.js")));

/// Builds a page: sources are added one at a time, in any order, and ranked when the page is written.
///
/// Memory: the document, about sixty bytes for each passage, and the source that is being added; the texts of the sources go to a
/// temporary file when they exceed a few megabytes.
pub struct DocumentPage<'d> {
    id: &'d str,
    document: &'d PreparedText,
    sources: Vec<Source>,
    marks: Vec<Mark>,
    texts: SpooledTempFile,
    link: Option<[&'d str; 2]>,
    notice: Option<&'d str>,
    links: PageLinks,
    notes: &'d [String],
    /// Lists the sources even if there is only one.
    lists_sources: bool,
}

/// Where a page leads, besides to the overview.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageLinks {
    /// The page with all sources of the document.
    pub all_sources: Option<String>,
    /// Sources with less in common that are not on the page, and where they are listed.
    pub more: Option<(u64, String)>,
}

/// What the sources of a document have of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DocumentSummary {
    /// The share of its words that are in a source, each word once.
    pub share: f64,
    /// The sources in the order of the page: the number in which each was added, and the share that it adds.
    pub credits: Vec<(usize, f64)>,
}

/// A source without its text.
struct Source {
    id: String,
    /// The page of the document and this source alone.
    page: Option<String>,
    /// The number of its first passage on the page.
    first: u32,
    passages: Vec<Known>,
    /// The words of the document that are in the source.
    stretches: Vec<WordRange>,
    /// The share of the document that is in passages of this source, and the share of the source; other sources do not matter.
    share: f64,
    share_of_source: f64,
    tally: PassageCoverage,
    longest: u32,
}

/// A passage: how it was copied, and where it starts and ends in both texts, from 0 to 1.
struct Known {
    kind: &'static str,
    tokens: u32,
    score: f64,
    /// In words.
    lengths: [u32; 2],
    starts: [f64; 2],
    ends: [f64; 2],
}

const SPOOL_BYTES: usize = 4 << 20;

impl<'d> DocumentPage<'d> {
    /// A page of a document, without sources.
    pub fn new(id: &'d str, document: &'d PreparedText) -> Self {
        let texts = SpooledTempFile::new(SPOOL_BYTES);
        Self {
            id,
            document,
            sources: Vec::new(),
            marks: Vec::new(),
            texts,
            link: None,
            notice: None,
            links: PageLinks::default(),
            notes: &[],
            lists_sources: false,
        }
    }

    /// Lists the sources beside the texts even if there is only one or none.
    pub fn with_list(self) -> Self {
        Self {
            lists_sources: true,
            ..self
        }
    }

    /// Links the page to others.
    pub fn with_links(self, links: PageLinks) -> Self {
        Self { links, ..self }
    }

    /// Links the page to the overview that it belongs to: the name of a file in the same directory.
    pub fn with_overview(self, file: &'d str) -> Self {
        self.with_link("Overview", file)
    }

    /// Links the page to another one.
    pub fn with_link(self, label: &'d str, address: &'d str) -> Self {
        Self {
            link: Some([label, address]),
            ..self
        }
    }

    /// Adds a sentence below the title.
    pub fn with_notice(self, notice: Option<&'d str>) -> Self {
        Self { notice, ..self }
    }

    /// Adds sentences to the explanation of how words are counted, such as what was left out.
    pub fn with_notes(self, notes: &'d [String]) -> Self {
        Self { notes, ..self }
    }

    /// Adds a source and the passages of the document (`a`) that are from it (`b`), with spans in bytes.
    pub fn add_source(
        &mut self,
        id: &str,
        source: &PreparedText,
        passages: &[Passage],
    ) -> Result<()> {
        let first = self.marks.len().to_u32();
        let numbered = || (first..).zip(passages);
        self.marks.extend(numbered().map(|(passage, found)| Mark {
            bytes: found.a,
            passage,
        }));
        let marks: Vec<_> = numbered()
            .map(|(passage, found)| Mark {
                bytes: found.b,
                passage,
            })
            .collect();
        let mut out = Vec::new();
        put_text(&mut out, &self.sources.len().to_string(), source, &marks);
        self.texts.write_all(&out).map_err(waiting)?;
        self.sources.push(Source {
            id: id.to_owned(),
            page: None,
            first,
            passages: passages
                .iter()
                .map(|passage| known(self.document, source, passage))
                .collect(),
            stretches: passages
                .iter()
                .map(|passage| self.document.words_in(passage.a))
                .collect(),
            share: self
                .document
                .matched_share(passages.iter().map(|passage| passage.a)),
            share_of_source: source.matched_share(passages.iter().map(|passage| passage.b)),
            tally: source.coverage(std::iter::empty()),
            longest: passages
                .iter()
                .map(|passage| passage.tokens)
                .max()
                .unwrap_or(0),
        });
        Ok(())
    }

    /// Links the source that was added last to the page of the document and this source alone.
    pub fn link_source(&mut self, page: String) {
        if let Some(source) = self.sources.last_mut() {
            source.page = Some(page);
        }
    }

    /// Writes the page.
    pub fn write(mut self, out: &mut impl Write) -> Result<DocumentSummary> {
        let stretches: Vec<&[WordRange]> = self
            .sources
            .iter()
            .map(|source| &source.stretches[..])
            .collect();
        let is_out = (0..self.document.tokens())
            .map(|word| self.document.reason(word).is_some())
            .collect();
        let order = ranked(is_out, &stretches);
        let mut page = Vec::new();
        FRAME.put_head(&mut page, &self.title());
        let is_many = self.is_many();
        put(
            &mut page,
            if is_many {
                "<body class=\"document many\">\n"
            } else {
                "<body class=\"document\">\n"
            },
        );
        self.put_top(&mut page, &order);
        if is_many {
            self.put_sources(&mut page, &order);
        }
        put(&mut page, include_str!("document.html"));
        self.put_counted(&mut page, is_many);
        self.put_meta(&mut page, &order);
        put_text(&mut page, "document", self.document, &self.marks);
        out.write_all(&page).map_err(Error::output)?;
        self.texts.rewind().map_err(waiting)?;
        io::copy(&mut self.texts, out).map_err(Error::output)?;
        page.clear();
        FRAME.put_foot(&mut page);
        out.write_all(&page).map_err(Error::output)?;
        Ok(self.summary(&order))
    }

    fn is_many(&self) -> bool {
        self.lists_sources || self.sources.len() > 1
    }

    fn summary(&self, order: &[(usize, u32)]) -> DocumentSummary {
        let credit = |&(source, words): &(usize, u32)| (source, self.share_of_words(words.into()));
        let all: u64 = order.iter().map(|&(_, words)| u64::from(words)).sum();
        DocumentSummary {
            share: self.share_of_words(all),
            credits: order.iter().map(credit).collect(),
        }
    }

    /// A short name of a document that differs from the others of the page.
    fn name<'i>(&self, id: &'i str) -> &'i str {
        name_among(
            id,
            self.sources
                .iter()
                .map(|source| source.id.as_str())
                .chain([self.id]),
        )
    }

    fn title(&self) -> String {
        match self.only_source() {
            Some(source) => format!("{} and {}", self.name(self.id), self.name(&source.id)),
            None => format!("{} and its sources", self.name(self.id)),
        }
    }

    /// The source, if the page is of a pair.
    fn only_source(&self) -> Option<&Source> {
        self.sources.first().filter(|_| !self.is_many())
    }

    /// The name of the document and the numbers that sum it up.
    fn put_top(&self, out: &mut Vec<u8>, order: &[(usize, u32)]) {
        put(out, "<header class=\"top\">\n<div class=\"title\">");
        if let Some([label, address]) = self.link {
            put_element(out, "<a class=\"back\" href=\"", address, "\">");
            put_element(out, "", label, "</a>");
        }
        if let Some(page) = &self.links.all_sources {
            put_element(out, "<a class=\"all\" href=\"", page, "\">All sources of ");
            put_element(out, "<bdi>", self.name(self.id), "</bdi></a>");
        }
        put_element(out, "<h1><bdi>", self.name(self.id), "</bdi>");
        match self.only_source() {
            Some(source) => put_element(
                out,
                " <span>and</span> <bdi>",
                self.name(&source.id),
                "</bdi>",
            ),
            None => put(out, " <span>and its sources</span>"),
        }
        put(out, "</h1>");
        if let Some(notice) = self.notice {
            put_element(out, "<p class=\"kept\" role=\"note\">", notice, "</p>");
        }
        put(out, "</div>\n<dl class=\"numbers\">");
        let longest = self
            .sources
            .iter()
            .map(|source| source.longest)
            .max()
            .unwrap_or(0);
        match self.only_source() {
            Some(source) => {
                put_number_tile(
                    out,
                    &percent(source.share),
                    "of the left text is in the right",
                );
                put_number_tile(
                    out,
                    &percent(source.share_of_source),
                    "of the right text is in the left",
                );
            }
            None => {
                let credited: u64 = order.iter().map(|&(_, words)| u64::from(words)).sum();
                put_number_tile(
                    out,
                    &percent(self.share_of_words(credited)),
                    "of the text is in a source",
                );
                let sources = self.sources.len().to_u64();
                let what = if sources == 1 { "source" } else { "sources" };
                put_number_tile(out, &count(sources), what);
            }
        }
        put_number_tile(
            out,
            &count(self.marks.len().to_u64()),
            if self.marks.len() == 1 {
                "passage"
            } else {
                "passages"
            },
        );
        put_number_tile(out, &count(longest.into()), "words in the longest");
        put(out, "</dl>\n");
        put(out, include_str!("tools.html"));
        put(out, "</header>\n");
    }

    /// The sources by the share that is credited to them.
    fn put_sources(&self, out: &mut Vec<u8>, order: &[(usize, u32)]) {
        put(
            out,
            "<nav class=\"sources\" aria-label=\"Sources\">\n<h2>Sources</h2>\n<ol>\n",
        );
        for (rank, &(source, words)) in order.iter().enumerate() {
            let source = &self.sources[source];
            let credit = self.share_of_words(words.into());
            put(
                out,
                &format!("<li><button type=\"button\" data-source=\"{rank}\" title=\""),
            );
            put_html(out, &source.id);
            put_element(
                out,
                "\"><bdi class=\"name\">",
                self.name(&source.id),
                "</bdi>",
            );
            put(out, &format!("<b>{}</b>", percent(credit)));
            let width = (100.0 * credit).clamp(0.0, 100.0);
            put(
                out,
                &format!(
                    "<svg class=\"share\" viewBox=\"0 0 100 4\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"{width:.2}\" height=\"4\"/></svg>"
                ),
            );
            let passages = counted(source.passages.len().to_u64(), "passage");
            let (share, of_source) = (percent(source.share), percent(source.share_of_source));
            put(
                out,
                &format!(
                    "<small>{share} of the text, {of_source} of the source · {passages}, longest {} words</small></button>",
                    count(source.longest.into())
                ),
            );
            if let Some(page) = &source.page {
                put_element(out, "<a class=\"alone\" href=\"", page, "\" aria-label=\"");
                let what = format!("{} and this source side by side", self.name(self.id));
                put_element(out, "", &what, "\">side by side</a>");
            }
            put(out, "</li>\n");
        }
        put(out, "</ol>\n");
        if let Some((sources, href)) = &self.links.more {
            let what = format!("{} with less in common", counted(*sources, "more source"));
            put_element(out, "<p class=\"more\"><a href=\"", href, "\">");
            put_element(out, "", &what, "</a></p>\n");
        }
        put(out, "</nav>\n");
    }

    /// What the numbers mean, for the help and the end of a printed page.
    fn put_counted(&self, out: &mut Vec<u8>, is_many: bool) {
        put(out, "<dialog id=\"help\" aria-label=\"Help\">\n");
        put(out, include_str!("keys.html"));
        put(out, include_str!("counted.html"));
        if is_many {
            put(out, include_str!("counted-many.html"));
        }
        let words = count(self.document.tokens() as u64);
        put(
            out,
            &format!("<p>The document has {words} words by this count.</p>\n"),
        );
        let tally = self.document.coverage(std::iter::empty());
        let sentences = [describe_tally("the document", &tally)].into_iter().chain(
            self.sources
                .iter()
                .map(|source| describe_tally(&source.id, &source.tally)),
        );
        sentences
            .flatten()
            .for_each(|text| put_element(out, "<p>", &sentence(&text), "</p>\n"));
        self.notes
            .iter()
            .for_each(|note| put_element(out, "<p>", note, "</p>\n"));
        put(out, "</section>\n");
        put(
            out,
            "<form method=\"dialog\"><button>Close</button></form>\n</dialog>\n",
        );
    }

    /// The data for the script: the passages of each source, by rank.
    fn put_meta(&self, out: &mut Vec<u8>, order: &[(usize, u32)]) {
        put(
            out,
            "<script type=\"application/json\" id=\"meta\">{\"document\":",
        );
        put_json(out, self.id);
        let tally = self.document.coverage(std::iter::empty());
        put(
            out,
            &format!(
                ",\"words\":{},\"counts\":{},\"sources\":[",
                tally.words,
                tally.counted()
            ),
        );
        for (rank, &(place, _)) in order.iter().enumerate() {
            let source = &self.sources[place];
            put(
                out,
                if rank > 0 {
                    ",\n{\"id\":"
                } else {
                    "\n{\"id\":"
                },
            );
            put_json(out, &source.id);
            let PassageCoverage { words, .. } = source.tally;
            put(
                out,
                &format!(
                    ",\"text\":\"text-{place}\",\"first\":{},\"words\":{words},\"counts\":{},\"passages\":[",
                    source.first,
                    source.tally.counted()
                ),
            );
            for (at, passage) in source.passages.iter().enumerate() {
                put(out, if at > 0 { "," } else { "" });
                passage.put(out);
            }
            put(out, "]}");
        }
        put(out, "]}</script>\n");
    }

    fn share_of_words(&self, words: u64) -> f64 {
        words.to_f64() / f64::from(self.document.coverage(std::iter::empty()).counted().max(1))
    }
}

impl Known {
    fn put(&self, out: &mut Vec<u8>) {
        put(out, &format!("[\"{}\",{}", self.kind, self.tokens));
        let places = [
            self.score,
            f64::from(self.lengths[0]),
            f64::from(self.lengths[1]),
        ]
        .into_iter();
        for number in places.chain([self.starts[0], self.ends[0], self.starts[1], self.ends[1]]) {
            out.push(b',');
            put_number(out, number);
        }
        out.push(b']');
    }
}

fn known(a: &PreparedText, b: &PreparedText, passage: &Passage) -> Known {
    let part =
        |document: &PreparedText, at: u32| f64::from(at) / document.text().len().max(1).to_f64();
    let length = |document: &PreparedText, bytes: Span| document.words_in(bytes).len();
    Known {
        kind: passage.kind.name(),
        tokens: passage.tokens,
        score: passage.score,
        lengths: [length(a, passage.a), length(b, passage.b)],
        starts: [part(a, passage.a.start), part(b, passage.b.start)],
        ends: [part(a, passage.a.end), part(b, passage.b.end)],
    }
}

/// Appends a text as a block of data.
fn put_text(out: &mut Vec<u8>, name: &str, document: &PreparedText, marks: &[Mark]) {
    put(
        out,
        &format!("<script type=\"application/json\" id=\"text-{name}\">"),
    );
    let left_out: Vec<_> = document
        .excluded()
        .into_iter()
        .map(|(bytes, reason)| LeftOut {
            bytes,
            why: reason.place(),
        })
        .collect();
    let text = Text {
        text: document.text(),
        is_squeezed: document.plain().is_stripped(),
    };
    put_blocks(out, text, marks, &left_out, |bytes| {
        document.words_in(bytes).len()
    });
    put(out, "</script>\n");
}

fn put_number_tile(out: &mut Vec<u8>, number: &str, what: &str) {
    // Both are ours; the number may begin with "<".
    put_element(out, "<div><dt>", what, "</dt>");
    put_element(out, "<dd>", number, "</dd></div>");
}

/// With a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        format!("{}{}.", first.to_uppercase(), chars.as_str())
    })
}

fn waiting(error: io::Error) -> Error {
    Error::io("a temporary file for the page", error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::align::{AlignOptions, align};

    const SAID: [&str; 2] = [
        "Ice that is pressed by its own weight begins to flow downhill, slowly, and carries the stones of the valley with it.",
        "Bread was baked once a week in the village oven, and every family marked its loaves with a sign of its own.",
    ];

    fn page(text: &str, sources: &[(&str, &str)]) -> String {
        let options = AlignOptions::default();
        let document = PreparedText::new(text, &options);
        let mut page = DocumentPage::new("dir/<essay>", &document).with_notes(&[]);
        for (id, text) in sources {
            let source = PreparedText::new(*text, &options);
            page.add_source(id, &source, &align(&document, &source, &options))
                .unwrap();
        }
        let mut out = Vec::new();
        page.write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// What stands between two marks.
    fn between<'p>(page: &'p str, open: &str, close: &str) -> &'p str {
        page.split_once(open)
            .unwrap()
            .1
            .split_once(close)
            .unwrap()
            .0
    }

    #[test]
    fn two_shares_for_a_pair() {
        // 22 of 25 words, and 22 of 44.
        let page = page(
            &format!("And so: {} Indeed.", SAID[0]),
            &[("s", &SAID.join(" "))],
        );
        assert!(page.contains("<title>&lt;essay&gt; and s</title>"));
        assert!(page.contains("<dt>of the left text is in the right</dt><dd>88%</dd>"));
        assert!(page.contains("<dt>of the right text is in the left</dt><dd>50%</dd>"));
        assert!(page.contains("<dt>words in the longest</dt><dd>22</dd>"));
        assert_eq!(
            between(&page, "id=\"text-0\">", "</script>"),
            format!("[[0,[[0],\"{}\"],\" {}\"]]", SAID[0], SAID[1])
        );
    }

    #[test]
    fn sources_are_ranked_by_what_they_add() {
        let both = SAID.join(" ");
        let page = page(
            &both,
            &[("one", SAID[0]), ("both", &both), ("none", "Nothing.")],
        );
        let ranked: Vec<&str> = page
            .split("class=\"name\">")
            .skip(1)
            .map(|rest| rest.split("</button>").next().unwrap())
            .collect();
        assert_eq!(ranked.len(), 3);
        assert!(ranked[0].starts_with("both</bdi><b>100%</b>"), "{ranked:?}");
        assert!(
            ranked[1].starts_with("one</bdi><b>0%</b>")
                && ranked[1]
                    .contains("50% of the text, 100% of the source · 1 passage, longest 22 words")
        );
        assert!(ranked[2].starts_with("none</bdi><b>0%</b>"));
        assert!(page.contains("<dt>of the text is in a source</dt><dd>100%</dd>"));
        // The text of a source is found by the order in which it came, its passages by their number on the page.
        assert!(page.contains("{\"id\":\"both\",\"text\":\"text-1\",\"first\":1,"));
        assert!(page.contains("{\"id\":\"one\",\"text\":\"text-0\",\"first\":0,"));
    }

    #[test]
    fn there_may_be_nothing() {
        assert!(page("", &[]).contains("<dd>0%</dd>"));
        assert!(page("", &[("", "")]).contains("<dd>0%</dd>"));
        assert_eq!(
            page("words", &[("x", "others")]).matches("<script").count(),
            4,
            "two texts, their data, and the script"
        );
    }
}
