//! dedup-query between: every blot that two documents share.

use super::super::{args::QuietArgs, output::Output};
use crate::{commands::between, index::Index};
use clap::Args;
use std::{
    io::{BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
};

#[derive(Args, Debug)]
pub struct BetweenArgs {
    /// Directory of the index
    #[arg(value_name = "IDX")]
    index: PathBuf,
    /// Id of a document
    #[arg(value_name = "A")]
    a: String,
    /// Id of another document
    #[arg(value_name = "B")]
    b: String,
    #[command(flatten)]
    _quiet: QuietArgs,
}

impl BetweenArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let index = Index::open_whole(&self.index)?;
        let mut out = BufWriter::with_capacity(1 << 16, Output::open(None, false)?);
        let is_found = between(&index, [&self.a, &self.b], &mut out)?;
        out.flush()?;
        Ok(ExitCode::from(u8::from(!is_found)))
    }
}
