//! The index: postings sorted within bounded memory, segments, manifest, commits.
//!
//! A directory of files that are written once, and a manifest whose replacement is a commit. `man 5
//! dedup-index` has it byte by byte.

pub mod posting;

mod bucket;
mod compact;
mod diff;
mod document_code;
mod document_row;
mod document_table;
mod documents;
mod id_section;
mod index_change;
mod leftovers;
mod manifest;
mod merge;
mod new_blots;
mod number_set;
mod numbering;
mod open;
mod order_by_id;
mod part;
mod part_writer;
mod pins;
mod range_postings;
mod sections;
mod segment;
mod set_file;
mod set_order;
mod set_source;
mod set_uses;
mod shared_rewrite;
mod stats;
mod sync_state;
#[cfg(test)]
pub(crate) mod test_files;
mod token_store;
mod verify;
mod view;
mod view_builder;
mod width;
mod word_file;

pub use compact::IndexRewrite;
pub use diff::IndexDiff;
pub use document_row::DocumentRow;
pub use document_table::DocumentTable;
pub use documents::{CommitEffects, Documents, write_documents};
pub use index_change::IndexChange;
pub use leftovers::{ensure_new, sweep};
pub use manifest::{BlotRange, FileSeal, Manifest, SegmentEntry};
pub use merge::ExcludedBlots;
pub use new_blots::{BlotTable, NewBlots};
pub use number_set::NumberSet;
pub use numbering::{AddOutcome, DocumentNumbering, NumberedDocuments};
pub use open::{Coverage, Index, RowLocation, Segment};
pub use part::{BlotTarget, Part};
pub use pins::{Since, check_pin_name, ranges_text};
pub use range_postings::{RangePostings, SetNumbers, make_part, write_range_postings};
pub use sections::{DOCUMENTS, PART, SETS, SectionKind, TEXTS, TOKENS, WORDS};
pub use segment::{Resources, RunFiles, SegmentBuilder, SegmentFiles};
pub use set_file::{SetFile, write as write_sets};
pub use set_order::SetOrder;
pub use set_source::SetSource;
pub use set_uses::SetUses;
pub use shared_rewrite::SharedRewrite;
pub use stats::{Stats, stats};
pub use sync_state::{
    FileDocument, FileState, FileStates, Stamp, SyncState, Walk, write_sync_state,
};
pub use token_store::{
    ChunkTexts, ContentTokens, FRAME_TOKENS, Frame, TokenSource, TokenStore, TokenStoreWriter,
};
pub use verify::{verify, verify_blocks};
pub use view::{ContentInfo, View};
pub use width::WidthFit;
pub use word_file::{WordMerger, join_words, merge_words};
