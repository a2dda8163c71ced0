//! Which documents are alike, and how much: exact at any threshold, from sets of documents with multiplicities.
//!
//! ```text
//! sets ──► lists ──────────────► neighbours of each content ──► pairs, table, graph
//!          rarest set first,     [Join]                    └──► clusters
//!          smallest content first
//! ```
//!
//! [`Search`] asks the same of one document that need not be in the index.
//!
//! Everything here is about contents, which are distinct texts; whoever writes results names all documents of each.

mod affected;
mod apart;
mod cleaning;
mod clusters;
/// Where two documents are alike, by local alignment of their tokens.
pub mod compare;
mod counts;
mod discovery;
mod gdic;
mod join;
mod lists;
mod scores;
mod search;
mod table;
mod top;

pub use apart::Apart;
pub use cleaning::{Cleaner, Verdict};
pub use clusters::{Cluster, Dropped, Keep, clusters};
pub use counts::{CountOptions, Counted, RecomputedPairs, write_counts};
pub use discovery::{Discovery, Options};
pub use gdic::{FoundBy, Gdic, GdicOptions, StopOf, copies_of};
pub use join::{Join, Neighbour, Scratch};
pub use lists::{Forward, Lists};
pub use scores::{DocumentSize, Measure, Overlap, Score};
pub use search::{Excluded, Match, Search, SearchScratch, Wanted};
pub use top::{LONG_SET, LongSets};
