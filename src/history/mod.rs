//! A history: the prints of all documents seen so far, and which of them a new document resembles.
//!
//! [`History::open`] opens or creates one. [`History::ask`] answers a batch of requests in order;
//! each document may also be added, so that later requests find it. Answers are exact: the same as
//! comparing with every stored print, in far fewer steps.
//!
//! # Storage: a log-structured merge tree
//!
//! - The **journal** (`000001.journal`) is the write-ahead log. Each batch appends one group of
//!   records with a checksum. The file `synced` notes how many bytes of each journal are known to
//!   be on disk, so that a torn last group (dropped) differs from damage (an error).
//! - The **memtable** holds the entries of the journal in memory, in order of arrival, with hash
//!   chains for search. With 262,144 entries it is full: it becomes read-only, a new journal and
//!   memtable take over, and a background thread writes the old one to a segment.
//! - A **segment** (`000001.prints`) is an immutable, mapped file of entries sorted for search, with
//!   a checksum per block. Three neighbouring segments of one level are merged into one of the next
//!   level, so there are few files to search and each entry is rewritten only a few times.
//! - The **manifest** (`manifest.json`) names the live segments, the first journal that is not yet
//!   in a segment, and the removed entries. Its atomic replacement is a commit; files it does not
//!   name are deleted by the next writer.
//!
//! Entries have a *sequence number*, counted up in order of arrival. A removal is a record with the
//! sequence number of its entry; the entry itself is dropped at the next merge. Entries beyond the
//! age or number limit are ignored by searches and dropped with their segment or at a merge.
//!
//! # Threads
//!
//! Every method that changes anything takes `&mut self`. A service gives all waiting requests to
//! [`History::ask`] as one batch: it searches on [`StoreOptions::threads`] threads, appends one
//! group to the journal and, where the sync policy asks for it, waits for the disk once.
//!
//! # Memory
//!
//! About 58 bytes an entry of mapped files, and about 35 MB for a memtable.
//!
//! `tools` copies, dumps, divides, joins and repairs histories. `search` has the algorithms, `store` the files, [`backend`] the choice between a local
//! history and remote servers.

mod search;
mod store;
mod tools;

mod answer;
mod batch;

pub mod backend;
pub mod log;

pub use answer::{Answer, Match, MatchLimits, Request};
pub use search::similarity::{PrintSimilarity, Ratio};
pub use store::{
    history::{History, StoreOptions},
    journal::SyncPolicy,
    log_cursor::{Forgotten, LogCursor, LogMark},
    open::ensure_history_exists,
    verify::{HistoryStats, JournalStats, LogStats, SegmentStats, stats, verify, verify_all},
};
pub use tools::{HistoryCopy, HistoryParts, backup, dump, merge, repair, split};

#[cfg(test)]
mod tests;
