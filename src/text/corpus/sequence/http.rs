//! The text of a web page: from an HTTP response or from the page alone.
//!
//! Archives differ from what their headers say: some programs unpack a page and leave `Content-Encoding` or
//! `Transfer-Encoding` in place. So a coding that the bytes do not have is not undone, as other readers of WARC do.

use super::RecordFault;
use crate::{base::num::ToU64, text::token::html::Stripped};
use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use memchr::memmem;
use std::{
    borrow::Cow,
    io::{self, Read},
};

/// What a page comes to.
pub enum Page {
    /// The text of the page.
    Text(String),
    /// A page that should have text, but cannot be read.
    Fault(RecordFault),
    /// A page that is no text; the reason.
    LeftOut(String),
}

/// The fields of a header.
#[derive(Debug, Default)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// Reads `Name: value` lines. A line that starts with a blank continues the one before.
    pub fn parse(lines: &[u8]) -> Self {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in lines.split(|&byte| byte == b'\n') {
            let text = String::from_utf8_lossy(line.trim_ascii_end());
            if text.starts_with([' ', '\t']) {
                if let Some((_, value)) = fields.last_mut() {
                    value.push(' ');
                    value.push_str(text.trim());
                }
            } else if let Some((name, value)) = text.split_once(':') {
                fields.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
        Self(fields)
    }

    /// The value of the first field with this name, which is in lower case.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(field, _)| field == name)?;
        Some(&found.1)
    }
}

/// The text of an HTTP response: status line, header and page.
pub fn page_of_response(
    response: &[u8],
    is_truncated: bool,
    most_bytes: u64,
    stripped: &mut Stripped,
) -> Page {
    let Some((status, headers, body)) = split_response(response) else {
        let what = "the response does not start with an HTTP status line".to_owned();
        return Page::Fault(RecordFault::Bad(what));
    };
    if !status.starts_with('2') {
        return Page::LeftOut(format!("HTTP status {status}"));
    }
    let content_type = headers.get("content-type").unwrap_or_default();
    if let Err(reason) = MediaType::of(content_type, body) {
        return Page::LeftOut(reason);
    }
    match decoded_body(&headers, body, is_truncated, most_bytes) {
        Ok(body) => text_of_page(&body, content_type, most_bytes, stripped),
        Err(fault) => Page::Fault(fault),
    }
}

/// The text of a page with this `Content-Type`.
pub fn text_of_page(
    body: &[u8],
    content_type: &str,
    most_bytes: u64,
    stripped: &mut Stripped,
) -> Page {
    if body.len().to_u64() > most_bytes {
        return Page::Fault(RecordFault::TooLarge);
    }
    let media_type = match MediaType::of(content_type, body) {
        Ok(media_type) => media_type,
        Err(reason) => return Page::LeftOut(reason),
    };
    let text = match decode_charset(body, content_type, media_type) {
        Ok(text) => text,
        Err(fault) => return Page::Fault(fault),
    };
    Page::Text(match media_type {
        MediaType::Plain => text.into_owned(),
        MediaType::Html => {
            stripped.strip(&text);
            stripped.text.clone()
        }
    })
}

/// The status code, the header and the body.
fn split_response(response: &[u8]) -> Option<(String, Headers, &[u8])> {
    if !response.starts_with(b"HTTP/") {
        return None;
    }
    let (head, body) = match memmem::find(response, b"\r\n\r\n") {
        Some(end) => (&response[..end], &response[end + 4..]),
        None => match memmem::find(response, b"\n\n") {
            Some(end) => (&response[..end], &response[end + 2..]),
            None => (response, &response[response.len()..]),
        },
    };
    let line_end = memchr::memchr(b'\n', head).unwrap_or(head.len());
    let status = String::from_utf8_lossy(&head[..line_end]);
    let status: String = status.split_whitespace().nth(1)?.chars().take(3).collect();
    let is_number = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| (status, Headers::parse(&head[line_end..]), body))
}

/// The kinds of pages that have text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MediaType {
    Plain,
    Html,
}

