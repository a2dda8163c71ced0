//! dedup-shard gather.

use super::{
    super::{args::AccountArgs, width::warn_of_written},
    OfRun, PROGRAM, tell,
};
use crate::cluster::{
    OutputState, TaskKind, TaskWork, enter_directory, gather_index, gather_needs, has_file,
    output_state, write_input,
};
use anyhow::Context;
use clap::Args;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Args, Debug)]
pub struct GatherArgs {
    #[command(flatten)]
    of: OfRun,
    /// The directory to make; it must not be there yet
    #[arg(short, long, value_name = "IDX")]
    output: PathBuf,
    /// No account of what was read; errors are still reported
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    _account: AccountArgs,
}

pub fn run_gather(args: &GatherArgs) -> Result<ExitCode, anyhow::Error> {
    let (plan, directory) = args.of.open()?;
    let output =
        std::path::absolute(&args.output).with_context(|| args.output.display().to_string())?;
    let inputs = plan
        .tasks_of(TaskKind::Gather)
        .flat_map(|task| task.inputs.iter().cloned());
    let needs: Vec<String> = inputs
        .chain(gather_needs(&plan).into_values().flatten())
        .collect();
    for task in plan
        .tasks
        .iter()
        .filter(|task| task.kind() < TaskKind::Gather)
    {
        // Only the files to read: the other outputs of hosts are not on this machine.
        let has_needs = || {
            needs
                .iter()
                .filter(|path| Path::new(path).starts_with(&task.output))
                .all(|path| has_file(&plan, path, &directory))
        };
        match output_state(&plan, task, &directory) {
            OutputState::Missing | OutputState::Partial if !has_needs() => {
                anyhow::bail!("{} is not done; dedup-shard run does it", task.id)
            }
            OutputState::Done | OutputState::Missing | OutputState::Partial => {}
            OutputState::Damaged(what) => anyhow::bail!(
                "{what}; dedup-shard task {} {} makes it again",
                args.of.run.display(),
                task.id
            ),
        }
    }
    enter_directory(&plan)?;
    let input = write_input(&plan, &directory)?;
    for task in plan.tasks_of(TaskKind::Gather) {
        if let TaskWork::Gather(files) = &task.work {
            gather_index(&plan, &directory, files, &output)?;
        }
    }
    warn_of_written(PROGRAM, &output, args.quiet)?;
    Ok(tell(&plan, &input, args.quiet))
}
