//! dedup-extract table: the most similar documents of each document.

use super::{
    super::{
        exclusions::ExcludeArgs,
        source::{Reading, Source, SourceArgs},
        threshold::Threshold,
    },
    PROGRAM,
    records::{RecordOutputArgs, tell_what_stays, write_records},
    scoring::{CompareWhichArgs, leave_out, threshold_of},
};
use crate::{
    commands::{Extract, ExtractOptions, RowFormat},
    index::Since,
    similar::Score,
};
use anyhow::ensure;
use clap::Args;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct TableArgs {
    /// Rows for each document [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// The least share of a document that another must have [default: 0.1]
    #[arg(long, value_name = "X|P%", allow_negative_numbers = true)]
    threshold: Option<Threshold>,
    /// Only what changed since a generation or a pin (dedup-index stats)
    ///
    /// Writes the rows to delete, update and insert.
    #[arg(long, value_name = "GEN|PIN")]
    since: Option<Since>,
    /// Number the rows of each document
    #[arg(long)]
    rank: bool,
    #[command(flatten)]
    output: RecordOutputArgs,
    #[command(flatten)]
    excluded: ExcludeArgs,
    #[command(flatten)]
    which: CompareWhichArgs,
    #[command(flatten)]
    source: SourceArgs,
}

impl TableArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let source = self.source.open(PROGRAM, Reading::Never, false)?;
        let options = ExtractOptions {
            what: self.what(&source)?,
            score: Score::Inclusion,
            threshold: threshold_of(Score::Inclusion, self.threshold)?,
            common: self.excluded.max_df()?.into(),
            limits: self.source.limits(),
        };
        let output = self.output.open()?;
        tell_what_stays(&self.source, &source, &self.excluded);
        let leave_out = leave_out(&self.excluded, self.which.pairs());
        write_records(&self.source, &source, &options, &leave_out, output)
    }

    /// The table, or what changed in it.
    fn what(&self, source: &Source) -> Result<Extract, anyhow::Error> {
        let top = self.top.unwrap_or(100) as usize;
        let rows = RowFormat {
            format: self.output.format(),
            ranks: self.rank,
        };
        let Some(since) = &self.since else {
            return Ok(Extract::Table { top, rows });
        };
        ensure!(
            !source.is_made,
            "--since is for an index, which knows earlier states; dedup-index build -o IDX {} makes one",
            source.name
        );
        let index = &source.index;
        let generation = index.manifest.resolve(&index.directory, since)?;
        Ok(Extract::TableSince {
            top,
            rows,
            generation,
        })
    }
}
