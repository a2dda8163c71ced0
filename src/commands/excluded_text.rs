//! Text that does not count: that of some files, and that of other indexes.

use super::{
    DocumentStage, Observer, ProblemsOnly, Settings, StageOutput, blot::DocumentBlotter, run,
};
use crate::{
    base::{
        error::{Error, Place, Result},
        num::ToU64,
    },
    index::Index,
    text::corpus::{self, InputDocument, Source},
};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

/// Opens an index whose blots are to be left out.
pub(crate) fn open_reference(path: &Path, index: &Index) -> Result<Index> {
    let reference = Index::open_whole(path)?;
    if reference.manifest.scheme == index.manifest.scheme {
        return Ok(reference);
    }
    Err(Error::Scheme {
        place: Place::path(path),
        found: reference.manifest.scheme.clone(),
        expected: index.manifest.scheme.clone(),
        remedy: "blots of another scheme cannot be compared; build it with the same options",
    })
}

/// The blots of all files that are to be left out. One that cannot be read is an error: more would be found than there is.
pub(crate) fn blots_of_files(
    files: &[PathBuf],
    blots: &DocumentBlotter,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<HashSet<u64>> {
    let mut found = HashSet::new();
    let stage = BlotCollector(blots.clone());
    read_excluded(files, &stage, blots, settings, observer, |collected| {
        found.extend(collected.0);
    })?;
    Ok(found)
}

/// Runs a stage over all texts that are to be left out. One that cannot be read is an error.
pub(super) fn read_excluded<S: DocumentStage>(
    paths: &[PathBuf],
    stage: &S,
    blots: &DocumentBlotter,
    settings: &Settings,
    observer: &mut dyn Observer,
    mut collect: impl FnMut(S::Out),
) -> Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let corpus = corpus::Options {
        paths: paths.to_vec(),
        files_from: None,
        ..settings.corpus.clone()
    };
    let mut source = Source::new(corpus, settings.limits.threads)?;
    blots.expect_in(&mut source);
    let summary = run(
        stage,
        source,
        settings,
        &mut ProblemsOnly(observer),
        |collected, _| {
            collect(collected);
            Ok(())
        },
    )?;
    if summary.problems > 0 {
        return Err(Error::Usage(
            "some text to exclude could not be read: see above".to_owned(),
        ));
    }
    Ok(())
}

/// Gathers blots, whichever document they are of.
#[derive(Clone)]
struct BlotCollector(DocumentBlotter);

#[derive(Default)]
struct CollectedBlots(Vec<u64>);

impl StageOutput for CollectedBlots {
    fn drop_documents(&mut self, _: &[usize]) {}

    fn weight(&self) -> u64 {
        size_of_val(&self.0[..]).to_u64()
    }
}

impl DocumentStage for BlotCollector {
    type Out = CollectedBlots;
    const IDS_ARE_UNIQUE: bool = false;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut CollectedBlots) -> Result<(), String> {
        out.0.extend_from_slice(&self.0.blots(item)?.0.values);
        Ok(())
    }

    fn finish(&mut self, _: &mut CollectedBlots) {
        self.0.release_buffers();
    }
}
