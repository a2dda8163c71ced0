//! dedup-index sync.

use super::{
    super::{exit_code, watched, width::warn_of_written},
    IndexArgs, PROGRAM,
    change::{ChangeArgs, tell},
};
use crate::commands::{MaxRemove, SyncOptions, sync};
use clap::Args;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct SyncArgs {
    #[command(flatten)]
    of: IndexArgs,
    /// Read every file, though its size and time are as they were
    #[arg(long)]
    checksum: bool,
    /// Only say what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// How many documents may be removed, as a number or a share; more is refused, and nothing is changed [default: 50%]
    #[arg(long, value_name = "N|P%")]
    max_remove: Option<MaxRemove>,
    #[command(flatten)]
    change: ChangeArgs,
}

pub fn run_sync(args: &SyncArgs) -> Result<ExitCode, anyhow::Error> {
    let run = &args.change.run;
    if run.input.reads_stdin() {
        anyhow::bail!("say which files and directories the index is to follow");
    }
    let max_remove = args.max_remove.unwrap_or_default();
    let options = SyncOptions {
        change: args.change.options(),
        checksum: args.checksum,
        dry_run: args.dry_run,
        max_remove,
    };
    let settings = args.change.settings(&args.of.index)?;
    let changed = watched(PROGRAM, run, false, |watch| {
        Ok(sync(&options, &settings, &args.of.index, watch)?)
    })?;
    tell(&changed, &args.of.index, run.common.quiet, args.dry_run);
    warn_of_written(PROGRAM, &args.of.index, run.common.quiet)?;
    if let Some(refusal) = &changed.refusal {
        anyhow::bail!(
            "{}: it would be refused: {refusal}",
            args.of.index.display()
        );
    }
    Ok(exit_code(changed.problems, run.input.read.skip_bad))
}
