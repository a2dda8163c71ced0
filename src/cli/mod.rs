//! The shell: arguments to options, one library call, the exit status.
//!
//! Results go to stdout, everything else to stderr. Exit 0: done; 2: an error, or some input could not be used.

mod account_file;
mod args;
mod bar;
mod blot;
mod cleanup;
mod console;
mod exclusions;
mod extract;
mod flags;
mod generate;
mod help;
mod index;
mod memory_limit;
mod output;
mod pair_output;
mod progress;
mod query;
mod shard;
mod shared_only;
mod source;
mod spex;
mod threshold;
mod tokenize;
mod truncated_files;
mod value_help;
mod width;

/// The allocator of every program.
pub use crate::base::files::SpillingAllocator;
pub use blot::main as blot;
pub use extract::main as extract;
pub use index::main as index;
pub use query::main as query;
pub use shard::main as shard;
pub use spex::main as spex;
pub use tokenize::main as tokenize;

use crate::{
    base::{error::Error, files, setting::name_settings},
    commands::{Observer, Summary},
};
use args::{RunArgs, StreamArgs};
use clap::{ArgMatches, Command, CommandFactory, Parser};
use console::{say_end, set_mode};
use generate::{Manual, What};
use memory_limit::{MemoryLimit, report_spill_failure};
use output::Output;
use progress::{Progress, say};
use std::{ffi::OsString, path::PathBuf, process::ExitCode};

/// What every program has: its flags, its manual, its work.
trait Tool: Parser + CommandFactory {
    const MANUAL: Manual;
    /// The verb that is meant where none is given.
    const DEFAULT_VERB: Option<&'static str> = None;
    /// Flags of earlier versions, and what to write instead; VALUE stands for the flag's value.
    const RETIRED: &'static [(&'static str, &'static str)] = &[];

    /// Adds rules to the flags that a derive macro cannot express.
    fn adjust(command: Command) -> Command {
        command
    }

    /// A page or a completion is wanted instead of work.
    fn generate(&self) -> Option<What>;
    fn run(&self) -> Result<ExitCode, anyhow::Error>;
}

/// Parses, runs, reports.
fn main_of<T: Tool>() -> ExitCode {
    name_settings(flags::flag_of);
    let words: Vec<OsString> = std::env::args_os().collect();
    let (tool, matches) = parse::<T>(words).unwrap_or_else(|error| error.exit());
    set_mode(value_of_verb(&matches, "progress").unwrap_or_default());
    let account: Option<PathBuf> = value_of_verb(&matches, "account");
    MemoryLimit::of(&matches).apply();
    return_large_buffers();
    report_file_limits();
    truncated_files::report_truncated_files(&name::<T>());
    if let Some(Err(error)) = account.as_deref().map(account_file::start) {
        return finish::<T>(Err(error));
    }
    let done = match tool.generate() {
        Some(what) => generate::generate::<T>(what).map(|()| ExitCode::SUCCESS),
        // Results that come from a file which was truncated meanwhile are not to be trusted.
        None => tool
            .run()
            .and_then(|code| files::ensure_whole().map(|()| code).map_err(Into::into)),
    };
    cleanup::wait_if_ending();
    report_spill_failure(&name::<T>());
    let written = account_file::commit(done.is_ok());
    finish::<T>(done.and_then(|code| written.map(|()| code)))
}

/// The commands of all programs.
#[cfg(test)]
fn commands() -> [Command; 7] {
    [
        help::command_of::<tokenize::Arguments>(),
        help::command_of::<blot::Arguments>(),
        help::command_of::<spex::Arguments>(),
        help::command_of::<index::Arguments>(),
        help::command_of::<extract::ExtractCli>(),
        help::command_of::<query::QueryCli>(),
        help::command_of::<shard::Arguments>(),
    ]
}

/// Parses a command line, with the default verb where there is none.
fn parse<T: Tool>(words: Vec<OsString>) -> Result<(T, ArgMatches), clap::Error> {
    let mut command = help::command_of::<T>();
    let words = match T::DEFAULT_VERB {
        Some(verb) => help::with_verb(&command, verb, words),
        None => words,
    };
    let explain = |error| help::explain_retired::<T>(error, &words);
    let matches = command.try_get_matches_from_mut(&words).map_err(explain)?;
    let tool = T::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok((tool, matches))
}

/// What a program with verbs says if it is called without one.
fn missing_verb<T: CommandFactory>() -> anyhow::Error {
    let command = T::command();
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let names: Vec<_> = verbs.map(Command::get_name).collect();
    anyhow::anyhow!("say what to do: {}", value_help::one_of(&names))
}

/// The value of a flag that any verb may have. Only with debug assertions does clap know which flags a verb has.
fn value_of_verb<V: Clone + Send + Sync + 'static>(matches: &ArgMatches, flag: &str) -> Option<V> {
    let given = matches.try_get_one::<V>(flag).ok().flatten();
    let of_verb = || {
        let (_, matches) = matches.subcommand()?;
        value_of_verb(matches, flag)
    };
    given.cloned().or_else(of_verb)
}

/// glibc adapts and keeps freed buffers of up to 32 MB for each thread: with large documents that is many times the memory in use.
/// With a fixed threshold it returns everything above a few megabytes; smaller buffers stay, because returning them costs more.
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
    work: impl FnOnce(&mut Output, &mut dyn Observer) -> Result<Summary, anyhow::Error>,
) -> Result<ExitCode, anyhow::Error> {
    let mut output = Output::open(args.output.as_deref(), args.is_binary)?;
    let summary = watched(&name::<T>(), &args.run, true, |watch| {
        work(&mut output, watch)
    })?;
    output.commit()?;
    Ok(exit_code(summary.problems, args.run.input.read.skip_bad))
}

/// Runs something that takes a while, with a progress bar. `has_results`: something goes to stdout meanwhile.
fn watched<D>(
    program: &str,
    args: &RunArgs,
    has_results: bool,
    work: impl FnOnce(&mut dyn Observer) -> Result<D, anyhow::Error>,
) -> Result<D, anyhow::Error> {
    let mut watch = Progress::new(program.to_owned(), args, has_results);
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
    let code = match done {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{}: {error:#}", name::<T>()));
            ExitCode::from(2)
        }
    };
    // There is no other way to ask an exit code for its number.
    let status = (0..=u8::MAX).find(|&status| code == ExitCode::from(status));
    say_end(status.unwrap_or(2));
    code
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
