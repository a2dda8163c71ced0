//! The index: postings sorted within bounded memory, segments, manifest, commits.
//!
//! A directory of files that are written once, and a manifest whose replacement is a commit. `man 5 dedup-index` has it byte by byte.

pub mod posting;

mod both;
mod bucket;
mod by_id;
mod change;
mod chunk_texts;
mod compact;
mod documents;
mod ids;
mod known;
mod leftovers;
mod lists;
mod manifest;
mod merge;
mod numbering;
mod numbers;
mod open;
mod part;
mod pins;
mod reduced;
mod segment;
mod stats;
mod verify;
mod view;
mod words;

pub use both::Both;
pub use change::Change;
pub use chunk_texts::{ChunkTextWriter, ChunkTexts};
pub use compact::Rewritten;
pub use documents::{Document, Documents, Effects, Row, write_documents};
pub use known::{FileState, Known, Stamp, Walk, write_known};
pub use leftovers::{ensure_new, sweep};
pub use lists::{SetFile, write as write_sets};
pub use manifest::{FileSeal, Manifest, PartOf, SegmentEntry};
pub use merge::LeftOut;
pub use numbering::{Numbered, Numbering, Taken};
pub use numbers::NumberSet;
pub use open::{At, Coverage, Index, Segment};
pub use part::{Part, Posted};
pub use pins::{Since, check_pin_name, ranges_text};
pub use reduced::{Reduced, SetNumbers, make_part, write_reduced};
pub use segment::{Means, RunFiles, SegmentBuilder, SegmentFiles};
pub use stats::{Stats, stats};
pub use verify::{verify, verify_blocks};
pub use view::{Content, View};
pub use words::{WordMerger, join_words, merge_words};
