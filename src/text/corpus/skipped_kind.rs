//! Files that are recognised but not read, by their first bytes and then by their name, with advice.
//!
//! To add a kind: a variant and a row of [`TABLE`].

use super::{Records, unpack::Packing};
use crate::base::setting::Setting;
use serde::{Deserialize, Serialize};
use std::{ffi::OsStr, path::Path};

/// Why a file is left out: a format that this program does not read, or another reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkippedKind {
    /// PDF.
    Pdf,
    /// Word document.
    Docx,
    /// OpenDocument text.
    Odt,
    /// EPUB book.
    Epub,
    /// PowerPoint slides.
    Pptx,
    /// OpenDocument slides.
    Odp,
    /// Excel sheet.
    Xlsx,
    /// OpenDocument sheet.
    Ods,
    /// ZIP archive.
    Zip,
    /// Office file of before 2007.
    Doc,
    /// Rich Text Format.
    Rtf,
    /// Jupyter notebook.
    Ipynb,
    /// Comma-separated values.
    Csv,
    /// Tab-separated values.
    Tsv,
    /// An array of JSON objects.
    JsonArray,
    /// Parquet table.
    Parquet,
    /// Arrow table.
    Arrow,
    /// Avro table.
    Avro,
    /// SQLite database.
    Sqlite,
    /// Web archive.
    Warc,
    /// tar archive.
    Tar,
    /// Compressed with xz.
    Xz,
    /// Compressed with bzip2.
    Bzip2,
    /// Compressed with lz4.
    Lz4,
    /// Compressed with lzip.
    Lzip,
    /// Compressed with compress.
    Compress,
    /// 7z archive.
    SevenZip,
    /// RAR archive.
    Rar,
    /// PNG image.
    Png,
    /// JPEG image.
    Jpeg,
    /// GIF image.
    Gif,
    /// TIFF image.
    Tiff,
    /// WebP image.
    Webp,
    /// DjVu document.
    Djvu,
    /// Text in UTF-16.
    Utf16,
    /// Text in UTF-32.
    Utf32,
    /// Text that is not UTF-8.
    NotUtf8,
    /// A document longer than allowed.
    TooLarge,
    /// A file that cannot be read.
    Unreadable,
    /// A program.
    Executable,
    /// Binary data of an unknown kind.
    UnknownBinary,
    /// A hidden file or directory.
    Hidden,
    /// A symbolic link.
    Link,
    /// A pipe, socket or device.
    Special,
}

/// What skipping a file means for the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SkipSeverity {
    /// Possibly a document: the exit status is 2.
    Error,
    /// Not expected to be a document: it is only counted, unless the user named it.
    CountOnly,
}

use SkipSeverity::{CountOnly, Error};

struct SkippedKindRow {
    kind: SkippedKind,
    name: &'static str,
    /// Bytes at an offset; any of them tells the kind.
    signatures: &'static [(usize, &'static [u8])],
    /// How to make it readable; empty where there is no way.
    remedy: &'static str,
    /// A setting that helps as well.
    alternative: Option<Alternative>,
    severity: SkipSeverity,
}

/// A setting with which the file can be read: what to do, with which setting, and its value.
type Alternative = (&'static str, Setting, Option<&'static str>);

const fn row(
    kind: SkippedKind,
    name: &'static str,
    signatures: &'static [(usize, &'static [u8])],
    remedy: &'static str,
    severity: SkipSeverity,
) -> SkippedKindRow {
    SkippedKindRow {
        kind,
        name,
        signatures,
        remedy,
        alternative: None,
        severity,
    }
}

impl SkippedKindRow {
    const fn or(self, what: &'static str, setting: Setting, value: Option<&'static str>) -> Self {
        Self {
            alternative: Some((what, setting, value)),
            ..self
        }
    }
}

const AS_TEXT: &str = "save it as text, for example with pandoc -t plain";
const UNPACK: &str = "unpack it first";
const OCR: &str = "turn it into text, for example with tesseract";

