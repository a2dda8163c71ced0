//! Adds documents to an index.

use super::{
    build::IndexStage,
    commit::{ChangeOptions, ChangeSummary, Compacted, write, write_to},
};
use crate::base::num::ToU64;
use crate::{
    base::error::Result,
    commands::{Observer, Settings, blot::DocumentBlotter, run},
    index::{
        AddOutcome, Index, IndexChange, Manifest, SegmentBuilder,
        posting::{Key, NARROW_BITS},
    },
    text::corpus::Source,
};
use std::path::Path;

/// Adds documents. One that has the id of another replaces it, unless it is the same.
pub fn add(
    options: &ChangeOptions,
    settings: &Settings,
    directory: &Path,
    observer: &mut dyn Observer,
) -> Result<ChangeSummary> {
    write_to(directory, |index| {
        let index = Compacted::of(index, options)?;
        let blots = DocumentBlotter::as_index(&options.blots, &index.get().manifest, directory)?;
        let mut source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
        blots.expect_in(&mut source);
        if blots.scheme.bits <= NARROW_BITS {
            add_as::<u64>(index.get(), options, settings, source, blots, observer)
        } else {
            add_as::<u128>(index.get(), options, settings, source, blots, observer)
        }
    })
}

fn add_as<K: Key>(
    index: &Index,
    options: &ChangeOptions,
    settings: &Settings,
    source: Source,
    blots: DocumentBlotter,
    observer: &mut dyn Observer,
) -> Result<(Option<Manifest>, ChangeSummary)> {
    let mut builder = SegmentBuilder::<K>::new(
        blots.scheme.bits,
        options.resources.clone(),
        Some(IndexChange::new(index)),
    );
    let mut changed = ChangeSummary {
        generation: index.manifest.generation,
        ..ChangeSummary::default()
    };
    let summary = run(
        &IndexStage::new(blots, index.manifest.dictionary),
        source,
        settings,
        observer,
        |documents, ids| {
            let taken = builder.add(documents.named(ids), &documents.postings, &documents.words)?;
            let known = taken
                .iter()
                .filter(|&&taken| taken == AddOutcome::Unchanged)
                .count()
                .to_u64();
            changed.known += known;
            changed.added += taken.len().to_u64() - known;
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
