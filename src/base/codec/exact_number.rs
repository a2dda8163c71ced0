//! Numbers as text: JSON readers may be off by the last bit, and the checksum of a plan must not change.

use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// Writes a number as a string.
pub fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&number.to_string())
}

/// Reads a number from a string.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    String::deserialize(deserializer)?
        .parse()
        .map_err(D::Error::custom)
}