impl MediaType {
    /// Of a page, or why it is left out. A page without a type is HTML if it starts with a tag.
    fn of(content_type: &str, body: &[u8]) -> Result<Self, String> {
        let name = content_type.split(';').next().unwrap_or_default();
        let name = name.trim().to_ascii_lowercase();
        match &*name {
            "text/html" | "application/xhtml+xml" => Ok(Self::Html),
            "text/plain" | "text/markdown" => Ok(Self::Plain),
            "" if body.trim_ascii_start().starts_with(b"<") => Ok(Self::Html),
            "" => Err("no media type".to_owned()),
            _ => Err(name),
        }
    }
}

/// The body without transfer and content codings.
fn decoded_body<'a>(
    headers: &Headers,
    body: &'a [u8],
    is_truncated: bool,
    most_bytes: u64,
) -> Result<Cow<'a, [u8]>, RecordFault> {
    let mut body = Cow::Borrowed(body);
    let transfer = headers.get("transfer-encoding").unwrap_or_default();
    if transfer.to_ascii_lowercase().contains("chunked")
        && let Some((joined, is_complete)) = join_chunks(&body)
    {
        ensure_complete(is_complete || is_truncated, "chunked transfer coding")?;
        body = Cow::Owned(joined);
    }
    let codings = headers.get("content-encoding").unwrap_or_default();
    // The coding that was applied last is named last.
    for coding in codings.rsplit(',').map(str::trim) {
        let coding = coding.to_ascii_lowercase();
        let decoded = match decoder(&coding, &body)? {
            Some(reader) => read_decoded(reader, most_bytes)?,
            None => continue,
        };
        ensure_complete(decoded.1 || is_truncated, &coding)?;
        body = Cow::Owned(decoded.0);
    }
    Ok(body)
}

fn ensure_complete(is_complete: bool, coding: &str) -> Result<(), RecordFault> {
    if is_complete {
        return Ok(());
    }
    let what = format!("the {coding} of the page is truncated or damaged");
    Err(RecordFault::Bad(what))
}

/// Joins the chunks of a body, and tells whether the last one is there. `None` if no chunk starts it.
fn join_chunks(body: &[u8]) -> Option<(Vec<u8>, bool)> {
    let mut joined = Vec::new();
    let mut rest = body;
    let mut is_first = true;
    loop {
        let Some((size, line_bytes)) = chunk_size(rest) else {
            return (!is_first).then_some((joined, false));
        };
        is_first = false;
        rest = &rest[line_bytes..];
        if size == 0 {
            return Some((joined, true));
        }
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size > rest.len() {
            joined.extend_from_slice(rest);
            return Some((joined, false));
        }
        joined.extend_from_slice(&rest[..size]);
        rest = &rest[size..];
        rest = rest
            .strip_prefix(b"\r\n")
            .or_else(|| rest.strip_prefix(b"\n"))
            .unwrap_or(rest);
    }
}

/// The size in the line that starts a chunk, and the bytes of the line. `1a;name=value` is 26.
fn chunk_size(rest: &[u8]) -> Option<(u64, usize)> {
    let end = memchr::memchr(b'\n', &rest[..rest.len().min(1 << 10)])?;
    let line = std::str::from_utf8(&rest[..end]).ok()?;
    let digits = line.split(';').next()?.trim();
    let size = u64::from_str_radix(digits, 16).ok();
    Some((size.filter(|_| !digits.starts_with('+'))?, end + 1))
}

/// What undoes a coding; `None` if the bytes do not have it.
fn decoder<'a>(coding: &str, body: &'a [u8]) -> Result<Option<Box<dyn Read + 'a>>, RecordFault> {
    let is_gzip = body.starts_with(b"\x1f\x8b");
    Ok(match coding {
        "" | "identity" | "none" | "utf-8" => None,
        "gzip" | "x-gzip" if is_gzip => Some(Box::new(flate2::read::MultiGzDecoder::new(body))),
        "gzip" | "x-gzip" => None,
        // Servers send either of these under this name.
        "deflate" if is_zlib(body) => Some(Box::new(flate2::read::ZlibDecoder::new(body))),
        "deflate" if looks_like_text(body) => None,
        "deflate" => Some(Box::new(flate2::read::DeflateDecoder::new(body))),
        "br" if looks_like_text(body) => None,
        "br" => Some(Box::new(brotli_decompressor::Decompressor::new(body, 4096))),
        other => {
            let what = format!("content coding {other:?} is not supported (gzip, deflate, br are)");
            return Err(RecordFault::Bad(what));
        }
    })
}

