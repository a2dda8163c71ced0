//! Sorts keys whose blots are spread evenly, as hashes are.
//!
//! Each key goes by its blot to about where it will stand, in one pass, whatever order they came in; what is left to do is within a few
//! neighbours. Where blots are not spread evenly, as when one is in thousands of documents, a common sort does the rest.

use super::key::Key;

/// Keys that go to the same place, on average.
const TOGETHER: usize = 4;
/// Where more than this many went to one place, a common sort is faster.
const MOST_TOGETHER: usize = 24;
/// Fewer are left to a common sort.
const FEW: usize = 64;

/// All keys of the pieces in order.
pub(super) fn sorted<K: Key>(pieces: &[Vec<K>]) -> Vec<K> {
    let length = pieces.iter().map(Vec::len).sum::<usize>();
    if length < FEW || length > u32::MAX as usize {
        let mut keys = pieces.concat();
        keys.sort_unstable();
        return keys;
    }
    let mut keys = vec![K::default(); length];
    let ends = spread(pieces, &mut keys);
    let mut start = 0;
    for end in ends {
        let end = end as usize;
        if end - start > MOST_TOGETHER {
            keys[start..end].sort_unstable();
        }
        start = end;
    }
    insert_each(&mut keys);
    keys
}

/// Brings each key to its place, or near; gives the ends of what went to the same place.
fn spread<K: Key>(pieces: &[Vec<K>], keys: &mut [K]) -> Vec<u32> {
    let blots = || pieces.iter().flatten().map(|key| key.blot());
    let (least, most) = blots().fold((u64::MAX, 0), |(least, most), blot| {
        (least.min(blot), most.max(blot))
    });
    let bits = 64 - (most - least).leading_zeros();
    let shift = bits.saturating_sub((keys.len() / TOGETHER).ilog2());
    let place = |blot: u64| ((blot - least) >> shift) as usize;
    let mut ends = vec![0_u32; place(most) + 1];
    blots().for_each(|blot| ends[place(blot)] += 1);
    let mut start = 0;
    for end in &mut ends {
        start += *end;
        *end = start - *end;
    }
    for &key in pieces.iter().flatten() {
        let at = &mut ends[place(key.blot())];
        keys[*at as usize] = key;
        *at += 1;
    }
    // Each start has moved on to its end.
    ends
}

/// Insertion sort: no key has far to go.
fn insert_each<K: Key>(keys: &mut [K]) {
    for next in 1..keys.len() {
        let (key, mut at) = (keys[next], next);
        while at > 0 && keys[at - 1] > key {
            keys[at] = keys[at - 1];
            at -= 1;
        }
        keys[at] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_are_sorted(
            pieces in prop::collection::vec(prop::collection::vec((any::<u64>(), 0_u32..9), 0..120), 0..5), bits in 0_u32..65, repeated in 0_usize..200,
        ) {
            let narrow: Vec<Vec<u128>> = pieces
                .iter()
                .map(|piece| piece.iter().map(|&(blot, number)| u128::new(blot.checked_shr(64 - bits).unwrap_or(0), number)).collect())
                .chain([(0..repeated).rev().map(|number| u128::new(7, number as u32)).collect()])
                .collect();
            let mut expected = narrow.concat();
            expected.sort_unstable();
            prop_assert_eq!(sorted(&narrow), expected);
        }
    }
}
