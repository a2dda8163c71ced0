//! Which documents are alike, and how much: exact at any threshold, from sets of documents with multiplicities.
//!
//! ```text
//! sets ──► lists ──────────────► neighbours of each content ──► pairs, table, graph
//!          rarest set first,     [Join]                    └──► clusters
//!          smallest content first
//! ```
//!
//! [`IndexSearch`] asks the same of one document that need not be in the index.
//!
//! Everything here is about contents, which are distinct texts; whoever writes results names all documents of each.

mod affected;
mod clusters;
/// Where two documents are alike, by local alignment of their tokens.
pub mod compare;
mod discovery;
mod duplicate_filter;
mod gdic;
mod join;
mod long_sets;
mod pair_counts;
mod pair_filter;
mod ranked_sets;
mod scores;
mod search;
mod table_rows;

pub use clusters::{Cluster, ClusterDuplicate, KeepRule, clusters};
pub use discovery::{Discovery, DiscoveryOptions};
pub use duplicate_filter::{DuplicateDecision, DuplicateFilter};
pub use gdic::{Gdic, GdicEvidence, GdicOptions, StopWordRule, documents_per_content};
pub use join::{Join, JoinScratch, Neighbour};
pub use long_sets::{LONG_SET_MEMBERS, LongSets};
pub use pair_counts::{PairCountOptions, PairCounts, RecomputedPairs, write_pair_counts};
pub use pair_filter::PairFilter;
pub use ranked_sets::{ContentSets, RankedSets};
pub use scores::{DocumentSize, Measure, Overlap, Score};
pub use search::{ExcludedBlots, IdFilter, IndexSearch, SearchMatch, SearchScratch};
