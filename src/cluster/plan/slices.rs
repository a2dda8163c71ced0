//! Cutting a corpus into slices.

use super::PlanOptions;
use crate::text::corpus::{CutSize, FileEntry, UncutFile, WalkItem, cut_file};

/// Slices for each slot, where they are large enough: a slot that is done early takes another.
const SLICES_PER_SLOT: u64 = 2;
const MIN_SLICE_BYTES: u64 = 16 << 20;
const MAX_SLICE_BYTES: u64 = 1 << 30;
const MAX_SLICES: u64 = 4096;
/// What opening a file costs, in bytes that could be read instead.
const FILE_COST_BYTES: u64 = 512;

/// How finely a corpus is cut.
#[derive(Debug, Clone, Copy)]
pub struct SliceSize {
    /// How many tasks run at a time.
    pub slots: u32,
    /// As small as is worth a task, so that each large file has a slice of its own.
    pub is_fine: bool,
    /// The size of a slice, if the user says so.
    pub asked_bytes: Option<u64>,
}

impl SliceSize {
    /// The size of a slice, of a corpus of this size.
    fn slice_bytes(self, total: u64) -> u64 {
        match self.asked_bytes {
            Some(asked) => asked,
            None if self.is_fine => MIN_SLICE_BYTES,
            None => self.share_bytes(total),
        }
    }

    /// What a part of a large file has. It does not get smaller where slices are fine: each part is one file for each range.
    fn part_bytes(self, total: u64) -> u64 {
        self.asked_bytes.unwrap_or_else(|| self.share_bytes(total))
    }

    fn share_bytes(self, total: u64) -> u64 {
        total
            .div_ceil(SLICES_PER_SLOT * u64::from(self.slots.max(1)))
            .clamp(MIN_SLICE_BYTES, MAX_SLICE_BYTES)
    }

    fn count(self, total: u64) -> u64 {
        let count = total.div_ceil(self.slice_bytes(total).max(1));
        let least = self.asked_bytes.map_or(u64::from(self.slots), |_| 1);
        count.max(least).min(MAX_SLICES)
    }
}

/// Cuts files that are larger than a slice into parts. Also returns the files that are much larger, and cannot be cut.
pub fn cut_large_files(
    found: Vec<WalkItem>,
    options: &PlanOptions,
) -> (Vec<WalkItem>, Vec<UncutFile>) {
    let total: u64 = found.iter().map(cost_bytes).sum();
    let size = CutSize {
        part_bytes: options.slice_size().part_bytes(total),
        is_written: options.clean.is_some(),
    };
    let (mut items, mut uncut) = (Vec::new(), Vec::new());
    for item in found {
        let entry = match item {
            WalkItem::File(entry) if entry.is_regular && entry.bytes > size.part_bytes => entry,
            other => {
                items.push(other);
                continue;
            }
        };
        match cut_file(&entry, &options.reading, size) {
            Ok(parts) if parts.len() > 1 => items.extend(parts.into_iter().map(|part| {
                WalkItem::File(FileEntry {
                    part: Some(part.into()),
                    ..entry.clone()
                })
            })),
            // A few records, or one document.
            Ok(_) | Err(None) => items.push(WalkItem::File(entry)),
            Err(Some(file)) => {
                // Where it takes more time than the share of a slot, the others wait for it.
                if entry.bytes > SLICES_PER_SLOT * size.part_bytes {
                    uncut.push(file);
                }
                items.push(WalkItem::File(entry));
            }
        }
    }
    (items, uncut)
}

/// Puts a corpus into slices of about the same size, each of consecutive files or parts of files. There is at least one slice.
pub(super) fn cut_corpus(found: Vec<WalkItem>, size: SliceSize) -> Vec<Vec<WalkItem>> {
    let total: u64 = found.iter().map(cost_bytes).sum();
    let count = size.count(total);
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

/// How much of a file is read; none for what cannot be read.
pub(super) fn file_bytes(found: &WalkItem) -> Option<u64> {
    match found {
        WalkItem::File(entry) => Some(entry.bytes_to_read()),
        _ => None,
    }
}

fn cost_bytes(found: &WalkItem) -> u64 {
    FILE_COST_BYTES + file_bytes(found).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
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
                part: None,
            })
        };
        sizes.iter().enumerate().map(entry).collect()
    }

    fn size(slots: u32, is_fine: bool) -> SliceSize {
        SliceSize {
            slots,
            is_fine,
            asked_bytes: None,
        }
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
            sizes(&cut_corpus(files(&[5, 5, 5, 5, 5, 5]), size(3, false))),
            [[5, 5], [5, 5], [5, 5]]
        );
        assert_eq!(
            sizes(&cut_corpus(files(&[1, 1, 1, 90_000, 1, 1]), size(2, false))),
            [vec![1, 1, 1], vec![90_000, 1, 1]]
        );
        assert_eq!(
            sizes(&cut_corpus(Vec::new(), size(3, false))),
            [Vec::<u64>::new()]
        );
        // Of 1 GiB at most, and a little for each file.
        assert_eq!(cut_corpus(files(&[1 << 29; 40]), size(2, false)).len(), 21);
        assert_eq!(cut_corpus(files(&[1 << 29; 40]), size(2, true)).len(), 40);
        assert_eq!(cut_corpus(files(&[1 << 20; 64]), size(2, true)).len(), 5);
    }

    proptest! {
        #[test]
        fn slices_are_the_corpus_in_order(sizes_of in prop::collection::vec(0_u64..100_000, 0..60), slots in 1_u32..9) {
            let slices = sizes(&cut_corpus(files(&sizes_of), size(slots, false)));
            prop_assert_eq!(slices.concat(), sizes_of);
            prop_assert!(u32::try_from(slices.len()).unwrap() <= slots && !slices.is_empty());
        }
    }
}
