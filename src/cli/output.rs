//! Where results go: stdout, or a file that appears when it is complete.

use super::{cleanup, truncated_files};
use crate::{
    base::files::{self, durable},
    report::{Format, Packed, PackedRecords, RecordTarget},
};
use anyhow::{Context, bail};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, IsTerminal, Write},
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
        ensure_no_spreadsheet(path)?;
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

/// Results that are compressed by the name of their file.
pub type PackedOutput = Packed<Output>;

/// A file of records, whose name tells their format: NDJSON unless it ends with .tsv, .csv or .parquet; all but the last may be packed.
pub struct RecordFile(PackedRecords<Output>);

impl RecordFile {
    pub fn open(path: &Path) -> Result<Self, anyhow::Error> {
        let output = Output::open(Some(path), false)?;
        Ok(Self(PackedRecords::new(path, output)?))
    }

    /// Where records go.
    pub fn target(&mut self) -> RecordTarget<'_> {
        self.0.target()
    }

    /// Makes the file appear under its name.
    pub fn commit(self) -> Result<(), anyhow::Error> {
        self.0.finish()?.commit()
    }
}

impl PackedOutput {
    /// Opens a file, or stdout.
    pub fn open(path: Option<&Path>) -> Result<Self, anyhow::Error> {
        Ok(Self::new(path, Output::open(path, false)?)?)
    }

    /// Opens a file, or stdout, for records of a format.
    pub fn for_records(path: Option<&Path>, format: Format) -> Result<Self, anyhow::Error> {
        let output = Output::open(path, format == Format::Parquet)?;
        Ok(Self::for_format(format, path, output)?)
    }

    /// Writes buffered bytes, and renames the file to its final name.
    pub fn commit(self) -> Result<(), anyhow::Error> {
        self.finish()?.commit()
    }
}

/// A name that promises a format which is not written.
fn ensure_no_spreadsheet(path: &Path) -> Result<(), anyhow::Error> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    if ending.is_some_and(|ending| ["xlsx", "xls", "ods"].contains(&ending)) {
        bail!(
            "{}: this format is not written; {} is a table that spreadsheets open",
            path.display(),
            path.with_extension("csv").display()
        );
    }
    Ok(())
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
