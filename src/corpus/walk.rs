//! Finds the files to read, in a fixed order.
//!
//! Paths come as given; a directory is walked with the names in each directory sorted by byte, hidden
//! files left out, symbolic links not followed. Memory grows with the depth of the tree and the size of
//! its largest directory, not with the number of files.

use super::Options;
use crate::error::{Error, Place, Problem, Result};
use std::{
    fs::{self, File, Metadata},
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};
use walkdir::{DirEntry, FilterEntry, IntoIter, WalkDir};

/// A file to read.
#[derive(Debug, Clone)]
pub struct Entry {
    pub path: PathBuf,
    /// What its documents are called, and what messages call it.
    pub id: Arc<str>,
    /// Given by the user, not found in a directory: it is read whatever it holds.
    pub is_named: bool,
    pub is_regular: bool,
    pub bytes: u64,
}

impl Entry {
    pub fn stdin() -> Self {
        Self { path: "-".into(), id: "-".into(), is_named: true, is_regular: false, bytes: 0 }
    }

    pub fn is_stdin(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// For messages: stdin by name.
    pub fn name(&self) -> Arc<str> {
        if self.is_stdin() { "stdin".into() } else { self.path.display().to_string().into() }
    }
}

type Roots = Box<dyn Iterator<Item = Result<PathBuf, Problem>> + Send>;
type Walk = FilterEntry<IntoIter, fn(&DirEntry) -> bool>;

/// Every file that the options name, in order.
pub struct Entries {
    roots: Roots,
    walk: Option<(PathBuf, Walk)>,
    relative: bool,
}

impl Entries {
    pub fn new(options: &Options) -> Result<Self> {
        let mut paths = options.paths.clone();
        if paths.is_empty() && options.files_from.is_none() {
            paths.push("-".into());
        }
        let mut roots: Roots = Box::new(paths.into_iter().map(Ok));
        if let Some(list) = &options.files_from {
            roots = Box::new(roots.chain(listed(list, if options.nul_separated { 0 } else { b'\n' })?));
        }
        Ok(Self { roots, walk: None, relative: options.relative })
    }

    fn open_root(&mut self, path: PathBuf) -> Option<Result<Entry, Problem>> {
        if path.as_os_str() == "-" {
            return Some(Ok(Entry::stdin()));
        }
        match fs::metadata(&path) {
            Err(error) => Some(Err(Problem::new(Place::path(&path), error.to_string()))),
            Ok(metadata) if metadata.is_dir() => {
                let walk = WalkDir::new(&path).sort_by_file_name().into_iter();
                self.walk = Some((path, walk.filter_entry(is_visible)));
                None
            }
            Ok(metadata) => Some(entry(path.clone(), &path, &metadata, true)),
        }
    }

    fn walk_on(&mut self) -> Option<Result<Entry, Problem>> {
        let (root, walk) = self.walk.as_mut()?;
        let step = walk.by_ref().find(|step| step.as_ref().map_or(true, |found| found.file_type().is_file()));
        match step {
            None => {
                self.walk = None;
                None
            }
            Some(Err(error)) => Some(Err(walk_problem(&error, root))),
            Some(Ok(found)) => Some(match found.metadata() {
                Err(error) => Err(walk_problem(&error, root)),
                Ok(metadata) => {
                    let id = if self.relative { found.path().strip_prefix(root).unwrap_or(found.path()) } else { found.path() };
                    entry(found.path().to_owned(), id, &metadata, false)
                }
            }),
        }
    }
}

impl Iterator for Entries {
    type Item = Result<Entry, Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(found) = self.walk_on() {
                return Some(found);
            }
            let found = match self.roots.next()? {
                Ok(path) => self.open_root(path),
                Err(problem) => Some(Err(problem)),
            };
            if found.is_some() {
                return found;
            }
        }
    }
}

/// The size of all files together, as far as it can be told without reading: for a progress bar.
pub fn total_bytes(options: &Options) -> Option<u64> {
    if options.files_from.as_ref().is_some_and(|list| list.as_os_str() == "-") {
        return None;
    }
    let sizes = Entries::new(options).ok()?.filter_map(Result::ok);
    sizes.map(|entry| entry.is_regular.then_some(entry.bytes)).sum()
}

fn is_visible(entry: &DirEntry) -> bool {
    entry.depth() == 0 || !entry.file_name().as_encoded_bytes().starts_with(b".")
}

fn entry(path: PathBuf, id: &Path, metadata: &Metadata, is_named: bool) -> Result<Entry, Problem> {
    let Some(id) = id.to_str() else {
        return Err(Problem::new(
            Place::path(&path),
            "the file's name is not UTF-8, so it cannot be a document id; rename it, or feed its text as NDJSON",
        ));
    };
    let id = id.into();
    Ok(Entry { path, id, is_named, is_regular: metadata.is_file(), bytes: metadata.len() })
}

fn walk_problem(error: &walkdir::Error, root: &Path) -> Problem {
    let what = error.io_error().map_or_else(|| error.to_string(), io::Error::to_string);
    Problem::new(Place::path(error.path().unwrap_or(root)), what)
}

/// The paths in a list, one after the other as they are asked for.
fn listed(list: &Path, separator: u8) -> Result<impl Iterator<Item = Result<PathBuf, Problem>> + Send + use<>> {
    let input: Box<dyn BufRead + Send> = if list.as_os_str() == "-" {
        Box::new(BufReader::new(io::stdin()))
    } else {
        Box::new(BufReader::new(File::open(list).map_err(|error| Error::io(list.display(), error))?))
    };
    let name: Arc<str> = list.display().to_string().into();
    let lines = input.split(separator).zip(1..).filter_map(move |(line, number)| match line {
        Ok(line) if line.is_empty() => None,
        Ok(line) => Some(path_of(line).ok_or_else(|| Problem::new(Place::line(&name, number), "the path is not UTF-8"))),
        Err(error) => Some(Err(Problem::new(Place::line(&name, number), error.to_string()))),
    });
    Ok(lines)
}

#[cfg(unix)]
fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    Some(std::ffi::OsString::from_vec(bytes).into())
}

#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    Some(String::from_utf8(bytes).ok()?.into())
}
