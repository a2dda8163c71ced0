//! Job arrays on their way: submitted once, waited for by looking at outputs and at the queue.
//!
//! What Slurm says is a hint. A task is done when its output is there; a job that is in the queue no more, and whose output is not there after a while, has
//! failed. Accounting is never asked: many sites have none.

use super::{
    engine::Verdict,
    events::{Events, What},
    plan::{Plan, Task},
    run::Failure,
    slurm::{Array, Jobs, SlurmOptions, arrays_of_stage, before},
    state::left,
};
use crate::base::{
    error::{Error, Place, Result},
    files::{atomic_dir, durable},
};
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
/// Slurm's own default, where it does not say.
const MAX_ARRAY_SIZE: usize = 1001;
/// Of a log, when a task failed.
const LAST_LINES: usize = 5;
const JOBS_FILE: &str = "slurm.json";

/// Who waits for jobs.
pub trait Waiting {
    /// A task is done, or was already.
    fn done(&mut self, task: &Task);

    /// Jobs that run, with their hosts.
    fn running(&mut self, jobs: &[Queued]);

    fn say(&mut self, what: &str);

    /// Waits; true if that is to end.
    fn pause(&mut self, time: Duration) -> bool;
}

/// How waiting ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Failed(Vec<Failure>),
    Stopped,
}

/// A job of ours that Slurm knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    pub array: String,
    pub index: String,
    pub state: String,
    /// Where it runs, or why it does not.
    pub at: String,
}

/// What was submitted: so that whoever goes on with the run finds the logs, and submits nothing twice.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    jobs: Vec<Submitted>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Submitted {
    id: String,
    stage: usize,
    first: usize,
    indices: Vec<usize>,
    each: usize,
}

impl Submitted {
    fn array(&self) -> Array {
        Array {
            stage: self.stage,
            first: self.first,
            indices: self.indices.clone(),
            each: self.each,
        }
    }
}

