//! Which of several similar documents stays.

use crate::similar::KeepRule;
use clap::{Args, builder::PossibleValuesParser};

#[derive(Args, Debug, Clone)]
pub struct KeepArgs {
    /// Which document stays: first, last, longest, shortest [default: first]
    ///
    /// In clusters first and last go by id, in clean by the order of the lines. Length is counted in
    /// tokens.
    #[arg(long, value_name = "WHICH", hide_possible_values = true, value_parser = PossibleValuesParser::new(KeepRule::NAMES.map(|(name, _)| name)))]
    keep: Option<String>,
}

impl KeepArgs {
    pub fn keep(&self) -> KeepRule {
        KeepRule::named(self.keep.as_deref())
    }
}
