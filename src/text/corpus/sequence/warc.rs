//! Web archives (WARC 0.17 to 1.1) and their extracted text (WET).
//!
//! | record | becomes |
//! | --- | --- |
//! | `conversion` | its payload, if that is plain text: what WET files hold |
//! | `response`, `resource` | the text of its page (see `http`), if that is HTML or plain text |
//! | all others | nothing; they are counted |
//!
//! The id is the address of the page (`WARC-Target-URI`), or else the record's own id. An archive may hold the same
//! address twice; both records get it, and the caller, who knows all ids, reports the second.
//!
//! After a damaged record nothing tells where the next one starts, so reading ends there.

use super::{
    RecordFault, RecordSequence, SequenceRecord, checked_text,
    http::{Headers, Page, page_of_response, text_of_page},
};
use crate::{
    base::num::{ToU64, ToUsize},
    text::token::html::Stripped,
};
use std::{
    collections::BTreeMap,
    io::{self, BufRead, Read},
    ops::Range,
};

const VERSIONS: [&str; 4] = ["WARC/0.17", "WARC/0.18", "WARC/1.0", "WARC/1.1"];
/// A header has some hundred bytes; one beyond this is damaged.
const MOST_HEADER_BYTES: u64 = 1 << 20;
/// HTTP headers come on top of the page.
const MOST_HTTP_HEADER_BYTES: u64 = 1 << 20;
/// How many different reasons are counted by name.
const MOST_REASONS: usize = 100;

/// The records of a web archive that have text. Memory: one record of at most the given size, and its page unpacked.
pub struct WarcRecords {
    input: Counted<Box<dyn BufRead + Send>>,
    most_bytes: u64,
    number: u64,
    passed: PassedRecords,
    stripped: Stripped,
    has_ended: bool,
}

/// Records that are no documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PassedRecords {
    /// Records that never hold a page, by type: `warcinfo`, `request`, `metadata`, `revisit` and the like.
    pub by_type: BTreeMap<String, u64>,
    /// Pages that are no text, by reason: `image/png`, `HTTP status 404` and the like.
    pub left_out: BTreeMap<String, u64>,
}

impl WarcRecords {
    /// Reads an archive that is unpacked already.
    pub fn open(input: impl BufRead + Send + 'static, most_bytes: u64) -> Self {
        Self {
            input: Counted {
                inner: Box::new(input),
                at: 0,
            },
            most_bytes,
            number: 0,
            passed: PassedRecords::default(),
            stripped: Stripped::default(),
            has_ended: false,
        }
    }

    /// What was passed over so far, and why.
    pub fn passed(&self) -> &PassedRecords {
        &self.passed
    }

    /// The next record; `None` inside if it is no document.
    fn read_record(&mut self) -> Result<Option<Option<SequenceRecord>>, Damage> {
        let start = self.input.at;
        let Some(header) = WarcHeader::read(&mut self.input)? else {
            return Ok(None);
        };
        self.number += 1;
        let place = Place {
            start,
            content: self.input.at,
            length: header.length,
        };
        let payload = if header.holds_page() {
            self.read_payload(&place)?
        } else {
            self.skip_payload(&place)?;
            None
        };
        self.read_end(&place)?;
        Ok(Some(self.document(&header, payload)))
    }

    /// The payload, or `None` if it is larger than a document may be.
    fn read_payload(&mut self, place: &Place) -> Result<Option<Vec<u8>>, Damage> {
        let most_bytes = self.most_bytes.saturating_add(MOST_HTTP_HEADER_BYTES);
        if place.length > most_bytes {
            self.skip_payload(place)?;
            return Ok(None);
        }
        let mut payload = Vec::new();
        let mut part = (&mut self.input).take(place.length);
        let read = part.read_to_end(&mut payload);
        read.map_err(|error| Damage::io(place.content, &error))?;
        place.ensure_complete(payload.len().to_u64())?;
        Ok(Some(payload))
    }

    fn skip_payload(&mut self, place: &Place) -> Result<(), Damage> {
        let mut part = (&mut self.input).take(place.length);
        let skipped = io::copy(&mut part, &mut io::sink());
        place.ensure_complete(skipped.map_err(|error| Damage::io(place.content, &error))?)
    }

