//! A file that is one document.

use super::{CopyError, RecordFate, RecordFates, lines::cut_bytes, pack::RawOutput};
use crate::text::corpus::walk::FileEntry;
use std::io::{self, Read};

/// Copies the file as it is, unless passages are cut out of it. That it stays was decided before.
pub fn copy(
    entry: &FileEntry,
    fates: &mut dyn RecordFates,
    out: RawOutput<'_>,
) -> Result<(), CopyError> {
    let mut file = entry.open().map_err(|error| CopyError::reading(&error))?;
    match fates.fate(0)? {
        RecordFate::Drop => Ok(()),
        RecordFate::Change(change) if !change.cuts.is_empty() => {
            let (mut text, mut cut) = (Vec::new(), Vec::new());
            file.read_to_end(&mut text)
                .map_err(|error| CopyError::reading(&error))?;
            cut_bytes(&text, change.cuts, &mut cut);
            out.write_all(&cut).map_err(CopyError::Output)
        }
        RecordFate::Keep | RecordFate::Change(_) => io::copy(&mut file, out)
            .map(drop)
            .map_err(CopyError::Output),
    }
}
