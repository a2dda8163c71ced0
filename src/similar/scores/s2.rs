//! S2 of Bernstein and Zobel's DECO: the same formula as containment.

use super::{DocumentSize, Overlap, ScoreFormula};

/// Shared blots ÷ the lesser number of distinct blots.
pub struct S2;

impl ScoreFormula for S2 {
    const NAME: &'static str = "s2";
    const HELP: &'static str = "shared blots ÷ the lesser number of distinct blots, as containment";
    const DEFAULT_THRESHOLD: f64 = 0.1;
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
