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

/// Answers while documents come: from a history here, or from servers that each keep a part of one.
pub mod online;
/// The same answers for many clients at once, over a socket.
pub mod service;
mod keys;
mod likeness;
mod manners;
mod table;
mod segment;
mod body;
mod build;
mod helpers;
mod scan;
mod search;
mod plan;
mod by_id;
mod young;
mod promises;
mod manifest;
mod journal;
mod ahead;
mod merge;
mod open;
mod store;
mod upkeep;
mod batch;
mod ask;
mod verify;

pub use ask::{Answer, Match, Request, Wanted};
pub use journal::SyncEvery;
pub use likeness::{Likeness, Ratio};
pub use open::ensure_is;
pub use store::{History, Options};
pub use verify::{JournalStats, SegmentStats, Stats, stats, verify};

#[cfg(test)]
mod tests;
