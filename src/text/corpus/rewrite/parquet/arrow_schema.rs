//! Adds the column of notes to the schema that Arrow programs store in a table (`ARROW:schema`).
//!
//! The schema is a FlatBuffer: tables that refer to each other by distances, always to what comes later. So a new beginning
//! is put before the old bytes, with a message, a schema and a list of fields that lead to the old fields and to the new one.
//!
//! ```text
//! root | message | schema | fields: new list | field dedup | old bytes: root, message, schema, list, fields …
//!                               └──────────────────┴─────────────────────────────────────────┘
//! ```

use super::NOTE_FIELD;
use crate::base::num::ToUsize;
use base64::{Engine, engine::general_purpose::STANDARD};

/// Stands before the length of a message.
const CONTINUATION: u32 = u32::MAX;
/// The number of the type of strings.
const UTF8: u8 = 5;
/// The number of the kind of messages that hold a schema.
const SCHEMA: u8 = 1;
const MOST_FIELDS: usize = 100_000;

/// The schema with a column of strings for notes as its last one, in place of any of that name; `None` if it is not a schema.
pub fn with_note(encoded: &str) -> Option<String> {
    let message = STANDARD.decode(encoded).ok()?;
    let (head, rest) = message.split_first_chunk::<4>()?;
    let (length, rest) = if u32::from_le_bytes(*head) == CONTINUATION {
        let (length, rest) = rest.split_first_chunk::<4>()?;
        (*length, rest)
    } else {
        (*head, rest)
    };
    let old = rest.get(..u32::from_le_bytes(length).to_usize())?;
    let schema = OldSchema::parse(old)?;
    if schema.has_note {
        return Some(encoded.to_owned());
    }
    let new = schema.with_note(old)?;
    let mut message = CONTINUATION.to_le_bytes().to_vec();
    message.extend_from_slice(&u32::try_from(new.len()).ok()?.to_le_bytes());
    message.extend_from_slice(&new);
    Some(STANDARD.encode(message))
}

/// Where things are in the old bytes.
struct OldSchema {
    version: i16,
    endianness: i16,
    /// All but the column of notes.
    fields: Vec<usize>,
    /// The last column is one for notes already.
    has_note: bool,
    metadata: Option<usize>,
    features: Option<usize>,
}

/// A table of a FlatBuffer.
#[derive(Clone, Copy)]
struct FlatTable<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> FlatTable<'a> {
    /// Where a field of the table is, if it has it.
    fn field(self, number: usize) -> Option<usize> {
        let distance = i32::from_le_bytes(array(self.bytes, self.at)?);
        let back = isize::try_from(distance).ok()?;
        let layout = self.at.checked_add_signed(back.checked_neg()?)?;
        let size = usize::from(u16::from_le_bytes(array(self.bytes, layout)?));
        let slot = 4 + 2 * number;
        if slot + 2 > size {
            return None;
        }
        let offset = usize::from(u16::from_le_bytes(array(self.bytes, layout + slot)?));
        (offset > 0).then(|| self.at + offset)
    }

    /// What a field refers to.
    fn target(self, number: usize) -> Option<usize> {
        follow(self.bytes, self.field(number)?)
    }

    fn short(self, number: usize) -> Option<i16> {
        Some(match self.field(number) {
            None => 0,
            Some(at) => i16::from_le_bytes(array(self.bytes, at)?),
        })
    }

    fn table(self, at: usize) -> FlatTable<'a> {
        Self { at, ..self }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Where a reference leads to.
fn follow(bytes: &[u8], at: usize) -> Option<usize> {
    let distance = u32::from_le_bytes(array(bytes, at)?).to_usize();
    let target = at.checked_add(distance)?;
    (target < bytes.len()).then_some(target)
}

