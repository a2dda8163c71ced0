//! The manifest: which files make the index. Its replacement is a commit.

use crate::base::setting::Setting;
use crate::{
    base::{
        error::{Error, Place, Result},
        files::{self, Sealed, durable},
    },
    index::posting::{BUCKETS, BucketRange},
    text::scheme::BlotScheme,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs,
    io::ErrorKind,
    ops::Range,
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_64;

/// The name of the manifest in the directory of an index.
pub const NAME: &str = "manifest.json";
pub(super) const VERSION: u32 = 3;

/// What an index is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always `index`.
    pub dedup: String,
    /// The version of the format of the index.
    pub version: u32,
    /// The scheme of its blots.
    pub scheme: String,
    /// The preset it was made with: how later questions are asked. None for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Counts commits.
    pub generation: u64,
    /// One more than the largest number that a document ever had.
    pub numbers: u32,
    /// Only a range of the blots is here; the rest is elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<BlotRange>,
    /// Whether each segment has a dictionary: how often each word occurs in which document.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dictionary: bool,
    /// The oldest first.
    pub segments: Vec<SegmentEntry>,
    /// Generations whose state is kept, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pins: BTreeMap<String, u64>,
    /// The tokens of all contents, which dedup-spex needs to change documents: one file, or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<FileSeal>,
    /// The same tokens, where documents cannot be changed: for the text of chunks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub texts: Option<FileSeal>,
}

/// Why the content of a manifest.json is not that of an index.
fn not_a_manifest(bytes: &[u8], error: &serde_json::Error) -> String {
    let what = serde_json::from_slice(bytes)
        .ok()
        .and_then(|value: serde_json::Value| Some(value.get("dedup")?.as_str()?.to_owned()));
    match what.as_deref() {
        Some("history") => {
            "the manifest of a history, not of an index; dedup-query history asks it".to_owned()
        }
        Some("index") => format!(
            "not a whole manifest of an index: {error}; restore it from a copy, or build the index again"
        ),
        _ => format!("not the manifest of an index: {error}"),
    }
}

/// What was found where an index was expected, and how to make one.
fn not_an_index(directory: &Path) -> String {
    let name = directory.display();
    let into = |index: &dyn std::fmt::Display| Setting::Output.to(index);
    let is_empty = || fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none());
    match () {
        () if directory.is_file() => {
            format!(
                "a file, not an index: the index comes first, then documents; dedup-index build {} {name} makes one",
                into(&"IDX")
            )
        }
        () if !directory.exists() => {
            format!(
                "there is no such index; dedup-index build {} PATH makes one",
                into(&name)
            )
        }
        () if is_empty() => {
            format!(
                "an empty directory, not an index; dedup-index build {} PATH makes one",
                into(&name)
            )
        }
        () => format!(
            "a directory of documents or of something else, not an index (it has no {NAME}); dedup-index build {} {name} makes one",
            into(&"IDX")
        ),
    }
}

/// Which range of the blots an index has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlotRange {
    /// The top eight bits of its blots are from the first to, but not including, the second.
    pub buckets: BucketRange,
    /// In how many parts the postings of the whole were.
    pub parts: u32,
}

/// What one commit added, or several that were made into one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentEntry {
    /// The generation that made it.
    pub name: String,
    /// The first and the last generation whose changes it holds.
    pub changes: [u64; 2],
    /// How many parts its postings are cut into.
    pub parts: u32,
    /// Its files, in the order of the table of sections.
    pub files: Vec<FileSeal>,
}

/// A file, and the checksum in its footer, which stands for all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSeal {
    /// Its name in the directory of the index.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The checksum in its footer.
    pub seal: String,
}

impl SegmentEntry {
    /// Syncs the files of a segment, which are in the order of the table of sections, and lists
    /// them.
    pub fn of_files(
        name: String,
        changes: [u64; 2],
        parts: u32,
        directory: &Path,
        files: &[PathBuf],
    ) -> Result<Self> {
        durable::sync_files(directory, files)?;
        let files = files.iter().map(|path| FileSeal::of(path));
        Ok(Self {
            name,
            changes,
            parts,
            files: files.collect::<Result<_>>()?,
        })
    }
}

