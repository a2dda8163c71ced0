//! dedup-index split.

use super::{super::args::QuietArgs, IndexArgs, ResourceArgs};
use crate::commands::split;
use clap::Args;
use std::{path::PathBuf, process::ExitCode};

#[derive(Args, Debug)]
pub struct SplitArgs {
    #[command(flatten)]
    of: IndexArgs,
    #[command(flatten)]
    _quiet: QuietArgs,
    /// How many parts, 1 to 256
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    parts: u32,
    /// Where the parts go: DIR/000, DIR/001 and so on
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    resources: ResourceArgs,
    /// How many threads work [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
}

pub fn run_split(args: &SplitArgs) -> Result<ExitCode, anyhow::Error> {
    let resources = args.resources.resources(args.threads);
    split(&args.of.index, args.parts, &args.output, &resources)?;
    Ok(ExitCode::SUCCESS)
}
