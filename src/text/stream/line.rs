//! One line of NDJSON: a document, a record of ours, or a record of another program.

use super::{
    blots::Blots,
    header::{Header, opens_with},
    json::{JsonId, JsonText, read_json},
    record::Printed,
    record_line::{NO_RECORD, parse_record},
    tokens::Tokens,
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt, ops::Range};

/// What a line holds. Tokens and blots are in the buffers of the caller.
#[derive(Debug, PartialEq)]
pub enum Line<'a> {
    /// A document.
    Document {
        /// Its id, if it has one.
        id: Option<Cow<'a, str>>,
        /// Its text.
        text: Cow<'a, str>,
    },
    /// A token record.
    Tokens(Parsed<'a>),
    /// A blot record.
    Blots(Parsed<'a>),
    /// A print record.
    Print(Parsed<'a>, Printed),
    /// The header of a stream.
    Header(Header),
    /// The end record of a stream.
    End {
        /// The number of records before it.
        records: u64,
    },
}

impl Line<'_> {
    /// Whether a line of a stream is its end record, right or wrong.
    pub fn is_end(line: &[u8]) -> bool {
        opens_with(line, "end")
    }
}

/// [`super::Record`], with an id that may have held escapes.
#[derive(Debug, Default, PartialEq)]
pub struct Parsed<'a> {
    /// The id of the document.
    pub doc: Cow<'a, str>,
    /// The size of the document.
    pub bytes: Option<u64>,
    /// The hash over its tokens.
    pub hash: Option<u128>,
    /// The least and the greatest number of hex digits of a blot; none without blots.
    pub digits: Option<(usize, usize)>,
}

/// The names of the two fields that make a document.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct LineParser {
    /// The name of the field that holds the id.
    pub id_field: String,
    /// The name of the field that holds the text.
    pub text_field: String,
}

impl LineParser {
    /// Reads a line of a stream without a header: every object with a text is a document.
    pub fn parse<'a>(
        &self,
        line: &'a [u8],
        tokens: &mut Tokens,
        blots: &mut Blots,
    ) -> Result<Line<'a>, String> {
        let (id, text) = read_json(line, DocumentSeed(WantedFields::of(self)))?;
        match text {
            Some(text) => Ok(Line::Document { id, text }),
            None => parse_record(line, tokens, blots).map_err(|error| {
                if error == NO_RECORD {
                    self.no_text()
                } else {
                    error
                }
            }),
        }
    }

    /// The message about a line that has no text.
    pub fn no_text(&self) -> String {
        format!("no field '{}' with a text", self.text_field)
    }

    /// Where in a line the text stands, as a JSON string with its quotes.
    pub fn find_text(&self, line: &[u8]) -> Option<Range<usize>> {
        let value = self.find_value(line)?;
        (line.get(value.start) == Some(&b'"')).then_some(value)
    }

    /// Where in a line the value of the text field stands.
    pub fn find_value(&self, line: &[u8]) -> Option<Range<usize>> {
        let text = read_json(line, TextSeed(&self.text_field)).ok()??;
        let start = text.get().as_ptr().addr() - line.as_ptr().addr();
        Some(start..start + text.get().len())
    }

    /// What is wrong with a record whose text has no value.
    pub fn null_text(&self) -> String {
        format!("null in the field '{}'", self.text_field)
    }

    /// Whether a line is an object with a text.
    pub fn has_text(&self, line: &[u8]) -> bool {
        read_json(line, IdSeed(WantedFields::of(self))).is_ok_and(|(_, has_text)| has_text)
    }

    /// The id of the document in a line, if it has one. The text is skipped, not decoded.
    pub fn parse_id<'a>(
        &self,
        line: &'a [u8],
        tokens: &mut Tokens,
        blots: &mut Blots,
    ) -> Result<Option<Cow<'a, str>>, String> {
        let (id, has_text) = read_json(line, IdSeed(WantedFields::of(self)))?;
        if has_text {
            return Ok(id);
        }
        match self.parse(line, tokens, blots)? {
            Line::Tokens(found) | Line::Blots(found) | Line::Print(found, _) => Ok(Some(found.doc)),
            Line::Document { id, .. } => Ok(id),
            Line::Header(_) | Line::End { .. } => {
                Err("part of a stream of records among documents".to_owned())
            }
        }
    }
}

