//! The directed similarity a→b, by which tables are ranked.

use super::{DocumentSize, Overlap, ScoreFormula};

/// Shared blots ÷ blots of `a`.
pub struct Inclusion;

impl ScoreFormula for Inclusion {
    const NAME: &'static str = "inclusion";
    const HELP: &'static str = "shared blots ÷ those of the first document";
    const DEFAULT_THRESHOLD: f64 = 0.1;
    const IS_COUNT: bool = false;
    const NEEDS_RARITY: bool = false;

    fn score(a: DocumentSize, _: DocumentSize, overlap: Overlap) -> f64 {
        f64::from(overlap.shared) / f64::from(a.blots)
    }

    fn upper_bound(a: DocumentSize, b: DocumentSize, most: Overlap) -> f64 {
        Self::score(a, b, most.capped(a))
    }

    fn size_bound(a: DocumentSize, b: DocumentSize) -> f64 {
        Self::score(a, b, Overlap::all_of(b))
    }
}
