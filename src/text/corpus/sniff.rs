//! What an input holds, told from its beginning: one document, a document a line, or a stream of ours.
//!
//! A file is NDJSON if its name ends in `.jsonl` or `.ndjson`; or if the name promises nothing (`.json`, none, any that is not in
//! [`TEXT_NAMES`]) and its first lines are all JSON objects: two or more of them, or one that has the field of the text. So a file of
//! settings in one line is one document. A name that promises text must be refuted by each of its first lines: all are objects that have
//! the field of the text. Of such a name in a directory a few bytes are read, and more only if a brace or our magic is the first of them,
//! which keeps trees of many small texts fast. Of a pipe only the first line is waited for: if that is an object, it is NDJSON.

use super::{
    chunk::READ_BYTES,
    skipped_kind::{BOM, extension, inner_name},
    unpack::{Input, Once, Packing, peek, unpack},
    walk::FileEntry,
};
use crate::text::stream::{Header, LineParser, MAGIC};
use serde::de::IgnoredAny;
use std::{
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

/// What a file's name says of its content, packed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// A JSON object a line.
    Ndjson,
    /// One document.
    Text,
    Nothing,
}

/// Names of files that are one document, whatever their first lines look like.
const TEXT_NAMES: [&str; 99] = [
    "adb",
    "adoc",
    "ads",
    "asm",
    "awk",
    "bash",
    "bat",
    "bib",
    "c",
    "cc",
    "cfg",
    "cjs",
    "clj",
    "cmake",
    "cmd",
    "conf",
    "cpp",
    "cs",
    "css",
    "csv",
    "cu",
    "cxx",
    "d",
    "dart",
    "diff",
    "el",
    "eml",
    "erl",
    "ex",
    "exs",
    "f90",
    "fish",
    "for",
    "go",
    "gradle",
    "groovy",
    "h",
    "hh",
    "hpp",
    "hs",
    "htm",
    "html",
    "hxx",
    "ini",
    "ipynb",
    "java",
    "jl",
    "js",
    "jsx",
    "kt",
    "kts",
    "less",
    "lhs",
    "lisp",
    "log",
    "lua",
    "m",
    "markdown",
    "md",
    "mjs",
    "mk",
    "ml",
    "mli",
    "mm",
    "nim",
    "org",
    "pas",
    "patch",
    "php",
    "pl",
    "pm",
    "po",
    "properties",
    "ps1",
    "py",
    "pyi",
    "r",
    "rb",
    "rs",
    "rst",
    "rtf",
    "scala",
    "scm",
    "scss",
    "sh",
    "sql",
    "srt",
    "svg",
    "swift",
    "tex",
    "text",
    "toml",
    "ts",
    "tsv",
    "tsx",
    "txt",
    "vue",
    "xml",
    "yaml",
];

pub fn promise(path: &Path) -> Promise {
    match extension(inner_name(path)).as_deref() {
        Some("jsonl" | "ndjson") => Promise::Ndjson,
        Some(name)
            if TEXT_NAMES.binary_search(&name).is_ok()
                || matches!(name, "xhtml" | "yml" | "zig" | "zsh") =>
        {
            Promise::Text
        }
        _ => Promise::Nothing,
    }
}

/// How much of a file is read to tell what it holds; more if its first line is longer and may be JSON.
const SNIFF_BYTES: usize = 1 << 16;
/// How much of a file with the name of a text is read to tell whether more must be.
const PEEK_BYTES: usize = 64;
/// How many lines must be objects for a file to be NDJSON.
const SNIFF_LINES: usize = 16;

/// What was learned of an input from its beginning.
pub struct Sniffed {
    /// The first bytes, the whole first line where it may be JSON; of a pipe no more than is needed to tell.
    pub head: Vec<u8>,
    /// A byte-order mark came before them, and was taken away.
    pub has_bom: bool,
    /// The head is all there is.
    is_whole: bool,
    pub packing: Packing,
    /// As if the head had not been read.
    pub input: Input,
}

