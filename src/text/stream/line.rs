//! One line of NDJSON: a document, a record of ours, or a record of another program.

use super::{
    blots::Blots,
    header::{Header, opens_with},
    print::Print,
    record::{BlotCodec, Printed},
    tokens::{Span, Tokens},
};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt, marker::PhantomData};

/// What a line turned out to be. Tokens and blots are left in the buffers that were given.
#[derive(Debug, PartialEq)]
pub enum Line<'a> {
    Document {
        id: Option<Cow<'a, str>>,
        text: Cow<'a, str>,
    },
    Tokens(Parsed<'a>),
    Blots(Parsed<'a>),
    Print(Parsed<'a>, Printed),
    Header(Header),
    End {
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
    pub doc: Cow<'a, str>,
    pub bytes: Option<u64>,
    pub hash: Option<u128>,
    /// The least and the greatest number of hex digits of a blot; none without blots.
    pub digits: Option<(usize, usize)>,
}

/// The names of the two fields that make a document.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct LineParser {
    pub id_field: String,
    pub text_field: String,
}

impl LineParser {
    /// Reads a line of a stream that opened with no header: whatever has a text is a document.
    pub fn parse<'a>(
        &self,
        line: &'a [u8],
        tokens: &mut Tokens,
        blots: &mut Blots,
    ) -> Result<Line<'a>, String> {
        let (id, text) = read(line, DocumentSeed(self))?;
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

    /// What is said of a line that is no document for want of a text.
    pub fn no_text(&self) -> String {
        format!("no field '{}' with a text", self.text_field)
    }

    /// Whether a line is an object with a text.
    pub fn has_text(&self, line: &[u8]) -> bool {
        read(line, IdSeed(self)).is_ok_and(|(_, has_text)| has_text)
    }

    /// The id of the document in a line, if it has one. The text is passed over, not decoded.
    pub fn parse_id<'a>(
        &self,
        line: &'a [u8],
        tokens: &mut Tokens,
        blots: &mut Blots,
    ) -> Result<Option<Cow<'a, str>>, String> {
        let (id, has_text) = read(line, IdSeed(self))?;
        if has_text {
            return Ok(id);
        }
        match self.parse(line, tokens, blots)? {
            Line::Tokens(found) | Line::Blots(found) | Line::Print(found, _) => Ok(Some(found.doc)),
            Line::Document { id, .. } => Ok(id),
            Line::Header(_) | Line::End { .. } => {
                Err("part of a stream of records amid documents".to_owned())
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

const NO_RECORD: &str = "neither tokens, blots nor a print";

/// Reads a line of a stream that opened with a header.
pub fn parse_record<'a>(
    line: &'a [u8],
    tokens: &mut Tokens,
    blots: &mut Blots,
) -> Result<Line<'a>, String> {
    tokens.clear();
    blots.clear();
    let mut spans = Vec::new();
    let seed = RecordSeed {
        tokens: &mut *tokens,
        blots: &mut *blots,
        spans: &mut spans,
    };
    let found = read(line, seed)?;
    match found {
        Found {
            end: Some(records), ..
        } => Ok(Line::End { records }),
        Found {
            has_dedup: true, ..
        } if Header::is_likely(line) => Header::parse(line).map(Line::Header),
        Found {
            doc: None,
            tokens: Some(_),
            ..
        }
        | Found {
            doc: None,
            has_blots: true,
            ..
        }
        | Found {
            doc: None,
            print: Some(_),
            ..
        } => Err("a record without 'doc'".to_owned()),
        Found {
            doc: Some(doc),
            bytes,
            hash,
            print: Some(print),
            tokens: count,
            ..
        } => {
            let tokens = count.unwrap_or(u64::from(print.is_some()));
            Ok(Line::Print(
                Parsed {
                    doc,
                    bytes,
                    hash,
                    digits: None,
                },
                Printed { print, tokens },
            ))
        }
        Found {
            doc: Some(doc),
            bytes,
            hash,
            has_blots: true,
            digits,
            tokens: count,
            distinct,
            has_positions,
            ..
        } => {
            if has_positions && blots.positions.len() != blots.values.len() {
                return Err(format!(
                    "{} blots but {} positions",
                    blots.values.len(),
                    blots.positions.len()
                ));
            }
            blots.tokens = count.unwrap_or(blots.values.len() as u64);
            blots.distinct = distinct;
            Ok(Line::Blots(Parsed {
                doc,
                bytes,
                hash,
                digits,
            }))
        }
        Found {
            doc: Some(doc),
            bytes,
            hash,
            tokens: Some(count),
            has_spans,
            ..
        } => {
            if count != tokens.len() as u64 {
                return Err("'tokens' is a number, but there are no 'blots'".to_owned());
            }
            if has_spans && spans.len() != tokens.len() {
                return Err(format!("{} tokens but {} spans", tokens.len(), spans.len()));
            }
            tokens.spans = has_spans.then_some(spans);
            Ok(Line::Tokens(Parsed {
                doc,
                bytes,
                hash,
                digits: None,
            }))
        }
        _ => Err(NO_RECORD.to_owned()),
    }
}

fn read<'a, S: DeserializeSeed<'a>>(line: &'a [u8], seed: S) -> Result<S::Value, String> {
    let mut json = serde_json::Deserializer::from_slice(line);
    let value = seed
        .deserialize(&mut json)
        .and_then(|value| json.end().map(|()| value));
    value.map_err(|error| explain(&error))
}

/// serde_json counts lines of its own, always 1 here: only the column helps.
fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(what, _)| what);
    let class = if error.is_data() {
        "unexpected JSON"
    } else {
        "not JSON"
    };
    format!("{class}: {what} at column {}", error.column())
}

