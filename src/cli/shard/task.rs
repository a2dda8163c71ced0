//! dedup-shard task.

use super::{
    super::{args::QuietArgs, progress::say_lines},
    OfRun, PROGRAM,
    slurm::{ElementArgs, JobLog},
};
use crate::cluster::{EXIT_LOST, Verdict, run_task};
use clap::Args;
use std::{path::PathBuf, process::ExitCode};

#[derive(Args, Debug)]
pub struct TaskArgs {
    #[command(flatten)]
    of: OfRun,
    #[command(flatten)]
    _quiet: QuietArgs,
    /// Tasks, by the ids that status --missing shows
    #[arg(value_name = "ID", required_unless_present = "stage")]
    ids: Vec<String>,
    /// Read documents from copies in DIR, each named by its number in the slice
    #[arg(long, value_name = "DIR", hide = true)]
    copies: Option<PathBuf>,
    #[command(flatten)]
    element: ElementArgs,
}

/// Exit of a task that will fail again.
const FAILED: u8 = 1;

pub fn run_tasks(args: &TaskArgs) -> Result<ExitCode, anyhow::Error> {
    let (plan, directory) = args.of.open()?;
    let (tasks, job_log) = match args.element.tasks(&plan)? {
        Some(tasks) => (tasks, Some(JobLog::new(&directory))),
        None => (
            args.ids
                .iter()
                .map(|id| plan.task(id))
                .collect::<Result<Vec<_>, _>>()?,
            None,
        ),
    };
    for task in tasks {
        job_log.iter().for_each(|job_log| job_log.start(task));
        let verdict = run_task(&plan, task, &directory, args.copies.as_deref());
        job_log
            .iter()
            .for_each(|job_log| job_log.end(task, verdict.clone()));
        let (what, code) = match verdict {
            Verdict::Done => continue,
            Verdict::Lost(what) => (what, EXIT_LOST),
            Verdict::Failed(what) => (what, FAILED),
        };
        say_lines(&format!("{}: {}: {what}", PROGRAM, task.id));
        return Ok(ExitCode::from(code));
    }
    Ok(ExitCode::SUCCESS)
}
