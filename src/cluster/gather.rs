//! The end of a run: all parts to one index, and all that could not be used.

use super::{
    owners::write_owners,
    plan::{BaseOf, Kind, NAME, Plan, Task},
};
use crate::{
    base::{
        error::{Error, Place, Result},
        files::durable,
    },
    commands::{
        BUILT, Built, Followed, MaxRemove, PartFiles, Settings, SliceMade, StepOptions, Targets,
        commit_staged, find_ids, number_changes, place_parts, stage_changes,
    },
    text::corpus::Account,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

/// Where the account of the input is kept.
const INPUT: &str = "input.json";

/// What all tasks together read, and what could not be used.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Input {
    pub account: Account,
    pub problems: Vec<String>,
}

/// How a task that maps reads its slice.
pub type Reads<'a> = &'a dyn Fn(&Task) -> Result<Settings>;

/// Puts together what the tasks made. The directory appears when it is whole.
pub fn gather(plan: &Plan, run: &Path, output: &Path) -> Result<()> {
    let scheme = plan
        .options
        .scheme
        .parse()
        .map_err(|what: String| Error::damaged(Place::path(&run.join(NAME)), what))?;
    let outputs = |kind| {
        plan.tasks_of(kind)
            .map(|task| run.join(&task.output))
            .collect::<Vec<PathBuf>>()
    };
    let words = outputs(Kind::Reduce)
        .into_iter()
        .filter(|_| plan.options.dictionary)
        .map(|range| range.join("words"))
        .collect();
    let files = PartFiles {
        documents: run.join("number"),
        sets: run.join("sets"),
        parts: outputs(Kind::Part),
        words,
    };
    if plan.options.base.is_some() {
        return stage_changes(&files, &run.join("base"), output);
    }
    place_parts(&files, &scheme, output)?;
    write_owners(
        output,
        plan.ranges.iter().map(|range| range.host),
        &plan.hosts,
    )
}

/// Numbers the documents of all slices beside those of the index that follows its files.
pub fn number(
    plan: &Plan,
    run: &Path,
    settings: &Settings,
    step: &StepOptions,
    output: &Path,
) -> Result<()> {
    let made = |task: &Task| SliceMade {
        slice: run.join(&plan.slices[task.number].file),
        made: run.join(&task.output),
    };
    let slices: Vec<SliceMade> = plan.tasks_of(Kind::Map).map(made).collect();
    let BaseOf {
        index, max_remove, ..
    } = plan.base()?;
    let max_remove = max_remove
        .as_deref()
        .map_or(Ok(MaxRemove::Half), str::parse)
        .map_err(Error::Usage)?;
    number_changes(
        step,
        &Followed {
            index: Path::new(index),
            base: &run.join("base"),
            max_remove,
        },
        settings,
        &slices,
        output,
    )
}

/// Commits what was gathered.
pub fn commit(
    plan: &Plan,
    run: &Path,
    _: &Settings,
    step: &StepOptions,
    output: &Path,
) -> Result<()> {
    let BaseOf {
        index, checksum, ..
    } = plan.base()?;
    step.make_with(output, |_| {
        commit_staged(
            &run.join("index"),
            &run.join("number/known"),
            Path::new(index),
            checksum,
        )?;
        write_owners(
            Path::new(index),
            plan.ranges.iter().map(|range| range.host),
            &plan.hosts,
        )?;
        Ok((Vec::new(), Account::default()))
    })
}

/// What the last task needs beside its inputs: what to tell of each slice.
pub fn gather_needs(plan: &Plan) -> HashMap<String, Vec<String>> {
    let records = plan
        .tasks_of(Kind::Map)
        .map(|task| format!("{}/{BUILT}", task.output));
    let needs: Vec<String> = records.chain(["number/targets".to_owned()]).collect();
    plan.tasks_of(Kind::Gather)
        .map(|task| (task.id.clone(), needs.clone()))
        .collect()
}

/// What was read, and what could not be used, in the order of the corpus: what was told of each slice, and documents whose id an earlier slice has.
pub fn write_input(plan: &Plan, run: &Path, read: Reads<'_>) -> Result<Input> {
    let targets = Targets::open(&run.join("number/targets"))?;
    let (mut problems, mut account) = (Vec::new(), Account::default());
    for (task, repeated) in plan.tasks_of(Kind::Map).zip(targets.repeated()) {
        let built = Built::read(&run.join(&task.output))?;
        problems.extend(built.problems);
        account.add(&built.account);
        if !repeated.is_empty() {
            find_ids(
                &read(task)?,
                repeated.iter().cloned().collect(),
                &mut |problem, bytes| {
                    problems.push(problem.to_string());
                    account.drop_document(bytes);
                },
            )?;
        }
    }
    let number = Built::read(&run.join("number"))?;
    problems.extend(number.problems);
    account.add(&number.account);
    // An index that follows its files may come to hold none.
    if let (None, Some(task)) = (&plan.options.base, plan.tasks_of(Kind::Map).next()) {
        account.ensure_documents(&read(task)?.corpus)?;
    }
    let input = Input { account, problems };
    let json = serde_json::to_string_pretty(&input).unwrap_or_default() + "\n";
    durable::replace(&run.join(INPUT), json.as_bytes())?;
    Ok(input)
}

/// What was written of a run that is done; none if there is nothing.
pub fn input_of(run: &Path) -> Result<Option<Input>> {
    let path = run.join(INPUT);
    match fs::read(&path) {
        Ok(json) => serde_json::from_slice(&json)
            .map(Some)
            .map_err(|error| Error::damaged(Place::path(&path), error.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path.display(), error)),
    }
}
