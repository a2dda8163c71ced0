//! The results of all programs: one type per record. A new column is one field.
//!
//! Fields stand in the order in which they are written. A field of the type `Option` that is
//! `None` is `null` in JSON and an empty cell in tables, unless it says that it is left out.

use crate::{
    align::{Passage, PassageCoverage, exclusions::ExclusionReason},
    base::ids::DocNo,
};
use serde::{Serialize, Serializer};
use std::{ops::Not, path::PathBuf};

/// A blot in hexadecimal digits, as many as its width has.
pub fn hex_blot(blot: u64, bits: u8) -> String {
    let digits = usize::from(bits.div_ceil(4));
    format!("{blot:0digits$x}")
}

/// The first line of what is extracted, if some text does not count.
#[derive(Debug, Serialize)]
pub struct ExtractHeader<'r> {
    /// Files of base text, if there are any.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub base: &'r [PathBuf],
    /// Always `extract`.
    pub dedup: &'static str,
    /// Files whose text does not count.
    pub exclude: &'r [PathBuf],
    /// Indexes whose text does not count.
    pub exclude_index: &'r [PathBuf],
    /// Blots of more documents do not count.
    pub max_df: Option<u64>,
    /// The scheme of the index.
    pub scheme: &'r str,
    /// The version of this format.
    pub version: u32,
}

/// The first line of the passages of many documents, if they are restricted.
#[derive(Debug, Serialize)]
pub struct PassagesHeader<'r> {
    /// Always `extract`.
    pub dedup: &'static str,
    /// The least number of tokens of a passage.
    pub min_tokens: Option<u32>,
    /// The scheme of the index.
    pub scheme: &'r str,
    /// Files of text that no passage may contain.
    pub taboo: &'r [PathBuf],
    /// The version of this format.
    pub version: u32,
}

/// Two documents that share text.
#[derive(Debug, Default, Serialize)]
pub struct PairRecord<'r> {
    /// The id of one document.
    pub a: &'r str,
    /// The id of the other one.
    pub b: &'r str,
    /// Blots that both have.
    pub shared: u64,
    /// The share of the blots of `a` that `b` has.
    pub a_in_b: f64,
    /// The share of the blots of `b` that `a` has.
    pub b_in_a: f64,
    /// How similar they are, by the score that was chosen.
    pub score: f64,
    /// Numbers are estimates, because the index has a selection of the blots; left out if not.
    #[serde(skip_serializing_if = "Not::not")]
    pub estimate: bool,
    /// How the words of `a` were counted; left out if all of them count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a_words: Option<CountedWords>,
    /// The same of `b`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b_words: Option<CountedWords>,
    /// The passages that they share, if they were aligned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passages: Option<Vec<PassageRecord>>,
}

/// The passages of a query and a document, and how their words were counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PairPassages {
    /// How the words of `a` were counted; left out if all of them count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a_words: Option<CountedWords>,
    /// The same of `b`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b_words: Option<CountedWords>,
    /// In the order of `a`.
    pub passages: Vec<PassageRecord>,
}

/// Two documents that were aligned, and the passages that they share.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct AlignedPair {
    /// The id of one document.
    pub a: String,
    /// The id of the other one.
    pub b: String,
    /// The share of the words of `a` that are in passages.
    pub a_in_b: f64,
    /// The share of the words of `b` that are in passages.
    pub b_in_a: f64,
    /// How the words of `a` were counted; left out if all of them count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a_words: Option<CountedWords>,
    /// The same of `b`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b_words: Option<CountedWords>,
    /// In the order of `a`.
    pub passages: Vec<PassageRecord>,
}

/// A passage of two documents.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PassageRecord {
    /// Its start and end in `a`, in bytes or characters.
    pub a: [u32; 2],
    /// Its start and end in `b`.
    pub b: [u32; 2],
    /// Tokens that both have.
    pub tokens: u32,
    /// The share of its tokens that both have.
    pub score: f64,
    /// How it was taken over.
    pub kind: &'static str,
    /// `b` has the reverse complement; left out if not.
    #[serde(skip_serializing_if = "Not::not")]
    pub reverse: bool,
}

