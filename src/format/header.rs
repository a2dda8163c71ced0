//! How a stream opens: what it holds, which version, and the scheme.

use serde::{Deserialize, Serialize};

/// The first bytes of a binary stream. Neither text nor mangled by a text-mode copy.
pub const MAGIC: [u8; 8] = *b"\x89DEDUP\r\n";
pub const VERSION: u32 = 1;
/// A longer header is not ours.
pub const MAX_HEADER_BYTES: u32 = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Tokens,
    Blots,
}

/// The first line of an NDJSON stream, and the first part of a binary one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    #[serde(rename = "dedup")]
    pub kind: Kind,
    pub version: u32,
    pub scheme: String,
}

impl Header {
    pub fn new(kind: Kind, scheme: String) -> Self {
        Self { kind, version: VERSION, scheme }
    }

    /// Whether a first line looks like a header at all, right or wrong.
    pub fn is_likely(line: &[u8]) -> bool {
        line.trim_ascii_start().strip_prefix(b"{").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\"dedup\""))
    }

    pub fn parse(json: &[u8]) -> Result<Self, String> {
        let header: Self = serde_json::from_slice(json).map_err(|error| format!("not the header of a dedup stream: {error}"))?;
        if header.version != VERSION {
            return Err(format!("stream version is {}, this program reads version {VERSION}", header.version));
        }
        Ok(header)
    }

    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}