    /// Two line ends follow every record. If others bytes do, the length is wrong.
    fn read_end(&mut self, place: &Place) -> Result<(), Damage> {
        for _ in 0..2 {
            place.read_empty_line(&mut self.input)?;
        }
        Ok(())
    }

    /// The record as a document, if it is one.
    fn document(
        &mut self,
        header: &WarcHeader,
        payload: Option<Vec<u8>>,
    ) -> Option<SequenceRecord> {
        if !header.holds_page() {
            count(&mut self.passed.by_type, header.kind());
            return None;
        }
        let text = match payload {
            None => Err(RecordFault::TooLarge),
            Some(payload) => match self.text(header, payload) {
                Page::Text(text) => Ok(text),
                Page::Fault(fault) => Err(fault),
                Page::LeftOut(reason) => {
                    count(&mut self.passed.left_out, &reason);
                    return None;
                }
            },
        };
        Some(SequenceRecord {
            number: self.number,
            line: None,
            id: header.id(),
            text,
        })
    }

    fn text(&mut self, header: &WarcHeader, payload: Vec<u8>) -> Page {
        let content_type = header.fields.get("content-type").unwrap_or_default();
        let most_bytes = self.most_bytes;
        let is_truncated = header.fields.get("warc-truncated").is_some();
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        match header.kind() {
            "conversion"
                if media_type.is_empty() || media_type.eq_ignore_ascii_case("text/plain") =>
            {
                if payload.len().to_u64() > most_bytes {
                    return Page::Fault(RecordFault::TooLarge);
                }
                checked_text(&payload).map_or_else(Page::Fault, Page::Text)
            }
            "response" if media_type.eq_ignore_ascii_case("application/http") => {
                page_of_response(&payload, is_truncated, most_bytes, &mut self.stripped)
            }
            "response" | "conversion" => Page::LeftOut(media_type.to_ascii_lowercase()),
            _ => text_of_page(&payload, content_type, most_bytes, &mut self.stripped),
        }
    }
}

impl RecordSequence for WarcRecords {
    fn records_passed(&self) -> u64 {
        self.passed.left_out.values().sum()
    }

    fn next_record(&mut self) -> Option<Result<SequenceRecord, String>> {
        while !self.has_ended {
            match self.read_record() {
                Ok(Some(Some(record))) => return Some(Ok(record)),
                Ok(Some(None)) => {}
                Ok(None) => self.has_ended = true,
                Err(Damage(what)) => {
                    self.has_ended = true;
                    return Some(Err(what));
                }
            }
        }
        None
    }
}

/// All records of a web archive, as their bytes are. Memory: a header.
pub struct RawWarcRecords {
    input: Counted<Box<dyn BufRead + Send>>,
    number: u64,
    /// The header of the record whose content is next.
    open: Option<(WarcHeader, Place)>,
}

impl RawWarcRecords {
    /// Reads an archive that is unpacked already.
    pub fn open(input: impl BufRead + Send + 'static) -> Self {
        Self {
            input: Counted {
                inner: Box::new(input),
                at: 0,
            },
            number: 0,
            open: None,
        }
    }

    /// Reads the header of the next record. Returns its number, as [`WarcRecords`] counts, and whether it may hold a document;
    /// `None` at the end. The record before must have been passed.
    pub fn next_header(&mut self) -> Result<Option<(u64, bool)>, String> {
        let start = self.input.at;
        let Some(header) = WarcHeader::read(&mut self.input).map_err(|damage| damage.0)? else {
            return Ok(None);
        };
        self.number += 1;
        let holds_page = header.holds_page();
        let place = Place {
            start,
            content: self.input.at,
            length: header.length,
        };
        self.open = Some((header, place));
        Ok(Some((self.number, holds_page)))
    }

