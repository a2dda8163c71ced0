//! dedup-extract spans: the bytes of each document that an earlier one has.

use super::{
    super::{
        exit_code,
        source::{Reading, SourceArgs},
        watched,
    },
    PROGRAM,
    records::RecordOutputArgs,
};
use crate::commands::spans;
use clap::Args;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct SpansArgs {
    #[command(flatten)]
    output: RecordOutputArgs,
    #[command(flatten)]
    source: SourceArgs,
}

impl SpansArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let source = self.source.open(PROGRAM, Reading::Again, false)?;
        let is_dna = source.index.scheme.tokens.is_dna();
        let run = self.source.run(source.paths.clone());
        let settings = self.source.settings(source.paths.clone(), is_dna);
        let mut out = self.output.open()?;
        let summary = watched(PROGRAM, &run, true, |watch| {
            let format = self.output.format();
            Ok(spans(&source.index, format, &settings, &mut out, watch)?)
        })?;
        out.commit()?;
        Ok(exit_code(summary.problems, self.source.read.skip_bad))
    }
}
