//! The end of a run: the index from its parts, and the account of the input.

use crate::cluster::plan::{
    GatheredFiles, MappedSlice, PLAN_FILE, Plan, Task, TaskKind, write_owners,
};
use crate::{
    base::{
        error::{Error, Place, Result},
        files::durable,
    },
    commands::{
        self, BUILD_RECORD, BuildRecord, PartFiles, ReadSlice, StepOptions, SyncTarget, Targets,
        find_ids, place_parts, stage_changes,
    },
    text::corpus::{Account, LeftOutFile},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::Path,
};

/// The file that stores the account of the input.
const INPUT: &str = "input.json";

/// What all tasks together read, and the inputs that could not be used.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct RunInput {
    /// What was read and left out.
    pub account: Account,
    /// The inputs that could not be used, and why.
    pub problems: Vec<String>,
    /// Files that were left out; those that are errors are problems as well.
    #[serde(default)]
    pub left_out: Vec<LeftOutFile>,
    /// The files that could not be read to their ends.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub damaged: BTreeSet<String>,
}

/// Puts the outputs of tasks together to an index. The directory appears when it is complete.
pub fn gather_index(plan: &Plan, run: &Path, files: &GatheredFiles, output: &Path) -> Result<()> {
    let scheme = plan
        .options
        .scheme
        .parse()
        .map_err(|what: String| Error::damaged(Place::path(&run.join(PLAN_FILE)), what))?;
    let paths = |names: &[String]| names.iter().map(|name| run.join(name)).collect();
    let part_files = PartFiles {
        documents: run.join(&files.documents),
        sets: run.join(&files.sets),
        parts: paths(&files.parts),
        words: paths(&files.words),
    };
    if let Some(base) = &files.base {
        return stage_changes(&part_files, &run.join(base), output);
    }
    let preset = plan.options.blots.preset.as_deref();
    place_parts(&part_files, &scheme, preset, output)?;
    let owners = plan.ranges.iter().map(|range| range.host);
    write_owners(output, owners, &plan.hosts)
}

/// Numbers the documents of all slices beside those of the index that is brought up to date.
pub fn number_changes(
    plan: &Plan,
    run: &Path,
    step: &StepOptions,
    base: &str,
    slices: &[MappedSlice],
    output: &Path,
) -> Result<()> {
    let slices: Vec<ReadSlice> = slices
        .iter()
        .map(|mapped| ReadSlice {
            slice: run.join(&mapped.slice),
            made: run.join(&mapped.output),
        })
        .collect();
    let index = plan.base()?;
    let followed = SyncTarget {
        index: Path::new(&index.index),
        base: &run.join(base),
        max_remove: index.max_remove.unwrap_or_default(),
    };
    let settings = plan.options.settings(index.corpus.clone());
    commands::number_changes(step, &followed, &settings, &slices, output)
}

/// By task, the files it needs beside its inputs: gather needs the records of all slices.
pub fn gather_needs(plan: &Plan) -> HashMap<String, Vec<String>> {
    let records = plan
        .tasks_of(TaskKind::Map)
        .map(|task| format!("{}/{BUILD_RECORD}", task.output));
    let needs: Vec<String> = records.chain(["number/targets".to_owned()]).collect();
    plan.tasks_of(TaskKind::Gather)
        .map(|task| (task.id.clone(), needs.clone()))
        .collect()
}

/// Writes the account of the input, in the order of the corpus: problems of each slice, and
/// documents whose id an earlier slice has.
pub fn write_input(plan: &Plan, run: &Path) -> Result<RunInput> {
    let settings = |task: &Task| {
        let slice = run.join(&plan.slices[task.number].file);
        plan.options.slice_settings(slice, None)
    };
    let targets = Targets::open(&run.join("number/targets"))?;
    let (mut problems, mut account) = (Vec::new(), Account::default());
    let (mut left_out, mut damaged) = (Vec::new(), BTreeSet::new());
    for (task, repeated) in plan.tasks_of(TaskKind::Map).zip(targets.repeated()) {
        let built = BuildRecord::read(&run.join(&task.output))?;
        problems.extend(built.problems);
        left_out.extend(built.left_out);
        damaged.extend(built.damaged);
        account.add(&built.account);
        if !repeated.is_empty() {
            find_ids(
                &settings(task),
                repeated.iter().cloned().collect(),
                &mut |problem, bytes| {
                    problems.push(problem.to_string());
                    account.drop_document(bytes);
                },
            )?;
        }
    }
    let number = BuildRecord::read(&run.join("number"))?;
    problems.extend(number.problems);
    account.add(&number.account);
    // An index that is brought up to date may become empty.
    if let (None, Some(task)) = (&plan.options.base, plan.tasks_of(TaskKind::Map).next()) {
        account.ensure_documents(&settings(task).corpus)?;
    }
    let input = RunInput {
        account,
        problems,
        left_out,
        damaged,
    };
    let json = serde_json::to_string_pretty(&input).unwrap_or_default() + "\n";
    durable::replace(&run.join(INPUT), json.as_bytes())?;
    Ok(input)
}

/// Reads the account of the input; none if it was not written yet.
pub fn input_of(run: &Path) -> Result<Option<RunInput>> {
    let path = run.join(INPUT);
    match fs::read(&path) {
        Ok(json) => serde_json::from_slice(&json)
            .map(Some)
            .map_err(|error| Error::damaged(Place::path(&path), error.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path.display(), error)),
    }
}
