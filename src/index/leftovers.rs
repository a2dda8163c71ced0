//! Which files of a directory belong to an index, and which are left over from a writer that died.

use super::{
    manifest::{Manifest, NAME},
    sections::is_section_file,
};
use crate::base::{
    error::{Error, Place, Result},
    files::LOCK,
};
use std::{fs, path::Path};

/// Refuses a directory that holds an index, or anything that is not ours.
pub fn ensure_new(directory: &Path) -> Result<()> {
    let names = names_in(directory)?;
    if names.iter().any(|name| name == NAME) {
        return Err(Error::damaged(
            Place::path(directory),
            "holds an index already; choose another name, or remove it first",
        ));
    }
    match names.iter().find(|name| !is_ours(name)) {
        Some(name) => Err(Error::damaged(
            Place::path(directory),
            format!("holds '{name}', which is not of an index; choose another name"),
        )),
        None => Ok(()),
    }
}

/// Removes the files of an index that its manifest does not name: those of a writer that died, or
/// that were replaced.
pub fn sweep(directory: &Path, manifest: Option<&Manifest>) -> Result<()> {
    let is_kept = |name: &str| {
        name == LOCK || name == NAME || manifest.is_some_and(|manifest| manifest.names(name))
    };
    for name in names_in(directory)?
        .iter()
        .filter(|name| is_ours(name) && !is_kept(name))
    {
        fs::remove_file(directory.join(name))
            .map_err(|error| Error::io(directory.join(name).display(), error))?;
    }
    Ok(())
}

fn names_in(directory: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|error| Error::io(directory.display(), error))?,
    };
    entries
        .map(|entry| {
            Ok(entry
                .map_err(|error| Error::io(directory.display(), error))?
                .file_name()
                .to_string_lossy()
                .into_owned())
        })
        .collect()
}

/// Whether a file is named as one of an index: a section, the manifest, its successor, the lock.
fn is_ours(name: &str) -> bool {
    [NAME, "manifest.json.new", LOCK].contains(&name) || is_section_file(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::test_files;

    #[test]
    fn an_index_is_not_created_over_other_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        ensure_new(&path.join("missing")).unwrap();
        ensure_new(path).unwrap();
        // What a dead writer left does not count.
        fs::write(path.join("000001.docs"), "").unwrap();
        fs::write(path.join("manifest.json.new"), "").unwrap();
        ensure_new(path).unwrap();
        fs::write(path.join("notes.txt"), "").unwrap();
        let error = ensure_new(path).unwrap_err().to_string();
        assert!(error.contains("holds 'notes.txt'"), "{error}");
        fs::write(path.join(NAME), "").unwrap();
        let error = ensure_new(path).unwrap_err().to_string();
        assert!(error.contains("holds an index already"), "{error}");
    }

    #[test]
    fn only_files_that_no_manifest_names_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let manifest = test_files::commit(path, &[("a", 1, vec![1, 2])], &[]);
        let mut before = names_in(path).unwrap();
        fs::write(path.join("notes.txt"), "").unwrap();
        for leftover in ["000002.docs", "000002.001.part", "manifest.json.new"] {
            fs::write(path.join(leftover), "").unwrap();
        }
        sweep(path, Some(&manifest)).unwrap();
        let mut after = names_in(path).unwrap();
        before.push("notes.txt".to_owned());
        before.sort();
        after.sort();
        assert_eq!(after, before);
        sweep(path, None).unwrap();
        let mut after = names_in(path).unwrap();
        after.sort();
        assert_eq!(after, [NAME, "notes.txt"]);
    }
}
