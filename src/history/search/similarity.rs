//! How alike two prints are, in whole numbers, and the best of many.

use crate::text::stream::Print;
use std::{cmp::Ordering, ops::RangeInclusive, str::FromStr};

/// A fraction from 0 to 1, exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    part: u32,
    whole: u32,
}

impl Ratio {
    pub const ALL: Self = Self { part: 1, whole: 1 };

    /// How many bits may differ from a print of so many, at most: of J ≥ p/w and the sum s of both cardinalities follows
    /// d ≤ s·(w − p)/(w + p), and s is largest where the other has all bits of this one: d ≤ c·(w − p)/p.
    /// With 130 bits and 0.94: 8.
    pub fn reach(self, cardinality: u32) -> u32 {
        let most = u64::from(cardinality) * u64::from(self.whole - self.part);
        most.checked_div(u64::from(self.part))
            .map_or(256, |most| most.min(256) as u32)
    }

    /// The same, if the other has so many bits at most.
    pub fn reach_to(self, cardinality: u32, most: u32) -> u32 {
        let (part, whole) = (u64::from(self.part), u64::from(self.whole));
        let all = u64::from(cardinality + most) * (whole - part) / (whole + part);
        self.reach(cardinality).min(all as u32)
    }

    /// The cardinalities that a print may have: min ÷ max of both is no less than the ratio. With 130 bits and 0.94: 123 to 138.
    pub fn cardinalities(self, cardinality: u32) -> RangeInclusive<u32> {
        let (part, whole) = (u64::from(self.part), u64::from(self.whole));
        let min_similarity = (u64::from(cardinality) * part).div_ceil(whole) as u32;
        let most = (u64::from(cardinality) * whole)
            .checked_div(part)
            .map_or(256, |most| most.min(256) as u32);
        min_similarity..=most
    }

    pub fn is_less_than(self, other: Self) -> bool {
        u64::from(self.part) * u64::from(other.whole)
            < u64::from(other.part) * u64::from(self.whole)
    }

    pub fn to_f64(self) -> f64 {
        f64::from(self.part) / f64::from(self.whole)
    }
}

/// `0.94`, `.94`, `1` or `94%`.
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
        let whole = scale * 10_u64.pow(decimals.len() as u32);
        if part > whole {
            return Err(wrong());
        }
        Ok(Self {
            part: part as u32,
            whole: whole as u32,
        })
    }
}

/// The Jaccard coefficient of the bits of two prints: `shared` ÷ `union`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrintSimilarity {
    pub shared: u32,
    pub union: u32,
}

impl PrintSimilarity {
    pub fn of(one: &Print, two: &Print) -> Self {
        Self::new(one.cardinality() + two.cardinality(), one.distance(two))
    }

    /// Of the sum of both cardinalities, and how many bits differ.
    #[inline(always)]
    pub fn new(sum: u32, distance: u32) -> Self {
        // Two prints without a bit are the same.
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

    #[inline(always)]
    pub fn reaches(self, min_similarity: Ratio) -> bool {
        u64::from(self.shared) * u64::from(min_similarity.whole)
            >= u64::from(min_similarity.part) * u64::from(self.union)
    }

    /// Whether all bits are the same.
    #[inline(always)]
    pub fn is_whole(self) -> bool {
        self.shared == self.union
    }

    /// Of a similarity that was written with six decimals or more: there are no two within a hundred-thousandth of each other.
    pub fn from_similarity(similarity: f64) -> Option<Self> {
        let of = |union: u32| Self {
            shared: (similarity * f64::from(union)).round() as u32,
            union,
        };
        (1..=256)
            .map(of)
            .find(|likeness| (likeness.similarity() - similarity).abs() < 1e-6)
    }

    fn ratio(self) -> Ratio {
        Ratio {
            part: self.shared,
            whole: self.union,
        }
    }

    pub fn similarity(self) -> f64 {
        self.ratio().to_f64()
    }

    /// The greater likeness is the greater.
    fn cmp(self, other: Self) -> Ordering {
        (self.shared * other.union).cmp(&(other.shared * self.union))
    }
}

/// Where something that was found is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HitLocation {
    /// Of all segments, and in it.
    Segment(usize, u32),
    /// Of all that are not in files yet, and in it.
    Memtable(usize, u32),
    /// In the batch that is asked.
    Batch(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    pub likeness: PrintSimilarity,
    pub sequence: u64,
    pub at: HitLocation,
}

/// The best so far: the most alike first, of equals the one that came first.
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

    /// What is less alike is of no use any more.
    #[inline(always)]
    pub fn limit(&self) -> Ratio {
        match self.found.last() {
            Some(last) if self.found.len() == self.top => last.likeness.ratio(),
            _ => self.min_similarity,
        }
    }

    /// Whether nothing that comes later can be better.
    #[inline(always)]
    pub fn is_full_of_equals(&self) -> bool {
        self.found.len() == self.top
            && self
                .found
                .last()
                .is_none_or(|last| last.likeness.is_whole())
    }

    pub fn offer(&mut self, new: Hit) {
        let is_worse = |old: &Hit| {
            new.likeness
                .cmp(old.likeness)
                .then(old.sequence.cmp(&new.sequence))
                != Ordering::Greater
        };
        // The same entry is met on several ways.
        if self.top == 0
            || !new.likeness.reaches(self.min_similarity)
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
    fn bounds_are_as_worked_out() {
        let ratio: Ratio = "0.94".parse().unwrap();
        assert_eq!((ratio.reach(130), ratio.cardinalities(130)), (8, 123..=138));
        assert_eq!(
            (Ratio::ALL.reach(130), Ratio::ALL.cardinalities(130)),
            (0, 130..=130)
        );
        let none: Ratio = "0".parse().unwrap();
        assert_eq!((none.reach(130), none.cardinalities(130)), (256, 0..=256));
    }

    #[test]
    fn a_similarity_tells_its_likeness() {
        for union in 1..=256_u32 {
            for shared in 0..=union {
                let likeness = PrintSimilarity { shared, union };
                let rounded = (likeness.similarity() * 1e6).round() / 1e6;
                let found = PrintSimilarity::from_similarity(rounded).unwrap();
                assert_eq!(found.shared * union, shared * found.union, "{likeness:?}");
            }
        }
        assert_eq!(PrintSimilarity::from_similarity(0.50001), None);
    }

    /// For every pair of cardinalities and every distance.
    #[test]
    fn bounds_lose_nothing() {
        for text in ["0.94", "0.8", "0.5", "0.01", "1", "0"] {
            let ratio: Ratio = text.parse().unwrap();
            for one in 0..=256_u32 {
                for two in 0..=256_u32 {
                    for distance in
                        (one.abs_diff(two)..=(one + two).min(512 - one - two)).step_by(2)
                    {
                        if PrintSimilarity::new(one + two, distance).reaches(ratio) {
                            assert!(
                                distance <= ratio.reach_to(one, two)
                                    && distance <= ratio.reach(one),
                                "{one} {two} {distance}"
                            );
                            assert!(
                                ratio.cardinalities(one).contains(&two),
                                "{one} {two} {distance}"
                            );
                        }
                    }
                }
            }
        }
    }
}