/// In the order of [`SkippedKind`]. Zip files and what is made of them are told apart by what is inside, see [`of_zip`].
const TABLE: [SkippedKindRow; 44] = [
    row(
        SkippedKind::Pdf,
        "pdf",
        &[(0, b"%PDF-")],
        "convert it with pdftotext",
        Error,
    ),
    row(SkippedKind::Docx, "docx", &[], AS_TEXT, Error),
    row(SkippedKind::Odt, "odt", &[], AS_TEXT, Error),
    row(SkippedKind::Epub, "epub", &[], AS_TEXT, Error),
    row(SkippedKind::Pptx, "pptx", &[], "save it as text", Error),
    row(SkippedKind::Odp, "odp", &[], "save it as text", Error),
    row(
        SkippedKind::Xlsx,
        "xlsx",
        &[],
        "export it as NDJSON or text",
        Error,
    ),
    row(
        SkippedKind::Ods,
        "ods",
        &[],
        "export it as NDJSON or text",
        Error,
    ),
    row(SkippedKind::Zip, "zip", &[], UNPACK, Error),
    row(
        SkippedKind::Doc,
        "doc, xls or ppt",
        &[(0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")],
        "save it as text",
        Error,
    ),
    row(SkippedKind::Rtf, "rtf", &[(0, b"{\\rtf")], AS_TEXT, Error),
    row(
        SkippedKind::Ipynb,
        "ipynb",
        &[],
        "convert it with jupyter nbconvert",
        Error,
    )
    .or("read it as it is with", Setting::Records, Some("text")),
    row(SkippedKind::Csv, "csv", &[], "convert it to NDJSON", Error).or(
        "choose",
        Setting::Records,
        Some("lines or text"),
    ),
    row(SkippedKind::Tsv, "tsv", &[], "convert it to NDJSON", Error).or(
        "choose",
        Setting::Records,
        Some("lines or text"),
    ),
    row(
        SkippedKind::JsonArray,
        "json array",
        &[],
        "convert it to NDJSON with jq -c '.[]'",
        Error,
    )
    .or("choose", Setting::Records, Some("text")),
    row(
        SkippedKind::Parquet,
        "parquet",
        &[(0, b"PAR1")],
        "convert it to NDJSON",
        Error,
    ),
    row(
        SkippedKind::Arrow,
        "arrow",
        &[(0, b"ARROW1\0")],
        "convert it to NDJSON",
        Error,
    ),
    row(
        SkippedKind::Avro,
        "avro",
        &[(0, b"Obj\x01")],
        "convert it to NDJSON",
        Error,
    ),
    row(
        SkippedKind::Sqlite,
        "sqlite",
        &[(0, b"SQLite format 3\0")],
        "export it as NDJSON",
        Error,
    ),
    row(
        SkippedKind::Warc,
        "warc",
        &[(0, b"WARC/0."), (0, b"WARC/1.")],
        "convert it to NDJSON, a document a record",
        Error,
    ),
    row(SkippedKind::Tar, "tar", &[(257, b"ustar")], UNPACK, Error),
    row(
        SkippedKind::Xz,
        "xz",
        &[(0, b"\xfd7zXZ\0")],
        "unpack it with xz -d",
        Error,
    ),
    row(
        SkippedKind::Bzip2,
        "bzip2",
        &[],
        "unpack it with bzip2 -d",
        Error,
    ),
    row(
        SkippedKind::Lz4,
        "lz4",
        &[(0, b"\x04\x22\x4d\x18")],
        "unpack it with lz4 -d",
        Error,
    ),
    row(
        SkippedKind::Lzip,
        "lzip",
        &[(0, b"LZIP\x01")],
        "unpack it with lzip -d",
        Error,
    ),
    row(
        SkippedKind::Compress,
        "compress",
        &[(0, b"\x1f\x9d")],
        "unpack it with uncompress",
        Error,
    ),
    row(
        SkippedKind::SevenZip,
        "7z",
        &[(0, b"7z\xbc\xaf\x27\x1c")],
        UNPACK,
        Error,
    ),
    row(
        SkippedKind::Rar,
        "rar",
        &[(0, b"Rar!\x1a\x07")],
        UNPACK,
        Error,
    ),
    row(
        SkippedKind::Png,
        "png",
        &[(0, b"\x89PNG\r\n\x1a\n")],
        OCR,
        Error,
    ),
    row(
        SkippedKind::Jpeg,
        "jpeg",
        &[(0, b"\xff\xd8\xff")],
        OCR,
        Error,
    ),
    row(
        SkippedKind::Gif,
        "gif",
        &[(0, b"GIF87a"), (0, b"GIF89a")],
        OCR,
        Error,
    ),
    row(
        SkippedKind::Tiff,
        "tiff",
        &[(0, b"II*\0"), (0, b"MM\0*")],
        OCR,
        Error,
    ),
    row(SkippedKind::Webp, "webp", &[], OCR, Error),
    row(
        SkippedKind::Djvu,
        "djvu",
        &[(0, b"AT&TFORM")],
        "convert it with djvutxt",
        Error,
    ),
    row(
        SkippedKind::Utf16,
        "UTF-16",
        &[],
        "convert it with iconv -f UTF-16 -t UTF-8",
        Error,
    ),
    row(
        SkippedKind::Utf32,
        "UTF-32",
        &[(0, b"\xff\xfe\0\0"), (0, b"\0\0\xfe\xff")],
        "convert it with iconv -f UTF-32 -t UTF-8",
        Error,
    ),
    row(
        SkippedKind::NotUtf8,
        "not UTF-8",
        &[],
        "convert it with iconv",
        Error,
    )
    .or("read it as it is with", Setting::Lossy, None),
    row(SkippedKind::TooLarge, "too large", &[], "split it", Error).or(
        "raise",
        Setting::MaxDocument,
        None,
    ),
    row(SkippedKind::Unreadable, "unreadable", &[], "", Error),
    row(
        SkippedKind::Executable,
        "executable",
        &[(0, b"\x7fELF")],
        "",
        CountOnly,
    ),
    row(
        SkippedKind::UnknownBinary,
        "unknown binary",
        &[],
        "",
        CountOnly,
    ),
    row(SkippedKind::Hidden, "hidden", &[], "", CountOnly),
    row(SkippedKind::Link, "symbolic link", &[], "", CountOnly),
    row(
        SkippedKind::Special,
        "not a regular file",
        &[],
        "",
        CountOnly,
    ),
];

/// How much of a file is looked at to tell what it is.
pub const HEAD_BYTES: usize = 8192;

impl SkippedKind {
    fn row(self) -> &'static SkippedKindRow {
        &TABLE[self as usize]
    }

    /// What messages and accounts call it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// How to make it readable, if there is a way.
    pub fn remedy(self) -> Option<String> {
        let row = self.row();
        let remedy = (!row.remedy.is_empty()).then(|| row.remedy.to_owned())?;
        Some(match row.alternative {
            None => remedy,
            Some((what, setting, None)) => format!("{remedy}, or {what} {setting}"),
            Some((what, setting, Some(value))) => {
                format!("{remedy}, or {what} {}", setting.to(value))
            }
        })
    }

    /// Whether it may be a document, so that skipping it is an error.
    pub fn is_likely_document(self) -> bool {
        self.row().severity == Error
    }

    /// The kind of a file that is not read, by its first bytes, unpacked, and its name, without `.gz` or `.zst`.
    ///
    /// `records`: what the user says it is. That is believed of all that is text.
    pub fn of(head: &[u8], name: &Path, records: Option<Records>) -> Option<Self> {
        let head = &head[..head.len().min(HEAD_BYTES)];
        if records.is_some() && is_plain_text(head) {
            return None;
        }
        let signed = TABLE.iter().find(|row| {
            row.signatures
                .iter()
                .any(|&(at, bytes)| head.get(at..).is_some_and(|head| head.starts_with(bytes)))
        });
        signed
            .map(|row| row.kind)
            .or_else(|| of_form(head, name))
            .or_else(|| of_name(head, name).filter(|_| records.is_none()))
    }
}

/// Kinds that take more than a fixed run of bytes to tell.
fn of_form(head: &[u8], name: &Path) -> Option<SkippedKind> {
    match head {
        [b'P', b'K', 3, 4, ..] => Some(of_zip(head, name)),
        [b'P', b'K', 5, 6, ..] => Some(SkippedKind::Zip),
        [b'B', b'Z', b'h', b'1'..=b'9', rest @ ..]
            if rest.starts_with(b"1AY&SY") || rest.starts_with(b"\x17rE8P\x90") =>
        {
            Some(SkippedKind::Bzip2)
        }
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some(SkippedKind::Webp),
        [b'M', b'Z', ..] if is_binary(head) => Some(SkippedKind::Executable),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some(SkippedKind::Utf16),
        _ => of_zeros(head),
    }
}

/// UTF-16 and UTF-32 without a byte-order mark: most characters of most scripts have their zero bytes in the same places.
fn of_zeros(head: &[u8]) -> Option<SkippedKind> {
    const FEWEST: usize = 8;
    if !head.contains(&0) {
        return None;
    }
    let zeros = |step: usize, at: usize| {
        let bytes = head.iter().skip(at).step_by(step);
        (
            bytes.clone().filter(|&&byte| byte == 0).count(),
            bytes.len(),
        )
    };
    let is_mostly_zero = |(zeros, all): (usize, usize)| all >= FEWEST && 10 * zeros >= 7 * all;
    let is_never_zero = |(zeros, all): (usize, usize)| all >= FEWEST && 50 * zeros <= all;
    let of_four: Vec<_> = (0..4).map(|at| zeros(4, at)).collect();
    let is_utf32 = |text: usize, rest: [usize; 3]| {
        is_never_zero(of_four[text]) && rest.iter().all(|&at| is_mostly_zero(of_four[at]))
    };
    if is_utf32(0, [1, 2, 3]) || is_utf32(3, [0, 1, 2]) {
        return Some(SkippedKind::Utf32);
    }
    let (even, odd) = (zeros(2, 0), zeros(2, 1));
    // Data in words of 16 bits have many small numbers, text has few control characters.
    let letters = |at: usize| {
        let is_control = |byte: &&u8| **byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
        let bytes = head.iter().skip(at).step_by(2);
        10 * bytes.clone().filter(is_control).count() <= bytes.len()
    };
    let is_utf16 = (is_mostly_zero(odd) && is_never_zero(even) && letters(0))
        || (is_mostly_zero(even) && is_never_zero(odd) && letters(1));
    is_utf16.then_some(SkippedKind::Utf16)
}

/// What is in a zip file, by its first entries: OpenDocument and EPUB start with their media type, Office files have folders of fixed names.
fn of_zip(head: &[u8], name: &Path) -> SkippedKind {
    const NAME_AT: usize = 30;
    let length = |at: usize| {
        usize::from(head.get(at).copied().unwrap_or(0))
            + 256 * usize::from(head.get(at + 1).copied().unwrap_or(0))
    };
    let (name_bytes, extra_bytes) = (length(26), length(28));
    let first = head.get(NAME_AT..NAME_AT + name_bytes).unwrap_or_default();
    if first == b"mimetype" {
        let media_type = head
            .get(NAME_AT + name_bytes + extra_bytes..)
            .unwrap_or_default();
        const OPEN_DOCUMENT: &[u8] = b"application/vnd.oasis.opendocument.";
        let of_document = media_type.strip_prefix(OPEN_DOCUMENT).unwrap_or_default();
        return match () {
            () if media_type.starts_with(b"application/epub+zip") => SkippedKind::Epub,
            () if of_document.starts_with(b"spreadsheet") => SkippedKind::Ods,
            () if of_document.starts_with(b"presentation") => SkippedKind::Odp,
            () if of_document.starts_with(b"text") => SkippedKind::Odt,
            () => SkippedKind::Zip,
        };
    }
    let named = |folder: &[u8]| memchr::memmem::find(head, folder).is_some();
    let is_office = first.starts_with(b"[Content_Types].xml")
        || first.starts_with(b"_rels/")
        || first.starts_with(b"docProps/");
    match extension(name).as_deref() {
        _ if named(b"word/") => SkippedKind::Docx,
        _ if named(b"ppt/") => SkippedKind::Pptx,
        _ if named(b"xl/") => SkippedKind::Xlsx,
        Some("docx") if is_office => SkippedKind::Docx,
        Some("pptx") if is_office => SkippedKind::Pptx,
        Some("xlsx") if is_office => SkippedKind::Xlsx,
        _ => SkippedKind::Zip,
    }
}

/// Text that is more than a text, by its name.
fn of_name(head: &[u8], name: &Path) -> Option<SkippedKind> {
    let head = head.strip_prefix(BOM).unwrap_or(head).trim_ascii_start();
    match extension(name)?.as_str() {
        "csv" => Some(SkippedKind::Csv),
        "tsv" => Some(SkippedKind::Tsv),
        "ipynb" if head.starts_with(b"{") => Some(SkippedKind::Ipynb),
        "json" if is_array_of_objects(head) => Some(SkippedKind::JsonArray),
        _ => None,
    }
}

fn is_array_of_objects(head: &[u8]) -> bool {
    head.strip_prefix(b"[")
        .is_some_and(|rest| rest.trim_ascii_start().starts_with(b"{"))
}

/// The byte-order mark of UTF-8.
pub const BOM: &[u8] = b"\xef\xbb\xbf";

/// The last extension of a name, in lower case.
pub fn extension(name: &Path) -> Option<String> {
    Some(name.extension()?.to_str()?.to_ascii_lowercase())
}

/// A name without the extension of what it is packed in.
pub fn inner_name(path: &Path) -> &Path {
    if Packing::of_name(path) == Packing::Plain {
        path
    } else {
        path.file_stem()
            .map_or(path, |stem: &OsStr| Path::new(stem))
    }
}

/// Files found in a directory are left out when they hold no text: NUL bytes among bytes that are not UTF-8, or more than one
/// NUL in 32 bytes. A stray NUL in a text is no reason to lose it.
pub fn is_binary(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(HEAD_BYTES)];
    let nuls = memchr::memchr_iter(0, head).count();
    nuls > 0 && (32 * nuls > head.len() || !is_utf8_head(head))
}

