//! Finds the files to read, in a fixed order.
//!
//! Paths come as given; a directory is walked with the names in each directory sorted by byte. What the user excludes, hidden files and
//! directories, symbolic links, and what is no regular file are left out, and counted: they are never opened. Memory grows with the depth of the tree and the size of
//! its largest directory, not with the number of files.

use super::{
    Options, Records,
    account::SkippedFile,
    open_beneath::open_beneath,
    part::FilePart,
    selection::Selection,
    similar_path::did_you_mean,
    skipped_kind::{SkippedKind, extension},
    slice::CorpusSlice,
    unpack::{Once, Packing, inner_name},
};
use crate::base::error::{Error, Place, Problem, Result};
use std::{
    ffi::OsString,
    fs::{self, File, Metadata},
    io::{self, BufRead, BufReader, Read},
    os::unix::{ffi::OsStringExt, fs::MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
};
use walkdir::{DirEntry, IntoIter, WalkDir};

/// A file to read.
#[derive(Debug, Clone)]
pub struct FileEntry {
    /// Its path.
    pub path: PathBuf,
    /// Where it is read from, if not from there: a copy on another machine.
    pub copy: Option<PathBuf>,
    /// The directory that it must not lead out of, and the way from there, if its name came from outside.
    pub beneath: Option<(PathBuf, PathBuf)>,
    /// What its documents are called, and what messages call it.
    pub id: Arc<str>,
    /// Given by the user, not found in a directory: it is read whatever it holds.
    pub is_named: bool,
    /// Not a pipe, a terminal or a device.
    pub is_regular: bool,
    /// Its size on disk.
    pub bytes: u64,
    /// When its content, and what the file system says of it, last changed: nanoseconds since 1970.
    pub modified: [i64; 2],
    /// The part of it that is read, if it is not all of it.
    pub part: Option<Arc<FilePart>>,
}

impl FileEntry {
    /// The standard input.
    pub fn stdin() -> Self {
        Self {
            path: "-".into(),
            copy: None,
            beneath: None,
            id: "-".into(),
            is_named: true,
            is_regular: false,
            bytes: 0,
            modified: [0; 2],
            part: None,
        }
    }

    /// A file that is there under a path, as a document of another name.
    pub fn named(path: PathBuf, id: &str) -> Result<Self, Problem> {
        let metadata = fs::metadata(&path)
            .map_err(|error| Problem::new(Place::path(&path), error.to_string()))?;
        entry(path, Path::new(id), &metadata, true)
    }

    /// A file that is open already; messages call it by its path.
    pub fn of_open(path: &Path, file: &File) -> io::Result<Self> {
        entry(path.to_owned(), Path::new(""), &file.metadata()?, true)
            .map_err(|problem| io::Error::other(problem.what))
    }

    /// A regular file below a directory, whose id came from outside.
    pub fn beneath(root: &Path, name: &Path, id: &str) -> io::Result<Self> {
        let metadata = open_beneath(root, name)?.metadata()?;
        let entry = entry(root.join(name), Path::new(id), &metadata, true)
            .map_err(|problem| io::Error::other(problem.what))?;
        Ok(Self {
            beneath: Some((root.to_owned(), name.to_owned())),
            ..entry
        })
    }

    /// The same, but it is read from a copy.
    pub fn copied(path: PathBuf, id: &str, copy: PathBuf) -> Result<Self, Problem> {
        let metadata = fs::metadata(&copy)
            .map_err(|error| Problem::new(Place::path(&path), error.to_string()))?;
        Ok(Self {
            copy: Some(copy),
            ..entry(path, Path::new(id), &metadata, true)?
        })
    }

    /// Opens the file.
    pub fn open(&self) -> io::Result<File> {
        match &self.beneath {
            Some((root, name)) => open_beneath(root, name),
            None => File::open(self.copy.as_ref().unwrap_or(&self.path)),
        }
    }

    /// How many of its bytes are read.
    pub fn bytes_to_read(&self) -> u64 {
        self.part.as_ref().map_or(self.bytes, |part| part.bytes())
    }

    /// Whether it is the standard input.
    pub fn is_stdin(&self) -> bool {
        is_stdin(&self.path)
    }

    /// For messages: stdin by name.
    pub fn name(&self) -> Arc<str> {
        if self.is_stdin() {
            "stdin".into()
        } else {
            self.path.display().to_string().into()
        }
    }
}

type Roots = Box<dyn Iterator<Item = Result<PathBuf>> + Send>;

/// The next path of a corpus, in order.
#[derive(Debug)]
pub enum WalkItem {
    /// A file to read.
    File(FileEntry),
    /// A path that cannot be read; the others can be.
    Problem(Problem),
    /// A file that is not read.
    Skipped(SkippedFile),
    /// The rest of the list of paths cannot be read, so that files are missing.
    Failed(Error),
}

impl From<Result<FileEntry, Problem>> for WalkItem {
    fn from(found: Result<FileEntry, Problem>) -> Self {
        found.map_or_else(Self::Problem, Self::File)
    }
}

/// A directory that is being walked.
struct DirectoryWalk {
    root: PathBuf,
    entries: IntoIter,
    selection: Selection,
}

/// Every file that the options name, in order.
pub struct CorpusWalk {
    /// Files that an earlier walk found.
    listed: Box<dyn Iterator<Item = WalkItem> + Send>,
    roots: Roots,
    walk: Option<DirectoryWalk>,
    options: Options,
    /// The list of paths is on stdin, so no document can be.
    stdin_is_list: bool,
}

const STDIN_IS_LIST: &str =
    "stdin is the list of files, it cannot be a document as well; give the list as a file";

impl CorpusWalk {
    /// Walks the paths that the options name.
    pub fn new(options: &Options) -> Result<Self> {
        let mut paths = options.paths.clone();
        let slice = options
            .slice
            .as_deref()
            .map(CorpusSlice::open)
            .transpose()?;
        if paths.is_empty() && options.files_from.is_none() && slice.is_none() {
            paths.push("-".into());
        }
        let stdin_is_list = options.files_from.as_deref().is_some_and(is_stdin);
        if stdin_is_list && paths.iter().any(|path| is_stdin(path)) {
            return Err(Error::Usage(STDIN_IS_LIST.to_owned()));
        }
        let mut roots: Roots = Box::new(paths.into_iter().map(Ok));
        if let Some(list) = &options.files_from {
            roots =
                Box::new(roots.chain(listed(list, if options.nul_separated { 0 } else { b'\n' })?));
        }
        let copies = options.copies.clone();
        let listed = Box::new(
            slice
                .into_iter()
                .flat_map(move |slice| slice.entries(copies.clone())),
        );
        Ok(Self {
            listed,
            roots,
            walk: None,
            options: options.clone(),
            stdin_is_list,
        })
    }

    fn open_root(&mut self, path: PathBuf) -> Result<Option<WalkItem>> {
        if is_stdin(&path) {
            return Ok(Some(if self.stdin_is_list {
                WalkItem::Problem(Problem::new(Place::path(&path), STDIN_IS_LIST))
            } else {
                WalkItem::File(FileEntry::stdin())
            }));
        }
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) => {
                let what = format!("{error}{}", did_you_mean(&path));
                return Ok(Some(WalkItem::Problem(Problem::new(
                    Place::path(&path),
                    what,
                ))));
            }
        };
        if metadata.is_dir() && is_our_directory(&path) {
            return Ok(Some(WalkItem::Problem(Problem::new(
                Place::path(&path),
                NO_DOCUMENTS,
            ))));
        }
        if metadata.is_dir() {
            self.walk = Some(DirectoryWalk {
                entries: WalkDir::new(&path).sort_by_file_name().into_iter(),
                selection: Selection::new(&self.options, &path)?,
                root: path,
            });
            return Ok(None);
        }
        let selection = Selection::new(&self.options, Path::new(""))?;
        Ok(Some(match selection.skip_file(&path) {
            Some(kind) => WalkItem::Skipped(skipped(&path, kind)),
            None => entry(path.clone(), &path, &metadata, true).into(),
        }))
    }

    fn next_in_walk(&mut self) -> Option<WalkItem> {
        let DirectoryWalk {
            root,
            entries,
            selection,
        } = self.walk.as_mut()?;
        loop {
            let found = match entries.next() {
                None => {
                    self.walk = None;
                    return None;
                }
                Some(Err(error)) => return Some(WalkItem::Problem(walk_problem(&error, root))),
                Some(Ok(found)) => found,
            };
            // The root is a directory, or a link to one.
            let is_root = found.depth() == 0;
            let is_dir = is_root || found.file_type().is_dir();
            let excluded = selection.skip_kind(found.path(), found.depth(), is_dir);
            let special = || special_kind(&found).filter(|_| !is_root);
            let is_ours = || is_dir && is_our_directory(found.path());
            let index = || is_ours().then_some(SkippedKind::Index);
            if let Some(kind) = excluded.or_else(special).or_else(index) {
                if is_dir {
                    entries.skip_current_dir();
                }
                return Some(WalkItem::Skipped(skipped(found.path(), kind)));
            }
            if is_dir {
                continue;
            }
            return Some(match found.metadata() {
                Err(error) => WalkItem::Problem(walk_problem(&error, root)),
                Ok(metadata) => {
                    let id = if self.options.relative {
                        found.path().strip_prefix(root).unwrap_or(found.path())
                    } else {
                        found.path()
                    };
                    entry(found.path().to_owned(), id, &metadata, false).into()
                }
            });
        }
    }
}

