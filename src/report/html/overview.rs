//! The overview: the documents that were checked, a histogram of similarities, a graph of connected documents, the pairs, and how
//! all of it was made.

use super::{
    escape::put_json,
    facts::{ReportFacts, put_facts},
    frame::{Frame, put, put_element},
    graph::{Edge, put_graph},
    histogram::{BINS, bin_of, put_histogram},
    input::put_input,
    number::{count, percent},
};
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{
    base::error::{Error, Result},
    report::put_number,
    text::corpus::{Account, LeftOutFile},
};
use std::{collections::HashMap, io::Write, sync::LazyLock};

static FRAME: LazyLock<Frame> =
    LazyLock::new(|| Frame::new(include_str!("overview.css"), include_str!("overview.js")));

/// A pair whose texts were aligned.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The id of one document.
    pub a: String,
    /// The id of the other one.
    pub b: String,
    /// The share of the words of `a` that are in passages.
    pub a_in_b: f64,
    /// The share of the words of `b` that are in passages.
    pub b_in_a: f64,
    /// The number of passages.
    pub passages: u32,
    /// The words of the longest passage.
    pub longest: u32,
    /// The words of all passages.
    pub tokens: u32,
}

/// A document that was checked, or several with the same text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DocumentRow {
    /// The id of the document.
    pub id: String,
    /// Other documents that were checked and have the same words.
    pub copies: Vec<String>,
    /// Its number of words.
    pub words: u32,
    /// The share of its words that others have.
    pub share: f64,
    /// The share is that of the passages on the page of the document; else it is an estimate, from the best source alone.
    pub is_exact: bool,
    /// The number of documents that share text with it.
    pub sources: u64,
    /// The best of them, and what each adds to the share.
    pub best: Vec<(String, f64)>,
    /// What the reader should know: too short, another language, not readable.
    pub flags: Vec<String>,
    /// The number of its page.
    pub page: Option<usize>,
}

/// Builds the overview.
///
/// Memory: each id once, some fifty bytes a pair, and some hundred a document.
pub struct Overview {
    title: String,
    notes: Vec<String>,
    notice: Option<String>,
    input: Option<Account>,
    unread: Vec<LeftOutFile>,
    facts: Option<ReportFacts>,
    ids: Vec<String>,
    numbers: HashMap<String, u32>,
    pairs: Vec<Pair>,
    documents: Vec<DocumentRow>,
    /// Pairs that are in no row, by similarity.
    unlisted: [u64; BINS],
    unlisted_documents: u64,
}

struct Pair {
    documents: [u32; 2],
    shares: [f64; 2],
    /// Passages, words of the longest and of all; none if the texts were not aligned.
    counts: Option<[u32; 3]>,
    page: Option<usize>,
}

impl Pair {
    /// How similar two documents are: the larger of the two shares.
    fn share(&self) -> f64 {
        self.shares[0].max(self.shares[1])
    }

    fn shares_text(&self) -> bool {
        self.counts.is_none_or(|counts| counts[0] > 0)
    }
}

impl Overview {
    /// `title` is what was compared, `notes` are sentences on how it is counted.
    pub fn new(title: &str, notes: &[String]) -> Self {
        Self {
            title: title.to_owned(),
            notes: notes.to_vec(),
            notice: None,
            input: None,
            unread: Vec::new(),
            facts: None,
            ids: Vec::new(),
            numbers: HashMap::new(),
            pairs: Vec::new(),
            documents: Vec::new(),
            unlisted: [0; BINS],
            unlisted_documents: 0,
        }
    }

    /// Puts a notice at the top, such as that some pairs are not shown.
    pub fn say(&mut self, notice: &str) {
        self.notice = Some(notice.to_owned());
    }

    /// Shows what was read and left out, below the pairs.
    pub fn show_input(&mut self, account: &Account) {
        self.input = Some(account.clone());
    }

    /// Lists files that should have been checked and were not read.
    pub fn show_unread(&mut self, files: &[LeftOutFile]) {
        self.unread = files.to_vec();
    }

    /// Shows how the report was made.
    pub fn show_facts(&mut self, facts: &ReportFacts) {
        self.facts = Some(facts.clone());
    }

    /// Adds a pair that was aligned, and has a page of this number.
    pub fn add(&mut self, row: &Row, page: usize) {
        let documents = [self.number(&row.a), self.number(&row.b)];
        self.pairs.push(Pair {
            documents,
            shares: [row.a_in_b, row.b_in_a],
            counts: Some([row.passages, row.longest, row.tokens]),
            page: Some(page),
        });
    }

