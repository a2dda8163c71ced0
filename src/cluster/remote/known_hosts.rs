//! The keys of hosts: files in the format of OpenSSH's known_hosts.
//!
//! A line is `[@marker] patterns type key`. Patterns are separated by commas; `*` and `?` are
//! wildcards, `!` negates, and a port other than 22 is written `[host]:port`. A hashed name is
//! `|1|salt|hash`. Host certificates are not supported: lines with `@cert-authority` are skipped.

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use sha1::{Digest, Sha1};
use std::{fs, io, path::PathBuf};

/// What the files say of the key of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKeyStatus {
    /// The host has this key.
    Known,
    /// The files do not name the host.
    Unknown,
    /// The host has other keys.
    Changed,
    /// The key is marked @revoked.
    Revoked,
}

struct KnownHostsLine {
    patterns: String,
    kind: String,
    key: Vec<u8>,
    is_revoked: bool,
}

/// The lines of known_hosts files.
pub struct KnownHosts {
    lines: Vec<KnownHostsLine>,
}

impl KnownHosts {
    /// Reads these files; missing ones are ignored.
    pub fn read(paths: &[PathBuf]) -> io::Result<Self> {
        let mut lines = Vec::new();
        for path in paths {
            match fs::read(path) {
                Ok(bytes) => lines.extend(
                    String::from_utf8_lossy(&bytes)
                        .lines()
                        .filter_map(KnownHostsLine::parse),
                ),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(io::Error::new(
                        error.kind(),
                        format!("{}: {error}", path.display()),
                    ));
                }
            }
        }
        Ok(Self { lines })
    }

    /// The types of keys that a host is known to have.
    pub fn types(&self, host: &str, port: u16) -> Vec<&str> {
        let mut types: Vec<&str> = self
            .of(host, port)
            .filter(|line| !line.is_revoked)
            .map(|line| line.kind.as_str())
            .collect();
        types.dedup();
        types
    }

    /// Looks up the key that a host presented.
    pub fn check(&self, host: &str, port: u16, key: &[u8]) -> HostKeyStatus {
        if self
            .of(host, port)
            .any(|line| line.is_revoked && line.key == key)
        {
            return HostKeyStatus::Revoked;
        }
        let keys: Vec<&KnownHostsLine> = self
            .of(host, port)
            .filter(|line| !line.is_revoked)
            .collect();
        match keys.iter().any(|line| line.key == key) {
            true => HostKeyStatus::Known,
            false if keys.is_empty() => HostKeyStatus::Unknown,
            false => HostKeyStatus::Changed,
        }
    }

    fn of(&self, host: &str, port: u16) -> impl Iterator<Item = &KnownHostsLine> {
        let host = host.to_lowercase();
        let name = if port == 22 {
            host
        } else {
            format!("[{host}]:{port}")
        };
        self.lines
            .iter()
            .filter(move |line| matches(&line.patterns, &name))
    }
}

impl KnownHostsLine {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace().peekable();
        let mark = words.next_if(|word| word.starts_with('@'));
        let (patterns, kind, key) = (words.next()?, words.next()?, words.next()?);
        if patterns.starts_with('#') || mark.is_some_and(|mark| mark != "@revoked") {
            return None;
        }
        Some(Self {
            patterns: patterns.to_owned(),
            kind: kind.to_owned(),
            key: from_base64(key)?,
            is_revoked: mark.is_some(),
        })
    }
}

fn matches(patterns: &str, name: &str) -> bool {
    if let Some(hashed) = patterns.strip_prefix("|1|") {
        let parts = hashed
            .split_once('|')
            .and_then(|(salt, hash)| Some((from_base64(salt)?, from_base64(hash)?)));
        return parts.is_some_and(|(salt, hash)| hmac_sha1(&salt, name.as_bytes()) == hash[..]);
    }
    let mut is_matched = false;
    for pattern in patterns.split(',') {
        match pattern.strip_prefix('!') {
            Some(pattern) if is_like(pattern.to_lowercase().as_bytes(), name.as_bytes()) => {
                return false;
            }
            Some(_) => {}
            None => is_matched |= is_like(pattern.to_lowercase().as_bytes(), name.as_bytes()),
        }
    }
    is_matched
}

