//! Unpacks compressed input.
//!
//! The first bytes decide, so that stdin and oddly named files work too. Files of several members or
//! frames are read to their end. What is compressed twice is unpacked twice, and no more than
//! [`MOST_LAYERS`] times.
//!
//! To add a compression: a variant of [`Packing`], a row of [`PACKINGS`], and its decoder.

use super::walk::FileEntry;
use crate::base::num::ToU64;
use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use lz4_flex::frame::FrameDecoder;
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsStr,
    fs::File,
    io::{self, BufRead, BufReader, Chain, Cursor, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

const BUFFER_BYTES: usize = 1 << 17;
/// How often an input is unpacked at most.
const MOST_LAYERS: usize = 4;
/// The longest signature of a compression.
const SIGNATURE_BYTES: usize = 10;

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
    /// xz, one or more streams.
    Xz,
    /// bzip2, one or more streams.
    Bzip2,
    /// LZ4 frames, one or more.
    Lz4,
}

/// What tells a compression: its name in messages, the endings of file names, and the first bytes, of
/// which `None` stands for any.
struct PackingRow {
    packing: Packing,
    name: &'static str,
    /// An ending, and what stands in its place for the content: `.tgz` is `.tar`.
    endings: &'static [(&'static str, &'static str)],
    signatures: &'static [&'static [Option<u8>]],
}

const PACKINGS: [PackingRow; 5] = [
    PackingRow {
        packing: Packing::Gzip,
        name: "gzip",
        endings: &[("gz", ""), ("tgz", "tar")],
        signatures: &[&[Some(0x1f), Some(0x8b), Some(0x08)]],
    },
    PackingRow {
        packing: Packing::Zstd,
        name: "zstd",
        endings: &[("zst", ""), ("zstd", ""), ("tzst", "tar")],
        signatures: &[&[Some(0x28), Some(0xb5), Some(0x2f), Some(0xfd)]],
    },
    PackingRow {
        packing: Packing::Xz,
        name: "xz",
        endings: &[("xz", ""), ("txz", "tar")],
        signatures: &[&[
            Some(0xfd),
            Some(b'7'),
            Some(b'z'),
            Some(b'X'),
            Some(b'Z'),
            Some(0),
        ]],
    },
    PackingRow {
        packing: Packing::Bzip2,
        name: "bzip2",
        endings: &[("bz2", ""), ("tbz2", "tar"), ("tbz", "tar")],
        // The digit is the block size; then comes pi for a block, or its square root for an empty stream.
        signatures: &[
            &[
                Some(b'B'),
                Some(b'Z'),
                Some(b'h'),
                None,
                Some(0x31),
                Some(0x41),
                Some(0x59),
                Some(0x26),
                Some(0x53),
                Some(0x59),
            ],
            &[
                Some(b'B'),
                Some(b'Z'),
                Some(b'h'),
                None,
                Some(0x17),
                Some(0x72),
                Some(0x45),
                Some(0x38),
                Some(0x50),
                Some(0x90),
            ],
        ],
    },
    PackingRow {
        packing: Packing::Lz4,
        name: "lz4",
        endings: &[("lz4", "")],
        signatures: &[&[Some(0x04), Some(0x22), Some(0x4d), Some(0x18)]],
    },
];

/// How the first bytes of an input compare with those of a compression.
enum SignatureMatch {
    No,
    Prefix,
    Yes,
}

fn compare(head: &[u8], signature: &[Option<u8>]) -> SignatureMatch {
    let is_alike = |(byte, expected): (&u8, &Option<u8>)| expected.is_none_or(|it| it == *byte);
    if !head.iter().zip(signature).all(is_alike) {
        SignatureMatch::No
    } else if head.len() < signature.len() {
        SignatureMatch::Prefix
    } else {
        SignatureMatch::Yes
    }
}

/// Skippable zstd frames start with one of sixteen numbers; pzstd and the seekable format put one first. LZ4
/// has the same ones, but no program puts them first there.
fn skippable_frame(head: &[u8]) -> SignatureMatch {
    match head.first() {
        Some(first) if first & 0xf0 != 0x50 => SignatureMatch::No,
        _ => compare(head, &[None, Some(0x2a), Some(0x4d), Some(0x18)]),
    }
}

impl Packing {
    /// The packing, by the first bytes of a file.
    pub fn of(head: &[u8]) -> Self {
        let has_signature = |row: &&PackingRow| {
            let is_it = |of: &&[Option<u8>]| matches!(compare(head, of), SignatureMatch::Yes);
            row.signatures.iter().any(is_it)
        };
        if matches!(skippable_frame(head), SignatureMatch::Yes) {
            return Self::Zstd;
        }
        PACKINGS
            .iter()
            .find(has_signature)
            .map_or(Self::Plain, |row| row.packing)
    }

