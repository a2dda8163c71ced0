//! NDJSON: a JSON object per line, a document or a record of a stream.
//!
//! A file is NDJSON if its name ends in `.jsonl` or `.ndjson`. If its name says nothing (`.json`, no
//! extension, any that is not one of a text), its first lines must all be JSON objects: two or more of
//! them, or one that has the text field. So a settings file of one line is one document. If its name is
//! that of a text, each of its first lines must be an object that has the text field. Of a pipe only the
//! first line is waited for: if that is an object, the pipe is NDJSON.

use super::{Container, DocumentReader, InputFormat, Probe, RecordPiece, Records, Visit};
use crate::{
    base::{
        error::{Place, Problem},
        num::ToU64,
    },
    text::{
        corpus::{
            account::{RecordWithoutText, SkippedInput},
            document_reader::{Content, InputDocument, ensure_size},
            sniff::is_object,
        },
        stream::{BlotCodec, Header, Line, Parsed, StreamKind, field_names, parse_record},
    },
};

/// A line is one document, or one record of a stream.
pub(super) struct Ndjson;

/// How many lines must be objects for a file to be NDJSON.
const SNIFF_LINES: usize = 16;

impl InputFormat for Ndjson {
    fn records(&self) -> Records {
        Records::Ndjson
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["jsonl", "ndjson"]
    }

    fn recognises(&self, probe: &Probe<'_>) -> bool {
        probe.named == Some(Records::Ndjson) || has_records(probe)
    }

    fn read(&self, mut piece: RecordPiece<'_>, reader: &mut DocumentReader, visit: &mut Visit<'_>) {
        let lines = piece.bytes.split_mut(|&byte| byte == b'\n');
        for (line, number) in lines.zip(piece.first_line..) {
            if !line.trim_ascii().is_empty() {
                read_line(piece.container, number, line, reader, visit);
            }
        }
    }
}

/// Whether the first lines are records. A stream of ours always is, whatever its name.
fn has_records(probe: &Probe<'_>) -> bool {
    let fields = &probe.options.fields;
    let mut lines = probe.sniffed.lines();
    let Some(first) = lines.next() else {
        return false;
    };
    if Header::is_likely(first) {
        return true;
    }
    if !is_object(first) {
        return false;
    }
    if probe.named == Some(Records::Text) {
        let mut first_lines = probe.sniffed.lines().take(SNIFF_LINES);
        return first_lines.all(|line| is_object(line) && fields.has_text(line));
    }
    let mut others = lines.take(SNIFF_LINES - 1).peekable();
    if !probe.is_file {
        true
    } else if others.peek().is_some() {
        others.all(is_object)
    } else {
        fields.has_text(first)
    }
}

/// Visits the document of one line, or says why there is none.
fn read_line(
    container: &Container,
    number: u64,
    line: &mut [u8],
    reader: &mut DocumentReader,
    visit: &mut Visit<'_>,
) {
    let place = || Place::line(&container.file, number);
    match parse_line(container, line, reader) {
        Err(what) if what == reader.fields.no_text() => {
            visit(Err(SkippedInput::NoText(RecordWithoutText {
                place: place(),
                what,
                fields: field_names(line),
            })));
        }
        Err(what) => visit(Err(Problem::new(place(), what).into())),
        Ok(line) => visit_record(container, number, line, reader, visit),
    }
}

/// What a line holds, or why it cannot be used.
fn parse_line<'a>(
    container: &Container,
    line: &'a mut [u8],
    reader: &mut DocumentReader,
) -> Result<Line<'a>, String> {
    // A record of tokens or blots may well be longer than its document.
    let most_bytes = match container.header {
        Some(_) => u64::MAX,
        None => reader.max_document,
    };
    ensure_size(line.len().to_u64(), most_bytes)?;
    container.ensure_utf8(line, reader.lossy)?;
    let Some(header) = &container.header else {
        let parsed = reader
            .fields
            .parse(line, &mut reader.tokens, &mut reader.blots)?;
        return match parsed {
            Line::Header(_) => Err("the header of a stream amid other lines".to_owned()),
            Line::End { .. } => Err("an end record without its header".to_owned()),
            parsed => Ok(parsed),
        };
    };
    let parsed = parse_record(line, &mut reader.tokens, &mut reader.blots)?;
    ensure_kind(header, &parsed)?;
    if let Line::Blots(record) = &parsed {
        ensure_width(container, record)?;
    }
    Ok(parsed)
}

