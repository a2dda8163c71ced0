//! dedup-extract exact: documents with the same tokens.

use super::{
    super::source::{Reading, SourceArgs},
    PROGRAM,
    records::{RecordOutputArgs, write_records},
};
use crate::{
    commands::{Extract, ExtractOptions, LeaveOut},
    similar::CommonTextRule,
    similar::Score,
};
use clap::Args;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct ExactArgs {
    #[command(flatten)]
    output: RecordOutputArgs,
    #[command(flatten)]
    source: SourceArgs,
}

impl ExactArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let source = self.source.open(PROGRAM, Reading::Never, false)?;
        let options = ExtractOptions {
            what: Extract::Exact(self.output.format()),
            score: Score::Containment,
            threshold: Score::Containment.default_threshold(),
            common: CommonTextRule::Counts,
            limits: self.source.limits(),
        };
        let output = self.output.open()?;
        write_records(
            &self.source,
            &source,
            &options,
            &LeaveOut::default(),
            output,
        )
    }
}
