//! The texts of an index's documents, from where they are now, and the passages that two of them share.

use super::Watch;
use crate::{
    corpus,
    error::{Place, Problem},
    passage::{self, Passage, Prepared, align, in_chars},
};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How passages are sought and told of.
#[derive(Debug, Clone, Default)]
pub struct PassageOptions {
    pub passages: passage::Options,
    /// Spans count Unicode characters instead of bytes.
    pub in_chars: bool,
    /// Read text that is not UTF-8.
    pub lossy: bool,
    /// Where documents are whose ids are relative paths.
    pub root: Option<PathBuf>,
}

/// What two documents share.
#[derive(Debug, Clone, PartialEq)]
pub struct Shared {
    /// The share of its words that are in passages.
    pub a_in_b: f64,
    pub b_in_a: f64,
    pub passages: Vec<Passage>,
}

impl PassageOptions {
    /// What two documents share, with spans as they are asked for.
    pub fn shared(&self, a: &Prepared, b: &Prepared) -> Shared {
        let mut shared = self.shared_bytes(a, b);
        if self.in_chars {
            in_chars(&mut shared.passages, a.text(), b.text());
        }
        shared
    }

    /// The same with spans in bytes, as pages need them.
    pub fn shared_bytes(&self, a: &Prepared, b: &Prepared) -> Shared {
        let passages = align(a, b, &self.passages);
        let a_in_b = a.share_in(passages.iter().map(|passage| passage.a));
        let b_in_a = b.share_in(passages.iter().map(|passage| passage.b));
        Shared { a_in_b, b_in_a, passages }
    }

    /// Reads a document whose id is its path.
    pub fn prepared(&self, id: &str) -> Result<Prepared, Problem> {
        let path = self.root.as_ref().map_or_else(|| PathBuf::from(id), |root| root.join(id));
        let text = corpus::read_text(&path, self.lossy);
        let text = text.map_err(|error| Problem::new(Place::file(path.display().to_string()), error.to_string()))?;
        Ok(Prepared::of(text, &self.passages))
    }
}

/// Documents that were asked for of late. They take some 20 times the size of their texts.
pub struct Texts<'o> {
    pub options: &'o PassageOptions,
    most: usize,
    recent: Mutex<Vec<(String, Arc<Prepared>)>>,
    unread: Mutex<BTreeMap<String, Problem>>,
}

impl<'o> Texts<'o> {
    /// Keeps so many.
    pub fn new(options: &'o PassageOptions, most: usize) -> Self {
        Self { options, most, recent: Mutex::default(), unread: Mutex::default() }
    }

    /// None if it cannot be read; why is remembered, and it is not tried again.
    pub fn get(&self, id: &str) -> Option<Arc<Prepared>> {
        if let Some(known) = self.known(id) {
            return Some(known);
        }
        if lock(&self.unread).contains_key(id) {
            return None;
        }
        match self.options.prepared(id) {
            Ok(read) => {
                let (read, mut recent) = (Arc::new(read), lock(&self.recent));
                if recent.len() >= self.most.max(1) {
                    recent.remove(0);
                }
                recent.push((id.to_owned(), read.clone()));
                Some(read)
            }
            Err(problem) => {
                lock(&self.unread).insert(id.to_owned(), problem);
                None
            }
        }
    }

    fn known(&self, id: &str) -> Option<Arc<Prepared>> {
        let mut recent = lock(&self.recent);
        let at = recent.iter().position(|(known, _)| known == id)?;
        let known = recent.remove(at);
        recent.push(known.clone());
        Some(known.1)
    }

    /// Tells of all that could not be read, by id; gives their number.
    pub fn tell_unread(&self, watch: &mut dyn Watch) -> u64 {
        let unread = lock(&self.unread);
        unread.values().for_each(|problem| watch.problem(problem));
        unread.len() as u64
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
