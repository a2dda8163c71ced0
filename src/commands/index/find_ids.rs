//! Where documents with some ids stand.

use crate::{
    base::error::{Problem, Result},
    commands::{Gathered, Settings, Stage, Watch, run},
    text::corpus::{InputDocument, Source},
};
use std::collections::HashSet;

/// Reports the first document with each of these ids, and its size: it is not kept, as a document with this id came before, elsewhere.
pub fn find_ids(
    settings: &Settings,
    mut ids: HashSet<String>,
    told: &mut dyn FnMut(Problem, u64),
) -> Result<()> {
    let source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
    run(
        &Sizes,
        source,
        settings,
        &mut Silent,
        |SizesOf(sizes), found| {
            for ((id, place), bytes) in found.into_iter().zip(sizes) {
                if ids.remove(&*id) {
                    told(
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

/// Makes nothing of documents but their sizes: only their ids are wanted.
#[derive(Clone)]
struct Sizes;

#[derive(Default)]
struct SizesOf(Vec<u64>);

impl Stage for Sizes {
    type Out = SizesOf;
    const IDS_ARE_UNIQUE: bool = false;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut SizesOf) -> Result<(), String> {
        out.0.push(item.bytes.unwrap_or(0));
        Ok(())
    }

    fn finish(&mut self, _: &mut SizesOf) {}
}

impl Gathered for SizesOf {
    fn drop_documents(&mut self, _: &[usize]) {}

    fn weight(&self) -> u64 {
        size_of_val(&self.0[..]) as u64
    }
}

/// What cannot be used was told before.
struct Silent;

impl Watch for Silent {
    fn problem(&mut self, _: &Problem) {}
    fn progress(&mut self, _: u64, _: u64) {}
}
