//! Reports for people: pages that a browser opens from disk.
//!
//! ```text
//! documents, passages ──► DocumentPage ──► one page: a document beside its sources
//!                         PairPage     ──► the same for a pair, with the row that the overview needs
//!                         Directory    ──► document-000001.html, …, pair-000001.html, …, and at the end index.html, the Overview
//! ```
//!
//! A page is whole in itself: no network, one style, one script, and a policy that lets nothing else in. What comes from documents reaches it only through
//! `escape`. The text is cut into segments here (`blocks`), so that the script knows no offsets, and draws only
//! what the reader looks at: pages of tens of megabytes open in a second or two.

mod blocks;
mod digest;
mod directory;
mod document;
mod escape;
mod facts;
mod frame;
mod graph;
mod histogram;
mod input;
mod number;
mod overview;
mod ranking;

pub use directory::{Directory, OVERVIEW, PageKind, PairPage, page_name};
pub use document::{DocumentPage, DocumentSummary, PageLinks};
pub use escape::put_html;
pub use facts::ReportFacts;
pub use frame::{Frame, put, put_element};
pub use histogram::{BINS, bin_of};
pub use number::{count, counted};
pub use overview::{DocumentRow, LINK_SHARE, Overview, Row};
