//! Where documents with some ids stand.

use super::{Gathered, Settings, Stage, Watch, run};
use crate::{
    corpus::{Item, Source},
    error::{Problem, Result},
};
use std::collections::HashSet;

/// Tells of the first document with each of these ids that it is not kept, as a document with this id came before, elsewhere.
pub fn find_ids(settings: &Settings, mut ids: HashSet<String>, told: &mut dyn FnMut(Problem)) -> Result<()> {
    let source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
    run(&Nothing, source, settings, &mut Silent, |NothingOf, found| {
        for (id, place) in found {
            if ids.remove(&*id) {
                told(Problem::new(place, format!("a document with the id '{id}' came before; the first one is kept")));
            }
        }
        Ok(())
    })
    .map(drop)
}

/// Makes nothing of documents: only their ids are wanted.
#[derive(Clone)]
struct Nothing;

#[derive(Default)]
struct NothingOf;

impl Stage for Nothing {
    type Out = NothingOf;
    const IDS_ARE_UNIQUE: bool = false;

    fn take(&mut self, _: &Item<'_>, _: &mut NothingOf) -> Result<(), String> {
        Ok(())
    }

    fn finish(&mut self, _: &mut NothingOf) {}
}

impl Gathered for NothingOf {
    fn drop_documents(&mut self, _: &[usize]) {}

    fn weight(&self) -> u64 {
        0
    }
}

/// What cannot be used was told before.
struct Silent;

impl Watch for Silent {
    fn problem(&mut self, _: &Problem) {}
    fn progress(&mut self, _: u64, _: u64) {}
}
