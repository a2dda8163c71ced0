//! The plan as a Makefile, for whoever would rather have `make` run it.
//!
//! Names of documents do not occur here: they are in the slices. What does occur is quoted for the shell and for make.

use super::plan::{Kind, Plan, Task, marker};
use crate::error::{Error, Result};
use std::path::Path;

/// Refuses what a line of a Makefile cannot hold.
pub fn makefile(plan: &Plan) -> Result<String> {
    let options = &plan.options;
    if let Some(odd) = options.flags.iter().chain([&options.directory]).find(|text| text.contains(['\n', '\r', '\0'])) {
        return Err(Error::Usage(format!("{odd:?} has a line end, which a line of a Makefile cannot hold; rename it")));
    }
    let mut text = HEAD.to_owned();
    for task in plan.tasks.iter().rev() {
        let needs: Vec<String> = needs(plan, task);
        text += &format!("\n{}: {}\n\t{}\n", marker(task).display(), needs.join(" "), line(plan, task));
    }
    Ok(text)
}

const HEAD: &str = "# The tasks of plan.json. `make -j8` does what `dedup-shard run` does; what is made already is left as it is.
DEDUP_INDEX ?= dedup-index
DEDUP_SHARD ?= dedup-shard
.SUFFIXES:
.SECONDARY:
";

fn needs(plan: &Plan, task: &Task) -> Vec<String> {
    let markers = |kind| plan.tasks_of(kind).map(|task| marker(task).display().to_string()).collect();
    match task.kind {
        Kind::Map => task.inputs.clone(),
        Kind::Reduce => markers(Kind::Map),
        Kind::Gather => markers(Kind::Reduce),
    }
}

/// The command of a task. Documents are read from where the plan was made, all else is below the run's directory.
fn line(plan: &Plan, task: &Task) -> String {
    let words = plan.command(task, Path::new(""));
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let is_file = |word: &String| task.inputs.contains(word) || *word == task.output;
    let quoted = |word: &String| if task.kind == Kind::Map && is_file(word) { format!("\"$$run\"/{word}") } else { quote(word) };
    let program = if task.kind == Kind::Gather { "$(DEDUP_SHARD)" } else { "$(DEDUP_INDEX)" };
    let arguments: Vec<String> = words[1..].iter().map(quoted).collect();
    match task.kind {
        Kind::Map => format!("run=$$PWD && cd -- {} && {program} {}", quote(&plan.options.directory), arguments.join(" ")),
        Kind::Reduce => format!("{program} {}", arguments.join(" ")),
        Kind::Gather => format!("{program} gather . -o index"),
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
