//! A file that is one document.

use super::{DocumentReader, InputFormat, Probe, RecordPiece, Records, Visit};
use crate::text::corpus::document_reader::visit_file;

/// A file that is one document.
pub(super) struct Text;

/// Extensions of files that are one document, unless each of their first lines is a record.
#[rustfmt::skip]
const EXTENSIONS: &[&str] = &[
    "adb", "adoc", "ads", "asm", "awk", "bash", "bat", "bib", "c", "cc", "cfg", "cjs", "clj",
    "cmake", "cmd", "conf", "cpp", "cs", "css", "csv", "cu", "cxx", "d", "dart", "diff", "el",
    "eml", "erl", "ex", "exs", "f90", "fish", "for", "go", "gradle", "groovy", "h", "hh", "hpp",
    "hs", "htm", "html", "hxx", "ini", "ipynb", "java", "jl", "js", "jsx", "kt", "kts", "less",
    "lhs", "lisp", "log", "lua", "m", "markdown", "md", "mjs", "mk", "ml", "mli", "mm", "nim",
    "org", "pas", "patch", "php", "pl", "pm", "po", "properties", "ps1", "py", "pyi", "r", "rb",
    "rs", "rst", "rtf", "scala", "scm", "scss", "sh", "sql", "srt", "svg", "swift", "tex",
    "text", "toml", "ts", "tsv", "tsx", "txt", "vue", "xhtml", "xml", "yaml", "yml", "zig",
    "zsh",
];

impl InputFormat for Text {
    fn records(&self) -> Records {
        Records::Text
    }

    fn extensions(&self) -> &'static [&'static str] {
        EXTENSIONS
    }

    /// What no other format recognises is a text; there is nothing to look for.
    fn recognises(&self, _: &Probe<'_>) -> bool {
        false
    }

    fn read(&self, mut piece: RecordPiece<'_>, reader: &mut DocumentReader, visit: &mut Visit<'_>) {
        let container = piece.container;
        visit_file(
            &container.id,
            &container.file,
            &mut piece.bytes,
            reader.lossy,
            visit,
        );
    }
}
