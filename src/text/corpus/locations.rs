//! Where the documents of a corpus are, so that their texts can be read one by one.
//!
//! One pass over the corpus records the location of each wanted document, not its text: the file, or where its line starts
//! in a file that is not packed. Texts that have no such place (lines of packed files and of pipes, rows of
//! tables, members of archives, sequences of FASTA) are copied into a temporary file, the spool.

use super::{
    FileEntry, Options, Records, Source,
    account::SkippedInput,
    chunk::{Chunk, Container},
    document_reader::{Content, DocumentReader, ensure_utf8, read_open_text},
    lines::{LineReader, RawLine},
    open_beneath::open_beneath,
    skipped_kind::BOM,
};
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{
    base::error::{Error, Place, Problem, Result},
    text::stream::{Blots, Line, Tokens},
};
use std::{
    collections::HashMap,
    fs::File,
    io::{BufWriter, Read, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};
use xxhash_rust::xxh3::xxh3_64;

/// The locations of the wanted documents of a corpus.
///
/// Memory: some forty bytes for each document that is wanted, and the names of the files.
pub struct DocumentLocations {
    of: HashMap<u64, DocumentLocation>,
    files: Vec<LocatedFile>,
    spool: File,
    options: Options,
    problems: Vec<Problem>,
}

#[derive(Clone, Copy)]
enum DocumentLocation {
    /// A file that is one document.
    File(u32),
    /// Bytes of a file: a line.
    Line { file: u32, length: u32, start: u64 },
    /// Bytes of the spool: a text.
    Spool { length: u32, start: u64 },
}

/// A file with documents.
struct LocatedFile {
    path: PathBuf,
    records: Records,
}

/// Decides by its id whether a document is wanted.
type IsWanted<'w> = dyn FnMut(&str) -> Result<bool> + 'w;

impl DocumentLocations {
    /// Finds all documents of a corpus that are wanted, by their ids. Of several with one id the first counts.
    pub fn find(options: &Options, is_wanted: impl FnMut(&str) -> Result<bool>) -> Result<Self> {
        Self::find_in(Source::new(options.clone(), 2)?, options, is_wanted)
    }

    /// The same in one file.
    pub fn find_in_file(
        file: FileEntry,
        options: &Options,
        is_wanted: impl FnMut(&str) -> Result<bool>,
    ) -> Result<Self> {
        let source = Source::of(vec![file], options.clone(), 2)?;
        Self::find_in(source, options, is_wanted)
    }

    fn find_in(
        source: Source,
        options: &Options,
        mut is_wanted: impl FnMut(&str) -> Result<bool>,
    ) -> Result<Self> {
        let spool = tempfile::tempfile().map_err(spool_failed)?;
        let mut finder = LocationFinder {
            places: Self {
                of: HashMap::new(),
                files: Vec::new(),
                spool: spool.try_clone().map_err(spool_failed)?,
                options: options.clone(),
                problems: Vec::new(),
            },
            spool: BufWriter::with_capacity(1 << 16, spool),
            spooled: 0,
            lines: LineReader::new(options),
            reader: DocumentReader::new(options),
            last: None,
            next: 0,
        };
        for chunk in source {
            finder.take(chunk?.item, &mut is_wanted)?;
        }
        finder.spool.flush().map_err(spool_failed)?;
        Ok(finder.places)
    }

    /// What could not be read.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The text of a document; none if the corpus does not have it.
    pub fn text(&self, id: &str) -> Result<Option<String>, Problem> {
        let Some(&location) = self.of.get(&xxh3_64(id.as_bytes())) else {
            return Ok(None);
        };
        match location {
            DocumentLocation::File(file) => self.file_text(&self.files[file.to_usize()].path),
            DocumentLocation::Spool { length, start } => self.spooled_text(start, length),
            DocumentLocation::Line {
                file,
                length,
                start,
            } => self.line_text(id, &self.files[file.to_usize()], start, length),
        }
        .map(Some)
    }

    fn file_text(&self, path: &Path) -> Result<String, Problem> {
        open_regular(path)
            .and_then(|file| read_open_text(file, path, &self.options))
            .map_err(|error| Problem::new(Place::path(path), error.to_string()))
    }

    fn spooled_text(&self, start: u64, length: u32) -> Result<String, Problem> {
        let mut bytes = vec![0; length.to_usize()];
        let failed = |what: String| Problem::new(Place::file(SPOOL), what);
        self.spool
            .read_exact_at(&mut bytes, start)
            .map_err(|error| failed(error.to_string()))?;
        String::from_utf8(bytes).map_err(|error| failed(error.to_string()))
    }

    fn line_text(
        &self,
        id: &str,
        LocatedFile { path, records }: &LocatedFile,
        start: u64,
        length: u32,
    ) -> Result<String, Problem> {
        let problem = |what: String| Problem::new(Place::path(path), what);
        let mut bytes = vec![0; length.to_usize()];
        open_regular(path)
            .and_then(|file| file.read_exact_at(&mut bytes, start))
            .map_err(|error| problem(error.to_string()))?;
        ensure_utf8(&mut bytes, self.options.lossy).map_err(problem)?;
        let changed = || {
            problem(format!(
                "the line of '{id}' is not there any more; the file was changed meanwhile"
            ))
        };
        if *records == Records::Lines {
            let end = bytes.trim_ascii_end().len();
            bytes.truncate(end);
            return String::from_utf8(bytes).map_err(|_| changed());
        }
        let (mut tokens, mut blots) = (Tokens::default(), Blots::default());
        match self.options.fields.parse(&bytes, &mut tokens, &mut blots) {
            Ok(Line::Document { id: found, text })
                if found.as_ref().is_none_or(|found| found == id) =>
            {
                Ok(text.into_owned())
            }
            _ => Err(changed()),
        }
    }
}

struct LocationFinder {
    places: DocumentLocations,
    spool: BufWriter<File>,
    spooled: u64,
    lines: LineReader,
    reader: DocumentReader,
    /// The file that the last chunk was of, and where in it the next one starts.
    last: Option<Arc<Container>>,
    next: u64,
}

impl LocationFinder {
    fn take(&mut self, chunk: Chunk, is_wanted: &mut IsWanted<'_>) -> Result<()> {
        match chunk {
            Chunk::Files(entries) => {
                for entry in entries {
                    if is_wanted(&entry.id)? {
                        let at = DocumentLocation::File(self.places.files.len().to_u32());
                        let hash = xxh3_64(entry.id.as_bytes());
                        self.places.of.entry(hash).or_insert(at);
                        self.places.files.push(LocatedFile {
                            path: entry.path,
                            records: Records::Text,
                        });
                    }
                }
                Ok(())
            }
            // There is no text in them.
            Chunk::Opened(_) | Chunk::Block { .. } | Chunk::Passed(_) => Ok(()),
            Chunk::Records { ref of, .. } if of.header.is_some() => Ok(()),
            Chunk::Records { ref of, .. } if of.is_on_disk => {
                let of = of.clone();
                self.open(&of)?;
                self.take_lines(chunk, is_wanted)
            }
            Chunk::Problem(problem) => {
                self.places.problems.push(problem);
                Ok(())
            }
            Chunk::Skipped(left) => {
                let problem = left.is_error().then_some(left.problem);
                self.places.problems.extend(problem);
                Ok(())
            }
            Chunk::Whole { .. } | Chunk::Records { .. } | Chunk::Rows { .. } => {
                self.spool_texts(chunk, is_wanted)
            }
        }
    }

    /// Copies the texts that are wanted into the spool.
    fn spool_texts(&mut self, chunk: Chunk, is_wanted: &mut IsWanted<'_>) -> Result<()> {
        let Self {
            places,
            spool,
            spooled,
            reader,
            ..
        } = self;
        let mut taken = Ok(());
        reader.read(chunk, &mut |found| match found {
            Ok(document) => {
                if let (Content::Text(text), Ok(())) = (document.content, &taken) {
                    taken = spool_text(places, spool, spooled, document.id, text, is_wanted);
                }
            }
            Err(SkippedInput::Problem(problem)) => places.problems.push(problem),
            Err(SkippedInput::File(left)) => {
                places
                    .problems
                    .extend(left.is_error().then_some(left.problem));
            }
            Err(SkippedInput::NoText(_)) => {}
        })?;
        taken
    }

    /// Begins with a file, unless it is the one of the chunk before.
    fn open(&mut self, of: &Arc<Container>) -> Result<()> {
        if self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, of)) {
            return Ok(());
        }
        let path = PathBuf::from(&*of.file);
        let mut head = Vec::new();
        let named = |error| Error::io(&of.file, error);
        File::open(&path)
            .map_err(named)?
            .take(BOM.len().to_u64())
            .read_to_end(&mut head)
            .map_err(named)?;
        // What is handed on has no mark of the byte order.
        self.next = if head == BOM { BOM.len().to_u64() } else { 0 };
        self.places.files.push(LocatedFile {
            path,
            records: of.records,
        });
        self.last = Some(of.clone());
        Ok(())
    }

    fn take_lines(&mut self, chunk: Chunk, is_wanted: &mut IsWanted<'_>) -> Result<()> {
        let mut wanted = Vec::new();
        let mut failed = Ok(());
        let bytes = self.lines.read(chunk, &mut |RawLine { bytes, id, .. }| {
            // A line that is no document is none of those that are wanted.
            if let Ok(Some(id)) = id
                && failed.is_ok()
            {
                match is_wanted(&id) {
                    Ok(true) => wanted.push((xxh3_64(id.as_bytes()), bytes)),
                    Ok(false) => {}
                    Err(error) => failed = Err(error),
                }
            }
        })?;
        failed?;
        let file = self.places.files.len().to_u32() - 1;
        for (id, line) in wanted {
            let at = DocumentLocation::Line {
                file,
                length: line.len().to_u32(),
                start: self.next + line.start.to_u64(),
            };
            self.places.of.entry(id).or_insert(at);
        }
        self.next += bytes.len().to_u64();
        Ok(())
    }
}