    /// Adds a pair whose texts were not aligned, with shares by common windows.
    pub fn add_estimate(&mut self, ids: [&str; 2], shares: [f64; 2]) {
        let documents = ids.map(|id| self.number(id));
        self.pairs.push(Pair {
            documents,
            shares,
            counts: None,
            page: None,
        });
    }

    /// Counts pairs of a similarity that are not listed.
    pub fn add_unlisted(&mut self, bin: usize, pairs: u64) {
        if let Some(sum) = self.unlisted.get_mut(bin) {
            *sum += pairs;
        }
    }

    /// Adds a document that was checked. Without any, the documents of the pairs are listed.
    pub fn add_document(&mut self, document: DocumentRow) {
        self.documents.push(document);
    }

    /// Counts documents that were checked and are not listed.
    pub fn add_unlisted_documents(&mut self, documents: u64) {
        self.unlisted_documents += documents;
    }

    fn number(&mut self, id: &str) -> u32 {
        if let Some(&number) = self.numbers.get(id) {
            return number;
        }
        let number = self.ids.len().to_u32();
        self.ids.push(id.to_owned());
        self.numbers.insert(id.to_owned(), number);
        number
    }

    /// Writes the page.
    pub fn write(mut self, out: &mut impl Write) -> Result<()> {
        if self.documents.is_empty() {
            self.documents = self.documents_of_pairs();
        }
        let data = self.data();
        let mut page = Vec::new();
        FRAME.put_head(&mut page, &format!("{}: shared passages", self.title));
        put(&mut page, "<body class=\"overview\">\n");
        self.put_top(&mut page);
        let left_out =
            (!self.notes.is_empty()).then_some("Some text does not count; Help says what.");
        let notices: Vec<&str> = self.notice.as_deref().into_iter().chain(left_out).collect();
        put(&mut page, "<main>\n");
        if !notices.is_empty() {
            put_element(
                &mut page,
                "<p class=\"notice\" id=\"notice\">",
                &notices.join(" "),
                "</p>\n",
            );
        }
        put(&mut page, include_str!("overview-documents.html"));
        put(
            &mut page,
            "<section class=\"figures\" aria-label=\"Figures\">\n",
        );
        let (bins, nothing) = self.bins();
        put_histogram(&mut page, &bins, nothing);
        let edges: Vec<Edge> = self.edges().collect();
        put_graph(&mut page, &self.ids, &edges);
        put(&mut page, "</section>\n");
        put(&mut page, include_str!("overview-pairs.html"));
        if let Some(facts) = &self.facts {
            put_facts(&mut page, facts);
        }
        if let Some(account) = &self.input {
            put_input(&mut page, account);
        }
        put(
            &mut page,
            "</main>\n<dialog id=\"help\" aria-label=\"Help\">\n",
        );
        put(&mut page, include_str!("keys-overview.html"));
        put(&mut page, include_str!("counted.html"));
        put(&mut page, include_str!("counted-overview.html"));
        self.notes
            .iter()
            .for_each(|note| put_element(&mut page, "<p>", note, "</p>\n"));
        put(
            &mut page,
            "</section>\n<form method=\"dialog\"><button>Close</button></form>\n</dialog>\n",
        );
        page.extend(data);
        FRAME.put_foot(&mut page);
        out.write_all(&page).map_err(Error::output)
    }

    /// The documents of the pairs: all that is known of the documents of a list of pairs.
    fn documents_of_pairs(&self) -> Vec<DocumentRow> {
        let of_id = |id: &String| DocumentRow {
            id: id.clone(),
            ..DocumentRow::default()
        };
        let mut documents: Vec<DocumentRow> = self.ids.iter().map(of_id).collect();
        for pair in self.pairs.iter().filter(|pair| pair.shares_text()) {
            for (side, share) in pair.shares.into_iter().enumerate() {
                let other = &self.ids[pair.documents[1 - side].to_usize()];
                let document = &mut documents[pair.documents[side].to_usize()];
                document.sources += 1;
                document.share = document.share.max(share);
                document.best.push((other.clone(), share));
            }
        }
        for document in &mut documents {
            document
                .best
                .sort_by(|one, two| two.1.total_cmp(&one.1).then_with(|| one.0.cmp(&two.0)));
            document.best.truncate(BEST_SOURCES);
        }
        documents
    }

