//! The table of index sections: every kind of file that an index is made of, besides its manifest.
//!
//! A new section is one file with its writer, its reader and its verifier, and one row of
//! [`SECTIONS`].

use super::{
    documents::Documents,
    manifest::{Manifest, SegmentEntry},
    open::Segment,
    part::Part,
    set_file::SetFile,
    verify::{self, SegmentCheck},
    word_file::{self, WordFile},
};
use crate::base::{error::Result, files::Sealed, ids::PartNo};
use std::path::Path;

/// One kind of file of an index.
pub struct SectionKind {
    /// How the names of its files end, after the last dot.
    pub ending: &'static str,
    /// What the description at the end of its files names as their kind.
    pub kind: &'static str,
    /// What there is one such file for.
    pub scope: SectionScope,
    /// Whether the segments of an index have it.
    pub is_present: fn(&Manifest) -> bool,
    /// Whether a reader of a range of the blots needs it.
    pub is_needed_for_range: bool,
    /// How it is read and verified as a file of a segment; none if the index as a whole has it:
    /// then the one who reads it opens it, and its checksums are all that is verified.
    pub reader: Option<SectionReader>,
}

/// What there is one file of a section for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionScope {
    /// One for each segment.
    Segment,
    /// One for each range of the blots of each segment.
    Range,
    /// One for each commit that needs it; the manifest lists it beside the segments.
    Commit,
}

/// How a section is read and verified.
pub struct SectionReader {
    /// Opens a file and stores its reader.
    pub open: for<'r> fn(&'r mut SegmentReaders, &Path) -> Result<&'r Sealed>,
    /// The open files of a segment.
    pub files: for<'s> fn(&'s Segment) -> Vec<&'s Sealed>,
    /// Checks what the checksums do not tell: order, counts and references.
    pub verify: fn(&SegmentCheck<'_>) -> Result<()>,
}

/// The readers of the files of one segment, as far as they are open.
#[derive(Default)]
pub struct SegmentReaders {
    /// The documents and their ids.
    pub documents: Option<Documents>,
    /// The document sets.
    pub sets: Option<SetFile>,
    /// The postings of each range that was opened, in order.
    pub parts: Vec<Part>,
    /// The dictionary.
    pub words: Option<WordFile>,
}

/// All sections. Those of a segment stand in the order in which its manifest entry lists its files.
pub static SECTIONS: [&SectionKind; 6] = [&DOCUMENTS, &SETS, &PART, &WORDS, &TOKENS, &TEXTS];

/// The rows and ids of the documents.
pub static DOCUMENTS: SectionKind = SectionKind {
    ending: "docs",
    kind: "documents",
    scope: SectionScope::Segment,
    is_present: |_| true,
    is_needed_for_range: true,
    reader: Some(SectionReader {
        open: |readers, path| Ok(readers.documents.insert(Documents::open(path)?).file()),
        files: |segment| vec![segment.documents.file()],
        verify: verify::verify_documents,
    }),
};

/// The distinct posting lists.
pub static SETS: SectionKind = SectionKind {
    ending: "sets",
    kind: "sets",
    scope: SectionScope::Segment,
    is_present: |_| true,
    is_needed_for_range: true,
    reader: Some(SectionReader {
        open: |readers, path| Ok(readers.sets.insert(SetFile::open(path)?).file()),
        files: |segment| vec![segment.sets.file()],
        verify: verify::verify_sets,
    }),
};

/// The blots of one range, each with its set or its only document.
pub static PART: SectionKind = SectionKind {
    ending: "part",
    kind: "part",
    scope: SectionScope::Range,
    is_present: |_| true,
    is_needed_for_range: true,
    reader: Some(SectionReader {
        open: |readers, path| {
            readers.parts.push(Part::open(path)?);
            Ok(readers.parts[readers.parts.len() - 1].file())
        },
        files: |segment| segment.parts.iter().map(Part::file).collect(),
        verify: verify::verify_postings,
    }),
};

/// The dictionary: the words of the documents, and how often each document has them.
pub static WORDS: SectionKind = SectionKind {
    ending: "words",
    kind: "words",
    scope: SectionScope::Segment,
    is_present: |manifest| manifest.dictionary,
    is_needed_for_range: false,
    reader: Some(SectionReader {
        open: |readers, path| Ok(readers.words.insert(WordFile::open(path)?).file()),
        files: |segment| segment.words.iter().map(WordFile::file).collect(),
        verify: word_file::verify,
    }),
};

