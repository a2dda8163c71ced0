//! The commit that [`super::sync`] would make, in steps that many processes can do: find the files to read, number the documents, commit.

use crate::base::num::ToU64;
use crate::base::setting::Setting;
use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        files::{WriteLock, atomic_dir, durable},
    },
    commands::{
        BlotOptions, Observer, Settings,
        blot::DocumentBlotter,
        index::document_files::DocumentFiles,
        index::{
            build::range_name,
            build_steps::{
                PartFiles, PostingOwners, StepOptions, TARGETS, Targets, place, place_segment,
                write_numbered,
            },
            commit::{is_of_shared_chunks, join_segments, refused},
            sync::state_path,
            sync_guard::{MaxRemove, ensure_walked_alike, walk_of},
            tracked_files::{MissingDocuments, TrackedFiles},
        },
    },
    index::{
        DocumentNumbering, Documents, FileSeal, Index, IndexChange, Manifest, SegmentFiles,
        SyncState, sweep, write_sync_state,
    },
    text::corpus::{Account, CorpusSlice, IdSet, SkippedFile, WalkItem},
};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// Finds the files that must be read to bring an index up to date; reports files that cannot be read first.
///
/// Refuses early what [`number_changes`] would refuse in any case.
pub fn files_to_read(
    directory: &Path,
    blots: &BlotOptions,
    settings: &Settings,
    max_remove: MaxRemove,
) -> Result<(Manifest, Vec<WalkItem>)> {
    let index = Index::open_whole(directory)?;
    if is_of_shared_chunks(&index) {
        return Err(refused(
            directory,
            format!(
                "an index of shared chunks: change its documents with dedup-spex {} and {}",
                Setting::Add,
                Setting::Remove
            ),
        ));
    }
    DocumentBlotter::as_index(blots, &index.manifest, directory)?;
    let state = state_path(directory);
    let known = SyncState::open(&state, &index.manifest.scheme);
    ensure_walked_alike(
        known.as_ref(),
        walk_of(&settings.corpus, &index.manifest.scheme),
        &state,
    )
    .map_err(|what| refused(directory, what))?;
    let mut tracked = TrackedFiles::new(&index, known.as_ref());
    let mut walked = WalkRecorder::default();
    tracked.walk(false, &settings.corpus, &mut walked)?;
    let to_read = std::mem::take(&mut tracked.to_read);
    ensure_may_remove(
        &tracked.certain_removals()?,
        max_remove,
        settings,
        directory,
    )?;
    let found = walked
        .left_out
        .into_iter()
        .map(WalkItem::Skipped)
        .chain(to_read.into_iter().map(WalkItem::File))
        .collect();
    Ok((index.manifest, found))
}

/// Refuses to remove more documents than the limit allows.
fn ensure_may_remove(
    not_found: &MissingDocuments,
    max_remove: MaxRemove,
    settings: &Settings,
    directory: &Path,
) -> Result<()> {
    let refusal = max_remove.refusal(
        not_found.at.len().to_u64(),
        not_found.documents,
        &settings.corpus.paths,
    );
    refusal.map_or(Ok(()), |what| Err(refused(directory, what)))
}

/// The result of the walk, except for the files to read.
#[derive(Default)]
struct WalkRecorder {
    left_out: Vec<SkippedFile>,
    account: Account,
}

impl Observer for WalkRecorder {
    fn problem(&mut self, problem: &Problem) {
        self.left_out.push(SkippedFile::unreadable(problem.clone()));
    }

    fn left_out(&mut self, left: &SkippedFile) {
        self.left_out.push(left.clone());
    }

    fn account(&mut self, account: &Account) {
        self.account.add(account);
    }

    fn progress(&mut self, _: u64, _: u64) {}
}

/// Refuses an index that has changed since the plan was made.
fn ensure_unchanged(directory: &Path, checksum: &str) -> Result<Manifest> {
    let manifest = Manifest::read(directory)?;
    if manifest.checksum() == checksum {
        return Ok(manifest);
    }
    Err(refused(
        directory,
        format!(
            "changed since the plan was made (it is at generation {} now); plan anew",
            manifest.generation
        ),
    ))
}

/// Makes a directory of links to the files of an index; if it has many segments, they are merged there.
pub fn stage_base(
    options: &StepOptions,
    index: &Path,
    checksum: &str,
    output: &Path,
) -> Result<()> {
    let directory = index
        .canonicalize()
        .map_err(|error| Error::io(index.display(), error))?;
    atomic_dir::create(output, |beside| {
        let manifest = ensure_unchanged(&directory, checksum)?;
        for file in files_of(&manifest) {
            let target = beside.join(&file.name);
            symlink(directory.join(&file.name), &target)
                .map_err(|error| Error::io(target.display(), error))?;
        }
        manifest.commit(beside)?;
        let mut index = Index::open_whole(beside)?;
        while let Some(range) = index.piled_up() {
            index = join_segments(&index, range, &options.resources)?;
        }
        Ok(())
    })
}

