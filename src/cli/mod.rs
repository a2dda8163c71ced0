//! The shell: arguments to options, one library call, the exit status.
//!
//! Results go to stdout, everything else to stderr. Exit 0: done; 2: an error, or some input could not be used.

mod args;
mod blot;
mod generate;
mod output;
mod progress;
mod tokenize;

pub use blot::main as blot;
pub use tokenize::main as tokenize;

use crate::{
    error::Error,
    pipeline::{Summary, Watch},
};
use args::RunArgs;
use clap::{CommandFactory, Parser};
use generate::Manual;
use output::Output;
use progress::Progress;
use std::{io::Write, process::ExitCode};

/// What every tool has: its arguments, its manual, its work.
trait Tool: Parser + CommandFactory {
    const MANUAL: Manual;

    fn run_args(&self) -> &RunArgs;
    /// Does the work; the problems that were met are counted in the summary.
    fn run(&self, out: &mut dyn Write, watch: &mut dyn Watch) -> Result<Summary, anyhow::Error>;
}

/// Parses, runs, reports.
fn main_of<T: Tool>() -> ExitCode {
    let tool = T::parse();
    let run = tool.run_args();
    if let Some(what) = run.generate {
        return finish::<T>(generate::generate::<T>(what).map(|()| ExitCode::SUCCESS));
    }
    finish::<T>(run_tool(&tool))
}

fn run_tool<T: Tool>(tool: &T) -> Result<ExitCode, anyhow::Error> {
    let run = tool.run_args();
    let mut output = Output::open(run.output.as_deref(), run.is_binary)?;
    let mut watch = Progress::new(name::<T>(), run);
    let done = tool.run(&mut output, &mut watch);
    watch.finish();
    let summary = done?;
    output.commit()?;
    let is_clean = summary.problems == 0 || run.input.skip_bad;
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn finish<T: Tool>(done: Result<ExitCode, anyhow::Error>) -> ExitCode {
    match done {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error:#}", name::<T>());
            ExitCode::from(2)
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::ClosedPipe))
        || error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn name<T: Tool>() -> String {
    T::command().get_name().to_owned()
}
