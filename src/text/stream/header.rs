//! The header of a stream: the kind of records, the version and the scheme.

use serde::{Deserialize, Serialize, de::IgnoredAny};

/// The first bytes of a binary stream. Neither text nor mangled by a text-mode copy.
pub const MAGIC: [u8; 8] = *b"\x89DEDUP\r\n";
/// The version of the format.
pub const VERSION: u32 = 1;
/// The most bytes of a header.
pub const MAX_HEADER_BYTES: u32 = 1 << 16;

/// What the records of a stream are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamKind {
    /// The tokens of documents.
    Tokens,
    /// The blots of documents.
    Blots,
    /// The prints of documents.
    Prints,
}

impl StreamKind {
    /// The name in the header.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Blots => "blots",
            Self::Prints => "prints",
        }
    }
}

/// The first line of an NDJSON stream, and the first part of a binary one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// What the records are.
    #[serde(rename = "dedup")]
    pub kind: StreamKind,
    /// The version of the format.
    pub version: u32,
    /// The scheme, as text.
    pub scheme: String,
}

impl Header {
    /// A header of the current version.
    pub fn new(kind: StreamKind, scheme: String) -> Self {
        Self {
            kind,
            version: VERSION,
            scheme,
        }
    }

    /// Whether a line claims to be a header, right or wrong. A document of someone else may well have a field `dedup`; a header of ours
    /// may be cut, and then must not pass for a text.
    pub fn is_likely(line: &[u8]) -> bool {
        #[derive(Deserialize)]
        #[expect(dead_code, reason = "what counts is that the fields are there")]
        struct Claim<'a> {
            #[serde(borrow)]
            dedup: std::borrow::Cow<'a, str>,
            version: IgnoredAny,
            scheme: IgnoredAny,
        }
        opens_with(line, "dedup")
            && serde_json::from_slice::<Claim<'_>>(line)
                .map_or_else(|error| error.is_eof(), |_| true)
    }

    /// Reads a header, and checks its version.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        let header: Self = serde_json::from_slice(json)
            .map_err(|error| format!("not the header of a dedup stream: {error}"))?;
        if header.version != VERSION {
            return Err(format!(
                "stream version is {}, this program reads version {VERSION}",
                header.version
            ));
        }
        Ok(header)
    }

    /// The header as a line of JSON, without the line feed.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Whether this key comes first in a line that may be JSON, with spaces or without.
pub(super) fn opens_with(line: &[u8], key: &str) -> bool {
    let rest = line
        .trim_ascii_start()
        .strip_prefix(b"{")
        .map(<[u8]>::trim_ascii_start);
    rest.and_then(|rest| rest.strip_prefix(b"\"")?.strip_prefix(key.as_bytes()))
        .is_some_and(|rest| rest.starts_with(b"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_three_fields() {
        for likely in [
            r#"{"dedup":"tokens","version":1,"scheme":"word@18.0"}"#,
            r#" { "dedup" : "notes", "scheme": 5, "version": "x" } "#,
            r#"{"dedup":"tokens","ver"#,
        ] {
            assert!(Header::is_likely(likely.as_bytes()), "{likely}");
        }
        for other in [
            r#"{"dedup":true,"version":1,"scheme":"x"}"#,
            r#"{"dedup":"yes","text":"x"}"#,
            r#"{"dedup" yes}"#,
            r#"{"dedupe":"x"#,
            "",
        ] {
            assert!(!Header::is_likely(other.as_bytes()), "{other}");
        }
    }
}