/// A page that was unpacked already starts with a tag or a byte-order mark.
fn looks_like_text(body: &[u8]) -> bool {
    let start = body.trim_ascii_start();
    start.is_empty() || start.starts_with(b"<") || start.starts_with(b"\xef\xbb\xbf")
}

/// The header of zlib is a multiple of 31, with 8 for its method.
fn is_zlib(body: &[u8]) -> bool {
    matches!(body, [first, second, ..] if first & 15 == 8 && (u16::from(*first) << 8 | u16::from(*second)) % 31 == 0)
}

/// The unpacked bytes, and whether they came to their end.
fn read_decoded(
    mut reader: Box<dyn Read + '_>,
    most_bytes: u64,
) -> Result<(Vec<u8>, bool), RecordFault> {
    let mut decoded = Vec::new();
    let mut limited = (&mut reader).take(most_bytes.saturating_add(1));
    let is_complete = match limited.read_to_end(&mut decoded) {
        Ok(_) => true,
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
            return Err(RecordFault::TooLarge);
        }
        Err(_) => false,
    };
    if decoded.len().to_u64() > most_bytes {
        return Err(RecordFault::TooLarge);
    }
    Ok((decoded, is_complete))
}

/// The page as UTF-8, by its byte-order mark, its header, or what it says itself.
///
/// HTML that says nothing is UTF-8 if it can be, else windows-1252, as the HTML standard has it; bytes that the charset
/// does not have become U+FFFD, as in a browser. Plain text must be what it says.
fn decode_charset<'a>(
    body: &'a [u8],
    content_type: &str,
    media_type: MediaType,
) -> Result<Cow<'a, str>, RecordFault> {
    let named = Encoding::for_bom(body)
        .map(|(encoding, _)| encoding)
        .or_else(|| charset_in(content_type.as_bytes()))
        .or_else(|| (media_type == MediaType::Html).then(|| declared_charset(body))?);
    let encoding = match named {
        Some(encoding) => encoding,
        None if media_type == MediaType::Html && std::str::from_utf8(body).is_err() => WINDOWS_1252,
        None => UTF_8,
    };
    let (text, _, has_errors) = encoding.decode(body);
    if has_errors && media_type == MediaType::Plain {
        return Err(match std::str::from_utf8(body) {
            Err(error) if encoding == UTF_8 => super::not_utf8(body, &error),
            _ => RecordFault::Bad(format!("the text is not {}", encoding.name())),
        });
    }
    Ok(text)
}

/// The charset that a page names in a `meta` element or an XML declaration near its start.
fn declared_charset(body: &[u8]) -> Option<&'static Encoding> {
    let start = &body[..body.len().min(4096)];
    let start = start.to_ascii_lowercase();
    if start.starts_with(b"<?xml") {
        let end = memchr::memchr(b'>', &start).unwrap_or(start.len());
        if let Some(encoding) = value_behind(&start[..end], b"encoding").and_then(ascii_superset) {
            return Some(encoding);
        }
    }
    memmem::find_iter(&start, b"<meta").find_map(|at| {
        let tag = &start[at..];
        let end = memchr::memchr(b'>', tag).unwrap_or(tag.len());
        charset_in(&tag[..end]).and_then(|encoding| ascii_superset(encoding.name().as_bytes()))
    })
}

/// Bytes that could be read up to here are not UTF-16, whatever they say; browsers take UTF-8 then.
fn ascii_superset(label: &[u8]) -> Option<&'static Encoding> {
    let encoding = Encoding::for_label(label)?;
    Some(if encoding.is_ascii_compatible() {
        encoding
    } else {
        UTF_8
    })
}

/// The charset in `text/html; charset="utf-8"`.
fn charset_in(content_type: &[u8]) -> Option<&'static Encoding> {
    let lower = content_type.to_ascii_lowercase();
    Encoding::for_label(value_behind(&lower, b"charset")?)
}

/// The value after `name=`, with or without quotes.
fn value_behind<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = &text[memmem::find(text, name)? + name.len()..];
    let rest = rest
        .trim_ascii_start()
        .strip_prefix(b"=")?
        .trim_ascii_start();
    let rest = rest
        .strip_prefix(b"\"")
        .or_else(|| rest.strip_prefix(b"'"))
        .unwrap_or(rest);
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || b"\"';/>?".contains(byte);
    let end = rest.iter().position(is_end).unwrap_or(rest.len());
    Some(&rest[..end])
}
