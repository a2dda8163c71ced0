//! Sorts keys whose blots are spread evenly, as hashes are.
//!
//! One pass moves each key close to its final position, which its blot predicts; an insertion sort
//! then moves it past a few neighbours at most. Where blots are not spread evenly, for example
//! where one is in thousands of documents, the standard sort is used.

use super::key::Key;

/// The standard sort is faster for more keys than this with the same predicted position.
const MAX_INSERTION_GROUP: usize = 24;
/// Fewer keys than this are left to the standard sort.
const MIN_KEYS: usize = 64;

/// All keys of the pieces, in order.
pub(super) fn sorted<K: Key>(pieces: &[Vec<K>]) -> Vec<K> {
    let length = pieces.iter().map(Vec::len).sum::<usize>();
    if length < MIN_KEYS || length > u32::MAX as usize {
        let mut keys = pieces.concat();
        keys.sort_unstable();
        return keys;
    }
    let mut keys = vec![K::default(); length];
    let ends = spread(pieces, &mut keys);
    let mut start = 0;
    for end in ends {
        let end = end as usize;
        if end - start > MAX_INSERTION_GROUP {
            keys[start..end].sort_unstable();
        }
        start = end;
    }
    insert_each(&mut keys);
    keys
}

/// Moves each key to its predicted position or near it; returns the ends of the groups of keys with
/// the same prediction.
fn spread<K: Key>(pieces: &[Vec<K>], keys: &mut [K]) -> Vec<u32> {
    let blots = || pieces.iter().flatten().map(|key| key.blot());
    let (least, most) = blots().fold((u64::MAX, 0), |(least, most), blot| {
        (least.min(blot), most.max(blot))
    });
    let bits = 64 - (most - least).leading_zeros();
    // As many positions as keys: with a quarter of them, most keys had to be moved past others, which took a third of the time.
    let shift = bits.saturating_sub(keys.len().ilog2());
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
    // By now each start has advanced to its end.
    ends
}

/// Insertion sort: every key is close to its position.
fn insert_each<K: Key>(keys: &mut [K]) {
    for next in 1..keys.len() {
        let key = keys[next];
        let mut at = next;
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
