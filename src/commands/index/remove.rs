//! Removes documents from an index.

use super::commit::{ChangeOptions, ChangeSummary, Compacted, write, write_to};
use crate::{
    base::error::{Place, Problem, Result},
    commands::Observer,
    index::{IndexChange, SegmentBuilder},
};
use std::path::Path;

/// Removes documents by id. Ids that the index does not have are reported to `observer`.
pub fn remove(
    options: &ChangeOptions,
    ids: impl Iterator<Item = Result<String>>,
    directory: &Path,
    observer: &mut dyn Observer,
) -> Result<ChangeSummary> {
    write_to(directory, |index| {
        let index = Compacted::of(index, options)?;
        let mut builder = SegmentBuilder::<u64>::new(
            index.get().scheme.bits,
            options.resources.clone(),
            Some(IndexChange::new(index.get())),
        );
        let mut changed = ChangeSummary {
            generation: index.get().manifest.generation,
            ..ChangeSummary::default()
        };
        for id in ids {
            let id = id?;
            if !builder.remove(&id)? {
                changed.problems += 1;
                observer.problem(&Problem::new(
                    Place::path(directory),
                    format!("has no document '{id}'; dedup-index dump lists the ids"),
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
