//! Documents that belong together, and documents that were dropped.

use serde::Serialize;
use std::ops::Not;

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
    /// See [`PairRecord::estimate`](super::PairRecord::estimate).
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
    /// See [`PairRecord::estimate`](super::PairRecord::estimate).
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
