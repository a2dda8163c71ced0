//! dedup-extract clusters: groups of documents that are connected by pairs.

use super::{
    super::{
        exclusions::ExcludeArgs,
        source::{Reading, SourceArgs},
    },
    PROGRAM,
    keep::KeepArgs,
    records::{RecordOutputArgs, tell_what_stays, write_records},
    scoring::{CompareWhichArgs, ScoreArgs, leave_out},
};
use crate::commands::{Cutoff, Extract, ExtractOptions, Preset};
use clap::Args;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct ClustersArgs {
    #[command(flatten)]
    scores: ScoreArgs,
    #[command(flatten)]
    keep: KeepArgs,
    #[command(flatten)]
    output: RecordOutputArgs,
    #[command(flatten)]
    excluded: ExcludeArgs,
    #[command(flatten)]
    which: CompareWhichArgs,
    #[command(flatten)]
    source: SourceArgs,
}

impl ClustersArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let source = self.source.open(PROGRAM, Reading::Never, false)?;
        let preset = Preset::of_index(&source.index)?;
        let Cutoff { score, threshold } = self.scores.cutoff(preset.clusters)?;
        let options = ExtractOptions {
            what: Extract::Clusters {
                keep: self.keep.keep(),
                format: self.output.format(),
            },
            score,
            threshold,
            common: self.excluded.common_text(preset.common),
            limits: self.source.limits(),
        };
        tell_what_stays(&self.source, &source, &self.excluded);
        let leave_out = leave_out(&self.excluded, self.which.pairs());
        let output = self.output.open()?;
        write_records(&self.source, &source, &options, &leave_out, output)
    }
}
