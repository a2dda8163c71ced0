//! dedup-extract graph: the pairs as a graph.

use super::{
    super::{
        exclusions::ExcludeArgs,
        output::PackedOutput,
        source::{Reading, SourceArgs},
        value_help::graph_format_names,
    },
    PROGRAM,
    records::{OutputArgs, tell_what_stays, write_records},
    scoring::{CompareWhichArgs, ScoreArgs, leave_out},
};
use crate::{
    commands::{Cutoff, Extract, ExtractOptions, Preset},
    report::GraphFormat,
};
use clap::{Args, ValueEnum, builder::PossibleValue};
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct GraphArgs {
    #[command(flatten)]
    scores: ScoreArgs,
    #[arg(long, help = graph_format_names(), value_name = "FORMAT", hide_possible_values = true)]
    format: Option<GraphFormat>,
    #[command(flatten)]
    file: OutputArgs,
    #[command(flatten)]
    excluded: ExcludeArgs,
    #[command(flatten)]
    which: CompareWhichArgs,
    #[command(flatten)]
    source: SourceArgs,
}

impl ValueEnum for GraphFormat {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

impl GraphArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let source = self.source.open(PROGRAM, Reading::Never, false)?;
        let preset = Preset::of_index(&source.index)?;
        let Cutoff { score, threshold } = self.scores.cutoff(preset.pairs)?;
        let options = ExtractOptions {
            what: Extract::Graph(self.format.unwrap_or(GraphFormat::ALL[0])),
            score,
            threshold,
            common: self.excluded.common_text(preset.common),
            limits: self.source.limits(),
        };
        tell_what_stays(&self.source, &source, &self.excluded);
        let leave_out = leave_out(&self.excluded, self.which.pairs());
        let output = PackedOutput::open(self.file.output.as_deref())?;
        write_records(&self.source, &source, &options, &leave_out, output)
    }
}
