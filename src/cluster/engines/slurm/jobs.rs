//! The tasks of a run as job arrays of Slurm. Nothing is submitted here.
//!
//! ```text
//! stage       tasks of one kind; it starts when the stage before has succeeded
//! element     consecutive tasks of a stage, run by one job
//! array       elements with one job id. Slurm limits the indices, so a large stage is several arrays
//! ```
//!
//! Which tasks an element has follows from the plan, the stage and the number of tasks of an
//! element, so no file is needed.

use crate::base::error::{Error, Place, Result};
use crate::base::num::ToUsize;
use crate::cluster::plan::{Plan, Task, TaskKind};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_64;

/// By default a stage has at most this many jobs: schedulers handle many short jobs badly.
const MOST_ELEMENTS: usize = 1000;
/// What a task needs beside its sorting memory.
const EXTRA_MEMORY: u64 = 256 << 20;

/// How jobs are submitted.
pub struct SlurmOptions {
    /// dedup-shard itself, where all nodes see it.
    pub program: PathBuf,
    /// How many jobs of a stage at a time.
    pub jobs: Option<u32>,
    /// How many tasks a job has.
    pub tasks_per_job: Option<u32>,
    /// How often a job that was lost is run again.
    pub retries: u32,
    /// More arguments for sbatch, which override ours.
    pub sbatch: Vec<String>,
    /// Jobs go on when the run that waits for them is stopped.
    pub leaves_jobs: bool,
}

/// The default of [`SlurmOptions::retries`].
const RETRIES: u32 = 3;

impl SlurmOptions {
    /// The defaults; `program` is the path of dedup-shard, where all nodes see it.
    pub fn new(program: PathBuf) -> Self {
        Self {
            program,
            jobs: None,
            tasks_per_job: None,
            retries: RETRIES,
            sbatch: Vec::new(),
            leaves_jobs: false,
        }
    }
}

/// What one call of sbatch submits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobArray {
    /// The number of the stage.
    pub stage: usize,
    /// The element of index 0.
    pub first: usize,
    /// The indices of the elements, increasing.
    pub indices: Vec<usize>,
    /// The number of tasks of an element.
    pub each: usize,
}

/// The tasks of one kind.
pub struct TaskStage<'p> {
    /// The name of the kind.
    pub name: String,
    /// The tasks, in order.
    pub tasks: Vec<&'p Task>,
}

impl<'p> TaskStage<'p> {
    /// The stages of a plan, in the order in which they run.
    pub fn all(plan: &'p Plan) -> Vec<Self> {
        let mut kinds: Vec<TaskKind> = Vec::new();
        for task in &plan.tasks {
            if !kinds.contains(&task.kind()) {
                kinds.push(task.kind());
            }
        }
        kinds
            .into_iter()
            .map(|kind| Self {
                name: kind.name().to_owned(),
                tasks: plan.tasks_of(kind).collect(),
            })
            .collect()
    }

    /// The tasks of an element; none beyond the last.
    pub fn element(&self, element: usize, each: usize) -> &[&'p Task] {
        self.tasks
            .chunks(each.max(1))
            .nth(element)
            .unwrap_or_default()
    }

    fn each(&self, asked: Option<u32>) -> usize {
        asked
            .map_or_else(
                || self.tasks.len().div_ceil(MOST_ELEMENTS),
                ToUsize::to_usize,
            )
            .max(1)
    }

    /// The arrays of all elements with an unfinished task; all indices are below `limit`.
    fn arrays(
        &self,
        stage: usize,
        each: usize,
        is_todo: impl Fn(&Task) -> bool,
        limit: usize,
    ) -> Vec<JobArray> {
        let todo = self
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| is_todo(task));
        let elements: BTreeSet<usize> = todo.map(|(place, _)| place / each).collect();
        let mut arrays = Vec::<JobArray>::new();
        for element in elements {
            let (first, index) = (element / limit * limit, element % limit);
            match arrays.last_mut().filter(|array| array.first == first) {
                Some(array) => array.indices.push(index),
                None => arrays.push(JobArray {
                    stage,
                    first,
                    indices: vec![index],
                    each,
                }),
            }
        }
        arrays
    }
}

/// Numbers as Slurm writes them: `0,3-5`.
pub fn ranges(numbers: &[usize]) -> String {
    let mut runs = Vec::<[usize; 2]>::new();
    for &number in numbers {
        match runs.last_mut().filter(|[_, last]| last + 1 == number) {
            Some([_, last]) => *last = number,
            None => runs.push([number; 2]),
        }
    }
    let text = |[first, last]: &[usize; 2]| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}

