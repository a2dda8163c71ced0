mod account;
mod chunk;
mod cutter;
pub mod document;
mod document_reader;
mod end_check;
mod format;
mod id_set;
mod lines;
mod locations;
mod open_beneath;
pub mod sequence;
mod skipped_kind;
mod slice;
mod sniff;
mod source;
mod unpack;
mod walk;

pub use account::{Account, RecordWithoutText, SkipReason, SkippedFile, SkippedInput};
pub use chunk::Chunk;
pub use document_reader::{
    Content, DocumentReader, InputDocument, ensure_utf8, read_open_text, read_text,
};
pub use format::Records;
pub use id_set::IdSet;
pub use lines::{LineReader, RawLine, copy_lines};
pub use locations::DocumentLocations;
pub use open_beneath::{FileBeneath, find_beneath};
pub use skipped_kind::SkippedKind;
pub use slice::{CorpusSlice, SliceFile};
pub use source::Source;
pub use unpack::{MOST_BYTES, Packing};
pub use walk::{CorpusWalk, FileEntry, WalkItem, total_bytes};

use crate::text::stream::LineParser;
use std::path::PathBuf;

/// Which documents to read, and how.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Options {
    /// Files, directories, or `-`; nothing means stdin, unless there is a list.
    pub paths: Vec<PathBuf>,
    /// A file with a path a line.
    pub files_from: Option<PathBuf>,
    /// These files, which were found before, and nothing else.
    pub slice: Option<PathBuf>,
    /// Where copies of the files of the slice are, each named by its number.
    pub copies: Option<PathBuf>,
    /// The list's paths end with NUL instead of a line feed.
    pub nul_separated: bool,
    /// What files hold, where the name does not tell.
    pub records: Option<Records>,
    /// The fields of a JSON record that hold the id and the text.
    pub fields: LineParser,
    /// Leave the root of a walked directory out of the ids.
    pub relative: bool,
    /// Read text that is not UTF-8, with `?` for each byte that is wrong.
    pub lossy: bool,
    /// Take files for FASTA, where nothing else is said.
    pub prefer_fasta: bool,
    /// The most bytes of a document after unpacking, and of a line or record; longer ones are left out.
    pub max_document: u64,
    /// Reading no document is an error, unless all there is is a stream of ours that ends as it should.
    pub needs_documents: bool,
}

/// What a document may have unless another bound is chosen.
pub const MAX_DOCUMENT: u64 = 1 << 30;

impl Options {
    /// These files, read in the usual way.
    pub fn of_files(paths: Vec<PathBuf>) -> Self {
        let fields = LineParser {
            id_field: "id".to_owned(),
            text_field: "text".to_owned(),
        };
        Self {
            paths,
            files_from: None,
            slice: None,
            copies: None,
            nul_separated: false,
            records: None,
            fields,
            relative: false,
            lossy: false,
            prefer_fasta: false,
            max_document: MAX_DOCUMENT,
            needs_documents: false,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::of_files(Vec::new())
    }
}
