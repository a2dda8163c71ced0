//! dupi's k-circular XOR: h(i+1) = h(i) ⊕ f(t(i)) ⊕ f(t(i+k)).
//!
//! Blind to the order of tokens, and a word that occurs twice in a window might as well not be there.

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
