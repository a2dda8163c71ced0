//! Windows of tokens in any order.
//!
//! The hashes of the tokens of a window are added, modulo 2^64. The sum is as independent of the
//! order as sorting would be, and the next window takes one addition and one subtraction. A word
//! that occurs twice counts twice, where it would cancel with XOR. At the end the bits are mixed.

use super::{seed, shape::RunScheme, stir};

/// The scheme.
pub static SORTED: RunScheme = RunScheme {
    name: "sorted",
    help: "K tokens in any order; a word that occurs twice counts twice",
    windows,
};

/// Appends a number for each window of `k` hashes, or one for all of them if there are fewer.
pub fn windows(hashes: &[u64], k: usize, out: &mut Vec<u64>) {
    if hashes.is_empty() {
        return;
    }
    let first = k.min(hashes.len());
    let mut sum = hashes[..first]
        .iter()
        .fold(seed("sorted"), |sum, &hash| sum.wrapping_add(hash));
    out.reserve(hashes.len() + 1 - first);
    out.push(stir(sum));
    out.extend(
        hashes[first..]
            .iter()
            .zip(hashes)
            .map(|(&enters, &leaves)| {
                sum = sum.wrapping_add(enters).wrapping_sub(leaves);
                stir(sum)
            }),
    );
}