impl Record {
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

/// The largest index of an array is below this.
pub fn max_array_size() -> usize {
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

/// What is not done of a run, as arrays. Every byte of what is there is read.
pub fn missing_arrays(jobs: &Jobs<'_>, plan: &Plan, run: &Path) -> Vec<Array> {
    let left = left(plan, run);
    jobs.arrays(|task| left.contains(&task), max_array_size())
}

/// Submits what is not done and waits for it. What is in the queue from before is waited for first.
pub fn run_slurm(
    plan: &Plan,
    run: &Path,
    options: &SlurmOptions,
    waiting: &mut dyn Waiting,
) -> Result<Outcome> {
    let jobs = Jobs::new(plan, run, options)?;
    let mut wait = Wait {
        plan,
        run,
        jobs: &jobs,
        told: HashSet::new(),
        is_lost: false,
    };
    let mut record = Record::read(run)?;
    let queued = queue(&jobs.names())?;
    if !queued.is_empty() {
        waiting.say(&format!(
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
        match wait.wait(known, options, waiting)? {
            Outcome::Done => {}
            ended => return Ok(ended),
        }
    }
    let arrays = missing_arrays(&jobs, plan, run);
    if arrays.is_empty() {
        plan.tasks.iter().for_each(|task| wait.tell(task, waiting));
        return Ok(Outcome::Done);
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
    wait.wait(submitted, options, waiting)
}

/// Each id is on disk before the next array is submitted. If one is refused, those before it are cancelled.
fn submit(
    jobs: &Jobs<'_>,
    arrays: &[Array],
    run: &Path,
    record: &mut Record,
) -> Result<Vec<Submitted>> {
    let mut submitted = Vec::<Submitted>::new();
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
        let Array {
            stage,
            first,
            indices,
            each,
        } = array.clone();
        submitted.push(Submitted {
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

struct Wait<'a> {
    plan: &'a Plan,
    run: &'a Path,
    jobs: &'a Jobs<'a>,
    told: HashSet<String>,
    /// Slurm does not answer.
    is_lost: bool,
}

/// An element of an array of ours.
type Element = (usize, usize);

impl Wait<'_> {
    fn tell(&mut self, task: &Task, waiting: &mut dyn Waiting) {
        if self.told.insert(task.id.clone()) {
            waiting.done(task);
        }
    }

    /// Until no job of this run is in the queue.
    fn wait(
        &mut self,
        submitted: Vec<Submitted>,
        options: &SlurmOptions,
        waiting: &mut dyn Waiting,
    ) -> Result<Outcome> {
        let (begun, mut gone) = (Instant::now(), HashMap::<Element, Instant>::new());
        let mut is_failed = false;
        loop {
            self.tell_done(waiting);
            let queued = self.queue(waiting);
            if let Some(queued) = &queued {
                waiting.running(queued);
                let over: Vec<Element> = self.over(&submitted, queued);
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
            // It does not answer, and need not.
            let is_all_there = |job: &Submitted| {
                let array = job.array();
                job.indices.iter().all(|&index| {
                    self.jobs
                        .tasks(&array, index)
                        .iter()
                        .all(|task| is_there(self.run, task))
                })
            };
            if queued.is_none() && submitted.iter().all(is_all_there) {
                return Ok(Outcome::Done);
            }
            if waiting.pause(
                (begun.elapsed() / 20).clamp(Duration::from_secs(1), Duration::from_secs(15)),
            ) {
                if !options.leaves_jobs {
                    cancel(submitted.iter().map(|job| job.id.as_str()), false);
                }
                return Ok(Outcome::Stopped);
            }
        }
    }

    /// What is in the queue, if Slurm answers.
    fn queue(&mut self, waiting: &mut dyn Waiting) -> Option<Vec<Queued>> {
        let queued = queue(&self.jobs.names());
        if let Err(error) = &queued
            && !self.is_lost
        {
            waiting.say(&format!("{error}; will ask again"));
        }
        self.is_lost = queued.is_err();
        queued.ok()
    }

    fn tell_done(&mut self, waiting: &mut dyn Waiting) {
        let plan = self.plan;
        for task in plan.tasks.iter().filter(|task| is_there(self.run, task)) {
            self.tell(task, waiting);
        }
    }

    /// Elements that are in the queue no more, and are not done.
    fn over(&self, submitted: &[Submitted], queued: &[Queued]) -> Vec<Element> {
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

    /// Of the first stage that failed: those after it never began.
    fn outcome(
        &self,
        submitted: &[Submitted],
        gone: &HashMap<Element, Instant>,
    ) -> Result<Outcome> {
        let Some(stage) = gone
            .keys()
            .map(|&(number, _)| submitted[number].stage)
            .min()
        else {
            return Ok(Outcome::Done);
        };
        let events = Events::read(self.run).unwrap_or_default();
        let elements: BTreeSet<Element> = gone
            .keys()
            .copied()
            .filter(|&(number, _)| submitted[number].stage == stage)
            .collect();
        let mut failures = Vec::new();
        for (number, index) in elements {
            let job = &submitted[number];
            let log = self
                .run
                .join(self.jobs.log(&job.array(), &job.id, &index.to_string()));
            let failed = self
                .jobs
                .tasks(&job.array(), index)
                .iter()
                .find(|task| !is_there(self.run, task));
            // One that never began was cancelled because another failed.
            if let Some(task) = failed.filter(|_| log.exists()) {
                let last = events.iter().rfind(|event| event.task == task.id);
                let host = last
                    .map(|event| format!("on {}; ", event.host))
                    .unwrap_or_default();
                let what = format!("job {}_{index} {host}{}", job.id, last_lines(&log));
                let is_failed = last.is_some_and(|event| matches!(event.what, What::Failed(_)));
                let verdict = if is_failed {
                    Verdict::Failed(what)
                } else {
                    Verdict::Lost(what)
                };
                failures.push(Failure {
                    task: task.id.clone(),
                    verdict,
                });
            }
        }
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
        Ok(Outcome::Failed(failures))
    }
}

/// Whether the output has its name, and so was whole. To list the directory makes a client of NFS look again.
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

/// Jobs with one of these names, each element by itself.
fn queue(names: &[String]) -> Result<Vec<Queued>> {
    let words = ["-h", "-r", "-o", "%F|%K|%T|%R"].map(str::to_owned);
    let said = call(
        "squeue",
        &[words.as_slice(), &[format!("--name={}", names.join(","))]].concat(),
        "",
    )?;
    let job = |line: &str| {
        let mut fields = line.trim().splitn(4, '|').map(str::to_owned);
        Some(Queued {
            array: fields.next()?,
            index: fields.next()?,
            state: fields.next()?,
            at: fields.next()?,
        })
    };
    Ok(said.lines().filter_map(job).collect())
}

/// Best effort: what is left would end by itself.
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

/// Runs a program of Slurm to its end.
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
        // One that ends early says why.
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
    fn jobs_are_remembered() {
        let run = tempfile::tempdir().unwrap();
        let mut record = Record::read(run.path()).unwrap();
        assert_eq!(record.jobs, []);
        record.jobs.push(Submitted {
            id: "7".to_owned(),
            stage: 1,
            first: 1000,
            indices: vec![0, 2],
            each: 3,
        });
        record.write(run.path()).unwrap();
        assert_eq!(Record::read(run.path()).unwrap().jobs, record.jobs);
        assert_eq!(record.jobs[0].array().indices, [0, 2]);
        fs::write(run.path().join(JOBS_FILE), "{").unwrap();
        assert!(
            Record::read(run.path())
                .unwrap_err()
                .to_string()
                .contains("slurm.json: not a list of jobs")
        );
    }
}
