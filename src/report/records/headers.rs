//! The header lines of extracted records.

use serde::Serialize;
use std::path::PathBuf;

/// The header line of extracted records, if some text does not count.
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