fn files_of(manifest: &Manifest) -> impl Iterator<Item = &FileSeal> {
    manifest.segments.iter().flat_map(|segment| &segment.files)
}

/// An index that follows its files.
pub struct SyncTarget<'a> {
    /// The index; the state of its files is beside it.
    pub index: &'a Path,
    /// The output of [`stage_base`].
    pub base: &'a Path,
    /// The most documents that may be removed.
    pub max_remove: MaxRemove,
}

/// A slice that was read.
pub struct ReadSlice {
    /// The slice.
    pub slice: PathBuf,
    /// The directory with its documents and postings.
    pub made: PathBuf,
}

/// Numbers the documents that were read, in addition to those of the index: writes `docs`, `targets`, and the state of files as `known`.
pub fn number_changes(
    options: &StepOptions,
    of: &SyncTarget<'_>,
    settings: &Settings,
    slices: &[ReadSlice],
    output: &Path,
) -> Result<()> {
    options.make_with(output, |directory| {
        let index = Index::open_whole(of.base)?;
        let state = state_path(of.index);
        let known = SyncState::open(&state, &index.manifest.scheme);
        let walk = ensure_walked_alike(
            known.as_ref(),
            walk_of(&settings.corpus, &index.manifest.scheme),
            &state,
        )
        .map_err(|what| refused(of.index, what))?;
        let mut tracked = TrackedFiles::new(&index, known.as_ref());
        let mut walked = WalkRecorder::default();
        tracked.walk(false, &settings.corpus, &mut walked)?;
        ensure_as_planned(&tracked, slices)?;
        let is_unchanged = tracked.is_unchanged();
        let mut numbering = DocumentNumbering::new(Some(IndexChange::new(&index)));
        let (mut seen, mut posted, mut bad) =
            (IdSet::default(), PostingOwners::default(), Vec::new());
        for ReadSlice { made, .. } in slices {
            let (documents, files) = (
                Documents::open(&made.join("docs"))?,
                DocumentFiles::open(&made.join(DocumentFiles::NAME))?,
            );
            posted.start();
            for place in 0..documents.len() {
                let (id, row) = (documents.id(place)?, documents.row(place)?);
                let file = files.file(place).ok_or_else(|| {
                    documents
                        .file()
                        .damaged(0, "more documents than there are files of")
                })?;
                if !seen.insert(IdSet::hash(&id))? {
                    // `gather` reports it; its file keeps the documents it had.
                    bad.push(file.clone());
                    posted.repeat(id);
                } else if !tracked.is_duplicate(&id, &Place::file(file.clone()))? {
                    let (taken, at) = numbering.add(&id, row)?;
                    posted.note(place, &row, at);
                    tracked.note(file, &id, &row, taken)?;
                }
            }
            bad.extend(files.bad);
        }
        let problems = tracked.duplicates.iter().map(ToString::to_string).collect();
        bad.extend(
            tracked
                .duplicates
                .iter()
                .map(|problem| problem.place.file.clone()),
        );
        tracked.keep_documents_of_bad_files(&bad)?;
        if !is_unchanged {
            let not_found = tracked.not_found()?;
            ensure_may_remove(&not_found, of.max_remove, settings, of.index)?;
            not_found
                .at
                .into_iter()
                .for_each(|at| numbering.remove_at(at));
        }
        let docs: Vec<PathBuf> = slices.iter().map(|slice| slice.made.join("docs")).collect();
        let numbers = write_numbered(directory, &docs, numbering, posted)?;
        write_sync_state(
            &directory.join("known"),
            String::new(),
            walk,
            &tracked.into_states(&numbers),
        )?;
        // The accounts of the slices have the files that were left out.
        Ok((problems, Account::of_unchanged(walked.account.unchanged)))
    })
}

