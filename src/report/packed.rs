//! Files of records: their names say how they are packed and written.

use super::{Format, RecordTarget};
use flate2::{Compression, write::GzEncoder};
use std::{
    ffi::OsStr,
    io::{self, BufWriter, IntoInnerError, Write},
    path::Path,
};

/// An output that is compressed by its name: `.gz`, `.zst`, or not at all.
pub enum Packed<W: Write> {
    /// Not compressed.
    Plain(BufWriter<W>),
    /// Compressed as gzip does.
    Gzip(BufWriter<GzEncoder<W>>),
    /// Compressed as zstd does.
    Zstd(BufWriter<zstd::Encoder<'static, W>>),
}

/// Many small records make few large writes.
const BUFFER_BYTES: usize = 1 << 18;

impl<W: Write> Packed<W> {
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

    /// Writes buffered bytes, and ends the compressed stream.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Self::Plain(out) => unbuffered(out),
            Self::Gzip(out) => unbuffered(out)?.finish(),
            Self::Zstd(out) => unbuffered(out)?.finish(),
        }
    }
}

fn unbuffered<W: Write>(out: BufWriter<W>) -> io::Result<W> {
    out.into_inner().map_err(IntoInnerError::into_error)
}

impl<W: Write> Write for Packed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(out) => out.write(bytes),
            Self::Zstd(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(out) => out.flush(),
            Self::Zstd(out) => out.flush(),
        }
    }
}

/// Records in a file whose name tells their format: NDJSON unless it ends with .tsv, .csv or .parquet; all but the last may be packed.
pub struct PackedRecords<W: Write> {
    format: RecordFormat,
    out: Packed<W>,
}

enum RecordFormat {
    Lines(Format),
    #[cfg(feature = "parquet")]
    Table,
}

impl<W: Write + Send> PackedRecords<W> {
    /// Writes records to `out` as the name of a file says.
    pub fn new(name: &Path, out: W) -> io::Result<Self> {
        let out = Packed::new(Some(name), out)?;
        let name = name.to_string_lossy().to_lowercase();
        let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
        let has_it = |format: &&Format| name.ends_with(&format!(".{}", format.name()));
        let format = Format::ALL.iter().find(has_it);
        let format = RecordFormat::Lines(format.copied().unwrap_or(Format::Ndjson));
        #[cfg(feature = "parquet")]
        let format = if name.ends_with(".parquet") {
            RecordFormat::Table
        } else {
            format
        };
        Ok(Self { format, out })
    }

    /// Where records go.
    pub fn target(&mut self) -> RecordTarget<'_> {
        match self.format {
            RecordFormat::Lines(format) => RecordTarget::Lines(format, &mut self.out),
            #[cfg(feature = "parquet")]
            RecordFormat::Table => RecordTarget::NewTable(&mut self.out),
        }
    }

    /// Writes buffered bytes, and ends the compressed stream.
    pub fn finish(self) -> io::Result<W> {
        self.out.finish()
    }
}
