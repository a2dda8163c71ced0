//! dedup-shard: an index built in slices and ranges, task by task.

use super::{
    Manual, Tool,
    args::{QuietArgs, threads_of},
    exit_code,
    fleet::{self, FleetArgs, WorkerArgs, run_worker},
    generate::{What, examples},
    main_of, name,
    plan::{PlanArgs, run_plan},
    progress::{TaskBar, say, say_lines},
    run_console::RunConsole,
    slurm::{ElementArgs, JobLog, SlurmArgs},
    status::{self, StatusArgs},
};
use crate::{
    base::{
        error::{Error, is_of_machine},
        num::{ToU64, ToUsize},
    },
    cluster::{
        DEFAULT_RETRIES, ENGINES, EXIT_LOST, Engine, EngineEntry, EngineSetup, EventLog, Failure,
        OutputState, Plan, RunInput, RunLock, RunObserver, RunOptions, RunOutcome, RunSummary,
        TaskError, TaskKind, TaskWork, Verdict, clean, enter_directory, gather_index, gather_needs,
        has_file, input_of, output_state, run_task, write_input, write_report,
    },
};
use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum, builder::PossibleValue};
use std::{
    env, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

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
    Plan(Box<PlanArgs>),
    /// Run all tasks that are not done yet; the index is RUN/index
    Run(RunTasksArgs),
    /// Run tasks by hand; one whose output is there and whole is left as it is
    Task(TaskArgs),
    /// Show which tasks are done, by what is on disk
    Status(StatusArgs),
    /// Put together what the tasks made
    Gather(GatherArgs),
    /// Remove what tasks made on the way; the plan and the index stay
    Clean(CleanArgs),
    /// What run starts on hosts: it speaks with run over stdin and stdout, and ends with it
    #[command(hide = true)]
    Worker(WorkerArgs),
}

#[derive(Args, Debug)]
struct OfRun {
    /// The directory that plan made
    #[arg(value_name = "RUN")]
    run: PathBuf,
}

/// An engine of [`ENGINES`].
#[derive(Debug, Clone, Copy)]
struct EngineName(&'static EngineEntry);

impl EngineName {
    fn is(self, name: &str) -> bool {
        self.0.name == name
    }
}

impl ValueEnum for EngineName {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: [EngineName; ENGINES.len()] = {
            let mut all = [EngineName(&ENGINES[0]); ENGINES.len()];
            let mut number = 1;
            while number < ENGINES.len() {
                all[number] = EngineName(&ENGINES[number]);
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

#[derive(Args, Debug)]
struct RunTasksArgs {
    #[command(flatten)]
    of: OfRun,
    /// Who runs the tasks
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
    fleet: FleetArgs,
    #[command(flatten)]
    slurm: SlurmArgs,
}

#[derive(Args, Debug)]
struct CleanArgs {
    #[command(flatten)]
    of: OfRun,
    #[command(flatten)]
    _quiet: QuietArgs,
    /// Where else: ssh removes the run from the hosts of the plan, too
    #[arg(long, value_enum, default_value = ENGINES[0].name)]
    engine: EngineName,
    #[command(flatten)]
    fleet: FleetArgs,
}

#[derive(Args, Debug)]
struct TaskArgs {
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

#[derive(Args, Debug)]
struct GatherArgs {
    #[command(flatten)]
    of: OfRun,
    /// The directory to make; it must not be there yet
    #[arg(short, long, value_name = "IDX")]
    output: PathBuf,
    /// No account of what was read; errors are still reported
    #[arg(short, long)]
    quiet: bool,
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
        fleet::SECTION,
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
            Some(Command::Plan(args)) => run_plan(args),
            Some(Command::Run(args)) => run_run(args),
            Some(Command::Task(args)) => run_tasks(args),
            Some(Command::Status(args)) => {
                let (plan, directory) = OfRun {
                    run: args.run.clone(),
                }
                .open()?;
                status::show(args, &plan, &directory)?;
                Ok(ExitCode::SUCCESS)
            }
            Some(Command::Gather(args)) => run_gather(args),
            Some(Command::Clean(args)) => run_clean(args),
            Some(Command::Worker(args)) => run_worker(args),
            None => anyhow::bail!("say what to do: plan, run, task, status, gather or clean"),
        }
    }
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

fn run_run(args: &RunTasksArgs) -> Result<ExitCode, anyhow::Error> {
    run_all(args).or_else(|error| {
        if is_lost(&error) {
            say_lines(&format!("{}: {error:#}", name::<Arguments>()));
            return Ok(ExitCode::from(EXIT_LOST));
        }
        Err(error)
    })
}

/// Refuses what an engine knows nothing of.
fn ensure_meant_for(
    engine: EngineName,
    fleet: &FleetArgs,
    slurm: Option<&SlurmArgs>,
) -> Result<(), anyhow::Error> {
    if let Some(flag) = fleet.given().filter(|_| !engine.is("ssh")) {
        anyhow::bail!("{flag} is for --engine ssh only");
    }
    if let Some(flag) = slurm
        .and_then(SlurmArgs::given)
        .filter(|_| !engine.is("slurm"))
    {
        anyhow::bail!("{flag} is for --engine slurm only");
    }
    Ok(())
}

fn run_all(args: &RunTasksArgs) -> Result<ExitCode, anyhow::Error> {
    ensure_meant_for(args.engine, &args.fleet, Some(&args.slurm))?;
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
        say(&format!("{}: {error}", name::<Arguments>()));
    }
    if failures.is_empty() {
        let input = input_of(&directory)?.unwrap_or_default();
        return Ok(tell(&plan, &input, args.quiet));
    }
    Ok(tell_failures(&failures))
}

/// A run for an engine, with defaults for all that the flags of hosts do not say.
fn setup<'p>(
    engine: EngineName,
    fleet: &FleetArgs,
    plan: &'p Plan,
    directory: &'p Path,
) -> Result<EngineSetup<'p>, anyhow::Error> {
    let program = env::current_exe().context("dedup-shard")?;
    let ssh = engine.is("ssh").then(|| fleet.setup(plan, &program));
    Ok(EngineSetup {
        plan,
        directory,
        slots: 1,
        options: RunOptions {
            retries: DEFAULT_RETRIES,
            max_tasks: None,
        },
        ssh: ssh.transpose()?,
        slurm: None,
        program,
    })
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
    let mut console = RunConsole::new(name::<Arguments>(), bar, args.quiet);
    if args.engine.is("slurm") {
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
            say_lines(&format!("{}: {task}: {what}", name::<Arguments>()));
        }
    }
    let is_lost = failures
        .iter()
        .all(|failure| matches!(failure.verdict, Verdict::Lost(_)));
    ExitCode::from(if is_lost { EXIT_LOST } else { 2 })
}