/// Checks that the files to read are still those of the slices, unchanged.
fn ensure_as_planned(tracked: &TrackedFiles<'_>, slices: &[ReadSlice]) -> Result<()> {
    let mut planned = Vec::new();
    for ReadSlice { slice, .. } in slices {
        for found in CorpusSlice::open(slice)?.entries(None) {
            match found {
                // A file that is cut is in several slices.
                WalkItem::File(entry)
                    if entry.part.as_ref().is_some_and(|part| !part.is_first()) => {}
                WalkItem::File(entry) => planned.push(entry.path),
                WalkItem::Problem(_) | WalkItem::Skipped(_) => {}
                WalkItem::Failed(error) => return Err(error),
            }
        }
    }
    let to_read = || tracked.to_read.iter().map(|entry| &entry.path);
    if to_read().eq(&planned) {
        return Ok(());
    }
    let odd = to_read().find(|path| !planned.contains(path)).or_else(|| {
        planned
            .iter()
            .find(|path| !to_read().any(|read| read == *path))
    });
    Err(Error::damaged(
        Place::path(odd.map_or(Path::new("the corpus"), PathBuf::as_path)),
        "changed since the plan was made; plan anew",
    ))
}

/// Assembles the index as it will be: links to the files it has, and the new segment.
pub fn stage_changes(files: &PartFiles, base: &Path, output: &Path) -> Result<()> {
    atomic_dir::create(output, |directory| {
        let mut manifest = Manifest::read(base)?;
        for file in files_of(&manifest) {
            link(&base.join(&file.name), &directory.join(&file.name))?;
        }
        let targets = Targets::open(&files.documents.join(TARGETS))?;
        if !targets.is_empty() {
            manifest.generation += 1;
            manifest.numbers = targets.numbers();
            manifest
                .segments
                .push(place_segment(files, manifest.generation, directory)?);
        }
        manifest.commit(directory)
    })
}

/// Links, for each range, the files that counting pairs there needs: documents and sets of all segments, and the parts that have its blots.
pub fn stage_ranges(index: &Path, parts: u32, output: &Path) -> Result<()> {
    let ranges = SegmentFiles::parts(parts)?;
    atomic_dir::create(output, |beside| {
        let manifest = Manifest::read(index)?;
        for (number, range) in ranges.iter().enumerate() {
            let directory = beside.join(range_name(number));
            fs::create_dir(&directory).map_err(|error| Error::io(directory.display(), error))?;
            for segment in &manifest.segments {
                let parts = SegmentFiles::parts(segment.parts)?;
                let of_range = parts
                    .iter()
                    .zip(segment.files.iter().skip(2))
                    .filter(|(part, _)| part.start < range.end && range.start < part.end);
                for file in segment
                    .files
                    .iter()
                    .take(2)
                    .chain(of_range.map(|(_, file)| file))
                {
                    link(&index.join(&file.name), &directory.join(&file.name))?;
                }
            }
            manifest.commit(&directory)?;
        }
        Ok(())
    })
}

/// Makes a hard link to a file, or a symbolic one where that is not possible.
fn link(from: &Path, to: &Path) -> Result<()> {
    let from = from
        .canonicalize()
        .map_err(|error| Error::io(from.display(), error))?;
    if fs::hard_link(&from, to).is_err() {
        symlink(&from, to).map_err(|error| Error::io(to.display(), error))?;
    }
    Ok(())
}

/// Commits the assembled index, unless the index has changed since: the last rename is the commit. Doing it again changes nothing.
pub fn commit_staged(staged: &Path, known: &Path, directory: &Path, checksum: &str) -> Result<u64> {
    let mut new = Manifest::read(staged)?;
    // A directory without an index is not changed.
    Manifest::read(directory)?;
    let lock = WriteLock::take(directory)?;
    let done = commit(&mut new, staged, directory, checksum).and_then(|()| {
        let Some(known) = SyncState::open(known, &new.scheme) else {
            return Ok(());
        };
        write_sync_state(
            &state_path(directory),
            new.checksum(),
            known.walk().clone(),
            &known,
        )
    });
    lock.release(directory)?;
    done.map(|()| new.generation)
}

fn commit(new: &mut Manifest, staged: &Path, directory: &Path, checksum: &str) -> Result<()> {
    let before = Manifest::read(directory)?;
    // Keep pins as they are now, even if they changed since the plan was made.
    new.pins.clone_from(&before.pins);
    if before == *new {
        return Ok(());
    }
    ensure_unchanged(directory, checksum)?;
    for (name, &generation) in &new.pins {
        if new.at(directory, generation).is_err() {
            return Err(refused(
                directory,
                format!(
                    "pin '{name}' was made since the plan was made, of a state that the plan does not keep; plan anew"
                ),
            ));
        }
    }
    sweep(directory, Some(&before))?;
    let mut placed = Vec::new();
    for file in files_of(new).filter(|file| !before.names(&file.name)) {
        let target = directory.join(&file.name);
        place(&staged.join(&file.name), &target)?;
        placed.push(target);
    }
    durable::sync_files(directory, &placed)?;
    Index::open_whole(staged)?;
    new.commit(directory)?;
    sweep(directory, Some(&*new))
}
