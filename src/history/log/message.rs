//! The messages of a log, and their bytes.

use crate::{
    base::{
        codec::{Fields, put_varint},
        num::{ToU32, ToU64},
    },
    history::store::log_cursor::{Forgotten, LogMark},
    text::stream::{PRINT_BYTES, Print},
};
use xxhash_rust::xxh3::xxh3_64;

/// The version of the format.
const VERSION: u8 = 1;
const ADD: u8 = 1;
const REMOVE: u8 = 2;
const BEGIN: u8 = 3;
/// A server makes no longer ones, unless an id alone is longer: NATS accepts 1 MiB.
pub const MESSAGE_BYTES: usize = 512 << 10;

/// What a server wants all servers to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogMessage {
    /// A random number of the process.
    pub publisher: u64,
    /// Counts its messages, from 1.
    pub number: u64,
    /// When it was made, in seconds since 1970.
    pub time: u32,
    /// The last entry that the server had applied: others see whether they have applied the same.
    pub after: LogMark,
    /// Entries to forget before the rest is done.
    pub forgotten: Forgotten,
    /// What to do, in order.
    pub operations: Vec<LogOperation>,
}

/// A change of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogOperation {
    /// Add a document, unless it is stored already.
    Add {
        /// Its id.
        id: String,
        /// Its print.
        print: Print,
    },
    /// Remove all entries with this id.
    Remove {
        /// The id.
        id: String,
    },
    /// The log continues a history: the first message says so.
    Begin {
        /// The identity of the history.
        history: String,
        /// The sequence number of its next entry.
        next_sequence: u64,
    },
}

impl LogMessage {
    /// Its mark as the entry at a position.
    pub fn mark(&self, position: u64) -> LogMark {
        LogMark {
            position,
            publisher: self.publisher,
            number: self.number,
        }
    }

    /// The bytes of the message: a version, varints, the operations, and a checksum.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        for number in [
            self.publisher,
            self.number,
            u64::from(self.time),
            self.after.position,
            self.after.publisher,
            self.after.number,
            self.forgotten.first_sequence,
            u64::from(self.forgotten.first_time),
            self.operations.len().to_u64(),
        ] {
            put_varint(&mut out, number);
        }
        for operation in &self.operations {
            let (kind, id) = match operation {
                LogOperation::Add { id, .. } => (ADD, id),
                LogOperation::Remove { id } => (REMOVE, id),
                LogOperation::Begin { history, .. } => (BEGIN, history),
            };
            out.push(kind);
            put_varint(&mut out, id.len().to_u64());
            out.extend_from_slice(id.as_bytes());
            match operation {
                LogOperation::Add { print, .. } => out.extend_from_slice(&print.to_bytes()),
                LogOperation::Remove { .. } => {}
                LogOperation::Begin { next_sequence, .. } => put_varint(&mut out, *next_sequence),
            }
        }
        let checksum = xxh3_64(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Reads the bytes of a message.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let (body, checksum) = bytes
            .split_last_chunk::<8>()
            .ok_or("a message without a checksum")?;
        if xxh3_64(body) != u64::from_le_bytes(*checksum) {
            return Err("a message that does not match its checksum".to_owned());
        }
        let mut fields = Fields::new(body);
        match fields.byte("version")? {
            VERSION => {}
            version => {
                return Err(format!(
                    "a message of version {version}, this program reads version {VERSION}"
                ));
            }
        }
        let mut message = Self {
            publisher: fields.varint("publisher")?,
            number: fields.varint("number")?,
            time: time(fields.varint("time")?)?,
            after: LogMark {
                position: fields.varint("position")?,
                publisher: fields.varint("publisher before")?,
                number: fields.varint("number before")?,
            },
            forgotten: Forgotten {
                first_sequence: fields.varint("first sequence number")?,
                first_time: time(fields.varint("first time")?)?,
            },
            operations: Vec::new(),
        };
        let count = fields.varint("number of operations")?;
        for _ in 0..count {
            message.operations.push(LogOperation::take(&mut fields)?);
        }
        if fields.is_empty() {
            Ok(message)
        } else {
            Err("a message with bytes after its end".to_owned())
        }
    }
}

impl LogOperation {
    fn take(fields: &mut Fields<'_>) -> Result<Self, String> {
        let kind = fields.byte("operation")?;
        let length = fields.varint("length of an id")?;
        let id = std::str::from_utf8(fields.take(length, "id")?)
            .map_err(|_| "an id is not UTF-8")?
            .to_owned();
        match kind {
            ADD => {
                let bytes = fields.take(PRINT_BYTES.to_u64(), "print")?;
                let print = Print::from_bytes(bytes.try_into().map_err(|_| "print")?);
                Ok(Self::Add { id, print })
            }
            REMOVE => Ok(Self::Remove { id }),
            BEGIN => Ok(Self::Begin {
                history: id,
                next_sequence: fields.varint("sequence number")?,
            }),
            other => Err(format!("an operation of unknown kind {other}")),
        }
    }
}

fn time(seconds: u64) -> Result<u32, String> {
    if seconds > u64::from(u32::MAX) {
        return Err(format!("a time of {seconds} seconds"));
    }
    Ok(seconds.to_u32())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn operation() -> impl Strategy<Value = LogOperation> {
        prop_oneof![
            (".{0,9}", any::<[u64; 4]>()).prop_map(|(id, words)| LogOperation::Add {
                id,
                print: Print(words)
            }),
            ".{0,9}".prop_map(|id| LogOperation::Remove { id }),
            (".{0,9}", any::<u64>()).prop_map(|(history, next_sequence)| LogOperation::Begin {
                history,
                next_sequence
            }),
        ]
    }

    proptest! {
        #[test]
        fn messages_are_read_back_as_written(
            numbers: [u64; 6], times: [u32; 2], operations in prop::collection::vec(operation(), 0..9), at: usize, flip in 1_u8..,
        ) {
            let message = LogMessage {
                publisher: numbers[0],
                number: numbers[1],
                time: times[0],
                after: LogMark { position: numbers[3], publisher: numbers[4], number: numbers[5] },
                forgotten: Forgotten { first_sequence: numbers[2], first_time: times[1] },
                operations,
            };
            let mut bytes = message.to_bytes();
            prop_assert_eq!(LogMessage::parse(&bytes).unwrap(), message);
            let at = at % bytes.len();
            prop_assert!(LogMessage::parse(&bytes[..at]).is_err());
            bytes[at] ^= flip;
            prop_assert!(LogMessage::parse(&bytes).is_err());
        }

        #[test]
        fn hostile_bytes_are_refused(body in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut bytes = [&[VERSION], &body[..]].concat();
            bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
            if let Ok(message) = LogMessage::parse(&bytes) {
                prop_assert_eq!(LogMessage::parse(&message.to_bytes()).unwrap(), message);
            }
        }
    }
}
