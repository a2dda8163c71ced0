//! The plan as a Snakefile.
//!
//! What was learned from Snakemake itself: it removes the declared outputs of a job before it starts and after it failed, and
//! judges directories by their time, so each task has a marker file in `.done` instead. `ancient()` inputs break resuming, so
//! there are none. It retries any failure, so that a failure that would repeat itself leaves a mark that ends the next
//! attempt at once.

use super::{Plan, exported_tasks, results};
use crate::cluster::plan::TaskKind;

const HEAD: &str = include_str!("snakemake_head.py");

const RULE: &str = r#"
rule KIND:
    input: lambda wildcards: needs(wildcards.id)
    output: ".done/{id}"
    wildcard_constraints: id="PATTERN"
    threads: THREADS
    retries: RETRIES
    resources: mem_mb=MEMORY_MB, attempt=lambda wildcards, attempt: attempt
    shell: TASK
"#;

/// Writes the plan as a Snakefile, with a rule for each kind of task.
pub(super) fn snakefile(plan: &Plan) -> String {
    let tasks = serde_json::to_string(&exported_tasks(plan)).unwrap_or_default();
    let results = serde_json::to_string(&results(plan)).unwrap_or_default();
    let mut text = HEAD
        .replace("\"PLAN_TASKS\"", &tasks.replace("},\"", "},\n    \""))
        .replace("\"PLAN_RESULTS\"", &results);
    for kind in TaskKind::ALL {
        let Some(task) = plan.tasks_of(kind).next() else {
            continue;
        };
        // The one task that runs alone uses all cores.
        let threads = if kind == TaskKind::Decide {
            "workflow.cores"
        } else {
            "1"
        };
        let is_one = task.id == kind.name();
        let pattern = format!("{}{}", kind.name(), if is_one { "" } else { "-[0-9]+" });
        text += &RULE
            .replace("KIND", kind.name())
            .replace("PATTERN", &pattern)
            .replace("THREADS", threads)
            .replace(
                "MEMORY_MB",
                &plan.options.memory.div_ceil(1_000_000).to_string(),
            );
    }
    text
}