impl FileSeal {
    /// Reads the size and checksum of a file.
    pub fn of(path: &Path) -> Result<Self> {
        let file = Sealed::open(path)?;
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or_else(|| Error::damaged(Place::path(path), "no name"))?;
        Ok(Self {
            name: name.to_owned(),
            bytes: file.file_bytes(),
            seal: file.seal(),
        })
    }

    /// Opens the file, and ensures that it is the listed one.
    pub fn open(&self, directory: &Path) -> Result<Sealed> {
        let file = Sealed::open(&directory.join(&self.name))?;
        self.ensure_is(&file)?;
        Ok(file)
    }

    /// Ensures that a file is the listed one.
    pub fn ensure_is(&self, file: &Sealed) -> Result<()> {
        if (file.file_bytes(), file.seal()) == (self.bytes, self.seal.clone()) {
            return Ok(());
        }
        Err(Error::damaged(
            Place::file(file.name().clone()),
            "not the file that the manifest names; it was replaced",
        ))
    }
}

#[derive(Serialize, Deserialize)]
struct SealedManifest {
    #[serde(flatten)]
    manifest: Manifest,
    checksum: String,
}

impl Manifest {
    /// The manifest of an index without segments.
    pub fn new(scheme: &BlotScheme) -> Self {
        Self {
            dedup: "index".to_owned(),
            version: VERSION,
            scheme: scheme.to_string(),
            preset: None,
            generation: 0,
            numbers: 0,
            range: None,
            dictionary: false,
            segments: Vec::new(),
            pins: BTreeMap::new(),
            state: Vec::new(),
            texts: None,
        }
    }

    /// The name of the segment of a generation.
    pub fn segment_name(generation: u64) -> String {
        format!("{generation:06}")
    }

    /// Whether a file belongs to the index.
    pub fn names(&self, file: &str) -> bool {
        self.segments
            .iter()
            .flat_map(|segment| &segment.files)
            .chain(&self.state)
            .chain(&self.texts)
            .any(|listed| listed.name == file)
    }

    /// The top eight bits of its blots.
    pub fn buckets(&self) -> Range<usize> {
        self.range
            .as_ref()
            .map_or(0..BUCKETS, |range| range.buckets.range())
    }

