//! An online history: prints of all documents that came, and which of them a new one is like.
//!
//! [`History::open`] opens or makes one, [`History::ask`] answers a batch of requests in order, each of which may also be added, so
//! that the next one sees it. Answers are exact: what a look at every print would give, in far fewer steps.
//!
//! New entries go to the journal and to a [`young::Young`] in memory; 262,144 of them make a file, a [`segment::Segment`]. Three files of
//! a size are made into one, by threads of the history's own. So there are few to search, and each entry is written a few times only.
//! Entries are numbered in order of arrival: a *sequence number* tells which of two came first, and what is forgotten.
//!
//! # Threads
//!
//! All methods that change anything take `&mut self`. A service puts a history behind a mutex and hands it all requests that wait, as
//! one batch: [`History::ask`] searches for them on [`Options::threads`] threads, writes one group to the journal and, where that was asked for,
//! waits for the disk once.
//!
//! # Memory
//!
//! About 58 bytes an entry of files that are mapped, and 35 MB or so for what is not yet in files.

mod ahead;
mod ask;
mod batch;
mod body;
mod build;
mod by_id;
mod helpers;
mod journal;
mod keys;
mod likeness;
mod manifest;
mod manners;
mod merge;
/// Answers while documents come: from a history here, or from servers that each keep a part of one.
pub mod online;
mod open;
mod plan;
mod promises;
mod scan;
mod search;
mod segment;
/// The same answers for many clients at once, over a socket.
pub mod service;
mod store;
mod table;
mod upkeep;
mod verify;
mod young;

pub use ask::{Answer, Match, Request, Wanted};
pub use journal::SyncEvery;
pub use likeness::{Likeness, Ratio};
pub use open::ensure_is;
pub use store::{History, Options};
pub use verify::{JournalStats, SegmentStats, Stats, stats, verify};

#[cfg(test)]
mod tests;
