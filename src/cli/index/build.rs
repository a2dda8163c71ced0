//! dedup-index build.

use super::{
    super::{
        args::{BlotArgs, RunArgs, TokenArgs},
        exit_code, watched,
        width::warn_of_written,
    },
    PROGRAM, ResourceArgs,
};
use crate::{
    commands::{BuildOptions, Settings, build},
    text::stream::Form,
};
use clap::Args;
use std::{path::PathBuf, process::ExitCode};

#[derive(Args, Debug)]
pub struct BuildArgs {
    /// The directory to make; it must not be there yet
    #[arg(short, long, value_name = "IDX")]
    output: PathBuf,
    /// Cut the postings into N range parts, 1 to 256
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    parts: u32,
    /// Also keep a dictionary: how often each word occurs in each document, for dedup-extract --method gdic
    #[arg(long)]
    dictionary: bool,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    blots: BlotArgs,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    run: RunArgs,
}

impl BuildArgs {
    fn settings(&self) -> Settings {
        self.run.settings(
            Form::Binary,
            self.resources.under_way(),
            self.tokens.is_dna(),
        )
    }
}

pub fn run_build(args: &BuildArgs) -> Result<ExitCode, anyhow::Error> {
    let (blots, resources) = (
        args.blots.options(&args.tokens),
        args.resources.resources(args.run.common.threads),
    );
    let options = BuildOptions {
        blots,
        parts: args.parts,
        dictionary: args.dictionary,
        resources,
    };
    let settings = args.settings();
    let summary = watched(PROGRAM, &args.run, false, |watch| {
        Ok(build(&options, &settings, &args.output, watch)?)
    })?;
    warn_of_written(PROGRAM, &args.output, args.run.common.quiet)?;
    Ok(exit_code(summary.problems, args.run.input.read.skip_bad))
}
