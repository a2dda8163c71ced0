//! Engines: where the tasks of a plan run.
//!
//! An engine is one file here and one row of [`ENGINES`]. [`local`] and [`ssh`]
//! give their machines to the [scheduler](crate::cluster::scheduler); [`slurm`] submits job arrays,
//! which a cluster schedules by itself.

mod local;
mod ship_program;
mod slurm;
mod ssh;

pub use local::{LocalEngine, LocalMachine, open_log};
pub use ship_program::is_program;
pub use slurm::{QueuedJob, SlurmEngine, SlurmOptions, TaskStage, ranges};
pub use ssh::{SshEngine, SshEngineOptions, SshSetup};

use crate::{
    base::error::Result,
    cluster::plan::{Plan, Task},
};
use std::{
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::ExitStatus,
    thread,
    time::Duration,
};

/// All engines; the first is the default.
pub const ENGINES: &[EngineEntry] = &[
    EngineEntry {
        name: "local",
        help: "Processes of this machine",
        is_batch_system: false,
        build: local::build,
    },
    EngineEntry {
        name: "ssh",
        help: "The hosts of the plan, over SSH",
        is_batch_system: false,
        build: ssh::build,
    },
    EngineEntry {
        name: "slurm",
        help: "Job arrays of a Slurm cluster, whose nodes all see the run, the documents and this program",
        is_batch_system: true,
        build: slurm::build,
    },
];

/// An engine that a user can choose.
#[derive(Debug)]
pub struct EngineEntry {
    /// The name by which users choose it.
    pub name: &'static str,
    /// One line for the help.
    pub help: &'static str,
    /// Whether its tasks are jobs that outlive this process. Then a signal goes to the
    /// [observer](RunObserver::pause), so that the engine can cancel them.
    pub is_batch_system: bool,
    /// Makes the engine for a run.
    pub build: for<'p> fn(EngineSetup<'p>) -> Result<Box<dyn Engine + 'p>>,
}

/// A run, and the options of all engines; each engine takes its own.
pub struct EngineSetup<'p> {
    /// The plan.
    pub plan: &'p Plan,
    /// The directory of the run.
    pub directory: &'p Path,
    /// The path of dedup-shard on this machine.
    pub program: PathBuf,
    /// How many tasks this machine runs at a time.
    pub slots: u32,
    /// How the scheduler carries out the run.
    pub options: RunOptions,
    /// How to reach the hosts of the plan; required by `ssh`.
    pub ssh: Option<SshSetup>,
    /// How to submit jobs; if not set, `slurm` uses the defaults.
    pub slurm: Option<SlurmOptions>,
}

impl<'p> EngineSetup<'p> {
    /// This machine, as an engine sees it.
    fn local_machine(&self) -> LocalMachine<'p> {
        LocalMachine {
            plan: self.plan,
            program: self.program.clone(),
            run: self.directory.to_owned(),
            slots: self.slots,
        }
    }
}

/// Runs the tasks of a plan.
pub trait Engine {
    /// Runs the tasks that are not done yet. After a failure no other task starts.
    fn run(&self, observer: &mut dyn RunObserver) -> Result<RunOutcome>;

    /// Removes what the run left on other machines. Returns the machines that could not be cleaned,
    /// and why.
    fn clean(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Receives the progress of a run.
pub trait RunObserver {
    /// A task is done, or was done before.
    fn task_done(&mut self, task: &Task);

    /// Something that the user may want to know.
    fn message(&mut self, text: &str);

    /// Something went wrong, and the run goes on.
    fn warning(&mut self, text: &str);

    /// The jobs of the run that a cluster knows.
    fn jobs(&mut self, jobs: &[QueuedJob]) {
        let _ = jobs;
    }

    /// Waits; returns true if the run is to stop.
    fn pause(&mut self, time: Duration) -> bool {
        thread::sleep(time);
        false
    }
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// All tasks are done.
    Done,
    /// Some tasks were not done.
    Failed(Vec<Failure>),
    /// The observer stopped it.
    Stopped,
}

/// A task that was not done, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The id of the task, or `run`.
    pub task: String,
    /// What became of it.
    pub verdict: Verdict,
}

/// How a run is carried out by the scheduler.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    /// How often a task may be lost before the run is given up.
    pub retries: u32,
    /// How many tasks run at a time, on all machines together; if not set, one for each slot.
    pub max_tasks: Option<usize>,
}

/// The default of [`RunOptions::retries`].
pub const DEFAULT_RETRIES: u32 = 3;

/// The exit status of a task that was lost, from sysexits: try again later.
pub const EXIT_LOST: u8 = 75;

/// What became of a task. Only its output counts in the end; this says whether to try again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Its output is there.
    Done,
    /// It failed, and running it again will not help.
    Failed(String),
    /// The host, its disk or its memory failed: it may run elsewhere, or later.
    Lost(String),
}

impl Verdict {
    /// Judges a task by the exit status of its process. `what`: the end of its log, and where the
    /// log is.
    pub fn of(status: ExitStatus, what: String) -> Self {
        match (status.code(), status.signal()) {
            (Some(0), _) => Self::Done,
            (Some(code), _) if code == i32::from(EXIT_LOST) => Self::Lost(what),
            (None, Some(signal)) => Self::Lost(format!("killed by signal {signal}; {what}")),
            _ => Self::Failed(what),
        }
    }
}
