//! The texts of an index's documents, from wherever they are now.

use super::tokenize::ToTokens;
use crate::{
    corpus::{self, Places},
    error::{Place, Problem},
    format::Tokens,
    index::Index,
};
use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// Reads documents by id. An id is the path of a file, below one of the directories if some are given; else it is looked for in the files of the corpus,
/// which are read once, when the first document is missing.
pub struct Library<'i> {
    index: &'i Index,
    /// Where to look: directories, and files with a document a line.
    corpus: Vec<PathBuf>,
    options: corpus::Options,
    places: OnceLock<Result<Places, String>>,
    tokenize: ToTokens,
}

/// A text, and whether it is another than was indexed.
pub struct Read {
    pub text: String,
    pub is_changed: bool,
}

impl<'i> Library<'i> {
    /// `options` say how files are read: the fields of NDJSON, what to do about text that is not UTF-8.
    pub fn new(index: &'i Index, corpus: &[PathBuf], options: &corpus::Options) -> Self {
        let options = corpus::Options { paths: corpus.to_vec(), files_from: None, ..options.clone() };
        Self { index, corpus: corpus.to_vec(), options, places: OnceLock::new(), tokenize: ToTokens::new(&index.scheme.tokens) }
    }

    pub fn read(&self, id: &str) -> Result<Read, Problem> {
        let text = self.text(id)?;
        let is_changed = self.is_changed(id, &text);
        Ok(Read { text, is_changed })
    }

    fn text(&self, id: &str) -> Result<String, Problem> {
        let file = |path: &Path| corpus::read_text(path, &self.options).map_err(|error| Problem::new(Place::path(path), error.to_string()));
        if self.corpus.is_empty() {
            return file(Path::new(id));
        }
        let mut below = self.corpus.iter().filter(|root| root.is_dir()).map(|root| root.join(id));
        if let Some(path) = below.clone().find(|path| path.is_file()) {
            return file(&path);
        }
        let places = self.places.get_or_init(|| {
            let is_wanted = |id: &str| Ok(self.index.find_id(id)?.is_some());
            Places::find(&self.options, is_wanted).map_err(|error| error.to_string())
        });
        let names = || self.corpus.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        match places {
            Err(what) => Err(Problem::new(Place::file(names()), what.clone())),
            Ok(places) => match (places.text(id)?, below.next()) {
                (Some(text), _) => Ok(text),
                (None, Some(path)) if self.corpus.len() == 1 => file(&path),
                (None, _) => Err(Problem::new(Place::file(names()), format!("there is no document '{id}' in it"))),
            },
        }
    }

    /// What could not be read of the corpus.
    pub fn problems(&self) -> &[Problem] {
        self.places.get().and_then(|places| places.as_ref().ok()).map_or(&[], Places::problems)
    }

    fn is_changed(&self, id: &str, text: &str) -> bool {
        let row = self.index.find_id(id).ok().flatten().and_then(|at| self.index.row(at).ok());
        let Some(hash) = row.and_then(|row| row.hash) else { return false };
        let mut tokens = Tokens::default();
        self.tokenize.clone().tokenize(text, &mut tokens).is_ok() && tokens.hash() != hash
    }
}