impl Sniffed {
    /// `most_bytes`: of a line; no more is read to tell what it is.
    pub fn open(entry: &FileEntry, most_bytes: u64) -> io::Result<Self> {
        let (packing, input) = if entry.is_stdin() {
            unpack(BufReader::with_capacity(READ_BYTES, Once::new(io::stdin())))?
        } else {
            unpack(BufReader::with_capacity(
                READ_BYTES,
                Once::new(entry.open()?),
            ))?
        };
        let sniffed = if entry.is_regular {
            Self::of_file(input, most_bytes)?
        } else {
            Self::of_pipe(input, most_bytes)?
        };
        Ok(Self { packing, ..sniffed })
    }

    /// Whether the first bytes of a file that is not packed let it be more than one document. A file that cannot be read is not one to look at here.
    pub fn may_hold_records(entry: &FileEntry) -> bool {
        let mut head = [0; PEEK_BYTES];
        // A regular file gives them in one read.
        let count = entry
            .open()
            .and_then(|mut file| file.read(&mut head))
            .unwrap_or(0);
        let text = head[..count]
            .strip_prefix(BOM)
            .unwrap_or(&head[..count])
            .trim_ascii_start();
        head.starts_with(&MAGIC) || text.starts_with(b"{") || (text.is_empty() && count > 0)
    }

    fn of_file(mut input: Input, most_bytes: u64) -> io::Result<Self> {
        let mut head = Vec::new();
        let failed = input
            .by_ref()
            .take(SNIFF_BYTES as u64)
            .read_to_end(&mut head)
            .err();
        if let Some(error) = failed {
            if head.is_empty() {
                return Err(error);
            }
            // What came before the damage is good, and tells what the file is.
            input = Box::new(BufReader::new(Failing(Some(error))));
        }
        let mut is_whole = head.len() < SNIFF_BYTES;
        let has_bom = head.starts_with(BOM);
        if has_bom {
            head.drain(..BOM.len());
        }
        if !is_whole && !head.contains(&b'\n') && may_be_json(&head) {
            let room = (most_bytes + 1).saturating_sub(head.len() as u64);
            input.by_ref().take(room).read_until(b'\n', &mut head)?;
            is_whole = head.last() != Some(&b'\n') && (head.len() as u64) <= most_bytes;
        }
        Ok(Self::with(head, has_bom, is_whole, input))
    }

    /// No byte is waited for that is not needed: a person who types a line, or writes one to a pipe, wants its answer.
    fn of_pipe(input: Input, most_bytes: u64) -> io::Result<Self> {
        let (mut head, mut input) = peek(input, is_undecided)?;
        let has_bom = head.starts_with(BOM);
        if has_bom {
            input.consume(BOM.len());
            head.drain(..BOM.len());
        }
        if !head.trim_ascii_start().starts_with(b"{") {
            let is_whole = head.is_empty();
            return Ok(Self {
                head,
                has_bom,
                is_whole,
                packing: Packing::Plain,
                input: Box::new(input),
            });
        }
        head.clear();
        input
            .by_ref()
            .take(most_bytes + 1)
            .read_until(b'\n', &mut head)?;
        Ok(Self::with(head, has_bom, false, Box::new(input)))
    }

    fn with(head: Vec<u8>, has_bom: bool, is_whole: bool, rest: Input) -> Self {
        let input = Box::new(io::Cursor::new(head.clone()).chain(rest));
        Self {
            head,
            has_bom,
            is_whole,
            packing: Packing::Plain,
            input,
        }
    }

    /// Not a byte.
    pub fn is_empty(&self) -> bool {
        self.is_whole && self.head.is_empty() && !self.has_bom
    }

    /// Whether it is a document a line, see above. A stream of ours always is, whatever its name.
    pub fn is_ndjson(&self, promise: Promise, is_file: bool, fields: &LineParser) -> bool {
        let mut lines = self.lines();
        let Some(first) = lines.next() else {
            return false;
        };
        if Header::is_likely(first) {
            return true;
        }
        if !is_object(first) {
            return false;
        }
        if promise == Promise::Text {
            return self
                .lines()
                .take(SNIFF_LINES)
                .all(|line| is_object(line) && fields.has_text(line));
        }
        let mut others = lines.take(SNIFF_LINES - 1).peekable();
        !is_file
            || if others.peek().is_some() {
                others.all(is_object)
            } else {
                fields.has_text(first)
            }
    }

