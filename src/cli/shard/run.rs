//! dedup-shard run.

use super::{
    super::{
        args::{AccountArgs, threads_of},
        extract::print_account,
        progress::{TaskBar, say, say_lines},
        source::is_index,
        width::warn_of_written,
    },
    OfRun, PROGRAM,
    engine::{EngineName, ensure_meant_for, setup},
    hosts::FleetArgs,
    run_console::RunConsole,
    slurm::SlurmArgs,
    tell,
};
use crate::{
    base::{
        error::{Error, is_of_machine},
        num::{ToU64, ToUsize},
    },
    cluster::{
        CleanOutcome, DEFAULT_RETRIES, ENGINES, EXIT_LOST, Engine, EngineSetup, EventLog, Failure,
        Plan, RunLock, RunObserver, RunOptions, RunOutcome, RunSummary, TaskError, TaskKind,
        Verdict, input_of, write_report,
    },
};
use clap::Args;
use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Args, Debug)]
pub struct RunTasksArgs {
    #[command(flatten)]
    of: OfRun,
    /// Where the tasks run
    #[arg(long, value_enum, default_value = ENGINES[0].name)]
    engine: EngineName,
    /// How many tasks at a time, on all hosts together [default: one a core of this machine, as many as hosts have slots, or what the cluster lets run]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    /// How often a task may be lost before the run is given up; not with slurm [default: 3]
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// No progress bar, and no account of what was read; errors are still reported
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    _account: AccountArgs,
    #[command(flatten)]
    fleet: FleetArgs,
    #[command(flatten)]
    slurm: SlurmArgs,
}

pub fn run_run(args: &RunTasksArgs) -> Result<ExitCode, anyhow::Error> {
    run_all(args).or_else(|error| {
        if is_lost(&error) {
            say_lines(&format!("{}: {error:#}", PROGRAM));
            return Ok(ExitCode::from(EXIT_LOST));
        }
        Err(error)
    })
}

fn run_all(args: &RunTasksArgs) -> Result<ExitCode, anyhow::Error> {
    ensure_meant_for(args.engine, &[&args.fleet, &args.slurm])?;
    if args.retries.is_some() && args.engine.is("slurm") {
        anyhow::bail!(
            "--retries is not for --engine slurm, where --requeues says how often a job is run again"
        );
    }
    let (plan, directory) = args.of.open()?;
    let _lock = RunLock::take(&directory)?;
    if args.slurm.print {
        return args.slurm.print_script(&plan, &directory, args.jobs);
    }
    let failures = match run_engine(args, &plan, &directory)? {
        RunOutcome::Done => Vec::new(),
        RunOutcome::Failed(failures) => failures,
        RunOutcome::Stopped => return Ok(ExitCode::from(EXIT_LOST)),
    };
    // The report is for people: a run can be done without it.
    if let Err(error) = EventLog::read(&directory)
        .and_then(|events| write_report(&plan, &RunSummary::new(&plan, &events), &directory))
    {
        say(&format!("{}: {error}", PROGRAM));
    }
    if failures.is_empty() {
        let mut input = input_of(&directory)?.unwrap_or_default();
        let cleaned = CleanOutcome::read(&plan, &directory)?;
        if let Some(cleaned) = &cleaned {
            input.problems.extend(cleaned.problems.iter().cloned());
        }
        if let Some(index) = index_of(&plan, &directory) {
            warn_of_written(PROGRAM, &index, args.quiet)?;
        }
        let code = tell(&plan, &input, args.quiet);
        if let Some(cleaned) = cleaned.filter(|_| !args.quiet) {
            print_account(&cleaned.account, PROGRAM);
        }
        return Ok(code);
    }
    Ok(tell_failures(&failures))
}

/// The index that a run has written or changed, if it is on this machine.
fn index_of(plan: &Plan, directory: &Path) -> Option<PathBuf> {
    let base = plan.options.base.as_ref();
    let changed = base.map(|base| PathBuf::from(&base.index));
    let mut gathered = plan
        .tasks_of(TaskKind::Gather)
        .map(|task| directory.join(&task.output));
    changed
        .or_else(|| gathered.next())
        .filter(|index| is_index(index))
}

fn engine<'p>(
    args: &RunTasksArgs,
    plan: &'p Plan,
    directory: &'p Path,
) -> Result<Box<dyn Engine + 'p>, anyhow::Error> {
    let setup = EngineSetup {
        slots: u32::try_from(threads_of(args.jobs)).unwrap_or(1),
        options: RunOptions {
            retries: args.retries.unwrap_or(DEFAULT_RETRIES),
            max_tasks: args.jobs.map(ToUsize::to_usize),
        },
        slurm: Some(args.slurm.options(args.jobs)?),
        ..setup(args.engine, &args.fleet, plan, directory)?
    };
    Ok((args.engine.0.build)(setup)?)
}

fn run_engine(
    args: &RunTasksArgs,
    plan: &Plan,
    directory: &Path,
) -> Result<RunOutcome, anyhow::Error> {
    let bytes = plan.tasks.iter().map(|task| task.bytes).sum();
    let bar = TaskBar::new(args.quiet, plan.tasks.len().to_u64(), bytes);
    let mut console = RunConsole::new(PROGRAM.to_owned(), bar, args.quiet);
    if args.engine.0.is_batch_system {
        console.catch_signals()?;
    }
    let outcome = engine(args, plan, directory)?.run(&mut console);
    if matches!(outcome, Ok(RunOutcome::Stopped)) {
        let what = if args.slurm.leave_jobs {
            "the jobs go on"
        } else {
            "the jobs are cancelled"
        };
        console.message(&format!("stopped; {what}, and run goes on where it was"));
    }
    console.finish();
    Ok(outcome?)
}

/// Reports the tasks that were not done; the exit status says whether to try again.
fn tell_failures(failures: &[Failure]) -> ExitCode {
    for Failure { task, verdict } in failures {
        if let Verdict::Failed(what) | Verdict::Lost(what) = verdict {
            say_lines(&format!("{}: {task}: {what}", PROGRAM));
        }
    }
    let is_lost = failures
        .iter()
        .all(|failure| matches!(failure.verdict, Verdict::Lost(_)));
    ExitCode::from(if is_lost { EXIT_LOST } else { 2 })
}

/// Whether the machine failed, not the task.
fn is_lost(error: &anyhow::Error) -> bool {
    let is_library_error = error
        .downcast_ref::<Error>()
        .is_some_and(Error::is_of_machine);
    let is_task_error = error
        .downcast_ref::<TaskError>()
        .is_some_and(TaskError::is_of_machine);
    is_library_error
        || is_task_error
        || error.downcast_ref::<io::Error>().is_some_and(is_of_machine)
}