impl From<&Passage> for PassageRecord {
    fn from(passage: &Passage) -> Self {
        Self {
            a: [passage.a.start, passage.a.end],
            b: [passage.b.start, passage.b.end],
            tokens: passage.tokens,
            score: passage.score,
            kind: passage.kind.name(),
            reverse: passage.is_reversed,
        }
    }
}

/// A passage of an aligned pair as a row of a table.
#[derive(Debug, Default, Serialize)]
pub struct PassageRow<'r> {
    /// The id of one document.
    pub a: &'r str,
    /// The id of the other one.
    pub b: &'r str,
    /// Where the passage starts in `a`.
    pub a_start: u32,
    /// Where it ends in `a`.
    pub a_end: u32,
    /// Where it starts in `b`.
    pub b_start: u32,
    /// Where it ends in `b`.
    pub b_end: u32,
    /// Tokens that both have.
    pub tokens: u32,
    /// The share of its tokens that both have.
    pub score: f64,
    /// How it was taken over.
    pub kind: &'r str,
    /// `b` has the reverse complement.
    pub reverse: bool,
}

impl<'r> PassageRow<'r> {
    /// The rows of all passages of a pair.
    pub fn of_pair(
        a: &'r str,
        b: &'r str,
        passages: &'r [PassageRecord],
    ) -> impl Iterator<Item = Self> {
        passages.iter().map(move |passage| Self {
            a,
            b,
            a_start: passage.a[0],
            a_end: passage.a[1],
            b_start: passage.b[0],
            b_end: passage.b[1],
            tokens: passage.tokens,
            score: passage.score,
            kind: passage.kind,
            reverse: passage.reverse,
        })
    }
}

/// How the words of a document were counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountedWords {
    /// All of them.
    pub words: u32,
    /// Those that do not count, by reason.
    pub excluded: ExcludedWords,
    /// Those that count.
    pub counted: u32,
    /// Those that count and are in passages.
    pub matched: u32,
    /// Their share of those that count.
    pub share: f64,
}

/// Words that do not count, by reason, in the order of [`ExclusionReason::ALL`].
#[derive(Debug, Clone, PartialEq)]
pub struct ExcludedWords([u32; ExclusionReason::ALL.len()]);

impl Serialize for ExcludedWords {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            ExclusionReason::ALL
                .map(ExclusionReason::name)
                .iter()
                .zip(self.0),
        )
    }
}

impl From<&PassageCoverage> for CountedWords {
    fn from(tally: &PassageCoverage) -> Self {
        Self {
            words: tally.words,
            excluded: ExcludedWords(tally.excluded),
            counted: tally.counted(),
            matched: tally.matched,
            share: tally.share(),
        }
    }
}

/// A row of the table of the most similar documents.
#[derive(Debug, Default, Serialize)]
pub struct TableRow<'r> {
    /// The id of the document.
    pub a: &'r str,
    /// The place of this row among those of the document, from 1; left out unless it is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    /// The id of a similar document.
    pub b: &'r str,
    /// Blots that both have.
    pub shared: u64,
    /// The share of the blots of `a` that `b` has.
    pub a_in_b: f64,
    /// The share of the blots of `b` that `a` has.
    pub b_in_a: f64,
    /// See [`PairRecord::estimate`].
    #[serde(skip_serializing_if = "Not::not")]
    pub estimate: bool,
}

/// A row of the table that has to be changed, so that a copy of the table is up to date.
#[derive(Debug, Serialize)]
pub struct TableChange<'r> {
    /// What to do with the row.
    pub change: RowChange,
    /// The row as it is now, or as it was.
    #[serde(flatten)]
    pub row: TableRow<'r>,
}

/// What to do with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowChange {
    /// The table no longer has it.
    Delete,
    /// Its numbers have changed.
    Update,
    /// The table did not have it.
    Insert,
}

