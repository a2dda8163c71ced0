//! Packs what is written, as the file that it replaces was packed.

use crate::text::corpus::unpack::Packing;
use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use liblzma::write::XzEncoder;
use lz4_flex::frame::FrameEncoder;
use std::io::{self, BufWriter, Write};

/// Where packed bytes go.
pub type RawOutput<'w> = &'w mut (dyn Write + Send);

/// The default of the `xz` program.
const XZ_LEVEL: u32 = 6;

/// Packs bytes: one frame, member or stream, which every reader understands.
pub enum PackedWriter<'w> {
    /// As they are.
    Plain(BufWriter<RawOutput<'w>>),
    /// gzip.
    Gzip(GzEncoder<BufWriter<RawOutput<'w>>>),
    /// Zstandard, with a checksum.
    Zstd(zstd::Encoder<'static, BufWriter<RawOutput<'w>>>),
    /// xz.
    Xz(XzEncoder<BufWriter<RawOutput<'w>>>),
    /// bzip2.
    Bzip2(BzEncoder<BufWriter<RawOutput<'w>>>),
    /// LZ4.
    Lz4(Box<FrameEncoder<BufWriter<RawOutput<'w>>>>),
}

const BUFFER_BYTES: usize = 1 << 18;

impl<'w> PackedWriter<'w> {
    /// Packs in this way.
    pub fn new(out: RawOutput<'w>, packing: Packing) -> io::Result<Self> {
        let out = BufWriter::with_capacity(BUFFER_BYTES, out);
        Ok(match packing {
            Packing::Plain => Self::Plain(out),
            Packing::Gzip => Self::Gzip(GzEncoder::new(out, flate2::Compression::default())),
            Packing::Zstd => {
                let mut encoder = zstd::Encoder::new(out, zstd::DEFAULT_COMPRESSION_LEVEL)?;
                encoder.include_checksum(true)?;
                Self::Zstd(encoder)
            }
            Packing::Xz => Self::Xz(XzEncoder::new(out, XZ_LEVEL)),
            Packing::Bzip2 => Self::Bzip2(BzEncoder::new(out, bzip2::Compression::best())),
            Packing::Lz4 => Self::Lz4(Box::new(FrameEncoder::new(out))),
        })
    }

    /// Ends a gzip member, and begins another one: in a web archive every record is one. Nothing for other packings.
    pub fn end_member(self) -> io::Result<Self> {
        match self {
            Self::Gzip(encoder) => Ok(Self::Gzip(GzEncoder::new(
                encoder.finish()?,
                flate2::Compression::default(),
            ))),
            other => Ok(other),
        }
    }

    /// Writes the end of what was packed.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(out) => Ok(out),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
            Self::Xz(encoder) => encoder.finish(),
            Self::Bzip2(encoder) => encoder.finish(),
            Self::Lz4(encoder) => encoder.finish().map_err(io::Error::from),
        }?
        .flush()
    }
}

impl Write for PackedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Zstd(encoder) => encoder.write(bytes),
            Self::Xz(encoder) => encoder.write(bytes),
            Self::Bzip2(encoder) => encoder.write(bytes),
            Self::Lz4(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
            Self::Xz(encoder) => encoder.flush(),
            Self::Bzip2(encoder) => encoder.flush(),
            Self::Lz4(encoder) => encoder.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::corpus::unpack::unpack;
    use std::io::{BufReader, Cursor, Read};

    #[test]
    fn what_is_packed_is_read_back_as_it_was() {
        let text: String = (0..9999).map(|number| format!("line {number}\n")).collect();
        for packing in [
            Packing::Plain,
            Packing::Gzip,
            Packing::Zstd,
            Packing::Xz,
            Packing::Bzip2,
            Packing::Lz4,
        ] {
            let mut file = Vec::new();
            let mut packed = PackedWriter::new(&mut file, packing).unwrap();
            packed.write_all(text.as_bytes()).unwrap();
            packed.finish().unwrap();
            assert_eq!(Packing::of(&file), packing);
            let (_, mut input) = unpack(BufReader::new(Cursor::new(file))).unwrap();
            let mut found = String::new();
            input.read_to_string(&mut found).unwrap();
            assert_eq!(found, text, "{packing:?}");
        }
    }

    #[test]
    fn only_gzip_has_members() {
        for (packing, members) in [(Packing::Plain, 0), (Packing::Gzip, 2), (Packing::Zstd, 1)] {
            let mut file = Vec::new();
            let mut packed = PackedWriter::new(&mut file, packing).unwrap();
            for text in ["one", "two"] {
                packed.write_all(text.as_bytes()).unwrap();
                if text == "one" {
                    packed = packed.end_member().unwrap();
                }
            }
            packed.finish().unwrap();
            let starts = |at: &usize| Packing::of(&file[*at..]) != Packing::Plain;
            assert_eq!(
                (0..file.len()).filter(starts).count(),
                members,
                "{packing:?}"
            );
        }
    }
}
