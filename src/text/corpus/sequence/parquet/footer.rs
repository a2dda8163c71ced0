//! The end of a Parquet file: its length and marks, and whether its lists can be what they claim.
//!
//! The parquet crate reserves memory for a list by its claimed length and builds the schema by recursion. So all counts
//! and the depth of the schema are bounded here, before it sees the bytes.

use super::thrift::{ThriftError, ThriftReader, kind};
use crate::base::num::ToUsize;
use std::{fs::File, os::unix::fs::FileExt};

const MARK: &[u8] = b"PAR1";
/// The mark at the start of a file.
pub const MARK_BYTES: u64 = 4;
/// Behind the footer: its length, and the mark.
pub const TAIL_BYTES: u64 = 8;
const ENCRYPTED_MARK: &[u8] = b"PARE";
/// The mark at the start, the length and the mark at the end.
const LEAST_BYTES: u64 = 12;
const MOST_FOOTER_BYTES: u64 = 256 << 20;
/// Wide tables have some ten thousand columns.
const MOST_SCHEMA_ELEMENTS: u64 = 100_000;
/// Columns of all row groups: the crate keeps some hundred bytes for each.
const MOST_CHUNKS: u64 = 500_000;
const MOST_GROUPS: u64 = 500_000;
const MOST_SCHEMA_DEPTH: usize = 64;

/// The checked bytes of the footer.
pub fn read_footer(file: &File, file_bytes: u64) -> Result<Vec<u8>, String> {
    let mut head = [0; 4];
    let mut tail = [0; 8];
    if file_bytes < LEAST_BYTES {
        return Err(format!(
            "not a Parquet file: it has only {file_bytes} bytes"
        ));
    }
    read_at(file, &mut head, 0)?;
    read_at(file, &mut tail, file_bytes - 8)?;
    let (length, mark) = tail.split_at(4);
    if mark == ENCRYPTED_MARK || head == ENCRYPTED_MARK {
        return Err(ENCRYPTED.to_owned());
    }
    if head != MARK {
        return Err("not a Parquet file: it does not start with PAR1".to_owned());
    }
    if mark != MARK {
        return Err("the file does not end with PAR1; it may be truncated".to_owned());
    }
    let length = u64::from(u32::from_le_bytes(length.try_into().unwrap_or_default()));
    let most_bytes = (file_bytes - LEAST_BYTES).min(MOST_FOOTER_BYTES);
    if length > most_bytes {
        return Err(format!(
            "the footer claims {length} bytes, the file has room for {most_bytes}"
        ));
    }
    let mut footer = vec![0; length.to_usize()];
    read_at(file, &mut footer, file_bytes - 8 - length)?;
    ensure_plausible(&footer)?;
    Ok(footer)
}

pub const ENCRYPTED: &str = "the file is encrypted; decrypt it first";

fn read_at(file: &File, buffer: &mut [u8], at: u64) -> Result<(), String> {
    file.read_exact_at(buffer, at)
        .map_err(|error| format!("byte {at}: {error}"))
}

/// Walks over the footer, and counts.
fn ensure_plausible(footer: &[u8]) -> Result<(), String> {
    let mut reader = ThriftReader::new(footer);
    let mut scan = FooterScan::default();
    scan.file(&mut reader).map_err(|problem| match problem {
        FooterProblem::Damaged => {
            let at = reader.position();
            format!("the footer is damaged at its byte {at} of {}", footer.len())
        }
        FooterProblem::Named(what) => what,
    })
}

enum FooterProblem {
    Damaged,
    Named(String),
}

impl From<ThriftError> for FooterProblem {
    fn from(_: ThriftError) -> Self {
        Self::Damaged
    }
}

#[derive(Default)]
struct FooterScan {
    chunks: u64,
}

impl FooterScan {
    fn file(&mut self, reader: &mut ThriftReader<'_>) -> Result<(), FooterProblem> {
        let mut last = 0;
        while let Some(field) = reader.field(&mut last)? {
            match (field.id, field.kind) {
                (2, kind::LIST) => schema(reader)?,
                (4, kind::LIST) => self.groups(reader)?,
                (8, kind::STRUCT) => return Err(FooterProblem::Named(ENCRYPTED.to_owned())),
                (_, kind) => reader.skip(kind)?,
            }
        }
        Ok(())
    }

    fn groups(&mut self, reader: &mut ThriftReader<'_>) -> Result<(), FooterProblem> {
        let count = structs(reader, MOST_GROUPS, "row groups")?;
        for _ in 0..count {
            let mut last = 0;
            while let Some(field) = reader.field(&mut last)? {
                match (field.id, field.kind) {
                    (1, kind::LIST) => self.chunks(reader)?,
                    (_, kind) => reader.skip(kind)?,
                }
            }
        }
        Ok(())
    }

    fn chunks(&mut self, reader: &mut ThriftReader<'_>) -> Result<(), FooterProblem> {
        let left = MOST_CHUNKS - self.chunks;
        let count = structs(reader, left, "more columns in row groups")?;
        self.chunks += count;
        for _ in 0..count {
            reader.skip(kind::STRUCT)?;
        }
        Ok(())
    }
}

/// The schema is a tree in one list, each element before its children.
fn schema(reader: &mut ThriftReader<'_>) -> Result<(), FooterProblem> {
    let count = structs(reader, MOST_SCHEMA_ELEMENTS, "elements in the schema")?;
    // For each open element: how many of its children are still to come.
    let mut open: Vec<u64> = Vec::new();
    for number in 0..count {
        while open.last() == Some(&0) {
            open.pop();
        }
        match open.last_mut() {
            Some(left) => *left -= 1,
            None if number == 0 => {}
            None => return Err(bad_schema()),
        }
        let children = schema_element(reader)?;
        if children > count - number - 1 {
            return Err(bad_schema());
        }
        open.push(children);
        if open.len() > MOST_SCHEMA_DEPTH {
            let what = format!("the schema is nested deeper than {MOST_SCHEMA_DEPTH} levels");
            return Err(FooterProblem::Named(what));
        }
    }
    if open.iter().any(|&left| left > 0) {
        return Err(bad_schema());
    }
    Ok(())
}

fn bad_schema() -> FooterProblem {
    FooterProblem::Named("the schema claims another number of elements than it has".to_owned())
}

/// The number of its children.
fn schema_element(reader: &mut ThriftReader<'_>) -> Result<u64, FooterProblem> {
    let mut last = 0;
    let mut children = 0;
    while let Some(field) = reader.field(&mut last)? {
        match (field.id, field.kind) {
            (5, kind::I32) => children = reader.integer()?,
            (_, kind) => reader.skip(kind)?,
        }
    }
    u64::try_from(children).map_err(|_| bad_schema())
}

/// The length of a list of structures.
fn structs(reader: &mut ThriftReader<'_>, most: u64, what: &str) -> Result<u64, FooterProblem> {
    match reader.list()? {
        (kind::STRUCT, count) if count <= most => Ok(count),
        (kind::STRUCT, count) => Err(FooterProblem::Named(format!(
            "the footer claims {count} {what}; at most {most} are read"
        ))),
        _ => Err(FooterProblem::Damaged),
    }
}

/// How many bytes the file has.
pub fn file_bytes(file: &File) -> Result<u64, String> {
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    Ok(metadata.len())
}
