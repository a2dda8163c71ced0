//! Finds similar documents, exactly at any threshold, from document sets and the number of blots of
//! each set.
//!
//! ```text
//! sets ──► ranked sets ──────────► neighbours of each content ──► pairs, table, graph
//!          rarest set first,       [Join]                    └──► clusters
//!          smallest content first
//! ```
//!
//! [`IndexSearch`] does the same for one document that need not be in the index.
//!
//! This module works on contents, which are distinct texts. The code that writes results names all
//! documents of each content.

mod affected;
mod boilerplate;
mod cluster_links;
mod clusters;
mod common_text;
pub mod compare;
mod copy_lists;
mod counted_sets;
mod discovery;
mod duplicate_filter;
mod gdic;
mod join;
mod long_sets;
mod pair_counts;
mod pair_filter;
mod plausible_sets;
mod ranked_sets;
mod scores;
mod search;
mod table_rows;

pub use boilerplate::Boilerplate;
pub use cluster_links::LinkFile;
pub use clusters::{Cluster, ClusterDuplicate, ClusterLinks, KeepRule, clusters, trace_clusters};
pub use common_text::{CommonSets, CommonTextRule};
pub use copy_lists::{CopyLists, write_copies};
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
