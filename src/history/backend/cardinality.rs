//! A range of cardinalities: the part of a history that one server keeps.

use std::{fmt, ops::RangeInclusive, str::FromStr};

/// The greatest cardinality of a print.
const MOST: u32 = 256;

/// Prints with this many one bits, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CardinalityRange {
    /// The least number of one bits.
    pub first: u32,
    /// The greatest number of one bits.
    pub last: u32,
}

impl CardinalityRange {
    /// All cardinalities.
    pub const ALL: Self = Self {
        first: 0,
        last: MOST,
    };

    /// A range, unless its ends are out of order or above 256.
    pub fn new(first: u32, last: u32) -> Option<Self> {
        (first <= last && last <= MOST).then_some(Self { first, last })
    }

    /// Whether prints with this many one bits are in the range.
    pub fn contains(self, cardinality: u32) -> bool {
        (self.first..=self.last).contains(&cardinality)
    }

    /// Whether the two ranges have a cardinality in common.
    pub fn overlaps(self, cardinalities: &RangeInclusive<u32>) -> bool {
        self.first <= *cardinalities.end() && *cardinalities.start() <= self.last
    }
}

impl fmt::Display for CardinalityRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.last)
    }
}

/// Parses `0..127`.
impl FromStr for CardinalityRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text
            .split_once("..")
            .and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        let buckets = numbers.and_then(|(first, last)| Self::new(first, last));
        buckets.ok_or_else(|| {
            format!("'{text}' is no range of cardinalities from 0 to {MOST}, such as 0..127")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_back_as_written() {
        for text in ["0..256", "128..128", "100..130"] {
            assert_eq!(text.parse::<CardinalityRange>().unwrap().to_string(), text);
        }
        for text in [
            "", "..", "1..", "..5", "5..4", "0..257", "-1..5", "1...5", "a..b",
        ] {
            assert!(text.parse::<CardinalityRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn both_ends_are_included() {
        let buckets = CardinalityRange::new(10, 20).unwrap();
        assert_eq!(
            [9, 10, 20, 21].map(|cardinality| buckets.contains(cardinality)),
            [false, true, true, false]
        );
        assert_eq!(
            [0..=9, 0..=10, 20..=30, 21..=30, 0..=256].map(|range| buckets.overlaps(&range)),
            [false, true, true, false, true]
        );
    }
}
