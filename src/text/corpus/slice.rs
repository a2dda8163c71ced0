//! A slice of a corpus: the files that one task reads, as they were when the corpus was walked.
//!
//! ```text
//! {"dedup":"slice","version":2,"scheme":"words@18.0/49 ordered:8:32 all","files":2,"bytes":31}
//! {"path":"corpus/a.txt","bytes":20,"modified":1767225600000000000}
//! {"path":"corpus/b.txt","id":"b.txt","bytes":11,"modified":1767225600000000000,"is_named":true}
//! {"path":"big.jsonl","bytes":90,"modified":1767225600000000000,"part":{"number":1,"count":2,"records":"ndjson","numbers":[4,7],"line":4,"extents":[[44,90]]}}
//! {"file":"corpus/secret","problem":"Permission denied (os error 13)"}
//! {"file":"corpus/.git","left_out":"hidden"}
//! ```
//!
//! A path that could not be read when the corpus was walked, or was left out, is reported when the slice is read, in its place.

use super::{
    account::SkippedFile,
    part::FilePart,
    skipped_kind::SkippedKind,
    unpack::Packing,
    walk::{FileEntry, WalkItem},
};
use crate::base::error::{Error, Place, Problem, Result};
use crate::base::num::ToU64;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use xxhash_rust::xxh3::xxh3_64;

/// 1 knew no parts of files.
const VERSION: u32 = 2;

#[derive(Debug, Serialize, Deserialize)]
struct SliceHeader {
    dedup: String,
    version: u32,
    scheme: String,
    files: u64,
    bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum SliceLine {
    File {
        path: String,
        /// Where it is not the path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        bytes: u64,
        /// Nanoseconds since 1970.
        modified: i64,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_named: bool,
        /// Where its cleaned copy goes, if it is to be cleaned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<String>,
        /// The part that is read, if it is not all of the file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<Box<FilePart>>,
    },
    Problem {
        file: String,
        problem: String,
    },
    Skipped {
        file: String,
        left_out: SkippedKind,
    },
}

/// A slice that was read. Memory: as much as it has files.
#[derive(Debug)]
pub struct CorpusSlice {
    head: SliceHeader,
    lines: Vec<SliceLine>,
    file: Arc<str>,
    checksum: String,
}

impl CorpusSlice {
    /// What stands in the file of a slice. `outputs`: where the cleaned copies of files go, if they are to be cleaned.
    pub fn write(
        scheme: &str,
        found: &[WalkItem],
        outputs: &HashMap<PathBuf, String>,
    ) -> Result<String> {
        let sizes = found.iter().map(|found| {
            if let WalkItem::File(entry) = found {
                (1, entry.bytes_to_read())
            } else {
                (0, 0)
            }
        });
        let (files, bytes) = sizes.fold((0, 0), |(files, bytes), (file, more)| {
            (files + file, bytes + more)
        });
        let head = SliceHeader {
            dedup: "slice".to_owned(),
            version: VERSION,
            scheme: scheme.to_owned(),
            files,
            bytes,
        };
        let mut text = serde_json::to_string(&head).unwrap_or_default() + "\n";
        for found in found {
            text += &serde_json::to_string(&line_of(found, outputs)?).unwrap_or_default();
            text.push('\n');
        }
        Ok(text)
    }

    /// Reads a slice, and checks that it is complete.
    pub fn open(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|error| Error::io(path.display(), error))?;
        let file: Arc<str> = path.display().to_string().into();
        let wrong =
            |line: usize, what: String| Error::damaged(Place::line(&file, line.to_u64() + 1), what);
        let mut lines = text.lines();
        let head: SliceHeader =
            serde_json::from_str(lines.next().unwrap_or_default()).map_err(|error| {
                wrong(
                    0,
                    format!("not a slice that dedup-shard plan made: {error}"),
                )
            })?;
        if head.dedup != "slice" || head.version != VERSION {
            return Err(wrong(
                0,
                format!(
                    "a slice of version {}, this program reads version {VERSION}",
                    head.version
                ),
            ));
        }
        let parse = |(number, line)| {
            serde_json::from_str(line)
                .map_err(|error| wrong(number, format!("not a file of a slice: {error}")))
        };
        let lines = lines
            .enumerate()
            .map(|(number, line)| (number + 1, line))
            .map(parse)
            .collect::<Result<Vec<SliceLine>>>()?;
        let files = lines
            .iter()
            .filter(|line| matches!(line, SliceLine::File { .. }))
            .count()
            .to_u64();
        if files != head.files {
            return Err(wrong(
                0,
                format!(
                    "{files} files follow, the slice has {}; it was cut or altered",
                    head.files
                ),
            ));
        }
        Ok(Self {
            head,
            lines,
            checksum: Self::checksum_of(&text),
            file,
        })
    }

    /// The blots that all slices of a corpus are to have.
    pub fn scheme(&self) -> &str {
        &self.head.scheme
    }

    /// The name of the slice's file.
    pub fn file(&self) -> &Arc<str> {
        &self.file
    }

