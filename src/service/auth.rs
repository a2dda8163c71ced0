//! Who may ask: a token from a file, and names under which the server may be addressed.

use crate::base::error::{Error, Place, Result};
use axum::http::{HeaderMap, header};
use base64::{Engine, prelude::BASE64_STANDARD};
use sha2::{Digest, Sha256};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{PoisonError, RwLock},
};

/// The least length of a token; shorter ones can be guessed.
const LEAST_BYTES: usize = 16;

/// A token that requests must have.
pub struct ServiceToken {
    file: PathBuf,
    /// Its hash, so that comparing takes the same time wherever two tokens differ.
    hash: RwLock<[u8; 32]>,
}

impl ServiceToken {
    /// Reads the token: the first line of a file.
    pub fn read(file: &Path) -> Result<Self> {
        Ok(Self {
            hash: RwLock::new(read_hash(file)?),
            file: file.to_owned(),
        })
    }

    /// Reads the file again. After an error the old token stays valid.
    pub fn reload(&self) -> Result<()> {
        let hash = read_hash(&self.file)?;
        *self.hash.write().unwrap_or_else(PoisonError::into_inner) = hash;
        Ok(())
    }

    /// Whether a request has the token: as `Bearer TOKEN`, or as the password of `Basic`, which
    /// browsers ask for.
    pub fn is_in(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(header::AUTHORIZATION) else {
            return false;
        };
        let (kind, value) = match value.to_str().ok().and_then(|value| value.split_once(' ')) {
            Some((kind, value)) => (kind.to_ascii_lowercase(), value.trim()),
            None => return false,
        };
        let hash = *self.hash.read().unwrap_or_else(PoisonError::into_inner);
        let is_token = |token: &[u8]| <[u8; 32]>::from(Sha256::digest(token)) == hash;
        match kind.as_str() {
            "bearer" => is_token(value.as_bytes()),
            "basic" => BASE64_STANDARD.decode(value).is_ok_and(|pair| {
                let colon = pair.iter().position(|&byte| byte == b':');
                colon.is_some_and(|colon| is_token(&pair[colon + 1..]))
            }),
            _ => false,
        }
    }
}

/// Reads a token for a client.
pub fn read_token(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file).map_err(|error| Error::io(file.display(), error))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.len() < LEAST_BYTES || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::damaged(
            Place::path(file),
            format!(
                "its first line is no token of {LEAST_BYTES} or more visible ASCII characters; openssl rand -hex 32 makes one"
            ),
        ));
    }
    Ok(token.to_owned())
}

fn read_hash(file: &Path) -> Result<[u8; 32]> {
    read_token(file).map(|token| Sha256::digest(token.as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())])
    }

    #[test]
    fn a_token_is_read_compared_and_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        fs::write(&file, "0123456789abcdef\nmore\n").unwrap();
        let token = ServiceToken::read(&file).unwrap();
        assert!(token.is_in(&with("Bearer 0123456789abcdef")));
        let basic = BASE64_STANDARD.encode("anyone:0123456789abcdef");
        assert!(token.is_in(&with(&format!("basic {basic}"))));
        for wrong in [
            "Bearer 0123456789abcdeF",
            "Bearer",
            "Basic !",
            "Basic YQ==",
            "Digest 0123456789abcdef",
        ] {
            assert!(!token.is_in(&with(wrong)), "{wrong}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
        fs::write(&file, "short\n").unwrap();
        assert!(token.reload().is_err() && token.is_in(&with("Bearer 0123456789abcdef")));
        fs::write(&file, "fedcba9876543210").unwrap();
        token.reload().unwrap();
        assert!(!token.is_in(&with("Bearer 0123456789abcdef")));
        assert!(token.is_in(&with("Bearer fedcba9876543210")));
    }
}
