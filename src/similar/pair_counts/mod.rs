//! The number of blots that pairs of contents share, counted range by range and added up: the work
//! of one machine, in pieces that many machines can do.
//!
//! A file lists, in ascending order, each content that shares blots with a later one: the number of
//! contents skipped before it, the number of its partners minus one, and for each partner the number
//! of contents skipped before it and the number of shared blots of the range minus one. All numbers
//! are varints.
//!
//! Pairs within a set of more than [`LONG_SET_MEMBERS`] contents are not counted, as their number
//! grows with the square of its size. The file holds such a set itself: the number of blots of the
//! range that lead to it, the number of its contents, and for each the number of contents skipped
//! before it.
//!
//! [`LONG_SET_MEMBERS`]: super::long_sets::LONG_SET_MEMBERS

mod count_file;
mod sums;
mod write;

pub(super) use sums::blots_in_sets;
pub use sums::{PairCounts, RecomputedPairs};
pub use write::{PairCountOptions, write_pair_counts};

use crate::index::posting::BucketRange;
use serde::{Deserialize, Serialize};

const KIND: &str = "counts 2";

/// What a file of counts says about itself.
#[derive(Debug, Serialize, Deserialize)]
struct CountDescription {
    kind: String,
    /// The checksum of the manifest of the index.
    index: String,
    /// Only pairs of contents that were recomputed since this commit are counted; they come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
    buckets: BucketRange,
    contents: u64,
    max_df: u64,
    /// The section of pairs: start and length.
    pairs: [u64; 2],
    /// The section of long sets.
    #[serde(default)]
    long_sets: [u64; 2],
    /// The section with two numbers of 4 bytes per content: its blots that other contents have as
    /// well, and how many of these are ignored. Empty if all blots count.
    sides: [u64; 2],
}
