//! The tasks of a plan for engines that people have already: one file each, and a row of [`EXPORTS`].
//!
//! An export is a file in the directory of the run. It only says which task needs which others; what a task does stands in
//! the plan, and `dedup-shard task` does it.

mod make;
mod ray;
mod snakemake;

pub(super) use make::makefile;

use super::{Plan, Task};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

/// An engine that plans can be exported to.
#[derive(Debug)]
pub struct ExportEntry {
    /// The name by which users choose it.
    pub name: &'static str,
    /// One line for the help.
    pub help: &'static str,
    /// The name of the file below the directory of the run.
    pub file: &'static str,
    /// Writes it.
    pub write: fn(&Plan) -> String,
    /// The command that runs it, as words; `RUN` stands for the directory of the run, `SLOTS` for the number of tasks at a time.
    pub command: &'static [&'static str],
}

/// All of them.
pub const EXPORTS: &[ExportEntry] = &[
    ExportEntry {
        name: "snakemake",
        help: "RUN/Snakefile: jobs of Snakemake, on this machine or on any cluster that it knows",
        file: "Snakefile",
        write: snakemake::snakefile,
        command: &[
            "snakemake",
            "--snakefile",
            "RUN/Snakefile",
            "--directory",
            "RUN",
            "--cores",
            "SLOTS",
            "--rerun-incomplete",
            "--rerun-triggers",
            "mtime",
        ],
    },
    ExportEntry {
        name: "ray",
        help: "RUN/run_on_ray.py: a driver that runs the tasks on a Ray cluster",
        file: "run_on_ray.py",
        write: ray::driver,
        command: &["python3", "RUN/run_on_ray.py"],
    },
    ExportEntry {
        name: "make",
        help: "RUN/Makefile, which plan writes as well",
        file: "Makefile",
        write: makefile,
        command: &["make", "-C", "RUN", "-jSLOTS"],
    },
];

/// A task as an export knows it.
#[derive(Debug, Serialize)]
struct ExportedTask<'p> {
    /// The tasks that must be done before, but for those that these need.
    needs: Vec<&'p str>,
    /// The file whose presence says that it is done, below the directory of the run.
    marker: String,
}

/// The tasks by their ids, each with those that it directly needs.
fn exported_tasks(plan: &Plan) -> BTreeMap<&str, ExportedTask<'_>> {
    let makers: HashMap<&str, &Task> = plan
        .tasks
        .iter()
        .map(|task| (task.output.as_str(), task))
        .collect();
    // The direct needs of each task so far, and all that it needs by way of others.
    let mut all: HashMap<&str, BTreeSet<&str>> = HashMap::new();
    let mut exported = BTreeMap::new();
    for task in &plan.tasks {
        let needs: BTreeSet<&str> = task
            .inputs
            .iter()
            .filter_map(|input| maker(input, &makers))
            .map(|maker| maker.id.as_str())
            .collect();
        let mut indirect = BTreeSet::new();
        for need in &needs {
            indirect.extend(all.get(need).into_iter().flatten().copied());
        }
        let direct: Vec<&str> = needs.difference(&indirect).copied().collect();
        indirect.extend(needs);
        all.insert(&task.id, indirect);
        let exported_task = ExportedTask {
            needs: direct,
            marker: task.marker().display().to_string(),
        };
        exported.insert(task.id.as_str(), exported_task);
    }
    exported
}

/// The task whose output a file is, or is in.
fn maker<'p>(input: &str, makers: &HashMap<&str, &'p Task>) -> Option<&'p Task> {
    Path::new(input)
        .ancestors()
        .filter_map(Path::to_str)
        .find_map(|path| makers.get(path).copied())
}

/// The tasks whose outputs are the results of the run.
fn results(plan: &Plan) -> Vec<&str> {
    plan.tasks
        .iter()
        .filter(|task| task.kind().is_result())
        .map(|task| task.id.as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::plan::PlanOptions;

    #[test]
    fn needs_that_follow_from_others_are_left_out() {
        let (plan, _) = Plan::new(
            Vec::new(),
            Vec::new(),
            PlanOptions::example(2),
            &[],
            &HashMap::new(),
        )
        .unwrap();
        let tasks = exported_tasks(&plan);
        let needs = |id: &str| tasks[id].needs.join(" ");
        assert_eq!(needs("map-0000"), "");
        assert_eq!(needs("number"), "map-0000");
        assert_eq!(needs("reduce-001"), "number");
        assert_eq!(needs("join-000"), "reduce-000 reduce-001");
        assert_eq!(needs("sets"), "join-000");
        assert_eq!(needs("part-001"), "sets");
        assert_eq!(needs("gather"), "part-000 part-001");
        assert_eq!(results(&plan), ["gather"]);
    }
}
