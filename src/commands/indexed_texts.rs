//! Reads the texts of an index's documents again.

use crate::base::num::ToU64;
use crate::base::setting::Setting;
use crate::{
    base::error::{Place, Problem},
    index::Index,
    text::{
        corpus::{self, DocumentLocations, FileEntry},
        stream::Tokens,
        token::SchemeTokenizer,
    },
};
use std::{
    collections::HashMap,
    io,
    ops::Deref,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::SystemTime,
};

/// The documents of a file, which is read when the first of them is asked for.
type ContainerTexts = OnceLock<Result<DocumentLocations, String>>;

/// Reads documents by id. An id is the path of a file below one of the given directories, or below the current one; paths that lead out of
/// it are refused. A document that is not found there is looked up in the files of the corpus, which are scanned once, when the first
/// document is missing.
pub struct IndexedTexts<'i> {
    index: IndexHandle<'i>,
    /// Where to look: directories, and files with a document a line.
    corpus: Vec<PathBuf>,
    /// The directories among them.
    roots: Vec<PathBuf>,
    options: corpus::Options,
    places: OnceLock<Result<DocumentLocations, String>>,
    /// Files that ids lead into, such as archives and tables.
    containers: Mutex<HashMap<String, Arc<ContainerTexts>>>,
    tokenize: SchemeTokenizer,
}

/// An index that is borrowed or shared.
pub enum IndexHandle<'i> {
    /// Borrowed.
    Borrowed(&'i Index),
    /// Shared with others, for as long as any of them needs it.
    Shared(Arc<Index>),
}

impl Deref for IndexHandle<'_> {
    type Target = Index;

    fn deref(&self) -> &Index {
        match self {
            Self::Borrowed(index) => index,
            Self::Shared(index) => index,
        }
    }
}

impl<'i> From<&'i Index> for IndexHandle<'i> {
    fn from(index: &'i Index) -> Self {
        Self::Borrowed(index)
    }
}

impl From<Arc<Index>> for IndexHandle<'_> {
    fn from(index: Arc<Index>) -> Self {
        Self::Shared(index)
    }
}

/// Why there is no text.
pub enum UnreadableText {
    /// It cannot be read.
    Missing(Problem),
    /// It was changed since it was indexed.
    Changed(Problem),
}

impl UnreadableText {
    /// The message about it.
    pub fn into_problem(self) -> Problem {
        match self {
            Self::Missing(problem) | Self::Changed(problem) => problem,
        }
    }
}

impl<'i> IndexedTexts<'i> {
    /// `options` say how files are read: the fields of NDJSON, what to do about text that is not UTF-8.
    pub fn new(
        index: impl Into<IndexHandle<'i>>,
        corpus: &[PathBuf],
        options: &corpus::Options,
    ) -> Self {
        let index = index.into();
        let options = corpus::Options {
            paths: corpus.to_vec(),
            files_from: None,
            keep_markup: options.keep_markup || index.scheme.tokens.strips_html(),
            ..options.clone()
        };
        let roots = if corpus.is_empty() {
            vec![PathBuf::new()]
        } else {
            corpus
                .iter()
                .filter(|path| path.is_dir())
                .cloned()
                .collect()
        };
        let tokenize = SchemeTokenizer::new(&index.scheme.tokens);
        Self {
            index,
            corpus: corpus.to_vec(),
            roots,
            options,
            places: OnceLock::new(),
            containers: Mutex::default(),
            tokenize,
        }
    }

    /// The text of a document, as it was indexed.
    pub fn read(&self, id: &str) -> Result<String, UnreadableText> {
        let text = self.text(id).map_err(UnreadableText::Missing)?;
        if self.is_changed(id, &text) {
            let what = "the text is not the one that was indexed, and is left out; dedup-index sync brings the index up to date";
            return Err(UnreadableText::Changed(Problem::new(Place::file(id), what)));
        }
        Ok(text)
    }

