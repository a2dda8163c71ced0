//! Where verbs that read all documents once more find them.

use super::super::source::{Source, SourceArgs};
use crate::commands::Settings;
use std::path::PathBuf;

/// How the documents of a source are read; and if they are the files that ids name, below which
/// directories.
pub fn read_again(
    args: &SourceArgs,
    source: &Source,
    corpus: &[PathBuf],
) -> (Settings, Option<Vec<PathBuf>>) {
    let is_dna = source.index.scheme.tokens.is_dna();
    // Files of a corpus with a document a line are read as if they were given after the index.
    let has_files = corpus.iter().any(|path| !path.is_dir());
    let paths = match (source.paths.is_empty(), has_files) {
        (false, _) => source.paths.clone(),
        (true, true) => corpus.to_vec(),
        (true, false) => return (args.settings(Vec::new(), is_dna), Some(corpus.to_vec())),
    };
    (args.settings(paths, is_dna), None)
}
