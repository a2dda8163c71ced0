//! A file that is one document.

use super::{InputFormat, Probe, Records};

/// A file that is one document.
pub(super) struct Text;

/// Extensions of files that are one document, unless each of their first lines is a record.
#[rustfmt::skip]
const EXTENSIONS: &[&str] = &[
    "adb", "adoc", "ads", "asm", "awk", "bash", "bat", "bib", "c", "cc", "cfg", "cjs", "clj",
    "cmake", "cmd", "conf", "cpp", "cs", "css", "cu", "cxx", "d", "dart", "diff", "el",
    "eml", "erl", "ex", "exs", "f90", "fish", "for", "go", "gradle", "groovy", "h", "hh", "hpp",
    "hs", "hxx", "ini", "java", "jl", "js", "jsx", "kt", "kts", "less",
    "lhs", "lisp", "log", "lua", "m", "markdown", "md", "mjs", "mk", "ml", "mli", "mm", "nim",
    "org", "pas", "patch", "php", "pl", "pm", "po", "properties", "ps1", "py", "pyi", "r", "rb",
    "rs", "rst", "scala", "scm", "scss", "sh", "sql", "srt", "svg", "swift", "tex",
    "text", "toml", "ts", "tsx", "txt", "vue", "xml", "yaml", "yml", "zig",
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
}