    /// Passes on the bytes of the record whose header was read, with the empty lines after it.
    pub fn pass_record<E: From<String>>(
        &mut self,
        each: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some((header, place)) = self.open.take() else {
            return Ok(());
        };
        each(&header.bytes)?;
        let mut left = place.length;
        while left > 0 {
            let input = self.input.fill_buf();
            let input = input.map_err(|error| Damage::io(place.content, &error).0)?;
            if input.is_empty() {
                place
                    .ensure_complete(place.length - left)
                    .map_err(|damage| damage.0)?;
            }
            let bytes = left.min(input.len().to_u64()).to_usize();
            each(&input[..bytes])?;
            self.input.consume(bytes);
            left -= bytes.to_u64();
        }
        for _ in 0..2 {
            let line = place.read_empty_line(&mut self.input);
            each(&line.map_err(|damage| damage.0)?)?;
        }
        Ok(())
    }
}

/// Where a record is.
struct Place {
    start: u64,
    content: u64,
    length: u64,
}

impl Place {
    fn ensure_complete(&self, bytes: u64) -> Result<(), Damage> {
        if bytes == self.length {
            return Ok(());
        }
        Err(Damage(format!(
            "byte {}: the record is truncated: it has {bytes} of {} bytes",
            self.start, self.length
        )))
    }

    fn read_empty_line(&self, input: &mut Counted<impl BufRead>) -> Result<Vec<u8>, Damage> {
        let at = input.at;
        let line = input.line(2).map_err(|error| Damage::io(at, &error))?;
        if line == b"\r\n" || line == b"\n" {
            return Ok(line);
        }
        Err(Damage(format!(
            "byte {at}: no empty line after the record at byte {}; its Content-Length of {} is wrong, or the record is damaged",
            self.start, self.length
        )))
    }
}

/// Why the rest of the archive cannot be read.
struct Damage(String);

impl Damage {
    fn io(at: u64, error: &io::Error) -> Self {
        Self(format!("byte {at}: {error}"))
    }
}

/// The header of a record.
struct WarcHeader {
    fields: Headers,
    length: u64,
    /// As it is written, with its version and its empty line.
    bytes: Vec<u8>,
}

impl WarcHeader {
    /// Reads a header up to its empty line; `None` at the end of the archive.
    fn read(input: &mut Counted<impl BufRead>) -> Result<Option<Self>, Damage> {
        let start = input.at;
        let (mut bytes, mut version_bytes) = (Vec::new(), 0);
        loop {
            let at = input.at;
            let left = (start + MOST_HEADER_BYTES).saturating_sub(at);
            let line = input.line(left).map_err(|error| Damage::io(at, &error))?;
            if line.is_empty() && at == start {
                return Ok(None);
            }
            if at == start {
                ensure_version(&line, start)?;
                version_bytes = line.len();
                bytes = line;
                continue;
            }
            if !line.ends_with(b"\n") {
                let what = format!("byte {start}: the header of the record does not end");
                return Err(Damage(what));
            }
            let lines = version_bytes..bytes.len();
            bytes.extend_from_slice(&line);
            if matches!(&line[..], b"\r\n" | b"\n") {
                return Self::parse(bytes, lines, start).map(Some);
            }
        }
    }

    fn parse(bytes: Vec<u8>, lines: Range<usize>, start: u64) -> Result<Self, Damage> {
        let fields = Headers::parse(&bytes[lines]);
        let length = fields.get("content-length").unwrap_or_default();
        let Ok(length) = length.parse() else {
            return Err(Damage(format!(
                "byte {start}: the Content-Length of the record is {length:?}, not a number"
            )));
        };
        Ok(Self {
            fields,
            length,
            bytes,
        })
    }

    fn kind(&self) -> &str {
        self.fields.get("warc-type").unwrap_or("no type")
    }

    fn holds_page(&self) -> bool {
        matches!(self.kind(), "conversion" | "response" | "resource")
    }

    /// WARC 0.18 and some programs put the address between angle brackets.
    fn id(&self) -> Option<String> {
        let id = self.fields.get("warc-target-uri");
        let id = id
            .map(|uri| uri.trim_start_matches('<').trim_end_matches('>'))
            .filter(|uri| !uri.is_empty())
            .or_else(|| self.fields.get("warc-record-id"))?;
        Some(id.to_owned())
    }
}

