//! Containment: the share of the smaller document that the larger one has.

use super::{DocumentSize, Overlap, ScoreFormula};

/// Shared blots ÷ the lesser number of blots, which is the larger of a→b and b→a.
pub struct Containment;

impl ScoreFormula for Containment {
    const NAME: &'static str = "containment";
    const HELP: &'static str = "shared blots ÷ those of the document that has fewer";
    const DEFAULT_THRESHOLD: f64 = 0.5;
    const IS_COUNT: bool = false;
    const NEEDS_RARITY: bool = false;

    fn score(a: DocumentSize, b: DocumentSize, overlap: Overlap) -> f64 {
        f64::from(overlap.shared) / f64::from(a.blots.min(b.blots))
    }

    fn upper_bound(a: DocumentSize, b: DocumentSize, most: Overlap) -> f64 {
        Self::score(a, b, most.capped(a))
    }

    fn size_bound(a: DocumentSize, b: DocumentSize) -> f64 {
        Self::score(a, b, Overlap::all_of(b))
    }
}
