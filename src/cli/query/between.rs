//! dedup-query between: every blot that two documents share.

use super::{
    super::{
        args::{CommonArgs, ReadArgs},
        output::Output,
        source::{MakingArgs, Reading},
    },
    search::open_source,
};
use crate::commands::between;
use clap::Args;
use std::{
    io::{BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
};

#[derive(Args, Debug)]
pub struct BetweenArgs {
    /// An index, or documents: a file, a directory
    #[arg(help_heading = None::<&str>, value_name = "SOURCE")]
    source: PathBuf,
    /// Id of a document
    #[arg(help_heading = None::<&str>, value_name = "A")]
    a: String,
    /// Id of another document
    #[arg(help_heading = None::<&str>, value_name = "B")]
    b: String,
    #[command(flatten)]
    making: MakingArgs,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    common: CommonArgs,
}

impl BetweenArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let source = open_source(
            &self.source,
            &self.making,
            &self.read,
            &self.common,
            Reading::Never,
        )?;
        let mut out = BufWriter::with_capacity(1 << 16, Output::open(None, false)?);
        let is_found = between(&source.index, [&self.a, &self.b], &mut out)?;
        out.flush()?;
        Ok(ExitCode::from(u8::from(!is_found)))
    }
}
