//! Finds out what an input is, and opens it.
//!
//! First bytes decide before names do, and what the user says decides before both:
//!
//! 1. a stream of ours,
//! 2. a document that some code turns into text: an adapter, or one of `document`,
//! 3. a file that is known but not read (`skipped_kind`),
//! 4. an archive, whose members are opened in the same way,
//! 5. records, by one of the formats of `format`,
//! 6. any other file is a text, and one document.

use super::{
    Options,
    account::SkippedFile,
    archive::{ArchiveFormat, ArchiveInput},
    archive_chunks::ArchiveChunks,
    chunk::{Chunk, ChunkIter, Chunks, Container},
    convert::Converter,
    encoding::{TextEncoding, decode_input},
    format::{FormatInput, Parts, Probe, Records, one_part},
    part::FilePart,
    selection::Selection,
    sequence::RecordFault,
    skipped_kind::SkippedKind,
    sniff::Sniffed,
    walk::FileEntry,
};
use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        parallel::Weighted,
    },
    text::{
        scheme::BlotScheme,
        stream::{BlockReader, Header, MAGIC},
    },
};
use encoding_rs::Encoding;
use std::{
    fs::File,
    iter,
    path::{Path, PathBuf},
    sync::Arc,
};

/// An input whose beginning was read.
pub(super) struct Candidate {
    /// What its documents are called.
    pub id: Arc<str>,
    /// What messages call it.
    pub file: Arc<str>,
    /// Its file name, without the endings of what it is packed in.
    pub name: PathBuf,
    /// Its beginning.
    pub sniffed: Sniffed,
    /// The file itself, if it is a regular one that is not packed.
    pub disk: Option<File>,
    /// Not a pipe, a terminal or a device.
    pub is_regular: bool,
    /// Given by the user.
    pub is_named: bool,
    /// How many archives it is in.
    pub depth: usize,
}

/// What the beginning of an input tells about it.
pub(super) enum Recognised {
    /// A binary stream of ours.
    Stream,
    /// One document, whose text some code extracts.
    Converted,
    /// One document, which is a text.
    Text,
    /// A file that is not read.
    Skipped(SkippedKind),
    /// An archive.
    Archive(ArchiveFormat),
    /// Many documents.
    Records {
        /// Their format.
        records: Records,
        /// What they must be decoded from.
        encoding: Option<&'static Encoding>,
    },
}

/// What an input was found to be.
pub(super) enum Opened {
    /// One document; what was read is given back.
    Document(Candidate),
    /// Many documents.
    Records {
        /// The header, if it is a stream of ours, and where it is.
        header: Option<(Header, Place)>,
        parts: Parts,
    },
    /// A file that is not read.
    Skipped(SkippedFile),
    /// The run cannot go on: a stream of ours is damaged.
    Failed(Error),
}

/// Opens inputs by the options of a corpus.
pub(super) struct Opener {
    pub options: Options,
    /// Which members of archives are read.
    pub selection: Selection,
    converter: Converter,
}

impl Opener {
    pub fn new(options: Options) -> Result<Self> {
        Ok(Self {
            selection: Selection::new(&options, Path::new(""))?,
            converter: Converter::new(&options),
            options,
        })
    }

    /// Opens an input, as far as its beginning tells what it is.
    pub fn open(self: &Arc<Self>, candidate: Candidate) -> Opened {
        match self.recognise(&candidate) {
            Recognised::Stream => self.open_blocks(candidate),
            Recognised::Converted | Recognised::Text => Opened::Document(candidate),
            Recognised::Skipped(kind) => Opened::Skipped(candidate.skipped(kind)),
            Recognised::Archive(format) => self.open_archive(format, candidate),
            Recognised::Records { records, encoding } => {
                self.open_records(candidate, records, encoding)
            }
        }
    }

