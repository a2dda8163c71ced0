//! Rarity: shared blots weighed by how few documents have them.

use super::{DocumentSize, Overlap, ScoreFormula};

/// The sum of 1/df over the shared blots.
pub struct Rarity;

impl ScoreFormula for Rarity {
    const NAME: &'static str = "rarity";
    const HELP: &'static str = "the sum of 1/df over shared blots; for sources of reworded text";
    const DEFAULT_THRESHOLD: f64 = 2.0;
    const IS_COUNT: bool = true;
    const NEEDS_RARITY: bool = true;

    fn score(_: DocumentSize, _: DocumentSize, overlap: Overlap) -> f64 {
        overlap.rarity
    }

    fn upper_bound(a: DocumentSize, b: DocumentSize, most: Overlap) -> f64 {
        Self::score(a, b, most.capped(a))
    }

    /// How rare a shared blot is does not follow from the number of blots.
    fn size_bound(_: DocumentSize, _: DocumentSize) -> f64 {
        f64::INFINITY
    }
}
