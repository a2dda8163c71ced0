//! dedup-index compact.

use super::{
    super::{args::QuietArgs, width::warn_of_written},
    IndexArgs, PROGRAM, ResourceArgs,
};
use crate::commands::compact;
use clap::Args;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct CompactArgs {
    #[command(flatten)]
    of: IndexArgs,
    #[command(flatten)]
    quiet: QuietArgs,
    #[command(flatten)]
    resources: ResourceArgs,
    /// How many threads work [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
}

pub fn run_compact(args: &CompactArgs) -> Result<ExitCode, anyhow::Error> {
    compact(&args.of.index, &args.resources.resources(args.threads))?;
    warn_of_written(PROGRAM, &args.of.index, args.quiet.quiet)?;
    Ok(ExitCode::SUCCESS)
}