    fn put_top(&self, out: &mut Vec<u8>) {
        let checked = self.documents.iter().map(|of| 1 + of.copies.len());
        let checked = checked.sum::<usize>().to_u64() + self.unlisted_documents;
        let sharing = self.documents.iter().filter(|of| of.share >= LINK_SHARE);
        let sharing: usize = sharing.map(|of| 1 + of.copies.len()).sum();
        let largest = self.documents.iter().map(|of| of.share).fold(0.0, f64::max);
        put_element(
            out,
            "<header class=\"top\">\n<div class=\"title\"><h1><span>Shared passages in</span> <bdi>",
            &self.title,
            "</bdi></h1></div>\n",
        );
        put(out, "<dl class=\"numbers\">");
        let documents = if checked == 1 {
            "document checked"
        } else {
            "documents checked"
        };
        let mut tiles = vec![
            (count(checked), documents),
            (
                count(sharing.to_u64()),
                "have a tenth or more in common with another",
            ),
            (percent(largest), "the largest share"),
        ];
        let noted = self.documents.iter().filter(|of| !of.flags.is_empty());
        let noted = noted.count().to_u64();
        if noted > 0 {
            tiles.push((count(noted), "with a note"));
        }
        if !self.unread.is_empty() {
            tiles.push((count(self.unread.len().to_u64()), "could not be read"));
        }
        for (number, what) in tiles {
            put_element(out, "<div><dt>", what, "</dt>");
            put_element(out, "<dd>", &number, "</dd></div>");
        }
        put(out, "</dl>\n");
        put(out, include_str!("tools.html"));
        put(out, "</header>\n");
    }

    /// How many pairs there are of each similarity, and how many share nothing.
    fn bins(&self) -> ([u64; BINS], u64) {
        let mut bins = self.unlisted;
        let with_text = self.pairs.iter().filter(|pair| pair.shares_text());
        with_text.for_each(|pair| bins[bin_of(pair.share())] += 1);
        let nothing = self.pairs.iter().filter(|pair| !pair.shares_text());
        (bins, nothing.count().to_u64())
    }

    fn edges(&self) -> impl Iterator<Item = Edge> {
        let is_edge =
            |pair: &&Pair| pair.share() >= LINK_SHARE && pair.documents[0] != pair.documents[1];
        self.pairs.iter().filter(is_edge).map(|pair| Edge {
            ends: pair.documents,
            share: pair.share(),
            page: pair.page,
        })
    }

    /// The data for the script. Gives numbers to ids that no pair has.
    fn data(&mut self) -> Vec<u8> {
        let mut documents = Vec::new();
        for (at, document) in std::mem::take(&mut self.documents).into_iter().enumerate() {
            put(&mut documents, if at > 0 { ",\n" } else { "" });
            self.put_document(&document, &mut documents);
            self.documents.push(document);
        }
        let mut out = Vec::new();
        put(
            &mut out,
            "<script type=\"application/json\" id=\"data\">{\"ids\":[",
        );
        put_list(&mut out, ",\n", &self.ids, |out, id| put_json(out, id));
        put(&mut out, "],\n\"documents\":[");
        out.extend(documents);
        put(&mut out, "],\n\"pairs\":[");
        put_list(&mut out, ",\n", &self.pairs, put_pair);
        put(&mut out, "],\n\"unread\":[");
        put_list(&mut out, ",\n", &self.unread, |out, left| {
            out.push(b'[');
            put_json(out, &left.file);
            out.push(b',');
            put_json(out, &left.message);
            out.push(b']');
        });
        put(
            &mut out,
            &format!("],\n\"unlisted\":{}", self.unlisted_documents),
        );
        put(&mut out, "}</script>\n");
        out
    }

    fn put_document(&mut self, document: &DocumentRow, out: &mut Vec<u8>) {
        let id = self.number(&document.id);
        put(out, &format!("[{id},{},", document.words));
        put_number(out, document.share);
        let is_exact = u8::from(document.is_exact);
        put(out, &format!(",{is_exact},{},[", document.sources));
        for (at, (source, share)) in document.best.iter().take(BEST_SOURCES).enumerate() {
            let source = self.number(source);
            put(out, &format!("{}[{source},", if at > 0 { "," } else { "" }));
            put_number(out, *share);
            out.push(b']');
        }
        put(out, "],[");
        put_list(out, ",", &document.flags, |out, flag| put_json(out, flag));
        put(out, &format!("],{},[", document.page.unwrap_or(0)));
        let copies: Vec<u32> = document.copies.iter().map(|id| self.number(id)).collect();
        put_list(out, ",", &copies, |out, copy| put(out, &copy.to_string()));
        put(out, "]]");
    }
}

/// `[a,b,share of a,share of b,passages,longest,words,page]`; passages are -1 if the texts were not aligned, the page 0 if there is none.
fn put_pair(out: &mut Vec<u8>, pair: &Pair) {
    let [a, b] = pair.documents;
    put(out, &format!("[{a},{b}"));
    for share in pair.shares {
        put(out, ",");
        put_number(out, share);
    }
    match pair.counts {
        Some([passages, longest, tokens]) => put(out, &format!(",{passages},{longest},{tokens}")),
        None => put(out, ",-1,0,0"),
    }
    put(out, &format!(",{}]", pair.page.unwrap_or(0)));
}

