//! S4 of Bernstein and Zobel's DECO.

use super::{DocumentSize, Overlap, ScoreFormula, mean_blots};

/// The sum of 1/df over the shared blots ÷ the mean number of distinct blots.
pub struct S4;

impl ScoreFormula for S4 {
    const NAME: &'static str = "s4";
    const HELP: &'static str =
        "the sum of 1/df over shared blots ÷ the mean number of distinct blots";
    const DEFAULT_THRESHOLD: f64 = 0.05;
    const IS_COUNT: bool = false;
    const NEEDS_RARITY: bool = true;

    fn score(a: DocumentSize, b: DocumentSize, overlap: Overlap) -> f64 {
        overlap.rarity / mean_blots(a, b)
    }

    fn upper_bound(a: DocumentSize, b: DocumentSize, most: Overlap) -> f64 {
        Self::score(a, b, most.capped(a))
    }

    /// How rare a shared blot is does not follow from the number of blots.
    fn size_bound(_: DocumentSize, _: DocumentSize) -> f64 {
        f64::INFINITY
    }
}
