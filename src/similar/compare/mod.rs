//! Areas: local alignments of two token sequences, with a score.
//!
//! An *area* is a span of tokens of `a` aligned with a span of tokens of `b`.
//!
//! **Scores.** An equal token scores [`MATCH`] = 5, about its number of letters; a token that is
//! replaced, deleted or inserted costs [`EDIT`] = 10. So 100 is twenty equal words in a row, or the
//! equivalent, and 500 is a hundred. The *similarity* of a pair is the score of its best area.
//!
//! **Cells.** The cell (i, j) is the best way to end an area at token i of `a` and token j of `b`.
//! Cells are visited row by row: j ascends, and in each row i. A cell is the first with the highest
//! score of
//!
//! 1. the cell (i−1, j−1) plus 5 if the tokens are equal, minus 10 if not;
//! 2. the cell (i, j−1) minus 10: token j of `b` was inserted;
//! 3. the cell (i−1, j) minus 10: token i of `a` was deleted;
//! 4. a new area with score 5, if the three tokens from i on equal those from j on, and occur at
//!    most [`MOST_PLACES`] = 64 times in either document.
//!
//! A cell continues the area of the cell it comes from. It is dead, and ignored, if its score is
//! not above 0; if it is more than [`DROP`] = 100 below the best score of its area so far; or if it
//! strays: the area has passed more than [`STRAY`] = 256 more tokens of one document than of the
//! other.
//!
//! **Areas.** Each area ends where its score is highest; of equal ends, at the first. Areas with at
//! least the requested score are sorted by falling score, then by start in `a`, then in `b`. An
//! area that overlaps an earlier one in both documents is not reported. At most [`MOST_AREAS`] =
//! 1000 are.
//!
//! Worked example: *a b c d e* and *a b c x d e*. From *a b c*: 15; *x* was inserted: 5; *d e*: 15.
//! One area of three tokens with score 15: it ends at *c*, as going on does not lead higher.
//!
//! **Starting at three equal tokens loses nothing.** One or two equal tokens score 10 at most, and
//! the next edit ends them; an area of 100 has more. How many more gives a lossless filter: an area
//! of r runs of equal tokens has at least r − 1 edits, so at score S its runs have at least S/5 +
//! 2(r−1) tokens, and at least S/5 − 2 of these start three equal tokens: 18 places of `b` for a
//! score of 100. Few unrelated documents reach that.
//!
//! **Bounds.** For n and m tokens: preparing `a` takes O(n) time and memory, 20 bytes per token. A
//! `b` that has nothing of `a` costs one to two nanoseconds per token. Common text costs about 20
//! cells per row for each place where `a` has it; [`MOST_PLACES`] areas can begin in a row, and
//! none has more than 2 · [`STRAY`] + 1 cells. A row never has more than n cells.

mod significance;
mod sweep;
mod trigrams;

#[cfg(test)]
mod tests;

pub use significance::{ChanceModel, LEAST_PAIRS, SampledPair, spread_pairs};
pub use sweep::Comparer;
pub use trigrams::append_trigrams;

use std::ops::Range;

/// The score of an equal token.
pub const MATCH: i32 = 5;
/// The cost of a token that is replaced, deleted or inserted.
pub const EDIT: i32 = 10;
/// An area ends where its score has fallen by more.
pub const DROP: i32 = 100;
/// An area ends where it has passed this many more tokens of one document than of the other.
pub const STRAY: u32 = 256;
/// The number of equal tokens in a row that begin an area.
pub const SEED: usize = 3;
/// Three tokens that occur more often in a document begin no area.
pub const MOST_PLACES: usize = 64;
/// The most areas of a pair to report.
pub const MOST_AREAS: usize = 1000;

/// From this similarity on a person should look; from 500 on text was copied.
pub const WORTH_A_LOOK: u32 = 100;

/// The token hashes of a document, and the trigrams that [`append_trigrams`] makes of them.
#[derive(Debug, Clone, Copy)]
pub struct TokenSequence<'s> {
    /// The hash of each token.
    pub tokens: &'s [[u8; 8]],
    /// The hash of the three tokens that begin at each token.
    pub trigrams: &'s [[u8; 4]],
}

/// A span of tokens of one document, aligned with a span of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlignedArea {
    /// The tokens of `a`.
    pub a: Range<u32>,
    /// The tokens of `b`.
    pub b: Range<u32>,
    /// The number of equal tokens.
    pub tokens: u32,
    /// The score.
    pub score: u32,
}

impl AlignedArea {
    /// The area of a text and its exact copy.
    pub fn whole(tokens: u32) -> Self {
        Self {
            a: 0..tokens,
            b: 0..tokens,
            tokens,
            score: tokens.saturating_mul(MATCH as u32),
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        let meets = |one: &Range<u32>, two: &Range<u32>| one.start < two.end && two.start < one.end;
        meets(&self.a, &other.a) && meets(&self.b, &other.b)
    }
}

/// Keeps the areas to report, best first.
fn keep_reported(areas: &mut Vec<AlignedArea>) {
    areas.sort_unstable_by_key(|area| (std::cmp::Reverse(area.score), area.a.start, area.b.start));
    let mut kept = 0;
    for at in 0..areas.len() {
        if kept < MOST_AREAS && !areas[..kept].iter().any(|area| area.overlaps(&areas[at])) {
            areas.swap(kept, at);
            kept += 1;
        }
    }
    areas.truncate(kept);
}
