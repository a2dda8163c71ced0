//! The engine `slurm`: job arrays, which are submitted once; then outputs and the queue are
//! watched.
//!
//! The queue is a hint only. A task is done when its output is there; a job that left the queue and
//! whose output does not appear within some seconds has failed. Accounting is not used: many sites
//! have none.

mod jobs;

pub use jobs::{SlurmOptions, TaskStage, ranges};

use crate::base::{
    error::{Error, Place, Result},
    files::{atomic_dir, durable},
};
use crate::cluster::{
    engines::{Engine, EngineSetup, Failure, RunObserver, RunOutcome, Verdict},
    plan::{Plan, Task},
    run::event_log::{Event, EventKind, EventLog},
    run::output_state::unfinished_tasks,
};
use jobs::{JobArray, SlurmJobs, arrays_of_stage, before};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// A shared file system may show an output some time after its job has ended.
const GRACE: Duration = Duration::from_secs(10);
/// The default of Slurm, if scontrol does not say.
const MAX_ARRAY_SIZE: usize = 1001;
/// The lines of a log that are shown when a task failed.
const LAST_LINES: usize = 5;
const JOBS_FILE: &str = "slurm.json";

/// A job of this run in the queue of Slurm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedJob {
    /// The id of its array.
    pub array: String,
    /// Its index in the array.
    pub index: String,
    /// Its state, as Slurm names it.
    pub state: String,
    /// Where it runs, or why it does not.
    pub at: String,
}

/// The arrays that were submitted, so that a run that is resumed finds the logs and submits nothing
/// twice.
#[derive(Debug, Default, Serialize, Deserialize)]
struct SubmittedJobs {
    jobs: Vec<SubmittedArray>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SubmittedArray {
    id: String,
    stage: usize,
    first: usize,
    indices: Vec<usize>,
    each: usize,
}

impl SubmittedArray {
    fn array(&self) -> JobArray {
        JobArray {
            stage: self.stage,
            first: self.first,
            indices: self.indices.clone(),
            each: self.each,
        }
    }
}

impl SubmittedJobs {
    fn read(run: &Path) -> Result<Self> {
        let path = run.join(JOBS_FILE);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                Error::damaged(
                    Place::path(&path),
                    format!("not a list of jobs: {error}; remove it"),
                )
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Error::io(path.display(), error)),
        }
    }

    fn write(&self, run: &Path) -> Result<()> {
        let path = run.join(JOBS_FILE);
        let text =
            serde_json::to_vec(self).map_err(|error| Error::io(path.display(), error.into()))?;
        durable::replace(&path, &text)
    }
}

/// The indices of an array must be below this.
fn max_array_size() -> usize {
    let text = call("scontrol", &["show".to_owned(), "config".to_owned()], "").unwrap_or_default();
    let line = text.lines().find_map(|line| {
        line.strip_prefix("MaxArraySize")?
            .trim()
            .strip_prefix('=')?
            .trim()
            .parse()
            .ok()
    });
    line.filter(|&size| size > 0).unwrap_or(MAX_ARRAY_SIZE)
}

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

/// Submits what is not done and waits for it. Jobs that are in the queue already are waited for
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
        told: HashSet::new(),
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

/// Submits arrays. Each id is on disk before the next array is submitted; if one is refused, those
/// before it are cancelled.
fn submit(
    jobs: &SlurmJobs<'_>,
    arrays: &[JobArray],
    run: &Path,
    record: &mut SubmittedJobs,
) -> Result<Vec<SubmittedArray>> {
    let mut submitted = Vec::<SubmittedArray>::new();
    for array in arrays {
        let mut words = jobs.arguments(array, arrays_of_stage(arrays, array));
        let after: String = before(arrays, array)
            .iter()
            .map(|&number| format!(":{}", submitted[number].id))
            .collect();
        if !after.is_empty() {
            words.push(format!("--dependency=afterok{after}"));
        }
        let said = call("sbatch", &words, &jobs.script(array)).and_then(|said| {
            // With several clusters: the id, a semicolon, the cluster.
            let id = said
                .lines()
                .last()
                .and_then(|line| line.split(';').next())
                .map(str::trim)
                .unwrap_or_default()
                .to_owned();
            let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
            if is_id {
                Ok(id)
            } else {
                Err(Error::Usage(format!(
                    "sbatch said '{}', which is not the number of a job",
                    said.trim()
                )))
            }
        });
        let id =
            said.inspect_err(|_| cancel(submitted.iter().map(|job| job.id.as_str()), false))?;
        let JobArray {
            stage,
            first,
            indices,
            each,
        } = array.clone();
        submitted.push(SubmittedArray {
            id,
            stage,
            first,
            indices,
            each,
        });
        record.jobs.extend(submitted.last().cloned());
        record.write(run)?;
    }
    Ok(submitted)
}

