//! Web pages (`.html`), and the pages of books.

use std::{borrow::Cow, path::Path};

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use memchr::memmem;

use crate::text::token::html::Stripped;

use super::{DocumentKind, ExtractError, has_extension, xml_text::encoding_of_xml};
use crate::text::corpus::skipped_kind::{BOM, is_binary};

pub struct Html;

impl DocumentKind for Html {
    fn name(&self) -> &'static str {
        "html"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["html", "htm", "xhtml", "xht"]
    }

    fn recognises(&self, head: &[u8], name: &Path) -> bool {
        let is_wide = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff");
        if has_extension(self, name) {
            return is_wide || !is_binary(head) && !head.starts_with(b"%PDF-");
        }
        is_page(head)
    }

    fn extract(&self, bytes: &[u8], most_bytes: u64) -> Result<String, ExtractError> {
        if bytes.len() as u64 > most_bytes {
            return Err(ExtractError::TooLarge);
        }
        let text = text_of_html(&decode_html(bytes));
        if text.len() as u64 > most_bytes {
            return Err(ExtractError::TooLarge);
        }
        Ok(text)
    }
}

/// Whether the first tag is that of a page, after comments and declarations.
fn is_page(head: &[u8]) -> bool {
    let mut rest = head.strip_prefix(BOM).unwrap_or(head);
    loop {
        rest = rest.trim_ascii_start();
        let ends: &[u8] = match rest {
            [b'<', b'!', b'-', b'-', ..] => b"-->",
            [b'<', b'?', ..] => b"?>",
            _ => break,
        };
        match memmem::find(rest, ends) {
            Some(at) => rest = &rest[at + ends.len()..],
            None => return false,
        }
    }
    ["<!doctype html", "<html"].iter().any(|tag| {
        let found = rest.get(..tag.len());
        found.is_some_and(|found| found.eq_ignore_ascii_case(tag.as_bytes()))
            && matches!(
                rest.get(tag.len()),
                Some(b'>' | b'/' | b' ' | b'\t' | b'\r' | b'\n')
            )
    })
}

/// A page as text: by its byte-order mark, the encoding that it declares, or UTF-8. One that declares none and is not
/// UTF-8 is read as windows-1252, as browsers do.
pub fn decode_html(bytes: &[u8]) -> Cow<'_, str> {
    let encoding = match encoding_of_xml(bytes) {
        encoding if encoding != UTF_8 => encoding,
        _ => declared_in_meta(bytes).unwrap_or(UTF_8),
    };
    if encoding == UTF_8 {
        let bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
        return match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => WINDOWS_1252.decode_without_bom_handling(bytes).0,
        };
    }
    encoding.decode(bytes).0
}

/// What `<meta charset=…>` or `<meta … content="text/html; charset=…">` says in the first 1024 bytes.
fn declared_in_meta(bytes: &[u8]) -> Option<&'static Encoding> {
    const LOOKED_AT_BYTES: usize = 1024;
    let head = bytes[..bytes.len().min(LOOKED_AT_BYTES)].to_ascii_lowercase();
    let meta = memmem::find(&head, b"<meta")?;
    let value = &head[meta + memmem::find(&head[meta..], b"charset")? + b"charset".len()..];
    let value = value.trim_ascii_start().strip_prefix(b"=")?;
    let is_outer = |byte: &u8| matches!(byte, b' ' | b'"' | b'\'');
    let start = value.iter().position(|byte| !is_outer(byte))?;
    let is_end = |byte: &u8| is_outer(byte) || matches!(byte, b';' | b'>' | b'/');
    let end = value[start..].iter().position(is_end)?;
    Encoding::for_label(&value[start..start + end])
        .filter(|encoding| encoding.is_ascii_compatible())
}

/// The text that a reader of a page sees, and its title, without empty lines and without the numbers that refer to notes.
pub fn text_of_html(html: &str) -> String {
    let mut stripped = Stripped::default();
    stripped.strip(&without_note_references(html));
    let mut text = String::new();
    for line in stripped.text.lines().map(str::trim) {
        if !line.is_empty() {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// Drops links that are marked as references to notes (`role="doc-noteref"`, `epub:type="noteref"`): their numbers
/// would become part of the word in front.
fn without_note_references(html: &str) -> Cow<'_, str> {
    let mut kept = String::new();
    let mut done = 0;
    let mut from = 0;
    while let Some(found) = memmem::find(&html.as_bytes()[from..], b"noteref") {
        let mark = from + found;
        let tag = memchr::memrchr(b'<', &html.as_bytes()[from..mark]).map(|at| from + at);
        from = mark + b"noteref".len();
        let Some(tag) = tag.filter(|&tag| is_link(&html.as_bytes()[tag..mark])) else {
            continue;
        };
        let Some(length) = memmem::find(&html.as_bytes()[from..], b"</a>") else {
            break;
        };
        from += length + b"</a>".len();
        kept.push_str(&html[done..tag]);
        done = from;
    }
    if done == 0 {
        return Cow::Borrowed(html);
    }
    kept.push_str(&html[done..]);
    Cow::Owned(kept)
}

/// Whether this is `<a …` up to somewhere inside of the tag.
fn is_link(tag: &[u8]) -> bool {
    matches!(tag, [b'<', b'a' | b'A', b' ' | b'\t' | b'\r' | b'\n', ..]) && !tag.contains(&b'>')
}

/// The text of a page without its head: titles of the pages of a book are file names, or repeat the title of the book.
pub fn body_text(html: &str) -> String {
    text_of_html(&html[body_start(html.as_bytes())..])
}

/// Where the tag `body` begins, or the page if there is none.
fn body_start(html: &[u8]) -> usize {
    memchr::memchr_iter(b'<', html)
        .find(|&at| {
            let tag = html.get(at + 1..at + 6);
            tag.is_some_and(|tag| {
                tag[..4].eq_ignore_ascii_case(b"body") && !tag[4].is_ascii_alphanumeric()
            })
        })
        .unwrap_or(0)
}