/// Documents that are connected by pairs.
#[derive(Debug, Serialize)]
pub struct ClusterRecord<'r> {
    /// Counts clusters, from 1.
    pub cluster: u64,
    /// The number of documents.
    pub size: usize,
    /// The document to keep.
    pub kept: &'r str,
    /// All documents.
    pub members: Vec<&'r str>,
    /// All documents but the one to keep.
    pub dropped: Vec<DroppedMember<'r>>,
    /// See [`PairRecord::estimate`].
    #[serde(skip_serializing_if = "Not::not")]
    pub estimate: bool,
}

/// A document of a cluster, and what it is a duplicate of.
#[derive(Debug, Serialize)]
pub struct DroppedMember<'r> {
    /// The id of the document.
    pub doc: &'r str,
    /// The most similar document that is kept or was dropped before.
    pub duplicate_of: &'r str,
    /// Blots that both have.
    pub shared: u64,
    /// How similar they are.
    pub score: f64,
}

/// A document of a cluster as a row of a table.
#[derive(Debug, Default, Serialize)]
pub struct ClusterRow<'r> {
    /// Counts clusters, from 1.
    pub cluster: u64,
    /// The id of the document.
    pub doc: &'r str,
    /// 1 for the document to keep, 0 for others.
    pub kept: u8,
    /// See [`DroppedMember`]; none for the document to keep, as the fields below.
    pub duplicate_of: Option<&'r str>,
    /// Blots that both have.
    pub shared: Option<u64>,
    /// How similar they are.
    pub score: Option<f64>,
    /// See [`PairRecord::estimate`].
    #[serde(skip_serializing_if = "Not::not")]
    pub estimate: bool,
}

/// Documents with the same tokens.
#[derive(Debug, Serialize)]
pub struct ExactGroup<'r> {
    /// Counts groups, from 1.
    pub group: u64,
    /// The number of documents.
    pub size: usize,
    /// The number of tokens of each.
    pub tokens: u32,
    /// All documents.
    pub docs: Vec<&'r str>,
}

/// A document of a group as a row of a table.
#[derive(Debug, Default, Serialize)]
pub struct ExactRow<'r> {
    /// Counts groups, from 1.
    pub group: u64,
    /// The id of the document.
    pub doc: &'r str,
}

/// A blot and all documents that have it.
#[derive(Debug, Default, Serialize)]
pub struct BlotRecord<'r> {
    /// In hexadecimal digits.
    pub blot: String,
    /// The number of documents.
    pub df: u64,
    /// All documents.
    pub docs: Vec<&'r str>,
}

/// The byte ranges of a document that an earlier document has.
#[derive(Debug, Default, Serialize)]
pub struct SpansRecord<'r> {
    /// The id of the document.
    pub doc: &'r str,
    /// Its size, if it is known.
    pub bytes: Option<u64>,
    /// Starts and ends in bytes.
    pub spans: Vec<[u32; 2]>,
    /// Bytes in all spans.
    pub seen: u64,
}

/// A passage that several documents share.
#[derive(Debug, Default, Serialize)]
pub struct PassageFamily<'r> {
    /// Counts passages, from 1.
    pub passage: u64,
    /// Its length.
    pub tokens: u32,
    /// How often it occurs.
    pub count: usize,
    /// The number of documents that have it.
    pub documents: u64,
    /// Tokens, of all its places, that no passage before it has.
    pub new: u64,
    /// How it begins, if its text is known.
    pub text: Option<&'r str>,
    /// Where it occurs.
    pub places: Vec<PassagePlace<'r>>,
}

/// A place of a passage that several documents share.
#[derive(Debug, Serialize)]
pub struct PassagePlace<'r> {
    /// The id of the document.
    pub doc: &'r str,
    /// Where it starts, in bytes.
    pub start: u32,
    /// Where it ends, in bytes.
    pub end: u32,
}

/// Two documents that are worth comparing.
#[derive(Debug, Default, Serialize)]
pub struct CandidatePair<'r> {
    /// The id of one document.
    pub a: &'r str,
    /// The id of the other one.
    pub b: &'r str,
    /// The methods that found the pair, separated by commas.
    pub by: &'r str,
}