fn visit_record(
    container: &Container,
    number: u64,
    line: Line<'_>,
    reader: &DocumentReader,
    visit: &mut Visit<'_>,
) {
    let (record, content) = match line {
        Line::Header(_) | Line::End { .. } => return,
        Line::Document { id, text } => {
            let id = id.unwrap_or_else(|| format!("{}:{number}", container.id).into());
            return visit(Ok(InputDocument {
                id: &id,
                file: &container.file,
                line: Some(number),
                record: number,
                bytes: Some(text.len().to_u64()),
                hash: None,
                content: Content::Text(&text),
            }));
        }
        Line::Tokens(record) => (record, Content::Tokens(&reader.tokens)),
        Line::Blots(record) => (record, Content::Blots(&reader.blots)),
        Line::Print(record, printed) => (record, Content::Print(printed)),
    };
    visit(Ok(InputDocument {
        id: &record.doc,
        file: &container.file,
        line: Some(number),
        record: number,
        bytes: record.bytes,
        hash: record.hash,
        content,
    }));
}

/// Refuses a record of another kind than its stream: later steps would take it for something else.
fn ensure_kind(header: &Header, line: &Line<'_>) -> Result<(), String> {
    let kind = match line {
        Line::Tokens(_) => StreamKind::Tokens,
        Line::Blots(_) => StreamKind::Blots,
        Line::Print(..) => StreamKind::Prints,
        Line::Header(_) | Line::End { .. } | Line::Document { .. } => return Ok(()),
    };
    if kind == header.kind {
        return Ok(());
    }
    Err(format!(
        "a record of {} in a stream of {}",
        kind.name(),
        header.kind.name()
    ))
}

/// Refuses blots that are wider or narrower than the scheme says.
fn ensure_width(container: &Container, record: &Parsed<'_>) -> Result<(), String> {
    let Some((least, greatest)) = record.digits else {
        return Ok(());
    };
    let bits = container.blot_bits.clone()?;
    let codec = BlotCodec {
        bits,
        with_positions: false,
    };
    let expected = codec.digits();
    match [least, greatest]
        .into_iter()
        .find(|&digits| digits != expected)
    {
        None => Ok(()),
        Some(wrong) => Err(format!(
            "a blot of {wrong} hex digits, the scheme's {bits} bits are {expected}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::corpus::{Options, sniff::Sniffed, unpack::inner_name};
    use std::{io::Cursor, path::Path};

    fn is_ndjson(name: &str, content: &str) -> bool {
        let input = Box::new(Cursor::new(content.as_bytes().to_vec()));
        let name = inner_name(Path::new(name));
        let probe = Probe {
            named: Records::of_name(&name),
            name: &name,
            sniffed: &Sniffed::of_file(input, 1 << 20).unwrap(),
            is_file: true,
            options: &Options::default(),
        };
        Ndjson.recognises(&probe)
    }

    #[test]
    fn objects_on_every_line_are_ndjson_where_the_name_says_nothing() {
        let two = "{\"a\":1}\n\n{\"a\":2}\n";
        let one = "{\"text\":\"x\"}";
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
        let long = "x".repeat(3 << 16);
        let record = format!("{{\"text\":\"{long}\"}}");
        assert!(is_ndjson(
            "a.json",
            &format!("{record}\n{{\"text\":\"y\"}}\n")
        ));
        assert!(is_ndjson("a.json", &record));
        assert!(!is_ndjson("a.json", &format!("{{ {long}")));
        // A line that is cut at the end of the head does not count.
        assert!(is_ndjson(
            "a.json",
            &format!("{{\"text\":\"x\"}}\n{record}\n")
        ));
    }
}
