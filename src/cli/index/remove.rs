//! dedup-index remove.

use super::{
    super::{args::read_list, exit_code, progress::Complaints},
    IndexArgs, PROGRAM, ResourceArgs,
    change::tell,
};
use crate::commands::{BlotOptions, ChangeOptions, remove};
use clap::Args;
use std::{path::PathBuf, process::ExitCode};

#[derive(Args, Debug)]
pub struct RemoveArgs {
    #[command(flatten)]
    of: IndexArgs,
    /// Ids of documents
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Read more ids from LIST, one a line (- for stdin)
    #[arg(long, value_name = "LIST")]
    files_from: Option<PathBuf>,
    /// The ids in LIST end with NUL
    #[arg(short = '0', requires = "files_from")]
    null: bool,
    #[command(flatten)]
    resources: ResourceArgs,
    /// Leave segments as they are, however many there are
    #[arg(long)]
    no_compact: bool,
    /// Exit with 0 although the index lacks some of the documents
    #[arg(long)]
    skip_bad: bool,
    /// No word on what was done, and with --skip-bad none on documents that the index does not have
    #[arg(short, long)]
    quiet: bool,
}

pub fn run_remove(args: &RemoveArgs) -> Result<ExitCode, anyhow::Error> {
    let options = ChangeOptions {
        blots: BlotOptions::default(),
        resources: args.resources.resources(None),
        compacts: !args.no_compact,
    };
    let listed = args
        .files_from
        .as_ref()
        .map(|list| read_list(list, args.null))
        .transpose()?;
    if listed.is_none() && args.ids.is_empty() {
        anyhow::bail!("say which documents to remove");
    }
    let ids = args
        .ids
        .iter()
        .cloned()
        .map(Ok)
        .chain(listed.into_iter().flatten());
    let changed = remove(
        &options,
        ids,
        &args.of.index,
        &mut Complaints::new(PROGRAM.to_owned(), args.quiet && args.skip_bad),
    )?;
    tell(&changed, &args.of.index, args.quiet, false);
    Ok(exit_code(changed.problems, args.skip_bad))
}
