//! Pins: names for generations, which keep their state available.

use super::commit::{is_of_shared_chunks, refused, write_to};
use crate::base::setting::Setting;
use crate::{
    base::error::{Error, Result},
    index::check_pin_name,
};
use std::path::Path;

/// Keeps the state of a generation, or of the last one, under a name until [`unpin`]; a pin of that name moves. Returns the generation.
pub fn pin(directory: &Path, name: &str, generation: Option<u64>) -> Result<u64> {
    let name = check_pin_name(name).map_err(Error::Usage)?;
    write_to(directory, |index| {
        if is_of_shared_chunks(&index) {
            let what = format!(
                "an index of shared chunks: dedup-spex {} writes all of it again, so that no earlier state can be kept",
                Setting::Add
            );
            return Err(refused(directory, what));
        }
        let mut manifest = index.manifest;
        let generation = generation.unwrap_or(manifest.generation);
        manifest.at(directory, generation)?;
        manifest.pins.insert(name.to_owned(), generation);
        Ok((Some(manifest), generation))
    })
}

/// Removes a pin; returns its generation.
pub fn unpin(directory: &Path, name: &str) -> Result<u64> {
    write_to(directory, |index| {
        let mut manifest = index.manifest;
        let generation = manifest
            .pins
            .remove(name)
            .ok_or_else(|| manifest.no_pin(directory, name))?;
        Ok((Some(manifest), generation))
    })
}
