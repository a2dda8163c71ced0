//! Files that are recognised but not read, by their first bytes and then by their name, with advice.
//!
//! To add a kind: a variant and a row of [`TABLE`].

use super::Records;
use crate::base::setting::Setting;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Why a file is left out: a format that this program does not read, or another reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkippedKind {
    /// PDF.
    Pdf,
    /// Excel sheet.
    Xlsx,
    /// OpenDocument sheet.
    Ods,
    /// Office file of before 2007.
    Doc,
    /// Parquet table.
    Parquet,
    /// Arrow table.
    Arrow,
    /// Avro table.
    Avro,
    /// SQLite database.
    Sqlite,
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
    /// A file that is not what its first bytes promise.
    Damaged,
    /// A file that needs a password.
    Encrypted,
    /// A table without the column that holds the text.
    NoTextColumn,
    /// An archive in an archive, too often.
    TooDeep,
    /// A document whose pages are images.
    NoText,
    /// An image, or a document of images, in which no text was recognised.
    NothingRecognised,
    /// A program.
    Executable,
    /// Binary data of an unknown kind.
    UnknownBinary,
    /// A hidden file or directory.
    Hidden,
    /// A file or directory that a glob of the user excludes.
    Excluded,
    /// A file or directory that a `.gitignore` file names.
    Gitignored,
    /// A symbolic link.
    Link,
    /// A pipe, socket or device.
    Special,
    /// The directory of an index or a history.
    Index,
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
    /// Settings that help as well.
    alternatives: &'static [Alternative],
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
        alternatives: &[],
        severity,
    }
}

impl SkippedKindRow {
    const fn or(self, alternatives: &'static [Alternative]) -> Self {
        Self {
            alternatives,
            ..self
        }
    }
}

/// The program that reads images.
pub const TESSERACT: &str = "tesseract";
const UNPACK: &str = "unpack it first";
const OCR: &[Alternative] = &[
    ("read it with", Setting::Ocr, Some("LANG")),
    ("", Setting::Adapter, None),
];

