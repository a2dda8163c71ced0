//! dedup-index verify.

use super::{super::args::QuietArgs, IndexArgs};
use crate::index::{Index, verify};
use clap::Args;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct VerifyArgs {
    #[command(flatten)]
    of: IndexArgs,
    #[command(flatten)]
    _quiet: QuietArgs,
}

pub fn run_verify(args: &VerifyArgs) -> Result<ExitCode, anyhow::Error> {
    verify(&Index::open(&args.of.index)?)?;
    Ok(ExitCode::SUCCESS)
}
