//! dedup-extract passages: each text that several documents share, once, with all its places.

use super::{
    super::{
        exit_code,
        output::PackedOutput,
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

#[derive(Args, Debug)]
pub struct PassagesArgs {
    /// Least length in tokens [default: the window of the index]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    min_tokens: Option<u32>,
    /// Only the first N passages [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// Leave out passages that are wholly in a document of PATH (repeatable)
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
        let mut out = PackedOutput::open(self.output.file.output.as_deref())?;
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