    /// Whether more bytes may show that these begin something packed.
    fn is_undecided(head: &[u8]) -> bool {
        let may_begin =
            |signature: &[Option<u8>]| matches!(compare(head, signature), SignatureMatch::Prefix);
        head.len() < SIGNATURE_BYTES
            && Self::of(head) == Self::Plain
            && (matches!(skippable_frame(head), SignatureMatch::Prefix)
                || PACKINGS
                    .iter()
                    .any(|row| row.signatures.iter().any(|of| may_begin(of))))
    }

    /// What messages call it.
    pub fn name(self) -> &'static str {
        PACKINGS
            .iter()
            .find(|row| row.packing == self)
            .map_or("text", |row| row.name)
    }

    /// What a file's name promises, and the name without that: `a.txt` for `a.txt.gz`, `a.tar` for `a.tgz`.
    fn split_name(path: &Path) -> Option<(Self, PathBuf)> {
        let (packing, inner) = Self::ending_of(path)?;
        Some((packing, path.with_extension(inner)))
    }

    /// What a file's name promises, and the ending that takes the place of that. It is called for each file, so it makes no string.
    fn ending_of(path: &Path) -> Option<(Self, &'static str)> {
        let ending = path.extension()?.as_encoded_bytes();
        PACKINGS.iter().find_map(|row| {
            let is_known = |(known, _): &&(&str, _)| known.as_bytes().eq_ignore_ascii_case(ending);
            let (_, inner) = row.endings.iter().find(is_known)?;
            Some((row.packing, *inner))
        })
    }

    /// What a file's name promises.
    pub fn of_name(path: &Path) -> Self {
        Self::ending_of(path).map_or(Self::Plain, |(packing, _)| packing)
    }
}

/// A file name without the directory and without the endings of what the file is packed in.
pub fn inner_name(path: &Path) -> PathBuf {
    let mut name = PathBuf::from(path.file_name().unwrap_or(OsStr::new("")));
    while let Some((_, inner)) = Packing::split_name(&name) {
        name = inner;
    }
    name
}

/// An input of any kind, unpacked.
pub type Input = Box<dyn BufRead + Send>;

/// The contents of `input`, unpacked where they are packed, and what they are packed in: the outermost layer.
pub fn unpack(input: impl BufRead + Send + 'static) -> io::Result<(Packing, Input)> {
    let (outermost, mut input) = unpack_layer(Box::new(input))?;
    let mut packing = outermost;
    for _ in 1..MOST_LAYERS {
        if packing == Packing::Plain {
            break;
        }
        (packing, input) = unpack_layer(input)?;
    }
    Ok((outermost, input))
}

/// The contents of `input`, unpacked by one layer.
pub fn unpack_once(input: Input) -> io::Result<Input> {
    unpack_layer(input).map(|(_, unpacked)| unpacked)
}

/// Whether unpacking a file once is not enough.
pub fn is_packed_twice(entry: &FileEntry) -> io::Result<bool> {
    let (outer, input) = unpack_layer(Box::new(BufReader::new(entry.open()?)))?;
    Ok(outer != Packing::Plain && unpack_layer(input)?.0 != Packing::Plain)
}

fn unpack_layer(input: Input) -> io::Result<(Packing, Input)> {
    let (head, input) = peek(input, Packing::is_undecided)?;
    let packing = Packing::of(&head);
    if packing == Packing::Plain {
        return Ok((packing, Box::new(input)));
    }
    let unpacked = BufReader::with_capacity(BUFFER_BYTES, decoder(input, packing)?);
    Ok((packing, Box::new(unpacked)))
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
    if needs_more(&head)
        && let Ok(first) = input.fill_buf()
        && let Some(enough) = (1..=first.len()).find(|&count| !needs_more(&first[..count]))
    {
        // What came at once stays together, for those who look at more of it.
        head.extend_from_slice(&first[..enough]);
        return Ok((head, Cursor::new(Vec::new()).chain(input)));
    }
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
pub fn decoder<'a>(
    packed: impl BufRead + Send + 'a,
    packing: Packing,
) -> io::Result<Box<dyn Read + Send + 'a>> {
    Ok(match packing {
        Packing::Plain => Box::new(packed),
        Packing::Gzip => Box::new(MultiGzDecoder::new(packed)),
        Packing::Zstd => Box::new(zstd::Decoder::with_buffer(packed)?),
        Packing::Xz => Box::new(XzDecoder::new_multi_decoder(packed)),
        Packing::Bzip2 => Box::new(MultiBzDecoder::new(packed)),
        Packing::Lz4 => Box::new(Lz4Frames(Some(FrameDecoder::new(packed)))),
    })
}

/// Reads one LZ4 frame after the other; the decoder stops after each.
struct Lz4Frames<R: BufRead>(Option<FrameDecoder<R>>);

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.0 {
            let count = decoder.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(mut rest) = self.0.take().map(FrameDecoder::into_inner) else {
                break;
            };
            if !rest.fill_buf()?.is_empty() {
                self.0 = Some(FrameDecoder::new(rest));
            }
        }
        Ok(0)
    }
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
        Packing::Gzip | Packing::Zstd | Packing::Xz | Packing::Bzip2 | Packing::Lz4 => guess,
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