    /// Decides what an input is.
    pub fn recognise(&self, candidate: &Candidate) -> Recognised {
        let head = &candidate.sniffed.head;
        if head.starts_with(&MAGIC) {
            return Recognised::Stream;
        }
        if self.is_convertible(head, &candidate.name) {
            return Recognised::Converted;
        }
        let skipped = SkippedKind::of(head, &candidate.name, self.options.records);
        // A text in UTF-16 is decoded.
        let skipped = skipped.filter(|&kind| candidate.is_regular && kind != SkippedKind::Utf16);
        if let Some(kind) = skipped {
            return Recognised::Skipped(kind);
        }
        if let Some(format) = ArchiveFormat::of(head) {
            return Recognised::Archive(format);
        }
        let encoding = TextEncoding::new(&self.options).of_records(head);
        let decoded = encoding.map(|encoding| candidate.sniffed.decoded(encoding));
        let probe = Probe {
            named: Records::of_name(&candidate.name),
            name: &candidate.name,
            sniffed: decoded.as_ref().unwrap_or(&candidate.sniffed),
            is_file: candidate.is_regular,
            options: &self.options,
        };
        let records = self.options.records;
        match records.or_else(|| Records::recognise(&probe)) {
            Some(records) if records != Records::Text => Recognised::Records {
                records,
                encoding: encoding.filter(|_| records.is_text()),
            },
            _ => Recognised::Text,
        }
    }

    fn open_blocks(&self, candidate: Candidate) -> Opened {
        if candidate.depth > 0 {
            return Opened::Skipped(
                candidate.damaged("a stream inside an archive; unpack it first"),
            );
        }
        match BlockReader::open(candidate.sniffed.input, candidate.file.clone()) {
            Err(error) => Opened::Failed(error),
            Ok(reader) => {
                let header = reader.header().clone();
                let of = Arc::new(container(
                    &candidate.id,
                    &candidate.file,
                    !candidate.is_regular,
                    Records::Ndjson,
                    Some(header.clone()),
                ));
                Opened::Records {
                    header: Some((header, Place::file(candidate.file))),
                    parts: with_opening(of.clone(), one_part(Chunks::blocks(of, reader))),
                }
            }
        }
    }

    fn open_archive(self: &Arc<Self>, format: ArchiveFormat, candidate: Candidate) -> Opened {
        if candidate.depth >= super::archive::MOST_DEPTH {
            return Opened::Skipped(candidate.skipped(SkippedKind::TooDeep));
        }
        let Candidate {
            id,
            file,
            sniffed,
            disk,
            depth,
            is_named,
            ..
        } = candidate;
        let input = disk.map_or(ArchiveInput::Stream(sniffed.input), ArchiveInput::File);
        match ArchiveChunks::open(self.clone(), format, input, (&id, &file), depth) {
            Ok(chunks) => Opened::Records {
                header: None,
                parts: one_part(chunks),
            },
            Err(error) => {
                let what = format!("{}: {error}", format.name());
                Opened::Skipped(SkippedFile::damaged(file, &what, is_named))
            }
        }
    }

    /// `encoding`: what the records must be decoded from.
    fn open_records(
        &self,
        candidate: Candidate,
        records: Records,
        encoding: Option<&'static Encoding>,
    ) -> Opened {
        let Candidate {
            id,
            file,
            sniffed,
            disk,
            is_regular,
            is_named,
            depth,
            ..
        } = candidate;
        let header = match stream_header(records, &sniffed.head) {
            Ok(header) => header,
            Err(what) => return Opened::Failed(Error::damaged(Place::line(&file, 1), what)),
        };
        if header.is_some() && depth > 0 {
            let what = "a stream inside an archive; unpack it first";
            return Opened::Skipped(SkippedFile::damaged(file, what, is_named));
        }
        let disk = disk.filter(|_| encoding.is_none());
        let of = Container {
            decoded: encoding.map(Encoding::name),
            is_on_disk: disk.is_some() && matches!(records, Records::Ndjson | Records::Lines),
            ..container(&id, &file, !is_regular, records, header.clone())
        };
        let of = Arc::new(of);
        let input = match encoding {
            Some(encoding) => decode_input(encoding, sniffed.input),
            None => sniffed.input,
        };
        let input = FormatInput { input, disk };
        match records.format().open(of.clone(), input, &self.options) {
            Ok(parts) => Opened::Records {
                header: header.map(|header| (header, Place::file(file))),
                parts: with_opening(of, parts),
            },
            Err(fault) => Opened::Skipped(self.faulty(file, fault, is_named)),
        }
    }