/// Two documents that were compared and are similar.
#[derive(Debug, Default, Serialize)]
pub struct ComparedPair<'r> {
    /// The id of one document.
    pub a: &'r str,
    /// The id of the other one.
    pub b: &'r str,
    /// The score of the best area.
    pub similarity: u32,
    /// The areas that they share.
    pub areas: AreaList,
}

/// The areas of a pair: all of them in JSON, their number in tables.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum AreaList {
    /// The best first.
    All(Vec<AreaRecord>),
    /// Their number.
    Count(usize),
}

impl Default for AreaList {
    fn default() -> Self {
        Self::Count(0)
    }
}

/// An area that two compared documents share.
#[derive(Debug, Serialize)]
pub struct AreaRecord {
    /// Its start and end in `a`, in bytes.
    pub a: [u32; 2],
    /// Its start and end in `b`, in bytes.
    pub b: [u32; 2],
    /// Tokens that both have.
    pub tokens: u32,
    /// Its score.
    pub score: u32,
}

/// A document that was left out of a cleaned collection.
#[derive(Debug, Serialize)]
pub struct DroppedDocument<'r> {
    /// The id of the document.
    pub doc: &'r str,
    /// A document that stayed.
    pub duplicate_of: &'r str,
    /// Why it was dropped.
    pub reason: DropReason,
    /// Blots that both have.
    pub shared: u64,
    /// How much of it is in the one that stayed.
    pub share: f64,
    /// See [`PairRecord::estimate`].
    #[serde(skip_serializing_if = "Not::not")]
    pub estimate: bool,
}

/// Why a document was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DropReason {
    /// It has the same tokens.
    Exact,
    /// Enough of it is in the other one.
    Near,
}

/// A document of an index that shares text with a query.
#[derive(Debug, Default, Serialize)]
pub struct QueryMatch<'r> {
    /// The id of the document that was searched for.
    pub query: &'r str,
    /// The place of this match among those of the query, from 1.
    pub rank: u64,
    /// What was found.
    #[serde(flatten)]
    pub found: MatchRecord,
    /// The passages that they share, if they were aligned.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub aligned: Option<PairPassages>,
}

/// A document that was found, and how much it shares with the query.
#[derive(Debug, Default, Serialize)]
pub struct MatchRecord {
    /// The id of the document.
    pub doc: String,
    /// Blots that both have.
    pub shared: u64,
    /// The share of the blots of the query that the document has.
    pub a_in_b: f64,
    /// The share of the blots of the document that the query has.
    pub b_in_a: f64,
    /// How similar they are, by the score that was chosen.
    pub score: f64,
    /// See [`PairRecord::estimate`].
    #[serde(skip_serializing_if = "Not::not")]
    pub estimate: bool,
}

/// A query and everything that was found.
#[derive(Debug, Serialize)]
pub struct QueryAnswer<'r> {
    /// The id of the document that was searched for.
    pub doc: &'r str,
    /// The best first.
    pub matches: Vec<MatchRecord>,
}

/// A document that has a blot, and the text of the blot there.
#[derive(Debug, Serialize)]
pub struct BlotText<'r> {
    /// In hexadecimal digits.
    pub blot: &'r str,
    /// Where its text is, if the document could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<[usize; 2]>,
    /// The id of the document.
    pub doc: &'r str,
    /// The text, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A blot that two documents share.
#[derive(Debug, Serialize)]
pub struct SharedBlot {
    /// In hexadecimal digits.
    pub blot: String,
    /// Its text, if the index has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A document that has a blot.
#[derive(Debug, Serialize)]
pub struct BlotPosting<'r> {
    /// In hexadecimal digits.
    pub blot: &'r str,
    /// The id of the document.
    pub doc: &'r str,
}

/// A word of the dictionary of an index.
#[derive(Debug, Serialize)]
pub struct DictionaryWord<'r> {
    /// The word.
    pub word: &'r str,
    /// The number of documents that have it.
    pub df: usize,
    /// These documents.
    pub docs: &'r [String],
    /// How often each of them has it.
    pub times: &'r [u32],
}

