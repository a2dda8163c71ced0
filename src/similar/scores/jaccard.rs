//! The Jaccard coefficient: intersection ÷ union.

use super::{DocumentSize, Overlap, ScoreFormula};

/// Shared blots ÷ blots that either document has.
pub struct Jaccard;

impl ScoreFormula for Jaccard {
    const NAME: &'static str = "jaccard";
    const HELP: &'static str = "shared blots ÷ those of either";
    const DEFAULT_THRESHOLD: f64 = 0.5;
    const IS_COUNT: bool = false;
    const NEEDS_RARITY: bool = false;

    fn score(a: DocumentSize, b: DocumentSize, overlap: Overlap) -> f64 {
        let shared = f64::from(overlap.shared);
        shared / (f64::from(a.blots) + f64::from(b.blots) - shared)
    }

    fn upper_bound(a: DocumentSize, b: DocumentSize, most: Overlap) -> f64 {
        Self::score(a, b, most.capped(a))
    }

    fn size_bound(a: DocumentSize, b: DocumentSize) -> f64 {
        Self::score(a, b, Overlap::all_of(b))
    }
}
