//! Files from one end of a conversation to the other: whole, and as they were, or not at all.

use super::{
    cache::Cache,
    protocol::{Cause, DATA_BYTES, Item, Message, Talk, parse},
};
use crate::{
    base::{
        error::{Error, Result},
        files::atomic_dir,
    },
    cluster::remote::Frame,
};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
};
use walkdir::WalkDir;
use xxhash_rust::xxh3::Xxh3;

/// Why files did not come.
#[derive(Debug)]
pub enum Fault {
    /// The conversation broke off.
    Link(String),
    /// The other end said so.
    Told(Cause, String),
    /// What came is not what was promised.
    Damaged(String),
    /// These are not there, or not whole, where they should be.
    Spoilt(Vec<String>, String),
    /// They cannot be written, or read, at this end.
    Own(Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Link(match error.kind() {
            io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
            _ => error.to_string(),
        })
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Own(error)
    }
}

/// A path below something, if it is one: plain names with slashes between, nothing that leads out.
pub fn below(root: &Path, path: &str) -> Result<PathBuf, Fault> {
    let is_plain = !path.is_empty()
        && !path.contains('\0')
        && Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
    if is_plain {
        Ok(root.join(path))
    } else {
        Err(Fault::Told(
            Cause::Failed,
            format!("{path:?} is not a path below a run"),
        ))
    }
}

/// All files of a directory, or a file, in order, with their checksums.
pub fn list(root: &Path) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for entry in WalkDir::new(root).follow_links(true).sort_by_file_name() {
        let entry = entry.map_err(|error| Error::io(root.display(), error.into()))?;
        if entry.file_type().is_file() {
            let relative = entry.path().strip_prefix(root).unwrap_or(entry.path());
            let path = relative.to_str().ok_or_else(|| {
                Error::Usage(format!("{}: its name is not UTF-8", entry.path().display()))
            })?;
            let (bytes, sum) = sum_of(entry.path())?;
            items.push(Item {
                path: path.to_owned(),
                bytes,
                sum,
            });
        }
    }
    Ok(items)
}

/// The length of a file, and its checksum.
pub fn sum_of(path: &Path) -> Result<(u64, String)> {
    let failed = |error| Error::io(path.display(), error);
    let mut file = File::open(path).map_err(failed)?;
    let (mut sum, mut bytes, mut buffer) = (Xxh3::new(), 0, vec![0; DATA_BYTES]);
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => return Ok((bytes, format!("{:032x}", sum.digest128()))),
            length => {
                sum.update(&buffer[..length]);
                bytes += length as u64;
            }
        }
    }
}

/// Where an item is below what it belongs to.
fn item_path(root: &Path, item: &Item) -> Result<PathBuf, Fault> {
    if item.path.is_empty() {
        Ok(root.to_owned())
    } else {
        below(root, &item.path)
    }
}

/// Sends those of the items that the other end wants. Gives the bytes that went.
///
/// A file that is not what it was is told to the other end, which then throws away what it has.
pub fn send_wanted(talk: &mut dyn Talk, root: &Path, items: &[Item]) -> Result<u64, Fault> {
    let numbers = match talk.hear()? {
        Message::Want { numbers } => numbers,
        Message::Error { cause, what, .. } => return Err(Fault::Told(cause, what)),
        _ => return Err(out_of_turn()),
    };
    let mut bytes = 0;
    for number in numbers {
        let item = items.get(number).ok_or_else(out_of_turn)?;
        if let Err(what) = send_file(talk, &item_path(root, item)?, item.bytes)? {
            talk.say(&Message::error(Cause::Source, what.clone()))?;
            return Err(Fault::Damaged(what));
        }
        bytes += item.bytes;
    }
    talk.flush()?;
    Ok(bytes)
}

/// Sends as many bytes of a file as it should have. The inner error is one of the file.
pub fn send_file(talk: &mut dyn Talk, path: &Path, bytes: u64) -> io::Result<Result<(), String>> {
    let wrong = |error: io::Error| format!("{}: {error}", path.display());
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return Ok(Err(wrong(error))),
    };
    let (mut left, mut buffer) = (bytes, vec![0; DATA_BYTES.min(bytes as usize)]);
    while left > 0 {
        let wanted = (left as usize).min(buffer.len());
        match file.read(&mut buffer[..wanted]) {
            Ok(0) => return Ok(Err(format!("{}: is shorter than it was", path.display()))),
            Ok(length) => {
                talk.send(Frame::Data, &buffer[..length])?;
                left -= length as u64;
            }
            Err(error) => return Ok(Err(wrong(error))),
        }
    }
    Ok(Ok(()))
}

