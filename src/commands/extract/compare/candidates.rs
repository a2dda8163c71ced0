//! Which pairs are compared: all of them, or those that something cheaper has found.
//!
//! Pairs are of contents and have numbers: row by row, and in each row `a` first `a` with itself, which stands for its exact duplicates, then its partners `b` > `a`.

use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{
    base::{
        codec::{Fields, put_varint},
        error::Result,
        files::{Mapping, TempDir, TempFile},
        ids::ContentNo,
        parallel::{self, Budget, Limits, Weighted},
    },
    index::WordMerger,
    similar::{Discovery, Gdic},
};
use std::ops::Range;

/// Receives a content, and the later contents that may be similar to it, in rising order.
pub type VisitRow<'e> = dyn FnMut(u32, &[u32]) -> Result<()> + 'e;

/// Finds pairs that are worth to be compared.
pub trait CandidateSource {
    /// What users call it.
    fn name(&self) -> &'static str;

    /// Calls `each` with every content of `rows` that has partners after it, in rising order.
    fn for_each_row(&self, rows: Range<u32>, each: &mut VisitRow<'_>) -> Result<()>;
}

/// What shares blots.
pub struct BlotCandidates<'v>(pub Discovery<'v>);

impl CandidateSource for BlotCandidates<'_> {
    fn name(&self) -> &'static str {
        "blots"
    }

    fn for_each_row(&self, rows: Range<u32>, each: &mut VisitRow<'_>) -> Result<()> {
        self.0.for_each_content(
            |content, neighbours, found: &mut Vec<(u32, Vec<u32>)>| {
                let after: Vec<u32> = neighbours
                    .iter()
                    .map(|neighbour| neighbour.content)
                    .filter(|&other| other > content)
                    .map(ContentNo::get)
                    .collect();
                if rows.contains(&content.get()) && !after.is_empty() {
                    found.push((content.get(), after));
                }
            },
            |found| {
                found
                    .iter()
                    .map(|(_, after)| 32 + 4 * after.len().to_u64())
                    .sum()
            },
            |found| {
                found
                    .iter()
                    .try_for_each(|(content, after)| each(*content, after))
            },
        )
    }
}

/// What has enough words in common.
pub struct WordCandidates<'v> {
    pub gdic: Gdic<WordMerger<'v>>,
    pub limits: Limits,
}

impl CandidateSource for WordCandidates<'_> {
    fn name(&self) -> &'static str {
        "gdic"
    }

    /// Blocks of rows are worked on side by side, each as large as its share of the memory.
    fn for_each_row(&self, rows: Range<u32>, each: &mut VisitRow<'_>) -> Result<()> {
        let Limits {
            threads,
            memory_bytes,
        } = self.limits;
        let most = memory_bytes / (4 * threads.to_u64() * self.gdic.row_bytes().max(1));
        let step = most.clamp(1, (rows.len().to_u64()).div_ceil(threads.to_u64()).max(1)) as u32;
        let blocks = rows
            .clone()
            .step_by(step.to_usize())
            .map(|start| start..rows.end.min(start.saturating_add(step)));
        let find = |block: Range<u32>| -> Result<Vec<(u32, Vec<u32>)>> {
            let mut found = Vec::<(u32, Vec<u32>)>::new();
            self.gdic.for_each_in(block, |a, b, _| {
                match found.last_mut().filter(|(row, _)| *row == a) {
                    Some((_, partners)) => partners.push(b),
                    None => found.push((a, vec![b])),
                }
                Ok(())
            })?;
            Ok(found)
        };
        let source = blocks.map(|item| Ok(Weighted { item, bytes: 1 }));
        parallel::ordered(
            threads,
            Budget::Items(threads.to_u64()),
            source,
            || &find,
            |_| 1,
            |found: Result<Vec<(u32, Vec<u32>)>>| {
                found?
                    .iter()
                    .try_for_each(|(row, partners)| each(*row, partners))
            },
        )
    }
}

/// The partners of a row that a method has found, by what they differ from the one before.
struct PartnerList {
    name: &'static str,
    bytes: Mapping,
    /// Where each row ends.
    ends: Vec<u64>,
}

impl PartnerList {
    fn new(source: &dyn CandidateSource, contents: u32) -> Result<Self> {
        let mut file = TempFile::new(&TempDir(None))?;
        let (mut ends, mut row) = (Vec::with_capacity(contents.to_usize()), Vec::new());
        source.for_each_row(0..contents, &mut |content, partners| {
            ends.resize(content.to_usize(), file.bytes());
            row.clear();
            partners.iter().fold(content, |before, &partner| {
                put_varint(&mut row, u64::from(partner - before));
                partner
            });
            ends.push(file.append(&row)?.end);
            Ok(())
        })?;
        ends.resize(contents.to_usize(), file.bytes());
        Ok(Self {
            name: source.name(),
            bytes: file.map()?,
            ends,
        })
    }

