//! dedup-index pin and unpin.

use super::IndexArgs;
use crate::{
    base::codec::escape_unsafe,
    commands::{pin, unpin},
};
use clap::Args;
use std::{io::Write, path::Path, process::ExitCode};

#[derive(Args, Debug)]
pub struct PinArgs {
    #[command(flatten)]
    of: IndexArgs,
    /// Letters, digits, '.', '_' and '-'; a pin that has this name moves
    #[arg(value_name = "NAME")]
    name: String,
    /// Which state: one that stats lists [default: the last one]
    #[arg(long, value_name = "N")]
    generation: Option<u64>,
    /// Do not say what was done
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Args, Debug)]
pub struct UnpinArgs {
    #[command(flatten)]
    of: IndexArgs,
    /// The name that it was given
    #[arg(value_name = "NAME")]
    name: String,
    /// Do not say what was done
    #[arg(short, long)]
    quiet: bool,
}

pub fn run_pin(args: &PinArgs) -> Result<ExitCode, anyhow::Error> {
    let generation = pin(&args.of.index, &args.name, args.generation)?;
    let what = format!("generation {generation} is pinned as {}", args.name);
    say_done(args.quiet, &args.of.index, &what)
}

pub fn run_unpin(args: &UnpinArgs) -> Result<ExitCode, anyhow::Error> {
    let generation = unpin(&args.of.index, &args.name)?;
    let what = format!(
        "generation {generation} is not pinned as {} any more",
        args.name
    );
    say_done(args.quiet, &args.of.index, &what)
}

/// One line on what was done, on stdout.
pub fn say_done(quiet: bool, directory: &Path, what: &str) -> Result<ExitCode, anyhow::Error> {
    if !quiet {
        let _ = writeln!(
            std::io::stdout(),
            "{}: {what}",
            escape_unsafe(&directory.display().to_string())
        );
    }
    Ok(ExitCode::SUCCESS)
}
