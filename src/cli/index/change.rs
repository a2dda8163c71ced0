//! What the verbs that change an index have in common.

use super::{
    super::{
        args::{BlotArgs, RunArgs, TokenArgs},
        output::grouped,
    },
    ResourceArgs,
    pin::say_done,
};
use crate::{
    commands::{ChangeOptions, ChangeSummary, Settings},
    index::Manifest,
    text::stream::Form,
};
use clap::Args;
use std::path::Path;

/// What add and sync have in common.
#[derive(Args, Debug)]
pub struct ChangeArgs {
    #[command(flatten)]
    resources: ResourceArgs,
    /// Leave segments as they are, however many there are
    #[arg(long)]
    no_compact: bool,
    #[command(flatten)]
    blots: BlotArgs,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    pub run: RunArgs,
}

impl ChangeArgs {
    pub fn options(&self) -> ChangeOptions {
        ChangeOptions {
            blots: self.blots.options(&self.tokens),
            resources: self.resources.resources(self.run.common.threads),
            compacts: !self.no_compact,
        }
    }

    /// Documents of an index of DNA are read as FASTA.
    pub fn settings(&self, directory: &Path) -> Result<Settings, anyhow::Error> {
        let scheme = Manifest::read(directory)?.scheme(directory)?;
        let is_dna = scheme.tokens.is_dna();
        Ok(self
            .run
            .settings(Form::Binary, self.resources.under_way(), is_dna))
    }
}

/// One line on what a commit did.
pub fn tell(changed: &ChangeSummary, directory: &Path, quiet: bool, is_dry: bool) {
    if quiet {
        return;
    }
    let ChangeSummary {
        added,
        known,
        removed,
        generation,
        ..
    } = changed;
    let counts: Vec<String> = [
        (added, "added or replaced"),
        (removed, "removed"),
        (known, "known already"),
    ]
    .into_iter()
    .filter(|(count, _)| **count > 0)
    .map(|(count, what)| format!("{} {what}", grouped(*count)))
    .collect();
    let what = if counts.is_empty() {
        "nothing to do".to_owned()
    } else {
        counts.join(", ")
    };
    let when = if is_dry {
        "nothing was written".to_owned()
    } else {
        format!("generation {generation}")
    };
    let _ = say_done(quiet, directory, &format!("{what}; {when}"));
}
