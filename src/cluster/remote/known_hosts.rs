//! Which key a host must have: files in the format of OpenSSH's known_hosts.
//!
//! A line is `[@mark] patterns type key`. Patterns stand between commas, with `*` and `?`, `!` before what does not match, `[host]:port` where the port is not 22; or a
//! name is hashed: `|1|salt|hash`. Certificates of hosts are not understood: lines with `@cert-authority` are skipped.

use sha1::{Digest, Sha1};
use std::{fs, io, path::PathBuf};

/// What is known of the key of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    Yes,
    /// Nothing is known of this host.
    No,
    /// It has other keys.
    Changed,
    /// This key is in the wrong hands.
    Revoked,
}

struct Line {
    patterns: String,
    kind: String,
    key: Vec<u8>,
    is_revoked: bool,
}

pub struct KnownHosts {
    lines: Vec<Line>,
}

impl KnownHosts {
    /// Files that are not there are no error.
    pub fn read(paths: &[PathBuf]) -> io::Result<Self> {
        let mut lines = Vec::new();
        for path in paths {
            match fs::read(path) {
                Ok(bytes) => lines.extend(
                    String::from_utf8_lossy(&bytes)
                        .lines()
                        .filter_map(Line::parse),
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

    pub fn check(&self, host: &str, port: u16, key: &[u8]) -> Known {
        if self
            .of(host, port)
            .any(|line| line.is_revoked && line.key == key)
        {
            return Known::Revoked;
        }
        let keys: Vec<&Line> = self
            .of(host, port)
            .filter(|line| !line.is_revoked)
            .collect();
        match keys.iter().any(|line| line.key == key) {
            true => Known::Yes,
            false if keys.is_empty() => Known::No,
            false => Known::Changed,
        }
    }

    fn of(&self, host: &str, port: u16) -> impl Iterator<Item = &Line> {
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

impl Line {
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

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::with_capacity(text.len() * 3 / 4), 0_u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        bits = bits << 6 | DIGITS.iter().position(|&known| known == digit)? as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

/// Without `=` at the end, as fingerprints are written.
pub fn to_base64(bytes: &[u8]) -> String {
    let digit = |number: u32| char::from(DIGITS[(number & 63) as usize]);
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| {
            bits << 8 | u32::from(chunk.get(at).copied().unwrap_or(0))
        });
        text.extend((0..=chunk.len()).map(|at| digit(bits >> (18 - 6 * at))));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(text: &str) -> KnownHosts {
        KnownHosts {
            lines: text.lines().filter_map(Line::parse).collect(),
        }
    }

    #[test]
    fn keys_are_known_by_name_pattern_and_hash() {
        // The hashed line is one of `ssh-keygen -H` for [127.0.0.1]:2222, made by hand from a salt of zeros.
        let salt = to_base64(&[0; 20]) + "=";
        let hash = to_base64(&hmac_sha1(&[0; 20], b"[127.0.0.1]:2222")) + "=";
        let text = format!(
            "# ours\n\nalpha,beta ssh-ed25519 AAAA\n[gamma]:2200 ssh-rsa BBBB comment\n*.far,!bad.far ecdsa-sha2-nistp256 CCCC\n|1|{salt}|{hash} ssh-ed25519 DDDD\n\
             @revoked * ssh-ed25519 EEEE\n@cert-authority * ssh-ed25519 FFFF\nbroken\nalpha ssh-rsa GGGG\nx ssh-rsa !!!!\n"
        );
        let hosts = known(&text);
        let key = |text| from_base64(text).unwrap();
        for (host, port, of, expected) in [
            ("alpha", 22, "AAAA", Known::Yes),
            ("ALPHA", 22, "GGGG", Known::Yes),
            ("beta", 22, "GGGG", Known::Changed),
            ("beta", 2200, "AAAA", Known::No),
            ("gamma", 2200, "BBBB", Known::Yes),
            ("gamma", 22, "BBBB", Known::No),
            ("a.far", 22, "CCCC", Known::Yes),
            ("bad.far", 22, "CCCC", Known::No),
            ("127.0.0.1", 2222, "DDDD", Known::Yes),
            ("127.0.0.1", 2222, "AAAA", Known::Changed),
            ("alpha", 22, "EEEE", Known::Revoked),
            ("nobody", 22, "EEEE", Known::Revoked),
            ("nobody", 22, "FFFF", Known::No),
            ("x", 22, "AAAA", Known::No),
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
    fn sums_and_digits_are_the_usual_ones() {
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