/// A chunk that several documents share.
#[derive(Debug, Serialize)]
pub struct ChunkRecord<'r> {
    /// Its hash, in hexadecimal digits.
    pub blot: String,
    /// Its text.
    pub text: &'r str,
    /// The documents that have it.
    pub documents: Vec<ChunkDocument<'r>>,
}

/// A document that has a chunk.
#[derive(Debug, Serialize)]
pub struct ChunkDocument<'r> {
    /// The id of the document.
    pub doc: &'r str,
    /// How often it has the chunk.
    pub count: usize,
}

/// The answer of a history to a document.
#[derive(Debug, Serialize)]
pub struct HistoryAnswer<'r> {
    /// The id of the document.
    pub doc: &'r str,
    /// The most similar entry.
    pub best: Option<HistoryMatch<'r>>,
    /// All similar entries, the best first, if more than one is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<Vec<HistoryMatch<'r>>>,
    /// False if the document was not added to the history; else left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added: Option<bool>,
    /// Servers that did not answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<&'r str>,
}

/// An entry of a history that is similar to a document.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct HistoryMatch<'r> {
    /// The id of the entry.
    pub doc: &'r str,
    /// The estimated similarity.
    pub similarity: f64,
}

/// A part of a graph of documents.
#[derive(Debug)]
pub enum GraphElement<'r> {
    /// A document that has edges.
    Node(GraphNode<'r>),
    /// Two documents that share text.
    Edge(GraphEdge),
}

/// A document of a graph.
#[derive(Debug)]
pub struct GraphNode<'r> {
    /// Edges name it by its number.
    pub number: DocNo,
    /// The id of the document.
    pub id: &'r str,
    /// The number of its tokens.
    pub tokens: u32,
}

/// A pair of a graph.
#[derive(Debug, Default)]
pub struct GraphEdge {
    /// The documents.
    pub ends: [DocNo; 2],
    /// Blots that both have.
    pub shared: f64,
    /// The share of the blots of one that the other has.
    pub a_in_b: f64,
    /// The reverse.
    pub b_in_a: f64,
    /// How similar they are.
    pub score: f64,
}

impl GraphEdge {
    /// The numbers of the edge, with their names.
    pub fn attributes(&self) -> [(&'static str, f64); 4] {
        [
            ("shared", self.shared),
            ("a_in_b", self.a_in_b),
            ("b_in_a", self.b_in_a),
            ("score", self.score),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::put_json;

    fn json(record: &impl Serialize) -> String {
        let mut out = Vec::new();
        put_json(record, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn passages_say_if_they_are_reversed() {
        let mut passage = PassageRecord {
            a: [1, 4],
            b: [0, 9],
            tokens: 2,
            score: 2.0 / 3.0,
            kind: "edited",
            reverse: false,
        };
        let expected =
            "{\"a\":[1,4],\"b\":[0,9],\"tokens\":2,\"score\":0.666667,\"kind\":\"edited\"}";
        assert_eq!(json(&passage), expected);
        passage.reverse = true;
        assert_eq!(json(&passage), expected.replace('}', ",\"reverse\":true}"));
    }

    #[test]
    fn words_are_counted_by_reason() {
        let tally = PassageCoverage {
            words: 120,
            excluded: [10, 0, 20],
            matched: 30,
        };
        assert_eq!(
            json(&CountedWords::from(&tally)),
            "{\"words\":120,\"excluded\":{\"base\":10,\"bibliography\":0,\"quotes\":20},\"counted\":90,\"matched\":30,\"share\":0.333333}"
        );
    }

    #[test]
    fn a_pair_names_its_fields_in_order() {
        assert_eq!(
            json(&PairRecord {
                a: "x",
                b: "y",
                estimate: true,
                passages: Some(Vec::new()),
                ..PairRecord::default()
            }),
            "{\"a\":\"x\",\"b\":\"y\",\"shared\":0,\"a_in_b\":0,\"b_in_a\":0,\"score\":0,\"estimate\":true,\"passages\":[]}"
        );
    }
}
