//! Winnowing (Schleimer, Wilkerson, Aiken 2003): selects the least of each W neighbouring blots.
//!
//! Guarantee: documents that share W+k−1 tokens in a row share a selected blot (with N interleaved
//! streams, W+(k−1)·N tokens). About 2/(W+1) of all blots are selected. Blots are compared by a
//! permutation of their values, so that the selected blots are spread evenly over their range. Of
//! equal blots the last selected one stays selected, otherwise the rightmost one is selected.

use super::Select;
use crate::text::stream::{Blots, Tokens};

/// Selects the least blot of each window of this many.
pub struct Winnow(pub u64);

/// Permutes the numbers, so that their order is unrelated to their size. The factor is odd, so no
/// two numbers have the same rank.
fn rank(value: u64) -> u64 {
    value.wrapping_mul(0xd6e8_feb8_6659_fd93).swap_bytes()
}

impl Select for Winnow {
    fn reject(&self, _: &Tokens, blots: &Blots, keep: &mut [bool]) {
        let values = &blots.values;
        if values.is_empty() {
            return;
        }
        let width = usize::try_from(self.0)
            .unwrap_or(usize::MAX)
            .min(values.len());
        let mut chosen = vec![false; values.len()];
        let mut least = rightmost_least(values, 0, width);
        chosen[least] = true;
        for end in width..values.len() {
            if least + width <= end {
                least = rightmost_least(values, end + 1 - width, end + 1);
            } else if rank(values[end]) < rank(values[least]) {
                least = end;
            }
            chosen[least] = true;
        }
        keep.iter_mut()
            .zip(chosen)
            .for_each(|(keep, chosen)| *keep &= chosen);
    }

    fn name(&self) -> String {
        format!("winnow:{}", self.0)
    }
}

/// The rightmost least blot. A window is searched again only when its least blot has left it.
fn rightmost_least(values: &[u64], start: usize, end: usize) -> usize {
    (start..end)
        .rev()
        .min_by_key(|&index| rank(values[index]))
        .unwrap_or(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn winnow(width: u64, values: &[u64]) -> Vec<bool> {
        let blots = Blots {
            values: values.to_vec(),
            ..Blots::default()
        };
        let mut keep = vec![true; values.len()];
        Winnow(width).reject(&Tokens::default(), &blots, &mut keep);
        keep
    }

    fn chosen(width: u64, values: &[u64]) -> Vec<u64> {
        values
            .iter()
            .zip(winnow(width, values))
            .filter_map(|(&value, keep)| keep.then_some(value))
            .collect()
    }

    #[test]
    fn short_documents_keep_one() {
        assert_eq!(winnow(4, &[]), Vec::<bool>::new());
        assert_eq!(winnow(4, &[7]), [true]);
        assert_eq!(winnow(9, &[7, 7, 7]), [false, false, true]);
        assert_eq!(winnow(1, &[3, 1, 2]), [true; 3]);
    }

    #[test]
    fn a_share_of_two_in_w_plus_one_is_kept() {
        let values: Vec<u64> = (0..100_000_u64)
            .map(|n| xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes()) >> 32)
            .collect();
        let share = chosen(4, &values).len() as f64 / values.len() as f64;
        assert!((share - 0.4).abs() < 0.01, "{share}");
        let upper_half = chosen(4, &values)
            .iter()
            .filter(|&&value| value >> 31 == 1)
            .count() as f64
            / chosen(4, &values).len() as f64;
        assert!((upper_half - 0.5).abs() < 0.02, "{upper_half}");
    }

    proptest! {
        #[test]
        fn each_window_holds_its_least(values in prop::collection::vec(0_u64..50, 1..80), width in 1_u64..12) {
            let keep = winnow(width, &values);
            let width = (width as usize).min(values.len());
            for start in 0..=values.len() - width {
                let least = values[start..start + width].iter().map(|&value| rank(value)).min();
                let best_kept = (start..start + width).filter(|&index| keep[index]).map(|index| rank(values[index])).min();
                prop_assert_eq!(least, best_kept);
            }
        }

        #[test]
        fn a_shared_run_shares_a_chosen_blot(
            run in prop::collection::vec(any::<u64>(), 1..12),
            before in prop::collection::vec(any::<u64>(), 0..20), after in prop::collection::vec(any::<u64>(), 0..20),
        ) {
            let width = run.len() as u64;
            let [one, two] = [[before.clone(), run.clone(), after.clone()].concat(), [after, run.clone(), before].concat()];
            let two = chosen(width, &two);
            prop_assert!(chosen(width, &one).iter().any(|value| run.contains(value) && two.contains(value)));
        }
    }
}
