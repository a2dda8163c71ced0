//! Pairs of documents, and tables of them.

use super::passages::{CountedWords, PassageRecord};
use serde::{Serialize, Serializer};
use std::ops::Not;

/// A text that is written many times: as the format of the output has it, so that it is escaped only once.
#[derive(Debug, Clone, Copy, Default)]
pub struct EncodedText<'r>(pub &'r [u8]);

impl Serialize for EncodedText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The formatters of the sinks write bytes as they are.
        serializer.serialize_bytes(self.0)
    }
}

/// Two documents that share text. `Id`: a text, or an [`EncodedText`].
#[derive(Debug, Default, Serialize)]
pub struct PairRecord<Id> {
    /// The id of one document.
    pub a: Id,
    /// The id of the other one.
    pub b: Id,
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
    /// The new row, or the old one if it is deleted.
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
    /// The probability that unrelated texts of these lengths and of this collection are as similar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
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
