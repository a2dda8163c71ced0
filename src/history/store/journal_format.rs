//! The bytes of a journal: header, groups and records; and reading them back.

use super::{
    log_cursor::{Forgotten, LogMark},
    memtable::NewEntry,
};
use crate::{
    base::{
        codec::{Fields, put_varint},
        error::{Error, Place, Result},
        num::ToU64,
    },
    history::search::low_half,
    text::stream::{PRINT_BYTES, Print},
};
use std::{fs, path::Path, sync::Arc};
use xxhash_rust::xxh3::xxh3_64;

pub(super) const MAGIC: [u8; 8] = *b"\x89DEDHJ\r\n";
pub(super) const VERSION: u64 = 1;
pub(super) const HEADER_BYTES: usize = 32;
pub(super) const GROUP_MAGIC: u64 = 0x5055_4f52_4758_4e48;
pub(super) const GROUP_HEADER_BYTES: usize = 40;
const ADD: u8 = 1;
const REMOVE: u8 = 2;
const LOG: u8 = 3;
const FORGET: u8 = 4;

/// One record of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalRecord {
    /// A new entry.
    Add(NewEntry),
    /// The removal of the entry with this sequence number.
    Remove(u64),
    /// An entry of the log was applied.
    Log(LogMark),
    /// The log has forgotten entries.
    Forget(Forgotten),
}

/// The contents of a journal.
pub struct ReplayedJournal {
    pub records: Vec<JournalRecord>,
    pub first_sequence: u64,
    /// The bytes of complete groups, and of an incomplete one after them.
    pub whole_bytes: u64,
    pub unfinished_bytes: u64,
}

impl ReplayedJournal {
    /// The number of added entries.
    pub fn added(&self) -> usize {
        let is_added = |record: &&JournalRecord| matches!(record, JournalRecord::Add(_));
        self.records.iter().filter(is_added).count()
    }
}

impl JournalRecord {
    /// The print of an added entry.
    pub fn added_print(&self) -> Option<Print> {
        match self {
            Self::Add(entry) => Some(entry.print),
            Self::Remove(_) | Self::Log(_) | Self::Forget(_) => None,
        }
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Add(NewEntry {
                print, time, id, ..
            }) => {
                out.push(ADD);
                put_varint(out, u64::from(*time));
                out.extend_from_slice(&print.to_bytes());
                put_varint(out, id.len().to_u64());
                out.extend_from_slice(id.as_bytes());
            }
            Self::Remove(sequence) => {
                out.push(REMOVE);
                put_varint(out, *sequence);
            }
            Self::Log(mark) => {
                out.push(LOG);
                [mark.position, mark.publisher, mark.number]
                    .iter()
                    .for_each(|&number| put_varint(out, number));
            }
            Self::Forget(forgotten) => {
                out.push(FORGET);
                put_varint(out, forgotten.first_sequence);
                put_varint(out, u64::from(forgotten.first_time));
            }
        }
    }

    /// Parses the next record. An added entry gets the sequence number `next`.
    fn take(fields: &mut Fields<'_>, next: u64) -> Result<Self, String> {
        match fields.byte("kind of a record")? {
            ADD => {
                let time = low_half(fields.varint("time")?);
                let bytes = fields.take(PRINT_BYTES.to_u64(), "print")?;
                let print = Print::from_bytes(bytes.try_into().map_err(|_| "print")?);
                let length = fields.varint("length of an id")?;
                let id = std::str::from_utf8(fields.take(length, "id")?)
                    .map_err(|_| "an id is not UTF-8")?;
                Ok(Self::Add(NewEntry {
                    print,
                    sequence: next,
                    time,
                    id: id.into(),
                }))
            }
            REMOVE => match fields.varint("sequence number")? {
                sequence if sequence < next => Ok(Self::Remove(sequence)),
                sequence => Err(format!(
                    "entry {sequence} is removed before it was added; the next one is {next}"
                )),
            },
            LOG => Ok(Self::Log(LogMark {
                position: fields.varint("position in the log")?,
                publisher: fields.varint("publisher")?,
                number: fields.varint("number of a message")?,
            })),
            FORGET => Ok(Self::Forget(Forgotten {
                first_sequence: fields.varint("sequence number")?,
                first_time: low_half(fields.varint("time")?),
            })),
            other => Err(format!("a record of unknown kind {other}")),
        }
    }
}

/// Whether a journal of this length has no group: it was created ahead of time.
pub fn is_blank(bytes: u64) -> bool {
    bytes <= HEADER_BYTES.to_u64()
}

/// Reads a journal of which `synced_bytes` were synced. After these it may end in the middle of a
/// group.
pub fn replay(path: &Path, synced_bytes: u64) -> Result<ReplayedJournal> {
    let bytes = fs::read(path).map_err(|error| Error::io(path.display(), error))?;
    replay_bytes(path, &bytes, synced_bytes)
}

