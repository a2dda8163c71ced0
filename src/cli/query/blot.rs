//! dedup-query blot: the documents that have a blot, and its text.

use super::{
    super::{
        args::{InputArgs, ReadArgs},
        output::Output,
        progress::Complaints,
    },
    PROGRAM, found_code,
};
use crate::{
    commands::{BlotOptions, blot_text},
    index::Index,
};
use clap::Args;
use std::{
    io::{BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
};

#[derive(Args, Debug)]
pub struct BlotQueryArgs {
    /// Directory of the index
    #[arg(value_name = "IDX")]
    index: PathBuf,
    /// The blot, as dedup-blot and dedup-extract blots write it
    #[arg(value_name = "HEX")]
    blot: String,
    /// Where the documents of the index are: a directory, or files (repeatable)
    #[arg(long, value_name = "PATH")]
    corpus: Vec<PathBuf>,
    #[command(flatten)]
    read: ReadArgs,
    /// Do not name documents whose text has changed
    #[arg(short, long)]
    quiet: bool,
}

impl BlotQueryArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let index = Index::open_whole(&self.index)?;
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
            &index,
            &BlotOptions::default(),
            blot,
            (&self.corpus, &reading),
            &mut out,
            &mut Complaints::new(PROGRAM.to_owned(), self.quiet),
        )?;
        out.flush()?;
        Ok(found_code(&found, self.read.skip_bad))
    }
}