    /// Opens a part of a file that was cut. The file counts as opened by its first part.
    pub fn open_part(&self, entry: &FileEntry, part: &FilePart) -> Opened {
        let file = entry.name();
        let of = Arc::new(container(&entry.id, &file, false, part.records, None));
        let format = part.records.format();
        match format.open_part(of.clone(), entry, part, &self.options) {
            Ok(parts) if part.is_first() => Opened::Records {
                header: None,
                parts: with_opening(of, parts),
            },
            Ok(parts) => Opened::Records {
                header: None,
                parts,
            },
            Err(fault) => Opened::Skipped(self.faulty(file, fault, entry.is_named)),
        }
    }

    /// Whether some code turns such a file into text.
    pub fn is_convertible(&self, head: &[u8], name: &Path) -> bool {
        let skipped = SkippedKind::of(head, name, self.options.records);
        self.converter.choose(head, name, skipped).is_some()
    }

    /// A file of which not even the first record can be read.
    fn faulty(&self, file: Arc<str>, fault: RecordFault, is_named: bool) -> SkippedFile {
        match fault {
            RecordFault::NoText { fields } => {
                let names: Vec<_> = fields.iter().map(|name| format!("'{name}'")).collect();
                let what = format!(
                    "{}; it has {}",
                    self.options.fields.no_text(),
                    names.join(", ")
                );
                SkippedFile {
                    kind: SkippedKind::NoTextColumn,
                    ..SkippedFile::damaged(file, &what, is_named)
                }
            }
            RecordFault::Null => {
                SkippedFile::damaged(file, &self.options.fields.null_text(), is_named)
            }
            RecordFault::NotUtf8 { what, .. } | RecordFault::Bad(what) => {
                SkippedFile::damaged(file, &what, is_named)
            }
            RecordFault::TooLarge => SkippedFile::too_large(file, self.options.max_document),
        }
    }
}

impl Candidate {
    pub fn skipped(&self, kind: SkippedKind) -> SkippedFile {
        SkippedFile::new(self.file.clone(), kind, self.sniffed.packing, self.is_named)
    }

    pub fn damaged(&self, what: &str) -> SkippedFile {
        SkippedFile::damaged(self.file.clone(), what, self.is_named)
    }
}

/// Puts the start of the file before its first part: a file that holds no record was read as well.
fn with_opening(of: Arc<Container>, mut parts: Parts) -> Parts {
    let opening = iter::once(Ok(Weighted {
        item: Chunk::Opened(of),
        bytes: 0,
    }));
    let first: ChunkIter = match parts.next() {
        Some(first) => Box::new(opening.chain(first)),
        None => Box::new(opening),
    };
    Box::new(iter::once(first).chain(parts))
}

/// The header of a stream of ours, if that is what the lines are.
fn stream_header(records: Records, head: &[u8]) -> Result<Option<Header>, String> {
    let first = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let is_stream = records == Records::Ndjson && Header::is_likely(first);
    is_stream.then(|| Header::parse(first)).transpose()
}

fn container(
    id: &Arc<str>,
    file: &Arc<str>,
    is_live: bool,
    records: Records,
    header: Option<Header>,
) -> Container {
    let scheme = header.as_ref().map_or("", |header| &header.scheme);
    let blot_bits = scheme.parse().map(|scheme: BlotScheme| scheme.bits);
    Container {
        id: id.clone(),
        file: file.clone(),
        records,
        decoded: None,
        is_on_disk: false,
        is_live,
        header,
        blot_bits,
    }
}

/// A problem with a whole file.
pub(super) fn file_problem(file: &Arc<str>, what: impl Into<String>) -> Problem {
    Problem::new(Place::file(file.clone()), what)
}
