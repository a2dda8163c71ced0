//! What an index of shared chunks cannot tell.

use super::progress::say;
use crate::{
    base::error::Result,
    blot::select::is_scheme_shared_only,
    index::{Coverage, Index},
};

/// Says what a question to an index of shared chunks does not find.
pub fn tell_unseen(tool: &str, index: &Index) -> Result<()> {
    if !is_scheme_shared_only(&index.scheme) {
        return Ok(());
    }
    let Coverage {
        documents,
        blots,
        posted,
    } = index.coverage()?;
    let percent = 100.0 * posted as f64 / blots.max(1) as f64;
    say(&format!(
        "{tool}: {}: holds only chunks that at least two of its {documents} documents share: {posted} of {blots} distinct chunks of its documents ({percent:.1} %); \
         text copied from a single document is not found; build a full index with dedup-index build",
        index.directory.display()
    ));
    Ok(())
}

/// Says what cannot be left out of an index of shared chunks.
pub fn tell_not_excluded(tool: &str, index: &Index) {
    if is_scheme_shared_only(&index.scheme) {
        say(&format!(
            "{tool}: {}: holds no text that a single document has, so where --exclude-text, --exclude-index or --base name such text, the document is still measured with it; \
             for exact shares build a full index with dedup-index build",
            index.directory.display()
        ));
    }
}
