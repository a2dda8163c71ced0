//! The similarity of two prints in exact integers, and the best hits of a search.

use crate::{base::num::ToU32, text::stream::Print};
use std::{cmp::Ordering, ops::RangeInclusive, str::FromStr};

/// A fraction from 0 to 1, exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    part: u32,
    whole: u32,
}

impl Ratio {
    /// The ratio 1.
    pub const ALL: Self = Self { part: 1, whole: 1 };

    /// The greatest number of differing bits of a print with this similarity. From J ≥ p/w and the
    /// sum s of both cardinalities follows d ≤ s·(w − p)/(w + p); s is greatest if the other print
    /// has all bits of this one: d ≤ c·(w − p)/p. With c = 130 and 0.94: 8.
    pub fn max_distance(self, cardinality: u32) -> u32 {
        let most = u64::from(cardinality) * u64::from(self.whole - self.part);
        most.checked_div(u64::from(self.part))
            .map_or(256, |most| most.min(256).to_u32())
    }

    /// As [`Self::max_distance`], if the other print has at most `most` one bits.
    pub fn max_distance_up_to(self, cardinality: u32, most: u32) -> u32 {
        let (part, whole) = (u64::from(self.part), u64::from(self.whole));
        let all = u64::from(cardinality + most) * (whole - part) / (whole + part);
        self.max_distance(cardinality).min(all.to_u32())
    }

    /// The cardinalities of prints with this similarity: min ÷ max of both is at least the ratio.
    /// With 130 and 0.94: 123 to 138.
    pub fn cardinality_range(self, cardinality: u32) -> RangeInclusive<u32> {
        let (part, whole) = (u64::from(self.part), u64::from(self.whole));
        let lowest = (u64::from(cardinality) * part).div_ceil(whole).to_u32();
        let highest = (u64::from(cardinality) * whole)
            .checked_div(part)
            .map_or(256, |most| most.min(256).to_u32());
        lowest..=highest
    }

    /// Whether this ratio is less than the other, exactly.
    pub fn is_less_than(self, other: Self) -> bool {
        u64::from(self.part) * u64::from(other.whole)
            < u64::from(other.part) * u64::from(self.whole)
    }

    /// The nearest floating-point number.
    pub fn to_f64(self) -> f64 {
        f64::from(self.part) / f64::from(self.whole)
    }
}

/// Parses `0.94`, `.94`, `1` or `94%`.
impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a similarity from 0 to 1, such as 0.94 or 94%");
        let (number, scale) = text
            .strip_suffix('%')
            .map_or((text, 1), |number| (number, 100));
        let (ones, decimals) = number.split_once('.').unwrap_or((number, ""));
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if ones.len() + decimals.len() == 0
            || decimals.len() > 7
            || ones.len() > 3
            || !is_number(ones)
            || !is_number(decimals)
        {
            return Err(wrong());
        }
        let part = format!("{ones}{decimals}")
            .parse::<u64>()
            .map_err(|_| wrong())?;
        let whole = scale * 10_u64.pow(decimals.len().to_u32());
        if part > whole {
            return Err(wrong());
        }
        Ok(Self {
            part: part.to_u32(),
            whole: whole.to_u32(),
        })
    }
}

/// The Jaccard coefficient of the one bits of two prints: `shared` ÷ `union`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrintSimilarity {
    /// The number of one bits that both prints have.
    pub shared: u32,
    /// The number of one bits that at least one print has.
    pub union: u32,
}

impl PrintSimilarity {
    /// The similarity of two prints.
    pub fn of(one: &Print, two: &Print) -> Self {
        Self::new(one.cardinality() + two.cardinality(), one.distance(two))
    }

    /// From the sum of both cardinalities and the number of differing bits.
    #[inline(always)]
    pub fn new(sum: u32, distance: u32) -> Self {
        // Two prints without a one bit are equal.
        if sum == 0 {
            Self {
                shared: 1,
                union: 1,
            }
        } else {
            Self {
                shared: (sum - distance) / 2,
                union: (sum + distance) / 2,
            }
        }
    }

    /// Whether the similarity reaches a ratio, exactly.
    #[inline(always)]
    pub fn is_at_least(self, min_similarity: Ratio) -> bool {
        u64::from(self.shared) * u64::from(min_similarity.whole)
            >= u64::from(min_similarity.part) * u64::from(self.union)
    }

    /// Whether the prints are equal.
    #[inline(always)]
    pub fn is_identical(self) -> bool {
        self.shared == self.union
    }

    /// The exact fraction of a similarity with six decimals or more: no two fractions are within a
    /// hundred-thousandth of each other.
    pub fn from_similarity(similarity: f64) -> Option<Self> {
        let of = |union: u32| Self {
            shared: (similarity * f64::from(union)).round() as u32,
            union,
        };
        (1..=256)
            .map(of)
            .find(|found| (found.to_f64() - similarity).abs() < 1e-6)
    }

    fn ratio(self) -> Ratio {
        Ratio {
            part: self.shared,
            whole: self.union,
        }
    }

