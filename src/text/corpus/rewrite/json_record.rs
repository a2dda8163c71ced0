//! Changes one JSON object: cuts passages out of its text, adds a field. All other bytes stay.

use super::{NOTE_FIELD, RecordChange};
use crate::{
    base::num::ToUsize,
    text::stream::{LineParser, Span},
};
use memchr::memmem;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Appends a record with its changes. `record` is one JSON object; the space around it stays.
pub fn change(
    record: &[u8],
    fields: &LineParser,
    change: &RecordChange<'_>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let mut cut = Vec::new();
    let mut record = record;
    if !change.cuts.is_empty() {
        let text = fields.find_text(record).ok_or_else(|| fields.no_text())?;
        cut.extend_from_slice(&record[..text.start]);
        cut_string(&record[text.clone()], change.cuts, &mut cut);
        cut.extend_from_slice(&record[text.end..]);
        record = &cut;
    }
    match change.note {
        None => out.extend_from_slice(record),
        Some(note) => add_note(record, note, out)?,
    }
    Ok(())
}

/// Appends a JSON string, with its quotes, without some bytes of the text that it stands for.
fn cut_string(literal: &[u8], cuts: &[Span], out: &mut Vec<u8>) {
    let mut cuts = cuts.iter().peekable();
    // Where we are in the text.
    let mut at = 0;
    let mut rest = literal;
    while !rest.is_empty() {
        let is_quote = rest.len() == literal.len() || rest.len() == 1;
        let (written, decoded) = if is_quote { (1, 0) } else { unit(rest) };
        while cuts.next_if(|cut| cut.end.to_usize() <= at).is_some() {}
        let is_cut = cuts.peek().is_some_and(|cut| cut.range().contains(&at));
        if is_quote || !is_cut {
            out.extend_from_slice(&rest[..written]);
        }
        at += decoded;
        rest = &rest[written..];
    }
}

/// How many bytes the first character of a JSON string, or a byte of it, takes there, and in the text.
fn unit(rest: &[u8]) -> (usize, usize) {
    match rest {
        [b'\\', b'u', ..] => match code_unit(&rest[2..]) {
            // A high surrogate, which a low one follows.
            0xd800..0xdc00 => (12.min(rest.len()), 4),
            code => (
                6.min(rest.len()),
                char::from_u32(code).map_or(3, char::len_utf8),
            ),
        },
        [b'\\', _, ..] => (2, 1),
        _ => (1, 1),
    }
}

fn code_unit(digits: &[u8]) -> u32 {
    let digits = digits
        .get(..4)
        .and_then(|digits| std::str::from_utf8(digits).ok());
    digits
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .unwrap_or(0)
}

/// Appends an object with one more field; one of the same name goes.
fn add_note(record: &[u8], note: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let field = format!("\"{NOTE_FIELD}\"");
    let fields: BTreeMap<String, &RawValue>;
    if memmem::find(record, field.as_bytes()).is_some() {
        fields = serde_json::from_slice(record).map_err(|error| error.to_string())?;
        if fields.contains_key(NOTE_FIELD) {
            return replace_note(record, note, out);
        }
    }
    let end = memchr::memrchr(b'}', record).ok_or("not a JSON object")?;
    let is_empty = record[..end].trim_ascii_end().ends_with(b"{");
    let comma = if is_empty { "" } else { "," };
    out.extend_from_slice(&record[..end]);
    out.extend_from_slice(format!("{comma}{field}:{note}").as_bytes());
    out.extend_from_slice(&record[end..]);
    Ok(())
}

/// Appends an object in which the value of the field is another one.
fn replace_note(record: &[u8], note: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let fields = LineParser {
        id_field: String::new(),
        text_field: NOTE_FIELD.to_owned(),
    };
    let old = fields.find_value(record).ok_or("not a JSON object")?;
    out.extend_from_slice(&record[..old.start]);
    out.extend_from_slice(note.as_bytes());
    out.extend_from_slice(&record[old.end..]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parser(text_field: &str) -> LineParser {
        LineParser {
            id_field: "id".to_owned(),
            text_field: text_field.to_owned(),
        }
    }

    fn changed(record: &str, field: &str, cuts: &[(u32, u32)], note: Option<&str>) -> String {
        let cuts: Vec<_> = cuts
            .iter()
            .map(|&(start, end)| Span { start, end })
            .collect();
        let mut out = Vec::new();
        let by = RecordChange { cuts: &cuts, note };
        change(record.as_bytes(), &parser(field), &by, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn escapes_are_cut_whole_and_all_else_stays() {
        let record = r#" {"a":1, "text" : "x\"\u00e9\ud83d\ude00\né ok" ,"z":"\u0041"}"#;
        // x " é(2) 😀(4) \n é(2) space o k
        for (cuts, text) in [
            (vec![(0, 1)], r#"\"\u00e9\ud83d\ude00\né ok"#),
            (vec![(1, 2)], r#"x\u00e9\ud83d\ude00\né ok"#),
            (vec![(2, 4)], r#"x\"\ud83d\ude00\né ok"#),
            (vec![(4, 8)], r#"x\"\u00e9\né ok"#),
            (vec![(8, 9), (11, 12)], r#"x\"\u00e9\ud83d\ude00éok"#),
            (vec![(0, 14)], ""),
        ] {
            let expected = format!(r#" {{"a":1, "text" : "{text}" ,"z":"\u0041"}}"#);
            assert_eq!(changed(record, "text", &cuts, None), expected);
        }
    }

    #[test]
    fn the_text_may_be_nested() {
        let record = r#"{"text":"no","b":{"c":"one two","d":[]}}"#;
        assert_eq!(
            changed(record, "b.c", &[(0, 4)], None),
            r#"{"text":"no","b":{"c":"two","d":[]}}"#
        );
    }

    #[test]
    fn a_note_is_added_once() {
        let once = changed("{\"text\":\"a\"}\r\n", "text", &[], Some("{\"keep\":true}"));
        assert_eq!(once, "{\"text\":\"a\",\"dedup\":{\"keep\":true}}\r\n");
        assert_eq!(
            changed(&once, "text", &[], Some("1")),
            "{\"text\":\"a\",\"dedup\":1}\r\n"
        );
        assert_eq!(changed("{ }", "text", &[], Some("1")), "{ \"dedup\":1}");
        // The name of the field in a text is no field.
        assert_eq!(
            changed(r#"{"text":"\"dedup\""}"#, "text", &[], Some("1")),
            r#"{"text":"\"dedup\"","dedup":1}"#
        );
    }

    proptest! {
        #[test]
        fn cutting_json_is_cutting_its_text(text: String, from: prop::sample::Index, to: prop::sample::Index, ascii: bool) {
            let borders: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let (from, to) = (borders[from.index(borders.len())], borders[to.index(borders.len())]);
            let (from, to) = (from.min(to), from.max(to));
            let mut literal = serde_json::to_string(&text).unwrap();
            if ascii {
                literal = literal.chars().map(|c| {
                    let mut units = [0; 2];
                    if c.is_ascii() { c.to_string() } else { c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect() }
                }).collect();
            }
            let found = changed(&format!("{{\"text\":{literal}}}"), "text", &[(from as u32, to as u32)], None);
            let found: serde_json::Value = serde_json::from_str(&found).unwrap();
            prop_assert_eq!(found["text"].as_str().unwrap(), format!("{}{}", &text[..from], &text[to..]));
        }
    }
}