fn put_list<T>(out: &mut Vec<u8>, comma: &str, items: &[T], put_item: impl Fn(&mut Vec<u8>, &T)) {
    for (at, item) in items.iter().enumerate() {
        put(out, if at > 0 { comma } else { "" });
        put_item(out, item);
    }
}

/// Sources in the row of a document.
const BEST_SOURCES: usize = 3;
/// The least share that connects two documents in the graph; less may be a quotation.
pub const LINK_SHARE: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(a: &str, b: &str, share: f64) -> Row {
        Row {
            a: a.to_owned(),
            b: b.to_owned(),
            a_in_b: share,
            b_in_a: share / 2.0,
            passages: u32::from(share > 0.0),
            longest: 20,
            tokens: 30,
        }
    }

    #[test]
    fn rows_and_bins() {
        let mut overview = Overview::new("<my> pairs", &["Nothing was <left out>.".to_owned()]);
        overview.say("Not <all>.");
        for (page, (a, b, share)) in (1..).zip([("a", "b", 1.0), ("b", "c", 0.07), ("c", "d", 0.0)])
        {
            overview.add(&row(a, b, share), page);
        }
        overview.add_estimate(["a", "c"], [0.2, 0.1]);
        overview.add_unlisted(3, 40);
        let mut page = Vec::new();
        overview.write(&mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("<title>&lt;my&gt; pairs: shared passages</title>"));
        let data = page.split("id=\"data\">").nth(1).unwrap();
        let data: serde_json::Value =
            serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
        assert_eq!(
            data,
            serde_json::json!({
                "ids": ["a", "b", "c", "d"],
                "documents": [
                    [0, 0, 1, 0, 2, [[1, 1], [2, 0.2]], [], 0, []],
                    [1, 0, 0.5, 0, 2, [[0, 0.5], [2, 0.07]], [], 0, []],
                    [2, 0, 0.1, 0, 2, [[0, 0.1], [1, 0.035]], [], 0, []],
                    [3, 0, 0, 0, 0, [], [], 0, []],
                ],
                "pairs": [
                    [0, 1, 1, 0.5, 1, 20, 30, 1],
                    [1, 2, 0.07, 0.035, 1, 20, 30, 2],
                    [2, 3, 0, 0, 0, 20, 30, 3],
                    [0, 2, 0.2, 0.1, -1, 0, 0, 0],
                ],
                "unread": [],
                "unlisted": 0,
            })
        );
        for title in [
            "5 to 10%: 1",
            "95 to 100%: 1",
            "0 to 5%: 0",
            "15 to 20%: 40",
        ] {
            assert!(page.contains(&format!("<title>{title}</title>")), "{title}");
        }
        assert!(page.contains("<p>Nothing was &lt;left out&gt;.</p>"));
        assert!(page.contains("<p class=\"notice\" id=\"notice\">Not &lt;all&gt;. Some text does not count; Help says what.</p>"));
        assert!(page.contains("Without the one pair that shares nothing."));
    }

    #[test]
    fn what_was_checked_is_listed() {
        let mut overview = Overview::new("essays", &[]);
        overview.add_document(DocumentRow {
            id: "a".to_owned(),
            copies: vec!["b".to_owned()],
            words: 12,
            share: 0.25,
            is_exact: true,
            sources: 7,
            best: vec![("c".to_owned(), 0.25)],
            flags: vec!["<short>".to_owned()],
            page: Some(9),
        });
        overview.add_unlisted_documents(5);
        overview.show_facts(&ReportFacts {
            program: "dedup-extract 1.0".to_owned(),
            ..ReportFacts::default()
        });
        let mut page = Vec::new();
        overview.write(&mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        let row = "[0,12,0.25,1,7,[[1,0.25]],[\"\\u003cshort\\u003e\"],9,[2]]";
        assert!(
            page.contains(row) && page.contains("\"unlisted\":5"),
            "{page}"
        );
        assert!(page.contains("<dt>documents checked</dt><dd>7</dd>"));
        assert!(page.contains("<dd><bdi>dedup-extract 1.0</bdi></dd>"));
    }

    #[test]
    fn a_hostile_id_is_text() {
        let mut overview = Overview::new("pairs", &[]);
        let (a, b) = (
            "</script><script>alert(1)</script>",
            "\"><img src=x onerror=alert(2)>",
        );
        overview.add(&row(a, b, 1.0), 1);
        let mut page = Vec::new();
        overview.write(&mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(!page.contains("<script>alert") && !page.contains("<img"));
        assert_eq!(
            page.matches("</script>").count(),
            2,
            "the data and our own script"
        );
    }
}
