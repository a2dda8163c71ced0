//! What a path that does not exist may have been meant to be.

use std::path::{Path, PathBuf};

/// Directories with more entries are not searched for names.
const MOST_ENTRIES: usize = 20_000;

/// A path that exists, and differs in a few letters of one of its names: at most one in three.
pub fn similar_path(path: &Path) -> Option<PathBuf> {
    let parents = path.ancestors().skip(1);
    let missing = path
        .ancestors()
        .zip(parents)
        .find(|(_, parent)| parent.as_os_str().is_empty() || parent.exists());
    let (wrong, parent) = missing?;
    let name = wrong.file_name()?.to_str()?.to_lowercase();
    let directory = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    let entries = directory.read_dir().ok()?.take(MOST_ENTRIES);
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let distances = names.map(|entry| {
        (
            strsim::damerau_levenshtein(&entry.to_lowercase(), &name),
            entry,
        )
    });
    let (_, likely) = distances
        .filter(|(distance, entry)| 3 * distance <= entry.chars().count())
        .min()?;
    // What comes after the wrong name may be right.
    let rest = path.strip_prefix(wrong).ok()?;
    let likely = parent.join(likely);
    Some(likely.join(rest))
        .filter(|whole| !rest.as_os_str().is_empty() && whole.exists())
        .or(Some(likely))
}

/// What a message about a missing path adds.
pub fn did_you_mean(path: &Path) -> String {
    similar_path(path).map_or_else(String::new, |likely| {
        format!("; did you mean {}?", likely.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn misspelt_paths() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("essays/2026")).unwrap();
        fs::write(at("essays/2026/lund.txt"), "a text").unwrap();
        let likely = |name| similar_path(&at(name));
        assert_eq!(likely("esays"), Some(at("essays")));
        assert_eq!(likely("Essays"), Some(at("essays")));
        assert_eq!(
            likely("esays/2026/lund.txt"),
            Some(at("essays/2026/lund.txt"))
        );
        assert_eq!(likely("esays/2025/lund.txt"), Some(at("essays")));
        assert_eq!(
            likely("essays/2026/land.txt"),
            Some(at("essays/2026/lund.txt"))
        );
        assert_eq!(likely("newspapers"), None);
        assert_eq!(likely("essays/2026/bread.txt"), None);
    }
}
