//! The k-circular XOR of dupi: h(i+1) = h(i) ⊕ f(t(i)) ⊕ f(t(i+k)).
//!
//! The order of tokens does not count, and a word that occurs twice in a window cancels.

use super::shape::RunScheme;

/// The scheme.
pub static XOR: RunScheme = RunScheme {
    name: "xor",
    help: "K tokens in any order; a word that occurs twice in a window cancels (as dupi does it)",
    windows,
};

/// Appends a number for each window of `k` hashes, or one for all of them if there are fewer.
pub fn windows(hashes: &[u64], k: usize, out: &mut Vec<u64>) {
    if hashes.is_empty() {
        return;
    }
    let first = k.min(hashes.len());
    let mut sum = hashes[..first].iter().fold(0, |sum, hash| sum ^ hash);
    out.push(sum);
    out.extend(hashes[first..].iter().zip(hashes).map(|(enters, leaves)| {
        sum ^= enters ^ leaves;
        sum
    }));
}
