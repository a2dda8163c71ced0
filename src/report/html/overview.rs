//! The overview of many pairs: a table, a histogram of similarities, and a graph of connected documents.

use super::{
    directory::page_name,
    escape::put_json,
    frame::{Frame, put, put_element},
    graph::{Edge, put_graph},
    input::put_input,
    number::{count, percent},
};
use crate::base::num::{ToF64, ToU32, ToU64};
use crate::{
    base::error::{Error, Result},
    report::put_number,
    text::corpus::Account,
};
use std::{collections::HashMap, io::Write, sync::LazyLock};

static FRAME: LazyLock<Frame> =
    LazyLock::new(|| Frame::new(include_str!("overview.css"), include_str!("overview.js")));

/// A row of the overview: a pair.
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

/// Builds the overview.
///
/// Memory: each id once, and some fifty bytes a pair.
pub struct Overview {
    title: String,
    notes: Vec<String>,
    notice: Option<String>,
    input: Option<Account>,
    ids: Vec<String>,
    numbers: HashMap<String, u32>,
    pairs: Vec<Pair>,
}

struct Pair {
    documents: [u32; 2],
    shares: [f64; 2],
    counts: [u32; 3],
}

impl Pair {
    /// How similar two documents are: the larger of the two shares.
    fn share(&self) -> f64 {
        self.shares[0].max(self.shares[1])
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
            ids: Vec::new(),
            numbers: HashMap::new(),
            pairs: Vec::new(),
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

    /// Adds a pair and returns its number, from 1; its page is `pair-000001.html` and so on.
    pub fn add(&mut self, row: &Row) -> usize {
        let documents = [self.number(&row.a), self.number(&row.b)];
        self.pairs.push(Pair {
            documents,
            shares: [row.a_in_b, row.b_in_a],
            counts: [row.passages, row.longest, row.tokens],
        });
        self.pairs.len()
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
    pub fn write(&self, out: &mut impl Write) -> Result<()> {
        let mut page = Vec::new();
        FRAME.put_head(&mut page, &format!("{}: shared passages", self.title));
        put(&mut page, "<body class=\"overview\">\n");
        self.put_top(&mut page);
        let left_out =
            (!self.notes.is_empty()).then_some("Some text does not count; Help says what.");
        let notices: Vec<&str> = self.notice.as_deref().into_iter().chain(left_out).collect();
        if !notices.is_empty() {
            put_element(
                &mut page,
                "<p class=\"notice\" id=\"notice\">",
                &notices.join(" "),
                "</p>\n",
            );
        }
        put(&mut page, "<main>\n<section class=\"figures\">\n");
        self.put_histogram(&mut page);
        let edges: Vec<Edge> = self.edges().collect();
        put_graph(&mut page, &self.ids, &edges);
        put(&mut page, "</section>\n");
        put(&mut page, include_str!("overview.html"));
        if let Some(account) = &self.input {
            put_input(&mut page, account);
        }
        put(&mut page, "</main>\n<dialog id=\"help\">\n");
        put(&mut page, include_str!("counted.html"));
        put(&mut page, include_str!("counted-overview.html"));
        self.notes
            .iter()
            .for_each(|note| put_element(&mut page, "<p>", note, "</p>\n"));
        put(
            &mut page,
            "</section>\n<form method=\"dialog\"><button>Close</button></form>\n</dialog>\n",
        );
        self.put_data(&mut page);
        FRAME.put_foot(&mut page);
        out.write_all(&page).map_err(Error::output)
    }

    fn put_top(&self, out: &mut Vec<u8>) {
        let with_passages = self.pairs.iter().filter(|pair| pair.counts[0] > 0).count();
        let largest = self.pairs.iter().map(Pair::share).fold(0.0, f64::max);
        put_element(
            out,
            "<header class=\"top\">\n<div class=\"title\"><h1><span>Shared passages in</span> <bdi>",
            &self.title,
            "</bdi></h1></div>\n",
        );
        put(out, "<dl class=\"numbers\">");
        for (number, what) in [
            (count(self.ids.len().to_u64()), "documents"),
            (count(self.pairs.len().to_u64()), "pairs compared"),
            (count(with_passages as u64), "share text"),
            (percent(largest), "the largest share"),
        ] {
            put_element(out, "<div><dt>", what, "</dt>");
            put_element(out, "<dd>", &number, "</dd></div>");
        }
        put(out, "</dl>\n");
        put(out, include_str!("tools.html"));
        put(out, "</header>\n");
    }

    /// How many pairs there are of each similarity, in steps of five percent. Pairs without passages would dwarf the others, so they are mentioned in words.
    fn put_histogram(&self, out: &mut Vec<u8>) {
        let mut bins = [0_u64; BINS];
        for pair in self.pairs.iter().filter(|pair| pair.counts[0] > 0) {
            bins[((pair.share() * BINS.to_f64()) as usize).min(BINS - 1)] += 1;
        }
        let nothing = self
            .pairs
            .iter()
            .filter(|pair| pair.counts[0] == 0)
            .count()
            .to_u64();
        let most = bins.iter().copied().max().unwrap_or(0).max(1);
        put(
            out,
            "<figure class=\"histogram\">\n<figcaption><h2>How alike the pairs are</h2><p>",
        );
        put(
            out,
            match nothing {
                0 => "Every pair shares text.".to_owned(),
                1 => "Without the one pair that shares nothing.".to_owned(),
                _ => format!("Without the {} pairs that share nothing.", count(nothing)),
            }
            .as_str(),
        );
        put(
            out,
            " Choose a bar to see its pairs.</p></figcaption>\n<svg viewBox=\"0 0 430 215\" role=\"img\" aria-label=\"Histogram of similarities\">\n",
        );
        for (bin, &pairs) in bins.iter().enumerate() {
            let (x, height) = (
                10 + 20 * bin,
                if pairs == 0 {
                    0.0
                } else {
                    (150.0 * pairs.to_f64() / most.to_f64()).max(2.0)
                },
            );
            let top = 185.0 - height;
            let title = format!("{} to {}%: {}", 5 * bin, 5 * bin + 5, count(pairs));
            put(
                out,
                &format!(
                    "<g class=\"bin\" data-bin=\"{bin}\"><title>{title}</title><rect class=\"hit\" x=\"{x}\" y=\"15\" width=\"20\" height=\"170\"/>"
                ),
            );
            put(
                out,
                &format!(
                    "<rect class=\"bar\" x=\"{}\" y=\"{top:.1}\" width=\"18\" height=\"{height:.1}\"/>",
                    x + 1
                ),
            );
            if pairs > 0 {
                put(
                    out,
                    &format!(
                        "<text x=\"{}\" y=\"{:.1}\">{}</text>",
                        x + 10,
                        top - 5.0,
                        short_count(pairs)
                    ),
                );
            }
            put(out, "</g>\n");
        }
        put(out, "<path class=\"axis\" d=\"M10 185.5H410\"/>");
        for (x, label) in [
            (10, "0"),
            (110, "25%"),
            (210, "50%"),
            (310, "75%"),
            (410, "100%"),
        ] {
            put(
                out,
                &format!("<text class=\"tick\" x=\"{x}\" y=\"204\">{label}</text>"),
            );
        }
        put(out, "\n</svg>\n</figure>\n");
    }

    fn edges(&self) -> impl Iterator<Item = Edge> {
        let is_edge =
            |pair: &Pair| pair.share() >= LINK_SHARE && pair.documents[0] != pair.documents[1];
        let edge = |(at, pair): (usize, &Pair)| Edge {
            ends: pair.documents,
            share: pair.share(),
            page: at + 1,
        };
        self.pairs
            .iter()
            .enumerate()
            .filter(move |(_, pair)| is_edge(pair))
            .map(edge)
    }

    fn put_data(&self, out: &mut Vec<u8>) {
        put(
            out,
            "<script type=\"application/json\" id=\"pairs\">{\"ids\":[",
        );
        for (at, id) in self.ids.iter().enumerate() {
            put(out, if at > 0 { ",\n" } else { "" });
            put_json(out, id);
        }
        put(out, "],\"pairs\":[");
        for (at, pair) in self.pairs.iter().enumerate() {
            let [a, b] = pair.documents;
            put(out, &format!("{}[{a},{b}", if at > 0 { ",\n" } else { "" }));
            for share in pair.shares {
                put(out, ",");
                put_number(out, share);
            }
            let [passages, longest, tokens] = pair.counts;
            put(
                out,
                &format!(",{passages},{longest},{tokens},\"{}\"]", page_name(at + 1)),
            );
        }
        put(out, "]}</script>\n");
    }
}

/// A count that fits above a bar: 999, 1k, 23k.
fn short_count(number: u64) -> String {
    if number < 1000 {
        number.to_string()
    } else {
        format!("{}k", count((number + 500) / 1000))
    }
}

const BINS: usize = 20;
/// The least share that connects two documents in the graph; less may be a quotation.
const LINK_SHARE: f64 = 0.1;

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
        let numbers = [("a", "b", 1.0), ("b", "c", 0.07), ("c", "d", 0.0)]
            .map(|(a, b, share)| overview.add(&row(a, b, share)));
        assert_eq!(numbers, [1, 2, 3]);
        let mut page = Vec::new();
        overview.write(&mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("<title>&lt;my&gt; pairs: shared passages</title>"));
        assert!(
            page.contains(
                "{\"ids\":[\"a\",\n\"b\",\n\"c\",\n\"d\"],\"pairs\":[[0,1,1,0.5,1,20,30,\"pair-000001.html\"],\n[1,2,0.07,0.035,"
            )
        );
        for title in ["5 to 10%: 1", "95 to 100%: 1", "0 to 5%: 0"] {
            assert!(page.contains(&format!("<title>{title}</title>")), "{title}");
        }
        assert!(page.contains("<p>Nothing was &lt;left out&gt;.</p>"));
        assert!(page.contains("<p class=\"notice\" id=\"notice\">Not &lt;all&gt;. Some text does not count; Help says what.</p>"));
        assert!(page.contains("Without the one pair that shares nothing."));
    }

    #[test]
    fn a_hostile_id_is_text() {
        let mut overview = Overview::new("pairs", &[]);
        overview.add(&row(
            "</script><script>alert(1)</script>",
            "\"><img src=x onerror=alert(2)>",
            1.0,
        ));
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
