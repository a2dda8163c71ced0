//! dedup-query blot: the documents that have a blot, and its text.

use super::{
    super::{
        args::{CommonArgs, InputArgs, ReadArgs},
        output::Output,
        progress::Complaints,
        source::{MakingArgs, Reading},
    },
    PROGRAM, found_code,
    search::open_source,
};
use crate::commands::{BlotOptions, blot_text};
use clap::Args;
use std::{
    io::{BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
};

#[derive(Args, Debug)]
pub struct BlotQueryArgs {
    /// An index, or documents: a file, a directory
    #[arg(help_heading = None::<&str>, value_name = "SOURCE")]
    source: PathBuf,
    /// The blot, as dedup-blot and dedup-extract blots write it
    #[arg(help_heading = None::<&str>, value_name = "HEX")]
    blot: String,
    /// Where the documents of the index are: a directory, or files (repeatable)
    #[arg(long, value_name = "PATH")]
    corpus: Vec<PathBuf>,
    #[command(flatten)]
    making: MakingArgs,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    common: CommonArgs,
}

impl BlotQueryArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let source = open_source(
            &self.source,
            &self.making,
            &self.read,
            &self.common,
            Reading::ById,
        )?;
        let index = &source.index;
        let blot = index
            .scheme
            .parse_blot(&self.blot)
            .map_err(anyhow::Error::msg)?;
        let input = InputArgs {
            paths: Vec::new(),
            read: self.read.clone(),
        };
        let reading = input.options(index.scheme.tokens.is_dna());
        let mut out = BufWriter::with_capacity(1 << 16, Output::open(None, false)?);
        let found = blot_text(
            index,
            &BlotOptions::default(),
            blot,
            (&source.corpus(&self.corpus), &reading),
            &mut out,
            &mut Complaints::new(PROGRAM.to_owned(), self.common.quiet),
        )?;
        out.flush()?;
        Ok(found_code(&found, self.read.skip_bad))
    }
}