fn skipped(path: &Path, kind: SkippedKind) -> SkippedFile {
    SkippedFile::new(path.display().to_string(), kind, Packing::Plain, false)
}

const NO_DOCUMENTS: &str =
    "is an index or a history, not documents; give the files that it was made of";

/// Whether dedup-index or dedup-query history made a directory: its files are no documents.
fn is_our_directory(path: &Path) -> bool {
    let mut start = [0; 64];
    let Ok(mut manifest) = File::open(path.join("manifest.json")) else {
        return false;
    };
    let read = manifest.read(&mut start).unwrap_or_default();
    let start = String::from_utf8_lossy(&start[..read]);
    let words: String = start.split_whitespace().collect();
    ["index", "history"]
        .iter()
        .any(|kind| words.starts_with(&format!("{{\"dedup\":\"{kind}\"")))
}

/// Why something in a directory is not looked at, whatever its name is.
fn special_kind(found: &DirEntry) -> Option<SkippedKind> {
    let kind = found.file_type();
    if kind.is_symlink() {
        (found.depth() > 0).then_some(SkippedKind::Link)
    } else {
        (!kind.is_file() && !kind.is_dir()).then_some(SkippedKind::Special)
    }
}

impl Iterator for CorpusWalk {
    type Item = WalkItem;