/// `*` is any run of bytes, `?` is any one.
fn is_like(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut place, mut star) = (0, 0, None);
    while place < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[place] => {
                at += 1;
                place += 1;
            }
            _ => match &mut star {
                None => return false,
                Some((back, from)) => {
                    *from += 1;
                    (at, place) = (*back + 1, *from);
                }
            },
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

fn hmac_sha1(key: &[u8], text: &[u8]) -> [u8; 20] {
    let mut block = [0; 64];
    if key.len() > block.len() {
        block[..20].copy_from_slice(&Sha1::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner = Sha1::new()
        .chain_update(block.map(|byte| byte ^ 0x36))
        .chain_update(text)
        .finalize();
    Sha1::new()
        .chain_update(block.map(|byte| byte ^ 0x5c))
        .chain_update(inner)
        .finalize()
        .into()
}

/// Base64 as OpenSSH writes it: keys end with `=`, fingerprints do not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes base64, with or without padding.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

/// Encodes as base64 without padding.
pub fn to_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(text: &str) -> KnownHosts {
        KnownHosts {
            lines: text.lines().filter_map(KnownHostsLine::parse).collect(),
        }
    }

    #[test]
    fn keys_are_known_by_name_pattern_and_hash() {
        // The hashed line is one of `ssh-keygen -H` for [127.0.0.1]:2222, made by hand from a salt
        // of zeros.
        let salt = to_base64(&[0; 20]) + "=";
        let hash = to_base64(&hmac_sha1(&[0; 20], b"[127.0.0.1]:2222")) + "=";
        let text = format!(
            "# ours\n\nalpha,beta ssh-ed25519 AAAA\n[gamma]:2200 ssh-rsa BBBB comment\n*.far,!bad.far ecdsa-sha2-nistp256 CCCC\n|1|{salt}|{hash} ssh-ed25519 DDDD\n\
             @revoked * ssh-ed25519 EEEE\n@cert-authority * ssh-ed25519 FFFF\nbroken\nalpha ssh-rsa GGGG\nx ssh-rsa !!!!\n"
        );
        let hosts = known(&text);
        let key = |text| from_base64(text).unwrap();
        for (host, port, of, expected) in [
            ("alpha", 22, "AAAA", HostKeyStatus::Known),
            ("ALPHA", 22, "GGGG", HostKeyStatus::Known),
            ("beta", 22, "GGGG", HostKeyStatus::Changed),
            ("beta", 2200, "AAAA", HostKeyStatus::Unknown),
            ("gamma", 2200, "BBBB", HostKeyStatus::Known),
            ("gamma", 22, "BBBB", HostKeyStatus::Unknown),
            ("a.far", 22, "CCCC", HostKeyStatus::Known),
            ("bad.far", 22, "CCCC", HostKeyStatus::Unknown),
            ("127.0.0.1", 2222, "DDDD", HostKeyStatus::Known),
            ("127.0.0.1", 2222, "AAAA", HostKeyStatus::Changed),
            ("alpha", 22, "EEEE", HostKeyStatus::Revoked),
            ("nobody", 22, "EEEE", HostKeyStatus::Revoked),
            ("nobody", 22, "FFFF", HostKeyStatus::Unknown),
            ("x", 22, "AAAA", HostKeyStatus::Unknown),
        ] {
            assert_eq!(
                hosts.check(host, port, &key(of)),
                expected,
                "{host}:{port} {of}"
            );
        }
        assert_eq!(hosts.types("alpha", 22), ["ssh-ed25519", "ssh-rsa"]);
        assert!(hosts.types("nobody", 22).is_empty());
    }

    #[test]
    fn fingerprints_and_base64_match_openssh() {
        let hex: String = hmac_sha1(b"key", b"The quick brown fox jumps over the lazy dog")
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hex, "de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9");
        for text in ["", "f", "fo", "foo", "foob", "fooba", "foobar"] {
            assert_eq!(
                from_base64(&to_base64(text.as_bytes())).unwrap(),
                text.as_bytes()
            );
        }
        assert_eq!(to_base64(b"foob"), "Zm9vYg");
        assert_eq!(from_base64("Zm9v!"), None);
    }

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, is_match) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*.b.*", "a.b.b.c", true),
        ] {
            assert_eq!(
                is_like(pattern.as_bytes(), name.as_bytes()),
                is_match,
                "{pattern} {name}"
            );
        }
    }
}
