//! Windows whose order counts.
//!
//! The hashes f of a window's tokens are the digits of a number to an odd base M, modulo 2^64:
//! H = f(1)·M^(k−1) + f(2)·M^(k−2) + … + f(k). The next window is one multiplication away, and repeated words
//! do not cancel. At the end the bits are stirred, so that the top ones depend on all.

/// The golden ratio's fraction, odd.
pub const M: u64 = 0x9e37_79b9_7f4a_7c15;

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

/// One more digit.
pub fn append(sum: u64, hash: u64) -> u64 {
    sum.wrapping_mul(M).wrapping_add(hash)
}

/// The finaliser of MurmurHash3: every bit of the input changes every bit of the output with even odds.
pub fn stir(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

#[cfg(test)]
pub fn simple(hashes: impl Iterator<Item = u64>) -> u64 {
    stir(hashes.fold(0, append))
}
