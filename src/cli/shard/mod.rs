//! dedup-shard: an index built in slices and ranges, task by task.

mod clean;
mod engine;
mod gather;
mod hosts;
mod plan;
mod run;
mod run_console;
mod slurm;
mod status;
mod task;

use super::{
    Manual, Tool, exit_code,
    generate::{What, examples},
    main_of,
    progress::say,
};
use crate::{
    base::num::ToU64,
    cluster::{Plan, RunInput},
};
use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use std::{path::PathBuf, process::ExitCode};

const PROGRAM: &str = "dedup-shard";

/// Build an index in slices and ranges, task by task, on many cores or hosts
///
/// A plan cuts the documents into slices and the blots into ranges. Each task is one command line with one output, which appears when it is whole: so a run that was stopped goes on
/// where it was, and a task can be run anywhere, twice, or by hand. The index is, byte for byte, what dedup-index build makes of the same documents.
#[derive(Parser, Debug)]
#[command(name = "dedup-shard", version, after_help = examples(&MANUAL), max_term_width = 110, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[arg(long, value_name = "WHAT", hide = true)]
    generate: Option<What>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Cut a corpus into tasks: write plan.json, slices and a Makefile
    Plan(Box<plan::PlanArgs>),
    /// Run all tasks that are not done yet; the index is RUN/index
    Run(run::RunTasksArgs),
    /// Run tasks by hand; one whose output is there and whole is left as it is
    Task(task::TaskArgs),
    /// Show which tasks are done, by what is on disk
    Status(status::StatusArgs),
    /// Put together what the tasks made
    Gather(gather::GatherArgs),
    /// Remove what tasks made on the way; the plan and the index stay
    Clean(clean::CleanArgs),
    /// What run starts on hosts: it speaks with run over stdin and stdout, and ends with it
    #[command(hide = true)]
    Worker(hosts::WorkerArgs),
}

/// The run that a verb works on.
#[derive(Args, Debug)]
struct OfRun {
    /// The directory that plan made
    #[arg(value_name = "RUN")]
    run: PathBuf,
}

impl OfRun {
    /// The plan, and the run's directory, whatever directory is worked in later.
    fn open(&self) -> Result<(Plan, PathBuf), anyhow::Error> {
        let plan = Plan::read(&self.run)?;
        Ok((
            plan,
            self.run
                .canonicalize()
                .with_context(|| self.run.display().to_string())?,
        ))
    }
}

