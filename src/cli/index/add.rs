//! dedup-index add.

use super::{
    super::{exit_code, watched, width::warn_of_written},
    IndexArgs, PROGRAM,
    change::{ChangeArgs, tell},
};
use crate::commands::add;
use clap::Args;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct AddArgs {
    #[command(flatten)]
    of: IndexArgs,
    #[command(flatten)]
    change: ChangeArgs,
}

pub fn run_add(args: &AddArgs) -> Result<ExitCode, anyhow::Error> {
    let (options, settings) = (args.change.options(), args.change.settings(&args.of.index)?);
    let run = &args.change.run;
    let changed = watched(PROGRAM, run, false, |watch| {
        Ok(add(&options, &settings, &args.of.index, watch)?)
    })?;
    tell(&changed, &args.of.index, run.common.quiet, false);
    warn_of_written(PROGRAM, &args.of.index, run.common.quiet)?;
    Ok(exit_code(changed.problems, run.input.read.skip_bad))
}
