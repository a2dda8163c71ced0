//! dedup-query history verify, dump, backup, split, merge, repair.

use super::{
    super::{
        args::QuietArgs,
        output::{Output, grouped},
        progress::say,
    },
    PROGRAM,
};
use crate::history::{self, HistoryCopy, HistoryParts, backend::CardinalityRange};
use clap::Args;
use std::{
    io::{BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
};

#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// Directory of the history
    #[arg(help_heading = None::<&str>, value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    _quiet: QuietArgs,
}

#[derive(Args, Debug)]
pub struct DumpArgs {
    /// Directory of the history
    #[arg(help_heading = None::<&str>, value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    _quiet: QuietArgs,
}

#[derive(Args, Debug)]
pub struct BackupArgs {
    /// Directory of the history
    #[arg(help_heading = None::<&str>, value_name = "DIR")]
    directory: PathBuf,
    /// Directory of the copy; it must not exist, or be empty
    #[arg(help_heading = None::<&str>, value_name = "COPY")]
    copy: PathBuf,
    #[command(flatten)]
    quiet: QuietArgs,
}

#[derive(Args, Debug)]
pub struct SplitArgs {
    /// Directory of the history
    #[arg(help_heading = None::<&str>, value_name = "DIR")]
    directory: PathBuf,
    /// Directory of the parts; it must not exist, or be empty
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Make N parts with about as many entries each
    #[arg(long, value_name = "N", required_unless_present = "buckets", conflicts_with = "buckets", value_parser = clap::value_parser!(u16).range(1..=256))]
    parts: Option<u16>,
    /// Make a part of the prints with A to B bits set, both included; once for each part
    #[arg(long, value_name = "A..B")]
    buckets: Vec<CardinalityRange>,
    #[command(flatten)]
    quiet: QuietArgs,
}

#[derive(Args, Debug)]
pub struct MergeArgs {
    /// Directories of histories
    #[arg(help_heading = None::<&str>, value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
    /// Directory of the new history; it must not exist, or be empty
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    quiet: QuietArgs,
}

#[derive(Args, Debug)]
pub struct RepairArgs {
    /// Directory of the history
    #[arg(help_heading = None::<&str>, value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    quiet: QuietArgs,
}

impl VerifyArgs {
    /// Names each damaged file.
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let mut damaged = 0;
        history::verify_all(&self.directory, &mut |problem| {
            damaged += 1;
            say(&format!("{PROGRAM}: {problem}"));
        })?;
        Ok(if damaged == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(2)
        })
    }
}

impl DumpArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let mut out = BufWriter::with_capacity(1 << 18, Output::open(None, false)?);
        history::dump(&self.directory, &mut out)?;
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}

impl BackupArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let copy = history::backup(&self.directory, &self.copy)?;
        report(&[copy], &self.quiet);
        Ok(ExitCode::SUCCESS)
    }
}

impl SplitArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let parts = match self.parts {
            Some(number) => HistoryParts::Number(usize::from(number)),
            None => HistoryParts::Ranges(self.buckets.clone()),
        };
        let made = history::split(&self.directory, &self.output, &parts)?;
        report(&made, &self.quiet);
        Ok(ExitCode::SUCCESS)
    }
}

impl MergeArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let made = history::merge(&self.output, &self.directories)?;
        report(&[made], &self.quiet);
        Ok(ExitCode::SUCCESS)
    }
}

impl RepairArgs {
    /// What was lost is always said, and makes the status 2.
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let done = history::repair(&self.directory)?;
        for problem in &done {
            say(&format!("{PROGRAM}: {problem}"));
        }
        if done.is_empty() && !self.quiet.quiet {
            say(&format!(
                "{PROGRAM}: {}: nothing to repair",
                self.directory.display()
            ));
        }
        Ok(if done.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(2)
        })
    }
}

/// A line for each new directory.
fn report(made: &[HistoryCopy], quiet: &QuietArgs) {
    for copy in made.iter().filter(|_| !quiet.quiet) {
        let (directory, entries) = (copy.directory.display(), grouped(copy.entries));
        say(&format!("{PROGRAM}: {directory}: {entries} entries"));
    }
}
