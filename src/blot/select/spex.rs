//! Blots of chunks that `dedup-spex` has counted more than once.
//!
//! A filter file has the magic `dedupfil`, the version (1), the number of blot bits that index a
//! field, the length of the scheme, the scheme, a bit for each field (1: more than once), and XXH3
//! over all of that; numbers are little-endian, 32 bits. `spex` without a file is the name of the
//! selection of dedup-spex itself: it keeps every blot of a query.

use super::{Select, SelectContext, SelectResult};
use crate::text::stream::{Blots, Tokens};
use std::{fs, io::Write};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

const MAGIC: &[u8; 8] = b"dedupfil";
const VERSION: u32 = 1;

/// The selection of dedup-spex itself.
struct Everything;

impl Select for Everything {
    fn reject(&self, _: &Tokens, _: &Blots, _: &mut [bool]) {}

    fn name(&self) -> String {
        "spex".to_owned()
    }

    fn keeps_all_shared(&self) -> bool {
        true
    }
}

/// The selection by a filter file.
struct Filter {
    repeats: Vec<u8>,
    /// The field of a blot is the blot without this many lower bits.
    shift: u32,
    digest: u64,
}

/// Reads a filter, and checks its whole file.
pub fn read(path: &str, of: SelectContext<'_>) -> SelectResult {
    if path.is_empty() {
        return Ok(Box::new(Everything));
    }
    let bytes = fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    let (repeats, field_bits, scheme, digest) =
        parse(bytes).ok_or_else(|| format!("{path}: not a filter of dedup-spex, or damaged"))?;
    if scheme != of.scheme {
        return Err(format!(
            "{path}: a filter for '{scheme}', where '{}' is made",
            of.scheme
        ));
    }
    let Some(shift) = u32::from(of.bits).checked_sub(field_bits) else {
        return Err(format!(
            "{path}: a filter for blots of {field_bits} bits or more; make it with less memory, or take blots of {field_bits} bits"
        ));
    };
    Ok(Box::new(Filter {
        repeats,
        shift,
        digest,
    }))
}

/// The bits of the fields, the number of blot bits that index them, the scheme, and the checksum.
fn parse(mut bytes: Vec<u8>) -> Option<(Vec<u8>, u32, String, u64)> {
    let number =
        |bytes: &[u8], at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let body = bytes.len().checked_sub(8)?;
    let digest = u64::from_le_bytes(bytes[body..].try_into().ok()?);
    if !bytes.starts_with(MAGIC)
        || number(&bytes, 8)? != VERSION
        || xxh3_64(&bytes[..body]) != digest
    {
        return None;
    }
    let field_bits = number(&bytes, 12)?;
    let head = 20 + number(&bytes, 16)? as usize;
    let fields = 1_u64.checked_shl(field_bits)?;
    if head > body || (body.checked_sub(head)? as u64) * 8 != fields {
        return None;
    }
    let scheme = String::from_utf8(bytes[20..head].to_vec()).ok()?;
    bytes.truncate(body);
    bytes.drain(..head);
    Some((bytes, field_bits, scheme, digest))
}

/// Writes a filter. Each item of `repeats` has the bits of 32 fields.
pub fn write_filter(
    mut out: impl Write,
    scheme: &str,
    field_bits: u32,
    repeats: impl Iterator<Item = u32>,
) -> std::io::Result<()> {
    let mut sum = Xxh3::new();
    let mut put = |bytes: &[u8]| {
        sum.update(bytes);
        out.write_all(bytes)
    };
    put(MAGIC)?;
    for number in [VERSION, field_bits, scheme.len() as u32] {
        put(&number.to_le_bytes())?;
    }
    put(scheme.as_bytes())?;
    repeats
        .into_iter()
        .try_for_each(|bits| put(&bits.to_le_bytes()))?;
    let sum = sum.digest();
    out.write_all(&sum.to_le_bytes())
}

impl Select for Filter {
    fn reject(&self, _: &Tokens, blots: &Blots, keep: &mut [bool]) {
        for (keep, &blot) in keep.iter_mut().zip(&blots.values) {
            let field = blot >> self.shift;
            *keep &= self.repeats[(field / 8) as usize] >> (field % 8) & 1 == 1;
        }
    }

    fn name(&self) -> String {
        format!("spex:{:016x}", self.digest)
    }

    fn keeps_all_shared(&self) -> bool {
        true
    }
}
