//! Storage of a history: journal, memtable, segments and the background work on them.

pub(super) mod background;
pub(super) mod compaction;
pub(super) mod history;
pub(super) mod id_map;
pub(super) mod journal;
pub(super) mod journal_format;
pub(super) mod log_cursor;
pub(super) mod manifest;
pub(super) mod memtable;
pub(super) mod next_journal;
pub(super) mod open;
pub(super) mod retry;
pub(super) mod segment;
pub(super) mod segment_description;
mod segment_lookup;
pub(super) mod segment_writer;
pub(super) mod synced_lengths;
pub(super) mod throttle;
pub(super) mod verify;
