//! The indexes that a server searches, each at its newest generation.
//!
//! A manifest is looked at every second. If it has changed, the index is opened again, and later
//! requests search the new generation; requests under way keep the one that they began with.

use super::workers::Workers;
use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        parallel::lock,
    },
    commands::IndexSearcher,
    history::backend::ProblemReporter,
    index::Index,
    text::corpus,
};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

/// How often manifests are looked at.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

/// An index to be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexOptions {
    /// What requests call it.
    pub name: String,
    /// Its directory.
    pub directory: PathBuf,
    /// Where its documents are: directories, and files with many documents. Without any, passages
    /// cannot be asked for.
    pub corpus: Vec<PathBuf>,
}

/// Parses `IDX`, which gets the name of its directory without its ending, and `NAME=IDX`.
impl FromStr for IndexOptions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, directory) = match text.split_once('=') {
            Some((name, directory)) if !name.contains('/') => (name.to_owned(), directory),
            _ => {
                let name = Path::new(text).file_stem();
                let name = name.and_then(|name| name.to_str());
                (name.unwrap_or_default().to_owned(), text)
            }
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || directory.is_empty() || !name.bytes().all(is_plain) {
            return Err(format!(
                "'{text}' does not give a name of letters, digits, '-', '_' and '.'; say NAME=IDX"
            ));
        }
        Ok(Self {
            name,
            directory: directory.into(),
            corpus: Vec::new(),
        })
    }
}

/// All indexes of a server.
pub struct ServedIndexes {
    by_name: BTreeMap<String, ServedIndex>,
    report: ProblemReporter,
}

/// An index, and what its manifest looked like when it was opened.
pub struct ServedIndex {
    options: IndexOptions,
    reading: corpus::Options,
    current: RwLock<Arc<IndexSearcher>>,
    seen: Mutex<SeenManifest>,
}

#[derive(Default)]
struct SeenManifest {
    /// The inode, size and time of the file.
    file: Option<(u64, u64, i64, i64)>,
    /// The last problem, so that it is reported once.
    problem: Option<String>,
}

impl ServedIndexes {
    /// Opens all indexes.
    pub fn open(
        options: &[IndexOptions],
        reading: &corpus::Options,
        report: ProblemReporter,
    ) -> Result<Self> {
        let mut by_name = BTreeMap::new();
        for one in options {
            let index = ServedIndex::open(one.clone(), reading)?;
            if by_name.insert(one.name.clone(), index).is_some() {
                return Err(Error::Usage(format!(
                    "two indexes are called '{}'; name one of them otherwise, as NAME=IDX",
                    one.name
                )));
            }
        }
        Ok(Self { by_name, report })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ServedIndex)> {
        self.by_name
            .iter()
            .map(|(name, index)| (name.as_str(), index))
    }

    /// An index by name; without a name the only one.
    pub fn get(&self, name: Option<&str>) -> Result<(&str, &ServedIndex), String> {
        let names = || {
            let names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
            names.join(", ")
        };
        let found = match name {
            Some(name) => self.by_name.get_key_value(name),
            None if self.by_name.len() > 1 => {
                return Err(format!(
                    "the field 'index' is missing; it is one of {}",
                    names()
                ));
            }
            None => self.by_name.first_key_value(),
        };
        let (name, index) = found.ok_or_else(|| match name {
            Some(name) if !self.by_name.is_empty() => format!(
                "the field 'index' is '{}', it must be one of {}",
                name.escape_debug(),
                names()
            ),
            _ => "this server has no index".to_owned(),
        })?;
        Ok((name, index))
    }

    /// Opens the indexes whose manifests have changed; with `all`, looks at each more closely.
    pub async fn refresh(self: &Arc<Self>, workers: &Workers, all: bool) {
        let this = self.clone();
        // A task that does not run now runs in a second.
        let _ = workers
            .run(move || {
                for index in this.by_name.values() {
                    if let Some(problem) = index.refresh(all) {
                        (this.report)(&problem);
                    }
                }
            })
            .await;
    }
}

impl ServedIndex {
    fn open(options: IndexOptions, reading: &corpus::Options) -> Result<Self> {
        let file = manifest_file(&options.directory);
        let searcher = open_searcher(&options, reading)?;
        Ok(Self {
            current: RwLock::new(Arc::new(searcher)),
            reading: reading.clone(),
            options,
            seen: Mutex::new(SeenManifest {
                file,
                problem: None,
            }),
        })
    }

    /// The newest generation.
    pub fn current(&self) -> Arc<IndexSearcher> {
        let current = self.current.read();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where its documents are.
    pub fn corpus(&self) -> &[PathBuf] {
        &self.options.corpus
    }

    /// Opens a new generation, if there is one. An index that cannot be opened is reported once;
    /// until it can, the old generation answers.
    fn refresh(&self, all: bool) -> Option<Problem> {
        let mut seen = lock(&self.seen);
        let file = manifest_file(&self.options.directory);
        if file == seen.file && !all {
            return None;
        }
        match open_searcher(&self.options, &self.reading) {
            Ok(searcher) => {
                (seen.file, seen.problem) = (file, None);
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                *current = Arc::new(searcher);
                None
            }
            Err(error) => {
                let what = error.to_string();
                if seen.problem.as_ref() == Some(&what) {
                    return None;
                }
                seen.problem = Some(what.clone());
                Some(Problem::new(
                    Place::path(&self.options.directory),
                    format!("{what}; the service goes on with the generation that it has"),
                ))
            }
        }
    }
}

fn open_searcher(options: &IndexOptions, reading: &corpus::Options) -> Result<IndexSearcher> {
    let index = Index::open(&options.directory)?;
    IndexSearcher::new(index, &options.corpus, reading)
}

fn manifest_file(directory: &Path) -> Option<(u64, u64, i64, i64)> {
    let file = fs::metadata(directory.join("manifest.json")).ok()?;
    Some((file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_have_the_names_of_their_files_or_others() {
        let parse = |text: &str| {
            text.parse::<IndexOptions>()
                .map(|index| (index.name, index.directory.display().to_string()))
        };
        let named = |name: &str, directory: &str| Ok((name.to_owned(), directory.to_owned()));
        assert_eq!(parse("my.idx"), named("my", "my.idx"));
        assert_eq!(parse("/x/web-2.idx"), named("web-2", "/x/web-2.idx"));
        assert_eq!(parse("a=/x/y.idx"), named("a", "/x/y.idx"));
        assert_eq!(parse("./x=y/z.idx"), named("z", "./x=y/z.idx"));
        for text in ["", "=x", "a=", "a b=x", "/", "né.idx"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
