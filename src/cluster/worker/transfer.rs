//! Transfers files between two ends of a connection: each whole and unchanged, or not at all.

use crate::base::num::{ToU64, ToUsize};
use crate::cluster::{
    worker::file_cache::FileCache,
    worker::protocol::{Conversation, DATA_BYTES, ErrorCause, Message, TransferItem, parse},
};
use crate::{
    base::{
        error::{Error, Result},
        files::atomic_dir,
    },
    cluster::remote::FrameKind,
};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
};
use walkdir::WalkDir;
use xxhash_rust::xxh3::Xxh3;

/// Why files were not transferred.
#[derive(Debug)]
pub enum TransferError {
    /// The connection broke.
    Disconnected(String),
    /// The other end reported an error.
    Reported(ErrorCause, String),
    /// The bytes that arrived do not have the checksum that was announced.
    Damaged(String),
    /// These files are missing or damaged where they should be.
    DamagedFiles(Vec<String>, String),
    /// The files cannot be written, or read, at this end.
    Local(Error),
}

impl From<io::Error> for TransferError {
    fn from(error: io::Error) -> Self {
        Self::Disconnected(match error.kind() {
            io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
            _ => error.to_string(),
        })
    }
}

impl From<Error> for TransferError {
    fn from(error: Error) -> Self {
        Self::Local(error)
    }
}

/// Joins a path to a root. Refuses paths that lead out of it: only plain names with slashes between
/// are allowed.
pub fn below(root: &Path, path: &str) -> Result<PathBuf, TransferError> {
    let is_plain = !path.is_empty()
        && !path.contains('\0')
        && Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
    if is_plain {
        Ok(root.join(path))
    } else {
        Err(TransferError::Reported(
            ErrorCause::Failed,
            format!("{path:?} is not a path below a run"),
        ))
    }
}

/// Lists the files of a directory, or a file, in order, with their checksums.
pub fn list(root: &Path) -> Result<Vec<TransferItem>> {
    let mut items = Vec::new();
    for entry in WalkDir::new(root).follow_links(true).sort_by_file_name() {
        let entry = entry.map_err(|error| Error::io(root.display(), error.into()))?;
        if entry.file_type().is_file() {
            let relative = entry.path().strip_prefix(root).unwrap_or(entry.path());
            let path = relative.to_str().ok_or_else(|| {
                Error::Usage(format!("{}: its name is not UTF-8", entry.path().display()))
            })?;
            let (bytes, sum) = checksum_of(entry.path())?;
            items.push(TransferItem {
                path: path.to_owned(),
                bytes,
                sum,
            });
        }
    }
    Ok(items)
}

/// The size of a file, and its checksum.
pub fn checksum_of(path: &Path) -> Result<(u64, String)> {
    let failed = |error| Error::io(path.display(), error);
    let mut file = File::open(path).map_err(failed)?;
    let (mut sum, mut bytes, mut buffer) = (Xxh3::new(), 0, vec![0; DATA_BYTES]);
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => return Ok((bytes, format!("{:032x}", sum.digest128()))),
            length => {
                sum.update(&buffer[..length]);
                bytes += length.to_u64();
            }
        }
    }
}

/// Where a file is below the path that it belongs to.
fn item_path(root: &Path, item: &TransferItem) -> Result<PathBuf, TransferError> {
    if item.path.is_empty() {
        Ok(root.to_owned())
    } else {
        below(root, &item.path)
    }
}

/// Sends the files that the other end wants. Returns the bytes sent.
///
/// If a file has changed, the other end gets an error instead, and discards what it has received.
pub fn send_wanted(
    peer: &mut dyn Conversation,
    root: &Path,
    items: &[TransferItem],
) -> Result<u64, TransferError> {
    let numbers = match peer.receive_message()? {
        Message::Want { numbers } => numbers,
        Message::Error { cause, what, .. } => return Err(TransferError::Reported(cause, what)),
        _ => return Err(out_of_turn()),
    };
    let mut bytes = 0;
    for number in numbers {
        let item = items.get(number).ok_or_else(out_of_turn)?;
        if let Err(what) = send_file(peer, &item_path(root, item)?, item.bytes)? {
            peer.send_message(&Message::error(ErrorCause::Source, what.clone()))?;
            return Err(TransferError::Damaged(what));
        }
        bytes += item.bytes;
    }
    peer.flush()?;
    Ok(bytes)
}

/// Sends the announced number of bytes of a file. The inner error is one of the file.
pub fn send_file(
    peer: &mut dyn Conversation,
    path: &Path,
    bytes: u64,
) -> io::Result<Result<(), String>> {
    let wrong = |error: io::Error| format!("{}: {error}", path.display());
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return Ok(Err(wrong(error))),
    };
    let (mut left, mut buffer) = (bytes, vec![0; DATA_BYTES.min(bytes.to_usize())]);
    while left > 0 {
        let wanted = left.to_usize().min(buffer.len());
        match file.read(&mut buffer[..wanted]) {
            Ok(0) => return Ok(Err(format!("{}: is shorter than it was", path.display()))),
            Ok(length) => {
                peer.send(FrameKind::Data, &buffer[..length])?;
                left -= length.to_u64();
            }
            Err(error) => return Ok(Err(wrong(error))),
        }
    }
    Ok(Ok(()))
}

