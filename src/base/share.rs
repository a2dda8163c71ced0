//! One of several shares of work that is divided among machines.

use super::num::ToU64;
use std::ops::Range;

/// One of several shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The number of the share, from 0.
    pub number: usize,
    /// The number of shares.
    pub of: usize,
}

impl Share {
    /// The only share.
    pub const WHOLE: Self = Self { number: 0, of: 1 };

    /// Its items, of this number of items.
    pub fn of_items(self, all: usize) -> Range<usize> {
        let start = |number: usize| number * all / self.of.max(1);
        start(self.number)..start(self.number + 1)
    }

    /// Its items, where items have weights: all shares have about the same weight. Each item counts
    /// one more than its weight.
    pub fn of_weights(self, weights: impl Iterator<Item = u64> + Clone) -> Range<usize> {
        let all: u128 = weights.clone().map(|weight| u128::from(weight) + 1).sum();
        let of = u128::from(self.of.to_u64().max(1));
        let number = u128::from(self.number.to_u64());
        // An item is in the share that has its start.
        let (mut sum, mut start, mut end, mut items) = (0_u128, None, 0, 0);
        for weight in weights {
            let share = sum * of / all;
            if share >= number {
                start.get_or_insert(items);
            }
            if share <= number {
                end = items + 1;
            }
            sum += u128::from(weight) + 1;
            items += 1;
        }
        let start = start.unwrap_or(items);
        start..end.max(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_item_is_in_one_share(weights in prop::collection::vec(0_u64..50, 0..40), of in 1_usize..9) {
            let (mut by_number, mut by_weight) = (0, 0);
            let all: u64 = weights.iter().map(|weight| weight + 1).sum();
            let heaviest = weights.iter().max().copied().unwrap_or_default() + 1;
            for number in 0..of {
                let share = Share { number, of };
                let items = share.of_items(weights.len());
                prop_assert_eq!(items.start, by_number);
                by_number = items.end;
                let items = share.of_weights(weights.iter().copied());
                prop_assert_eq!(items.start, by_weight);
                by_weight = items.end;
                let weight: u64 = weights[items].iter().map(|weight| weight + 1).sum();
                prop_assert!(weight <= all / of.to_u64() + heaviest);
            }
            prop_assert_eq!([by_number, by_weight], [weights.len(); 2]);
        }
    }
}