fn ensure_version(line: &[u8], start: u64) -> Result<(), Damage> {
    let version = String::from_utf8_lossy(line.trim_ascii_end());
    if VERSIONS.contains(&&*version) {
        return Ok(());
    }
    let version: String = version.chars().take(20).collect();
    Err(Damage(if version.starts_with("WARC/") {
        format!("byte {start}: {version:?} is not a version of WARC that is known (0.17 to 1.1)")
    } else {
        format!("byte {start}: no WARC record starts here, but {version:?}")
    }))
}

/// Counts a reason, by name as long as there are not too many.
fn count(reasons: &mut BTreeMap<String, u64>, reason: &str) {
    let reason: String = reason.chars().take(80).collect();
    let is_known = reasons.len() < MOST_REASONS || reasons.contains_key(&reason);
    let reason = if is_known { reason } else { "other".to_owned() };
    *reasons.entry(reason).or_default() += 1;
}

/// An input that knows how many bytes were read.
struct Counted<R> {
    inner: R,
    at: u64,
}

impl<R: BufRead> Counted<R> {
    /// A line with its line feed, or as much as there is of it, at most `most_bytes`.
    fn line(&mut self, most_bytes: u64) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.take(most_bytes).read_until(b'\n', &mut line)?;
        Ok(line)
    }
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.at += read.to_u64();
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes.to_u64();
        self.inner.consume(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with this header and content.
    fn record(header: &str, content: &[u8]) -> Vec<u8> {
        let length = content.len();
        let mut record =
            format!("WARC/1.0\r\n{header}Content-Length: {length}\r\n\r\n").into_bytes();
        record.extend_from_slice(content);
        record.extend_from_slice(b"\r\n\r\n");
        record
    }

    fn conversion(uri: &str, text: &str) -> Vec<u8> {
        let header = format!(
            "WARC-Type: conversion\r\nWARC-Target-URI: {uri}\r\nContent-Type: text/plain\r\n"
        );
        record(&header, text.as_bytes())
    }

    fn response(http: &[u8]) -> Vec<u8> {
        let header = "WARC-Type: response\r\nWARC-Record-ID: <urn:1>\r\nContent-Type: application/http; msgtype=response\r\n";
        record(header, http)
    }

    /// Each record as `number:id:text`, or what is wrong with it.
    fn read_within(archive: &[u8], most_bytes: u64) -> Vec<String> {
        let mut records = WarcRecords::open(io::Cursor::new(archive.to_vec()), most_bytes);
        let mut shown = Vec::new();
        while let Some(record) = records.next_record() {
            shown.push(match record {
                Err(error) => error,
                Ok(record) => {
                    let id = record.id.unwrap_or_default();
                    match record.text {
                        Ok(text) => format!("{}:{id}:{text}", record.number),
                        Err(fault) => format!("{}:{id}:{fault:?}", record.number),
                    }
                }
            });
        }
        let left_out = records.passed().left_out.iter();
        shown.extend(left_out.map(|(reason, count)| format!("left out {count}: {reason}")));
        shown
    }

    fn read(archive: &[u8]) -> Vec<String> {
        read_within(archive, 1 << 20)
    }

    #[test]
    fn damage_is_named_with_its_place() {
        let one = conversion("u", "text");
        let end = one.len();
        assert_eq!(read(&one), ["1:u:text"]);
        assert!(read(b"").is_empty());
        let cut = |bytes: usize| read(&one[..bytes]).pop().unwrap();
        assert_eq!(
            cut(end - 5),
            "byte 0: the record is truncated: it has 3 of 4 bytes"
        );
        assert!(cut(end - 1).contains("no empty line after the record at byte 0"));
        assert_eq!(cut(20), "byte 0: the header of the record does not end");
        let mut two = one.clone();
        two.extend_from_slice(b"garbage");
        let garbage = format!("byte {end}: no WARC record starts here, but \"garbage\"");
        assert_eq!(read(&two), ["1:u:text".to_owned(), garbage]);
        let huge =
            b"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 1000000000000000000\r\n\r\nabc";
        assert_eq!(
            read(huge),
            ["byte 0: the record is truncated: it has 3 of 1000000000000000000 bytes"]
        );
        let none = b"WARC/1.0\r\nWARC-Type: conversion\r\n\r\n";
        assert_eq!(
            read(none),
            ["byte 0: the Content-Length of the record is \"\", not a number"]
        );
        assert!(read(b"WARC/2.0\r\n\r\n")[0].contains("not a version of WARC"));
        let shorter = String::from_utf8(one)
            .unwrap()
            .replace("Length: 4", "Length: 3");
        assert!(read(shorter.as_bytes())[0].contains("its Content-Length of 3 is wrong"));
    }

    #[test]
    fn large_records_are_passed_over() {
        let mut archive = conversion("u", &"x".repeat(3 << 20));
        archive.extend_from_slice(&conversion("<v>", "text"));
        assert_eq!(read_within(&archive, 1 << 10), ["1:u:TooLarge", "2:v:text"]);
    }

    #[test]
    fn responses() {
        let page = |header: &str, body: &[u8]| {
            let mut http = format!("HTTP/1.1 200 OK\r\n{header}\r\n").into_bytes();
            http.extend_from_slice(body);
            read(&response(&http)).pop().unwrap()
        };
        let html = "Content-Type: text/html\r\n";
        assert_eq!(page(html, b"<p>a"), "1:<urn:1>:\na");
        assert_eq!(page("", b"<p>a"), "1:<urn:1>:\na");
        assert_eq!(page("", b"a"), "left out 1: no media type");
        assert_eq!(
            page("Content-Type: Image/PNG; x\r\n", b"a"),
            "left out 1: image/png"
        );
        assert_eq!(page(html, b"caf\xe9"), "1:<urn:1>:café");
        let folded = "Content-Type:\r\n text/html;\r\n\tcharset=iso-8859-2\r\n";
        assert_eq!(page(folded, b"\xe8"), "1:<urn:1>:č");
        let meta = b"<meta http-equiv=x content='text/html; charset=windows-1251'>\xe0";
        assert_eq!(page(html, meta), "1:<urn:1>:\nа");
        let plain = "Content-Type: text/plain\r\n";
        assert!(page(plain, b"caf\xe9").contains("byte 0xe9 at byte 3"));
        // Headers that tell of codings which the archive has undone.
        let undone = format!("{html}Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n");
        assert_eq!(page(&undone, b"<p>a"), "1:<urn:1>:\na");
        let unknown = format!("{html}Content-Encoding: zstd\r\n");
        assert!(page(&unknown, b"<p>a").contains("is not supported (gzip, deflate, br are)"));
        let chunked = format!("{html}Transfer-Encoding: chunked\r\n");
        assert_eq!(
            page(&chunked, b"2;x=y\r\nab\r\n1\r\nc\r\n0\r\n\r\n"),
            "1:<urn:1>:abc"
        );
        assert!(page(&chunked, b"2\r\nab\r\n9\r\nc").contains("truncated or damaged"));
        let http = read(&response(b"no http"));
        assert!(http[0].contains("does not start with an HTTP status line"));
    }

    #[test]
    fn packed_pages() {
        use flate2::{Compression, read};
        let page = |coding: &str, body: &[u8], most_bytes| {
            let mut http = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: {coding}\r\n\r\n"
            )
            .into_bytes();
            http.extend_from_slice(body);
            read_within(&response(&http), most_bytes).pop().unwrap()
        };
        let text = "some text ".repeat(100);
        let packed = |mut reader: Box<dyn Read + '_>| {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            bytes
        };
        let level = Compression::default();
        let gzip = packed(Box::new(read::GzEncoder::new(text.as_bytes(), level)));
        let zlib = packed(Box::new(read::ZlibEncoder::new(text.as_bytes(), level)));
        let raw = packed(Box::new(read::DeflateEncoder::new(text.as_bytes(), level)));
        let shown = format!("1:<urn:1>:{text}");
        for (coding, bytes) in [("gzip", &gzip), ("deflate", &zlib), ("deflate", &raw)] {
            assert_eq!(page(coding, bytes, 1 << 20), shown);
            assert_eq!(page(coding, bytes, 999), "1:<urn:1>:TooLarge");
            assert!(
                page(coding, &bytes[..bytes.len() - 9], 1 << 20).contains("truncated or damaged")
            );
        }
    }
}