struct DocumentSeed<'p>(&'p LineParser);

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
        while let Some(Text(key)) = map.next_key()? {
            if key == self.0.text_field.as_str() {
                text = map.next_value::<Option<Text<'de>>>()?.map(|text| text.0);
            } else if key == self.0.id_field.as_str() {
                id = map.next_value::<Option<Name<'de>>>()?.map(|name| name.0);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok((id, text))
    }
}

/// The id, and whether there is a text.
struct IdSeed<'p>(&'p LineParser);

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
        while let Some(Text(key)) = map.next_key()? {
            if key == self.0.text_field.as_str() {
                has_text = map.next_value::<&RawValue>()?.get().starts_with('"');
            } else if key == self.0.id_field.as_str() {
                id = map.next_value::<Option<Name<'de>>>()?.map(|name| name.0);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok((id, has_text))
    }
}

/// A string, borrowed from the line where it holds no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

/// An id: a string, or a number as it is written, however long.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        match raw.as_bytes().first() {
            Some(b'"') => serde_json::from_str(raw)
                .map(|Text(text)| Self(text))
                .map_err(|error| de::Error::custom(explain(&error))),
            Some(b'-' | b'0'..=b'9') => Ok(Self(Cow::Borrowed(raw))),
            _ => Err(de::Error::custom(
                "an id that is neither a string nor a number",
            )),
        }
    }
}

struct RecordSeed<'b> {
    tokens: &'b mut Tokens,
    blots: &'b mut Blots,
    spans: &'b mut Vec<Span>,
}

#[derive(Default)]
struct Found<'a> {
    doc: Option<Cow<'a, str>>,
    bytes: Option<u64>,
    hash: Option<u128>,
    /// How many, whether listed or only counted.
    tokens: Option<u64>,
    has_spans: bool,
    has_blots: bool,
    distinct: Option<u64>,
    has_positions: bool,
    /// Given, and there.
    print: Option<Option<Print>>,
    digits: Option<(usize, usize)>,
    has_dedup: bool,
    end: Option<u64>,
}

#[derive(Deserialize)]
struct End {
    records: u64,
}