/// The names of the fields of an object, in order; none if it is no object.
pub fn field_names(line: &[u8]) -> Vec<String> {
    serde_json::from_slice::<FieldNames>(line).map_or_else(|_| Vec::new(), |names| names.0)
}

struct FieldNames(Vec<String>);

impl<'de> Deserialize<'de> for FieldNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldNamesVisitor)
    }
}

struct FieldNamesVisitor;

impl<'de> Visitor<'de> for FieldNamesVisitor {
    type Value = FieldNames;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FieldNames, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            map.next_value::<IgnoredAny>()?;
            names.push(name);
        }
        Ok(FieldNames(names))
    }
}

/// The fields to find in an object: their names, or the rest of the paths to them.
#[derive(Clone, Copy)]
struct WantedFields<'p> {
    id: Option<&'p str>,
    text: Option<&'p str>,
}

impl<'p> WantedFields<'p> {
    fn of(parser: &'p LineParser) -> Self {
        Self {
            id: Some(&parser.id_field),
            text: Some(&parser.text_field),
        }
    }

    /// The fields to find in the object of a field: `url` in `meta`, for `meta.url`.
    fn within(self, key: &str) -> Option<Self> {
        let rest = |path: Option<&'p str>| path?.strip_prefix(key)?.strip_prefix('.');
        let inner = Self {
            id: rest(self.id),
            text: rest(self.text),
        };
        (inner.id.is_some() || inner.text.is_some()).then_some(inner)
    }
}

/// The id and the text of an object. A field whose name has a dot wins over a path.
struct DocumentSeed<'p>(WantedFields<'p>);

impl<'de> DeserializeSeed<'de> for DocumentSeed<'_> {
    type Value = (Option<Cow<'de, str>>, Option<Cow<'de, str>>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for DocumentSeed<'_> {
    type Value = (Option<Cow<'de, str>>, Option<Cow<'de, str>>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut id, mut text) = (None, None);
        while let Some(JsonText(key)) = map.next_key()? {
            if Some(&*key) == self.0.text {
                text = map
                    .next_value::<Option<JsonText<'de>>>()?
                    .map(|text| text.0);
            } else if Some(&*key) == self.0.id {
                id = map.next_value::<Option<JsonId<'de>>>()?.map(|name| name.0);
            } else if let Some(inner) = self.0.within(&key) {
                let value: &'de RawValue = map.next_value()?;
                let (inner_id, inner_text) =
                    read_object(value, DocumentSeed(inner)).unwrap_or_default();
                id = id.or(inner_id);
                text = text.or(inner_text);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok((id, text))
    }
}

/// The fields to find in a value, if it is an object.
fn read_object<'de, S: DeserializeSeed<'de>>(value: &'de RawValue, seed: S) -> Option<S::Value> {
    let mut deserializer = serde_json::Deserializer::from_str(value.get());
    seed.deserialize(&mut deserializer).ok()
}

/// The value of a field, by its name or the path to it.
struct TextSeed<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for TextSeed<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TextSeed<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut text = None;
        while let Some(JsonText(key)) = map.next_key()? {
            let inner = self.0.strip_prefix(&*key);
            let value: &'de RawValue = map.next_value()?;
            if inner == Some("") {
                text = Some(value);
            } else if let Some(path) = inner.and_then(|path| path.strip_prefix('.')) {
                text = text.or(read_object(value, TextSeed(path)).flatten());
            }
        }
        Ok(text)
    }
}

/// The id, and whether there is a text.
struct IdSeed<'p>(WantedFields<'p>);