/// No NUL, and UTF-8 but for a character that is cut.
fn is_plain_text(head: &[u8]) -> bool {
    !head.contains(&0) && is_utf8_head(head)
}

fn is_utf8_head(head: &[u8]) -> bool {
    std::str::from_utf8(head).map_or_else(|error| error.error_len().is_none(), |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_kinds() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.kind as usize, index, "{}", row.name);
        }
    }

    fn of(head: &[u8], name: &str) -> Option<SkippedKind> {
        SkippedKind::of(head, Path::new(name), None)
    }

    #[test]
    fn text_is_no_kind_that_is_left_out() {
        for (head, name) in [
            (&b"A text."[..], "a.txt"),
            (b"", "empty"),
            (b"PK is an abbreviation", "a.txt"),
            (b"BZh9 is no archive", "a.txt"),
            (b"MZ is another one", "a.txt"),
            (b"{\"a\": [\n1]}", "a.json"),
            (b"[1, 2, 3]", "a.json"),
            (b"[{not json}](a link)", "a.md"),
            ("ein Wort: größer".as_bytes(), "a"),
            (b"one \0 NUL in a text that is long enough for it", "a.txt"),
        ] {
            assert_eq!(of(head, name), None, "{name}");
        }
    }

    #[test]
    fn wide_encodings_are_told_with_a_mark_and_without() {
        let text = "Words of a text, and some more: Wörter, ještě.";
        let wide =
            |order: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(order).collect::<Vec<u8>>();
        let wider = |order: fn(u32) -> [u8; 4]| {
            text.chars()
                .flat_map(|c| order(c as u32))
                .collect::<Vec<u8>>()
        };
        for order in [u16::to_le_bytes, u16::to_be_bytes] {
            assert_eq!(of(&wide(order), "a.txt"), Some(SkippedKind::Utf16));
            assert_eq!(
                of(&[order(0xfeff).to_vec(), wide(order)].concat(), "a.txt"),
                Some(SkippedKind::Utf16)
            );
        }
        for order in [u32::to_le_bytes, u32::to_be_bytes] {
            assert_eq!(of(&wider(order), "a.txt"), Some(SkippedKind::Utf32));
            assert_eq!(
                of(&[order(0xfeff).to_vec(), wider(order)].concat(), "a.txt"),
                Some(SkippedKind::Utf32)
            );
        }
    }

    #[test]
    fn what_the_user_says_is_believed_of_text() {
        for (name, head) in [
            ("a.csv", &b"id,text\n"[..]),
            ("a.json", b"[{}]"),
            ("a.ipynb", b"{}"),
            ("a", b"{\\rtf1}"),
            ("a", b"WARC/1.0\r\n"),
        ] {
            assert!(of(head, name).is_some(), "{name}");
            assert_eq!(
                SkippedKind::of(head, Path::new(name), Some(Records::Text)),
                None,
                "{name}"
            );
        }
        assert_eq!(
            SkippedKind::of(b"PK\x03\x04\0\0\0", Path::new("a"), Some(Records::Text)),
            Some(SkippedKind::Zip)
        );
    }
}
