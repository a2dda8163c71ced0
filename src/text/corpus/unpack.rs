//! Reads `.gz` and `.zst` as what is inside.
//!
//! The first bytes decide, so that stdin and oddly named files work too. Files of several gzip members
//! or zstd frames are read to their end.

use crate::base::num::ToU64;
use flate2::bufread::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Chain, Cursor, Read},
    os::unix::fs::FileExt,
    path::Path,
};

const GZIP: &[u8] = &[0x1f, 0x8b, 0x08];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Skippable zstd frames start with one of sixteen numbers; pzstd and the seekable format put one first.
const ZSTD_SKIPPABLE: &[u8] = &[0x2a, 0x4d, 0x18];

const BUFFER_BYTES: usize = 1 << 17;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Packing {
    /// Not packed.
    Plain,
    /// gzip, one or more members.
    Gzip,
    /// Zstandard, one or more frames.
    Zstd,
}

impl Packing {
    /// The packing, by the first bytes of a file.
    pub fn of(head: &[u8]) -> Self {
        if head.starts_with(GZIP) {
            Self::Gzip
        } else if head.starts_with(ZSTD)
            || (head.len() > 3 && head[0] & 0xf0 == 0x50 && head[1..].starts_with(ZSTD_SKIPPABLE))
        {
            Self::Zstd
        } else {
            Self::Plain
        }
    }

    /// Whether more bytes may show that these begin something packed.
    fn is_undecided(head: &[u8]) -> bool {
        let may_skip = head
            .first()
            .is_none_or(|first| first & 0xf0 == 0x50 && ZSTD_SKIPPABLE.starts_with(&head[1..]));
        head.len() < 4
            && (Self::of(head) == Self::Plain)
            && (GZIP.starts_with(head) || ZSTD.starts_with(head) || may_skip)
    }

    /// What messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "text",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
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

/// An input of any kind, unpacked.
pub type Input = Box<dyn BufRead + Send>;

/// The contents of `input`, unpacked where they are packed, and what they are packed in.
pub fn unpack(input: impl BufRead + Send + 'static) -> io::Result<(Packing, Input)> {
    let (head, input) = peek(input, Packing::is_undecided)?;
    let packing = Packing::of(&head);
    let unpacked: Input = match packing {
        Packing::Plain => Box::new(input),
        Packing::Gzip => Box::new(BufReader::with_capacity(
            BUFFER_BYTES,
            MultiGzDecoder::new(input),
        )),
        Packing::Zstd => Box::new(BufReader::with_capacity(
            BUFFER_BYTES,
            zstd::Decoder::with_buffer(input)?,
        )),
    };
    Ok((packing, unpacked))
}

/// An input of which the beginning was read, and put back.
pub type Peeked<R> = Chain<Cursor<Vec<u8>>, R>;

/// The first bytes, and the input as if they had not been read. Waits for no byte that is not needed:
/// a person who types a line expects an answer to it.
pub fn peek<R: BufRead>(
    mut input: R,
    needs_more: impl Fn(&[u8]) -> bool,
) -> io::Result<(Vec<u8>, Peeked<R>)> {
    let mut head = Vec::new();
    while needs_more(&head) {
        match input.fill_buf() {
            Ok([]) => break,
            Ok([first, ..]) => head.push(*first),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        input.consume(1);
    }
    Ok((head.clone(), Cursor::new(head).chain(input)))
}

/// The contents of packed bytes.
pub fn decoder<'a>(packed: impl BufRead + 'a, packing: Packing) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match packing {
        Packing::Plain => Box::new(packed),
        Packing::Gzip => Box::new(MultiGzDecoder::new(packed)),
        Packing::Zstd => Box::new(zstd::Decoder::with_buffer(packed)?),
    })
}

