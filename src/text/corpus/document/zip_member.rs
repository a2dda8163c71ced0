//! The members of a zip archive in memory, each read under the bounds of the whole archive.

use std::{
    collections::HashMap,
    io::{Cursor, ErrorKind, Read},
};

use memchr::memmem;
use zip::{ZipArchive, read::ZipFile, result::ZipError};

use super::ExtractError;

/// All that may be unpacked, beyond the bound for the text: XML takes more bytes than the text in it, but what is read
/// passes through a small buffer.
const SLACK_BYTES: u64 = 64 << 20;

/// The largest member that is kept in memory as a table: relationships, manifests, spines.
pub const MOST_INDEX_BYTES: u64 = 16 << 20;

/// A book of ten thousand pages has fewer.
const MOST_MEMBERS: usize = 100_000;

/// An archive with a budget for all that is unpacked of it.
pub struct ZipPackage<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    left_bytes: u64,
    /// Members by name without case and with slashes, made when a name is not found as it stands.
    folded: Option<HashMap<String, usize>>,
}

impl<'a> ZipPackage<'a> {
    pub fn open(bytes: &'a [u8], most_bytes: u64) -> Result<Self, ExtractError> {
        ensure_directory_is_bounded(bytes)?;
        let archive = ZipArchive::new(Cursor::new(bytes))
            .map_err(|error| ExtractError::Damaged(no_directory(&error)))?;
        Ok(Self {
            archive,
            left_bytes: most_bytes.saturating_add(SLACK_BYTES),
            folded: None,
        })
    }

    pub fn has(&mut self, name: &str) -> bool {
        self.index_of(name).is_some()
    }

    /// A member of at most `most_bytes`, if there is one of this name.
    pub fn member(
        &mut self,
        name: &str,
        most_bytes: u64,
    ) -> Result<Option<MemberReader<'_, 'a>>, ExtractError> {
        let Some(index) = self.index_of(name) else {
            return Ok(None);
        };
        let file = self.archive.by_index(index).map_err(|error| match error {
            ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED)
            | ZipError::InvalidPassword => ExtractError::Encrypted,
            _ => ExtractError::damaged(name, error),
        })?;
        Ok(Some(MemberReader {
            file,
            left_bytes: &mut self.left_bytes,
            left_of_member: most_bytes,
        }))
    }

    /// All bytes of a member.
    pub fn read(&mut self, name: &str, most_bytes: u64) -> Result<Option<Vec<u8>>, ExtractError> {
        let Some(mut member) = self.member(name, most_bytes)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        member
            .read_to_end(&mut bytes)
            .map_err(|error| of_io(name, &error))?;
        Ok(Some(bytes))
    }

    /// Names are compared exactly first; some programs write backslashes, or another case than they refer to.
    fn index_of(&mut self, name: &str) -> Option<usize> {
        if let Some(index) = self.archive.index_for_name_raw(name.as_bytes()) {
            return Some(index);
        }
        let archive = &self.archive;
        let folded = self.folded.get_or_insert_with(|| {
            let names = archive.file_names_raw().enumerate();
            names
                .map(|(index, name)| (fold(&String::from_utf8_lossy(name)), index))
                .collect()
        });
        folded.get(&fold(name)).copied()
    }
}

/// The message about an archive that cannot be opened. What is usual, a file that was cut, is said without the words of the format.
pub fn no_directory(error: &ZipError) -> String {
    match error {
        ZipError::InvalidArchive(_) => {
            "its directory, at the end of the file, is missing or damaged; the file may be truncated".to_owned()
        }
        error => error.to_string(),
    }
}

fn fold(name: &str) -> String {
    name.to_ascii_lowercase().replace('\\', "/")
}

/// The archive's directory is kept in memory, and candidates for its end are tried one after the other, so both are
/// counted before.
fn ensure_directory_is_bounded(bytes: &[u8]) -> Result<(), ExtractError> {
    let count = |signature: &[u8]| memmem::find_iter(bytes, signature).count();
    let members = count(b"PK\x01\x02");
    if members > MOST_MEMBERS || members * count(b"PK\x05\x06") > 100 * MOST_MEMBERS {
        return Err(ExtractError::Damaged(format!(
            "zip directory: over {MOST_MEMBERS} members, or too many directories"
        )));
    }
    Ok(())
}

/// A member; reading past a bound is an error of the kind `FileTooLarge`.
pub struct MemberReader<'m, 'a> {
    file: ZipFile<'m, Cursor<&'a [u8]>>,
    left_bytes: &'m mut u64,
    left_of_member: u64,
}

impl Read for MemberReader<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        let read_bytes = read as u64;
        if read_bytes > *self.left_bytes || read_bytes > self.left_of_member {
            return Err(ErrorKind::FileTooLarge.into());
        }
        *self.left_bytes -= read_bytes;
        self.left_of_member -= read_bytes;
        Ok(read)
    }
}

/// What an error of reading the member `name` means for the document.
pub fn of_io(name: &str, error: &std::io::Error) -> ExtractError {
    if error.kind() == ErrorKind::FileTooLarge {
        ExtractError::TooLarge
    } else {
        ExtractError::damaged(name, error)
    }
}

/// Whether this is the start of a zip archive.
pub fn is_zip(head: &[u8]) -> bool {
    head.starts_with(b"PK\x03\x04")
}

/// The names of the members that begin in `head`.
pub fn names_in(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    memmem::find_iter(head, b"PK\x03\x04").filter_map(|at| {
        let length = head.get(at + 26..at + 28)?;
        let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
        head.get(at + 30..at + 30 + length)
    })
}

/// The media type that OpenDocument files and EPUB books have as their first member, and what follows it. It should be
/// stored without compression; where it is not, it cannot be seen.
pub fn media_type(head: &[u8]) -> Option<&[u8]> {
    let is_stored = head.get(8..10) == Some(&[0, 0]);
    if !is_zip(head) || !is_stored || names_in(head).next()? != b"mimetype" {
        return None;
    }
    let extra = head.get(28..30)?;
    let extra = usize::from(u16::from_le_bytes([extra[0], extra[1]]));
    head.get(30 + b"mimetype".len() + extra..)
}

/// The path of `target` as written in the member `base`: relative to its folder, or to the root after a slash.
pub fn resolve(base: &str, target: &str) -> String {
    let target = target.split('#').next().unwrap_or_default();
    let mut parts: Vec<&str> = if target.starts_with('/') {
        Vec::new()
    } else {
        base.split('/').collect()
    };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// `%20` to a space; what is no escape stays.
pub fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escape = (byte == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(escape.unwrap_or(byte));
        at += if escape.is_some() { 3 } else { 1 };
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}