    fn row(&self, row: u32) -> PartnerIter<'_> {
        let start = if row == 0 {
            0
        } else {
            self.ends[row.to_usize() - 1]
        };
        let bytes = &self.bytes[start.to_usize()..self.ends[row.to_usize()] as usize];
        PartnerIter {
            fields: Fields::new(bytes),
            before: row,
        }
    }
}

struct PartnerIter<'l> {
    fields: Fields<'l>,
    before: u32,
}

impl Iterator for PartnerIter<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.before += self.fields.varint("a partner").ok()? as u32;
        Some(self.before)
    }
}

/// A content, and which methods found it, a bit each.
pub type Partner = (u32, u8);

/// The pairs that are compared, by number.
///
/// Memory: 16 bytes a content, and the longest row for each thread. Temporary files take one or two bytes for each pair that was found.
pub enum CandidatePairs {
    All { contents: u32 },
    Found { listed: FoundPairs },
}

pub struct FoundPairs {
    lists: Vec<PartnerList>,
    /// The number of the first pair of each row, and of all.
    starts: Vec<u64>,
}

/// The methods that records name for exact duplicates, which need no method, and for all pairs.
pub const EXACT: &str = "exact";
pub const EXHAUSTIVE: &str = "exhaustive";

impl CandidatePairs {
    /// What several methods have found together.
    pub fn found(sources: &[&dyn CandidateSource], contents: u32) -> Result<Self> {
        let lists = sources
            .iter()
            .map(|source| PartnerList::new(*source, contents))
            .collect::<Result<Vec<_>>>()?;
        let mut found = FoundPairs {
            lists,
            starts: vec![0],
        };
        let (mut row, mut sum) = (Vec::new(), 0);
        for content in 0..contents {
            found.row(content, &mut row);
            sum += row.len().to_u64();
            found.starts.push(sum);
        }
        Ok(Self::Found { listed: found })
    }

    pub fn count(&self) -> u64 {
        match self {
            Self::All { contents } => self.start_of(*contents),
            Self::Found { listed } => listed.starts.last().copied().unwrap_or_default(),
        }
    }

    /// The number of the first pair of a row.
    pub fn start_of(&self, row: u32) -> u64 {
        match self {
            Self::All { contents } => {
                u64::from(row) * u64::from(*contents)
                    - u64::from(row) * u64::from(row).saturating_sub(1) / 2
            }
            Self::Found { listed } => listed.starts[row.to_usize()],
        }
    }

    fn rows(&self) -> u32 {
        match self {
            Self::All { contents } => *contents,
            Self::Found { listed } => listed.starts.len().to_u32() - 1,
        }
    }

    /// Calls `each` with some pairs, given by number: a row, and those of its partners that are among them.
    pub fn for_each(
        &self,
        numbers: Range<u64>,
        mut each: impl FnMut(u32, &[Partner]) -> Result<()>,
    ) -> Result<()> {
        let (mut low, mut high) = (0, self.rows());
        while low < high {
            let middle = low + (high - low) / 2;
            (low, high) = if self.start_of(middle + 1) <= numbers.start {
                (middle + 1, high)
            } else {
                (low, middle)
            };
        }
        let mut partners = Vec::new();
        for row in low..self.rows() {
            let start = self.start_of(row);
            if start >= numbers.end {
                break;
            }
            let [from, to] = [
                numbers.start.max(start),
                numbers.end.min(self.start_of(row + 1)),
            ]
            .map(|number| (number - start) as u32);
            match self {
                Self::All { .. } => {
                    partners.clear();
                    partners.extend((row + from..row + to).map(|partner| (partner, 0)));
                    each(row, &partners)?;
                }
                Self::Found { listed } => {
                    listed.row(row, &mut partners);
                    each(row, &partners[from.to_usize()..to as usize])?;
                }
            }
        }
        Ok(())
    }

    /// The names of the methods that found a pair, with commas.
    pub fn methods(&self, row: u32, (partner, methods): Partner) -> String {
        match self {
            _ if partner == row => EXACT.to_owned(),
            Self::All { .. } => EXHAUSTIVE.to_owned(),
            Self::Found { listed } => {
                let names = listed
                    .lists
                    .iter()
                    .enumerate()
                    .filter(|(number, _)| methods >> number & 1 == 1)
                    .map(|(_, list)| list.name);
                names.collect::<Vec<_>>().join(",")
            }
        }
    }
}

