//! What was found for a document, in an index or in a history.

use super::passages::PairPassages;
use serde::Serialize;
use std::ops::Not;
use utoipa::ToSchema;

/// A document of an index that shares text with a query.
#[derive(Debug, Default, Serialize, ToSchema)]
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
#[derive(Debug, Default, Serialize, ToSchema)]
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
    /// See [`PairRecord::estimate`](super::PairRecord::estimate).
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

/// The answer of a history to a document.
#[derive(Debug, Serialize, ToSchema)]
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
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct HistoryMatch<'r> {
    /// The id of the entry.
    pub doc: &'r str,
    /// The estimated similarity.
    pub similarity: f64,
}
