//! How far a run got: what is on disk says it, and nothing else.

use super::plan::{Kind, Plan, Task};
use crate::{
    error::{Error, Place, Result},
    index::{Index, verify_blocks},
    pipeline::{Built, range_name},
};
use std::{fs, path::Path};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Missing,
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
        Err(error) => State::Damaged(error.to_string()),
    }
}

fn ensure_made(plan: &Plan, task: &Task, output: &Path) -> Result<()> {
    match task.kind {
        Kind::Gather => ensure_index(plan, output, None),
        Kind::Reduce => ensure_index(plan, output, Some(task.number)),
        Kind::Map => {
            let built = Built::read(output)?;
            if (built.slice.as_deref(), built.ranges as usize) != (Some(&plan.slices[task.number].checksum), plan.ranges.len()) {
                return Err(Error::damaged(Place::path(output), "was made by another plan"));
            }
            (0..plan.ranges.len()).try_for_each(|range| ensure_index(plan, &output.join(range_name(range)), Some(range)))
        }
    }
}

/// An index, or a part of one, that is whole and is what was planned.
fn ensure_index(plan: &Plan, directory: &Path, range: Option<usize>) -> Result<()> {
    let index = Index::open(directory)?;
    let buckets = range.map_or(0..crate::posting::BUCKETS, |range| {
        let [first, end] = plan.ranges[range].buckets;
        first as usize..end as usize
    });
    let manifest = &index.manifest;
    let is_planned = manifest.scheme == plan.options.scheme
        && manifest.dictionary == plan.options.dictionary
        && manifest.buckets() == buckets
        && (range.is_some() || manifest.range.is_none());
    if !is_planned {
        return Err(Error::damaged(Place::path(directory), "was made by another plan"));
    }
    verify_blocks(&index)
}

/// Makes way for a task: false if there is nothing left to do. What is damaged is removed, and what is needed must be there.
pub fn prepare(plan: &Plan, task: &Task, run: &Path) -> Result<bool> {
    let output = run.join(&task.output);
    match state(plan, task, run) {
        State::Done => return Ok(false),
        State::Damaged(_) => fs::remove_dir_all(&output).map_err(|error| Error::io(output.display(), error))?,
        State::Missing => {}
    }
    if let Some(missing) = task.inputs.iter().find(|input| !run.join(input).exists()) {
        let maker = plan.tasks.iter().find(|other| other.kind != Kind::Gather && missing.starts_with(&other.output));
        let remedy = maker.map_or_else(|| "plan anew".to_owned(), |task| format!("run task {} first", task.id));
        return Err(Error::damaged(Place::path(&run.join(missing)), format!("{} needs it, and it is not there; {remedy}", task.id)));
    }
    if let Some(parent) = output.parent() {
        fs::create_dir_all(parent).map_err(|error| Error::io(parent.display(), error))?;
    }
    Ok(true)
}
