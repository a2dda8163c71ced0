//! Whether blots are wide enough for what an index holds.
//!
//! Windows of different text have the same blot by chance: with n postings and b bits, about
//! n²/2^(b+1) pairs of them. Nearly each such match is a document set of its own, and the number of
//! matches grows with the square of the collection. For example, the 764 M postings of 4.2 GB of
//! new text have 68 M chance matches at 32 bits, 9 % of the postings, and 0.3 M at 40 bits.
//!
//! Measured on new text from 0.5 to 4.2 GB (`scripts/bench/results/index.md`): a posting costs 0.16
//! µs of CPU when the index is built, and a chance match about a microsecond more, and as much again
//! in extraction. So one match for 128 postings costs 5 to 10 %, and from there on time grows
//! faster than the text, with an exponent above 1.05. That is the limit.

use super::Index;
use crate::base::error::Result;
use serde::Serialize;

/// With more than one chance match for this many postings, blots are too narrow: the logarithm of
/// the number.
const POSTINGS_PER_MATCH_LOG2: u32 = 7;
/// Advised widths leave room for a collection that grows four times as large.
const ROOM_BITS: u32 = 2;
/// Advised widths are multiples of this: a blot is written as whole hexadecimal digits.
const DIGIT_BITS: u32 = 4;
/// No width is advised that is narrower than the default.
const LEAST_ADVISED_BITS: u32 = 40;
/// Copied text has more postings than distinct blots, rarely more than this many times.
const POSTINGS_PER_BLOT: u64 = 8;

/// How many matches by chance an index is to have, and whether that is too many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct WidthFit {
    /// The width of a blot.
    pub bits: u8,
    /// Pairs of a blot and a distinct text that has it.
    pub postings: u64,
    /// About how many pairs of postings have the same blot by chance: n²/2^(bits+1).
    pub chance_matches: u64,
    /// Whether there are enough of these to cost time.
    pub too_narrow: bool,
    /// The width that would do, with room to grow.
    pub advised_bits: u8,
}

impl WidthFit {
    /// How blots of `bits` fit this many postings.
    pub fn new(bits: u8, postings: u64) -> Self {
        let chance_matches = square_halved(postings).checked_shr(bits.into());
        Self {
            bits,
            postings,
            chance_matches: chance_matches
                .and_then(|matches| u64::try_from(matches).ok())
                .unwrap_or(u64::MAX),
            too_narrow: u32::from(bits) < least_bits(postings),
            advised_bits: advised_bits(postings),
        }
    }

    /// How the blots of an index fit its postings. Rows are read only if the answer depends on them.
    pub fn of(index: &Index) -> Result<Self> {
        let bits = index.scheme.bits;
        let parts = index.segments.iter().flat_map(|segment| &segment.parts);
        let blots: u64 = parts
            .map(|part| part.shared_blots() + part.single_blots())
            .sum();
        let most = Self::new(bits, blots.saturating_mul(POSTINGS_PER_BLOT));
        if !most.too_narrow {
            return Ok(Self::new(bits, blots));
        }
        let mut postings = 0;
        for (number, segment) in index.segments.iter().enumerate() {
            for place in 0..segment.documents.len() {
                let row = segment.documents.row(place)?;
                if !row.is_alias() && index.is_posted(number, row.number)? {
                    postings += u64::from(row.posted);
                }
            }
        }
        Ok(Self::new(bits, postings))
    }
}

/// n²/2, without overflow.
fn square_halved(number: u64) -> u128 {
    u128::from(number) * u128::from(number) / 2
}

/// The narrowest width with at most one chance match for 128 postings: n/2^(bits+1) ≤ 2^-7.
fn least_bits(postings: u64) -> u32 {
    let log2 = u64::BITS - postings.saturating_sub(1).leading_zeros();
    (log2 + POSTINGS_PER_MATCH_LOG2).saturating_sub(1)
}

fn advised_bits(postings: u64) -> u8 {
    let bits = (least_bits(postings) + ROOM_BITS).next_multiple_of(DIGIT_BITS);
    bits.clamp(LEAST_ADVISED_BITS, 64) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_follow_the_formula_and_the_limit_is_one_in_128() {
        let fit = WidthFit::new(32, 764_000_000);
        // 764,000,000² / 2^33 = 67,951,157.
        assert_eq!((fit.chance_matches, fit.too_narrow), (67_951_157, true));
        assert_eq!(fit.advised_bits, 40);
        for bits in 16..=58 {
            let most = 1_u64 << (bits - 6);
            let [fits, fits_not] = [most, most + 1].map(|postings| WidthFit::new(bits, postings));
            assert_eq!((fits.too_narrow, fits_not.too_narrow), (false, true));
            assert_eq!(fits.chance_matches, most / 128);
            let advised = WidthFit::new(fits_not.advised_bits, 4 * (most + 1));
            assert!(!advised.too_narrow, "{advised:?}");
        }
        assert!(!WidthFit::new(40, 2_200_000_000).too_narrow);
        assert_eq!(WidthFit::new(40, 20_000_000_000).advised_bits, 44);
        assert!(!WidthFit::new(64, u64::MAX >> 7).too_narrow);
        assert_eq!(WidthFit::new(16, 0).chance_matches, 0);
        assert_eq!(WidthFit::new(16, u64::MAX).chance_matches, u64::MAX);
    }
}