const MANUAL: Manual = Manual {
    examples: &[
        (
            "echo 'localhost slots=4' > hosts && dedup-shard plan -o my.run --hosts hosts corpus/",
            "Cut a corpus into tasks for four cores",
        ),
        (
            "dedup-shard run my.run",
            "Run them; the index is my.run/index",
        ),
        ("dedup-shard status my.run", "How far it got"),
        (
            "dedup-shard status my.run --missing | xargs -r dedup-shard task my.run",
            "What is missing, by hand",
        ),
        ("make -s -C my.run -j4", "The same with make"),
        (
            "dedup-shard run my.run --engine slurm --print",
            "The script that would submit them to a Slurm cluster",
        ),
        (
            "dedup-shard status my.run --report",
            "Also write my.run/report.html: when each task ran, and where",
        ),
        (
            "dedup-shard plan -o b.run --hosts hosts --base my.run/index corpus/",
            "Bring the index up to date with its files",
        ),
        (
            "dedup-shard run b.run",
            "The same commit as that of dedup-index sync",
        ),
        (
            "dedup-shard clean my.run",
            "Leave nothing but the plan and the index",
        ),
    ],
    sections: &[
        (
            "RUNS",
            &[
                "RUN/plan.json says everything: what each task reads and writes. RUN/slices holds the names of the documents, with the size and time of each file: a file that has changed since \
                 makes its task fail, and is to be planned anew. RUN/Makefile has the same tasks as command lines. The directory is for its owner alone.",
                "map accepts a slice in, and writes its documents and the sorted postings of each range. number tells which documents count, and where they stand in the whole. reduce joins one range of all slices, sets numbers the sets of documents of all ranges, part writes the part of the index of a range. gather puts documents, sets and parts in one directory; the parts are linked, not written again. An output \
                 is written beside, and renamed when it is whole; the last rename makes the index. What was cut or altered is noticed by its checksums, and made again.",
                "Whole files are dealt out: one file of many documents is one task's work. Paths that are relative start where plan was called. Documents must be files: a pipe cannot be read again.",
                "With --base the index is made to follow its files: base links to what it has, and makes segments into one if they pile up, map reads what is new or has changed, gather puts the new segment beside what is there, and commit replaces the manifest of IDX, as the last rename. What is committed is, byte for byte, \
                 what dedup-index sync would have committed. If IDX has changed since the plan was made, it is refused; an unfinished run never changes it. A table is then the rows to delete, update and insert, as dedup-extract table --since has them.",
                "A slot is a task at a time, with one core and the memory that plan was told. run --engine local runs all of them on this machine, whatever the hosts are called: there their slots only say how finely \
                 the work is cut; run --engine ssh runs them on the hosts.",
            ],
        ),
        hosts::SECTION,
        (
            "SLURM",
            &[
                "run --engine slurm submits a job array for each kind of task, several where the cluster limits the indices of one; each starts when all arrays of the kind before it have ended well. Only \
                 what is missing is submitted. All nodes must see the run, the documents and this program under the same names, and the name of the run may hold neither % nor a backslash.",
                "It then waits: a task is done when its output is there. Accounting is not asked. A job whose node failed is run again by Slurm, one that lost its disk by itself (--requeues). If a task fails, those that wait \
                 are cancelled, and its log and the end of it are told. Ctrl-C cancels the jobs, unless --leave-jobs. If this is killed, the jobs go on; run again waits for them, and submits nothing twice.",
                "RUN/logs has the log of each job, with all attempts; RUN/slurm.json the numbers of the arrays.",
            ],
        ),
        (
            "REPORTS",
            &[
                "RUN/events.jsonl, and RUN/events with a file for each job of a cluster, say what happened when, a JSON object a line. They are for people and estimates: nothing is decided by them. status adds them up: \
                 what each host did, how fast, what was moved, by kind and by whether it went from host to host, and how long the rest may take. Tasks whose outputs are on hosts count as done; --missing names them, as whoever goes on without these hosts must run them. run writes RUN/report.html when it ends, a page with the time line of all tasks.",
            ],
        ),
        (
            "EXIT STATUS OF TASKS",
            &[
                "task: 0: done, or done before. 1: it failed, and to run it again will not help. 75: the disk or the host was lost; run it again when there is room, or elsewhere. 2: wrong arguments. \
                 run ends with 75 if all that failed was lost, or it was stopped, else as below.",
            ],
        ),
    ],
    see_also: &[
        ("dedup", 7),
        ("dedup-index", 1),
        ("dedup-index", 5),
        ("dedup-shard", 5),
    ],
};

impl Tool for Arguments {
    const MANUAL: Manual = MANUAL;

    fn generate(&self) -> Option<What> {
        self.generate
    }

    fn run(&self) -> Result<ExitCode, anyhow::Error> {
        match &self.command {
            Some(Command::Plan(args)) => plan::run_plan(args),
            Some(Command::Run(args)) => run::run_run(args),
            Some(Command::Task(args)) => task::run_tasks(args),
            Some(Command::Status(args)) => {
                let (plan, directory) = OfRun {
                    run: args.run.clone(),
                }
                .open()?;
                status::show(args, &plan, &directory)?;
                Ok(ExitCode::SUCCESS)
            }
            Some(Command::Gather(args)) => gather::run_gather(args),
            Some(Command::Clean(args)) => clean::run_clean(args),
            Some(Command::Worker(args)) => hosts::run_worker(args),
            None => anyhow::bail!("say what to do: plan, run, task, status, gather or clean"),
        }
    }
}

/// What could not be used, the account of what was read, and what the exit status says of it.
fn tell(plan: &Plan, input: &RunInput, quiet: bool) -> ExitCode {
    let severity = if plan.options.skip_bad {
        "warning: "
    } else {
        ""
    };
    let problems = input
        .problems
        .iter()
        .filter(|_| !(quiet && plan.options.skip_bad))
        .map(|problem| format!("{severity}{problem}"));
    let said = problems.chain((!quiet).then(|| input.account.to_string()));
    said.for_each(|line| say(&format!("{}: {line}", PROGRAM)));
    exit_code(input.problems.len().to_u64(), plan.options.skip_bad)
}

/// Runs dedup-shard with the arguments of the process.
pub fn main() -> ExitCode {
    main_of::<Arguments>()
}
