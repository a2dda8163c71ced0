//! Texts of an index's documents, prepared for alignment.

use super::{Observer, indexed_texts::IndexedTexts, passage_options::PassageOptions};
use crate::{
    align::PreparedText,
    base::{error::Problem, parallel::lock},
    index::Index,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::SystemTime,
};

/// A cache of the documents that were used last. Each takes about 20 times the size of its text.
pub struct TextCache<'o> {
    pub options: &'o PassageOptions,
    most: usize,
    library: Arc<IndexedTexts<'o>>,
    recent: Mutex<Vec<(String, Arc<PreparedText>)>>,
    unread: Mutex<BTreeMap<String, Problem>>,
}

impl<'o> TextCache<'o> {
    /// The number of documents to keep.
    pub fn new(options: &'o PassageOptions, index: &'o Index, most: usize) -> Self {
        let library = IndexedTexts::new(index, &options.corpus, &options.reading);
        Self::of_library(options, Arc::new(library), most)
    }

    /// A cache of texts that `library` reads.
    pub fn of_library(
        options: &'o PassageOptions,
        library: Arc<IndexedTexts<'o>>,
        most: usize,
    ) -> Self {
        Self {
            options,
            most,
            library,
            recent: Mutex::default(),
            unread: Mutex::default(),
        }
    }

    /// `None` if it cannot be read, or has changed since it was indexed. The reason is kept for the report, and the file is not tried again.
    pub fn get(&self, id: &str) -> Option<Arc<PreparedText>> {
        if let Some(known) = self.known(id) {
            return Some(known);
        }
        if lock(&self.unread).contains_key(id) {
            return None;
        }
        match self.library.read(id) {
            Ok(text) => {
                let read = PreparedText::with_exclusions(
                    text,
                    &self.options.passages,
                    &self.options.source_rules,
                );
                let (read, mut recent) = (Arc::new(read), lock(&self.recent));
                if recent.len() >= self.most.max(1) {
                    recent.remove(0);
                }
                recent.push((id.to_owned(), read.clone()));
                Some(read)
            }
            Err(unread) => {
                lock(&self.unread).insert(id.to_owned(), unread.into_problem());
                None
            }
        }
    }

    /// The text of a document, if it can be read; if not, nothing is reported.
    pub fn peek(&self, id: &str) -> Option<String> {
        self.library.read(id).ok()
    }

    /// When the file of a document was changed last.
    pub fn modified(&self, id: &str) -> Option<SystemTime> {
        self.library.modified(id)
    }

    /// Whether a document was wanted and could not be read.
    pub fn is_unread(&self, id: &str) -> bool {
        lock(&self.unread).contains_key(id)
    }

    fn known(&self, id: &str) -> Option<Arc<PreparedText>> {
        let mut recent = lock(&self.recent);
        let at = recent.iter().position(|(known, _)| known == id)?;
        let known = recent.remove(at);
        recent.push(known.clone());
        Some(known.1)
    }

    /// What could not be read, or was indexed with another text, by id.
    pub fn into_unread(self) -> Vec<Problem> {
        let mut unread = lock(&self.unread);
        std::mem::take(&mut *unread).into_values().collect()
    }

    /// Reports all that could not be read, or was indexed with another text, by id; returns their number. Where a text is missing, files of
    /// the corpus that could not be searched for it are reported too.
    pub fn report_unread(&self, observer: &mut dyn Observer) -> u64 {
        let unread = lock(&self.unread);
        let not_searched = if unread.is_empty() {
            &[]
        } else {
            self.library.problems()
        };
        not_searched
            .iter()
            .chain(unread.values())
            .for_each(|problem| observer.problem(problem));
        (not_searched.len() + unread.len()) as u64
    }
}