impl OldSchema {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let root = FlatTable { bytes, at: 0 };
        let message = root.table(follow(bytes, 0)?);
        let kind = message.field(1).and_then(|at| bytes.get(at).copied());
        let schema = message.table(message.target(2)?);
        if kind != Some(SCHEMA) {
            return None;
        }
        let list = schema.target(1)?;
        let count = u32::from_le_bytes(array(bytes, list)?).to_usize();
        let mut fields = Vec::new();
        let mut has_note = false;
        for number in 0..Some(count).filter(|&count| count <= MOST_FIELDS)? {
            let field = follow(bytes, list + 4 + 4 * number)?;
            let field = root.table(field);
            if string(bytes, field.target(0)?)? == NOTE_FIELD.as_bytes() {
                let kind = field.field(2).and_then(|at| bytes.get(at).copied());
                has_note = kind == Some(UTF8) && number + 1 == count;
            } else {
                fields.push(field.at);
            }
        }
        Some(Self {
            version: message.short(0)?,
            endianness: schema.short(0)?,
            has_note: has_note && fields.len() + 1 == count,
            fields,
            metadata: schema.target(2),
            features: schema.target(3),
        })
    }

    /// A new beginning, and the old bytes.
    fn with_note(&self, old: &[u8]) -> Option<Vec<u8>> {
        let mut new = FlatWriter::default();
        new.u32(0);
        // Message: version, kind, schema, the size of what follows it, which is nothing.
        let message = new.table(&[20, 22, 4, 8], 24);
        new.refer(0, message)?;
        let list_of_schema = message + 4;
        new.u32(0);
        new.bytes.extend_from_slice(&[0; 8]);
        new.u32(0);
        new.bytes.extend_from_slice(&self.version.to_le_bytes());
        new.bytes.extend_from_slice(&[SCHEMA, 0]);
        // Schema: endianness, fields, metadata, features.
        let has = |part: Option<usize>, at: u16| part.map_or(0, |_| at);
        let layout = [16, 4, has(self.metadata, 8), has(self.features, 12)];
        let schema = new.table(&layout, 20);
        new.refer(list_of_schema, schema)?;
        new.bytes.extend_from_slice(&[0; 12]);
        new.bytes.extend_from_slice(&self.endianness.to_le_bytes());
        new.bytes.extend_from_slice(&[0; 2]);
        let list = new.bytes.len();
        new.refer(schema + 4, list)?;
        new.u32(u32::try_from(self.fields.len() + 1).ok()?);
        new.bytes.resize(list + 4 + 4 * (self.fields.len() + 1), 0);
        let note = new.note()?;
        new.refer(list + 4 + 4 * self.fields.len(), note)?;
        new.align(8, 0);
        let start = new.bytes.len();
        for (number, field) in self.fields.iter().enumerate() {
            new.refer(list + 4 + 4 * number, start + field)?;
        }
        for (at, part) in [(schema + 8, self.metadata), (schema + 12, self.features)] {
            if let Some(part) = part {
                new.refer(at, start + part)?;
            }
        }
        new.bytes.extend_from_slice(old);
        new.align(8, 0);
        Some(new.bytes)
    }
}

fn string(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let length = u32::from_le_bytes(array(bytes, at)?).to_usize();
    bytes.get(at + 4..)?.get(..length)
}

#[derive(Default)]
struct FlatWriter {
    bytes: Vec<u8>,
}

impl FlatWriter {
    fn u32(&mut self, number: u32) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    /// Adds bytes until the length is a multiple of `unit`, and `more`.
    fn align(&mut self, unit: usize, more: usize) {
        while self.bytes.len() % unit != more % unit {
            self.bytes.push(0);
        }
    }

    /// Appends the layout of a table, and its first four bytes, which lead back to that. Returns where it is.
    fn table(&mut self, fields: &[u16], size: u16) -> usize {
        let layout_bytes = 4 + 2 * fields.len();
        self.align(8, 8 - layout_bytes % 8);
        let size_of_layout = u16::try_from(layout_bytes).unwrap_or(u16::MAX);
        for number in [size_of_layout, size].iter().chain(fields) {
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
        let at = self.bytes.len();
        self.u32(u32::from(size_of_layout));
        at
    }

    /// Writes a reference to what comes later.
    fn refer(&mut self, at: usize, target: usize) -> Option<()> {
        let distance = u32::try_from(target.checked_sub(at)?).ok()?;
        let reference = self.bytes.get_mut(at..at + 4)?;
        reference.copy_from_slice(&distance.to_le_bytes());
        Some(())
    }

    /// Appends the field for notes, which may be null.
    fn note(&mut self) -> Option<usize> {
        // Name, may be null, kind of type, type, dictionary, children.
        let field = self.table(&[4, 16, 17, 8, 0, 12], 18);
        self.bytes.extend_from_slice(&[0; 12]);
        self.bytes.extend_from_slice(&[1, UTF8]);
        let kind = self.table(&[], 4);
        self.refer(field + 8, kind)?;
        self.refer(field + 12, self.bytes.len())?;
        self.u32(0);
        self.refer(field + 4, self.bytes.len())?;
        self.u32(u32::try_from(NOTE_FIELD.len()).ok()?);
        self.bytes.extend_from_slice(NOTE_FIELD.as_bytes());
        self.bytes.push(0);
        Some(field)
    }
}
