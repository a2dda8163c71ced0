//! The engines by name, and the flags that only one of them understands.

use super::hosts::FleetArgs;
use crate::cluster::{DEFAULT_RETRIES, ENGINES, EngineEntry, EngineSetup, Plan, RunOptions};
use anyhow::Context;
use clap::{ValueEnum, builder::PossibleValue};
use std::{env, path::Path};

/// An engine of [`ENGINES`].
#[derive(Debug, Clone, Copy)]
pub struct EngineName(pub &'static EngineEntry);

impl EngineName {
    pub fn is(self, name: &str) -> bool {
        self.0.name == name
    }
}

impl ValueEnum for EngineName {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: [EngineName; ENGINES.len()] = {
            let mut all = [EngineName(&ENGINES[0]); ENGINES.len()];
            let mut number = 1;
            while number < ENGINES.len() {
                all[number] = EngineName(&ENGINES[number]);
                number += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name).help(self.0.help))
    }
}

/// A group of flags that only one engine understands.
pub trait EngineFlags {
    /// The name of the engine.
    fn engine(&self) -> &'static str;

    /// Each flag, and whether the user gave it.
    fn flags(&self) -> Vec<(bool, &'static str)>;
}

/// Refuses flags of other engines.
pub fn ensure_meant_for(
    engine: EngineName,
    groups: &[&dyn EngineFlags],
) -> Result<(), anyhow::Error> {
    for group in groups.iter().filter(|group| !engine.is(group.engine())) {
        if let Some((_, flag)) = group.flags().iter().find(|(is_given, _)| *is_given) {
            anyhow::bail!("{flag} is for --engine {} only", group.engine());
        }
    }
    Ok(())
}

/// A run for an engine, with the options of its flags; options of flags that `clean` lacks have their defaults.
pub fn setup<'p>(
    engine: EngineName,
    fleet: &FleetArgs,
    plan: &'p Plan,
    directory: &'p Path,
) -> Result<EngineSetup<'p>, anyhow::Error> {
    let program = env::current_exe().context("dedup-shard")?;
    let ssh = engine.is("ssh").then(|| fleet.setup(plan, &program));
    Ok(EngineSetup {
        plan,
        directory,
        slots: 1,
        options: RunOptions {
            retries: DEFAULT_RETRIES,
            max_tasks: None,
        },
        ssh: ssh.transpose()?,
        slurm: None,
        program,
    })
}
