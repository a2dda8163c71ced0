//! dedup-extract blots: the blots that most documents have.

use super::{
    super::{
        args::MORE,
        source::{Reading, SourceArgs},
        threshold::parse_number,
    },
    PROGRAM,
    records::{RecordOutputArgs, write_records},
};
use crate::{
    commands::{Extract, ExtractOptions, LeaveOut},
    similar::Score,
};
use clap::Args;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct BlotsArgs {
    /// Only blots with X standard deviations more documents than the mean
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = parse_number)]
    sigma: Option<f64>,
    /// What pairs ignores as boilerplate instead: sets of documents, and how many blots they share
    #[arg(long, conflicts_with_all = ["sigma", "max_df"])]
    boilerplate: bool,
    #[command(flatten)]
    output: RecordOutputArgs,
    /// Leave out blots of more than N documents
    #[arg(long, value_name = "N", help_heading = MORE)]
    max_df: Option<u64>,
    #[command(flatten)]
    source: SourceArgs,
}

impl BlotsArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let source = self.source.open(PROGRAM, Reading::Never, false)?;
        let options = ExtractOptions {
            what: if self.boilerplate {
                Extract::Boilerplate(self.output.format())
            } else {
                Extract::Blots {
                    sigma: self.sigma,
                    format: self.output.format(),
                }
            },
            score: Score::Containment,
            threshold: Score::Containment.default_threshold(),
            common: self.max_df.into(),
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