/// How many bytes a packed file holds, as far as it says so itself: a guess, for it may lie.
pub fn unpacked_bytes(file: &File, packed_bytes: u64) -> u64 {
    let guess = 4 * packed_bytes;
    let (mut head, mut tail) = ([0; 18], [0; 4]);
    let has_read = packed_bytes >= 18
        && file.read_exact_at(&mut head, 0).is_ok()
        && file.read_exact_at(&mut tail, packed_bytes - 4).is_ok();
    match Packing::of(&head) {
        Packing::Plain => packed_bytes,
        // The size of the last member, modulo 2^32.
        Packing::Gzip if has_read => guess.max(u32::from_le_bytes(tail).into()),
        Packing::Zstd if has_read => zstd::zstd_safe::get_frame_content_size(&head)
            .ok()
            .flatten()
            .map_or(guess, |bytes| bytes.max(guess)),
        Packing::Gzip | Packing::Zstd => guess,
    }
}

/// The most bytes that a document, or a record, can ever have: spans are 32 bits wide.
pub const MOST_BYTES: u64 = u32::MAX as u64 - 1;

/// Reads to the end, and appends; false if that is beyond a bound, for a few packed bytes can hold far more than there is memory.
pub fn read_bounded(input: impl Read, most_bytes: u64, out: &mut Vec<u8>) -> io::Result<bool> {
    let room = (most_bytes + 1).saturating_sub(out.len().to_u64());
    input.take(room).read_to_end(out)?;
    Ok(out.len().to_u64() <= most_bytes)
}

/// An input that is not read again after its end: a terminal would ask for another one.
pub struct Once<R> {
    input: R,
    has_ended: bool,
}

impl<R> Once<R> {
    /// Reads `input` to its first end.
    pub fn new(input: R) -> Self {
        Self {
            input,
            has_ended: false,
        }
    }
}

impl<R: Read> Read for Once<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.has_ended {
            return Ok(0);
        }
        let count = self.input.read(buffer)?;
        self.has_ended = count == 0 && !buffer.is_empty();
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives each piece to one read; an empty one is the end, more may follow.
    struct Drops(std::collections::VecDeque<&'static [u8]>);

    impl Read for Drops {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let drop = self.0.pop_front().expect("a read too many");
            buffer[..drop.len()].copy_from_slice(drop);
            Ok(drop.len())
        }
    }

    fn drops(drops: &[&'static [u8]]) -> Drops {
        Drops(drops.iter().copied().collect())
    }

    #[test]
    fn no_byte_is_waited_for_that_decides_nothing() {
        unpack(BufReader::new(drops(&[b"a"]))).unwrap();
        unpack(BufReader::new(drops(&[b"\x1f", b"x"]))).unwrap();
        unpack(BufReader::new(drops(&[b"P\n"]))).unwrap();
        let mut text = String::new();
        unpack(BufReader::new(drops(&[b"\x1f", b"", b"", b""])))
            .unwrap()
            .1
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "\x1f");
    }

    #[test]
    fn a_packed_file_says_how_much_it_holds() {
        let (bytes, directory) = (vec![b'a'; 1 << 20], tempfile::tempdir().unwrap());
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, &bytes).unwrap();
        for packed in [
            gzip.finish().unwrap(),
            zstd::bulk::compress(&bytes, 3).unwrap(),
        ] {
            let path = directory.path().join("packed");
            std::fs::write(&path, &packed).unwrap();
            assert!(packed.len() < 100_000);
            assert_eq!(
                unpacked_bytes(&File::open(&path).unwrap(), packed.len().to_u64()),
                1 << 20
            );
        }
    }

    #[test]
    fn nothing_is_read_after_the_end() {
        let mut input = Once::new(drops(&[b"ab", b""]));
        let mut text = String::new();
        input.read_to_string(&mut text).unwrap();
        input.read_to_string(&mut text).unwrap();
        assert_eq!(text, "ab");
    }

    #[test]
    fn there_is_a_bound_to_unpacking() {
        let mut out = Vec::new();
        assert!(read_bounded(&b"four"[..], 4, &mut out).unwrap());
        assert_eq!(out, b"four");
        assert!(!read_bounded(&b"s"[..], 4, &mut out).unwrap());
        assert!(!read_bounded(&b"fives and more"[..], 4, &mut Vec::new()).unwrap());
    }
}
