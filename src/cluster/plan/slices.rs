//! Cutting a corpus into slices.

use crate::text::corpus::WalkItem;

/// Slices for each slot, where they are large enough: a slot that is done early takes another.
const SLICES_PER_SLOT: u64 = 2;
const MIN_SLICE_BYTES: u64 = 16 << 20;
const MAX_SLICE_BYTES: u64 = 1 << 30;
const MAX_SLICES: u64 = 4096;
/// What opening a file costs, in bytes that could be read instead.
const FILE_COST_BYTES: u64 = 512;

/// Cuts a corpus into slices of about the same size, each of consecutive files. There is at least
/// one slice.
///
/// `finely`: as small as is worth a task, so that each large file has a slice of its own.
pub(super) fn cut_corpus(found: Vec<WalkItem>, slots: u64, finely: bool) -> Vec<Vec<WalkItem>> {
    let total: u64 = found.iter().map(cost_bytes).sum();
    let slice_bytes = if finely {
        MIN_SLICE_BYTES
    } else {
        total
            .div_ceil(SLICES_PER_SLOT * slots)
            .clamp(MIN_SLICE_BYTES, MAX_SLICE_BYTES)
    };
    let count = total.div_ceil(slice_bytes).max(slots).min(MAX_SLICES);
    let mut slices = Vec::new();
    let mut current = Vec::new();
    let mut current_number = 0;
    let mut before = 0;
    for found in found {
        let cost = cost_bytes(&found);
        // The slice in which the middle of the file lies.
        let number = u128::from(2 * before + cost) * u128::from(count) / u128::from(2 * total);
        if number != current_number && !current.is_empty() {
            slices.push(std::mem::take(&mut current));
        }
        current_number = number;
        before += cost;
        current.push(found);
    }
    if !current.is_empty() || slices.is_empty() {
        slices.push(current);
    }
    slices
}

/// The size of a file; 0 for what cannot be read.
pub(super) fn file_bytes(found: &WalkItem) -> Option<u64> {
    match found {
        WalkItem::File(entry) => Some(entry.bytes),
        _ => None,
    }
}

fn cost_bytes(found: &WalkItem) -> u64 {
    FILE_COST_BYTES + file_bytes(found).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::corpus::FileEntry;
    use proptest::prelude::*;

    fn files(sizes: &[u64]) -> Vec<WalkItem> {
        let entry = |(number, &bytes): (usize, &u64)| {
            let name = number.to_string();
            WalkItem::File(FileEntry {
                path: name.clone().into(),
                copy: None,
                beneath: None,
                id: name.into(),
                is_named: false,
                is_regular: true,
                bytes,
                modified: [0; 2],
            })
        };
        sizes.iter().enumerate().map(entry).collect()
    }

    fn sizes(slices: &[Vec<WalkItem>]) -> Vec<Vec<u64>> {
        let bytes = |found: &WalkItem| file_bytes(found).unwrap_or(0);
        slices
            .iter()
            .map(|slice| slice.iter().map(bytes).collect())
            .collect()
    }

    #[test]
    fn slices_are_balanced_by_bytes() {
        assert_eq!(
            sizes(&cut_corpus(files(&[5, 5, 5, 5, 5, 5]), 3, false)),
            [[5, 5], [5, 5], [5, 5]]
        );
        assert_eq!(
            sizes(&cut_corpus(files(&[1, 1, 1, 90_000, 1, 1]), 2, false)),
            [vec![1, 1, 1], vec![90_000, 1, 1]]
        );
        assert_eq!(
            sizes(&cut_corpus(Vec::new(), 3, false)),
            [Vec::<u64>::new()]
        );
        // Of 1 GiB at most, and a little for each file.
        assert_eq!(cut_corpus(files(&[1 << 29; 40]), 2, false).len(), 21);
        assert_eq!(cut_corpus(files(&[1 << 29; 40]), 2, true).len(), 40);
        assert_eq!(cut_corpus(files(&[1 << 20; 64]), 2, true).len(), 5);
    }

    proptest! {
        #[test]
        fn slices_are_the_corpus_in_order(sizes_of in prop::collection::vec(0_u64..100_000, 0..60), slots in 1_u64..9) {
            let slices = sizes(&cut_corpus(files(&sizes_of), slots, false));
            prop_assert_eq!(slices.concat(), sizes_of);
            prop_assert!(u64::try_from(slices.len()).unwrap() <= slots && !slices.is_empty());
        }
    }
}
