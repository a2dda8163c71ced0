//! Reads `.gz` and `.zst` as what is inside.
//!
//! The first bytes decide, so that stdin and oddly named files work too. Files of several gzip members
//! or zstd frames are read to their end.

use flate2::bufread::MultiGzDecoder;
use std::{
    io::{self, BufRead, BufReader, Chain, Cursor, Read},
    path::Path,
};

const GZIP: &[u8] = &[0x1f, 0x8b, 0x08];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Skippable zstd frames start with one of sixteen numbers; pzstd and the seekable format put one first.
const ZSTD_SKIPPABLE: &[u8] = &[0x2a, 0x4d, 0x18];

const BUFFER_BYTES: usize = 1 << 17;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    pub fn of(head: &[u8]) -> Self {
        if head.starts_with(GZIP) {
            Self::Gzip
        } else if head.starts_with(ZSTD) || (head.len() > 3 && head[0] & 0xf0 == 0x50 && head[1..].starts_with(ZSTD_SKIPPABLE)) {
            Self::Zstd
        } else {
            Self::Plain
        }
    }

    /// What a file's name promises.
    pub fn of_name(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Self::Gzip,
            Some("zst") => Self::Zstd,
            _ => Self::Plain,
        }
    }
}

pub type Input = Box<dyn BufRead + Send>;

/// The contents of `input`, unpacked where they are packed.
pub fn unpack(input: impl BufRead + Send + 'static) -> io::Result<Input> {
    let (head, input) = peek(input, 4)?;
    Ok(match Packing::of(&head) {
        Packing::Plain => Box::new(input),
        Packing::Gzip => Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(input))),
        Packing::Zstd => Box::new(BufReader::with_capacity(BUFFER_BYTES, zstd::Decoder::with_buffer(input)?)),
    })
}

/// An input of which the beginning was read, and put back.
pub type Peeked<R> = Chain<Cursor<Vec<u8>>, R>;

/// The first `count` bytes, and the input as if they had not been read. A pipe may give them in drops.
pub fn peek<R: BufRead>(mut input: R, count: u64) -> io::Result<(Vec<u8>, Peeked<R>)> {
    let mut head = Vec::new();
    input.by_ref().take(count).read_to_end(&mut head)?;
    Ok((head.clone(), Cursor::new(head).chain(input)))
}

/// Unpacks a whole file that was read already; the packed bytes are left as they were.
pub fn unpack_all(packed: &[u8], packing: Packing, out: &mut Vec<u8>) -> io::Result<()> {
    out.clear();
    match packing {
        Packing::Plain => out.extend_from_slice(packed),
        Packing::Gzip => drop(MultiGzDecoder::new(packed).read_to_end(out)?),
        Packing::Zstd => drop(zstd::Decoder::with_buffer(packed)?.read_to_end(out)?),
    }
    Ok(())
}
