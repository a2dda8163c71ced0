//! Documents into an index that is there, and out of it: one commit each.

use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        files::WriteLock,
    },
    blot::select,
    commands::{BlotOptions, Settings, Watch, blot::ToBlots, index::build::Gather, run},
    index::{
        Change, Index, Manifest, Means, SegmentBuilder, SegmentFiles, Taken, check_pin_name,
        posting::{Key, NARROW_BITS},
        sweep,
    },
    text::corpus::Source,
};
use std::{ops::Range, path::Path};

#[derive(Debug, Clone)]
pub struct ChangeOptions {
    /// They must be those of the index, as far as they are given.
    pub blots: BlotOptions,
    pub means: Means,
    /// Make segments into one when they pile up.
    pub compacts: bool,
}

/// What a commit did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changed {
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

/// Adds documents. One that has the id of another replaces it, unless it is the same.
pub fn add(
    options: &ChangeOptions,
    settings: &Settings,
    directory: &Path,
    watch: &mut dyn Watch,
) -> Result<Changed> {
    write_to(directory, |index| {
        let index = Compacted::of(index, options)?;
        let blots = ToBlots::as_index(&options.blots, &index.get().manifest, directory)?;
        let mut source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
        blots.expect_in(&mut source);
        if blots.scheme.bits <= NARROW_BITS {
            add_as::<u64>(index.get(), options, settings, source, blots, watch)
        } else {
            add_as::<u128>(index.get(), options, settings, source, blots, watch)
        }
    })
}

fn add_as<K: Key>(
    index: &Index,
    options: &ChangeOptions,
    settings: &Settings,
    source: Source,
    blots: ToBlots,
    watch: &mut dyn Watch,
) -> Result<(Option<Manifest>, Changed)> {
    let mut builder = SegmentBuilder::<K>::new(
        blots.scheme.bits,
        options.means.clone(),
        Some(Change::new(index)),
    );
    let mut changed = Changed {
        generation: index.manifest.generation,
        ..Changed::default()
    };
    let summary = run(
        &Gather::new(blots, index.manifest.dictionary),
        source,
        settings,
        watch,
        |documents, ids| {
            let taken = builder.add(documents.named(ids), &documents.postings, &documents.words)?;
            let known = taken.iter().filter(|&&taken| taken == Taken::Known).count() as u64;
            changed.known += known;
            changed.added += taken.len() as u64 - known;
            Ok(())
        },
    )?;
    let summary = summary.ensure_documents(settings)?;
    changed.problems = summary.problems;
    Ok((
        write(builder, index, &mut changed)?.map(|(manifest, _)| manifest),
        changed,
    ))
}

/// Writes a segment, if there is anything to write, and gives the manifest with it, and the numbers of its documents.
pub(crate) fn write<K: Key>(
    builder: SegmentBuilder<'_, K>,
    index: &Index,
    changed: &mut Changed,
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

/// Removes documents by id. Ids that the index does not have are told to `watch`.
pub fn remove(
    options: &ChangeOptions,
    ids: impl Iterator<Item = Result<String>>,
    directory: &Path,
    watch: &mut dyn Watch,
) -> Result<Changed> {
    write_to(directory, |index| {
        let index = Compacted::of(index, options)?;
        let mut builder = SegmentBuilder::<u64>::new(
            index.get().scheme.bits,
            options.means.clone(),
            Some(Change::new(index.get())),
        );
        let mut changed = Changed {
            generation: index.get().manifest.generation,
            ..Changed::default()
        };
        for id in ids {
            let id = id?;
            if !builder.remove(&id)? {
                changed.problems += 1;
                watch.problem(&Problem::new(
                    Place::path(directory),
                    format!("has no document '{id}'"),
                ));
            }
        }
        changed.removed = builder.removals();
        Ok((
            write(builder, index.get(), &mut changed)?.map(|(manifest, _)| manifest),
            changed,
        ))
    })
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
pub(crate) fn join_segments(index: &Index, range: Range<usize>, means: &Means) -> Result<Index> {
    let manifest = index.compacted(range, means)?;
    manifest.commit(&index.directory)?;
    sweep(&index.directory, Some(&manifest))?;
    Index::open(&index.directory)
}

/// Keeps the state of a generation, or of the last one, under a name until [`unpin`]; a pin of that name moves. Gives the generation.
pub fn pin(directory: &Path, name: &str, generation: Option<u64>) -> Result<u64> {
    let name = check_pin_name(name).map_err(Error::Usage)?;
    write_to(directory, |index| {
        if is_of_shared_chunks(&index) {
            let what = "an index of shared chunks: dedup-spex --add writes all of it again, so that no earlier state can be kept";
            return Err(refused(directory, what));
        }
        let mut manifest = index.manifest;
        let generation = generation.unwrap_or(manifest.generation);
        manifest.at(directory, generation)?;
        manifest.pins.insert(name.to_owned(), generation);
        Ok((Some(manifest), generation))
    })
}

/// Lets go of a state that was kept; gives its generation.
pub fn unpin(directory: &Path, name: &str) -> Result<u64> {
    write_to(directory, |index| {
        let mut manifest = index.manifest;
        let generation = manifest
            .pins
            .remove(name)
            .ok_or_else(|| manifest.no_pin(directory, name))?;
        Ok((Some(manifest), generation))
    })
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
            index = join_segments(&index, range, &options.means)?;
        }
        Ok(Self(index))
    }

    /// The same without a commit: its manifest is ahead of the one on disk, until a commit follows.
    pub fn before_commit(index: Index, options: &ChangeOptions) -> Result<Self> {
        ensure_changeable(&index)?;
        let mut index = index;
        while let Some(range) = index.piled_up().filter(|_| options.compacts) {
            index = Index::open_as_of(&index.directory, &index.compacted(range, &options.means)?)?;
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
