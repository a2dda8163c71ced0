//! The verbs of dedup-index, and the steps into which a cluster divides them.

pub mod add;
pub mod build;
pub mod build_record;
pub mod build_steps;
pub mod commit;
pub mod compact;
pub mod document_files;
pub mod dump;
pub mod find_ids;
pub mod merge;
pub mod pin;
pub mod remove;
pub mod split;
pub mod sync;
pub mod sync_guard;
pub mod sync_steps;
pub mod tracked_files;
