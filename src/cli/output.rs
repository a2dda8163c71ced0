//! Where results go: stdout, or a file that appears when it is complete.

use super::{cleanup, truncated_files};
use crate::{
    base::files::{self, durable},
    report::{Format, RecordTarget},
};
use anyhow::{Context, bail};
use flate2::{Compression, write::GzEncoder};
use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, IntoInnerError, IsTerminal, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;

pub enum Output {
    Stdout(File),
    /// A device or a pipe that was named: there is nothing to rename.
    Direct(File, PathBuf),
    Beside(Box<NamedTempFile>, PathBuf),
}

impl Output {
    pub fn open(path: Option<&Path>, is_binary: bool) -> Result<Self, anyhow::Error> {
        let Some(path) = path.filter(|path| path.as_os_str() != "-") else {
            if is_binary && io::stdout().is_terminal() {
                bail!(
                    "the binary form is not for terminals; write it to a file with -o, or to a pipe"
                );
            }
            // Not io::stdout(): callers write large blocks, which need no line buffering.
            return Ok(Self::Stdout(
                io::stdout()
                    .as_fd()
                    .try_clone_to_owned()
                    .context("stdout")?
                    .into(),
            ));
        };
        let context = || path.display().to_string();
        if path
            .metadata()
            .is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
        {
            return Ok(Self::Direct(
                OpenOptions::new()
                    .write(true)
                    .open(path)
                    .with_context(context)?,
                path.to_owned(),
            ));
        }
        if path.is_dir() {
            bail!(
                "{}: is a directory; give -o the name of a file",
                path.display()
            );
        }
        // Replace the target of a link, not the link.
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let beside = temporary(path).with_context(context)?;
        truncated_files::remove_on_fault(beside.path());
        cleanup::remove_on_signal(beside.path());
        Ok(Self::Beside(Box::new(beside), path.to_owned()))
    }

    /// Makes the file appear under its name.
    pub fn commit(self) -> Result<(), anyhow::Error> {
        files::ensure_whole()?;
        if let Self::Beside(file, path) = self {
            let context = || path.display().to_string();
            file.as_file().sync_all().with_context(context)?;
            let beside = file.path().to_owned();
            file.persist(&path)
                .map_err(|error| error.error)
                .with_context(context)?;
            cleanup::forget(&beside);
            durable::sync_dir(durable::parent_of(&path))?;
        }
        Ok(())
    }

    fn name(&self) -> String {
        match self {
            Self::Stdout(_) => "stdout".to_owned(),
            Self::Direct(_, path) | Self::Beside(_, path) => path.display().to_string(),
        }
    }
}

/// An output that is compressed by its name: `.gz`, `.zst`, or not at all.
pub enum Packed {
    Plain(BufWriter<Output>),
    Gzip(BufWriter<GzEncoder<Output>>),
    Zstd(BufWriter<zstd::Encoder<'static, Output>>),
}

/// A file of records, whose name tells their format: NDJSON unless it ends with .tsv, .csv or .parquet; all but the last may be packed.
pub struct RecordFile {
    format: RecordFormat,
    out: Packed,
}

enum RecordFormat {
    Lines(Format),
    #[cfg(feature = "parquet")]
    Table,
}

impl RecordFile {
    pub fn open(path: &Path) -> Result<Self, anyhow::Error> {
        let out = Packed::open(Some(path))?;
        let name = path.to_string_lossy().to_lowercase();
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

    /// Makes the file appear under its name.
    pub fn commit(self) -> Result<(), anyhow::Error> {
        self.out.commit()
    }
}

/// Many small records make few large writes.
const BUFFER_BYTES: usize = 1 << 18;

impl Packed {
    pub fn open(path: Option<&Path>) -> Result<Self, anyhow::Error> {
        let output = Output::open(path, false)?;
        Ok(
            match path.and_then(Path::extension).and_then(OsStr::to_str) {
                Some("gz") => Self::Gzip(BufWriter::with_capacity(
                    BUFFER_BYTES,
                    GzEncoder::new(output, Compression::default()),
                )),
                Some("zst") => {
                    let mut encoder = zstd::Encoder::new(output, zstd::DEFAULT_COMPRESSION_LEVEL)?;
                    encoder.include_checksum(true)?;
                    Self::Zstd(BufWriter::with_capacity(BUFFER_BYTES, encoder))
                }
                _ => Self::Plain(BufWriter::with_capacity(BUFFER_BYTES, output)),
            },
        )
    }

    /// Writes buffered bytes, and renames the file to its final name.
    pub fn commit(self) -> Result<(), anyhow::Error> {
        match self {
            Self::Plain(out) => unbuffered(out)?,
            Self::Gzip(out) => unbuffered(out)?.finish()?,
            Self::Zstd(out) => unbuffered(out)?.finish()?,
        }
        .commit()
    }
}

fn unbuffered<W: Write>(out: BufWriter<W>) -> io::Result<W> {
    out.into_inner().map_err(IntoInnerError::into_error)
}

impl Write for Packed {
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

/// Gives a temporary file the permissions of a normal new file.
fn temporary(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".dedup-").suffix(".tmp");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(durable::parent_of(path))
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self {
            Self::Stdout(file) | Self::Direct(file, _) => file.write(bytes),
            Self::Beside(file, _) => file.write(bytes),
        };
        written.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.name())))
    }

    /// Nothing is held back.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// 1234567 as 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(String::from_utf8_lossy)
        .collect();
    groups.join(",")
}
