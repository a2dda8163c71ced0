//! A JSON array as NDJSON: one element a line, while it is read.
//!
//! ```text
//! [ {"id": "a",      becomes      {"id": "a",  "text": "one"}
//!    "text": "one"},              {"id": "b", "text": "two"}
//!   {"id": "b", "text": "two"}]
//! ```
//!
//! This knows strings, brackets and commas. Whether an element is JSON is for the reader of the line to say; then one
//! bad element costs only itself.

use crate::base::num::ToU64;
use memchr::memchr3;
use std::io::{self, BufRead, Read};

/// Reads the elements of a JSON array as lines. Memory: none but the buffer of the input.
pub struct JsonArrayLines<R> {
    input: R,
    scanner: ArrayScanner,
}

/// Finds the elements of a JSON array in its bytes.
#[derive(Default)]
pub struct ArrayScanner {
    state: ArrayState,
    /// Bytes of the input that were read.
    at: u64,
    /// The element that was begun last, from 1.
    element: u64,
    /// Why the state is `Failed`.
    failure: String,
}

/// Some bytes of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayRun {
    /// How many there are.
    pub bytes: usize,
    /// The element that they belong to, from 1; none for brackets, commas and white space between elements.
    pub element: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ArrayState {
    #[default]
    BeforeArray,
    /// Behind `[`: an element or `]`.
    First,
    /// Behind a comma: an element.
    BeforeElement,
    /// Inside of an element, below this number of brackets.
    Inside {
        depth: u64,
    },
    /// Inside of a string of an element.
    Quoted {
        depth: u64,
    },
    /// Behind a backslash in a string.
    Escaped {
        depth: u64,
    },
    /// Behind an element that has ended: a comma or `]`.
    AfterElement,
    AfterArray,
    Failed,
}

use ArrayState::{
    AfterArray, AfterElement, BeforeArray, BeforeElement, Escaped, Failed, First, Inside, Quoted,
};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl<R: BufRead> JsonArrayLines<R> {
    /// Reads the array from `input`, which may start with a byte-order mark.
    pub fn new(input: R) -> Self {
        Self {
            input,
            scanner: ArrayScanner::default(),
        }
    }
}

impl<R: BufRead> Read for JsonArrayLines<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            let input = self.input.fill_buf()?;
            if input.is_empty() || self.scanner.state == Failed {
                return self.scanner.end();
            }
            let (used, made) = self.scanner.convert(input, out);
            self.input.consume(used);
            if made > 0 {
                return Ok(made);
            }
        }
    }
}

impl ArrayScanner {
    /// Turns bytes of `input` into bytes of `out`, never more than it takes, up to the first failure. Returns both counts.
    fn convert(&mut self, input: &[u8], out: &mut [u8]) -> (usize, usize) {
        let most = input.len().min(out.len());
        let mut used = 0;
        let mut made = 0;
        while used < most && self.state != Failed {
            if let Quoted { depth } = self.state {
                let run = self.copy_string(&input[used..most], &mut out[made..], depth);
                used += run;
                made += run;
                continue;
            }
            if let Some(byte) = self.next_byte(input[used]) {
                out[made] = byte;
                made += 1;
            }
            used += 1;
            self.at += 1;
        }
        (used, made)
    }

    /// Copies the string up to its end or to a backslash.
    ///
    /// A line feed may not stand in a string, and would cut the line. It becomes a carriage return, which may not stand
    /// there either, so that the element is reported and the next one is read.
    fn copy_string(&mut self, input: &[u8], out: &mut [u8], depth: u64) -> usize {
        let run = self.pass_string(input, depth);
        out[..run].copy_from_slice(&input[..run]);
        if out[..run].ends_with(b"\n") {
            out[run - 1] = b'\r';
        }
        run
    }

    /// Passes over the string up to its end, to a backslash or to a line feed.
    fn pass_string(&mut self, input: &[u8], depth: u64) -> usize {
        let end = memchr3(b'"', b'\\', b'\n', input);
        let run = end.map_or(input.len(), |end| end + 1);
        match end.map(|end| input[end]) {
            Some(b'"') if depth == 0 => self.state = AfterElement,
            Some(b'"') => self.state = Inside { depth },
            Some(b'\\') => self.state = Escaped { depth },
            _ => {}
        }
        self.at += run.to_u64();
        run
    }

