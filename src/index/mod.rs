//!
//! A directory of files that are written once, and a manifest whose replacement is a commit. `man 5 dedup-index` has it byte by byte.

mod documents;
mod lists;
mod lock;
mod manifest;
mod open;
mod part;
mod segment;
mod stats;
mod verify;
mod view;

pub use documents::{Document, Documents, Row};
pub use lists::SetFile;
pub use lock::{WriteLock, ensure_new, sweep};
pub use manifest::{FileSeal, Manifest, SegmentEntry};
pub use open::{Index, Segment};
pub use part::{Part, Posted};
pub use segment::{SegmentBuilder, first_manifest};
pub use stats::{Stats, stats};
pub use verify::verify;
pub use view::{Content, View};