    /// The lines that are known to be whole, blank ones left out.
    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let end = if self.is_whole {
            self.head.len()
        } else {
            memchr::memrchr(b'\n', &self.head).map_or(self.head.len(), |at| at + 1)
        };
        self.head[..end]
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty())
    }
}

/// An input that cannot be read on.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

fn is_object(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// Whether a line may go on so that it is an object.
fn may_be_json(head: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(b"{")
        && serde_json::from_slice::<IgnoredAny>(head).map_or_else(|error| error.is_eof(), |_| true)
}

/// Whether more bytes are needed to tell what an input is: a binary stream, something that may be JSON, or neither.
fn is_undecided(head: &[u8]) -> bool {
    let rest = head.strip_prefix(BOM).unwrap_or(head);
    let may_be_bom = head.len() < BOM.len() && BOM.starts_with(head);
    may_be_bom
        || (rest.len() < MAGIC.len() && (MAGIC.starts_with(rest) || rest.trim_ascii().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one line, and must not be asked for another.
    struct OneLine(Option<&'static [u8]>);

    impl Read for OneLine {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let line = self.0.take().expect("a read too many");
            buffer[..line.len()].copy_from_slice(line);
            Ok(line.len())
        }
    }

    #[test]
    fn a_line_that_has_come_is_enough_to_tell() {
        for (line, head, has_bom) in [
            (&b"x\n"[..], &b"x"[..], false),
            (b"{}\n", b"{}\n", false),
            (b"\xef\xbb\xbf{}\n", b"{}\n", true),
            (b"\xef\xbb\xbfx", b"x", true),
            (b"\x89D\n", b"\x89D\n", false),
        ] {
            let sniffed =
                Sniffed::of_pipe(Box::new(BufReader::new(OneLine(Some(line)))), 1 << 20).unwrap();
            assert_eq!((&sniffed.head[..], sniffed.has_bom), (head, has_bom));
        }
    }

    fn is_ndjson(name: &str, content: &str) -> bool {
        let fields = LineParser {
            id_field: "id".to_owned(),
            text_field: "text".to_owned(),
        };
        let sniffed = Sniffed::of_file(
            Box::new(io::Cursor::new(content.as_bytes().to_vec())),
            1 << 20,
        )
        .unwrap();
        sniffed.is_ndjson(promise(Path::new(name)), true, &fields)
    }

    #[test]
    fn the_names_of_texts_are_sorted() {
        assert!(TEXT_NAMES.is_sorted());
    }

    #[test]
    fn objects_a_line_make_ndjson_of_names_that_promise_nothing() {
        let (two, one) = ("{\"a\":1}\n\n{\"a\":2}\n", "{\"text\":\"x\"}");
        for name in [
            "a.json",
            "a.json.gz",
            "a",
            "part-00000",
            "a.dat.zst",
            "A.JSON",
        ] {
            assert!(is_ndjson(name, two) && is_ndjson(name, one), "{name}");
        }
        for name in ["a.txt", "a.md.gz", "a.py"] {
            assert!(!is_ndjson(name, two) && is_ndjson(name, one), "{name}");
            assert!(!is_ndjson(name, &format!("{one}\nand a text")), "{name}");
        }
    }

    #[test]
    fn what_only_begins_like_json_is_text() {
        for content in [
            "",
            "\n\n",
            "{\"name\":\"settings in one line\"}",
            "{\n  \"text\": \"several lines\"\n}\n",
            "{\"a\":1}\nand a text\n",
            "{a}\n{b}\n",
            "1\n2\n",
        ] {
            assert!(!is_ndjson("a.json", content), "{content}");
        }
    }

    #[test]
    fn a_first_line_of_any_length_is_looked_at() {
        let long = "x".repeat(3 * SNIFF_BYTES);
        assert!(is_ndjson(
            "a.json",
            &format!("{{\"text\":\"{long}\"}}\n{{\"text\":\"y\"}}\n")
        ));
        assert!(is_ndjson("a.json", &format!("{{\"text\":\"{long}\"}}")));
        assert!(!is_ndjson("a.json", &format!("{{ {long}")));
        // The line that the head ends in is no reason to doubt.
        assert!(is_ndjson(
            "a.json",
            &format!("{{\"text\":\"x\"}}\n{{\"text\":\"{long}\"}}\n")
        ));
    }
}
