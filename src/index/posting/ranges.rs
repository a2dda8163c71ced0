//! Cuts the blot space into ranges that are small enough to sort one by one.

use super::{collect::SLICES, key::BUCKETS};
use std::ops::Range;

/// With fewer postings than this, a range is a whole bucket.
pub const FINE_POSTINGS: u64 = 1 << 22;
/// A range of at most this many keys is not cut further.
const MIN_RANGE_KEYS: u64 = 1 << 16;
/// A range has at most this many keys if its slices allow it: more would not fit into the cache of
/// the processor.
const MAX_RANGE_KEYS: u64 = 1 << 18;

/// Slices of a bucket.
const BUCKET_SLICES: usize = SLICES / BUCKETS;

/// The bucket that a slice belongs to.
pub(super) fn bucket_of_slice(slice: usize) -> usize {
    slice / BUCKET_SLICES
}

/// The slices of a bucket.
pub(super) fn slices_of(bucket: usize) -> Range<usize> {
    bucket * BUCKET_SLICES..(bucket + 1) * BUCKET_SLICES
}

/// The slices of each bucket.
pub fn whole_buckets() -> Vec<Range<usize>> {
    (0..BUCKETS).map(slices_of).collect()
}

/// Groups neighbouring slices of a bucket into ranges of about `keys_limit` keys.
///
/// Without a limit a range is a whole bucket.
pub(super) fn ranges_of(
    slices: Range<usize>,
    keys_in: impl Fn(&Range<usize>) -> u64,
    keys_limit: Option<u64>,
) -> Vec<Range<usize>> {
    let limit = keys_limit.map_or(u64::MAX, |limit| {
        limit.clamp(MIN_RANGE_KEYS, MAX_RANGE_KEYS)
    });
    let mut ranges: Vec<(Range<usize>, u64)> = Vec::new();
    for slice in slices {
        let more = keys_in(&(slice..slice + 1));
        match ranges.last_mut() {
            Some((range, keys)) if slice % BUCKET_SLICES != 0 && *keys + more <= limit => {
                range.end = slice + 1;
                *keys += more;
            }
            _ => ranges.push((slice..slice + 1, more)),
        }
    }
    ranges.into_iter().map(|(range, _)| range).collect()
}
