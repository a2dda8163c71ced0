//! Escapes text from outside for a terminal or a table.
//!
//! Ids and texts may hold characters that a terminal obeys (ESC, and U+009B, which does the same), that
//! end a cell or a line, or that reverse the direction of the text after them. In NDJSON and TSV each of
//! them becomes the escape that JSON has for it: `\t`, `\n`, `\r`, `\\`, `\"` or `\uXXXX`. A cell of TSV is
//! therefore the inside of a JSON string, and both decode to the same text.

pub use crate::base::error::is_unsafe;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::{borrow::Cow, io};

/// Whether a byte is a quote, a backslash, or may begin an unsafe character.
fn is_suspect(byte: u8) -> bool {
    matches!(byte, 0..=0x1f | b'"' | b'\\' | 0x7f | 0xc2 | 0xd8 | 0xe2)
}

/// Whether a text surely needs no escapes in JSON and TSV. False for a few that need none.
pub fn is_plain(text: &[u8]) -> bool {
    // Without a branch for each byte the compiler tests many at once.
    let has_suspect = |piece: &[u8]| {
        piece
            .iter()
            .fold(false, |found, &byte| found | is_suspect(byte))
    };
    !text.chunks(64).any(has_suspect)
}

/// Appends text as the inside of a JSON string, and as a cell of TSV.
pub fn put_escaped(out: &mut Vec<u8>, text: &str) {
    put_with(text, out, |c, out| match c {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        c => put_escape(c, out),
    });
}

/// Appends text as a JSON string.
pub fn put_json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    put_escaped(out, text);
    out.push(b'"');
}

/// Escapes unsafe characters for a message as [`put_escaped`] does; quotes and backslashes stay.
pub fn escape_unsafe(text: &str) -> Cow<'_, str> {
    if is_plain(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len() + 16);
    put_with(text, &mut out, |c, out| match c {
        '"' | '\\' => out.push(c as u8),
        c => put_escape(c, out),
    });
    // Escapes are ASCII, and the rest is whole characters.
    Cow::Owned(String::from_utf8(out).unwrap_or_default())
}

/// A value as one line of JSON, with the escapes of [`put_escaped`].
pub fn to_json(value: &impl Serialize) -> String {
    let mut out = Vec::new();
    // A vector takes every write.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut out, Escaping));
    String::from_utf8(out).unwrap_or_default()
}

struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        writer.write_all(escape_unsafe(fragment).as_bytes())
    }
}

/// Copies text, and calls `put` for each character that is unsafe, a quote or a backslash.
fn put_with(text: &str, out: &mut Vec<u8>, put: impl Fn(char, &mut Vec<u8>)) {
    let (mut done, mut at) = (0, 0);
    while let Some(step) = text.as_bytes()[at..]
        .iter()
        .position(|&byte| is_suspect(byte))
    {
        at += step;
        let Some(c) = text[at..].chars().next() else {
            break;
        };
        let next = at + c.len_utf8();
        if is_unsafe(c) || matches!(c, '"' | '\\') {
            out.extend_from_slice(&text.as_bytes()[done..at]);
            put(c, out);
            done = next;
        }
        at = next;
    }
    out.extend_from_slice(&text.as_bytes()[done..]);
}

fn put_escape(c: char, out: &mut Vec<u8>) {
    match c {
        '\t' => out.extend_from_slice(b"\\t"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        // None of them is beyond U+FFFF.
        c => out.extend_from_slice(format!("\\u{:04x}", u32::from(c)).as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(text: &str) -> String {
        let mut out = Vec::new();
        put_escaped(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn unsafe_characters_are_escaped() {
        assert_eq!(escaped("a\tb\r\nc\\\"é"), "a\\tb\\r\\nc\\\\\\\"é");
        assert_eq!(
            escaped("\0\x1b[2J\x7f\u{9b}\u{202e}\u{2066}\u{61c}\u{2028}"),
            "\\u0000\\u001b[2J\\u007f\\u009b\\u202e\\u2066\\u061c\\u2028"
        );
        // Neighbours of those, and joiners that scripts need.
        assert_eq!(
            escaped("\u{a0}«ab»…–ا\u{200c}\u{200d}\u{2070}"),
            "\u{a0}«ab»…–ا\u{200c}\u{200d}\u{2070}"
        );
        assert_eq!(escape_unsafe("C:\\x \"y\"\n\x1b"), "C:\\x \"y\"\\n\\u001b");
    }

    proptest! {
        #[test]
        fn escapes_are_those_of_json(text in "(?s:.|[\\\\\"\0-\u{1f}\u{7f}-\u{a0}\u{200b}-\u{2070}]){0,40}") {
            let escaped = escaped(&text);
            prop_assert!(!escaped.contains(is_unsafe));
            prop_assert_eq!(serde_json::from_str::<String>(&format!("\"{escaped}\"")).unwrap(), text.clone());
            prop_assert_eq!(serde_json::from_str::<String>(&to_json(&text)).unwrap(), text.clone());
            prop_assert!(!to_json(&text).contains(is_unsafe) && !escape_unsafe(&text).contains(is_unsafe));
        }
    }
}
