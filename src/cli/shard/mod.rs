//! dedup-shard: an index built in slices and ranges, task by task.

mod clean;
mod cleaning;
mod clusters;
mod engine;
mod export;
mod gather;
mod hosts;
mod plan;
mod plan_width;
mod run;
mod run_console;
mod slurm;
mod status;
mod task;

use super::{
    Manual, Tool, account_file, exit_code,
    extract::RuleArgs,
    generate::{What, examples},
    main_of, missing_verb,
    progress::say,
};
use crate::{
    base::num::ToU64,
    cluster::{Plan, RunInput},
};
use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use std::{collections::HashSet, path::PathBuf, process::ExitCode};

const PROGRAM: &str = "dedup-shard";

/// Build an index in slices and ranges, task by task, on many cores or hosts
///
/// A plan cuts the documents into slices and the blots into ranges. Each task is one command line with one output, which appears when it is complete: so a run that was stopped continues
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
    /// Run tasks by hand; tasks with complete output are skipped
    Task(task::TaskArgs),
    /// Write the tasks for another engine: Snakemake, Ray or make
    Export(export::ExportArgs),
    /// Show which tasks are done, judged by the files on disk
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
    /// The plan, and the absolute directory of the run.
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
            "dedup-shard plan -o my.run --slots 4 corpus/",
            "Cut a corpus into tasks for four cores",
        ),
        (
            "dedup-shard run my.run",
            "Run them; the index is my.run/index",
        ),
        ("dedup-shard status my.run", "How far it got"),
        (
            "dedup-shard status my.run --missing | xargs -r dedup-shard task my.run",
            "Run the missing tasks by hand",
        ),
        ("make -s -C my.run -j4", "The same with make"),
        (
            "dedup-shard export my.run --to snakemake",
            "Write my.run/Snakefile, and print the command that runs it",
        ),
        (
            "dedup-shard run my.run --engine slurm --print",
            "The script that would submit them to a Slurm cluster",
        ),
        (
            "dedup-shard status my.run --report",
            "Also write my.run/report.html: when each task ran, and where",
        ),
        (
            "dedup-shard plan -o b.run --slots 4 --base my.run/index corpus/",
            "Bring the index up to date with its files",
        ),
        (
            "dedup-shard run b.run",
            "The same commit as that of dedup-index sync",
        ),
        (
            "dedup-shard plan -o c.run --slots 4 --clean clean/ --cut-spans 50 corpus/",
            "Also write the files again, without what is there twice",
        ),
        (
            "dedup-shard run -q c.run",
            "The files that dedup-extract clean would write to clean/",
        ),
        (
            "dedup-shard plan -o g.run --slots 4 --clusters corpus/",
            "Also find groups of similar documents: g.run/clusters.ndjson",
        ),
        (
            "dedup-shard run g.run",
            "What dedup-extract clusters would find",
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
                "RUN/plan.json describes what each task reads and writes. RUN/slices holds the names of the documents, with the size and time of \
                 each file: if a file has changed since, its task fails, and a new plan is needed. RUN/Makefile has the same tasks as command \
                 lines. Only the owner can read the directory.",
                "map reads a slice, and writes its documents and the sorted postings of each range. number decides which documents count, and \
                 numbers them. reduce joins one range of all slices, join the document sets of all ranges that are in a share of the documents, \
                 sets numbers them all, part writes the part of the index for a range. gather collects documents, sets and parts in one directory; it links the parts instead of writing them again. \
                 Each output is written under another name, and renamed when it is complete; the last rename makes the index. Checksums detect \
                 outputs that were truncated or altered, and these are made again.",
                "A slice has whole files, or parts of large ones. NDJSON, lines, CSV, TSV and FASTA are cut between records: plan reads such \
                 a file once, to count its lines, so that ids and messages are those of the whole file. Parquet is cut between row groups, \
                 gzip between members or blocks (bgzip), Zstandard between frames (pzstd); for that plan unpacks them once. Other large files \
                 are one task each, and plan names them: a gzip or Zstandard file of a single stream, xz, bzip2 and lz4, JSON arrays, WARC, \
                 archives, packed tables, text that is not UTF-8, and with --clean everything that is packed, and Parquet.",
                "Relative paths start from the directory in which plan was called. Documents must be files, as a pipe cannot be read again.",
                "With --base the run brings an existing index up to date with its files: base links to the files of the index, and merges segments \
                 if there are many, map reads new and changed files, gather adds the new segment to the existing ones, and commit replaces the \
                 manifest of IDX, as the last rename. The commit is, byte for byte, the one that dedup-index sync would have made. commit refuses \
                 an index that has changed since the plan was made; an unfinished run never changes it. A table then has the rows to delete, update \
                 and insert, as dedup-extract table --since has them.",
                "With --table or --clusters the documents are compared on all hosts as well. For the table, count counts what pairs share in one range, \
                 rows makes the rows of a share of the documents. For clusters, links finds which documents of a share are connected with others, \
                 groups joins these, and members writes a share of the clusters. table and clusters put the shares together; they have the bytes of \
                 dedup-extract table and clusters. With --base one task finds the clusters, where the index is.",
                "With --clean OUT the run also writes the files again, without documents and passages that are there twice: what OUT gets has, \
                 byte for byte, what dedup-extract clean -o OUT would have written, and so have the files of --dropped, --cuts and --report. \
                 See CLEAN in dedup-extract(1) for what goes and what stays. The ids of the index then also tell the place of each document. \
                 copies finds, for a share of the documents, which others have enough of each; not with --against. decide reads that and the \
                 index, and for --cut-spans and --keep FIELD all documents once more, and decides about every document. It \
                 runs where the run directory is, with all cores of that machine; documents that --against names are indexed there, too. \
                 write writes the files of a slice again, on any host: a file of 16 MB or more has a slice of its own, or several, smaller ones \
                 share one, and there are 4096 slices at most. place links the written files into OUT, or copies them if OUT is on another disk \
                 or they were written in parts, and \
                 writes records and report last. Until then OUT is empty, and RUN has room for a copy of what stays. OUT must be empty or \
                 not there when the plan is made. A document that is changed meanwhile ends the run. If OUT is removed, run writes it again.",
                "A slot runs one task at a time, with one core and the memory that plan was given. plan --slots N needs no hosts, for all \
                 engines but ssh. There are 256 ranges at most, so that more slots than that wait where work is divided by ranges. run --engine local runs all tasks on this \
                 machine, regardless of the names of the hosts: their slots then only determine how finely the work is divided; run --engine ssh runs \
                 them on the hosts.",
            ],
        ),
        hosts::SECTION,
        (
            "SLURM",
            &[
                "run --engine slurm submits a job array for each kind of task, several where the cluster limits the indices of one; each starts \
                 when all arrays of the kind before it have succeeded. It submits only missing tasks. All nodes must see the run, the documents and \
                 this program under the same names, and the name of the run must contain neither % nor a backslash.",
                "It then waits: a task is done when its output is there. It does not need accounting. Slurm runs a job again if its node failed, \
                 and a job that lost its disk requeues itself (--requeues). If a task fails, waiting tasks are cancelled, and the name and the end \
                 of its log are printed. Ctrl-C cancels the jobs, unless --leave-jobs is given. If this program is killed, the jobs continue; \
                 calling run again waits for them, and submits nothing twice.",
                "RUN/logs has the log of each job, with all attempts; RUN/slurm.json the numbers of the arrays.",
            ],
        ),
        (
            "OTHER ENGINES",
            &[
                "export --to writes the tasks for an engine that you have already, and prints the command that runs them. Each does what run \
                 does: it leaves complete outputs as they are, so that it can be called again after any interruption, and gives the same bytes. \
                 All machines must see the run, the documents and dedup-shard under the same names. Afterwards, dedup-shard run RUN prints the \
                 account of what was read.",
                "snakemake: RUN/Snakefile has a rule for each kind of task, so that --set-resources map:mem_mb=4000 and the like work, and \
                 executors of Snakemake run it on clusters. Tasks that were lost (75) are run again, --config lost_retries=N times; one that \
                 failed is not. If snakemake itself is killed, its jobs go on: wait for them, call it with --unlock, and again. \
                 Markers are in RUN/.done; a missing output is made again whatever they say.",
                "ray: RUN/run_on_ray.py --address ADDRESS runs each task on one CPU of a Ray cluster. Tasks that were lost, or whose worker or \
                 node was, are run again on another node, --retries times; one that failed ends the run, with 1.",
                "make: RUN/Makefile, which plan writes as well.",
                "Kubernetes: make an indexed Job for each kind of task, in the order of dedup-shard status, with as many completions as there \
                 are tasks of the kind, on a volume that all pods see. The command of a pod is dedup-shard task RUN --stage KIND --element \
                 $JOB_COMPLETION_INDEX. A podFailurePolicy with a rule FailJob for exit codes 1 and 2, and backoffLimitPerIndex: 3, keeps to the \
                 exit status of tasks: 75 is tried again, in another pod.",
                "Containers under Slurm: a job of run --engine slurm starts this program by its path. Where that path is inside of a container, \
                 hand the options of your site to sbatch, such as --sbatch-arg=--container-image=IMAGE --sbatch-arg=--container-mounts=/data \
                 with Pyxis, or --sbatch-arg=--container=BUNDLE for OCI bundles. With Apptainer and the like, name the command that jobs start \
                 instead: DEDUP_SHARD='apptainer exec --bind /data dedup.sif dedup-shard' dedup-shard run RUN --engine slurm. The container \
                 must have the same build of dedup-shard, and see the run and the documents under the same names.",
            ],
        ),
        (
            "REPORTS",
            &[
                "RUN/events.jsonl, and RUN/events with a file for each job of a cluster, record what happened when, one JSON object a line. They \
                 are for people and estimates; no decision depends on them. status summarizes them: what each host did and how fast, which data \
                 were moved, by kind and by whether they went directly from host to host, and an estimate of the remaining time. Tasks whose \
                 outputs are on hosts count as done; --missing lists them, as they must be run again if these hosts are not used any more. run \
                 writes RUN/report.html when it ends, a page with the time line of all tasks.",
            ],
        ),
        (
            "EXIT STATUS OF TASKS",
            &[
                "task: 0: done, or done before. 1: it failed, and running it again will not help. 75: the disk or the host was lost; run it again \
                 when there is room, or elsewhere. 2: wrong arguments. run ends with 75 if all failed tasks were lost, or if it was stopped; \
                 otherwise as below.",
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

    fn adjust(command: clap::Command) -> clap::Command {
        // The help of dedup-extract clean shows them.
        command.mut_subcommand("plan", |plan| {
            RuleArgs::IDS.iter().fold(plan, |plan, id| {
                plan.mut_arg(id, |flag| flag.hide_short_help(true))
            })
        })
    }

    fn generate(&self) -> Option<What> {
        self.generate
    }

    fn run(&self) -> Result<ExitCode, anyhow::Error> {
        match &self.command {
            Some(Command::Plan(args)) => plan::run_plan(args),
            Some(Command::Run(args)) => run::run_run(args),
            Some(Command::Task(args)) => task::run_tasks(args),
            Some(Command::Export(args)) => export::run_export(args),
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
            None => Err(missing_verb::<Self>()),
        }
    }
}

/// What could not be used, the account of what was read, and what the exit status says of it.
fn tell(plan: &Plan, input: &RunInput, quiet: bool) -> ExitCode {
    account_file::add(&input.account);
    input.left_out.iter().for_each(account_file::leave_out);
    let is_named: HashSet<String> = input.left_out.iter().map(ToString::to_string).collect();
    input
        .problems
        .iter()
        .filter(|&problem| !is_named.contains(problem))
        .for_each(|problem| account_file::add_problem(problem));
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
    let lines = problems.chain((!quiet).then(|| input.account.to_string()));
    lines.for_each(|line| say(&format!("{}: {line}", PROGRAM)));
    exit_code(input.problems.len().to_u64(), plan.options.skip_bad)
}

/// Runs dedup-shard with the arguments of the process.
pub fn main() -> ExitCode {
    main_of::<Arguments>()
}
