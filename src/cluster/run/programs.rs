//! The programs that a run needs on the machines where it reads documents.

use crate::{
    cluster::plan::{Plan, TaskWork},
    text::corpus::{CorpusSlice, NeededProgram, is_program_installed, needed_programs},
};
use std::path::Path;

/// The programs that files need which are still to be read, as far as the names of files tell.
///
/// A slice that cannot be opened is reported by its task.
pub fn programs_of(plan: &Plan, run: &Path) -> Vec<NeededProgram> {
    let mut results = plan.tasks.iter().filter(|task| task.kind().is_result());
    if results.all(|task| run.join(task.marker()).exists()) {
        return Vec::new();
    }
    let missing = plan
        .tasks
        .iter()
        .filter(|task| !run.join(task.marker()).exists());
    let slices: Vec<CorpusSlice> = missing
        .filter_map(|task| match &task.work {
            TaskWork::Map { slice, .. } => CorpusSlice::open(&run.join(slice)).ok(),
            _ => None,
        })
        .collect();
    let files = slices.iter().flat_map(CorpusSlice::documents);
    needed_programs(&plan.options.reading, files.map(|file| file.path))
}

/// One line for each program that this machine lacks.
pub fn lacking_here(plan: &Plan, run: &Path) -> Vec<String> {
    programs_of(plan, run)
        .iter()
        .filter(|needed| !is_program_installed(&needed.program))
        .map(|needed| format!("this machine: {}", lacks(needed)))
        .collect()
}

/// That a machine lacks a program; the name of the machine goes before it.
pub fn lacks(needed: &NeededProgram) -> String {
    let NeededProgram { program, file } = needed;
    let package = needed.package();
    format!(
        "{program} is not installed there, and {file} needs it; install {package}, or plan again without such files"
    )
}
