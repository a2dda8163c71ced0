//! Joins the segments of an index.

use super::commit::{join_segments, write_to};
use crate::{base::error::Result, index::Means};
use std::path::Path;

/// Makes all segments into one; with pins, those between two pinned generations.
pub fn compact(directory: &Path, means: &Means) -> Result<()> {
    write_to(directory, |mut index| {
        while let Some(range) = index.loose()? {
            index = join_segments(&index, range, means)?;
        }
        Ok((None, ()))
    })
}