    fn next(&mut self) -> Option<WalkItem> {
        if let Some(found) = self.listed.next() {
            return Some(found);
        }
        loop {
            if let Some(found) = self.next_in_walk() {
                return Some(found);
            }
            match self.roots.next()? {
                Err(error) => return Some(WalkItem::Failed(error)),
                Ok(path) => match self.open_root(path) {
                    Err(error) => return Some(WalkItem::Failed(error)),
                    Ok(Some(found)) => return Some(found),
                    Ok(None) => {}
                },
            }
        }
    }
}

/// The size of all files together, as far as it can be told without reading: for a progress bar.
///
/// A list that is a pipe can be read but once, and not for this.
pub fn total_bytes(options: &Options) -> Option<u64> {
    let is_regular = |list: &PathBuf| fs::metadata(list).is_ok_and(|metadata| metadata.is_file());
    if options
        .files_from
        .as_ref()
        .is_some_and(|list| is_stdin(list) || !is_regular(list))
    {
        return None;
    }
    CorpusWalk::new(options)
        .ok()?
        .filter_map(|found| match found {
            // How much is in a packed file of many records cannot be told from its size.
            WalkItem::File(entry) => {
                Some((entry.is_regular && !is_of_unknown_size(&entry.path)).then_some(entry.bytes))
            }
            WalkItem::Problem(_) | WalkItem::Skipped(_) | WalkItem::Failed(_) => None,
        })
        .sum()
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Whether the size of a file does not tell how much is in it: archives, tables, and packed files of many records.
fn is_of_unknown_size(path: &Path) -> bool {
    let inner = inner_name(path);
    let ending = extension(&inner).unwrap_or_default();
    let is_packed = Packing::of_name(path) != Packing::Plain;
    matches!(ending.as_str(), "tar" | "zip" | "parquet")
        || is_packed && !matches!(Records::of_name(&inner), Some(Records::Text))
}

fn entry(
    path: PathBuf,
    id: &Path,
    metadata: &Metadata,
    is_named: bool,
) -> Result<FileEntry, Problem> {
    let Some(id) = id.to_str() else {
        return Err(Problem::new(
            Place::path(&path),
            "the file's name is not UTF-8, so it cannot be a document id; rename it, or feed its text as NDJSON",
        ));
    };
    let id = id.into();
    let nanoseconds =
        |seconds: i64, more: i64| seconds.saturating_mul(1_000_000_000).saturating_add(more);
    let modified = [
        nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
    ];
    Ok(FileEntry {
        path,
        copy: None,
        beneath: None,
        id,
        is_named,
        is_regular: metadata.is_file(),
        bytes: metadata.len(),
        modified,
        part: None,
    })
}

fn walk_problem(error: &walkdir::Error, root: &Path) -> Problem {
    let what = error
        .io_error()
        .map_or_else(|| error.to_string(), io::Error::to_string);
    Problem::new(Place::path(error.path().unwrap_or(root)), what)
}

/// The paths in a list, one after the other as they are asked for; an error is the last of them.
fn listed(
    list: &Path,
    separator: u8,
) -> Result<impl Iterator<Item = Result<PathBuf>> + Send + use<>> {
    let input: Box<dyn BufRead + Send> = if is_stdin(list) {
        Box::new(BufReader::new(Once::new(io::stdin())))
    } else {
        Box::new(BufReader::new(
            File::open(list).map_err(|error| Error::io(list.display(), error))?,
        ))
    };
    let name = list.display().to_string();
    let mut lines = Some(input.split(separator));
    Ok(std::iter::from_fn(move || {
        let line = lines
            .as_mut()?
            .find(|line| line.as_ref().map_or(true, |line| !line.is_empty()));
        if !matches!(line, Some(Ok(_))) {
            lines = None;
        }
        Some(
            line?
                .map(|line| OsString::from_vec(line).into())
                .map_err(|error| Error::io(&name, error)),
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::ToU64;

    fn options(list: PathBuf) -> Options {
        Options {
            files_from: Some(list),
            ..Options::of_files(Vec::new())
        }
    }

    /// Opening a pipe would wait for its writer, and take what is for the run.
    #[test]
    fn a_list_in_a_pipe_is_not_read_for_its_sizes() {
        let dir = tempfile::tempdir().unwrap();
        let (file, pipe) = (dir.path().join("list"), dir.path().join("pipe"));
        fs::write(&file, file.to_str().unwrap()).unwrap();
        assert_eq!(
            total_bytes(&options(file.clone())),
            Some(file.to_str().unwrap().len().to_u64())
        );
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(total_bytes(&options(pipe)), None);
        assert_eq!(total_bytes(&options("-".into())), None);
    }
}
