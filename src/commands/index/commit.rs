//! What all commits to an index have in common.

use crate::{
    base::{
        error::{Error, Place, Result},
        files::WriteLock,
        setting::Setting,
    },
    blot::select,
    commands::BlotOptions,
    index::{Index, Manifest, Resources, SegmentBuilder, SegmentFiles, posting::Key, sweep},
};
use std::{ops::Range, path::Path};

/// How to change an index.
#[derive(Debug, Clone)]
pub struct ChangeOptions {
    /// Options that are set must be those of the index.
    pub blots: BlotOptions,
    /// Memory, threads and temporary files.
    pub resources: Resources,
    /// Merge segments when there are many.
    pub compacts: bool,
}

/// The effect of a commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeSummary {
    /// New documents, and those with another text than before.
    pub added: u64,
    /// Documents that the index had already.
    pub known: u64,
    /// Documents that were removed.
    pub removed: u64,
    /// Inputs that could not be used.
    pub problems: u64,
    /// The number of the last commit; that of an earlier one if there was nothing to do.
    pub generation: u64,
    /// Of a dry run: why the real run would be refused.
    pub refusal: Option<String>,
}

/// Changes an existing index: `work` writes files and returns the new manifest, if anything changes.
///
/// Removes files that an interrupted writer left before, and afterwards files that were replaced or that a failure left.
pub(crate) fn write_to<T>(
    directory: &Path,
    work: impl FnOnce(Index) -> Result<(Option<Manifest>, T)>,
) -> Result<T> {
    // A directory without an index is not changed.
    Manifest::read(directory)?;
    let lock = WriteLock::take(directory)?;
    let done = Index::open_whole(directory).and_then(|index| {
        sweep(directory, Some(&index.manifest))?;
        let (manifest, done) = work(index)?;
        if let Some(manifest) = manifest {
            manifest.commit(directory)?;
        }
        Ok(done)
    });
    let swept = Manifest::read(directory).and_then(|manifest| sweep(directory, Some(&manifest)));
    lock.release(directory)?;
    let done = done?;
    swept.map(|()| done)
}

/// Merges some segments, which is a commit. Returns the index after it.
pub(crate) fn join_segments(
    index: &Index,
    range: Range<usize>,
    resources: &Resources,
) -> Result<Index> {
    let manifest = index.compacted(range, resources)?;
    manifest.commit(&index.directory)?;
    sweep(&index.directory, Some(&manifest))?;
    Index::open(&index.directory)
}

/// Writes a segment, if there is anything to write. Returns the manifest with it, and the numbers of its documents.
pub(crate) fn write<K: Key>(
    builder: SegmentBuilder<'_, K>,
    index: &Index,
    changed: &mut ChangeSummary,
) -> Result<Option<(Manifest, Vec<u32>)>> {
    if builder.is_empty() {
        return Ok(None);
    }
    let mut manifest = index.manifest.clone();
    manifest.generation += 1;
    changed.generation = manifest.generation;
    let name = Manifest::segment_name(manifest.generation);
    let parts = SegmentFiles::parts(manifest.segments.first().map_or(1, |segment| segment.parts))?;
    let changes = [manifest.generation; 2];
    let files = SegmentFiles {
        directory: &index.directory,
        name: &name,
        changes,
        manifest: &manifest,
        parts,
    };
    let (segment, next, numbers) = builder.write(&files)?;
    manifest.segments.push(segment);
    manifest.numbers = next;
    Ok(Some((manifest, numbers)))
}

/// Refuses an index of shared chunks: which chunks are shared depends on all documents.
fn ensure_changeable(index: &Index) -> Result<()> {
    if is_of_shared_chunks(index) {
        return Err(Error::Usage(format!(
            "{}: an index of shared chunks: change its documents with dedup-spex {} and {}",
            index.directory.display(),
            Setting::Add,
            Setting::Remove
        )));
    }
    Ok(())
}

pub(crate) fn is_of_shared_chunks(index: &Index) -> bool {
    select::is_of_shared_chunks(&index.scheme.select)
}

/// An index with few segments.
pub(crate) struct Compacted(Index);

impl Compacted {
    /// Merges segments if there are many and the options allow it. This is a separate commit, before the next one.
    pub fn of(index: Index, options: &ChangeOptions) -> Result<Self> {
        ensure_changeable(&index)?;
        let mut index = index;
        while let Some(range) = index.piled_up().filter(|_| options.compacts) {
            index = join_segments(&index, range, &options.resources)?;
        }
        Ok(Self(index))
    }

    /// As [`Self::of`], without a commit: its manifest is ahead of the one on disk, until a commit follows.
    pub fn before_commit(index: Index, options: &ChangeOptions) -> Result<Self> {
        ensure_changeable(&index)?;
        let mut index = index;
        while let Some(range) = index.piled_up().filter(|_| options.compacts) {
            index = Index::open_as_of(
                &index.directory,
                &index.compacted(range, &options.resources)?,
            )?;
        }
        Ok(Self(index))
    }

    pub fn get(&self) -> &Index {
        &self.0
    }
}

/// Refuses a request that does not fit the index.
pub(crate) fn refused(directory: &Path, what: impl Into<String>) -> Error {
    Error::damaged(Place::path(directory), what)
}
