//! The texts of an index's documents, from where they are now, and the passages that two of them share.

use super::{
    Watch,
    library::{Library, Read},
};
use crate::{
    corpus,
    error::{Place, Problem},
    exempt::Rules,
    index::Index,
    passage::{self, Passage, Prepared, Tally, align, in_chars},
    report::{Value, put_passages, put_tally},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How passages are sought and told of.
#[derive(Debug, Clone, Default)]
pub struct PassageOptions {
    pub passages: passage::Options,
    /// Spans count Unicode characters instead of bytes.
    pub in_chars: bool,
    /// How files are read: the fields of NDJSON, what to do about text that is not UTF-8.
    pub reading: corpus::Options,
    /// Where the documents of an index are: directories below which their ids are paths, and files with a document a line.
    pub corpus: Vec<PathBuf>,
    /// What does not count in a document that is judged, and in what it is compared with.
    pub rules: Rules,
    pub source_rules: Rules,
    /// Passages of fewer words in common do not count.
    pub min_match_words: u32,
}

/// What two documents share.
#[derive(Debug, Clone, PartialEq)]
pub struct Shared {
    /// The share of its words that are in passages.
    pub a_in_b: f64,
    pub b_in_a: f64,
    pub passages: Vec<Passage>,
    /// What the words of either are counted as.
    pub tallies: [Tally; 2],
}

impl PassageOptions {
    /// Whether something may not count: then records say what did.
    pub fn leaves_out(&self) -> bool {
        self.min_match_words > 0 || !self.rules.is_empty() || !self.source_rules.is_empty()
    }

    /// What a page says of what does not count, in sentences; `judged` is what it calls the document that is judged.
    pub fn notes(&self, judged: &'static str) -> Vec<String> {
        let of = |is_given: bool, is_of_both: bool| match (is_given, is_of_both) {
            (false, _) => None,
            (true, true) => Some("either text"),
            (true, false) => Some(judged),
        };
        let mut notes = Vec::new();
        if let Some(of) = of(self.rules.quotes, self.source_rules.quotes) {
            notes.push(format!("Words of {of} that stand in quotation marks, or in lines that begin with “>”, do not count. A quotation has five words or more."));
        }
        if let Some(of) = of(self.rules.bibliography, self.source_rules.bibliography) {
            notes.push(format!("The list of references of {of} does not count. It is recognised by its heading and by its shape."));
        }
        if !self.rules.base.is_empty() {
            notes.push("Text that was handed out to all, such as a template, does not count in either text.".to_owned());
        }
        if !notes.is_empty() {
            notes.push(
                "What does not count is in no passage and in no share: shares are of the words that are left. It is shown in grey."
                    .to_owned(),
            );
        }
        if self.min_match_words > 0 {
            notes.push(format!("Passages of fewer than {} words in common are left out.", self.min_match_words));
        }
        notes
    }

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
        let mut passages = align(a, b, &self.passages);
        passages.retain(|passage| passage.tokens >= self.min_match_words);
        let tallies = [a.tally(passages.iter().map(|passage| passage.a)), b.tally(passages.iter().map(|passage| passage.b))];
        Shared { a_in_b: tallies[0].share(), b_in_a: tallies[1].share(), passages, tallies }
    }

    /// Reads a file, without what does not count by these rules.
    pub fn prepared(&self, path: &str, rules: &Rules) -> Result<Prepared, Problem> {
        let text = corpus::read_text(Path::new(path), &self.reading);
        let text = text.map_err(|error| Problem::new(Place::file(path), error.to_string()))?;
        Ok(Prepared::without(text, &self.passages, rules))
    }
}

/// What records say of passages.
#[derive(Default)]
pub struct PassageParts {
    passages: Vec<u8>,
    tallies: [Vec<u8>; 2],
}

impl PassageParts {
    /// `with_tallies`: also what the words of either are counted as.
    pub fn put(&mut self, shared: &Shared, with_tallies: bool) {
        put_passages(&mut self.passages, &shared.passages);
        if with_tallies {
            self.tallies.iter_mut().zip(&shared.tallies).for_each(|(out, tally)| put_tally(out, tally));
        }
    }

    pub fn add_to<'p>(&'p self, fields: &mut Vec<(&'static str, Value<'p>)>) {
        for (name, tally) in ["a_words", "b_words"].into_iter().zip(&self.tallies).filter(|(_, tally)| !tally.is_empty()) {
            fields.push((name, Value::Ids(tally)));
        }
        fields.push(("passages", Value::Ids(&self.passages)));
    }
}

/// Documents that were asked for of late. They take some 20 times the size of their texts.
pub struct Texts<'o> {
    pub options: &'o PassageOptions,
    most: usize,
    library: Library<'o>,
    recent: Mutex<Vec<(String, Arc<Prepared>)>>,
    unread: Mutex<BTreeMap<String, Problem>>,
    changed: Mutex<BTreeSet<String>>,
}

impl<'o> Texts<'o> {
    /// Keeps so many.
    pub fn new(options: &'o PassageOptions, index: &'o Index, most: usize) -> Self {
        let library = Library::new(index, &options.corpus, &options.reading);
        Self { options, most, library, recent: Mutex::default(), unread: Mutex::default(), changed: Mutex::default() }
    }

    /// None if it cannot be read; why is remembered, and it is not tried again.
    pub fn get(&self, id: &str) -> Option<Arc<Prepared>> {
        if let Some(known) = self.known(id) {
            return Some(known);
        }
        if lock(&self.unread).contains_key(id) {
            return None;
        }
        match self.library.read(id) {
            Ok(Read { text, is_changed }) => {
                if is_changed {
                    lock(&self.changed).insert(id.to_owned());
                }
                let read = Prepared::without(text, &self.options.passages, &self.options.source_rules);
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

    /// Tells of all that could not be read, by id, and of all that was indexed with another text; gives their number.
    pub fn tell_unread(&self, watch: &mut dyn Watch) -> u64 {
        let (unread, changed) = (lock(&self.unread), lock(&self.changed));
        let told = |id: &String| {
            let what = "the text is not the one that was indexed; passages are of the text as it is now, dedup-index sync brings the index up to date";
            Problem::new(Place::file(id.as_str()), what)
        };
        self.library.problems().iter().chain(unread.values()).for_each(|problem| watch.problem(problem));
        changed.iter().for_each(|id| watch.problem(&told(id)));
        (self.library.problems().len() + unread.len() + changed.len()) as u64
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
