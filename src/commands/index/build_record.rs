//! The record of the files that a task built; it is stored beside them.

use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        num::ToU64,
    },
    commands::Observer,
    index::FileSeal,
    text::corpus::{Account, LeftOutFile, SkippedFile, ends_a_file},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The name of the record.
pub const BUILD_RECORD: &str = "built.json";
/// Its name where only some of the files are present: those that were copied from the host that built them, as the others were not needed.
pub const PARTIAL_BUILD_RECORD: &str = "brought.json";

/// The files that a task built. It is written last, so where it exists all files do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildRecord {
    /// The task that the files were built for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The checksum of the slice that was read, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
    /// Messages about input that could not be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Files that were left out; those that are errors are problems as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOutFile>,
    /// The input that was read, and the input that was left out.
    pub account: Account,
    /// The files that could not be read to their ends.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub damaged: BTreeSet<String>,
    /// Name, size and seal of each file.
    pub files: Vec<FileSeal>,
    /// The same of files without a seal: those of other programs, and text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plain: Vec<PlainFile>,
}

/// A file without a seal, and the checksum of all its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlainFile {
    /// Its name in the directory.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The checksum of its bytes.
    pub checksum: String,
}

impl PlainFile {
    fn of(path: &Path) -> Result<Self> {
        let failed = |error| Error::io(path.display(), error);
        let name = path.file_name().and_then(|name| name.to_str());
        let (mut file, mut hash, mut bytes) =
            (File::open(path).map_err(failed)?, Xxh3::new(), 0_u64);
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let count = file.read(&mut buffer).map_err(failed)?;
            if count == 0 {
                break;
            }
            hash.update(&buffer[..count]);
            bytes += count.to_u64();
        }
        Ok(Self {
            name: name.unwrap_or_default().to_owned(),
            bytes,
            checksum: format!("{:016x}", hash.digest()),
        })
    }

    fn verify(&self, directory: &Path) -> Result<()> {
        let path = directory.join(&self.name);
        if Self::of(&path)? == *self {
            return Ok(());
        }
        let what = "not the file that was written; it was altered";
        Err(Error::damaged(Place::path(&path), what))
    }
}

const READ_BYTES: usize = 1 << 18;

#[derive(Serialize, Deserialize)]
struct Checked {
    #[serde(flatten)]
    built: BuildRecord,
    checksum: String,
}

impl BuildRecord {
    /// Reads the record of a directory, complete or partial.
    pub fn read(directory: &Path) -> Result<Self> {
        let (built, brought) = (
            directory.join(BUILD_RECORD),
            directory.join(PARTIAL_BUILD_RECORD),
        );
        let path = if !built.exists() && brought.exists() {
            brought
        } else {
            built
        };
        let bytes = fs::read(&path).map_err(|error| Error::io(path.display(), error))?;
        let checked: Checked = serde_json::from_slice(&bytes).map_err(|error| {
            Error::damaged(
                Place::path(&path),
                format!("not a record of what was built: {error}"),
            )
        })?;
        if checked.built.checksum() != checked.checksum {
            return Err(Error::damaged(
                Place::path(&path),
                "the record does not match its checksum; it was altered",
            ));
        }
        Ok(checked.built)
    }

    /// Writes the record of all files of a directory, which are sealed.
    pub(crate) fn write(mut self, directory: &Path) -> Result<()> {
        let files = files_of(directory)?;
        self.files = files
            .iter()
            .map(|file| FileSeal::of(file))
            .collect::<Result<_>>()?;
        self.put(directory)
    }

    /// The same for files without seals.
    pub(crate) fn write_plain(mut self, directory: &Path) -> Result<()> {
        let files = files_of(directory)?;
        self.plain = files
            .iter()
            .map(|file| PlainFile::of(file))
            .collect::<Result<_>>()?;
        self.put(directory)
    }

