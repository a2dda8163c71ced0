//! Windows whose order does not count.
//!
//! The hashes of a window's tokens are added, modulo 2^64: what sorting them first would give, but the next window is one addition and one
//! subtraction away. A word that occurs twice counts twice, where XOR would lose it. At the end the bits are stirred.

use super::{seed, stir};

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
