//! What became of the documents of a collection that was cleaned.

use serde::Serialize;
use std::ops::Not;

/// A document that was left out of a cleaned collection.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct DroppedDocument<'r> {
    /// The id of the document.
    pub id: &'r str,
    /// Why it was dropped.
    pub reason: DropReason,
    /// A document that stayed.
    pub duplicate_of: &'r str,
    /// How much of it is in the one that stayed.
    pub share: f64,
    /// Blots that both have.
    pub shared: u64,
    /// The file that it was in.
    pub file: &'r str,
    /// The line, row or number of its record; 0 if the file is one document.
    pub record: u64,
    /// The file of the document that stayed; none if that is in an index.
    pub duplicate_of_file: Option<&'r str>,
    /// See [`PairRecord::estimate`](super::PairRecord::estimate).
    #[serde(skip_serializing_if = "Not::not")]
    pub estimate: bool,
}

/// Why a document was dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DropReason {
    /// It has the same tokens.
    #[default]
    Exact,
    /// Enough of it is in the other one.
    Near,
    /// The other one is of the collection that this one was compared with.
    Against,
    /// Too little was left when passages that others have were cut out.
    Short,
}

/// A passage that was cut out of a document.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct CutRecord<'r> {
    /// The id of the document.
    pub id: &'r str,
    /// Where the passage starts in the text, in bytes.
    pub start: u32,
    /// Where it ends.
    pub end: u32,
    /// How many tokens it has.
    pub tokens: u32,
    /// A document that has the passage, and keeps it.
    pub duplicate_of: &'r str,
    /// The file that it was in.
    pub file: &'r str,
    /// The line, row or number of its record; 0 if the file is one document.
    pub record: u64,
    /// The file of the document that keeps the passage; none if that is in an index.
    pub duplicate_of_file: Option<&'r str>,
}

/// The field `dedup` of a record that stays in any case.
#[derive(Debug, Clone, Default, Serialize)]
pub struct KeepNote<'r> {
    /// Whether cleaning would keep it.
    pub keep: bool,
    /// Why it would go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<DropReason>,
    /// The document that stays instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<&'r str>,
    /// How much of it is in that one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Passages that would be cut out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<CutPassage>,
}

/// A passage that would be cut out of a record.
#[derive(Debug, Clone, Serialize)]
pub struct CutPassage {
    /// Where the passage starts in the text, in bytes.
    pub start: u32,
    /// Where it ends.
    pub end: u32,
    /// How many tokens it has.
    pub tokens: u32,
    /// A document that has the passage, and keeps it.
    pub duplicate_of: String,
}
