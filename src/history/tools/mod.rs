//! What can be done with a history as a whole: copy it while it is written, write it out, divide it
//! by cardinality, join such parts or other histories, and repair its journals.

mod backup;
mod dump;
mod merge;
mod new_history;
mod ordered_entries;
mod repair;
mod split;

pub use backup::backup;
pub use dump::dump;
pub use merge::merge;
pub use repair::repair;
pub use split::{HistoryParts, split};

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryCopy {
    /// The directory.
    pub directory: std::path::PathBuf,
    /// The entries that a search finds there.
    pub entries: u64,
}
