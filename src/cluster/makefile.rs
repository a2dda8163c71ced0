//! The plan as a Makefile, for whoever would rather have `make` run it.
//!
//! Names of documents do not occur here: they are in the slices. What does occur is quoted for the shell and for make.

use super::plan::{Kind, Plan, Task, marker};
use crate::base::error::{Error, Result};
use std::path::Path;

/// Refuses what a line of a Makefile cannot hold.
pub fn makefile(plan: &Plan) -> Result<String> {
    let options = &plan.options;
    if let Some(odd) = options
        .flags
        .iter()
        .chain([&options.directory])
        .chain(options.base.iter().map(|base| &base.index))
        .find(|text| text.contains(['\n', '\r', '\0']))
    {
        return Err(Error::Usage(format!(
            "{odd:?} has a line end, which a line of a Makefile cannot hold; rename it"
        )));
    }
    let mut text = HEAD.to_owned();
    let results: Vec<String> = plan
        .tasks
        .iter()
        .filter(|task| task.kind.is_result())
        .map(|task| marker(task).display().to_string())
        .collect();
    if results.len() > 1 {
        text += &format!(".PHONY: all\n\nall: {}\n", results.join(" "));
    }
    for task in plan.tasks.iter().rev() {
        let needs: Vec<String> = needs(plan, task);
        // What is there is left as it is, however old.
        text += &format!(
            "\n{}: | {}\n\t{}\n",
            marker(task).display(),
            needs.join(" "),
            line(plan, task)
        );
    }
    Ok(text)
}

const HEAD: &str = "# The tasks of plan.json. `make -j8` does what `dedup-shard run` does; what is made already is left as it is.
DEDUP_EXTRACT ?= dedup-extract
DEDUP_INDEX ?= dedup-index
DEDUP_SHARD ?= dedup-shard
.SUFFIXES:
.SECONDARY:
";

/// The markers of all tasks that make its inputs.
fn needs(plan: &Plan, task: &Task) -> Vec<String> {
    let of = |kinds: &[Kind]| -> Vec<String> {
        let is_needed = |other: &&Task| {
            let is_of_range = matches!((task.kind, other.kind), (Kind::Part, Kind::Reduce));
            kinds.contains(&other.kind) && (!is_of_range || other.number == task.number)
        };
        plan.tasks
            .iter()
            .filter(is_needed)
            .map(|task| marker(task).display().to_string())
            .collect()
    };
    match task.kind {
        Kind::Base => Vec::new(),
        Kind::Map => task.inputs.clone(),
        Kind::Number => of(&[Kind::Base, Kind::Map]),
        Kind::Reduce => of(&[Kind::Map, Kind::Number]),
        Kind::Sets => of(&[Kind::Reduce]),
        Kind::Part => of(&[Kind::Reduce, Kind::Sets]),
        Kind::Gather => of(&[
            Kind::Base,
            Kind::Number,
            Kind::Sets,
            Kind::Reduce,
            Kind::Part,
        ]),
        Kind::Ranges => of(&[Kind::Gather]),
        Kind::Count => of(&[Kind::Gather, Kind::Ranges]),
        Kind::Table => of(&[Kind::Gather, Kind::Count]),
        Kind::Commit => of(&[Kind::Gather, Kind::Number, Kind::Table]),
    }
}

/// The command of a task. Documents are read from where the plan was made, all else is below the run's directory.
fn line(plan: &Plan, task: &Task) -> String {
    let words = plan.command(task, Path::new(""));
    let words: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let is_file = |word: &String| task.inputs.contains(word) || *word == task.output;
    let has_files = task.kind == Kind::Map && plan.options.selects > 0;
    let quoted = |word: &String| match word.as_str() {
        // The directory of the run, where make is.
        "" => ".".to_owned(),
        _ if task.kind == Kind::Map && is_file(word) => format!("\"$$run\"/{word}"),
        _ if has_files && word.starts_with("--select=") => {
            quote(word).replace(":select/", ":\"$$run\"/select/")
        }
        word => quote(word),
    };
    let arguments: Vec<String> = words[1..].iter().map(quoted).collect();
    let program = format!("$({})", words[0].to_uppercase().replace('-', "_"));
    match task.kind {
        Kind::Map => format!(
            "run=$$PWD && cd -- {} && {program} {}",
            quote(&plan.options.directory),
            arguments.join(" ")
        ),
        _ => format!("{program} {}", arguments.join(" ")),
    }
}

/// For the shell, within a line of a Makefile.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''").replace('$', "$$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted() {
        for (word, quoted) in [
            ("map/0001", "map/0001"),
            ("", "''"),
            ("it's", "'it'\\''s'"),
            ("$(rm -rf x) #`y`", "'$$(rm -rf x) #`y`'"),
            ("--id-field=a b", "'--id-field=a b'"),
        ] {
            assert_eq!(quote(word), quoted);
        }
    }
}
