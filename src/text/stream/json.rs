//! Strings and ids in a line of JSON.

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// Reads a line that holds one JSON value and nothing else.
pub fn read_json<'a, S: DeserializeSeed<'a>>(line: &'a [u8], seed: S) -> Result<S::Value, String> {
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

/// A string, borrowed from the line where it holds no escapes.
pub struct JsonText<'a>(pub Cow<'a, str>);

impl<'de> Deserialize<'de> for JsonText<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(JsonTextVisitor)
    }
}

struct JsonTextVisitor;

impl<'de> Visitor<'de> for JsonTextVisitor {
    type Value = JsonText<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<JsonText<'de>, E> {
        Ok(JsonText(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<JsonText<'de>, E> {
        Ok(JsonText(Cow::Owned(text.to_owned())))
    }
}

/// An id: a string, or the digits of a number of any length.
pub struct JsonId<'a>(pub Cow<'a, str>);

impl<'de> Deserialize<'de> for JsonId<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        match raw.as_bytes().first() {
            Some(b'"') => serde_json::from_str(raw)
                .map(|JsonText(text)| Self(text))
                .map_err(|error| de::Error::custom(explain(&error))),
            Some(b'-' | b'0'..=b'9') => Ok(Self(Cow::Borrowed(raw))),
            _ => Err(de::Error::custom(
                "an id that is neither a string nor a number",
            )),
        }
    }
}
