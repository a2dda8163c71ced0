//! Files of records: their names say how they are packed and written.

#[cfg(feature = "parquet")]
use super::ParquetLines;
use super::{Format, RecordTarget};
use flate2::{Compression, write::GzEncoder};
use std::{
    ffi::OsStr,
    io::{self, BufWriter, IntoInnerError, Write},
    path::Path,
};

/// An output that is compressed by its name: `.gz`, `.zst`, or not at all; or a Parquet table.
pub enum Packed<W: Write + Send> {
    /// Not compressed.
    Plain(BufWriter<W>),
    /// Compressed as gzip does.
    Gzip(BufWriter<GzEncoder<W>>),
    /// Compressed as zstd does.
    Zstd(BufWriter<zstd::Encoder<'static, W>>),
    /// What [`Parquet`](super::Parquet) writes, as columns.
    #[cfg(feature = "parquet")]
    Table(Box<ParquetLines<W>>),
}

/// Many small records make few large writes.
const BUFFER_BYTES: usize = 1 << 18;

impl<W: Write + Send> Packed<W> {
    /// Packs what goes to `out` as the name of a file says.
    pub fn new(name: Option<&Path>, out: W) -> io::Result<Self> {
        Ok(
            match name.and_then(Path::extension).and_then(OsStr::to_str) {
                Some("gz") => Self::Gzip(BufWriter::with_capacity(
                    BUFFER_BYTES,
                    GzEncoder::new(out, Compression::default()),
                )),
                Some("zst") => {
                    let mut encoder = zstd::Encoder::new(out, zstd::DEFAULT_COMPRESSION_LEVEL)?;
                    encoder.include_checksum(true)?;
                    Self::Zstd(BufWriter::with_capacity(BUFFER_BYTES, encoder))
                }
                _ => Self::Plain(BufWriter::with_capacity(BUFFER_BYTES, out)),
            },
        )
    }

    /// Takes records of a format to `out`, packed as the name of a file says. A Parquet table has a compression of its own.
    pub fn for_format(format: Format, name: Option<&Path>, out: W) -> io::Result<Self> {
        match format {
            #[cfg(feature = "parquet")]
            Format::Parquet => Ok(Self::Table(Box::new(ParquetLines::new(out)))),
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => Err(io::Error::other("this program was built without Parquet")),
            _ => Self::new(name, out),
        }
    }

    /// Writes buffered bytes, and ends the compressed stream.
    pub fn finish(self) -> io::Result<W> {
        match self {
            #[cfg(feature = "parquet")]
            Self::Table(table) => table.finish(),
            Self::Plain(out) => unbuffered(out),
            Self::Gzip(out) => unbuffered(out)?.finish(),
            Self::Zstd(out) => unbuffered(out)?.finish(),
        }
    }
}

fn unbuffered<W: Write>(out: BufWriter<W>) -> io::Result<W> {
    out.into_inner().map_err(IntoInnerError::into_error)
}

impl<W: Write + Send> Write for Packed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            #[cfg(feature = "parquet")]
            Self::Table(table) => table.write(bytes),
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(out) => out.write(bytes),
            Self::Zstd(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            #[cfg(feature = "parquet")]
            Self::Table(table) => table.flush(),
            Self::Plain(out) => out.flush(),
            Self::Gzip(out) => out.flush(),
            Self::Zstd(out) => out.flush(),
        }
    }
}

/// Records in a file whose name tells their format: NDJSON unless it ends with .tsv, .csv or .parquet; all but the last may be packed.
pub struct PackedRecords<W: Write + Send> {
    format: Format,
    out: Packed<W>,
}

impl<W: Write + Send> PackedRecords<W> {
    /// Writes records to `out` as the name of a file says.
    pub fn new(name: &Path, out: W) -> io::Result<Self> {
        let format = Format::of_file(name).unwrap_or(Format::Ndjson);
        let out = Packed::for_format(format, Some(name), out)?;
        Ok(Self { format, out })
    }

    /// Where records go.
    pub fn target(&mut self) -> RecordTarget<'_> {
        RecordTarget {
            format: self.format,
            out: &mut self.out,
        }
    }

    /// Writes buffered bytes, and ends the compressed stream or the table.
    pub fn finish(self) -> io::Result<W> {
        self.out.finish()
    }
}