/// Requests the files that are not cached, and makes `target` of all files. Returns the bytes
/// received.
pub fn receive_wanted(
    peer: &mut dyn Conversation,
    target: &Path,
    items: &[TransferItem],
    cache: Option<&FileCache>,
) -> Result<u64, TransferError> {
    let mut has_asked = false;
    let received = receive_beside(peer, target, items, cache, &mut has_asked);
    if !has_asked {
        // The other end waits for an answer.
        peer.send_message(&Message::Want {
            numbers: Vec::new(),
        })?;
    }
    received
}

fn receive_beside(
    peer: &mut dyn Conversation,
    target: &Path,
    items: &[TransferItem],
    cache: Option<&FileCache>,
    has_asked: &mut bool,
) -> Result<u64, TransferError> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(|error| Error::io(parent.display(), error))?;
    }
    if let [item] = items
        && item.path.is_empty()
    {
        let mut beside = target.as_os_str().to_owned();
        beside.push(format!(".tmp-{}", std::process::id()));
        let beside = PathBuf::from(beside);
        let done = receive_into(peer, &beside, items, cache, has_asked);
        let renamed = done.and_then(|bytes| {
            fs::rename(&beside, target).map_err(|error| Error::io(target.display(), error))?;
            Ok(bytes)
        });
        return renamed.inspect_err(|_| drop(fs::remove_file(&beside)));
    }
    // Errors that do not concern the directory are passed on outside.
    let mut fault = None;
    let done = atomic_dir::create_unsynced(target, |beside| {
        receive_into(peer, beside, items, cache, has_asked).map_err(|failed| match failed {
            TransferError::Local(error) => error,
            other => {
                fault = Some(other);
                Error::ClosedPipe
            }
        })
    });
    done.map_err(|error| fault.unwrap_or(TransferError::Local(error)))
}

fn receive_into(
    peer: &mut dyn Conversation,
    root: &Path,
    items: &[TransferItem],
    cache: Option<&FileCache>,
    has_asked: &mut bool,
) -> Result<u64, TransferError> {
    let mut numbers = Vec::new();
    for (number, item) in items.iter().enumerate() {
        let path = item_path(root, item)?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|error| Error::io(parent.display(), error))?;
        }
        if !cache.is_some_and(|cache| cache.give(item, &path)) {
            numbers.push(number);
        }
    }
    *has_asked = true;
    peer.send_message(&Message::Want {
        numbers: numbers.clone(),
    })?;
    let (mut bytes, mut machine_error) = (0, None);
    for item in numbers.iter().filter_map(|&number| items.get(number)) {
        let path = item_path(root, item)?;
        // Data under way must be received, even if there is no room for it.
        match receive_file(peer, &path, item.bytes)? {
            Ok(sum) if sum == item.sum => {}
            Ok(_) => drop(machine_error.get_or_insert_with(|| {
                TransferError::Damaged(format!(
                    "{}: what came does not match its checksum",
                    item.path
                ))
            })),
            Err(error) => drop(machine_error.get_or_insert(TransferError::Local(error))),
        }
        bytes += item.bytes;
    }
    machine_error.map_or(Ok(bytes), Err)
}

/// Receives the announced number of bytes into a file, and returns their checksum. The inner error
/// is one of the file.
pub fn receive_file(
    peer: &mut dyn Conversation,
    path: &Path,
    bytes: u64,
) -> Result<Result<String>, TransferError> {
    let mut file = File::create(path).map_err(|error| Error::io(path.display(), error));
    let (mut sum, mut left, mut payload) = (Xxh3::new(), bytes, Vec::new());
    while left > 0 {
        match peer.receive(&mut payload)? {
            FrameKind::Data if payload.len().to_u64() <= left => {
                left -= payload.len().to_u64();
                sum.update(&payload);
                if let Ok(open) = &mut file
                    && let Err(error) = open.write_all(&payload)
                {
                    file = Err(Error::io(path.display(), error));
                }
            }
            FrameKind::Message => {
                return Err(match parse(&payload)? {
                    Message::Error { cause, what, .. } => TransferError::Reported(cause, what),
                    _ => out_of_turn(),
                });
            }
            FrameKind::Data | FrameKind::Beat => return Err(out_of_turn()),
        }
    }
    Ok(file.map(|_| format!("{:032x}", sum.digest128())))
}

pub fn out_of_turn() -> TransferError {
    TransferError::Disconnected("something came out of turn".to_owned())
}
