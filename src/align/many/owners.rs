//! Which family each token belongs to.

use std::{collections::BTreeMap, ops::Range};

/// Tokens in a row that belong to one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedRange {
    /// The first token.
    pub start: u64,
    /// The token after the last one.
    pub end: u64,
    /// The family.
    pub family: u32,
    /// Whether the family runs from right to left here: its text is on the other strand.
    pub is_reversed: bool,
    /// Where the family starts, as if it had all its text here: see [`diagonal`].
    pub diagonal: i64,
}

/// Where a family starts that has its token number `offset` at the start of a range, or, if it runs
/// from right to left, at its end. Positions that are read from right to left are negative.
pub fn diagonal(range: &Range<u64>, is_reversed: bool, offset: i64) -> i64 {
    along(range, is_reversed) - offset
}

/// The start of a range in the direction of its family.
pub fn along(range: &Range<u64>, is_reversed: bool) -> i64 {
    if is_reversed {
        -range.end.cast_signed()
    } else {
        range.start.cast_signed()
    }
}

/// The family of each token that belongs to one. Memory: about 50 bytes per range.
#[derive(Default)]
pub struct Owners(BTreeMap<u64, OwnedRange>);

impl Owners {
    /// Gives the tokens of a range to a family, except those that belong to one.
    pub fn claim(&mut self, range: OwnedRange) {
        let mut free = range.start;
        let owned: Vec<Range<u64>> = self
            .overlapping(range.start..range.end)
            .map(|owned| owned.start..owned.end)
            .collect();
        for taken in owned {
            self.insert(OwnedRange {
                start: free,
                end: taken.start,
                ..range
            });
            free = free.max(taken.end);
        }
        self.insert(OwnedRange {
            start: free,
            ..range
        });
    }

    fn insert(&mut self, range: OwnedRange) {
        if range.start < range.end {
            self.0.insert(range.start, range);
        }
    }

    /// The ranges that overlap a range, in ascending order.
    pub fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = &OwnedRange> {
        let before = self.0.range(..range.start).next_back();
        let before = before.filter(|(_, owned)| owned.end > range.start);
        before
            .into_iter()
            .chain(self.0.range(range))
            .map(|(_, owned)| owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_family_keeps_its_tokens() {
        let mut owners = Owners::default();
        let range = |start, end, family| OwnedRange {
            start,
            end,
            family,
            is_reversed: false,
            diagonal: 0,
        };
        owners.claim(range(10, 20, 0));
        owners.claim(range(5, 15, 1));
        owners.claim(range(18, 30, 2));
        owners.claim(range(0, 40, 3));
        let all: Vec<_> = owners
            .overlapping(0..100)
            .map(|owned| (owned.start, owned.end, owned.family))
            .collect();
        assert_eq!(
            all,
            [(0, 5, 3), (5, 10, 1), (10, 20, 0), (20, 30, 2), (30, 40, 3)]
        );
        assert_eq!(owners.overlapping(12..14).count(), 1);
    }
}