/// Asks for what is not cached, and makes `target` of it all. Gives the bytes that came.
pub fn receive_wanted(
    talk: &mut dyn Talk,
    target: &Path,
    items: &[Item],
    cache: Option<&Cache>,
) -> Result<u64, Fault> {
    let mut has_asked = false;
    let received = receive_beside(talk, target, items, cache, &mut has_asked);
    if !has_asked {
        // The other end waits for a word.
        talk.say(&Message::Want {
            numbers: Vec::new(),
        })?;
    }
    received
}

fn receive_beside(
    talk: &mut dyn Talk,
    target: &Path,
    items: &[Item],
    cache: Option<&Cache>,
    has_asked: &mut bool,
) -> Result<u64, Fault> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(|error| Error::io(parent.display(), error))?;
    }
    if let [item] = items
        && item.path.is_empty()
    {
        let mut beside = target.as_os_str().to_owned();
        beside.push(format!(".tmp-{}", std::process::id()));
        let beside = PathBuf::from(beside);
        let done = receive_into(talk, &beside, items, cache, has_asked);
        let renamed = done.and_then(|bytes| {
            fs::rename(&beside, target).map_err(|error| Error::io(target.display(), error))?;
            Ok(bytes)
        });
        return renamed.inspect_err(|_| drop(fs::remove_file(&beside)));
    }
    // What is no fault of the directory goes past it.
    let mut fault = None;
    let done = atomic_dir::create_unsynced(target, |beside| {
        receive_into(talk, beside, items, cache, has_asked).map_err(|failed| match failed {
            Fault::Own(error) => error,
            other => {
                fault = Some(other);
                Error::ClosedPipe
            }
        })
    });
    done.map_err(|error| fault.unwrap_or(Fault::Own(error)))
}

fn receive_into(
    talk: &mut dyn Talk,
    root: &Path,
    items: &[Item],
    cache: Option<&Cache>,
    has_asked: &mut bool,
) -> Result<u64, Fault> {
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
    talk.say(&Message::Want {
        numbers: numbers.clone(),
    })?;
    let (mut bytes, mut trouble) = (0, None);
    for item in numbers.iter().filter_map(|&number| items.get(number)) {
        let path = item_path(root, item)?;
        // What is on its way must come, even if there is no room for it.
        match receive_file(talk, &path, item.bytes)? {
            Ok(sum) if sum == item.sum => {}
            Ok(_) => drop(trouble.get_or_insert_with(|| {
                Fault::Damaged(format!(
                    "{}: what came does not match its checksum",
                    item.path
                ))
            })),
            Err(error) => drop(trouble.get_or_insert(Fault::Own(error))),
        }
        bytes += item.bytes;
    }
    trouble.map_or(Ok(bytes), Err)
}

/// Writes as many bytes as a file has, and gives their checksum. The inner error is one of the file.
pub fn receive_file(talk: &mut dyn Talk, path: &Path, bytes: u64) -> Result<Result<String>, Fault> {
    let mut file = File::create(path).map_err(|error| Error::io(path.display(), error));
    let (mut sum, mut left, mut payload) = (Xxh3::new(), bytes, Vec::new());
    while left > 0 {
        match talk.receive(&mut payload)? {
            Frame::Data if payload.len() as u64 <= left => {
                left -= payload.len() as u64;
                sum.update(&payload);
                if let Ok(open) = &mut file
                    && let Err(error) = open.write_all(&payload)
                {
                    file = Err(Error::io(path.display(), error));
                }
            }
            Frame::Message => {
                return Err(match parse(&payload)? {
                    Message::Error { cause, what, .. } => Fault::Told(cause, what),
                    _ => out_of_turn(),
                });
            }
            Frame::Data | Frame::Beat => return Err(out_of_turn()),
        }
    }
    Ok(file.map(|_| format!("{:032x}", sum.digest128())))
}

pub fn out_of_turn() -> Fault {
    Fault::Link("something came out of turn".to_owned())
}