    fn put(self, directory: &Path) -> Result<()> {
        let path = directory.join(BUILD_RECORD);
        let failed = |error| Error::io(path.display(), error);
        let mut json = serde_json::to_vec_pretty(&Checked {
            checksum: self.checksum(),
            built: self,
        })
        .unwrap_or_default();
        json.push(b'\n');
        File::create(&path)
            .and_then(|mut file| file.write_all(&json))
            .map_err(failed)
    }

    /// Checks that every byte of every file is as it was written.
    pub fn verify(&self, directory: &Path) -> Result<()> {
        self.files
            .iter()
            .try_for_each(|file| file.open(directory)?.verify())?;
        self.plain
            .iter()
            .try_for_each(|file| file.verify(directory))
    }

    /// The names of all files.
    fn names(&self) -> impl Iterator<Item = &str> {
        let sealed = self.files.iter().map(|file| file.name.as_str());
        sealed.chain(self.plain.iter().map(|file| file.name.as_str()))
    }

    /// Checks that one of its files is present, and as it was written.
    pub fn is_whole(&self, directory: &Path, name: &Path) -> bool {
        let is_sealed_whole = self.files.iter().any(|file| {
            Path::new(&file.name) == name
                && file.open(directory).is_ok_and(|file| file.verify().is_ok())
        });
        let mut plain = self.plain.iter();
        is_sealed_whole
            || plain.any(|file| Path::new(&file.name) == name && file.verify(directory).is_ok())
    }

    /// Whether the files that are present are as they were written.
    pub fn is_piece(&self, directory: &Path) -> bool {
        let is_sound = |name: &str| {
            !directory.join(name).exists() || self.is_whole(directory, Path::new(name))
        };
        !directory.join(BUILD_RECORD).exists() && self.names().all(is_sound)
    }

    /// Makes a partial record the complete one, once all files were copied.
    pub fn settle(directory: &Path) -> Result<()> {
        let (built, brought) = (
            directory.join(BUILD_RECORD),
            directory.join(PARTIAL_BUILD_RECORD),
        );
        let is_all_here = brought.exists()
            && Self::read(directory)?
                .names()
                .all(|name| directory.join(name).exists());
        if is_all_here {
            fs::rename(&brought, &built).map_err(|error| Error::io(built.display(), error))
        } else {
            Ok(())
        }
    }

    fn checksum(&self) -> String {
        format!(
            "{:016x}",
            xxh3_64(&serde_json::to_vec(self).unwrap_or_default())
        )
    }
}

/// The files of a directory, by name.
fn files_of(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).and_then(|entries| {
        entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect()
    });
    let mut files: Vec<PathBuf> = entries.map_err(|error| Error::io(directory.display(), error))?;
    files.sort();
    Ok(files)
}

/// Records problems and the account, and passes them on to another observer.
pub(crate) struct ProblemRecorder<'w> {
    pub observer: &'w mut dyn Observer,
    pub problems: Vec<String>,
    /// Where the problems are.
    pub files: Vec<Arc<str>>,
    /// Files that are left out.
    pub left_out: Vec<LeftOutFile>,
    /// The files that could not be read to their ends.
    pub damaged: BTreeSet<String>,
}

impl Observer for ProblemRecorder<'_> {
    fn problem(&mut self, problem: &Problem) {
        self.problems.push(problem.to_string());
        self.files.push(problem.place.file.clone());
        if ends_a_file(problem) {
            self.damaged.insert(problem.place.file.to_string());
        }
        self.observer.problem(problem);
    }

    fn progress(&mut self, bytes: u64, documents: u64) {
        self.observer.progress(bytes, documents);
    }

    fn left_out(&mut self, left: &SkippedFile) {
        if left.is_damaged() {
            self.damaged.insert(left.problem.place.file.to_string());
        }
        if left.is_error() {
            self.problems.push(left.problem.to_string());
            self.files.push(left.problem.place.file.clone());
        }
        self.left_out.push(left.into());
        self.observer.left_out(left);
    }

    fn account(&mut self, account: &Account) {
        self.observer.account(account);
    }
}
