//! The state of `sync`: the files it has seen. Kept in a file next to the index, not part of it.
//!
//! Of each file its size, its times and its documents. It is believed if it was written for the
//! very state that the index is in; else each document is looked up and its content compared. If it
//! is lost, all files are read again: nothing else depends on it.

use super::id_section::{IdSection, IdSectionWriter, Section};
use crate::base::{
    error::{Error, Result},
    files::{Sealed, SealedWriter, durable},
};
use serde::{Deserialize, Serialize};
use std::{
    io::{self, Write},
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

/// A file, and how many documents it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// Of its path.
    pub hash: u128,
    /// What it looked like when it was read.
    pub stamp: Option<Stamp>,
    /// The number of its documents.
    pub documents: u32,
}

impl FileState {
    /// The hash of a path.
    pub fn hash(path: &Path) -> u128 {
        xxh3_128(path.as_os_str().as_encoded_bytes())
    }
}

/// A document of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileDocument<'d> {
    /// Its number in the index.
    pub number: u32,
    /// Tells its content from others.
    pub check: u64,
    /// Its id.
    pub id: &'d str,
}

/// Files whose state is to be written. Their documents are visited where they are: there may be more
/// of them than fit into memory.
pub trait FileStates {
    /// Calls `each` with every file, by rising hash.
    fn for_each_file(&self, each: &mut dyn FnMut(FileState) -> Result<()>) -> Result<()>;

    /// Calls `each` with every document of every file, in the same order.
    fn for_each_document(&self, each: &mut dyn FnMut(FileDocument<'_>) -> Result<()>)
    -> Result<()>;
}

/// Modification times that no file has.
const NO_STAMP: i64 = i64::MIN;

/// Writes the state to a temporary file and renames it.
pub fn write_sync_state(
    path: &Path,
    manifest: String,
    walk: Walk,
    files: &dyn FileStates,
) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let failed = |error| Error::io(beside.display(), error);
    let mut out = SealedWriter::create(&beside).map_err(failed)?;
    let description = write_files(&mut out, manifest, walk, files, &failed)?;
    out.finish(&description).map_err(failed)?;
    durable::rename(&beside, path)
}

fn write_files(
    out: &mut SealedWriter<impl Write>,
    manifest: String,
    walk: Walk,
    states: &dyn FileStates,
    failed: &dyn Fn(io::Error) -> Error,
) -> Result<SyncStateDescription> {
    let (mut files, mut documents, start) = (0, 0_u32, out.position());
    states.for_each_file(&mut |file| {
        out.write_all(&file_row(&file, documents)).map_err(failed)?;
        files += 1;
        documents += file.documents;
        Ok(())
    })?;
    let file_section = [start, out.position() - start];
    let start = out.position();
    states.for_each_document(&mut |document| {
        let (number, check) = (document.number.to_le_bytes(), document.check.to_le_bytes());
        let written = out.write_all(&number).and_then(|()| out.write_all(&check));
        written.map_err(failed)
    })?;
    let document_section = [start, out.position() - start];
    let mut ids = IdSectionWriter::new(out);
    states.for_each_document(&mut |document| ids.push(out, document.id).map_err(failed))?;
    Ok(SyncStateDescription {
        kind: KIND.to_owned(),
        manifest,
        walk,
        files,
        documents: documents.into(),
        file_section,
        document_section,
        ids: ids.finish(out).map_err(failed)?,
    })
}

/// The row of a file whose documents start at `first`.
fn file_row(file: &FileState, first: u32) -> [u8; FILE_BYTES] {
    let stamp = file.stamp.unwrap_or(Stamp {
        bytes: 0,
        modified: [NO_STAMP; 2],
    });
    let mut row = [0; FILE_BYTES];
    let mut put = |at: usize, bytes: &[u8]| row[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &file.hash.to_le_bytes());
    put(16, &stamp.bytes.to_le_bytes());
    put(24, &stamp.modified[0].to_le_bytes());
    put(32, &stamp.modified[1].to_le_bytes());
    put(40, &first.to_le_bytes());
    put(44, &file.documents.to_le_bytes());
    row
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

    /// A file, and how many documents it has.
    pub fn file(&self, file: u64) -> Result<FileState> {
        Ok(FileState {
            hash: self.hash(file)?,
            stamp: self.stamp(file)?,
            documents: u32::from_le_bytes(take(self.row(file)?, 44)),
        })
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

/// The state as it was, to be written for another manifest.
impl FileStates for SyncState {
    fn for_each_file(&self, each: &mut dyn FnMut(FileState) -> Result<()>) -> Result<()> {
        (0..self.files()).try_for_each(|file| each(self.file(file)?))
    }

    fn for_each_document(
        &self,
        each: &mut dyn FnMut(FileDocument<'_>) -> Result<()>,
    ) -> Result<()> {
        (0..self.files()).try_for_each(|file| {
            self.for_each_document(file, |number, check, place| {
                let id = self.id(place)?;
                each(FileDocument {
                    number,
                    check,
                    id: &id,
                })
            })
        })
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

    /// Of each file its name, its size and the numbers of its documents.
    struct TestFiles(Vec<(&'static str, Option<u64>, &'static [u32])>);

    impl FileStates for TestFiles {
        fn for_each_file(&self, each: &mut dyn FnMut(FileState) -> Result<()>) -> Result<()> {
            self.0.iter().try_for_each(|&(path, bytes, numbers)| {
                each(FileState {
                    hash: FileState::hash(Path::new(path)),
                    stamp: bytes.map(|bytes| Stamp {
                        bytes,
                        modified: [17, -4],
                    }),
                    documents: u32::try_from(numbers.len()).unwrap(),
                })
            })
        }

        fn for_each_document(
            &self,
            each: &mut dyn FnMut(FileDocument<'_>) -> Result<()>,
        ) -> Result<()> {
            let documents = self.0.iter();
            documents
                .flat_map(|&(path, _, numbers)| numbers.iter().map(move |&number| (path, number)))
                .try_for_each(|(path, number)| {
                    each(FileDocument {
                        number,
                        check: u64::from(number) << 40,
                        id: &format!("{path}#{number}"),
                    })
                })
        }
    }

    fn write_test_state(path: &Path) {
        let mut files = TestFiles(vec![
            ("b", Some(3), &[1, 2, 5]),
            ("a", None, &[0]),
            ("c", Some(0), &[]),
        ]);
        files
            .0
            .sort_unstable_by_key(|(path, ..)| FileState::hash(Path::new(path)));
        write_sync_state(path, "checksum".to_owned(), walk(), &files).unwrap();
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
        let copy = directory.path().join("copy");
        write_sync_state(&copy, "checksum".to_owned(), walk(), &state).unwrap();
        let bytes = |path: &Path| std::fs::read(path).unwrap();
        assert_eq!(bytes(&copy), bytes(&path));
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