impl<'de> DeserializeSeed<'de> for IdSeed<'_> {
    type Value = (Option<Cow<'de, str>>, bool);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for IdSeed<'_> {
    type Value = (Option<Cow<'de, str>>, bool);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut id, mut has_text) = (None, false);
        while let Some(JsonText(key)) = map.next_key()? {
            if Some(&*key) == self.0.text {
                has_text = map.next_value::<&RawValue>()?.get().starts_with('"');
            } else if Some(&*key) == self.0.id {
                id = map.next_value::<Option<JsonId<'de>>>()?.map(|name| name.0);
            } else if let Some(inner) = self.0.within(&key) {
                let value: &'de RawValue = map.next_value()?;
                let (inner_id, inner_text) = read_object(value, IdSeed(inner)).unwrap_or_default();
                id = id.or(inner_id);
                has_text |= inner_text;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok((id, has_text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> String {
        let parser = LineParser {
            id_field: "id".into(),
            text_field: "text".into(),
        };
        let (mut tokens, mut blots) = (Tokens::default(), Blots::default());
        match parser.parse(line.as_bytes(), &mut tokens, &mut blots) {
            Ok(line) => format!(
                "{line:?} {:?} {:?} {:?}",
                tokens
                    .iter()
                    .map(String::from_utf8_lossy)
                    .collect::<Vec<_>>(),
                tokens.spans(),
                blots.values
            ),
            Err(error) => error,
        }
    }

    #[test]
    fn a_dot_leads_into_an_object() {
        let parser = LineParser {
            id_field: "meta.url".into(),
            text_field: "body.parts.main".into(),
        };
        let parse = |line: &str| {
            let (mut tokens, mut blots) = (Tokens::default(), Blots::default());
            match parser.parse(line.as_bytes(), &mut tokens, &mut blots) {
                Ok(Line::Document { id, text }) => format!("{}: {text}", id.unwrap_or_default()),
                other => format!("{other:?}"),
            }
        };
        let nested = r#"{"meta":{"url":"u"},"body":{"parts":{"main":"m\n"},"x":1}}"#;
        assert_eq!(parse(nested), "u: m\n");
        assert!(parser.has_text(nested.as_bytes()));
        let literal = r#"{"meta.url":"v","meta":{"url":"u"},"body":{"parts":{"main":"m"}}}"#;
        assert_eq!(parse(literal), "v: m");
        for line in [r#"{"body":{"parts":"main"}}"#, r#"{"body":[]}"#, "{}"] {
            assert!(!parser.has_text(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn documents_have_a_text() {
        assert_eq!(
            parse(r#"{"id":"a","text":"b\n","tokens":[1]}"#),
            r#"Document { id: Some("a"), text: "b\n" } [] None []"#
        );
        assert_eq!(
            parse(r#"{"text":"b","id":7}"#),
            r#"Document { id: Some("7"), text: "b" } [] None []"#
        );
        for id in ["1.50", "1e5", "-0", "123456789012345678901234567890"] {
            assert_eq!(
                parse(&format!(r#"{{"text":"b","id": {id} }}"#)),
                format!(r#"Document {{ id: Some("{id}"), text: "b" }} [] None []"#)
            );
        }
        assert_eq!(
            parse(r#"{"text":"b","id":"\u0061"}"#),
            r#"Document { id: Some("a"), text: "b" } [] None []"#
        );
        assert_eq!(
            parse(r#"{"text":"b","id":null}"#),
            r#"Document { id: None, text: "b" } [] None []"#
        );
        assert!(
            parse(r#"{"text":"b","id":[1]}"#)
                .contains("an id that is neither a string nor a number")
        );
        assert_eq!(
            parse(r#"{"dedup":true,"id":"a","text":"b"}"#),
            r#"Document { id: Some("a"), text: "b" } [] None []"#
        );
        assert_eq!(
            parse(r#"{"text":""}"#),
            r#"Document { id: None, text: "" } [] None []"#
        );
        assert_eq!(parse(r#"{"id":"a"}"#), "no field 'text' with a text");
        assert_eq!(
            parse(r#"{"id":"a","text":null}"#),
            "no field 'text' with a text"
        );
        assert_eq!(
            parse(r#"{"id":"a","text":5}"#),
            "unexpected JSON: invalid type: integer `5`, expected a string at column 18"
        );
        assert_eq!(
            parse(r#"{"id":"a","te"#),
            "not JSON: EOF while parsing a string at column 13"
        );
        assert_eq!(
            parse(r#"{"id":"a","text":"b"} x"#),
            "not JSON: trailing characters at column 23"
        );
        assert_eq!(
            parse("[]"),
            "unexpected JSON: invalid type: sequence, expected a JSON object at column 0"
        );
    }

    #[test]
    fn records_of_other_programs_may_be_bare() {
        let parsed_blots = |hash: &str, digits: &str| {
            format!(r#"Parsed {{ doc: "a", bytes: None, hash: {hash}, digits: {digits} }}"#)
        };
        let parsed = |hash: &str| parsed_blots(hash, "None");
        assert_eq!(
            parse(r#"{"doc":"a","tokens":["x","y"]}"#),
            format!(r#"Tokens({}) ["x", "y"] None []"#, parsed("None"))
        );
        assert_eq!(
            parse(
                r#"{"doc":"a","tokens":["x"],"spans":[[0,1]],"hash":"000000000000000000000000000000ff"}"#
            ),
            format!(
                r#"Tokens({}) ["x"] Some([Span {{ start: 0, end: 1 }}]) []"#,
                parsed("Some(255)")
            )
        );
        assert_eq!(
            parse(r#"{"doc":"a","blots":["ff","0"]}"#),
            format!(
                "Blots({}) [] None [255, 0]",
                parsed_blots("None", "Some((1, 2))")
            )
        );
        assert_eq!(
            parse(r#"{"dedup":1,"doc":"a","tokens":["x"]}"#),
            format!(r#"Tokens({}) ["x"] None []"#, parsed("None"))
        );
        assert_eq!(
            parse(r#"{"end":{"records":3}}"#),
            "End { records: 3 } [] None []"
        );
        assert_eq!(
            parse(r#"{"dedup":"tokens","version":1,"scheme":"word@18.0"}"#),
            r#"Header(Header { kind: Tokens, version: 1, scheme: "word@18.0" }) [] None []"#
        );
    }

    #[test]
    fn records_that_contradict_themselves_are_refused() {
        assert_eq!(parse(r#"{"tokens":["x"]}"#), "a record without 'doc'");
        assert_eq!(
            parse(r#"{"doc":"a","tokens":3}"#),
            "'tokens' is a number, but there are no 'blots'"
        );
        assert_eq!(
            parse(r#"{"doc":"a","tokens":["x"],"spans":[]}"#),
            "1 tokens but 0 spans"
        );
        assert_eq!(
            parse(r#"{"doc":"a","blots":["1"],"positions":[]}"#),
            "1 blots but 0 positions"
        );
        for (line, what) in [
            (
                r#"{"doc":"a","tokens":["x"],"spans":[[2,1]]}"#,
                "span [2,1] ends before it starts",
            ),
            (
                r#"{"doc":"a","blots":["xyz"]}"#,
                "blot 'xyz' is not 1 to 16 hex digits",
            ),
            (
                r#"{"doc":"a","print":"12"}"#,
                "print '12' is not 64 hex digits",
            ),
            (
                r#"{"doc":"a","tokens":["a\nb"]}"#,
                "a token contains a line feed",
            ),
            (
                r#"{"doc":"a","tokens":[],"hash":"1"}"#,
                "hash '1' is not 32 hex digits",
            ),
        ] {
            assert!(parse(line).contains(what), "{}", parse(line));
        }
    }
}
