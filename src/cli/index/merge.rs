//! dedup-index merge.

use super::{
    super::{exit_code, progress::Complaints, width::warn_of_written},
    PROGRAM, ResourceArgs,
};
use crate::commands::merge;
use clap::Args;
use std::{path::PathBuf, process::ExitCode};

#[derive(Args, Debug)]
pub struct MergeArgs {
    /// The directory to make; it must not be there yet
    #[arg(short, long, value_name = "IDX")]
    output: PathBuf,
    /// Indexes, all parts of one, or the parts of one range of several
    #[arg(value_name = "IDX", required = true)]
    inputs: Vec<PathBuf>,
    /// Cut the postings into N range parts, 1 to 256 [default: as many as the first has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    parts: Option<u32>,
    #[command(flatten)]
    resources: ResourceArgs,
    /// How many threads work [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Exit with 0 although some documents have the id of another
    #[arg(long)]
    skip_bad: bool,
    /// With --skip-bad, no word on documents that have the id of another; without, these are errors
    #[arg(short, long)]
    quiet: bool,
}

pub fn run_merge(args: &MergeArgs) -> Result<ExitCode, anyhow::Error> {
    let resources = args.resources.resources(args.threads);
    let complaints = &mut Complaints::new(PROGRAM.to_owned(), args.quiet && args.skip_bad);
    let summary = merge(
        &args.inputs,
        args.parts,
        &args.output,
        &resources,
        complaints,
    )?;
    warn_of_written(PROGRAM, &args.output, args.quiet)?;
    Ok(exit_code(summary.problems, args.skip_bad))
}
