//! Areas: where two sequences of tokens are alike, by local alignment, and how much.
//!
//! **Scores.** A token that both have counts [`MATCH`] = 5, about its letters; a token replaced, left out or put in costs [`EDIT`] = 10. So 100 is twenty words in a row, or what
//! amounts to it, and 500 a hundred. The *similarity* of a pair is the score of its best area.
//!
//! **Cells.** The cell (i, j) is the best way of ending an area at token i of `a` and token j of `b`. Cells are gone through row by row: j rises, and in each row i. A cell is the
//! first with the highest score of
//!
//! 1. the cell (i−1, j−1) and 5 if the tokens are equal, less 10 if not;
//! 2. the cell (i, j−1) less 10: token j of `b` was put in;
//! 3. the cell (i−1, j) less 10: token i of `a` was left out;
//! 4. a new area, of score 5, if three tokens from i on and three from j on are equal, and these three stand no more than [`MOST_PLACES`] = 64 times in either document.
//!
//! What comes from a cell is part of the same area. It is dead, and counts for nothing, if its score is not above 0; if it is more than [`DROP`] = 100 below the best score of its area
//! so far; or if it has strayed: more than [`STRAY`] = 256 more tokens of one document than of the other were passed since the area began.
//!
//! **Areas.** Each area ends where its score is highest; of equal ends the first. Areas of at least a given score are taken by falling score, of equal ones that which begins first in `a`, then
//! in `b`; those that overlap one before them in both documents are not told. [`MOST_AREAS`] = 1000 are told at most.
//!
//! Worked example: *a b c d e* and *a b c x d e*: from *a b c*, 15; *x* was put in, 5; *d e*, 15. One area, of three tokens, score 15: it ends at *c*, as the way from there does not lead higher.
//!
//! **Nothing is lost by the three tokens.** One or two equal tokens score 10 at most, and the next edit is their end; an area of 100 has more. How many more gives a
//! filter that loses nothing either: an area of r runs of equal tokens has at least r − 1 edits, so at score S its runs have at least S/5 + 2(r−1) tokens, and among
//! these at least S/5 − 2 begin three equal tokens: 18 places of `b` for a score of 100. Few documents that have nothing to do with each other get there.
//!
//! **Bounds.** With n and m tokens: `a` is prepared in O(n) time and memory, 20 bytes a token. A `b` that has nothing of `a` costs one to two nanoseconds a token. Text in common costs some 20 cells a row
//! for each place where `a` has it: [`MOST_PLACES`] of them can begin in a row, and none has more than 2 · [`STRAY`] + 1 cells. A row never has more than n.

mod sweep;
mod trigrams;

#[cfg(test)]
mod tests;

pub use sweep::Comparer;
pub use trigrams::append_trigrams;

use std::ops::Range;

/// What a token that both have counts.
pub const MATCH: i32 = 5;
/// What a token costs that was replaced, left out or put in.
pub const EDIT: i32 = 10;
/// An area ends where the score has fallen by more.
pub const DROP: i32 = 100;
/// An area ends where it has passed so many more tokens of one document than of the other.
pub const STRAY: u32 = 256;
/// Tokens in a row that begin an area.
pub const SEED: usize = 3;
/// Three tokens that a document has more often begin no area.
pub const MOST_PLACES: usize = 64;
/// So many areas of a pair are told.
pub const MOST_AREAS: usize = 1000;

/// From this similarity on a person should look; from 500 on text was copied.
pub const WORTH_A_LOOK: u32 = 100;

/// The hashes of a document's tokens, and what [`append_trigrams`] makes of them.
#[derive(Debug, Clone, Copy)]
pub struct TokenSequence<'s> {
    pub tokens: &'s [[u8; 8]],
    pub trigrams: &'s [[u8; 4]],
}

/// A stretch of either document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlignedArea {
    /// Tokens.
    pub a: Range<u32>,
    pub b: Range<u32>,
    /// How many are equal.
    pub tokens: u32,
    pub score: u32,
}

impl AlignedArea {
    /// All of a text and all of its copy.
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

/// Leaves the areas that are told, the best first.
fn choose(areas: &mut Vec<AlignedArea>) {
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