/// Copies a text into the spool, if it is wanted and the first of its id.
fn spool_text(
    places: &mut DocumentLocations,
    spool: &mut BufWriter<File>,
    spooled: &mut u64,
    id: &str,
    text: &str,
    is_wanted: &mut IsWanted<'_>,
) -> Result<()> {
    let hash = xxh3_64(id.as_bytes());
    if places.of.contains_key(&hash) || !is_wanted(id)? {
        return Ok(());
    }
    spool.write_all(text.as_bytes()).map_err(spool_failed)?;
    let at = DocumentLocation::Spool {
        length: text.len().to_u32(),
        start: *spooled,
    };
    *spooled += text.len().to_u64();
    places.of.insert(hash, at);
    Ok(())
}

/// A file that was found by walking may have become something else meanwhile. What was named may be a link, but not a pipe.
fn open_regular(path: &Path) -> std::io::Result<File> {
    let parent = path.parent().unwrap_or(Path::new(""));
    match path.file_name() {
        Some(name) if !path.is_symlink() => open_beneath(parent, Path::new(name)),
        _ => File::open(path),
    }
}

/// What messages call the spool.
const SPOOL: &str = "a temporary file for unpacked documents";

fn spool_failed(error: std::io::Error) -> Error {
    Error::io(SPOOL, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn record(id: &str, text: &str) -> String {
        format!("{}\n", serde_json::json!({ "id": id, "text": text }))
    }

    #[test]
    fn documents_are_found_in_every_kind_of_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let many: String = (0..5000)
            .map(|number| record(&format!("m{number}"), &format!("text {number} é")))
            .collect();
        fs::write(
            path("a.jsonl"),
            format!(
                "\u{feff}{}\n{}not json\n{many}",
                record("one", "first"),
                record("two", "second")
            ),
        )
        .unwrap();
        fs::write(
            path("b.jsonl.zst"),
            zstd::encode_all(
                (many.replace("\"m", "\"z") + &record("two", "again")).as_bytes(),
                1,
            )
            .unwrap(),
        )
        .unwrap();
        fs::write(path("c.txt"), "a file").unwrap();
        fs::write(path("d.jsonl"), "{\"text\":\"no id\"}").unwrap();
        let options = Options {
            relative: true,
            ..Options::of_files(vec![directory.path().to_owned()])
        };
        let places = DocumentLocations::find(&options, |id| Ok(id != "m7")).unwrap();
        let text = |id: &str| places.text(id).unwrap();
        for (id, expected) in [
            ("one", "first"),
            ("two", "second"),
            ("m4999", "text 4999 é"),
            ("z0", "text 0 é"),
            ("z4999", "text 4999 é"),
            ("c.txt", "a file"),
            ("d.jsonl:1", "no id"),
        ] {
            assert_eq!(text(id).as_deref(), Some(expected), "{id}");
        }
        assert_eq!(
            (text("m7"), text("none"), places.problems().len()),
            (None, None, 0)
        );
        // What is changed under our eyes is not taken for another.
        fs::write(path("a.jsonl"), many).unwrap();
        assert!(places.text("m4").is_err());
    }
}
