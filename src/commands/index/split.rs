//! Cuts an index into parts.

use super::{
    build::{range_name, write_new},
    commit::refused,
};
use crate::{
    base::{error::Result, files::durable},
    index::{BlotRange, Index, IndexRewrite, Resources, SegmentFiles, View, posting::BucketRange},
};
use std::path::{Path, PathBuf};

/// Cuts an index into range parts, each a directory of its own under `output`: 000, 001, …
pub fn split(directory: &Path, parts: u32, output: &Path, resources: &Resources) -> Result<()> {
    let index = Index::open_whole(directory)?;
    let view = View::of(&index)?;
    let ranges = SegmentFiles::parts(parts)?;
    let targets: Vec<PathBuf> = (0..ranges.len())
        .map(|part| output.join(range_name(part)))
        .collect();
    durable::create_dir_all(output)?;
    let segments = &index.manifest.segments;
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
        return Err(refused(
            directory,
            "has no segments; it was not made by this program",
        ));
    };
    for (range, target) in ranges.iter().zip(&targets) {
        let range = BlotRange {
            buckets: BucketRange::from(range),
            parts: first.parts,
        };
        let rewritten = IndexRewrite {
            directory: target,
            // The parts keep the name of a single segment, so that joining them gives the same bytes again.
            generation: index.manifest.generation,
            changes: [first.changes[0], last.changes[1]],
            scheme: &index.scheme,
            preset: index.manifest.preset.as_deref(),
            parts: 1,
            range: Some(range),
        };
        write_new(target, || Ok((rewritten.write(&view, resources)?, ())))?;
    }
    Ok(())
}
