//! Joins the segments of an index.

use super::commit::{join_segments, write_to};
use crate::{base::error::Result, index::Resources};
use std::path::Path;

/// Makes all segments into one; with pins, those between two pinned generations.
pub fn compact(directory: &Path, resources: &Resources) -> Result<()> {
    write_to(directory, |mut index| {
        while let Some(range) = index.loose()? {
            index = join_segments(&index, range, resources)?;
        }
        Ok((None, ()))
    })
}
