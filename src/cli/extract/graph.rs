//! dedup-extract graph: the pairs as a graph.

use super::{
    super::{
        exclusions::ExcludeArgs,
        source::{Reading, SourceArgs},
    },
    PROGRAM,
    records::{OutputArgs, tell_what_stays, write_records},
    scoring::{CompareWhichArgs, ScoreArgs, leave_out},
};
use crate::{
    commands::{Extract, ExtractOptions},
    report,
};
use clap::{Args, ValueEnum};
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct GraphArgs {
    #[command(flatten)]
    scores: ScoreArgs,
    /// dot or graphml [default: dot]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    format: Option<GraphLanguage>,
    #[command(flatten)]
    file: OutputArgs,
    #[command(flatten)]
    excluded: ExcludeArgs,
    #[command(flatten)]
    which: CompareWhichArgs,
    #[command(flatten)]
    source: SourceArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum GraphLanguage {
    Dot,
    Graphml,
}

impl GraphArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let source = self.source.open(PROGRAM, Reading::Never, false)?;
        let (score, threshold) = self.scores.score_and_threshold()?;
        let options = ExtractOptions {
            what: Extract::Graph(match self.format {
                Some(GraphLanguage::Graphml) => report::GraphFormat::Graphml,
                Some(GraphLanguage::Dot) | None => report::GraphFormat::Dot,
            }),
            score,
            threshold,
            max_df: self.excluded.max_df,
            limits: self.source.limits(),
        };
        tell_what_stays(&self.source, &source, &self.excluded);
        let leave_out = leave_out(&self.excluded, self.which.pairs());
        let output = self.file.output.as_deref();
        write_records(&self.source, &source, &options, &leave_out, output)
    }
}
