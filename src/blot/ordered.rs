//! Windows of tokens in order.
//!
//! The hashes f of the tokens of a window are the digits of a number to an odd base M, modulo 2^64:
//! H = f(1)·M^(k−1) + f(2)·M^(k−2) + … + f(k). The next window takes two multiplications, and
//! repeated words do not cancel. At the end the bits are mixed, so that the top bits depend on all
//! bits.

use super::shape::RunScheme;

/// The fraction of the golden ratio; odd.
pub const M: u64 = 0x9e37_79b9_7f4a_7c15;

/// The scheme.
pub static ORDERED: RunScheme = RunScheme {
    name: "ordered",
    help: "K tokens in a row, as they stand",
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
        .fold(0, |sum, &hash| append(sum, hash));
    out.reserve(hashes.len() + 1 - first);
    out.push(stir(sum));
    let leaving = (0..k).fold(1_u64, |power, _| power.wrapping_mul(M));
    out.extend(
        hashes[first..]
            .iter()
            .zip(hashes)
            .map(|(&enters, &leaves)| {
                sum = append(sum, enters).wrapping_sub(leaves.wrapping_mul(leaving));
                stir(sum)
            }),
    );
}

/// Appends a digit to the number.
pub fn append(sum: u64, hash: u64) -> u64 {
    sum.wrapping_mul(M).wrapping_add(hash)
}

/// The finaliser of MurmurHash3: each input bit changes each output bit with probability ½.
pub fn stir(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// The number of a single window.
#[cfg(test)]
pub fn simple(hashes: impl Iterator<Item = u64>) -> u64 {
    stir(hashes.fold(0, append))
}