    /// What tells it from all other slices.
    pub fn checksum(&self) -> &str {
        &self.checksum
    }

    /// Identifies the content of a slice.
    pub fn checksum_of(text: &str) -> String {
        format!("{:016x}", xxh3_64(text.as_bytes()))
    }

    /// Its files, if they are as they were. `copies`: where copies of them are, each named by its number.
    pub fn entries(self, copies: Option<PathBuf>) -> impl Iterator<Item = WalkItem> + Send {
        self.lines
            .into_iter()
            .enumerate()
            .map(move |(number, line)| match line {
                SliceLine::Problem { file, problem } => {
                    WalkItem::Problem(Problem::new(Place::file(file), problem))
                }
                SliceLine::Skipped { file, left_out } => {
                    WalkItem::Skipped(SkippedFile::new(file, left_out, Packing::Plain, false))
                }
                SliceLine::File {
                    path,
                    id,
                    bytes,
                    modified,
                    is_named,
                    part,
                    ..
                } => {
                    let id = id.unwrap_or_else(|| path.clone());
                    let entry = match &copies {
                        Some(copies) => {
                            FileEntry::copied(path.into(), &id, copies.join(number.to_string()))
                        }
                        None => FileEntry::named(path.into(), &id),
                    };
                    match entry {
                        Err(problem) => changed(problem.place, &problem.what),
                        // The time of a copy says nothing: the program that made it checked the time of the file.
                        Ok(entry)
                            if entry.bytes != bytes
                                || copies.is_none() && entry.modified[0] != modified =>
                        {
                            changed(Place::path(&entry.path), "it is another")
                        }
                        Ok(entry) => WalkItem::File(FileEntry {
                            is_named,
                            part: part.map(|part| Arc::new(*part)),
                            ..entry
                        }),
                    }
                }
            })
    }

    /// Where the cleaned copies of its files go, with the number of each file.
    pub fn outputs(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.lines.iter().enumerate();
        lines.filter_map(|(number, line)| match line {
            SliceLine::File { output, .. } => Some((number, output.as_deref()?)),
            SliceLine::Problem { .. } | SliceLine::Skipped { .. } => None,
        })
    }

    /// What there is to copy.
    pub fn documents(&self) -> impl Iterator<Item = SliceFile<'_>> {
        self.lines
            .iter()
            .enumerate()
            .filter_map(|(number, line)| match line {
                SliceLine::File {
                    path,
                    bytes,
                    modified,
                    part,
                    ..
                } => Some(SliceFile {
                    number,
                    path: Path::new(path),
                    bytes: *bytes,
                    modified: *modified,
                    part: part.as_deref(),
                }),
                SliceLine::Problem { .. } | SliceLine::Skipped { .. } => None,
            })
    }
}

/// A file of a slice, as it was when the corpus was walked.
#[derive(Debug, Clone, Copy)]
pub struct SliceFile<'a> {
    /// Of its line.
    pub number: usize,
    /// The path of the file.
    pub path: &'a Path,
    /// Its size.
    pub bytes: u64,
    /// Nanoseconds since 1970.
    pub modified: i64,
    /// The part that is read, if it is not all of the file.
    pub part: Option<&'a FilePart>,
}

fn changed(place: Place, what: &str) -> WalkItem {
    WalkItem::Failed(Error::damaged(
        place,
        format!("changed since the plan was made ({what}); plan anew"),
    ))
}

fn line_of(found: &WalkItem, outputs: &HashMap<PathBuf, String>) -> Result<SliceLine> {
    match found {
        WalkItem::Failed(error) => Err(Error::Usage(error.to_string())),
        WalkItem::Problem(problem) => Ok(SliceLine::Problem {
            file: problem.place.file.to_string(),
            problem: problem.what.clone(),
        }),
        WalkItem::Skipped(left) if left.kind == SkippedKind::Unreadable => {
            line_of(&WalkItem::Problem(left.problem.clone()), outputs)
        }
        WalkItem::Skipped(left) => Ok(SliceLine::Skipped {
            file: left.problem.place.file.to_string(),
            left_out: left.kind,
        }),
        WalkItem::File(entry) if !entry.is_regular => Err(Error::Usage(format!(
            "{}: not a regular file; only files can be read again by a task",
            entry.name()
        ))),
        WalkItem::File(entry) => {
            // An id is the path, or the end of it: so the path is UTF-8, too, or would have been a problem.
            let path = entry.path.to_str().ok_or_else(|| {
                Error::Usage(format!("{}: its path is not UTF-8", entry.path.display()))
            })?;
            let id = (*entry.id != *path).then(|| entry.id.to_string());
            Ok(SliceLine::File {
                path: path.to_owned(),
                id,
                bytes: entry.bytes,
                modified: entry.modified[0],
                is_named: entry.is_named,
                output: outputs.get(&entry.path).cloned(),
                part: entry.part.as_deref().cloned().map(Box::new),
            })
        }
    }
}
