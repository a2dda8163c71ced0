//! Transfers files between two ends of a connection: each whole and unchanged, or not at all.

use crate::base::num::{ToU64, ToUsize};
use crate::cluster::{
    worker::file_cache::FileCache,
    worker::protocol::{
        Conversation, DATA_BYTES, ErrorCause, Message, Parcel, TransferItem, parse,
    },
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
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
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

/// A parcel, and where it is or goes at this end.
pub struct Shelf {
    pub root: PathBuf,
    pub parcel: Parcel,
}

impl Shelf {
    /// Whether the path is a file; else it is a directory.
    fn is_file(&self) -> bool {
        matches!(&self.parcel.items[..], [item] if item.path.is_empty())
    }
}

/// All files of some parcels, each with its parcel.
fn all_items(shelves: &[Shelf]) -> Vec<(&Shelf, &TransferItem)> {
    let of_shelf = |shelf| Shelf::items(shelf).map(move |item| (shelf, item));
    shelves.iter().flat_map(of_shelf).collect()
}

impl Shelf {
    fn items(&self) -> impl Iterator<Item = &TransferItem> {
        self.parcel.items.iter()
    }

    /// An error of the source of one of its files.
    fn damaged(&self, what: String) -> TransferError {
        TransferError::DamagedFiles(vec![self.parcel.path.clone()], what)
    }
}

/// Sends the files that the other end wants. Returns the bytes sent.
///
/// If a file has changed, the other end gets an error instead, and discards what it has received.
pub fn send_wanted(peer: &mut dyn Conversation, shelves: &[Shelf]) -> Result<u64, TransferError> {
    let numbers = match peer.receive_message()? {
        Message::Want { numbers } => numbers,
        Message::Error { cause, what, .. } => return Err(TransferError::Reported(cause, what)),
        _ => return Err(out_of_turn()),
    };
    let items = all_items(shelves);
    let mut bytes = 0;
    for number in numbers {
        let (shelf, item) = items.get(number).ok_or_else(out_of_turn)?;
        if let Err(what) = send_file(peer, &item_path(&shelf.root, item)?, item.bytes)? {
            peer.send_message(&Message::Error {
                cause: ErrorCause::Source,
                what: what.clone(),
                paths: vec![shelf.parcel.path.clone()],
            })?;
            return Err(shelf.damaged(what));
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
    send_extent(peer, path, 0..bytes)
}

/// Sends some bytes of a file.
pub fn send_extent(
    peer: &mut dyn Conversation,
    path: &Path,
    extent: Range<u64>,
) -> io::Result<Result<(), String>> {
    let bytes = extent.end.saturating_sub(extent.start);
    let wrong = |error: io::Error| format!("{}: {error}", path.display());
    let opened = File::open(path)
        .and_then(|mut file| file.seek(SeekFrom::Start(extent.start)).map(|_| file));
    let mut file = match opened {
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

/// Requests the files that are not cached, and makes the paths of all of them, or none. Returns the
/// bytes received.
pub fn receive_wanted(
    peer: &mut dyn Conversation,
    shelves: &[Shelf],
    cache: Option<&FileCache>,
) -> Result<u64, TransferError> {
    let mut receiver = Receiver {
        peer,
        shelves,
        cache,
        beside: Vec::new(),
        has_asked: false,
    };
    let received = receiver.receive();
    let Receiver {
        beside, has_asked, ..
    } = receiver;
    if !has_asked {
        // The other end waits for an answer.
        peer.send_message(&Message::Want {
            numbers: Vec::new(),
        })?;
    }
    // What was not renamed is not wanted.
    beside.iter().for_each(|path| drop(fs::remove_file(path)));
    received
}

struct Receiver<'r> {
    peer: &'r mut dyn Conversation,
    shelves: &'r [Shelf],
    cache: Option<&'r FileCache>,
    /// Where each path is made before it is renamed.
    beside: Vec<PathBuf>,
    has_asked: bool,
}

impl Receiver<'_> {
    /// Makes one path after the other beside its place, then receives all, then renames them.
    fn receive(&mut self) -> Result<u64, TransferError> {
        let Some(shelf) = self.shelves.get(self.beside.len()) else {
            return self.receive_files();
        };
        if let Some(parent) = shelf.root.parent() {
            fs::create_dir_all(parent).map_err(|error| Error::io(parent.display(), error))?;
        }
        if shelf.is_file() {
            let mut beside = shelf.root.as_os_str().to_owned();
            beside.push(format!(".tmp-{}", std::process::id()));
            let beside = PathBuf::from(beside);
            self.beside.push(beside.clone());
            let bytes = self.receive()?;
            let failed = |error| Error::io(shelf.root.display(), error);
            fs::rename(&beside, &shelf.root).map_err(failed)?;
            return Ok(bytes);
        }
        // Errors that do not concern the directory are passed on outside.
        let mut fault = None;
        let done = atomic_dir::create_unsynced(&shelf.root, |beside| {
            self.beside.push(beside.to_owned());
            self.receive().map_err(|failed| match failed {
                TransferError::Local(error) => error,
                other => {
                    fault = Some(other);
                    Error::ClosedPipe
                }
            })
        });
        done.map_err(|error| fault.unwrap_or(TransferError::Local(error)))
    }

    fn receive_files(&mut self) -> Result<u64, TransferError> {
        let mut wanted = Vec::new();
        let items = self.shelves.iter().zip(&self.beside);
        let items = items.flat_map(|(shelf, root)| shelf.items().map(move |it| (shelf, root, it)));
        for (number, (shelf, root, item)) in items.enumerate() {
            let path = item_path(root, item)?;
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(|error| Error::io(parent.display(), error))?;
            }
            if !self.cache.is_some_and(|cache| cache.give(item, &path)) {
                wanted.push((number, shelf, item, path));
            }
        }
        self.has_asked = true;
        self.peer.send_message(&Message::Want {
            numbers: wanted.iter().map(|(number, ..)| *number).collect(),
        })?;
        let (mut bytes, mut fault) = (0, None);
        for (_, shelf, item, path) in wanted {
            // Data under way must be received, even if there is no room for it.
            match receive_file(self.peer, &path, item.bytes)? {
                Ok(sum) if sum == item.sum => {}
                Ok(_) => drop(fault.get_or_insert_with(|| {
                    let what = "what came does not match its checksum";
                    shelf.damaged(format!("{}: {what}", shelf.parcel.path))
                })),
                Err(error) => drop(fault.get_or_insert(TransferError::Local(error))),
            }
            bytes += item.bytes;
        }
        fault.map_or(Ok(bytes), Err)
    }
}

/// Receives the announced number of bytes into a file, and returns their checksum. The inner error
/// is one of the file.
pub fn receive_file(
    peer: &mut dyn Conversation,
    path: &Path,
    bytes: u64,
) -> Result<Result<String>, TransferError> {
    receive_data(peer, path, File::create(path), bytes)
}

/// Receives some extents of a file, each to its place; what is between them stays a hole.
pub fn receive_extents(
    peer: &mut dyn Conversation,
    path: &Path,
    bytes: u64,
    extents: &[[u64; 2]],
) -> Result<Result<()>, TransferError> {
    let mut machine_error = File::create(path)
        .and_then(|file| file.set_len(bytes))
        .map_err(|error| Error::io(path.display(), error))
        .err();
    for [start, end] in extents {
        let file = File::options().write(true).open(path);
        let file = file.and_then(|mut file| file.seek(SeekFrom::Start(*start)).map(|_| file));
        let received = receive_data(peer, path, file, end.saturating_sub(*start))?;
        machine_error = machine_error.or(received.err());
    }
    Ok(machine_error.map_or(Ok(()), Err))
}

/// Receives bytes, even if they cannot be written.
fn receive_data(
    peer: &mut dyn Conversation,
    path: &Path,
    file: io::Result<File>,
    bytes: u64,
) -> Result<Result<String>, TransferError> {
    let mut file = file.map_err(|error| Error::io(path.display(), error));
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
                    Message::Error {
                        cause: ErrorCause::Source,
                        what,
                        paths,
                    } if !paths.is_empty() => TransferError::DamagedFiles(paths, what),
                    Message::Error { cause, what, .. } => TransferError::Reported(cause, what),
                    _ => out_of_turn(),
                });
            }
            FrameKind::Data | FrameKind::Beat | FrameKind::Close => return Err(out_of_turn()),
        }
    }
    Ok(file.map(|_| format!("{:032x}", sum.digest128())))
}

pub fn out_of_turn() -> TransferError {
    TransferError::Disconnected("something came out of turn".to_owned())
}
