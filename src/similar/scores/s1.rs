//! S1 of Bernstein and Zobel's DECO.

use super::{DocumentSize, Overlap, ScoreFormula};

/// The number of shared blots.
pub struct S1;

impl ScoreFormula for S1 {
    const NAME: &'static str = "s1";
    const HELP: &'static str = "shared blots";
    const DEFAULT_THRESHOLD: f64 = 20.0;
    const IS_COUNT: bool = true;
    const NEEDS_RARITY: bool = false;

    fn score(_: DocumentSize, _: DocumentSize, overlap: Overlap) -> f64 {
        f64::from(overlap.shared)
    }

    fn upper_bound(a: DocumentSize, b: DocumentSize, most: Overlap) -> f64 {
        Self::score(a, b, most.capped(a))
    }

    fn size_bound(a: DocumentSize, b: DocumentSize) -> f64 {
        Self::score(a, b, Overlap::all_of(b))
    }
}
