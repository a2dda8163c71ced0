//! Which files of a directory are read: globs of the user, `.gitignore` files, hidden files.
//!
//! Globs are those of `.gitignore`: without a slash they match a name at any depth, with one a path from the root, and
//! with a slash at the end a directory.

use super::{
    Options,
    skipped_kind::{SkippedKind, extension},
    unpack::inner_name,
};
use crate::base::error::{Error, Result};
use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
    overrides::{Override, OverrideBuilder},
};
use std::path::{Component, Path};

/// Chooses files below a root.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    globs: Override,
    is_hidden_wanted: bool,
    reads_gitignore: bool,
    /// The rules of the directories on the way to the current one, with their depths.
    ignored: Vec<(usize, Gitignore)>,
}

impl Selection {
    /// For files below a root, which is empty for members of an archive.
    pub fn new(options: &Options, root: &Path) -> Result<Self> {
        let mut selection = Self {
            globs: globs(options, root)?,
            is_hidden_wanted: options.hidden,
            reads_gitignore: options.gitignore,
            ignored: Vec::new(),
        };
        if options.gitignore {
            selection.ignored = rules_above(root);
        }
        Ok(selection)
    }

    /// Why a file or directory is passed over. Paths must come in the order of a walk: a directory before what is in it.
    pub fn skip_kind(&mut self, path: &Path, depth: usize, is_dir: bool) -> Option<SkippedKind> {
        let is_hidden = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b".");
        if !self.is_hidden_wanted && depth > 0 && path.file_name().is_some_and(is_hidden) {
            return Some(SkippedKind::Hidden);
        }
        // An archive is a directory: its members are chosen one by one.
        let is_like_dir = is_dir || is_archive(path);
        if depth > 0 && self.globs.matched(path, is_like_dir).is_ignore() {
            return Some(SkippedKind::Excluded);
        }
        self.ignored.retain(|(of, _)| *of < depth || *of == ABOVE);
        if depth > 0 && self.is_ignored(path, is_dir) {
            return Some(SkippedKind::Gitignored);
        }
        if is_dir && self.reads_gitignore {
            let rules = path.join(GITIGNORE);
            if rules.is_file() {
                self.ignored.push((depth, Gitignore::new(rules).0));
            }
        }
        None
    }

    /// Why a file that the user named, or a member of an archive, is passed over.
    pub fn skip_file(&self, path: &Path) -> Option<SkippedKind> {
        let is_excluded = self.globs.matched(path, is_archive(path)).is_ignore();
        is_excluded.then_some(SkippedKind::Excluded)
    }

    /// Why a member of an archive is passed over.
    pub fn skip_member(&self, path: &Path) -> Option<SkippedKind> {
        let is_hidden = |part: Component<'_>| match part {
            Component::Normal(name) => {
                name.as_encoded_bytes().starts_with(b".") || name == "__MACOSX"
            }
            _ => false,
        };
        if !self.is_hidden_wanted && path.components().any(is_hidden) {
            return Some(SkippedKind::Hidden);
        }
        // No walk passes over the directories of an archive.
        let mut directories = path.ancestors().skip(1);
        let is_excluded = |it: &Path| self.globs.matched(it, true).is_ignore();
        if directories.any(|it| !it.as_os_str().is_empty() && is_excluded(it)) {
            return Some(SkippedKind::Excluded);
        }
        self.skip_file(path)
    }

    /// Whether the nearest rule that speaks of a path says so.
    fn is_ignored(&self, path: &Path, is_dir: bool) -> bool {
        let matches = self.ignored.iter().rev();
        let first = matches
            .map(|(_, rules)| rules.matched(path, is_dir))
            .find(|found| !found.is_none());
        matches!(first, Some(Match::Ignore(_)))
    }
}

fn is_archive(path: &Path) -> bool {
    let ending = extension(&inner_name(path));
    matches!(ending.as_deref(), Some("tar" | "zip"))
}

const GITIGNORE: &str = ".gitignore";
/// The depth of directories above the root.
const ABOVE: usize = usize::MAX;

fn globs(options: &Options, root: &Path) -> Result<Override> {
    let wrong = |error: ignore::Error| Error::Usage(error.to_string());
    let mut builder = OverrideBuilder::new(root);
    for glob in &options.include {
        builder.add(glob).map_err(wrong)?;
    }
    for glob in &options.exclude {
        builder.add(&format!("!{glob}")).map_err(wrong)?;
    }
    builder.build().map_err(wrong)
}

/// The rules of the directories above a root, as far as they belong to its repository.
fn rules_above(root: &Path) -> Vec<(usize, Gitignore)> {
    let Ok(root) = root.canonicalize() else {
        return Vec::new();
    };
    let mut rules = Vec::new();
    let mut directory = root.as_path();
    while !directory.join(".git").exists() {
        let Some(parent) = directory.parent() else {
            // No repository: its rules would be those of strangers.
            return Vec::new();
        };
        let file = parent.join(GITIGNORE);
        if file.is_file() {
            let mut builder = GitignoreBuilder::new(parent);
            // A rule that cannot be read is no rule, as in git.
            let _ = builder.add(file);
            rules.extend(builder.build().ok().map(|rules| (ABOVE, rules)));
        }
        directory = parent;
    }
    rules.reverse();
    rules
}