    /// How many of the first bytes belong together: all to one element, or all to what is between elements. Without bytes,
    /// the input ends here.
    pub fn next_run(&mut self, input: &[u8]) -> Result<ArrayRun, String> {
        if input.is_empty() || self.state == Failed {
            self.end().map_err(|error| error.to_string())?;
        }
        let (mut bytes, mut is_element) = (0, None);
        while bytes < input.len() && self.state != Failed {
            if let Quoted { depth } = self.state {
                // The quote before it was part of the element.
                is_element = Some(true);
                bytes += self.pass_string(&input[bytes..], depth);
                continue;
            }
            let before = (self.state, self.element);
            // Only a line end stands for what is between elements.
            let belongs = matches!(self.next_byte(input[bytes]), Some(byte) if byte != b'\n');
            if is_element.is_some_and(|is_element| is_element != belongs) && self.state != Failed {
                (self.state, self.element) = before;
                break;
            }
            is_element = Some(belongs);
            bytes += 1;
            self.at += 1;
        }
        Ok(ArrayRun {
            bytes,
            element: is_element.filter(|&is| is).map(|_| self.element),
        })
    }

    /// What a byte outside of strings becomes.
    fn next_byte(&mut self, byte: u8) -> Option<u8> {
        match self.state {
            Inside { depth } => self.inside(byte, depth),
            Escaped { depth } => {
                self.state = Quoted { depth };
                Some(if byte == b'\n' { b'\r' } else { byte })
            }
            _ if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') => None,
            BeforeArray => self.before_array(byte),
            First | BeforeElement => self.before_element(byte),
            AfterElement => self.after_element(byte),
            _ => self.fail("there is more after the end of the array"),
        }
    }

    fn inside(&mut self, byte: u8, depth: u64) -> Option<u8> {
        match byte {
            b'"' => self.state = Quoted { depth },
            b'{' | b'[' => self.state = Inside { depth: depth + 1 },
            b',' | b']' if depth == 0 => return self.after_element(byte),
            b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => {
                self.state = AfterElement;
                return None;
            }
            b'}' | b']' if depth == 1 => self.state = AfterElement,
            b'}' | b']' => {
                let depth = depth.saturating_sub(1);
                self.state = Inside { depth };
            }
            b'\n' => return Some(b' '),
            _ => {}
        }
        Some(byte)
    }

    fn before_array(&mut self, byte: u8) -> Option<u8> {
        let mark = usize::try_from(self.at)
            .ok()
            .and_then(|at| BYTE_ORDER_MARK.get(at));
        match byte {
            b'[' => self.state = First,
            _ if mark == Some(&byte) => {}
            _ => return self.fail("the file is not a JSON array: it does not start with ["),
        }
        None
    }

    fn before_element(&mut self, byte: u8) -> Option<u8> {
        match byte {
            b']' if self.state == First => {
                self.state = AfterArray;
                return None;
            }
            b',' | b']' | b'}' | b':' => return self.fail("an element is missing"),
            _ => {}
        }
        self.element += 1;
        self.state = match byte {
            b'{' | b'[' => Inside { depth: 1 },
            b'"' => Quoted { depth: 0 },
            _ => Inside { depth: 0 },
        };
        Some(byte)
    }

    fn after_element(&mut self, byte: u8) -> Option<u8> {
        self.state = match byte {
            b',' => BeforeElement,
            b']' => AfterArray,
            _ => return self.fail("a comma is missing"),
        };
        Some(b'\n')
    }

    fn fail(&mut self, what: &str) -> Option<u8> {
        let place = match self.element {
            0 => String::new(),
            element => format!("element {element}, "),
        };
        self.failure = format!("{place}byte {}: {what}", self.at);
        self.state = Failed;
        None
    }