impl FoundPairs {
    /// Replaces `out` by a row: itself, and then what any method has found.
    fn row(&self, row: u32, out: &mut Vec<Partner>) {
        out.clear();
        out.push((row, 0));
        for (number, list) in self.lists.iter().enumerate() {
            out.extend(list.row(row).map(|partner| (partner, 1 << number)));
        }
        if self.lists.len() > 1 {
            out.sort_unstable();
            out.dedup_by(|next, kept| {
                let is_same = next.0 == kept.0;
                kept.1 |= if is_same { next.1 } else { 0 };
                is_same
            });
        }
    }
}

/// Range `number` of `of` equal ranges of the pairs, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairSlice {
    /// Which range.
    pub number: u64,
    /// The number of ranges.
    pub of: u64,
}

impl PairSlice {
    /// All pairs.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// Parses `3/8`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = text
            .split_once('/')
            .and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err(format!("'{text}' is not a slice such as 1/8, 2/8 … 8/8")),
        }
    }

    /// The numbers, of `count` pairs, that are in this range.
    pub fn of(self, count: u64) -> Range<u64> {
        let end =
            |number: u64| (u128::from(count) * u128::from(number) / u128::from(self.of)) as u64;
        end(self.number - 1)..end(self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct FixedCandidates(&'static str, Vec<Vec<u32>>);

    impl CandidateSource for FixedCandidates {
        fn name(&self) -> &'static str {
            self.0
        }

        fn for_each_row(&self, rows: Range<u32>, each: &mut VisitRow<'_>) -> Result<()> {
            rows.zip(&self.1)
                .filter(|(_, partners)| !partners.is_empty())
                .try_for_each(|(row, partners)| each(row, partners))
        }
    }

    fn all(pairs: &CandidatePairs, numbers: Range<u64>) -> Vec<(u32, Partner)> {
        let mut found = Vec::new();
        pairs
            .for_each(numbers, |row, partners| {
                found.extend(partners.iter().map(|&partner| (row, partner)));
                Ok(())
            })
            .unwrap();
        found
    }

    proptest! {
        #[test]
        fn slices_are_the_whole(contents in 0..20_u32, of in 1..9_u64, picks in prop::collection::vec(any::<u8>(), 400)) {
            let given = |name, bit: u8| {
                let is_in = |a: u32, b: u32| picks[(a * 20 + b) as usize] >> bit & 1 == 1;
                FixedCandidates(name, (0..contents).map(|a| (a + 1..contents).filter(|&b| is_in(a, b)).collect()).collect())
            };
            let (one, two) = (given("one", 0), given("two", 1));
            for pairs in [CandidatePairs::All { contents }, CandidatePairs::found(&[&one], contents).unwrap(), CandidatePairs::found(&[&one, &two], contents).unwrap()] {
                let whole = all(&pairs, 0..pairs.count());
                prop_assert_eq!(whole.len().to_u64(), pairs.count());
                prop_assert!(whole.is_sorted());
                let parts: Vec<_> = (1..=of).flat_map(|number| all(&pairs, PairSlice { number, of }.of(pairs.count()))).collect();
                prop_assert_eq!(parts, whole);
            }
        }
    }

    #[test]
    fn a_union_says_who_found_what() {
        let (one, two) = (
            FixedCandidates("one", vec![vec![1, 3], vec![]]),
            FixedCandidates("two", vec![vec![2, 3], vec![3]]),
        );
        let pairs = CandidatePairs::found(&[&one, &two], 4).unwrap();
        let by: Vec<_> = all(&pairs, 0..pairs.count())
            .into_iter()
            .map(|(row, partner)| (row, partner.0, pairs.methods(row, partner)))
            .collect();
        let expected = [
            (0, 0, "exact"),
            (0, 1, "one"),
            (0, 2, "two"),
            (0, 3, "one,two"),
            (1, 1, "exact"),
            (1, 3, "two"),
            (2, 2, "exact"),
            (3, 3, "exact"),
        ];
        assert_eq!(
            by,
            expected.map(|(row, partner, by)| (row, partner, by.to_owned()))
        );
    }

    #[test]
    fn slices_are_read() {
        assert_eq!(PairSlice::parse("3/8"), Ok(PairSlice { number: 3, of: 8 }));
        for wrong in ["", "3", "0/8", "9/8", "1/0", "a/b", "-1/2", "1/2/3"] {
            assert!(PairSlice::parse(wrong).is_err(), "{wrong}");
        }
    }
}
