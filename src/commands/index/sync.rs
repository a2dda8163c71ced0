//! Brings an index up to date with its files.

use super::tracked_files::{MissingDocuments, TrackedFiles};
use crate::base::num::ToU64;
use crate::{
    base::error::{Problem, Result},
    commands::{
        ChangeOptions, ChangeSummary, Observer, Settings,
        blot::DocumentBlotter,
        index::{
            build::IndexStage,
            commit::{Compacted, refused, write, write_to},
            sync_guard::{MaxRemove, ensure_walked_alike, walk_of},
        },
        run,
    },
    index::{
        AddOutcome, Index, IndexChange, Manifest, SegmentBuilder, SyncState,
        posting::{Key, NARROW_BITS},
        write_sync_state,
    },
    text::corpus::{Account, SkippedFile, Source},
};
use std::path::{Path, PathBuf};

/// How to bring an index up to date.
#[derive(Debug, Clone)]
pub struct SyncOptions {
    /// How the index is changed.
    pub change: ChangeOptions,
    /// Read every file, even if its size and time are unchanged.
    pub checksum: bool,
    /// Report what would be done, and change nothing.
    pub dry_run: bool,
    /// The most documents that may be removed.
    pub max_remove: MaxRemove,
}

/// Makes an index hold the documents that its files have now: adds new ones, replaces those with another text, removes those that no file has.
///
/// Skips files whose size and times are those of the last run. The state of files is kept beside the index, see [`SyncState`].
/// If a directory cannot be read, nothing is removed, as the documents may still be there. A file that cannot be used keeps its documents.
pub fn sync(
    options: &SyncOptions,
    settings: &Settings,
    directory: &Path,
    observer: &mut dyn Observer,
) -> Result<ChangeSummary> {
    write_to(directory, |index| {
        let committed = index.manifest.clone();
        let compacts = options.change.compacts && !options.dry_run;
        let index = Compacted::before_commit(
            index,
            &ChangeOptions {
                compacts,
                ..options.change.clone()
            },
        )?;
        let blots =
            DocumentBlotter::as_index(&options.change.blots, &index.get().manifest, directory)?;
        let changed = if blots.scheme.bits <= NARROW_BITS {
            sync_as::<u64>(index.get(), &committed, options, settings, blots, observer)?
        } else {
            sync_as::<u128>(index.get(), &committed, options, settings, blots, observer)?
        };
        Ok((None, changed))
    })
}

/// `committed`: the manifest on disk; that of `index` may be newer.
fn sync_as<K: Key>(
    index: &Index,
    committed: &Manifest,
    options: &SyncOptions,
    settings: &Settings,
    blots: DocumentBlotter,
    observer: &mut dyn Observer,
) -> Result<ChangeSummary> {
    let state = state_path(&index.directory);
    let known = SyncState::open(&state, &index.manifest.scheme);
    let walk = ensure_walked_alike(
        known.as_ref(),
        walk_of(&settings.corpus, &index.manifest.scheme),
        &state,
    )
    .map_err(|what| refused(&index.directory, what))?;
    let mut tracked = TrackedFiles::new(index, known.as_ref());
    tracked.walk(options.checksum, &settings.corpus, observer)?;
    let mut changed = ChangeSummary {
        generation: index.manifest.generation,
        problems: tracked.walk_problems,
        ..ChangeSummary::default()
    };
    if tracked.is_unchanged() {
        return Ok(changed);
    }
    let mut source = Source::of(
        std::mem::take(&mut tracked.to_read),
        settings.corpus.clone(),
        settings.limits.threads,
    )?;
    blots.expect_in(&mut source);
    let mut builder = SegmentBuilder::<K>::new(
        blots.scheme.bits,
        options.change.resources.clone(),
        Some(IndexChange::new(index)),
    );
    let mut noted = FileRecorder {
        observer,
        files: Vec::new(),
    };
    let summary = run(
        &IndexStage::new(blots, index.manifest.dictionary),
        source,
        settings,
        &mut noted,
        |mut documents, mut ids| {
            tracked.drop_duplicates(&mut documents, &mut ids)?;
            let files: Vec<_> = ids.iter().map(|(_, place)| place.file.clone()).collect();
            let named = documents.named(ids);
            let rows = named.clone();
            let taken = builder.add(named, &documents.postings, &documents.words)?;
            rows.iter()
                .zip(files)
                .zip(taken)
                .try_for_each(|(((id, row), file), taken)| {
                    match taken {
                        AddOutcome::Unchanged => changed.known += 1,
                        AddOutcome::Added => changed.added += 1,
                    }
                    tracked.note(&file, id, row, taken)
                })
        },
    )?;
    let duplicates = std::mem::take(&mut tracked.duplicates);
    duplicates.iter().for_each(|problem| noted.problem(problem));
    changed.problems += summary.problems + duplicates.len().to_u64();
    tracked.keep_documents_of_bad_files(&noted.files)?;
    let MissingDocuments { at, documents } = tracked.not_found()?;
    changed.removed = at.len().to_u64();
    let refusal = options
        .max_remove
        .refusal(changed.removed, documents, &settings.corpus.paths);
    if options.dry_run {
        return Ok(ChangeSummary { refusal, ..changed });
    }
    if let Some(what) = refusal {
        return Err(refused(&index.directory, what));
    }
    at.into_iter().for_each(|at| builder.remove_at(at));
    let written = write(builder, index, &mut changed)?;
    let (manifest, numbers) = written.unwrap_or_else(|| (index.manifest.clone(), Vec::new()));
    if manifest != *committed {
        manifest.commit(&index.directory)?;
    }
    write_sync_state(
        &state,
        manifest.checksum(),
        walk,
        &tracked.into_states(&numbers),
    )?;
    Ok(changed)
}

/// `my.idx.sync` for `my.idx`.
pub(crate) fn state_path(directory: &Path) -> PathBuf {
    let mut name = directory.components().collect::<PathBuf>().into_os_string();
    name.push(".sync");
    name.into()
}

/// Passes everything on to another observer, and records which files could not be used.
struct FileRecorder<'w> {
    observer: &'w mut dyn Observer,
    files: Vec<std::sync::Arc<str>>,
}

impl Observer for FileRecorder<'_> {
    fn problem(&mut self, problem: &Problem) {
        self.files.push(problem.place.file.clone());
        self.observer.problem(problem);
    }

    fn progress(&mut self, bytes: u64, documents: u64) {
        self.observer.progress(bytes, documents);
    }

    fn left_out(&mut self, left: &SkippedFile) {
        self.files
            .extend(left.is_error().then(|| left.problem.place.file.clone()));
        self.observer.left_out(left);
    }

    fn account(&mut self, account: &Account) {
        self.observer.account(account);
    }
}