    /// Whether the input may end here.
    fn end(&mut self) -> io::Result<usize> {
        match self.state {
            AfterArray => return Ok(0),
            Failed => {}
            BeforeArray => {
                self.fail("there is no array in the file");
            }
            _ => {
                self.fail("the file ends before the array does; it may be truncated");
            }
        }
        let failure = self.failure.clone();
        Err(io::Error::new(io::ErrorKind::InvalidData, failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;
    use std::io::BufReader;

    fn lines(json: &[u8]) -> Result<String, String> {
        lines_by(json, 3, 5)
    }

    /// The lines, with an input buffer and reads of these sizes.
    fn lines_by(json: &[u8], buffer_bytes: usize, read_bytes: usize) -> Result<String, String> {
        let input = BufReader::with_capacity(buffer_bytes, json);
        let mut reader = JsonArrayLines::new(input);
        let mut all = Vec::new();
        let mut part = vec![0; read_bytes];
        loop {
            match reader.read(&mut part) {
                Ok(0) => return Ok(String::from_utf8(all).unwrap()),
                Ok(read) => all.extend_from_slice(&part[..read]),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    #[test]
    fn elements_become_lines() {
        assert_eq!(lines(b"[]").unwrap(), "");
        assert_eq!(lines(b" \n[ \t]\r\n").unwrap(), "");
        assert_eq!(lines(b"\xef\xbb\xbf[1]").unwrap(), "1\n");
        assert_eq!(
            lines(b"[ {\"id\": \"a\",\n\"text\": \"one, ] \\\" \\\\\"}\n,\n[{}, [\n]] , \"x\" ,true,-1.5e3]\n").unwrap(),
            "{\"id\": \"a\", \"text\": \"one, ] \\\" \\\\\"}\n[{}, [ ]]\n\"x\"\ntrue\n-1.5e3\n"
        );
    }

    #[test]
    fn malformed_arrays_are_named() {
        #[rustfmt::skip]
        let cases: [(&[u8], &str); 12] = [
            (b"", "byte 0: there is no array in the file"),
            (b"\n\n", "byte 2: there is no array in the file"),
            (b"{}", "byte 0: the file is not a JSON array: it does not start with ["),
            (b"\xef\xbb[", "byte 3: the file ends before the array does; it may be truncated"),
            (b"[", "byte 1: the file ends before the array does; it may be truncated"),
            (b"[{},", "element 1, byte 4: the file ends before the array does; it may be truncated"),
            (b"[{},{\"a", "element 2, byte 7: the file ends before the array does; it may be truncated"),
            (b"[{}]]", "element 1, byte 4: there is more after the end of the array"),
            (b"[{}] {", "element 1, byte 5: there is more after the end of the array"),
            (b"[{} {}]", "element 1, byte 4: a comma is missing"),
            (b"[{},,{}]", "element 1, byte 4: an element is missing"),
            (b"[{},]", "element 1, byte 4: an element is missing"),
        ];
        for (json, expected) in cases {
            assert_eq!(lines(json).unwrap_err(), expected, "{json:?}");
        }
    }

    #[test]
    fn what_is_before_the_damage_is_read() {
        let mut reader = JsonArrayLines::new(&b"[{},{}"[..]);
        let mut part = [0; 64];
        assert_eq!(reader.read(&mut part).unwrap(), 5);
        assert_eq!(&part[..5], b"{}\n{}");
        assert!(reader.read(&mut part).is_err());
        assert!(reader.read(&mut part).is_err());
    }

    #[test]
    fn a_line_feed_in_a_string_costs_only_its_element() {
        let lines = lines(b"[\"a\nb\",\"c\\\nd\",1]").unwrap();
        let parsed: Vec<_> = lines.lines().map(serde_json::from_str::<Value>).collect();
        assert!(parsed[0].is_err() && parsed[1].is_err());
        assert_eq!(parsed[2].as_ref().unwrap(), &Value::from(1));
        assert_eq!(parsed.len(), 3);
    }

    #[test]
    fn depth_is_only_counted() {
        let deep = 1_000_000;
        let json = format!("[{}{}]", "[".repeat(deep), "]".repeat(deep));
        assert_eq!(
            lines_by(json.as_bytes(), 4096, 4096).unwrap().len(),
            2 * deep + 1
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z\"\\\\\\[\\]{},: \n\téß漢]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z\"\\\\]{0,3}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// The value with whitespace between its tokens, from a list that is used in turn.
    fn spaced(value: &Value, spaces: &mut impl Iterator<Item = String>, out: &mut String) {
        let space = |out: &mut String, spaces: &mut dyn Iterator<Item = String>| {
            out.push_str(&spaces.next().unwrap_or_default());
        };
        space(out, spaces);
        match value {
            Value::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    spaced(item, spaces, out);
                }
                space(out, spaces);
                out.push(']');
            }
            Value::Object(map) => {
                out.push('{');
                for (at, (key, item)) in map.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    spaced(&Value::from(key.as_str()), spaces, out);
                    out.push(':');
                    spaced(item, spaces, out);
                }
                space(out, spaces);
                out.push('}');
            }
            other => out.push_str(&other.to_string()),
        }
        space(out, spaces);
    }

    proptest! {
        #[test]
        fn lines_have_the_elements_of_the_array(
            items in prop::collection::vec(any_json(), 0..6),
            spaces in prop::collection::vec("[ \t\r\n]{0,3}", 1..9),
            buffer_bytes in 1_usize..40,
            read_bytes in 1_usize..40,
        ) {
            let mut json = String::new();
            let array = Value::from(items.clone());
            spaced(&array, &mut spaces.into_iter().cycle(), &mut json);
            let lines = lines_by(json.as_bytes(), buffer_bytes, read_bytes).unwrap();
            let parsed: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            prop_assert_eq!(&parsed, &items);
            prop_assert_eq!(lines.matches('\n').count(), items.len());
        }

        #[test]
        fn any_bytes_give_lines_or_an_error(json in "[\\[\\]{}\",: \n\\\\a1]{0,30}", buffer_bytes in 1_usize..9) {
            let lines = lines_by(json.as_bytes(), buffer_bytes, 4);
            if serde_json::from_str::<Vec<Value>>(&json).is_ok() {
                prop_assert!(lines.is_ok());
            }
        }
    }
}