    /// When the file of a document was changed last, be it one document or many; none if there is no such file.
    pub fn modified(&self, id: &str) -> Option<SystemTime> {
        let of_file = |name: &str| {
            let found = corpus::find_beneath(&self.roots, name).ok()?;
            found.file.metadata().ok()?.modified().ok()
        };
        of_file(id).or_else(|| corpus::containers_of(id).find_map(of_file))
    }

    fn text(&self, id: &str) -> Result<String, Problem> {
        let (path, error) = match corpus::find_beneath(&self.roots, id) {
            Ok(corpus::FileBeneath { root, name, file }) => {
                let path = root.join(name);
                let unread = |error: io::Error| Problem::new(Place::path(&path), error.to_string());
                return corpus::read_open_text(file, &path, &self.options).map_err(unread);
            }
            Err(refused) => refused,
        };
        if let Some(text) = self.text_in_container(id)? {
            return Ok(text);
        }
        if self.corpus.is_empty() {
            let remedy = Setting::Corpus.to("PATH");
            return Err(Problem::new(
                Place::path(&path),
                format!("{error}; say where the documents are with {remedy}"),
            ));
        }
        let names = || {
            self.corpus
                .iter()
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
                .join(", ")
        };
        match self.places() {
            Err(what) => Err(Problem::new(Place::file(names()), what.clone())),
            Ok(places) => match places.text(id)? {
                Some(text) => Ok(text),
                None if self.corpus == self.roots && self.roots.len() == 1 => {
                    Err(Problem::new(Place::path(&path), error.to_string()))
                }
                None => Err(Problem::new(
                    Place::file(names()),
                    format!("there is no document '{id}' in it"),
                )),
            },
        }
    }

    /// The text of a member of an archive, or of a record whose id is that of its file and a number.
    fn text_in_container(&self, id: &str) -> Result<Option<String>, Problem> {
        let open = |name: &str| {
            let corpus::FileBeneath {
                root, name: way, ..
            } = corpus::find_beneath(&self.roots, name).ok()?;
            FileEntry::beneath(&root, &way, name).ok()
        };
        let found = corpus::containers_of(id).find_map(|name| Some((name, open(name)?)));
        let Some((name, entry)) = found else {
            return Ok(None);
        };
        let container = {
            let mut containers = self
                .containers
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            containers.entry(name.to_owned()).or_default().clone()
        };
        let is_wanted = |id: &str| Ok(self.index.find_id(id)?.is_some());
        let places = container.get_or_init(|| {
            DocumentLocations::find_in_file(entry, &self.options, is_wanted)
                .map_err(|error| error.to_string())
        });
        match places {
            Ok(places) => places.text(id),
            Err(what) => Err(Problem::new(Place::file(name), what.clone())),
        }
    }

    fn places(&self) -> &Result<DocumentLocations, String> {
        self.places.get_or_init(|| {
            let is_wanted = |id: &str| Ok(self.index.find_id(id)?.is_some());
            DocumentLocations::find(&self.options, is_wanted).map_err(|error| error.to_string())
        })
    }

    /// What could not be read of the corpus.
    pub fn problems(&self) -> &[Problem] {
        self.places
            .get()
            .and_then(|places| places.as_ref().ok())
            .map_or(&[], DocumentLocations::problems)
    }

    /// Compares the hash over the tokens, or their number if the stream of another program had no hash.
    fn is_changed(&self, id: &str, text: &str) -> bool {
        let row = self
            .index
            .find_id(id)
            .ok()
            .flatten()
            .and_then(|at| self.index.row(at).ok());
        let Some(row) = row else { return false };
        let mut tokens = Tokens::default();
        let is_same = |tokens: &Tokens| {
            row.hash.map_or_else(
                || tokens.len().to_u64() == u64::from(row.tokens),
                |hash| tokens.hash() == hash,
            )
        };
        self.tokenize.clone().tokenize(text, &mut tokens).is_ok() && !is_same(&tokens)
    }
}
