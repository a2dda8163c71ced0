//! The shell: arguments to options, one library call, the exit status.
//!
//! Results go to stdout, everything else to stderr. Exit 0: done; 2: an error, or some input could not be used.

mod args;
mod blot;
mod compare;
mod extract;
mod fault;
mod fleet;
mod generate;
mod history;
mod index;
mod kind;
mod limits;
mod manners;
mod output;
mod pairs;
mod plan;
mod progress;
mod query;
mod service;
mod shard;
mod slurm;
mod spex;
mod stats;
mod status;
mod step;
mod threshold;
mod tokenize;
mod unique;

pub use blot::main as blot;
pub use extract::main as extract;
pub use index::main as index;
pub use query::main as query;
pub use shard::main as shard;
pub use spex::main as spex;
pub use tokenize::main as tokenize;

use crate::{
    base::{error::Error, files},
    commands::{Summary, Watch},
};
use args::{RunArgs, StreamArgs};
use clap::{CommandFactory, Parser};
use generate::{Manual, What};
use output::Output;
use progress::{Progress, say};
use std::process::ExitCode;

/// What every tool has: its arguments, its manual, its work.
trait Tool: Parser + CommandFactory {
    const MANUAL: Manual;

    /// A page or a completion is wanted instead of work.
    fn generate(&self) -> Option<What>;
    fn run(&self) -> Result<ExitCode, anyhow::Error>;
}

/// Parses, runs, reports.
fn main_of<T: Tool>() -> ExitCode {
    let tool = T::parse();
    return_large_buffers();
    report_file_limits();
    fault::report_truncated_files(&name::<T>());
    finish::<T>(match tool.generate() {
        Some(what) => generate::generate::<T>(what).map(|()| ExitCode::SUCCESS),
        // Results that come from a file which was truncated meanwhile are not to be trusted.
        None => tool
            .run()
            .and_then(|code| files::ensure_whole().map(|()| code).map_err(Into::into)),
    })
}

/// glibc learns to keep freed buffers of up to 32 MB, once for each thread: with large documents that is many times what is in use.
/// A fixed threshold makes it give back all above a few megabytes; what is smaller stays, as giving it back costs more.
fn return_large_buffers() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: sets a parameter of the allocator, before any other thread runs.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 4 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 32 << 20);
    }
}

/// A file that grows beyond `ulimit -f` is an error like a full disk, not the end of the process.
fn report_file_limits() {
    #[cfg(unix)]
    // SAFETY: ignores a signal, before any other thread runs.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Runs a stage that writes a stream.
fn run_stream<T: Tool>(
    args: &StreamArgs,
    work: impl FnOnce(&mut Output, &mut dyn Watch) -> Result<Summary, anyhow::Error>,
) -> Result<ExitCode, anyhow::Error> {
    let mut output = Output::open(args.output.as_deref(), args.is_binary)?;
    let summary = watched::<T, _>(&args.run, true, |watch| work(&mut output, watch))?;
    output.commit()?;
    Ok(exit_code(summary.problems, args.run.input.skip_bad))
}

/// Runs something that takes a while, with a progress bar. `has_results`: something goes to stdout meanwhile.
fn watched<T: Tool, D>(
    args: &RunArgs,
    has_results: bool,
    work: impl FnOnce(&mut dyn Watch) -> Result<D, anyhow::Error>,
) -> Result<D, anyhow::Error> {
    let mut watch = Progress::new(name::<T>(), args, has_results);
    let done = work(&mut watch);
    watch.finish();
    done
}

fn exit_code(problems: u64, skip_bad: bool) -> ExitCode {
    if problems == 0 || skip_bad {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    }
}

fn finish<T: Tool>(done: Result<ExitCode, anyhow::Error>) -> ExitCode {
    match done {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{}: {error:#}", name::<T>()));
            ExitCode::from(2)
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::ClosedPipe))
        || error
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn name<T: Tool>() -> String {
    T::command().get_name().to_owned()
}
