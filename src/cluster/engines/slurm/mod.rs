//! The engine `slurm`: job arrays, which are submitted once; then outputs and the queue are
//! watched.
//!
//! The queue is a hint only. A task is done when its output is there; a job that left the queue and
//! whose output does not appear within some seconds has failed. Accounting is not used: many sites
//! have none.

mod commands;
mod jobs;
mod submitted;

pub use commands::QueuedJob;
pub use jobs::{SlurmOptions, TaskStage, ranges};

use crate::base::{
    error::{Error, Result},
    files::atomic_dir,
};
use crate::cluster::{
    engines::{Engine, EngineSetup, Failure, RunObserver, RunOutcome, Verdict},
    plan::{Plan, Task},
    run::event_log::{Event, EventKind, EventLog},
    run::output_state::unfinished_tasks,
    run::programs::lacking_here,
};
use commands::{cancel, max_array_size, queue};
use jobs::{JobArray, SlurmJobs};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fs,
    path::Path,
    time::{Duration, Instant},
};
use submitted::{SubmittedArray, SubmittedJobs, submit};

/// A shared file system may show an output some time after its job has ended.
const GRACE: Duration = Duration::from_secs(10);
/// The lines of a log that are shown when a task failed.
const LAST_LINES: usize = 5;

/// The unfinished tasks as arrays. Reads every byte of the outputs.
fn missing_arrays(jobs: &SlurmJobs<'_>, plan: &Plan, run: &Path) -> Vec<JobArray> {
    let unfinished = unfinished_tasks(plan, run);
    jobs.arrays(|task| unfinished.contains(&task), max_array_size())
}

/// Makes the engine for a run.
pub fn build(setup: EngineSetup<'_>) -> Result<Box<dyn Engine + '_>> {
    Ok(Box::new(SlurmEngine {
        plan: setup.plan,
        run: setup.directory,
        options: setup
            .slurm
            .unwrap_or_else(|| SlurmOptions::new(setup.program)),
    }))
}

/// Runs tasks as jobs of a Slurm cluster.
pub struct SlurmEngine<'p> {
    /// The plan.
    pub plan: &'p Plan,
    /// The directory of the run, which all nodes see.
    pub run: &'p Path,
    /// How jobs are submitted.
    pub options: SlurmOptions,
}

impl Engine for SlurmEngine<'_> {
    fn run(&self, observer: &mut dyn RunObserver) -> Result<RunOutcome> {
        run_slurm(self.plan, self.run, &self.options, observer)
    }
}

impl SlurmEngine<'_> {
    /// The script that would submit the tasks that are not done.
    pub fn script(&self) -> Result<String> {
        let jobs = SlurmJobs::new(self.plan, self.run, &self.options)?;
        let arrays = missing_arrays(&jobs, self.plan, self.run);
        Ok(jobs.print(&arrays))
    }
}

/// Submits the missing tasks and waits for them. It also waits for jobs that are already queued
/// first.
fn run_slurm(
    plan: &Plan,
    run: &Path,
    options: &SlurmOptions,
    observer: &mut dyn RunObserver,
) -> Result<RunOutcome> {
    let jobs = SlurmJobs::new(plan, run, options)?;
    let mut wait = JobWatcher {
        plan,
        run,
        jobs: &jobs,
        reported: HashSet::new(),
        is_lost: false,
    };
    let mut record = SubmittedJobs::read(run)?;
    let queued = queue(&jobs.names())?;
    if !queued.is_empty() {
        observer.message(&format!(
            "{} jobs of this run are in the queue already; waiting for them",
            queued.len()
        ));
        let known = record
            .jobs
            .iter()
            .filter(|job| {
                job.stage < jobs.stages.len() && queued.iter().any(|other| other.array == job.id)
            })
            .cloned()
            .collect();
        match wait.wait(known, options, observer)? {
            RunOutcome::Done => {}
            ended => return Ok(ended),
        }
    }
    let arrays = missing_arrays(&jobs, plan, run);
    if arrays.is_empty() {
        plan.tasks.iter().for_each(|task| wait.tell(task, observer));
        return Ok(RunOutcome::Done);
    }
    // The nodes are likely to have what this machine has; nothing more can be known here.
    for what in lacking_here(plan, run) {
        observer.warning(&what);
    }
    let outputs: BTreeSet<_> = plan
        .tasks
        .iter()
        .filter_map(|task| run.join(&task.output).parent().map(Path::to_owned))
        .collect();
    outputs.iter().for_each(|parent| atomic_dir::sweep(parent));
    let logs = run.join("logs");
    fs::create_dir_all(&logs).map_err(|error| Error::io(logs.display(), error))?;
    let submitted = submit(&jobs, &arrays, run, &mut record)?;
    wait.wait(submitted, options, observer)
}

struct JobWatcher<'a> {
    plan: &'a Plan,
    run: &'a Path,
    jobs: &'a SlurmJobs<'a>,
    reported: HashSet<String>,
    /// Whether Slurm did not answer the last time.
    is_lost: bool,
}

/// The number of an array among the submitted ones, and an index.
type ArrayElement = (usize, usize);

