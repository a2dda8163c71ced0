//! The plan as a Makefile: each rule makes the output of a task by `dedup-shard task`.

use super::{Plan, Task};
use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
};

const HEAD: &str = "# The tasks of plan.json: `make -j8` does what `dedup-shard run` does, and leaves complete outputs as they are.
DEDUP_SHARD ?= dedup-shard
.SUFFIXES:
.SECONDARY:
";

/// Writes the plan as a Makefile, to be called in the directory of the run.
pub fn makefile(plan: &Plan) -> String {
    let markers: HashMap<&str, String> = plan
        .tasks
        .iter()
        .map(|task| (task.output.as_str(), marker(task)))
        .collect();
    let mut text = HEAD.to_owned();
    let results: Vec<String> = plan
        .tasks
        .iter()
        .filter(|task| task.kind().is_result())
        .map(marker)
        .collect();
    if results.len() > 1 {
        text += &format!(".PHONY: all\n\nall: {}\n", results.join(" "));
    }
    for task in plan.tasks.iter().rev() {
        // Order-only: an output that is there is complete, however old it is.
        text += &format!(
            "\n{}: | {}\n\t$(DEDUP_SHARD) task . {}\n",
            marker(task),
            prerequisites(task, &markers).join(" "),
            task.id
        );
    }
    text
}

fn marker(task: &Task) -> String {
    task.marker().display().to_string()
}

/// The markers of the tasks that make its inputs; inputs that no task makes stand for themselves.
fn prerequisites(task: &Task, markers: &HashMap<&str, String>) -> Vec<String> {
    let marker_of = |input: &String| {
        Path::new(input)
            .ancestors()
            .filter_map(Path::to_str)
            .find_map(|path| markers.get(path))
            .unwrap_or(input)
            .clone()
    };
    let markers: BTreeSet<String> = task.inputs.iter().map(marker_of).collect();
    markers.into_iter().collect()
}
