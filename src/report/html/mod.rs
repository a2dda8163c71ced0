//! Reports for people: pages that a browser opens from disk.
//!
//! ```text
//! documents, passages ──► DocumentPage ──► one page: a document beside its sources
//!                         PairPage     ──► the same for a pair, with the row that the overview needs
//!                         Directory    ──► pair-000001.html, pair-000002.html, …, and at the end index.html, the Overview
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
mod frame;
mod graph;
mod input;
mod number;
mod overview;
mod ranking;

pub use directory::{Directory, OVERVIEW, PairPage};
pub use document::DocumentPage;
pub use escape::put_html;
pub use frame::{Frame, put, put_element};
pub use number::{count, counted};
pub use overview::{Overview, Row};
