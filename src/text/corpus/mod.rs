mod account;
mod adapter;
mod archive;
mod archive_chunks;
mod chunk;
mod convert;
mod cut;
mod cutter;
pub mod document;
mod document_reader;
mod encoding;
mod end_check;
mod format;
mod id_set;
mod lines;
mod locations;
mod open_beneath;
mod opener;
mod part;
mod placed_id;
mod programs;
pub mod rewrite;
mod rows;
mod selection;
pub mod sequence;
mod similar_path;
mod skipped_kind;
mod slice;
mod sniff;
mod source;
mod spool;
mod text_cache;
mod unpack;
mod walk;

pub use account::{Account, LeftOutFile, RecordWithoutText, SkipReason, SkippedFile, SkippedInput};
pub use adapter::{AdapterLimits, AdapterRule};
pub use archive::{containers_of, enclosing_files};
pub use chunk::{Chunk, ends_a_file};
pub use cut::{CutSize, UncutFile, cut_file};
pub use document_reader::{
    Content, DocumentReader, InputDocument, ensure_utf8, read_open_text, read_text,
};
pub use encoding::parse_encoding;
pub use format::Records;
pub use id_set::IdSet;
pub use lines::{LineReader, RawLine, copy_lines};
pub use locations::DocumentLocations;
pub use open_beneath::{FileBeneath, find_beneath};
pub use part::{FilePart, UnpackedPlace};
pub use placed_id::PlacedId;
pub use programs::{NeededProgram, is_program_installed, needed_programs};
pub use similar_path::{did_you_mean, similar_path};
pub use skipped_kind::SkippedKind;
pub use slice::{CorpusSlice, SliceFile};
pub use source::Source;
pub use text_cache::default_cache;
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
    /// Globs of the files to read; all if there is none.
    pub include: Vec<String>,
    /// Globs of files and directories to pass over.
    pub exclude: Vec<String>,
    /// Pass over what `.gitignore` files name.
    pub gitignore: bool,
    /// Read hidden files and directories, too.
    pub hidden: bool,
    /// What files hold, where the name does not tell.
    pub records: Option<Records>,
    /// The fields of a JSON record that hold the id and the text.
    pub fields: LineParser,
    /// Leave the root of a walked directory out of the ids.
    pub relative: bool,
    /// Read text that is not UTF-8, with `?` for each byte that is wrong.
    pub lossy: bool,
    /// The encoding of all texts; each decides for itself if there is none.
    pub encoding: Option<String>,
    /// Take files for FASTA, where nothing else is said.
    pub prefer_fasta: bool,
    /// Read HTML files as they are, tags included.
    pub keep_markup: bool,
    /// Programs that turn files into text, by their names.
    pub adapters: Vec<AdapterRule>,
    /// What programs that turn files into text may use.
    pub adapter_limits: AdapterLimits,
    /// Where extracted texts are kept; nowhere if there is none.
    pub adapter_cache: Option<PathBuf>,
    /// The language in which tesseract reads images and scanned pages; they are left out if there is none.
    pub ocr: Option<String>,
    /// The most bytes of a document after unpacking, and of a line or record; longer ones are left out.
    pub max_document: u64,
    /// Ids also tell where each document is, so that two documents never have the same one; see [`PlacedId`].
    #[serde(default)]
    pub placed_ids: bool,
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
            include: Vec::new(),
            exclude: Vec::new(),
            gitignore: false,
            hidden: false,
            records: None,
            fields,
            relative: false,
            lossy: false,
            encoding: None,
            prefer_fasta: false,
            keep_markup: false,
            adapters: Vec::new(),
            adapter_limits: AdapterLimits::default(),
            adapter_cache: None,
            ocr: None,
            max_document: MAX_DOCUMENT,
            placed_ids: false,
            needs_documents: false,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::of_files(Vec::new())
    }
}