/// As [`replay`], of a journal that was read.
pub fn replay_bytes(path: &Path, bytes: &[u8], synced_bytes: u64) -> Result<ReplayedJournal> {
    let name: Arc<str> = path.display().to_string().into();
    let damaged =
        |(at, what): (usize, String)| Error::damaged(Place::byte(&name, at.to_u64()), what);
    let first_sequence = parse_header(bytes).map_err(damaged)?;
    let (records, end) = parse_groups(bytes, first_sequence).map_err(damaged)?;
    let whole_bytes = end.to_u64();
    if end == bytes.len() && whole_bytes < synced_bytes {
        let what = format!(
            "the journal ends here, but {synced_bytes} bytes of it were on disk; it was cut"
        );
        return Err(damaged((end, what)));
    }
    if end < bytes.len() && (whole_bytes < synced_bytes || was_synced(bytes, end)) {
        let what = "a group of entries does not match its checksum; the journal was altered";
        return Err(damaged((end, what.to_owned())));
    }
    Ok(ReplayedJournal {
        records,
        first_sequence,
        whole_bytes,
        unfinished_bytes: (bytes.len() - end).to_u64(),
    })
}

/// How much of a journal can be read, whatever was synced: the sequence numbers of its first entry
/// and of the next one, and the bytes of its complete groups. `None` if its header is damaged.
pub fn readable_part(bytes: &[u8]) -> Option<(u64, u64, u64)> {
    let first = parse_header(bytes).ok()?;
    let mut at = HEADER_BYTES;
    let mut next = first;
    while let Some(payload) = group_payload(&bytes[at..]) {
        let mut fields = Fields::new(payload);
        let mut after = next;
        while !fields.is_empty() {
            let Ok(record) = JournalRecord::take(&mut fields, after) else {
                return Some((first, next, at.to_u64()));
            };
            after += u64::from(matches!(record, JournalRecord::Add(_)));
        }
        next = after;
        at += GROUP_HEADER_BYTES + payload.len();
    }
    Some((first, next, at.to_u64()))
}

/// Checks the header and returns the sequence number of the first entry; or the byte and the
/// problem.
fn parse_header(bytes: &[u8]) -> Result<u64, (usize, String)> {
    if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC || word(bytes, 24) != xxh3_64(&bytes[..24])
    {
        let what = "not the journal of a history, or its header was altered";
        return Err((0, what.to_owned()));
    }
    match word(bytes, 8) {
        VERSION => Ok(word(bytes, 16)),
        version => Err((
            8,
            format!("version {version}, this program reads version {VERSION}"),
        )),
    }
}

/// The records of all complete groups and where these end; or the byte and the problem.
fn parse_groups(
    bytes: &[u8],
    first_sequence: u64,
) -> Result<(Vec<JournalRecord>, usize), (usize, String)> {
    let mut records = Vec::new();
    let mut next = first_sequence;
    let mut at = HEADER_BYTES;
    while let Some(payload) = group_payload(&bytes[at..]) {
        let mut fields = Fields::new(payload);
        while !fields.is_empty() {
            let record = JournalRecord::take(&mut fields, next).map_err(|what| (at, what))?;
            next += u64::from(matches!(record, JournalRecord::Add(_)));
            records.push(record);
        }
        at += GROUP_HEADER_BYTES + payload.len();
    }
    Ok((records, at))
}

pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

/// The payload of the group that begins here, if it is complete.
fn group_payload(bytes: &[u8]) -> Option<&[u8]> {
    let _ = synced_before_group(bytes)?;
    let payload = bytes[GROUP_HEADER_BYTES..].get(..usize::try_from(word(bytes, 8)).ok()?)?;
    (xxh3_64(payload) == word(bytes, 24)).then_some(payload)
}

/// The synced length at the time when the group that begins here was written.
fn synced_before_group(bytes: &[u8]) -> Option<u64> {
    let is_header = bytes.len() >= GROUP_HEADER_BYTES
        && word(bytes, 0) == GROUP_MAGIC
        && xxh3_64(&bytes[..GROUP_HEADER_BYTES - 8]) == word(bytes, 32);
    is_header.then(|| word(bytes, 16))
}

/// Whether a later group says that the incomplete group here was synced.
fn was_synced(bytes: &[u8], at: usize) -> bool {
    let magic = GROUP_MAGIC.to_le_bytes();
    memchr::memmem::find_iter(&bytes[at..], &magic).any(|found| {
        synced_before_group(&bytes[at + found..]).is_some_and(|synced| synced > at.to_u64())
    })
}