/// In the order of [`SkippedKind`].
const TABLE: [SkippedKindRow; 37] = [
    row(
        SkippedKind::Pdf,
        "pdf",
        &[(0, b"%PDF-")],
        "install poppler-utils",
        Error,
    )
    .or(&[("", Setting::Adapter, None)]),
    row(SkippedKind::Xlsx, "xlsx", &[], "export it as CSV", Error),
    row(SkippedKind::Ods, "ods", &[], "export it as CSV", Error),
    row(
        SkippedKind::Doc,
        "doc, xls or ppt",
        &[(0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")],
        "save it as docx or PDF",
        Error,
    ),
    row(
        SkippedKind::Parquet,
        "parquet",
        if cfg!(feature = "parquet") {
            &[]
        } else {
            &[(0, b"PAR1")]
        },
        "convert it to NDJSON or CSV, or use a build that reads it",
        Error,
    ),
    row(
        SkippedKind::Arrow,
        "arrow",
        &[(0, b"ARROW1\0")],
        "convert it to Parquet or NDJSON",
        Error,
    ),
    row(
        SkippedKind::Avro,
        "avro",
        &[(0, b"Obj\x01")],
        "convert it to Parquet or NDJSON",
        Error,
    ),
    row(
        SkippedKind::Sqlite,
        "sqlite",
        &[(0, b"SQLite format 3\0")],
        "export its tables as CSV",
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
        "",
        Error,
    )
    .or(OCR),
    row(
        SkippedKind::Jpeg,
        "jpeg",
        &[(0, b"\xff\xd8\xff")],
        "",
        Error,
    )
    .or(OCR),
    row(
        SkippedKind::Gif,
        "gif",
        &[(0, b"GIF87a"), (0, b"GIF89a")],
        "",
        Error,
    )
    .or(OCR),
    row(
        SkippedKind::Tiff,
        "tiff",
        &[(0, b"II*\0"), (0, b"MM\0*")],
        "",
        Error,
    )
    .or(OCR),
    row(SkippedKind::Webp, "webp", &[], "", Error).or(OCR),
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
    .or(&[
        ("name its", Setting::Encoding, None),
        ("read it with", Setting::Lossy, None),
    ]),
    row(SkippedKind::TooLarge, "too large", &[], "split it", Error).or(&[(
        "raise",
        Setting::MaxDocument,
        None,
    )]),
    row(SkippedKind::Unreadable, "unreadable", &[], "", Error),
    row(SkippedKind::Damaged, "damaged", &[], "", Error),
    row(
        SkippedKind::Encrypted,
        "encrypted",
        &[],
        "save it without a password",
        Error,
    ),
    row(
        SkippedKind::NoTextColumn,
        "without the text column",
        &[],
        "",
        Error,
    )
    .or(&[("name it with", Setting::TextField, None)]),
    row(
        SkippedKind::TooDeep,
        "nested too deeply",
        &[],
        UNPACK,
        Error,
    ),
    row(SkippedKind::NoText, "pdf without text", &[], "", Error).or(&[(
        "read its pages with",
        Setting::Ocr,
        Some("LANG"),
    )]),
    row(
        SkippedKind::NothingRecognised,
        "no text recognised",
        &[],
        "",
        CountOnly,
    ),
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
    row(SkippedKind::Excluded, "excluded", &[], "", CountOnly),
    row(SkippedKind::Gitignored, "gitignored", &[], "", CountOnly),
    row(SkippedKind::Link, "symbolic link", &[], "", CountOnly),
    row(
        SkippedKind::Special,
        "not a regular file",
        &[],
        "",
        CountOnly,
    ),
    row(SkippedKind::Index, "index", &[], "", CountOnly),
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
        let remedy = (!row.remedy.is_empty()).then(|| row.remedy.to_owned());
        let settings = row.alternatives.iter().map(|(what, setting, value)| {
            let name = value.map_or_else(|| setting.to_string(), |value| setting.to(value));
            let is_missing =
                *setting == Setting::Ocr && !super::programs::is_program_installed(TESSERACT);
            let install = if is_missing {
                "install tesseract-ocr and "
            } else {
                ""
            };
            format!("{install}{what} {name}").trim_start().to_owned()
        });
        let remedies: Vec<String> = remedy.into_iter().chain(settings).collect();
        (!remedies.is_empty()).then(|| remedies.join(", or "))
    }

    /// Whether it is an image, which may show a text.
    pub fn is_image(self) -> bool {
        use SkippedKind::{Gif, Jpeg, Png, Tiff, Webp};
        matches!(self, Gif | Jpeg | Png | Tiff | Webp)
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
        match signed.map(|row| row.kind) {
            Some(Self::Doc) if holds_encrypted_package(head) => Some(Self::Encrypted),
            signed => signed.or_else(|| of_form(head, name)),
        }
    }
}

/// Whether an OLE compound file has the part in which programs put a new Office file with a password. Its name stands in the
/// directory, which is near the beginning of most of them.
pub fn holds_encrypted_package(bytes: &[u8]) -> bool {
    let name: Vec<u8> = "EncryptedPackage"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    memchr::memmem::find(bytes, &name).is_some()
}

/// Kinds that take more than a fixed run of bytes to tell.
fn of_form(head: &[u8], name: &Path) -> Option<SkippedKind> {
    match head {
        [b'P', b'K', 3, 4, ..] => sheet(head, name),
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
        _ => wide_kind(head),
    }
}

/// UTF-16 and UTF-32 without a byte-order mark: most characters of most scripts have their zero bytes in the same places.
pub fn wide_kind(head: &[u8]) -> Option<SkippedKind> {
    const FEWEST: usize = 8;
    memchr::memchr(0, head)?;
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

/// Sheets are ZIP files; their first entries tell them from archives. OpenDocument starts with its media type, Office files
/// have folders of fixed names.
fn sheet(head: &[u8], name: &Path) -> Option<SkippedKind> {
    let has = |part: &[u8]| memchr::memmem::find(head, part).is_some();
    let is_named = |ending: &str| extension(name).as_deref() == Some(ending);
    if has(b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet") {
        Some(SkippedKind::Ods)
    } else if has(b"[Content_Types].xml") && (has(b"xl/") || is_named("xlsx")) {
        Some(SkippedKind::Xlsx)
    } else {
        None
    }
}

/// The byte-order mark of UTF-8.
pub const BOM: &[u8] = b"\xef\xbb\xbf";

/// The last extension of a name, in lower case.
pub fn extension(name: &Path) -> Option<String> {
    Some(name.extension()?.to_str()?.to_ascii_lowercase())
}

/// Files found in a directory are left out when they hold no text: NUL bytes among bytes that are not UTF-8, or more than one
/// NUL in 32 bytes. A stray NUL in a text is no reason to lose it.
pub fn is_binary(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(HEAD_BYTES)];
    let nuls = memchr::memchr_iter(0, head).count();
    nuls > 0 && (32 * nuls > head.len() || !is_utf8_head(head))
}

/// No NUL, and UTF-8 but for a character that is cut.
pub fn is_plain_text(head: &[u8]) -> bool {
    memchr::memchr(0, head).is_none() && is_utf8_head(head)
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
        let wide: Vec<u8> = "Words of a text"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let said = |head: &[u8]| SkippedKind::of(head, Path::new("a"), Some(Records::Text));
        assert_eq!(of(&wide, "a"), Some(SkippedKind::Utf16));
        assert_eq!(said(&wide), Some(SkippedKind::Utf16));
        assert_eq!(of(b"%PDF-1.4", "a"), Some(SkippedKind::Pdf));
        assert_eq!(said(b"%PDF-1.4"), None);
    }

    #[test]
    fn sheets_are_told_from_other_archives() {
        let office = b"PK\x03\x04 [Content_Types].xml PK\x03\x04 ";
        let with = |part: &[u8]| [&office[..], part].concat();
        assert_eq!(of(&with(b"xl/workbook.xml"), "a"), Some(SkippedKind::Xlsx));
        assert_eq!(of(&with(b""), "a.xlsx"), Some(SkippedKind::Xlsx));
        assert_eq!(of(&with(b"word/document.xml"), "a.docx"), None);
        assert_eq!(of(b"PK\x03\x04 xl/ a folder", "a.zip"), None);
    }
}
