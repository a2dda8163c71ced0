//! Names of scripts and styles in a content security policy.

use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};

/// `sha256-…` of some bytes.
pub fn source_hash(bytes: &[u8]) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        for (bytes, expected) in [
            (
                String::new(),
                "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
            ),
            (
                "abc".to_owned(),
                "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=",
            ),
            (
                "a".repeat(56),
                "s1Q5pKxvCUi21vnjxq8PX1kM4g8b3nCQ73lwaG7Gc4o=",
            ),
            (
                "a".repeat(1000),
                "Qe3s5C1j6Nm/UVqbppMuHCDLyfWl0TRkWttdsblzfqM=",
            ),
        ] {
            assert_eq!(source_hash(bytes.as_bytes()), format!("sha256-{expected}"));
        }
    }
}
