//! The state of `sync`: the files it has seen. Kept in a file next to the index, not part of it.
//!
//! Of each file its size, its times and its documents. It is believed if it was written for the
//! very state that the index is in; else each document is looked up and its content compared. If it
//! is lost, all files are read again: nothing else depends on it.

use super::id_section::{IdSection, Section, section};
use crate::base::{
    error::{Error, Result},
    files::{Sealed, SealedWriter, durable},
};
use serde::{Deserialize, Serialize};
use std::{
    io,
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_128;

const KIND: &str = "sync";
const FILE_BYTES: usize = 48;
const DOCUMENT_BYTES: usize = 12;

#[derive(Debug, Serialize, Deserialize)]
struct SyncStateDescription {
    kind: String,
    /// The checksum of the manifest that it was written for.
    manifest: String,
    walk: Walk,
    files: u64,
    documents: u64,
    file_section: Section,
    document_section: Section,
    #[serde(flatten)]
    ids: IdSection,
}

/// How files were found and read: the options that ids and texts depend on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    /// Of the index.
    pub scheme: String,
    /// Files and directories, as they were named.
    pub roots: Vec<String>,
    /// A list named more files.
    pub list: bool,
    /// Whether ids are relative to the roots.
    pub relative: bool,
    /// The kind of records in the files, if it was given.
    pub records: Option<String>,
    /// The field of a record that has the id.
    pub id_field: String,
    /// The field of a record that has the text.
    pub text_field: String,
    /// Whether bytes that are not UTF-8 are replaced.
    pub lossy: bool,
    /// Whether files are FASTA.
    pub fasta: bool,
    /// Every other option that decides which files are read, and as what.
    #[serde(default)]
    pub reading: Vec<(String, String)>,
}

/// What tells whether a file has changed; none for one that must be read again in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The size of the file.
    pub bytes: u64,
    /// When its content and its metadata last changed, in nanoseconds since 1970.
    pub modified: [i64; 2],
}

/// A file and its documents.
#[derive(Debug, Clone)]
pub struct FileState {
    /// Of its path.
    pub hash: u128,
    /// What it looked like when it was read.
    pub stamp: Option<Stamp>,
    /// Number, check of the content, id.
    pub documents: Vec<(u32, u64, Box<str>)>,
}

impl FileState {
    /// The hash of a path.
    pub fn hash(path: &Path) -> u128 {
        xxh3_128(path.as_os_str().as_encoded_bytes())
    }
}

/// Modification times that no file has.
const NO_STAMP: i64 = i64::MIN;

/// Writes the state to a temporary file and renames it.
pub fn write_sync_state(
    path: &Path,
    manifest: String,
    walk: Walk,
    mut files: Vec<FileState>,
) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    files.sort_unstable_by_key(|file| file.hash);
    write_file(&beside, manifest, walk, &files)
        .map_err(|error| Error::io(beside.display(), error))?;
    durable::rename(&beside, path)
}

fn write_file(path: &Path, manifest: String, walk: Walk, files: &[FileState]) -> io::Result<()> {
    let mut out = SealedWriter::create(path)?;
    let (mut rows, mut documents, mut first) = (Vec::new(), Vec::new(), 0_u32);
    for file in files {
        let stamp = file.stamp.unwrap_or(Stamp {
            bytes: 0,
            modified: [NO_STAMP; 2],
        });
        rows.extend_from_slice(&file.hash.to_le_bytes());
        rows.extend_from_slice(&stamp.bytes.to_le_bytes());
        stamp
            .modified
            .iter()
            .for_each(|time| rows.extend_from_slice(&time.to_le_bytes()));
        rows.extend_from_slice(&first.to_le_bytes());
        rows.extend_from_slice(&(file.documents.len() as u32).to_le_bytes());
        first += file.documents.len() as u32;
        for (number, check, _) in &file.documents {
            documents.extend_from_slice(&number.to_le_bytes());
            documents.extend_from_slice(&check.to_le_bytes());
        }
    }
    let file_section = section(&mut out, &rows)?;
    let document_section = section(&mut out, &documents)?;
    let ids = IdSection::write(
        &mut out,
        files
            .iter()
            .flat_map(|file| &file.documents)
            .map(|(_, _, id)| &**id),
    )?;
    let (kind, files) = (KIND.to_owned(), files.len() as u64);
    let description = SyncStateDescription {
        kind,
        manifest,
        walk,
        files,
        documents: first.into(),
        file_section,
        document_section,
        ids,
    };
    out.finish(&description)?;
    Ok(())
}

/// The state of the last sync; files are looked up on demand.
pub struct SyncState {
    file: Sealed,
    description: SyncStateDescription,
}

impl SyncState {
    /// The known state of the files of an index of a scheme; none if there is nothing, or nothing of
    /// use.
    pub fn open(path: &Path, scheme: &str) -> Option<Self> {
        let file = Sealed::open(path).ok()?;
        let description: SyncStateDescription = file.describe().ok()?;
        let fits = description.kind == KIND
            && description.walk.scheme == scheme
            && description.file_section[1] == description.files.checked_mul(FILE_BYTES as u64)?
            && description.document_section[1]
                == description.documents.checked_mul(DOCUMENT_BYTES as u64)?
            && description.documents <= u64::from(u32::MAX)
            && description.ids.fits(description.documents)
            && file.verify().is_ok();
        fits.then_some(Self { file, description })
    }

    /// How the files were found and read.
    pub fn walk(&self) -> &Walk {
        &self.description.walk
    }

    /// How many files there are.
    pub fn files(&self) -> u64 {
        self.description.files
    }

