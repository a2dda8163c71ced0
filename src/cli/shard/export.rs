//! dedup-shard export: the tasks of a plan for another engine.

use super::{super::args::QuietArgs, OfRun};
use crate::{
    base::files::durable,
    cluster::{EXPORTS, ExportEntry},
};
use anyhow::Context;
use clap::{Args, ValueEnum, builder::PossibleValue};
use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

#[derive(Args, Debug)]
pub struct ExportArgs {
    #[command(flatten)]
    of: OfRun,
    #[command(flatten)]
    _quiet: QuietArgs,
    /// The engine
    #[arg(long, value_name = "ENGINE", value_enum)]
    to: ExportName,
}

/// An entry of [`EXPORTS`].
#[derive(Debug, Clone, Copy)]
struct ExportName(&'static ExportEntry);

impl ValueEnum for ExportName {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: [ExportName; EXPORTS.len()] = {
            let mut all = [ExportName(&EXPORTS[0]); EXPORTS.len()];
            let mut number = 1;
            while number < EXPORTS.len() {
                all[number] = ExportName(&EXPORTS[number]);
                number += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name).help(self.0.help))
    }
}

/// Writes the file, and prints the command that runs it.
pub fn run_export(args: &ExportArgs) -> Result<ExitCode, anyhow::Error> {
    let (plan, directory) = args.of.open()?;
    let ExportName(export) = args.to;
    let text = (export.write)(&plan);
    durable::replace(&directory.join(export.file), text.as_bytes())?;
    let command = command_line(export, &args.of.run, plan.options.slots)?;
    writeln!(io::stdout(), "{command}").context("stdout")?;
    Ok(ExitCode::SUCCESS)
}

fn command_line(export: &ExportEntry, run: &Path, slots: u32) -> Result<String, anyhow::Error> {
    let run = run
        .to_str()
        .with_context(|| format!("{}: its name is not UTF-8", run.display()))?;
    let word = |word: &&str| {
        let word = word.replace("SLOTS", &slots.to_string());
        match word.strip_prefix("RUN") {
            Some(rest) => format!("{run}{rest}"),
            None => word,
        }
    };
    let words: Vec<String> = export.command.iter().map(word).collect();
    shlex::try_join(words.iter().map(String::as_str)).context("the name of the run")
}
