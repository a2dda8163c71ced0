//! The engines by name, and the flags that only some of them know.

use super::{hosts::FleetArgs, slurm::SlurmArgs};
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

/// Refuses what an engine knows nothing of.
pub fn ensure_meant_for(
    engine: EngineName,
    fleet: &FleetArgs,
    slurm: Option<&SlurmArgs>,
) -> Result<(), anyhow::Error> {
    if let Some(flag) = fleet.given().filter(|_| !engine.is("ssh")) {
        anyhow::bail!("{flag} is for --engine ssh only");
    }
    if let Some(flag) = slurm
        .and_then(SlurmArgs::given)
        .filter(|_| !engine.is("slurm"))
    {
        anyhow::bail!("{flag} is for --engine slurm only");
    }
    Ok(())
}

/// A run for an engine, with defaults for all that the flags of hosts do not say.
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
