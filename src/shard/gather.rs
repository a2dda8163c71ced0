//! The end of a run: all parts to one index, and all that could not be used.

use super::{
    owners::write_owners,
    plan::{BaseOf, Kind, NAME, Plan, Task},
};
use crate::{
    error::{Error, Place, Result},
    files::durable,
    pipeline::{
        BUILT, Built, Followed, MaxRemove, PartFiles, Settings, SliceMade, StepOptions, Targets, commit_staged, find_ids, number_changes,
        place_parts, stage_changes,
    },
};
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

/// Where what could not be used is kept, a line each.
const PROBLEMS: &str = "problems";

/// How a task that maps reads its slice.
pub type Reads<'a> = &'a dyn Fn(&Task) -> Result<Settings>;

/// Puts together what the tasks made. The directory appears when it is whole.
pub fn gather(plan: &Plan, run: &Path, output: &Path) -> Result<()> {
    let scheme = plan.options.scheme.parse().map_err(|what: String| Error::damaged(Place::path(&run.join(NAME)), what))?;
    let outputs = |kind| plan.tasks_of(kind).map(|task| run.join(&task.output)).collect::<Vec<PathBuf>>();
    let words = outputs(Kind::Reduce).into_iter().filter(|_| plan.options.dictionary).map(|range| range.join("words")).collect();
    let files = PartFiles { documents: run.join("number"), sets: run.join("sets"), parts: outputs(Kind::Part), words };
    if plan.options.base.is_some() {
        return stage_changes(&files, &run.join("base"), output);
    }
    place_parts(&files, &scheme, output)?;
    write_owners(output, plan.ranges.iter().map(|range| range.host), &plan.hosts)
}

/// Numbers the documents of all slices beside those of the index that follows its files.
pub fn number(plan: &Plan, run: &Path, settings: &Settings, step: &StepOptions, output: &Path) -> Result<()> {
    let made = |task: &Task| SliceMade { slice: run.join(&plan.slices[task.number].file), made: run.join(&task.output) };
    let slices: Vec<SliceMade> = plan.tasks_of(Kind::Map).map(made).collect();
    let BaseOf { index, max_remove, .. } = plan.base()?;
    let max_remove = max_remove.as_deref().map_or(Ok(MaxRemove::Half), str::parse).map_err(Error::Usage)?;
    number_changes(step, &Followed { index: Path::new(index), base: &run.join("base"), max_remove }, settings, &slices, output)
}

/// Commits what was gathered.
pub fn commit(plan: &Plan, run: &Path, _: &Settings, step: &StepOptions, output: &Path) -> Result<()> {
    let BaseOf { index, checksum, .. } = plan.base()?;
    step.make_with(output, |_| {
        commit_staged(&run.join("index"), &run.join("number/known"), Path::new(index), checksum)?;
        write_owners(Path::new(index), plan.ranges.iter().map(|range| range.host), &plan.hosts)?;
        Ok(Vec::new())
    })
}

/// What the last task needs beside its inputs: what to tell of each slice.
pub fn gather_needs(plan: &Plan) -> HashMap<String, Vec<String>> {
    let records = plan.tasks_of(Kind::Map).map(|task| format!("{}/{BUILT}", task.output));
    let needs: Vec<String> = records.chain(["number/targets".to_owned()]).collect();
    plan.tasks_of(Kind::Gather).map(|task| (task.id.clone(), needs.clone())).collect()
}

/// What could not be used, in the order of the corpus: what was told of each slice, and documents whose id an earlier slice has.
pub fn write_problems(plan: &Plan, run: &Path, read: Reads<'_>) -> Result<Vec<String>> {
    let targets = Targets::open(&run.join("number/targets"))?;
    let mut problems = Vec::new();
    for (task, repeated) in plan.tasks_of(Kind::Map).zip(targets.repeated()) {
        problems.extend(Built::read(&run.join(&task.output))?.problems);
        if !repeated.is_empty() {
            find_ids(&read(task)?, repeated.iter().cloned().collect(), &mut |problem| problems.push(problem.to_string()))?;
        }
    }
    problems.extend(Built::read(&run.join("number"))?.problems);
    let text: String = problems.iter().map(|problem| format!("{problem}\n")).collect();
    durable::replace(&run.join(PROBLEMS), text.as_bytes())?;
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