    /// Whether it was written for this state of this index.
    pub fn is_of(&self, manifest: &str) -> bool {
        self.description.manifest == manifest
    }

    /// The place of a file by its path.
    pub fn find(&self, path: &Path) -> Result<Option<u64>> {
        let hash = FileState::hash(path);
        let (mut low, mut high) = (0, self.description.files);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.hash(middle)? < hash {
                low = middle + 1
            } else {
                high = middle
            }
        }
        Ok((low < self.description.files && self.hash(low)? == hash).then_some(low))
    }

    fn hash(&self, file: u64) -> Result<u128> {
        Ok(u128::from_le_bytes(take(self.row(file)?, 0)))
    }

    /// What a file looked like when it was read.
    pub fn stamp(&self, file: u64) -> Result<Option<Stamp>> {
        let row = self.row(file)?;
        let modified = [
            i64::from_le_bytes(take(row, 24)),
            i64::from_le_bytes(take(row, 32)),
        ];
        Ok(Some(Stamp {
            bytes: u64::from_le_bytes(take(row, 16)),
            modified,
        })
        .filter(|stamp| stamp.modified[0] != NO_STAMP))
    }

    /// Calls `each` with the number, the check and the place of every document of a file.
    pub fn for_each_document(
        &self,
        file: u64,
        mut each: impl FnMut(u32, u64, u32) -> Result<()>,
    ) -> Result<()> {
        let row = self.row(file)?;
        let (first, count) = (
            u32::from_le_bytes(take(row, 40)),
            u32::from_le_bytes(take(row, 44)),
        );
        let [start, _] = self.description.document_section;
        let all = self.file.bytes(
            start + u64::from(first) * DOCUMENT_BYTES as u64,
            u64::from(count) * DOCUMENT_BYTES as u64,
        )?;
        for (place, document) in (first..).zip(all.chunks_exact(DOCUMENT_BYTES)) {
            each(
                u32::from_le_bytes(take(document, 0)),
                u64::from_le_bytes(take(document, 4)),
                place,
            )?;
        }
        Ok(())
    }

    /// All files, with their documents.
    pub fn states(&self) -> Result<Vec<FileState>> {
        let state = |file: u64| -> Result<FileState> {
            let mut documents = Vec::new();
            self.for_each_document(file, |number, check, document| {
                documents.push((number, check, self.id(document)?.into()));
                Ok(())
            })?;
            Ok(FileState {
                hash: self.hash(file)?,
                stamp: self.stamp(file)?,
                documents,
            })
        };
        (0..self.description.files).map(state).collect()
    }

    /// The id of the document at a place.
    pub fn id(&self, document: u32) -> Result<String> {
        self.description.ids.get(&self.file, document)
    }

    fn row(&self, file: u64) -> Result<&[u8]> {
        self.file.bytes(
            self.description.file_section[0] + file * FILE_BYTES as u64,
            FILE_BYTES as u64,
        )
    }
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::test_files;

    fn walk() -> Walk {
        Walk {
            scheme: test_files::SCHEME.to_owned(),
            roots: vec!["texts".to_owned()],
            ..Walk::default()
        }
    }

    fn file_state(path: &str, stamp: Option<Stamp>, numbers: &[u32]) -> FileState {
        let document = |&number: &u32| {
            (
                number,
                u64::from(number) << 40,
                format!("{path}#{number}").into(),
            )
        };
        FileState {
            hash: FileState::hash(Path::new(path)),
            stamp,
            documents: numbers.iter().map(document).collect(),
        }
    }

    fn write_test_state(path: &Path) {
        let stamp = |bytes| {
            Some(Stamp {
                bytes,
                modified: [17, -4],
            })
        };
        let files = vec![
            file_state("b", stamp(3), &[1, 2, 5]),
            file_state("a", None, &[0]),
            file_state("c", stamp(0), &[]),
        ];
        write_sync_state(path, "checksum".to_owned(), walk(), files).unwrap();
    }

    #[test]
    fn files_are_found_with_their_stamps_and_documents() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        write_test_state(&path);
        let state = SyncState::open(&path, test_files::SCHEME).unwrap();
        assert_eq!((state.walk(), state.files()), (&walk(), 3));
        assert!(state.is_of("checksum") && !state.is_of("another"));
        assert_eq!(state.find(Path::new("d")).unwrap(), None);
        for (name, bytes, numbers) in [
            ("a", None, &[0][..]),
            ("b", Some(3), &[1, 2, 5]),
            ("c", Some(0), &[]),
        ] {
            let file = state.find(Path::new(name)).unwrap().unwrap();
            assert_eq!(state.stamp(file).unwrap().map(|stamp| stamp.bytes), bytes);
            let mut found = Vec::new();
            state
                .for_each_document(file, |number, check, place| {
                    assert_eq!(check, u64::from(number) << 40);
                    assert_eq!(state.id(place)?, format!("{name}#{number}"));
                    found.push(number);
                    Ok(())
                })
                .unwrap();
            assert_eq!(found, numbers);
        }
        let states = state.states().unwrap();
        assert!(states.is_sorted_by_key(|state| state.hash));
        assert_eq!(states.iter().flat_map(|state| &state.documents).count(), 4);
    }

    #[test]
    fn a_state_that_is_damaged_or_of_another_scheme_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        write_test_state(&path);
        assert!(SyncState::open(&path, "another").is_none());
        assert!(SyncState::open(&directory.path().join("missing"), test_files::SCHEME).is_none());
        for at in test_files::body(&path) {
            let flipped = test_files::with_flipped_byte(&path, at);
            assert!(SyncState::open(&flipped, test_files::SCHEME).is_none());
        }
    }
}
