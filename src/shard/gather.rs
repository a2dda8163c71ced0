//! The end of a run: all parts to one index, and all that could not be used.

use super::plan::{Kind, Plan, Task};
use crate::{
    error::{Error, Result},
    index::{Index, Means},
    pipeline::{BUILT, Built, Settings, Summary, Watch, find_ids, merge, range_name, write_aside},
};
use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

/// Where what could not be used is kept, a line each.
const PROBLEMS: &str = "problems";

/// How a task that maps reads its slice.
pub type Reads<'a> = &'a dyn Fn(&Task) -> Result<Settings>;

/// Makes the index of what all ranges were reduced to. The directory appears when it is whole.
pub fn gather(plan: &Plan, run: &Path, output: &Path, means: &Means, watch: &mut dyn Watch) -> Result<Summary> {
    let inputs: Vec<PathBuf> = plan.tasks_of(Kind::Reduce).map(|task| run.join(&task.output)).collect();
    write_aside(output, |beside| merge(&inputs, Some(plan.options.parts), beside, means, watch))
}

/// What the last task needs beside its inputs: the record of each slice.
pub fn gather_needs(plan: &Plan) -> HashMap<String, Vec<String>> {
    let records: Vec<String> = plan.tasks_of(Kind::Map).map(|task| format!("{}/{BUILT}", task.output)).collect();
    plan.tasks_of(Kind::Gather).map(|task| (task.id.clone(), records.clone())).collect()
}

/// What it needs, too, if documents of several slices have the same id: the ids of all. What is there is not named.
pub fn ids_needed(plan: &Plan, run: &Path) -> Result<Vec<String>> {
    if !is_any_repeated(plan, run)? {
        return Ok(Vec::new());
    }
    let part = |task: &Task| format!("{}/{}", task.output, range_name(0));
    Ok(plan.tasks_of(Kind::Map).map(part).filter(|path| !run.join(path).exists()).collect())
}

fn is_any_repeated(plan: &Plan, run: &Path) -> Result<bool> {
    let kept = Index::open(&run.join("reduce").join(range_name(0)))?.manifest.numbers;
    let read = |task: &Task| Ok(u64::from(Built::read(&run.join(&task.output))?.documents));
    Ok(plan.tasks_of(Kind::Map).map(read).sum::<Result<u64>>()? > u64::from(kept))
}

/// What could not be used, in the order of the corpus: what was told of each slice, and documents whose id an earlier slice has.
pub fn write_problems(plan: &Plan, run: &Path, read: Reads<'_>) -> Result<Vec<String>> {
    let built = plan.tasks_of(Kind::Map).map(|task| Built::read(&run.join(&task.output))).collect::<Result<Vec<_>>>()?;
    let is_any_repeated = is_any_repeated(plan, run)?;
    let (mut problems, mut seen) = (Vec::new(), HashSet::new());
    for (built, task) in built.iter().zip(plan.tasks_of(Kind::Map)) {
        problems.extend(built.problems.iter().cloned());
        let part = run.join(&task.output).join(range_name(0));
        let repeated = if is_any_repeated { repeated(&part, &mut seen)? } else { HashSet::new() };
        if !repeated.is_empty() {
            find_ids(&read(task)?, repeated, &mut |problem| problems.push(problem.to_string()))?;
        }
    }
    let (path, beside) = (run.join(PROBLEMS), run.join(format!("{PROBLEMS}.new")));
    let text: String = problems.iter().map(|problem| format!("{problem}\n")).collect();
    fs::write(&beside, text).and_then(|()| fs::rename(&beside, &path)).map_err(|error| Error::io(path.display(), error))?;
    Ok(problems)
}

/// What was written of a run that is done.
pub fn problems(run: &Path) -> Result<Vec<String>> {
    let path = run.join(PROBLEMS);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::io(path.display(), error)),
    }
}

/// The ids of a slice that came in an earlier one. Memory: that of all ids.
fn repeated(directory: &Path, seen: &mut HashSet<String>) -> Result<HashSet<String>> {
    let index = Index::open(directory)?;
    let mut repeated = HashSet::new();
    for segment in &index.segments {
        for place in 0..segment.documents.len() {
            let id = segment.documents.id(place)?;
            if seen.contains(&id) {
                repeated.insert(id);
            } else {
                seen.insert(id);
            }
        }
    }
    Ok(repeated)
}
