//! Finds the places of documents with given ids.

use crate::base::num::ToU64;
use crate::{
    base::error::{Problem, Result},
    commands::{DocumentStage, NoObserver, Settings, StageOutput, run},
    text::corpus::{InputDocument, Source},
};
use std::collections::HashSet;

/// Reports the first document with each of these ids, and its size: it is dropped, because an earlier slice has a document with this id.
pub fn find_ids(
    settings: &Settings,
    mut ids: HashSet<String>,
    report: &mut dyn FnMut(Problem, u64),
) -> Result<()> {
    let source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
    run(
        &SizeStage,
        source,
        settings,
        // Problems were reported when the slice was read.
        &mut NoObserver,
        |DocumentSizes(sizes), found| {
            for ((id, place), bytes) in found.into_iter().zip(sizes) {
                if ids.remove(&*id) {
                    report(
                        Problem::new(
                            place,
                            format!(
                                "a document with the id '{id}' came before; the first one is kept"
                            ),
                        ),
                        bytes,
                    );
                }
            }
            Ok(())
        },
    )
    .map(drop)
}

/// A stage that keeps only the sizes of documents.
#[derive(Clone)]
struct SizeStage;

#[derive(Default)]
struct DocumentSizes(Vec<u64>);

impl DocumentStage for SizeStage {
    type Out = DocumentSizes;
    const IDS_ARE_UNIQUE: bool = false;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut DocumentSizes) -> Result<(), String> {
        out.0.push(item.bytes.unwrap_or(0));
        Ok(())
    }

    fn finish(&mut self, _: &mut DocumentSizes) {}
}

impl StageOutput for DocumentSizes {
    fn drop_documents(&mut self, _: &[usize]) {}

    fn weight(&self) -> u64 {
        size_of_val(&self.0[..]).to_u64()
    }
}
