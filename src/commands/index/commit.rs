//! What all commits to an index have in common.

use crate::{
    base::{
        error::{Error, Place, Result},
        files::WriteLock,
    },
    blot::select,
    commands::BlotOptions,
    index::{Index, Manifest, Resources, SegmentBuilder, SegmentFiles, posting::Key, sweep},
};
use std::{ops::Range, path::Path};

#[derive(Debug, Clone)]
pub struct ChangeOptions {
    /// They must be those of the index, as far as they are given.
    pub blots: BlotOptions,
    pub resources: Resources,
    /// Make segments into one when they pile up.
    pub compacts: bool,
}

/// What a commit did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeSummary {
    /// New documents, and those with another text than before.
    pub added: u64,
    /// Documents that the index had already.
    pub known: u64,
    pub removed: u64,
    /// Inputs that could not be used.
    pub problems: u64,
    /// The number of the last commit, ours or not.
    pub generation: u64,
    /// Why it would not have been done, had it not been for show only.
    pub refusal: Option<String>,
}

/// Changes an index that is there: `work` writes files and gives the new manifest, if there is one.
///
/// What a writer that died left is swept away before, and what was replaced, or what failed, after.
pub(crate) fn write_to<T>(
    directory: &Path,
    work: impl FnOnce(Index) -> Result<(Option<Manifest>, T)>,
) -> Result<T> {
    // A directory without an index is left as it is.
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

/// Makes some segments into one: a commit. Gives the index as it is then.
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

/// Writes a segment, if there is anything to write, and gives the manifest with it, and the numbers of its documents.
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
        scheme: &manifest.scheme,
        parts,
    };
    let (segment, next, numbers) = builder.write(&files)?;
    manifest.segments.push(segment);
    manifest.numbers = next;
    Ok(Some((manifest, numbers)))
}

/// What changes with every document cannot be changed in part.
fn ensure_changeable(index: &Index) -> Result<()> {
    if is_of_shared_chunks(index) {
        let what = "an index of shared chunks: what is shared changes with every document; make it anew with dedup-spex";
        return Err(Error::Usage(format!(
            "{}: {what}",
            index.directory.display()
        )));
    }
    Ok(())
}

pub(crate) fn is_of_shared_chunks(index: &Index) -> bool {
    select::is_of_shared_chunks(&index.scheme.select)
}

/// An index whose segments do not pile up.
pub(crate) struct Compacted(Index);

impl Compacted {
    /// Makes segments into one if they pile up and that is wanted: a commit of its own, before the one that is to come.
    pub fn of(index: Index, options: &ChangeOptions) -> Result<Self> {
        ensure_changeable(&index)?;
        let mut index = index;
        while let Some(range) = index.piled_up().filter(|_| options.compacts) {
            index = join_segments(&index, range, &options.resources)?;
        }
        Ok(Self(index))
    }

    /// The same without a commit: its manifest is ahead of the one on disk, until a commit follows.
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

/// An index in a state that nobody wants is an error of the user.
pub(crate) fn refused(directory: &Path, what: impl Into<String>) -> Error {
    Error::damaged(Place::path(directory), what)
}