/// The tokens of all contents, from which `dedup-spex` finds shared chunks again after a change.
pub static TOKENS: SectionKind = SectionKind {
    ending: "spex",
    kind: "spex",
    scope: SectionScope::Commit,
    is_present: |manifest| !manifest.state.is_empty(),
    is_needed_for_range: false,
    reader: None,
};

/// The same tokens, where no change is possible: for the text of chunks.
pub static TEXTS: SectionKind = SectionKind {
    ending: "text",
    kind: "text",
    scope: SectionScope::Commit,
    is_present: |manifest| manifest.texts.is_some(),
    is_needed_for_range: false,
    reader: None,
};

impl SectionKind {
    /// The name of a file of which a segment or a commit has one.
    pub fn file_name(&self, segment: &str) -> String {
        format!("{segment}.{}", self.ending)
    }

    /// The name of the file of one range of a segment.
    pub fn range_file_name(&self, segment: &str, part: PartNo) -> String {
        format!("{segment}.{:03}.{}", part.get(), self.ending)
    }
}

/// A file that a segment must have.
pub struct ExpectedFile {
    /// Its section.
    pub reader: &'static SectionReader,
    /// Its name in the directory of the index.
    pub name: String,
    /// Its range of the blots, if there is one such file for each range.
    pub part: Option<PartNo>,
    /// Whether a reader of its range of the blots needs it.
    pub is_needed_for_range: bool,
}

/// The files that a segment must have, in the order in which its entry lists them.
pub fn segment_files(entry: &SegmentEntry, manifest: &Manifest) -> Vec<ExpectedFile> {
    let mut files = Vec::new();
    for section in SECTIONS
        .iter()
        .filter(|section| (section.is_present)(manifest))
    {
        let Some(reader) = &section.reader else {
            continue;
        };
        let mut push = |name, part| {
            files.push(ExpectedFile {
                reader,
                name,
                part,
                is_needed_for_range: section.is_needed_for_range,
            });
        };
        if section.scope == SectionScope::Range {
            for part in (0..entry.parts).map(PartNo::new) {
                push(section.range_file_name(&entry.name, part), Some(part));
            }
        } else {
            push(section.file_name(&entry.name), None);
        }
    }
    files
}

/// Whether a file is named as files of sections are: `000001.docs`, `000001.000.part`.
pub fn is_section_file(name: &str) -> bool {
    name.split_once('.').is_some_and(|(segment, rest)| {
        let ending = rest.rsplit('.').next().unwrap_or_default();
        segment.len() == 6
            && segment.bytes().all(|byte| byte.is_ascii_digit())
            && SECTIONS.iter().any(|section| section.ending == ending)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn endings_and_kinds_are_distinct() {
        let endings: BTreeSet<&str> = SECTIONS.iter().map(|section| section.ending).collect();
        let kinds: BTreeSet<&str> = SECTIONS.iter().map(|section| section.kind).collect();
        assert_eq!(
            (endings.len(), kinds.len()),
            (SECTIONS.len(), SECTIONS.len())
        );
    }

    #[test]
    fn names_of_files_are_recognized() {
        for section in SECTIONS {
            assert!(is_section_file(&section.file_name("000017")));
            assert!(is_section_file(
                &section.range_file_name("000017", PartNo::new(3))
            ));
        }
        for name in [
            "00001.docs",
            "0000001.docs",
            "00000a.docs",
            "000001",
            "000001.txt",
            "docs",
            "",
        ] {
            assert!(!is_section_file(name), "{name}");
        }
    }

    #[test]
    fn a_segment_lists_documents_sets_parts_and_words() {
        let scheme = "word@18.0 ordered:8:32 all".parse().unwrap();
        let entry = SegmentEntry {
            name: Manifest::segment_name(2),
            changes: [2, 2],
            parts: 2,
            files: Vec::new(),
        };
        let names = |dictionary: bool| -> Vec<String> {
            let manifest = Manifest {
                dictionary,
                ..Manifest::new(&scheme)
            };
            let files = segment_files(&entry, &manifest);
            files.into_iter().map(|file| file.name).collect()
        };
        let mut expected = vec![
            "000002.docs",
            "000002.sets",
            "000002.000.part",
            "000002.001.part",
        ];
        assert_eq!(names(false), expected);
        expected.push("000002.words");
        assert_eq!(names(true), expected);
    }
}