/// The jobs of a run.
pub struct SlurmJobs<'p> {
    pub stages: Vec<TaskStage<'p>>,
    /// The prefix of the names of all jobs, unique to the run.
    pub name: String,
    run: String,
    program: String,
    memory: u64,
    options: &'p SlurmOptions,
}

impl<'p> SlurmJobs<'p> {
    pub fn new(plan: &'p Plan, run: &Path, options: &'p SlurmOptions) -> Result<Self> {
        // Slurm expands % also in the directory of a log, and treats \\ specially there.
        let is_odd = |c: char| c.is_control() || "%\\".contains(c);
        let text = |path: &Path| match path.to_str() {
            Some(text) if !text.contains(is_odd) => Ok(text.to_owned()),
            _ => Err(Error::damaged(
                Place::path(path),
                "has %, \\ or a control character in its name, which Slurm would misread; rename it",
            )),
        };
        let (run, program) = (text(run)?, text(&options.program)?);
        let name = format!(
            "dedup-{:08x}",
            xxh3_64(format!("{run}\0{}", plan.to_json()).as_bytes()) >> 32
        );
        Ok(Self {
            stages: TaskStage::all(plan),
            name,
            run,
            program,
            memory: plan.options.memory,
            options,
        })
    }

    /// The arrays to submit, stage by stage.
    pub fn arrays(&self, is_todo: impl Fn(&Task) -> bool, max_array_size: usize) -> Vec<JobArray> {
        let stages = self.stages.iter().enumerate();
        stages
            .flat_map(|(at, stage)| {
                stage.arrays(
                    at,
                    stage.each(self.options.tasks_per_job),
                    &is_todo,
                    max_array_size.max(1),
                )
            })
            .collect()
    }

    pub fn tasks(&self, array: &JobArray, index: usize) -> &[&'p Task] {
        self.stages[array.stage].element(array.first + index, array.each)
    }

    pub fn stage_name(&self, array: &JobArray) -> &str {
        &self.stages[array.stage].name
    }

    /// The names of all jobs of this run.
    pub fn names(&self) -> Vec<String> {
        self.stages
            .iter()
            .map(|stage| format!("{}-{}", self.name, stage.name))
            .collect()
    }

    /// The log of a job, below the run's directory; a job that runs again appends to it.
    pub fn log(&self, array: &JobArray, job: &str, index: &str) -> String {
        format!("logs/slurm-{}-{job}_{index}.log", self.stage_name(array))
    }

    /// The arguments of sbatch, without the dependencies.
    pub fn arguments(&self, array: &JobArray, arrays_of_stage: usize) -> Vec<String> {
        let at_a_time = self
            .options
            .jobs
            .map(|jobs| (jobs.to_usize() / arrays_of_stage.max(1)).max(1));
        let throttle = at_a_time.map(|jobs| format!("%{jobs}")).unwrap_or_default();
        let mut words = vec![
            "--parsable".to_owned(),
            format!("--job-name={}-{}", self.name, self.stage_name(array)),
            format!("--chdir={}", self.run),
            format!("--array={}{throttle}", ranges(&array.indices)),
            format!("--output={}", self.log(array, "%A", "%a")),
            "--open-mode=append".to_owned(),
            "--requeue".to_owned(),
            "--kill-on-invalid-dep=yes".to_owned(),
            "--ntasks=1".to_owned(),
            "--cpus-per-task=1".to_owned(),
            format!(
                "--mem={}M",
                (2 * self.memory + EXTRA_MEMORY).div_ceil(1 << 20)
            ),
        ];
        words.extend(self.options.sbatch.iter().cloned());
        words
    }

    /// The script of a job. The variable may hold a command with arguments, such as one that enters a container.
    pub fn script(&self, array: &JobArray) -> String {
        format!(
            "#!/bin/sh\n\
             ${{DEDUP_SHARD:-{}}} task --stage={} --each={} --element=\"$((SLURM_ARRAY_TASK_ID + {}))\" -- {}\n\
             code=$?\n\
             # 75: the host or its disk was lost. By array and index: the number of one of the jobs is that of the whole array.\n\
             if [ \"$code\" -eq 75 ] && [ \"${{SLURM_RESTART_COUNT:-0}}\" -lt {} ]; then\n    \
                 scontrol requeue \"${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}\"\n\
             fi\n\
             exit \"$code\"\n",
            quote(&self.program),
            self.stage_name(array),
            array.each,
            array.first,
            quote(&self.run),
            self.options.retries,
        )
    }

