//! dedup-extract passages: each text that several documents share, once, with its variants and all its
//! places.

use super::{
    super::{
        exit_code,
        progress::Complaints,
        source::{Reading, SourceArgs},
        watched,
    },
    PROGRAM,
    records::RecordOutputArgs,
    texts::read_again,
};
use crate::commands::{Observer, PassagesOptions, passages};
use clap::Args;
use std::{path::PathBuf, process::ExitCode};

/// The section of the manual.
pub const PASSAGES: &[&str] = &[
    "passages lists each text that several documents share once, with its variants and all its places, instead of pair by pair. Every run of --min-tokens tokens that two documents have in common is in a listed place, wherever it occurs. \
     Tokens are compared exactly, so collisions of blots give no false passages.",
    "A repeat is a run of at least --min-tokens tokens that two or more documents have, and it is maximal: its places are not all preceded, nor all followed, by the same token. Repeats are taken by falling weight (tokens × places), and \
     gathered into families. A repeat whose text is in listed places adds nothing. If in half of its places at least half of its tokens belong to a family, or three quarters to several, it varies the one that has most of them, and its places are added to those of this family. If it lies \
     beside a family, in more than half of its places and of those of the family, it continues the family; beside means a gap of at most --min-tokens tokens, or of a quarter of the shorter of the two. Otherwise it starts a family. \
     Places of a family in one document that overlap or follow each other with such a gap are one place. So a licence in 20,000 files, with another name and another year in each, is one record of 20,000 places.",
    "Families are sorted by the weight of the repeat that started them, the largest first, then by its first place. Repetitions within a document are places, too. Exact duplicates have places of their own; text that occurs only in copies \
     of one document is listed as that whole document. Of DNA both strands are searched, and unknown bases match nothing.",
    "What passages have in common with a document of --taboo PATH (a file or a directory, also NDJSON; repeatable) is cut out of them, where it has --min-tokens tokens or more; what is left is listed if it has as many. With --taboo or \
     --min-tokens, NDJSON starts with a header line: dedup, version, scheme, min_tokens, taboo.",
    "Text that was read by a scanner, or reworded, has few exact repeats. In an index of letters or content words only (--scheme letters:12/winnow:4, --scheme context:3) passages are chains of blots that two documents have in the same \
     order: three or more, with at most 50 tokens between two of them, over at least --min-tokens tokens, and more of them the more documents have each, so that frequent words alone make no passage. The two spans of a chain belong to one family, and so do spans of a document that have in common a third of the longer one. Families \
     are sorted by the number of tokens of all their places; one that is a part of an earlier one, in half of its places, is added to that. Blots of --taboo documents do not count.",
    "The documents are read again: those of PATH…, - for stdin; without PATH the files that the ids name, below --corpus if it is given, or the documents in the files that it names. They must not have changed since they were indexed; \
     documents that have changed or cannot be read are reported, and the status is 2. If only some documents are given, only the passages that these share are listed. Apart from indexes of letters and content words, the index must have \
     all blots (--select all). In addition to --memory this takes about 10 bytes for each blot of several documents, 60 for each document, 50 for each place of a repeat that starts or continues a family, an eighth of a byte for each \
     token, and temporary files of about four times the size of the texts, in the directory that TMPDIR names.",
];

#[derive(Args, Debug)]
pub struct PassagesArgs {
    /// Least length in tokens [default: the window of the index, 20 for letters and context]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    min_tokens: Option<u32>,
    /// Only the first N families [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// Cut out of passages what is in a document of PATH (repeatable)
    #[arg(long, value_name = "PATH")]
    taboo: Vec<PathBuf>,
    /// Where the documents of the index are: a directory, or files (repeatable)
    #[arg(long, value_name = "PATH")]
    corpus: Vec<PathBuf>,
    #[command(flatten)]
    output: RecordOutputArgs,
    #[command(flatten)]
    source: SourceArgs,
}

impl PassagesArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let source = self.source.open(PROGRAM, Reading::Again, false)?;
        let (settings, by_id) = read_again(&self.source, &source, &self.corpus);
        let options = PassagesOptions {
            min_tokens: self.min_tokens,
            taboo: self.taboo.clone(),
            top: self.top.map(u64::from),
            format: self.output.format(),
            memory_bytes: self.source.making.memory_bytes(),
            by_id,
        };
        let mut out = self.output.open()?;
        let work = |watch: &mut dyn Observer| {
            Ok::<_, anyhow::Error>(passages(
                &source.index,
                &options,
                &settings,
                &mut out,
                watch,
            )?)
        };
        let run = self.source.run(settings.corpus.paths.clone());
        // Without documents stdin is not read, so that nothing need be said of it.
        let summary = match options.by_id {
            Some(_) => Complaints::watch(PROGRAM.to_owned(), &run, work)?,
            None => watched(PROGRAM, &run, true, work)?,
        };
        out.commit()?;
        Ok(exit_code(summary.problems, self.source.read.skip_bad))
    }
}
