//! The manifest: which files make the index. Its replacement is a commit.

use crate::{
    base::{
        error::{Error, Place, Result},
        files::{self, Sealed, durable},
    },
    index::posting::BUCKETS,
    text::scheme::BlotScheme,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fs, io::ErrorKind, ops::Range, path::Path};
use xxhash_rust::xxh3::xxh3_64;

pub const NAME: &str = "manifest.json";
pub(super) const VERSION: u32 = 3;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always `index`.
    pub dedup: String,
    pub version: u32,
    pub scheme: String,
    /// Counts commits.
    pub generation: u64,
    /// One more than the largest number that a document ever had.
    pub numbers: u32,
    /// Only a range of the blots is here; the rest is elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<BlotRange>,
    /// Each segment has a dictionary: how often each word stands in which document.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dictionary: bool,
    /// The oldest first.
    pub segments: Vec<SegmentEntry>,
    /// Generations whose state is kept, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pins: BTreeMap<String, u64>,
    /// What dedup-spex needs beside it to add documents: the hashes of all tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<FileSeal>,
    /// The text of shared chunks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub texts: Option<FileSeal>,
}

/// What stands where an index was expected, and how to make one.
fn not_an_index(directory: &Path) -> String {
    let name = directory.display();
    let is_empty = || fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none());
    match () {
        () if directory.is_file() => {
            format!(
                "a file, not an index: the index comes first, then documents; dedup-index build -o IDX {name} makes one"
            )
        }
        () if !directory.exists() => {
            format!("there is no such index; dedup-index build -o {name} PATH makes one")
        }
        () if is_empty() => {
            format!("an empty directory, not an index; dedup-index build -o {name} PATH makes one")
        }
        () => format!(
            "a directory of documents or of something else, not an index (it has no {NAME}); dedup-index build -o IDX {name} makes one"
        ),
    }
}

/// What part of an index this is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlotRange {
    /// The top eight bits of its blots are from the first to, but not including, the second.
    pub buckets: [u32; 2],
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
    pub parts: u32,
    pub files: Vec<FileSeal>,
}

/// A file, and the checksum in its footer, which stands for all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSeal {
    pub name: String,
    pub bytes: u64,
    pub seal: String,
}

impl FileSeal {
    /// That of a file.
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

    /// Opens the file, if it is the one that was meant.
    pub fn open(&self, directory: &Path) -> Result<Sealed> {
        let file = Sealed::open(&directory.join(&self.name))?;
        self.ensure_is(&file)?;
        Ok(file)
    }

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
    pub fn new(scheme: &BlotScheme) -> Self {
        Self {
            dedup: "index".to_owned(),
            version: VERSION,
            scheme: scheme.to_string(),
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

    /// What the segment of a generation is called.
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
        self.range.as_ref().map_or(0..BUCKETS, |range| {
            range.buckets[0] as usize..range.buckets[1] as usize
        })
    }

    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(NAME);
        let place = || Place::path(&path);
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                Error::damaged(Place::path(directory), not_an_index(directory))
            }
            _ => Error::io(path.display(), error),
        })?;
        let checked: SealedManifest = serde_json::from_slice(&bytes).map_err(|error| {
            Error::damaged(place(), format!("not the manifest of an index: {error}"))
        })?;
        if checked.manifest.seal() != checked.checksum {
            return Err(Error::damaged(
                place(),
                "the manifest does not match its checksum; it was altered",
            ));
        }
        if checked.manifest.dedup != "index" || checked.manifest.version != VERSION {
            let found = checked.manifest.version;
            let what = format!(
                "an index of version {found}, this program reads version {VERSION}; build it again with dedup-index build"
            );
            return Err(Error::damaged(place(), what));
        }
        if let Some(BlotRange {
            buckets: [first, end],
            ..
        }) = checked.manifest.range
            && (first >= end || end as usize > BUCKETS)
        {
            return Err(Error::damaged(
                place(),
                format!("a part of an index from {first} to {end}, of {BUCKETS}"),
            ));
        }
        Ok(checked.manifest)
    }

    /// Replaces the manifest in a directory: the commit. All files it names must be on disk already.
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

    pub fn scheme(&self, directory: &Path) -> Result<BlotScheme> {
        self.scheme
            .parse()
            .map_err(|what: String| Error::damaged(Place::path(&directory.join(NAME)), what))
    }

    /// What tells this state of this index from all others. Pins do not count: they change neither documents nor files.
    pub fn checksum(&self) -> String {
        Self {
            pins: BTreeMap::new(),
            ..self.clone()
        }
        .seal()
    }

    /// The checksum of all of it.
    fn seal(&self) -> String {
        format!(
            "{:016x}",
            xxh3_64(&serde_json::to_vec(self).unwrap_or_default())
        )
    }
}