impl<'de> DeserializeSeed<'de> for RecordSeed<'_> {
    type Value = Found<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RecordSeed<'_> {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found<'de>, A::Error> {
        let mut found = Found::default();
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "doc" => found.doc = Some(map.next_value::<Name<'de>>()?.0),
                "bytes" => found.bytes = map.next_value()?,
                "hash" => {
                    found.hash = map
                        .next_value::<Option<Text<'de>>>()?
                        .map(|hash| parse_hash(&hash.0))
                        .transpose()?
                }
                "tokens" => found.tokens = Some(map.next_value_seed(TokensSeed(self.tokens))?),
                "distinct" => found.distinct = map.next_value()?,
                "spans" => {
                    found.has_spans = map.next_value_seed(each(|(start, end): (u32, u32)| {
                        push_span(self.spans, start, end)
                    }))?
                }
                "blots" => {
                    found.has_blots = map.next_value_seed(each(|Text(hex): Text<'de>| {
                        let (least, greatest) = found.digits.unwrap_or((hex.len(), hex.len()));
                        found.digits = Some((least.min(hex.len()), greatest.max(hex.len())));
                        push_blot(self.blots, &hex)
                    }))?
                }
                "positions" => {
                    found.has_positions = map.next_value_seed(each(|position| {
                        self.blots.positions.push(position);
                        Ok(())
                    }))?
                }
                "print" => {
                    let hex = map.next_value::<Option<Text<'de>>>()?;
                    found.print = Some(
                        hex.map(|hex| hex.0.parse::<Print>())
                            .transpose()
                            .map_err(de::Error::custom)?,
                    );
                }
                "end" => found.end = Some(map.next_value::<End>()?.records),
                "dedup" => {
                    map.next_value::<IgnoredAny>()?;
                    found.has_dedup = true;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

fn parse_hash<E: de::Error>(hex: &str) -> Result<u128, E> {
    let is_hex = hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hash = is_hex.then(|| u128::from_str_radix(hex, 16).ok()).flatten();
    hash.ok_or_else(|| E::custom(format_args!("hash '{hex}' is not 32 hex digits")))
}

fn push_span(spans: &mut Vec<Span>, start: u32, end: u32) -> Result<(), String> {
    if end < start {
        return Err(format!("span [{start},{end}] ends before it starts"));
    }
    spans.push(Span { start, end });
    Ok(())
}

/// A blot as text carries its width: `ensure_width` checks it against the scheme.
fn push_blot(blots: &mut Blots, hex: &str) -> Result<(), String> {
    let is_hex =
        !hex.is_empty() && hex.len() <= 16 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = is_hex.then(|| u64::from_str_radix(hex, 16).ok()).flatten();
    blots
        .values
        .push(value.ok_or_else(|| format!("blot '{hex}' is not 1 to 16 hex digits"))?);
    Ok(())
}

impl BlotCodec {
    /// Refuses blots that are wider than the scheme says.
    pub fn ensure_width(self, blots: &Blots) -> Result<(), String> {
        blots
            .values
            .iter()
            .try_for_each(|&value| self.ensure_fits(value).map(|_| ()))
    }
}

/// Tokens as a list of strings, or only their number.
struct TokensSeed<'b>(&'b mut Tokens);

impl<'de> DeserializeSeed<'de> for TokensSeed<'_> {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TokensSeed<'_> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of tokens, or their number")
    }

    fn visit_u64<E>(self, count: u64) -> Result<u64, E> {
        Ok(count)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<u64, A::Error> {
        while let Some(Text(token)) = list.next_element()? {
            if token.contains('\n') {
                return Err(de::Error::custom("a token contains a line feed"));
            }
            self.0.push(&token, Span { start: 0, end: 0 });
        }
        Ok(self.0.len() as u64)
    }
}

/// Calls a function with each element of a list.
fn each<T, F: FnMut(T) -> Result<(), String>>(call: F) -> EachSeed<F, T> {
    EachSeed(call, PhantomData)
}

struct EachSeed<F, T>(F, PhantomData<T>);

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> Result<(), String>> DeserializeSeed<'de>
    for EachSeed<F, T>
{
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> Result<(), String>> Visitor<'de> for EachSeed<F, T> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<bool, A::Error> {
        while let Some(element) = list.next_element()? {
            (self.0)(element).map_err(de::Error::custom)?;
        }
        Ok(true)
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
