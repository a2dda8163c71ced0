//! S3 of Bernstein and Zobel's DECO.

use super::{DocumentSize, Overlap, ScoreFormula, mean_blots};

/// Shared blots ÷ the mean number of distinct blots.
pub struct S3;

impl ScoreFormula for S3 {
    const NAME: &'static str = "s3";
    const HELP: &'static str = "shared blots ÷ the mean number of distinct blots";
    const DEFAULT_THRESHOLD: f64 = 0.1;
    const IS_COUNT: bool = false;
    const NEEDS_RARITY: bool = false;

    fn score(a: DocumentSize, b: DocumentSize, overlap: Overlap) -> f64 {
        f64::from(overlap.shared) / mean_blots(a, b)
    }

    fn upper_bound(a: DocumentSize, b: DocumentSize, most: Overlap) -> f64 {
        Self::score(a, b, most.capped(a))
    }

    fn size_bound(a: DocumentSize, b: DocumentSize) -> f64 {
        Self::score(a, b, Overlap::all_of(b))
    }
}
