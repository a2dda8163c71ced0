//! Archives: files within a file.
//!
//! An archive is read as a directory. Its members come in the order in which the archive has them; the id of a member is
//! `archive!/path`. A member is read like a file of that name: it may be a text, an office document, a table, or
//! another archive. Names of members are only names: nothing is ever written or opened under them.
//!
//! To add a format: a function that lists its members, and a row of [`ArchiveFormat`].

use super::{
    document::no_directory,
    skipped_kind::SkippedKind,
    spool::{ReadSeek, Spooled},
    unpack::Input,
};
use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::PathBuf,
    sync::mpsc,
    thread,
};
use zip::result::ZipError;

/// How deep archives may be nested.
pub const MOST_DEPTH: usize = 4;
/// How much of a member is looked at before the rest is kept.
const HEAD_BYTES: u64 = 8192;
/// Members that wait.
const AHEAD_MEMBERS: usize = 2;

/// A format of archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// tar, read as it comes.
    Tar,
    /// ZIP, read from its directory at the end.
    Zip,
}

/// Where an archive is read from.
pub enum ArchiveInput {
    /// A file, at its beginning.
    File(File),
    /// A pipe, or what was packed.
    Stream(Input),
}

/// A file in an archive.
#[derive(Debug)]
pub struct Member {
    /// Its path in the archive.
    pub name: PathBuf,
    /// What it holds, or why it is not read.
    pub content: Result<Spooled, MemberFault>,
}

/// Why a member is not read.
#[derive(Debug)]
pub enum MemberFault {
    /// A kind of file that is not read.
    Skipped(SkippedKind),
    /// It is larger than allowed.
    TooLarge,
    /// It cannot be read to its end.
    Damaged(String),
}

/// Decides by the name and the first bytes whether a member is read, and how many bytes it may have.
pub type IsWanted = dyn Fn(&std::path::Path, &[u8]) -> Result<u64, SkippedKind> + Send;

/// The members of an archive, in its order. An error means that the rest cannot be read.
pub type Members = Box<dyn Iterator<Item = Result<Member, String>> + Send>;

impl ArchiveFormat {
    /// The format of an archive, by its first bytes.
    pub fn of(head: &[u8]) -> Option<Self> {
        match head {
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Some(Self::Zip),
            _ if is_tar(head) => Some(Self::Tar),
            _ => None,
        }
    }

    /// What messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tar => "tar",
            Self::Zip => "zip",
        }
    }

    /// Opens an archive. `most_bytes` bounds each member.
    pub fn members(
        self,
        archive: ArchiveInput,
        most_bytes: u64,
        is_wanted: Box<IsWanted>,
    ) -> io::Result<Members> {
        match self {
            Self::Tar => {
                let input = match archive {
                    ArchiveInput::Stream(input) => input,
                    ArchiveInput::File(file) => Box::new(BufReader::new(file)),
                };
                Ok(tar_members(input, most_bytes, is_wanted))
            }
            Self::Zip => {
                let bytes: Box<dyn ReadSeek> = match archive {
                    ArchiveInput::File(file) => Box::new(BufReader::new(file)),
                    ArchiveInput::Stream(input) => spool_archive(input, most_bytes)?,
                };
                zip_members(bytes, most_bytes, is_wanted)
            }
        }
    }
}

/// The checksum of the first header must fit: the word `ustar` alone is no proof, and old archives lack it.
fn is_tar(head: &[u8]) -> bool {
    const CHECKSUM: std::ops::Range<usize> = 148..156;
    let Some(block) = head.get(..512) else {
        return false;
    };
    let digits = block[CHECKSUM].split(|byte| matches!(byte, 0 | b' '));
    let stored = digits
        .filter_map(|digits| std::str::from_utf8(digits).ok())
        .find(|digits| !digits.is_empty());
    // Few texts have a number there, so that most are not added up.
    let Some(stored) = stored.and_then(|octal| u32::from_str_radix(octal, 8).ok()) else {
        return false;
    };
    let sum = |bytes: &[u8]| bytes.iter().copied().map(u32::from).sum::<u32>();
    // The checksum itself counts as spaces.
    let blank = u32::from(b' ') * 8;
    block[0] != 0 && sum(&block[..CHECKSUM.start]) + blank + sum(&block[CHECKSUM.end..]) == stored
}

/// Reads what a member holds, if it is wanted.
fn read_member(
    name: PathBuf,
    mut input: impl Read,
    most_bytes: u64,
    is_wanted: &IsWanted,
) -> Member {
    let mut head = Vec::new();
    let content = match input.by_ref().take(HEAD_BYTES).read_to_end(&mut head) {
        Err(error) => Err(MemberFault::Damaged(error.to_string())),
        Ok(_) => is_wanted(&name, &head)
            .map_err(MemberFault::Skipped)
            .and_then(|most_of_kind| {
                let spooled = Spooled::read(head.chain(input), most_bytes.min(most_of_kind));
                let spooled = spooled.map_err(|error| MemberFault::Damaged(error.to_string()))?;
                spooled.ok_or(MemberFault::TooLarge)
            }),
    };
    Member { name, content }
}

