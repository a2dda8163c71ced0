//! dedup-shard clean.

use super::{
    super::{args::QuietArgs, progress::say_lines},
    OfRun, PROGRAM,
    engine::{EngineName, ensure_meant_for, setup},
    hosts::FleetArgs,
};
use crate::cluster::{ENGINES, EXIT_LOST, RunLock, clean};
use clap::Args;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct CleanArgs {
    #[command(flatten)]
    of: OfRun,
    #[command(flatten)]
    _quiet: QuietArgs,
    /// Where else: ssh removes the run from the hosts of the plan, too
    #[arg(long, value_enum, default_value = ENGINES[0].name)]
    engine: EngineName,
    #[command(flatten)]
    fleet: FleetArgs,
}

pub fn run_clean(args: &CleanArgs) -> Result<ExitCode, anyhow::Error> {
    ensure_meant_for(args.engine, &[&args.fleet])?;
    let (plan, directory) = args.of.open()?;
    let _lock = RunLock::take(&directory)?;
    clean(&directory)?;
    let setup = setup(args.engine, &args.fleet, &plan, &directory)?;
    let missed = (args.engine.0.build)(setup)?.clean();
    missed
        .iter()
        .for_each(|what| say_lines(&format!("{}: {what}", PROGRAM)));
    Ok(ExitCode::from(if missed.is_empty() {
        0
    } else {
        EXIT_LOST
    }))
}