    /// The nearest floating-point number.
    pub fn to_f64(self) -> f64 {
        self.ratio().to_f64()
    }

    /// Compares the fractions.
    fn cmp(self, other: Self) -> Ordering {
        (self.shared * other.union).cmp(&(other.shared * self.union))
    }
}

/// Where a hit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HitLocation {
    /// The number of the segment, and the entry in it.
    Segment(usize, u32),
    /// The number of the memtable, and the entry in it.
    Memtable(usize, u32),
    /// The number of the request in the same batch.
    Batch(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    pub similarity: PrintSimilarity,
    pub sequence: u64,
    pub location: HitLocation,
}

/// The best hits so far: most similar first, equal ones in order of arrival.
#[derive(Debug, Clone)]
pub struct BestMatches {
    min_similarity: Ratio,
    top: usize,
    found: Vec<Hit>,
}

impl BestMatches {
    pub fn new(min_similarity: Ratio, top: usize) -> Self {
        Self {
            min_similarity,
            top,
            found: Vec::new(),
        }
    }

    /// The least similarity of a hit that can still be added.
    #[inline(always)]
    pub fn threshold(&self) -> Ratio {
        match self.found.last() {
            Some(last) if self.found.len() == self.top => last.similarity.ratio(),
            _ => self.min_similarity,
        }
    }

    /// Whether no other hit can be better than these.
    #[inline(always)]
    pub fn is_final(&self) -> bool {
        self.found.len() == self.top
            && self
                .found
                .last()
                .is_none_or(|last| last.similarity.is_identical())
    }

    pub fn offer(&mut self, new: Hit) {
        let is_worse = |old: &Hit| {
            new.similarity
                .cmp(old.similarity)
                .then(old.sequence.cmp(&new.sequence))
                != Ordering::Greater
        };
        // A search finds the same entry in several ways.
        if self.top == 0
            || !new.similarity.is_at_least(self.min_similarity)
            || self.found.iter().any(|old| old.sequence == new.sequence)
        {
            return;
        }
        let at = self.found.partition_point(is_worse);
        if at < self.top {
            self.found.truncate(self.top - 1);
            self.found.insert(at, new);
        }
    }

    pub fn into_hits(self) -> Vec<Hit> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_exact() {
        for (text, part, whole) in [
            ("0.94", 94, 100),
            ("94%", 94, 100),
            ("1", 1, 1),
            (".5", 5, 10),
            ("93.75%", 9375, 10_000),
            ("0", 0, 1),
        ] {
            assert_eq!(
                text.parse::<Ratio>().unwrap(),
                Ratio { part, whole },
                "{text}"
            );
        }
        for text in [
            "",
            ".",
            "%",
            "94",
            "-1",
            "1.01",
            "101%",
            "0.123456789",
            "x",
            "1e-1",
            "+1",
        ] {
            assert!(text.parse::<Ratio>().is_err(), "{text}");
        }
    }

    #[test]
    fn bounds_match_values_computed_by_hand() {
        let ratio: Ratio = "0.94".parse().unwrap();
        assert_eq!(
            (ratio.max_distance(130), ratio.cardinality_range(130)),
            (8, 123..=138)
        );
        assert_eq!(
            (
                Ratio::ALL.max_distance(130),
                Ratio::ALL.cardinality_range(130)
            ),
            (0, 130..=130)
        );
        let none: Ratio = "0".parse().unwrap();
        assert_eq!(
            (none.max_distance(130), none.cardinality_range(130)),
            (256, 0..=256)
        );
    }

    #[test]
    fn a_decimal_similarity_gives_back_its_fraction() {
        for union in 1..=256_u32 {
            for shared in 0..=union {
                let similarity = PrintSimilarity { shared, union };
                let rounded = (similarity.to_f64() * 1e6).round() / 1e6;
                let found = PrintSimilarity::from_similarity(rounded).unwrap();
                assert_eq!(found.shared * union, shared * found.union, "{similarity:?}");
            }
        }
        assert_eq!(PrintSimilarity::from_similarity(0.50001), None);
    }

    /// For every pair of cardinalities and every distance.
    #[test]
    fn bounds_exclude_no_match() {
        for text in ["0.94", "0.8", "0.5", "0.01", "1", "0"] {
            let ratio: Ratio = text.parse().unwrap();
            for one in 0..=256_u32 {
                for two in 0..=256_u32 {
                    for distance in
                        (one.abs_diff(two)..=(one + two).min(512 - one - two)).step_by(2)
                    {
                        if PrintSimilarity::new(one + two, distance).is_at_least(ratio) {
                            assert!(
                                distance <= ratio.max_distance_up_to(one, two)
                                    && distance <= ratio.max_distance(one),
                                "{one} {two} {distance}"
                            );
                            assert!(
                                ratio.cardinality_range(one).contains(&two),
                                "{one} {two} {distance}"
                            );
                        }
                    }
                }
            }
        }
    }
}