    /// A script that submits these arrays, each stage after the one before it.
    pub fn print(&self, arrays: &[JobArray]) -> String {
        let mut text = format!(
            "#!/bin/sh\n\
             # Submits what is not done of a run: a job array or more for each stage, after all arrays of the stage before it.\n\
             set -eu\n\
             mkdir -p -- {}\n",
            quote(&format!("{}/logs", self.run))
        );
        for (number, array) in arrays.iter().enumerate() {
            let words: Vec<String> = self
                .arguments(array, same_stage(arrays, array.stage).count())
                .iter()
                .map(|word| quote(word))
                .collect();
            let after: String = before(arrays, array)
                .iter()
                .map(|number| format!(":$job_{number}"))
                .collect();
            let after = if after.is_empty() {
                after
            } else {
                format!(" --dependency=\"afterok{after}\"")
            };
            text += &format!(
                "\njob_{number}=$(sbatch {}{after} <<'END OF JOB'\n{}END OF JOB\n)\njob_{number}=${{job_{number}%%;*}}\n",
                words.join(" "),
                self.script(array)
            );
        }
        text
    }
}

fn same_stage(arrays: &[JobArray], stage: usize) -> impl Iterator<Item = usize> {
    arrays
        .iter()
        .enumerate()
        .filter(move |(_, array)| array.stage == stage)
        .map(|(number, _)| number)
}

/// The arrays that must succeed before this one starts: all of the last stage before it that has
/// any.
pub fn before(arrays: &[JobArray], array: &JobArray) -> Vec<usize> {
    let earlier = arrays
        .iter()
        .map(|other| other.stage)
        .filter(|&stage| stage < array.stage)
        .max();
    earlier
        .map(|stage| same_stage(arrays, stage).collect())
        .unwrap_or_default()
}

/// The number of arrays of the same stage, which share the limit of running jobs.
pub fn arrays_of_stage(arrays: &[JobArray], array: &JobArray) -> usize {
    same_stage(arrays, array.stage).count()
}

