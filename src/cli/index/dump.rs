//! dedup-index dump.

use super::{
    super::{
        args::{QuietArgs, parse_size},
        output::Output,
    },
    IndexArgs,
};
use crate::{
    commands::{dump, dump_blot, dump_dictionary},
    index::Index,
};
use clap::Args;
use std::{
    io::{BufWriter, Write},
    process::ExitCode,
};

#[derive(Args, Debug)]
pub struct DumpArgs {
    #[command(flatten)]
    of: IndexArgs,
    #[command(flatten)]
    _quiet: QuietArgs,
    /// Only the documents that have this blot
    #[arg(long, value_name = "HEX")]
    blot: Option<String>,
    /// The dictionary instead: a line for each word, with its documents and how often it occurs in each
    #[arg(long, conflicts_with = "blot")]
    dictionary: bool,
    /// How much memory to use at a time; with less the index is read more often
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    memory: u64,
}

pub fn run_dump(args: &DumpArgs) -> Result<ExitCode, anyhow::Error> {
    let index = Index::open(&args.of.index)?;
    let mut out = BufWriter::with_capacity(1 << 18, Output::open(None, false)?);
    match &args.blot {
        None if args.dictionary => dump_dictionary(&index, &mut out)?,
        None => dump(&index, args.memory, &mut out)?,
        Some(hex) => {
            let blot = index.scheme.parse_blot(hex).map_err(anyhow::Error::msg)?;
            dump_blot(&index, blot, &mut out)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
