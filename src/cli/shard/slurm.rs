//! dedup-shard run --engine slurm, and what its jobs call.

use super::{
    super::{output::Output, progress::say},
    engine::EngineFlags,
};
use crate::{
    base::num::ToUsize,
    cluster::{
        Event, EventKind, EventLog, Plan, SlurmEngine, SlurmOptions, Task, TaskStage, Verdict,
        bytes_of,
    },
};
use anyhow::Context;
use clap::Args;
use std::{env, io::Write, path::Path, process::ExitCode};

#[derive(Args, Debug)]
#[command(next_help_heading = "With --engine slurm")]
pub struct SlurmArgs {
    /// Write the script that would submit the jobs, and submit nothing
    #[arg(long)]
    pub print: bool,
    /// An argument for sbatch, such as --partition=long or --time=2:00:00; once for each
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub sbatch_arg: Vec<String>,
    /// How many tasks a job has [default: 1, or as many as make 1,000 jobs of a stage]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub tasks_per_job: Option<u32>,
    /// How often a job is run again that lost its disk or its host [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub requeues: Option<u32>,
    /// When this is stopped by Ctrl-C or SIGTERM, let the jobs go on; run waits for them again
    #[arg(long)]
    pub leave_jobs: bool,
}

/// How a job of an array says which tasks it has.
#[derive(Args, Debug)]
pub struct ElementArgs {
    /// Instead of ids: tasks of this kind, such as map
    #[arg(
        long,
        value_name = "KIND",
        requires = "element",
        conflicts_with = "ids"
    )]
    pub stage: Option<String>,
    /// Which of them: the K-th N, counted from 0
    #[arg(long, value_name = "K", requires = "stage")]
    pub element: Option<usize>,
    /// How many an element has
    #[arg(long, value_name = "N", default_value_t = 1, requires = "stage", value_parser = clap::value_parser!(u32).range(1..))]
    pub each: u32,
}

impl ElementArgs {
    /// None if ids were given instead.
    pub fn tasks<'p>(&self, plan: &'p Plan) -> Result<Option<Vec<&'p Task>>, anyhow::Error> {
        let (Some(name), Some(element)) = (&self.stage, self.element) else {
            return Ok(None);
        };
        let stages = TaskStage::all(plan);
        let Some(stage) = stages.iter().find(|stage| stage.name == *name) else {
            let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
            anyhow::bail!(
                "the plan has no tasks of the kind '{name}'; it has {}",
                names.join(", ")
            );
        };
        let tasks = stage.element(element, self.each.to_usize());
        if tasks.is_empty() {
            anyhow::bail!(
                "{name} has {} tasks: with {} each there is no element {element}",
                stage.tasks.len(),
                self.each
            );
        }
        Ok(Some(tasks.to_vec()))
    }
}

/// Logs the tasks that a job runs, on stderr and in the events of the run.
pub struct JobLog {
    events: Option<EventLog>,
    host: String,
    run: std::path::PathBuf,
}

impl JobLog {
    /// Logs nothing outside of a job.
    pub fn new(run: &Path) -> Self {
        let of = |name: &str| env::var(name).unwrap_or_default();
        let host = of("SLURMD_NODENAME");
        if host.is_empty() {
            return Self {
                events: None,
                host,
                run: run.to_owned(),
            };
        }
        let (job, attempt) = (
            format!("{}_{}", of("SLURM_ARRAY_JOB_ID"), of("SLURM_ARRAY_TASK_ID")),
            of("SLURM_RESTART_COUNT"),
        );
        let attempt = 1 + attempt.parse::<u32>().unwrap_or(0);
        say(&format!("job {job}, attempt {attempt} on {host}"));
        // Two attempts may be at work at once, if the first was only believed to be dead.
        let writer = format!("{job}.{attempt}.{host}.{}", std::process::id());
        Self {
            events: EventLog::append_as(run, &writer).ok(),
            host,
            run: run.to_owned(),
        }
    }

    /// A task goes on if its event cannot be written.
    fn log(&self, task: &Task, what: EventKind) {
        if let Some(events) = &self.events {
            let _ = events.write(&Event::now(&task.id, &self.host, 0, what));
        }
    }

    pub fn start(&self, task: &Task) {
        self.log(task, EventKind::Start);
    }

    pub fn end(&self, task: &Task, verdict: Verdict) {
        self.log(
            task,
            match verdict {
                Verdict::Done => EventKind::Done {
                    bytes_in: task.bytes,
                    bytes_out: bytes_of(&self.run.join(&task.output)),
                },
                Verdict::Lost(what) => EventKind::Lost(what),
                Verdict::Failed(what) => EventKind::Failed(what),
            },
        );
    }
}

impl EngineFlags for SlurmArgs {
    fn engine(&self) -> &'static str {
        "slurm"
    }

    fn flags(&self) -> Vec<(bool, &'static str)> {
        vec![
            (self.print, "--print"),
            (!self.sbatch_arg.is_empty(), "--sbatch-arg"),
            (self.tasks_per_job.is_some(), "--tasks-per-job"),
            (self.requeues.is_some(), "--requeues"),
            (self.leave_jobs, "--leave-jobs"),
        ]
    }
}

impl SlurmArgs {
    /// How to submit jobs; `jobs`: how many of a stage at a time.
    pub fn options(&self, jobs: Option<u32>) -> Result<SlurmOptions, anyhow::Error> {
        let defaults = SlurmOptions::new(env::current_exe().context("dedup-shard")?);
        Ok(SlurmOptions {
            jobs,
            tasks_per_job: self.tasks_per_job,
            retries: self.requeues.unwrap_or(defaults.retries),
            sbatch: self.sbatch_arg.clone(),
            leaves_jobs: self.leave_jobs,
            ..defaults
        })
    }

    /// Writes the script that would submit the jobs to stdout.
    pub fn print_script(
        &self,
        plan: &Plan,
        run: &Path,
        jobs: Option<u32>,
    ) -> Result<ExitCode, anyhow::Error> {
        let options = self.options(jobs)?;
        let script = SlurmEngine { plan, run, options }.script()?;
        Output::open(None, false)?.write_all(script.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}