    /// Reads the manifest of an index and checks it.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(NAME);
        let place = || Place::path(&path);
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                Error::damaged(Place::path(directory), not_an_index(directory))
            }
            _ => Error::io(path.display(), error),
        })?;
        let checked: SealedManifest = serde_json::from_slice(&bytes)
            .map_err(|error| Error::damaged(place(), not_a_manifest(&bytes, &error)))?;
        if checked.manifest.seal() != checked.checksum {
            return Err(Error::damaged(
                place(),
                "the manifest does not match its checksum; it was altered: restore it from a copy, or build the index again",
            ));
        }
        if checked.manifest.dedup != "index" || checked.manifest.version != VERSION {
            let found = checked.manifest.version;
            let what = format!(
                "an index of version {found}, this program reads version {VERSION}; build it again with dedup-index build"
            );
            return Err(Error::damaged(place(), what));
        }
        if let Some(BlotRange { buckets, .. }) = checked.manifest.range
            && !buckets.is_valid()
        {
            let Range { start: first, end } = buckets.range();
            return Err(Error::damaged(
                place(),
                format!("a part of an index from {first} to {end}, of {BUCKETS}"),
            ));
        }
        Ok(checked.manifest)
    }

    /// Replaces the manifest in a directory: the commit. All files it names must be on disk
    /// already.
    pub fn commit(&self, directory: &Path) -> Result<()> {
        let checked = SealedManifest {
            manifest: self.clone(),
            checksum: self.seal(),
        };
        let mut json = serde_json::to_vec_pretty(&checked).unwrap_or_default();
        json.push(b'\n');
        // What the new files were made from is still as it was.
        files::ensure_whole()?;
        durable::replace(&directory.join(NAME), &json)
    }

    /// The scheme of the blots.
    pub fn scheme(&self, directory: &Path) -> Result<BlotScheme> {
        self.scheme
            .parse()
            .map_err(|what: String| Error::damaged(Place::path(&directory.join(NAME)), what))
    }

    /// What tells this state of this index from all others. Pins do not count: they change neither
    /// documents nor files.
    pub fn checksum(&self) -> String {
        Self {
            pins: BTreeMap::new(),
            ..self.clone()
        }
        .seal()
    }

    /// The checksum of the whole manifest.
    fn seal(&self) -> String {
        format!(
            "{:016x}",
            xxh3_64(&serde_json::to_vec(self).unwrap_or_default())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::test_files;

    /// Writes what a manifest would be after a change, with the checksum that fits.
    fn write_changed(directory: &Path, change: impl FnOnce(&mut Manifest)) {
        let mut manifest = Manifest::new(&test_files::SCHEME.parse().unwrap());
        change(&mut manifest);
        manifest.commit(directory).unwrap();
    }

    #[test]
    fn a_manifest_is_read_as_it_was_committed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let manifest = test_files::commit(path, &[("a", 1, vec![1])], &[]);
        assert_eq!(Manifest::read(path).unwrap(), manifest);
        let names = [
            "000001.docs",
            "000001.sets",
            "000001.000.part",
            "000001.001.part",
        ];
        assert!(names.iter().all(|name| manifest.names(name)));
        for name in ["000002.docs", "000001.words", NAME] {
            assert!(!manifest.names(name), "{name}");
        }
        assert_eq!(manifest.buckets(), 0..BUCKETS);
        assert_eq!(manifest.scheme(path).unwrap().to_string(), manifest.scheme);
    }

    #[test]
    fn pins_do_not_change_the_checksum() {
        let manifest = Manifest::new(&test_files::SCHEME.parse().unwrap());
        let mut pinned = manifest.clone();
        pinned.pins.insert("v1".to_owned(), 0);
        assert_eq!(pinned.checksum(), manifest.checksum());
        let mut changed = manifest.clone();
        changed.numbers = 1;
        assert_ne!(changed.checksum(), manifest.checksum());
    }

    #[test]
    fn an_altered_manifest_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        write_changed(path, |manifest| manifest.numbers = 17);
        let json = fs::read_to_string(path.join(NAME)).unwrap();
        fs::write(path.join(NAME), json.replace("17", "18")).unwrap();
        let error = Manifest::read(path).unwrap_err().to_string();
        assert!(error.contains("does not match its checksum"), "{error}");
        fs::write(path.join(NAME), &json[..json.len() / 2]).unwrap();
        let error = Manifest::read(path).unwrap_err().to_string();
        assert!(error.contains("not the manifest of an index"), "{error}");
    }

    #[test]
    fn other_versions_and_ranges_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        write_changed(path, |manifest| manifest.version = VERSION - 1);
        let error = Manifest::read(path).unwrap_err().to_string();
        assert!(error.contains("an index of version 2"), "{error}");
        for (first, end) in [(4, 4), (9, 3), (0, 257)] {
            let buckets = BucketRange::from(&(first..end));
            write_changed(path, |manifest| {
                manifest.range = Some(BlotRange { buckets, parts: 2 });
            });
            assert!(Manifest::read(path).is_err(), "{buckets:?}");
        }
    }

    #[test]
    fn what_is_no_index_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let error = |path: &Path| Manifest::read(path).unwrap_err().to_string();
        assert!(error(path).contains("an empty directory"));
        assert!(error(&path.join("missing")).contains("there is no such index"));
        let file = path.join("text");
        fs::write(&file, "").unwrap();
        assert!(error(&file).contains("a file, not an index"));
        assert!(error(path).contains("a directory of documents"));
    }
}
