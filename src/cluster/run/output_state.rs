//! The state of the outputs of a run, judged only by the files on disk.

use crate::cluster::plan::{BlotRange, Plan, Task, TaskKind};
use crate::{
    base::{
        error::{Error, Place, Result},
        files::durable,
    },
    commands::{BUILD_RECORD, BuildRecord, PARTIAL_BUILD_RECORD, range_name},
    index::{Index, verify_blocks},
};
use std::{fs, path::Path};

/// The state of the output of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputState {
    /// Nothing is there.
    Missing,
    /// Only the files that central tasks need are here; the rest is on the host that made it.
    Partial,
    /// Something is there that is not the complete output of the task.
    Damaged(String),
    /// The output is complete and intact.
    Done,
}

/// Checks whether the output of a task is there, complete and of this plan. Reads every byte.
pub fn output_state(plan: &Plan, task: &Task, run: &Path) -> OutputState {
    let output = run.join(&task.output);
    if !output.exists() {
        return OutputState::Missing;
    }
    match ensure_made(plan, task, &output) {
        Ok(()) => OutputState::Done,
        Err(_) if is_piece(plan, task, &output) => OutputState::Partial,
        Err(error) => OutputState::Damaged(error.to_string()),
    }
}

/// Whether an output is known to be here in part only, and that part is intact and of this plan.
fn is_piece(plan: &Plan, task: &Task, output: &Path) -> bool {
    let is_ours = |built: &BuildRecord| built.of == Some(plan.output_label(task));
    output.join(PARTIAL_BUILD_RECORD).exists()
        && BuildRecord::read(output)
            .ok()
            .filter(is_ours)
            .is_some_and(|built| built.is_piece(output))
}

/// Whether one file of an output is here and intact, even if the rest is not here.
pub fn has_file(plan: &Plan, path: &str, run: &Path) -> bool {
    let Some(task) = plan.maker(path) else {
        return run.join(path).exists();
    };
    let output = run.join(&task.output);
    let Some(built) = BuildRecord::read(&output)
        .ok()
        .filter(|built| built.of == Some(plan.output_label(task)))
    else {
        return false;
    };
    let name = Path::new(path)
        .strip_prefix(&task.output)
        .unwrap_or(Path::new(""));
    name == Path::new(BUILD_RECORD) || built.is_whole(&output, name)
}

/// The outputs of all tasks. Intermediate outputs of a result that is there count as done, even if
/// they are gone.
pub fn output_states<'p>(plan: &'p Plan, run: &Path) -> Vec<(&'p Task, OutputState)> {
    let look = |task: &Task, is_needed: bool| match output_state(plan, task, run) {
        OutputState::Missing | OutputState::Partial if !is_needed => OutputState::Done,
        found => found,
    };
    backwards(plan, look)
}

/// The outputs of all tasks that a missing result needs; the others are not read and count as done.
pub fn needed_outputs<'p>(plan: &'p Plan, run: &Path) -> Vec<(&'p Task, OutputState)> {
    backwards(plan, |task, is_needed| {
        if is_needed {
            output_state(plan, task, run)
        } else {
            OutputState::Done
        }
    })
}

/// The tasks that must still run.
pub fn unfinished_tasks<'p>(plan: &'p Plan, run: &Path) -> Vec<&'p Task> {
    needed_outputs(plan, run)
        .into_iter()
        .filter(|(_, state)| *state != OutputState::Done)
        .map(|(task, _)| task)
        .collect()
}

/// Visits the last tasks first, and tells `look` of each whether it is needed. After a commit only
/// the table and the clusters may still be needed.
fn backwards(plan: &Plan, look: impl Fn(&Task, bool) -> OutputState) -> Vec<(&Task, OutputState)> {
    let (mut states, mut is_needed, mut is_committed) =
        (Vec::with_capacity(plan.tasks.len()), true, false);
    for task in plan.tasks.iter().rev() {
        let is_excused = is_committed && !task.kind().is_one_file();
        let found = look(task, (is_needed || task.kind().is_result()) && !is_excused);
        is_committed &= !task.kind().is_one_file() || found == OutputState::Done;
        if task.kind().is_result() {
            is_needed = found != OutputState::Done;
        }
        is_committed |= task.kind() == TaskKind::Commit && found == OutputState::Done;
        states.push((task, found));
    }
    states.reverse();
    states
}

fn ensure_made(plan: &Plan, task: &Task, output: &Path) -> Result<()> {
    let other = || Error::damaged(Place::path(output), "was made by another plan");
    if task.kind() == TaskKind::Gather {
        let index = Index::open_whole(output)?;
        let parts = index.manifest.segments.first().map(|segment| segment.parts);
        let found = (&index.manifest.scheme, index.manifest.dictionary, parts);
        if found
            != (
                &plan.options.scheme,
                plan.options.dictionary,
                Some(plan.options.parts),
            )
        {
            return Err(other());
        }
        return verify_blocks(&index);
    }
    if task.kind() == TaskKind::Base {
        return Index::open_whole(output).map(drop);
    }
    if task.kind() == TaskKind::Ranges {
        let open = |(range, of): (usize, &BlotRange)| {
            let index = Index::open_range(&output.join(range_name(range)), of.buckets(), None)?;
            // The files are links to those of the gathered index.
            if index.manifest.scheme == plan.options.scheme {
                Ok(())
            } else {
                Err(other())
            }
        };
        return plan.ranges.iter().enumerate().try_for_each(open);
    }
    if task.kind().is_one_file() {
        return Ok(());
    }
    // The files that it placed are elsewhere: without their directory it has to run again.
    if let (TaskKind::Place, Some(clean)) = (task.kind(), &plan.options.clean) {
        let placed = Path::new(&clean.output);
        fs::metadata(placed).map_err(|error| Error::io(placed.display(), error))?;
    }
    let built = BuildRecord::read(output)?;
    let slice = plan
        .slices
        .get(task.number)
        .filter(|_| task.kind() == TaskKind::Map)
        .map(|slice| &slice.checksum);
    if built.of != Some(plan.output_label(task)) || built.slice.as_ref() != slice {
        return Err(other());
    }
    built.verify(output)
}

/// Prepares to run a task: removes a damaged output, and ensures that inputs are there. Returns
/// false if the output is complete.
pub fn prepare(plan: &Plan, task: &Task, run: &Path) -> Result<bool> {
    let output = run.join(&task.output);
    match output_state(plan, task, run) {
        OutputState::Done => return Ok(false),
        OutputState::Damaged(_) | OutputState::Partial => {
            fs::remove_dir_all(&output).map_err(|error| Error::io(output.display(), error))?
        }
        OutputState::Missing => {}
    }
    if let Some(missing) = task.inputs.iter().find(|input| !run.join(input).exists()) {
        let maker = plan
            .tasks
            .iter()
            .find(|other| Path::new(missing).starts_with(&other.output));
        let remedy = maker.map_or_else(
            || "plan anew".to_owned(),
            |task| format!("run task {} first", task.id),
        );
        return Err(Error::damaged(
            Place::path(&run.join(missing)),
            format!("{} needs it, and it is not there; {remedy}", task.id),
        ));
    }
    if let Some(parent) = output.parent() {
        durable::create_dir_all(parent)?;
    }
    Ok(true)
}