impl JobWatcher<'_> {
    fn tell(&mut self, task: &Task, observer: &mut dyn RunObserver) {
        if self.reported.insert(task.id.clone()) {
            observer.task_done(task);
        }
    }

    /// Waits until no job of this run is in the queue.
    fn wait(
        &mut self,
        submitted: Vec<SubmittedArray>,
        options: &SlurmOptions,
        observer: &mut dyn RunObserver,
    ) -> Result<RunOutcome> {
        let (begun, mut gone) = (Instant::now(), HashMap::<ArrayElement, Instant>::new());
        let mut is_failed = false;
        loop {
            self.tell_done(observer);
            let queued = self.queue(observer);
            if let Some(queued) = &queued {
                observer.jobs(queued);
                let over: Vec<ArrayElement> = self.over(&submitted, queued);
                gone.retain(|element, _| over.contains(element));
                for element in over {
                    gone.entry(element).or_insert_with(Instant::now);
                }
                if !is_failed && gone.values().any(|since| since.elapsed() >= GRACE) {
                    is_failed = true;
                    cancel(submitted.iter().map(|job| job.id.as_str()), true);
                }
                if queued.is_empty() && (gone.is_empty() || is_failed) {
                    return self.outcome(&submitted, &gone);
                }
            }
            // Slurm does not answer, but all outputs are there.
            let is_all_there = |job: &SubmittedArray| {
                let array = job.array();
                job.indices.iter().all(|&index| {
                    self.jobs
                        .tasks(&array, index)
                        .iter()
                        .all(|task| is_there(self.run, task))
                })
            };
            if queued.is_none() && submitted.iter().all(is_all_there) {
                return Ok(RunOutcome::Done);
            }
            if observer.pause(
                (begun.elapsed() / 20).clamp(Duration::from_secs(1), Duration::from_secs(15)),
            ) {
                if !options.leaves_jobs {
                    cancel(submitted.iter().map(|job| job.id.as_str()), false);
                }
                return Ok(RunOutcome::Stopped);
            }
        }
    }

    /// The jobs in the queue, if Slurm answers.
    fn queue(&mut self, observer: &mut dyn RunObserver) -> Option<Vec<QueuedJob>> {
        let queued = queue(&self.jobs.names());
        if let Err(error) = &queued
            && !self.is_lost
        {
            observer.message(&format!("{error}; will ask again"));
        }
        self.is_lost = queued.is_err();
        queued.ok()
    }

    fn tell_done(&mut self, observer: &mut dyn RunObserver) {
        let plan = self.plan;
        for task in plan.tasks.iter().filter(|task| is_there(self.run, task)) {
            self.tell(task, observer);
        }
    }

    /// The elements that left the queue without being done.
    fn over(&self, submitted: &[SubmittedArray], queued: &[QueuedJob]) -> Vec<ArrayElement> {
        let queued: HashSet<(&str, &str)> = queued
            .iter()
            .map(|job| (job.array.as_str(), job.index.as_str()))
            .collect();
        let mut over = Vec::new();
        for (number, job) in submitted.iter().enumerate() {
            let array = job.array();
            for &index in &job.indices {
                let is_queued = queued.contains(&(job.id.as_str(), index.to_string().as_str()));
                if !is_queued
                    && !self
                        .jobs
                        .tasks(&array, index)
                        .iter()
                        .all(|task| is_there(self.run, task))
                {
                    over.push((number, index));
                }
            }
        }
        over
    }

    /// The failures of the first stage that failed: later stages never started.
    fn outcome(
        &self,
        submitted: &[SubmittedArray],
        gone: &HashMap<ArrayElement, Instant>,
    ) -> Result<RunOutcome> {
        let Some(stage) = gone
            .keys()
            .map(|&(number, _)| submitted[number].stage)
            .min()
        else {
            return Ok(RunOutcome::Done);
        };
        let events = EventLog::read(self.run).unwrap_or_default();
        let elements: BTreeSet<ArrayElement> = gone
            .keys()
            .copied()
            .filter(|&(number, _)| submitted[number].stage == stage)
            .collect();
        let mut failures: Vec<Failure> = elements
            .into_iter()
            .filter_map(|(number, index)| self.failure(&submitted[number], index, &events))
            .collect();
        if failures.is_empty() {
            let ids: Vec<&str> = submitted.iter().map(|job| job.id.as_str()).collect();
            let what = format!(
                "jobs {} ended before they began; squeue and scontrol may say why",
                ids.join(", ")
            );
            failures.push(Failure {
                task: self.jobs.stages[stage].name.clone(),
                verdict: Verdict::Lost(what),
            });
        }
        Ok(RunOutcome::Failed(failures))
    }

    /// Why an element was not done. None for a job that never started: it was cancelled because another failed.
    fn failure(&self, job: &SubmittedArray, index: usize, events: &[Event]) -> Option<Failure> {
        let array = job.array();
        let log = self
            .run
            .join(self.jobs.log(&array, &job.id, &index.to_string()));
        let tasks = self.jobs.tasks(&array, index);
        let task = tasks
            .iter()
            .find(|task| !is_there(self.run, task))
            .filter(|_| log.exists())?;
        let last = events.iter().rfind(|event| event.task == task.id);
        let host = last
            .map(|event| format!("on {}; ", event.host))
            .unwrap_or_default();
        let what = format!("job {}_{index} {host}{}", job.id, last_lines(&log));
        let is_failed = last.is_some_and(|event| matches!(event.what, EventKind::Failed(_)));
        let verdict = if is_failed {
            Verdict::Failed(what)
        } else {
            Verdict::Lost(what)
        };
        Some(Failure {
            task: task.id.clone(),
            verdict,
        })
    }
}

/// Whether the output is there. Listing the directory makes an NFS client look again.
fn is_there(run: &Path, task: &Task) -> bool {
    run.join(task.marker()).exists() || {
        let parent = run.join(&task.output);
        parent
            .parent()
            .is_some_and(|parent| fs::read_dir(parent).is_ok())
            && run.join(task.marker()).exists()
    }
}

fn last_lines(log: &Path) -> String {
    let output = fs::read(log)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default();
    let lines: Vec<&str> = output.lines().collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    let text: String = last.iter().map(|line| format!("\n  {line}")).collect();
    if text.is_empty() {
        format!("said nothing; see {}", log.display())
    } else {
        format!("ended without its output; see {}:{text}", log.display())
    }
}
