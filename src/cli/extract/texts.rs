//! Where verbs that read documents again find them.

use super::super::{
    exclusions::{ExcludeArgs, PassageArgs},
    source::{Source, SourceArgs},
};
use crate::{
    base::{error::Result, parallel::Limits},
    commands::{Observer, PassageOptions, Preset, Settings},
};
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

/// The flags of verbs that align the texts of each pair.
pub struct AlignedTexts<'a> {
    /// How the source is read.
    pub args: &'a SourceArgs,
    /// The source.
    pub source: &'a Source,
    /// Where the documents of an index are.
    pub corpus: &'a [PathBuf],
    /// Offsets count characters.
    pub in_chars: bool,
    /// Tables say how each passage begins.
    pub with_excerpts: bool,
    /// Which passages count.
    pub passage: &'a PassageArgs,
    /// Which text does not count.
    pub excluded: &'a ExcludeArgs,
}

impl AlignedTexts<'_> {
    /// The options for aligning; reads the files of text that does not count.
    pub fn options(&self, limits: Limits, watch: &mut dyn Observer) -> Result<PassageOptions> {
        let passages = PassageOptions {
            corpus: self.source.corpus(self.corpus),
            in_chars: self.in_chars,
            with_excerpts: self.with_excerpts,
            reading: self.args.run(Vec::new()).input.options(false),
            ..PassageOptions::default()
        };
        let settings = Settings {
            limits,
            ..self.args.settings(Vec::new(), false)
        };
        let passages = passages.of_index(&self.source.index)?;
        let preset = Preset::of_index(&self.source.index)?;
        self.passage.apply(
            preset,
            &self.excluded.base,
            passages,
            true,
            &settings,
            watch,
        )
    }
}
