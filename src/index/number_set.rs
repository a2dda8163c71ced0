//! Sets of document numbers, kept as runs of neighbours.

use crate::base::codec::{Fields, put_varint};
use std::ops::Range;

/// Rising runs that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NumberSet {
    runs: Vec<Range<u32>>,
}

impl FromIterator<u32> for NumberSet {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut numbers: Vec<u32> = numbers.into_iter().collect();
        numbers.sort_unstable();
        let mut set = Self::default();
        for number in numbers {
            match set.runs.last_mut() {
                Some(run) if number < run.end => {}
                Some(run) if number == run.end => run.end += 1,
                _ => set.runs.push(number..number + 1),
            }
        }
        set
    }
}

impl NumberSet {
    /// Whether it has a number.
    pub fn contains(&self, number: u32) -> bool {
        let after = self.runs.partition_point(|run| run.start <= number);
        after > 0 && number < self.runs[after - 1].end
    }

    /// In rising order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.runs.iter().cloned().flatten()
    }

    /// How many numbers it has.
    pub fn len(&self) -> u64 {
        self.runs
            .iter()
            .map(|run| u64::from(run.end - run.start))
            .sum()
    }

    /// Whether it has no number.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The greatest number.
    pub fn last(&self) -> Option<u32> {
        self.runs.last().map(|run| run.end - 1)
    }

    /// Each run as two varints: how many numbers are left out before it, and its length less one.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (mut out, mut next) = (Vec::new(), 0);
        for run in &self.runs {
            put_varint(&mut out, u64::from(run.start - next));
            put_varint(&mut out, u64::from(run.end - run.start - 1));
            next = run.end;
        }
        out
    }

    /// Reads what [`NumberSet::to_bytes`] wrote.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let (mut fields, mut runs, mut next) =
            (Fields::new(bytes), Vec::<Range<u32>>::new(), 0_u64);
        while !fields.is_empty() {
            let start = next.saturating_add(fields.varint("gap between numbers")?);
            let end = start
                .saturating_add(fields.varint("length of a run of numbers")?)
                .saturating_add(1);
            let is_apart = runs.is_empty() || start > next;
            match (u32::try_from(start), u32::try_from(end)) {
                (Ok(start), Ok(end)) if is_apart => runs.push(start..end),
                _ => {
                    return Err(format!(
                        "numbers {start} to {end} are out of order or too large"
                    ));
                }
            }
            next = end;
        }
        Ok(Self { runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_equals_a_simple_set(numbers in prop::collection::vec(prop_oneof![0_u32..40, any::<u32>().prop_map(|n| n / 2)], 0..60)) {
            let (set, simple): (NumberSet, BTreeSet<u32>) = (numbers.iter().copied().collect(), numbers.iter().copied().collect());
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), simple.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!((set.len(), set.last()), (simple.len() as u64, simple.last().copied()));
            prop_assert!((0..41).chain(numbers).all(|number| set.contains(number) == simple.contains(&number)));
            prop_assert_eq!(NumberSet::read(&set.to_bytes()).unwrap(), set);
        }

        #[test]
        fn any_bytes_are_a_set_or_an_error(bytes: Vec<u8>) {
            if let Ok(set) = NumberSet::read(&bytes) {
                prop_assert_eq!(NumberSet::read(&set.to_bytes()), Ok(set));
            }
        }
    }
}