struct JobWatcher<'a> {
    plan: &'a Plan,
    run: &'a Path,
    jobs: &'a SlurmJobs<'a>,
    told: HashSet<String>,
    /// Whether Slurm did not answer the last time.
    is_lost: bool,
}

/// The number of an array among the submitted ones, and an index.
type ArrayElement = (usize, usize);

impl JobWatcher<'_> {
    fn tell(&mut self, task: &Task, observer: &mut dyn RunObserver) {
        if self.told.insert(task.id.clone()) {
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
    let said = fs::read(log)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default();
    let lines: Vec<&str> = said.lines().collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    let text: String = last.iter().map(|line| format!("\n  {line}")).collect();
    if text.is_empty() {
        format!("said nothing; see {}", log.display())
    } else {
        format!("ended without its output; see {}:{text}", log.display())
    }
}

/// Lists the jobs with these names, each element by itself.
fn queue(names: &[String]) -> Result<Vec<QueuedJob>> {
    let words = ["-h", "-r", "-o", "%F|%K|%T|%R"].map(str::to_owned);
    let said = call(
        "squeue",
        &[words.as_slice(), &[format!("--name={}", names.join(","))]].concat(),
        "",
    )?;
    let job = |line: &str| {
        let mut fields = line.trim().splitn(4, '|').map(str::to_owned);
        Some(QueuedJob {
            array: fields.next()?,
            index: fields.next()?,
            state: fields.next()?,
            at: fields.next()?,
        })
    };
    Ok(said.lines().filter_map(job).collect())
}

/// Cancels jobs, best effort: jobs that are missed end by themselves.
fn cancel<'a>(ids: impl Iterator<Item = &'a str>, only_pending: bool) {
    let ids: Vec<String> = ids.map(str::to_owned).collect();
    if !ids.is_empty() {
        let words = if only_pending {
            vec!["--state=PENDING".to_owned()]
        } else {
            Vec::new()
        };
        let _ = call("scancel", &[words, ids].concat(), "");
    }
}

/// Runs a program of Slurm, and returns its stdout.
fn call(program: &str, words: &[String], stdin: &str) -> Result<String> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::Usage(format!(
            "{program} is not on the PATH; is this a machine of a Slurm cluster?"
        )),
        _ => Error::io(program, error),
    };
    let mut command = Command::new(program);
    let mut child = command
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut pipe) = child.stdin.take() {
        // If the program ends early, its status says why.
        let _ = pipe.write_all(stdin.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Usage(format!(
            "{program} failed ({}): {said}",
            output.status
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submitted_jobs_are_stored_and_read_back() {
        let run = tempfile::tempdir().unwrap();
        let mut record = SubmittedJobs::read(run.path()).unwrap();
        assert_eq!(record.jobs, []);
        record.jobs.push(SubmittedArray {
            id: "7".to_owned(),
            stage: 1,
            first: 1000,
            indices: vec![0, 2],
            each: 3,
        });
        record.write(run.path()).unwrap();
        assert_eq!(SubmittedJobs::read(run.path()).unwrap().jobs, record.jobs);
        assert_eq!(record.jobs[0].array().indices, [0, 2]);
        fs::write(run.path().join(JOBS_FILE), "{").unwrap();
        assert!(
            SubmittedJobs::read(run.path())
                .unwrap_err()
                .to_string()
                .contains("slurm.json: not a list of jobs")
        );
    }
}
