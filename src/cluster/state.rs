//! How far a run got: what is on disk says it, and nothing else.

use super::plan::{BlotRange, Plan, Task, TaskKind};
use crate::{
    base::{
        error::{Error, Place, Result},
        files::durable,
    },
    commands::{BUILD_RECORD, BuildRecord, PARTIAL_BUILD_RECORD, range_name},
    index::{Index, verify_blocks},
};
use std::{fs, path::Path};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Missing,
    /// Some of it is here, as it was made on a host, where the rest is: no task that is run here needs more.
    Partial,
    /// There is something, and it is not what the task makes.
    Damaged(String),
    Done,
}

/// Whether the output of a task is there, whole and of this plan. Every byte is read.
pub fn state(plan: &Plan, task: &Task, run: &Path) -> State {
    let output = run.join(&task.output);
    if !output.exists() {
        return State::Missing;
    }
    match ensure_made(plan, task, &output) {
        Ok(()) => State::Done,
        Err(_) if is_piece(plan, task, &output) => State::Partial,
        Err(error) => State::Damaged(error.to_string()),
    }
}

/// Whether what is here of an output is of this plan and whole, and known to be only some of it.
fn is_piece(plan: &Plan, task: &Task, output: &Path) -> bool {
    let is_ours = |built: &BuildRecord| built.of == Some(plan.output_label(task));
    output.join(PARTIAL_BUILD_RECORD).exists()
        && BuildRecord::read(output)
            .ok()
            .filter(is_ours)
            .is_some_and(|built| built.is_piece(output))
}

/// Whether a file of an output is here and whole, though perhaps not all of the output is.
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

/// The state of all tasks. What led to an index that is there, or to a table, is not needed any more: if it is gone, or never was here as a whole, it counts as done.
pub fn states<'p>(plan: &'p Plan, run: &Path) -> Vec<(&'p Task, State)> {
    let look = |task: &Task, is_needed: bool| match state(plan, task, run) {
        State::Missing | State::Partial if !is_needed => State::Done,
        found => found,
    };
    backwards(plan, look)
}

/// The state of all tasks that lead to something that is not there yet; the others are not looked at, and count as done.
pub fn needed<'p>(plan: &'p Plan, run: &Path) -> Vec<(&'p Task, State)> {
    backwards(plan, |task, is_needed| {
        if is_needed {
            state(plan, task, run)
        } else {
            State::Done
        }
    })
}

/// The tasks that are to be done.
pub fn left<'p>(plan: &'p Plan, run: &Path) -> Vec<&'p Task> {
    needed(plan, run)
        .into_iter()
        .filter(|(_, state)| *state != State::Done)
        .map(|(task, _)| task)
        .collect()
}

/// Looks at the last tasks first, and says of each whether it is needed. A commit needs nothing any more, but for a table that was asked for as well.
fn backwards(plan: &Plan, look: impl Fn(&Task, bool) -> State) -> Vec<(&Task, State)> {
    let (mut states, mut is_needed, mut is_committed) =
        (Vec::with_capacity(plan.tasks.len()), true, false);
    for task in plan.tasks.iter().rev() {
        let is_excused = is_committed && task.kind() != TaskKind::Table;
        let found = look(task, (is_needed || task.kind().is_result()) && !is_excused);
        is_committed &= task.kind() != TaskKind::Table || found == State::Done;
        if task.kind().is_result() {
            is_needed = found != State::Done;
        }
        is_committed |= task.kind() == TaskKind::Commit && found == State::Done;
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
            // These are the files of what was gathered.
            if index.manifest.scheme == plan.options.scheme {
                Ok(())
            } else {
                Err(other())
            }
        };
        return plan.ranges.iter().enumerate().try_for_each(open);
    }
    // A table appears when it is whole, and says nothing of itself.
    if task.kind() == TaskKind::Table {
        return Ok(());
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

/// Makes way for a task: false if there is nothing left to do. What is damaged is removed, and what is needed must be there.
pub fn prepare(plan: &Plan, task: &Task, run: &Path) -> Result<bool> {
    let output = run.join(&task.output);
    match state(plan, task, run) {
        State::Done => return Ok(false),
        State::Damaged(_) | State::Partial => {
            fs::remove_dir_all(&output).map_err(|error| Error::io(output.display(), error))?
        }
        State::Missing => {}
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
