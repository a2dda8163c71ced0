//! Relative rarity: rarity in relation to what documents of these lengths share by chance.

use super::{DocumentSize, Overlap, ScoreFormula};

/// The sum of 1/df over the shared blots ÷ the fourth root of the product of the numbers of blots,
/// in thousands.
///
/// Long documents share more rare blots by chance than short ones. A threshold for [`Rarity`] that
/// is right for pages lets unrelated books pass, or the other way round. Between documents without a
/// common source the sum grows about as fast as the square root of their mean length.
///
/// [`Rarity`]: super::rarity::Rarity
pub struct RelativeRarity;

/// The number of blots of a document whose rarity is not changed.
const UNIT_BLOTS: f64 = 1000.0;

impl ScoreFormula for RelativeRarity {
    const NAME: &'static str = "relative-rarity";
    const HELP: &'static str = "rarity ÷ the fourth root of the product of the numbers of blots in thousands; for sources of reworded text, whatever the length of the documents";
    const DEFAULT_THRESHOLD: f64 = 0.95;
    const IS_COUNT: bool = true;
    const NEEDS_RARITY: bool = true;

    fn score(a: DocumentSize, b: DocumentSize, overlap: Overlap) -> f64 {
        // Square roots are correctly rounded, so that the bound is monotonic; a power is not.
        let thousands = |size: DocumentSize| f64::from(size.blots.max(1)) / UNIT_BLOTS;
        overlap.rarity / (thousands(a) * thousands(b)).sqrt().sqrt()
    }

    fn upper_bound(a: DocumentSize, b: DocumentSize, most: Overlap) -> f64 {
        Self::score(a, b, most.capped(a))
    }

    /// How rare a shared blot is does not follow from the number of blots.
    fn size_bound(_: DocumentSize, _: DocumentSize) -> f64 {
        f64::INFINITY
    }

    /// With every nth blot the sum is n times too small, and the root √n times.
    fn sample_factor(blots: f64) -> f64 {
        blots.sqrt()
    }
}