/// Quotes a word for the shell.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::plan::TaskWork;

    fn tasks(count: usize) -> Vec<Task> {
        let task = |number: usize| {
            let work = TaskWork::Sets { joined: Vec::new() };
            let output = format!("map/{number:04}");
            Task::example(&format!("map-{number:04}"), work, number, &output, 1)
        };
        (0..count).map(task).collect()
    }

    fn stage(tasks: &[Task]) -> TaskStage<'_> {
        TaskStage {
            name: "map".to_owned(),
            tasks: tasks.iter().collect(),
        }
    }

    fn array(stage: usize, first: usize, indices: &[usize]) -> JobArray {
        JobArray {
            stage,
            first,
            indices: indices.to_vec(),
            each: 1,
        }
    }

    #[test]
    fn numbers_are_written_as_ranges() {
        for (numbers, text) in [
            (&[][..], ""),
            (&[7], "7"),
            (&[0, 3, 4, 5], "0,3-5"),
            (&[0, 1, 3, 5, 6], "0-1,3,5-6"),
        ] {
            assert_eq!(ranges(numbers), text);
        }
    }

    #[test]
    fn unfinished_elements_are_packed_and_split_into_arrays() {
        let tasks = tasks(10);
        let stage = stage(&tasks);
        let missing = |numbers: &'static [usize]| move |task: &Task| numbers.contains(&task.number);
        assert_eq!(
            stage.arrays(0, 1, |_| true, 1001),
            [array(0, 0, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9])]
        );
        assert_eq!(stage.arrays(0, 1, |_| false, 1001), []);
        // Indices stay below the limit: the third array starts at element 8.
        assert_eq!(
            stage.arrays(0, 1, missing(&[0, 3, 4, 8, 9]), 4),
            [
                array(0, 0, &[0, 3]),
                array(0, 4, &[0]),
                array(0, 8, &[0, 1])
            ]
        );
        assert_eq!(
            stage.arrays(0, 4, missing(&[1, 2, 9]), 1001),
            [JobArray {
                each: 4,
                ..array(0, 0, &[0, 2])
            }]
        );
        let ids = |element, each| {
            stage
                .element(element, each)
                .iter()
                .map(|task| task.number)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (ids(0, 4), ids(2, 4), ids(3, 4), ids(9, 1)),
            (vec![0, 1, 2, 3], vec![8, 9], vec![], vec![9])
        );
        assert_eq!((stage.each(None), stage.each(Some(3))), (1, 3));
    }

    #[test]
    fn large_stages_are_packed_by_default() {
        let tasks = tasks(4096);
        let stage = stage(&tasks);
        assert_eq!(stage.each(None), 5);
        let arrays = stage.arrays(0, 5, |_| true, 500);
        assert_eq!(
            arrays
                .iter()
                .map(|array| (array.first, ranges(&array.indices)))
                .collect::<Vec<_>>(),
            [(0, "0-499".to_owned()), (500, "0-319".to_owned())]
        );
        let all: usize = arrays
            .iter()
            .flat_map(|of| {
                of.indices
                    .iter()
                    .map(|index| stage.element(of.first + index, 5).len())
            })
            .sum();
        assert_eq!(all, 4096);
    }

    #[test]
    fn an_array_waits_for_all_arrays_of_the_stage_before() {
        let arrays = [
            array(0, 0, &[0]),
            array(0, 4, &[0]),
            array(2, 0, &[0]),
            array(2, 4, &[1]),
            array(3, 0, &[0]),
        ];
        let before = |number: usize| before(&arrays, &arrays[number]);
        assert_eq!(
            (before(0), before(1), before(2), before(3), before(4)),
            (vec![], vec![], vec![0, 1], vec![0, 1], vec![2, 3])
        );
    }

    fn jobs<'p>(tasks: &'p [Task], options: &'p SlurmOptions) -> SlurmJobs<'p> {
        let gather = TaskStage {
            name: "gather".to_owned(),
            tasks: vec![&tasks[0]],
        };
        let run = "/data/it's $(x)".to_owned();
        let program = "/usr/bin/dedup-shard".to_owned();
        SlurmJobs {
            stages: vec![stage(tasks), gather],
            name: "dedup-12345678".to_owned(),
            run,
            program,
            memory: 512 << 20,
            options,
        }
    }

    #[test]
    fn the_script_has_the_expected_text() {
        let (tasks, options) = (
            tasks(5),
            SlurmOptions {
                program: PathBuf::new(),
                jobs: Some(7),
                tasks_per_job: Some(2),
                retries: 3,
                sbatch: vec!["--partition=long ones".to_owned()],
                leaves_jobs: false,
            },
        );
        let jobs = jobs(&tasks, &options);
        let arrays = jobs.arrays(|_| true, 2);
        let script = "#!/bin/sh
${DEDUP_SHARD:-/usr/bin/dedup-shard} task --stage=map --each=2 --element=\"$((SLURM_ARRAY_TASK_ID + 2))\" -- '/data/it'\\''s $(x)'
code=$?
# 75: the host or its disk was lost. By array and index: the number of one of the jobs is that of the whole array.
if [ \"$code\" -eq 75 ] && [ \"${SLURM_RESTART_COUNT:-0}\" -lt 3 ]; then
    scontrol requeue \"${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}\"
fi
exit \"$code\"
";
        assert_eq!(jobs.script(&arrays[1]), script);
        let printed = jobs.print(&arrays);
        let calls: Vec<&str> = printed
            .lines()
            .filter(|line| line.starts_with("job_") && line.contains("sbatch"))
            .collect();
        let call = |number: usize, stage: &str, array: &str, after: &str| {
            format!(
                "job_{number}=$(sbatch --parsable --job-name=dedup-12345678-{stage} '--chdir=/data/it'\\''s $(x)' --array={array} \
                 --output=logs/slurm-{stage}-%A_%a.log --open-mode=append --requeue --kill-on-invalid-dep=yes --ntasks=1 --cpus-per-task=1 \
                 --mem=1280M '--partition=long ones'{after} <<'END OF JOB'"
            )
        };
        let expected = [
            call(0, "map", "0-1%3", ""),
            call(1, "map", "0%3", ""),
            call(
                2,
                "gather",
                "0%7",
                " --dependency=\"afterok:$job_0:$job_1\"",
            ),
        ];
        assert_eq!(calls, expected);
        assert!(
            printed.contains(script) && printed.ends_with("END OF JOB\n)\njob_2=${job_2%%;*}\n"),
            "{printed}"
        );
    }
}