fn run_clean(args: &CleanArgs) -> Result<ExitCode, anyhow::Error> {
    ensure_meant_for(args.engine, &args.fleet, None)?;
    let (plan, directory) = args.of.open()?;
    let _lock = RunLock::take(&directory)?;
    clean(&directory)?;
    let setup = setup(args.engine, &args.fleet, &plan, &directory)?;
    let missed = (args.engine.0.build)(setup)?.clean();
    missed
        .iter()
        .for_each(|what| say_lines(&format!("{}: {what}", name::<Arguments>())));
    Ok(ExitCode::from(if missed.is_empty() {
        0
    } else {
        EXIT_LOST
    }))
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
    said.for_each(|line| say(&format!("{}: {line}", name::<Arguments>())));
    exit_code(input.problems.len().to_u64(), plan.options.skip_bad)
}

/// Exit of a task that will fail again.
const FAILED: u8 = 1;

fn run_tasks(args: &TaskArgs) -> Result<ExitCode, anyhow::Error> {
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
        say_lines(&format!("{}: {}: {what}", name::<Arguments>(), task.id));
        return Ok(ExitCode::from(code));
    }
    Ok(ExitCode::SUCCESS)
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

fn run_gather(args: &GatherArgs) -> Result<ExitCode, anyhow::Error> {
    let (plan, directory) = args.of.open()?;
    let output =
        std::path::absolute(&args.output).with_context(|| args.output.display().to_string())?;
    let inputs = plan
        .tasks_of(TaskKind::Gather)
        .flat_map(|task| task.inputs.iter().cloned());
    let needs: Vec<String> = inputs
        .chain(gather_needs(&plan).into_values().flatten())
        .collect();
    for task in plan
        .tasks
        .iter()
        .filter(|task| task.kind() < TaskKind::Gather)
    {
        // Only what is read: of what was made on hosts no more than that is here.
        let has_needs = || {
            needs
                .iter()
                .filter(|path| Path::new(path).starts_with(&task.output))
                .all(|path| has_file(&plan, path, &directory))
        };
        match output_state(&plan, task, &directory) {
            OutputState::Missing | OutputState::Partial if !has_needs() => {
                anyhow::bail!("{} is not done; dedup-shard run does it", task.id)
            }
            OutputState::Done | OutputState::Missing | OutputState::Partial => {}
            OutputState::Damaged(what) => anyhow::bail!(
                "{what}; dedup-shard task {} {} makes it again",
                args.of.run.display(),
                task.id
            ),
        }
    }
    enter_directory(&plan)?;
    let input = write_input(&plan, &directory)?;
    for task in plan.tasks_of(TaskKind::Gather) {
        if let TaskWork::Gather(files) = &task.work {
            gather_index(&plan, &directory, files, &output)?;
        }
    }
    Ok(tell(&plan, &input, args.quiet))
}

pub fn main() -> ExitCode {
    main_of::<Arguments>()
}
