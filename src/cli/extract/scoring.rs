//! Which pairs count: flags of the verbs that look for pairs.

use super::super::{
    args::MORE,
    exclusions::{ExcludeArgs, GroupArgs},
    threshold::{Threshold, cutoff, score_named},
    value_help::{score_help, score_names, threshold_help},
};
use crate::{
    commands::{Cutoff, LeaveOut, NewDocuments, WantedPairs},
    index::Since,
    similar::Score,
};
use clap::{Args, builder::PossibleValuesParser};
use std::path::PathBuf;

/// The score of a pair, and the least that counts.
#[derive(Args, Debug, Clone)]
pub struct ScoreArgs {
    #[arg(long, help = score_names(), value_name = "SCORE", hide_possible_values = true, value_parser = PossibleValuesParser::new(Score::NAMES.map(|(name, ..)| name)), long_help = score_help())]
    pub score: Option<String>,
    /// The least score that counts, such as 0.5 or 50% [default: 0.1]
    #[arg(long, value_name = "X|P%", long_help = threshold_help(), allow_negative_numbers = true)]
    pub threshold: Option<Threshold>,
}

impl ScoreArgs {
    /// The score, and the least value that counts; `default` if no flag says otherwise.
    pub fn cutoff(&self, default: Cutoff) -> Result<Cutoff, anyhow::Error> {
        let score = score_named(self.score.as_deref(), default.score);
        cutoff(score, self.threshold, default, score.default_threshold())
    }

    pub fn is_given(&self) -> bool {
        self.score.is_some() || self.threshold.is_some()
    }
}

/// The threshold that was given, or the default of the score.
pub fn threshold_of(score: Score, threshold: Option<Threshold>) -> Result<f64, anyhow::Error> {
    threshold.map_or(Ok(score.default_threshold()), |threshold| {
        threshold.of_score(score)
    })
}

/// Which documents are compared.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = MORE)]
pub struct CompareWhichArgs {
    /// Only pairs with a new document: its id begins with a PREFIX
    #[arg(long, value_name = "PREFIX")]
    pub new: Vec<String>,
    /// Only pairs with a new document: its id is in LIST, one a line
    #[arg(long, value_name = "LIST")]
    pub new_from: Option<PathBuf>,
    /// Only pairs with a document that came after a generation or a pin
    #[arg(long, value_name = "GEN|PIN")]
    pub new_since: Option<Since>,
    #[command(flatten)]
    pub groups: GroupArgs,
}

impl CompareWhichArgs {
    pub fn pairs(&self) -> WantedPairs {
        let prefixes = self.new.iter().cloned().map(NewDocuments::Prefix);
        let new = prefixes
            .chain(self.new_from.clone().map(NewDocuments::Listed))
            .chain(self.new_since.clone().map(NewDocuments::Since))
            .collect();
        WantedPairs {
            groups: self.groups.grouping(),
            new,
        }
    }
}

/// What does not count.
pub fn leave_out(excluded: &ExcludeArgs, pairs: WantedPairs) -> LeaveOut {
    LeaveOut {
        files: excluded.exclude_text.clone(),
        indexes: excluded.exclude_index.clone(),
        base: excluded.base.base.clone(),
        pairs,
    }
}