/// An archive lends its members, so a thread walks it; it ends when the receiver is gone.
fn tar_members(input: Input, most_bytes: u64, is_wanted: Box<IsWanted>) -> Members {
    let (send, receive) = mpsc::sync_channel(AHEAD_MEMBERS);
    let walk = move || {
        let failed = |error: io::Error| Err(error.to_string());
        let mut archive = tar::Archive::new(input);
        let entries = match archive.entries() {
            Ok(entries) => entries,
            Err(error) => return drop(send.send(Some(failed(error)))),
        };
        for entry in entries {
            let member = entry.map(|entry| tar_member(entry, most_bytes, &*is_wanted));
            let (is_last, item) = match member {
                Ok(None) => continue,
                Ok(Some(member)) => (false, Ok(member)),
                Err(error) => (true, failed(error)),
            };
            if send.send(Some(item)).is_err() || is_last {
                return;
            }
        }
        drop(send.send(None));
    };
    // If the system refuses a thread, the sender is dropped, and the receiver reports it.
    let _ = thread::Builder::new().spawn(walk);
    Box::new(ThreadMembers {
        receive: Some(receive),
    })
}

/// Members that a thread sends; `None` is the end.
struct ThreadMembers {
    receive: Option<mpsc::Receiver<Option<Result<Member, String>>>>,
}

impl Iterator for ThreadMembers {
    type Item = Result<Member, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let received = self.receive.as_ref()?.recv();
        let item = match received {
            Ok(item) => item,
            Err(_) => Some(Err("the thread that read it died".to_owned())),
        };
        if !matches!(item, Some(Ok(_))) {
            self.receive = None;
        }
        item
    }
}

/// A directory is no member: its files are.
fn tar_member<R: Read>(
    entry: tar::Entry<'_, R>,
    most_bytes: u64,
    is_wanted: &IsWanted,
) -> Option<Member> {
    let kind = entry.header().entry_type();
    let name = path_of(&entry.path_bytes());
    if kind.is_dir() || kind.is_pax_global_extensions() {
        return None;
    }
    if kind.is_file() || kind.is_gnu_sparse() || kind.is_contiguous() {
        return Some(read_member(name, entry, most_bytes, is_wanted));
    }
    let skipped = if kind.is_symlink() || kind.is_hard_link() {
        SkippedKind::Link
    } else {
        SkippedKind::Special
    };
    Some(Member {
        name,
        content: Err(MemberFault::Skipped(skipped)),
    })
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

/// A ZIP file that came through a pipe, or out of another archive: its directory is at its end.
fn spool_archive(input: Input, most_bytes: u64) -> io::Result<Box<dyn ReadSeek>> {
    let too_large = || io::Error::other(format!("an archive of more than {most_bytes} bytes"));
    Spooled::read(input, most_bytes)?
        .ok_or_else(too_large)?
        .into_seekable()
}

fn zip_members(
    bytes: Box<dyn ReadSeek>,
    most_bytes: u64,
    is_wanted: Box<IsWanted>,
) -> io::Result<Members> {
    let mut archive =
        zip::ZipArchive::new(bytes).map_err(|error| io::Error::other(no_directory(&error)))?;
    let mut next = 0;
    Ok(Box::new(std::iter::from_fn(move || {
        while next < archive.len() {
            next += 1;
            if let Some(member) = zip_member(&mut archive, next - 1, most_bytes, &*is_wanted) {
                return Some(Ok(member));
            }
        }
        None
    })))
}

fn zip_member<R: Read + io::Seek>(
    archive: &mut zip::ZipArchive<R>,
    index: usize,
    most_bytes: u64,
    is_wanted: &IsWanted,
) -> Option<Member> {
    let raw = archive.by_index_raw(index).ok().map(|file| {
        let is_link = file
            .unix_mode()
            .is_some_and(|mode| mode & 0o170_000 == 0o120_000);
        (
            path_of(file.name_raw()),
            file.is_dir(),
            is_link,
            file.encrypted(),
            file.size(),
        )
    });
    let fault = |name: PathBuf, fault: MemberFault| {
        Some(Member {
            name,
            content: Err(fault),
        })
    };
    let number = || PathBuf::from(format!("member {}", index + 1));
    let Some((name, is_dir, is_link, is_encrypted, size)) = raw else {
        return fault(
            number(),
            MemberFault::Damaged("its header is damaged".to_owned()),
        );
    };
    match () {
        () if is_dir => None,
        () if is_link => fault(name, MemberFault::Skipped(SkippedKind::Link)),
        () if is_encrypted => fault(name, MemberFault::Skipped(SkippedKind::Encrypted)),
        () if size > most_bytes => fault(name, MemberFault::TooLarge),
        () => match archive.by_index(index) {
            Ok(file) => Some(read_member(name, file, most_bytes, is_wanted)),
            Err(ZipError::UnsupportedArchive(what)) => fault(
                name,
                MemberFault::Damaged(format!("{what}; unpack it first")),
            ),
            Err(error) => fault(name, MemberFault::Damaged(error.to_string())),
        },
    }
}

/// What separates an archive from the path of a member, in ids and in messages.
pub const MEMBER_MARK: &str = "!/";

/// A file, and the archives that it may be in, the innermost first: `a.zip!/b.txt`, then `a.zip`.
pub fn enclosing_files(file: &str) -> impl Iterator<Item = &str> {
    let archives = file.rmatch_indices(MEMBER_MARK).map(|(at, _)| &file[..at]);
    std::iter::once(file).chain(archives)
}

/// Files that may hold a document with this id, which is not the path of a file: `table.csv` for `table.csv:7`,
/// `a.zip` for `a.zip!/b.txt`.
pub fn containers_of(id: &str) -> impl Iterator<Item = &str> {
    let of_record = id
        .rsplit_once(':')
        .filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()))
        .map(|(file, _)| file);
    let of_member = enclosing_files(id).skip(1);
    of_record.into_iter().chain(of_member)
}

/// What a member that is spooled may have: a file of many records is larger than any of its documents.
pub fn most_member_bytes(max_document: u64) -> u64 {
    max_document.saturating_mul(16).max(HEAD_BYTES)
}
