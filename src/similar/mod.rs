//! Which documents are alike, and how much: exact at any threshold, from sets of documents with multiplicities.
//!
//! ```text
//! sets ──► lists ──────────────► neighbours of each content ──► pairs, table, graph
//!          rarest set first,     [Join]                    └──► clusters
//!          smallest content first
//! ```
//!
//! Everything here is about contents, which are distinct texts; whoever writes results names all documents of each.

mod clusters;
mod discovery;
mod join;
mod lists;
mod scores;
mod table;

pub use clusters::{Cluster, Dropped, Keep, clusters};
pub use discovery::{Discovery, Options};
pub use join::{Join, Neighbour, Scratch};
pub use lists::{Forward, Lists};
pub use scores::{Measure, Overlap, Score, Side};
pub use table::top;
