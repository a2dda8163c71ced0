//! A print in two. Nearly all prints that a search looks at are known to be too far by three quarters of their bits, the body. So these are
//! what is kept in memory; the first quarter, the head, is only looked at if they are not.

use crate::text::stream::Print;

pub const BODY_BYTES: usize = 24;
pub const HEAD_BYTES: usize = 8;
pub type PrintBody = [u8; BODY_BYTES];
pub type PrintHead = [u8; HEAD_BYTES];

pub fn split(print: &Print) -> (PrintHead, PrintBody) {
    let [head, words @ ..] = print.0;
    let mut body = [0; BODY_BYTES];
    body.as_chunks_mut()
        .0
        .iter_mut()
        .zip(words)
        .for_each(|(bytes, word)| *bytes = word.to_le_bytes());
    (head.to_le_bytes(), body)
}

#[inline(always)]
pub fn join(head: PrintHead, body: &PrintBody) -> Print {
    let [a, b, c] = words_of(body);
    Print([u64::from_le_bytes(head), a, b, c])
}

#[inline(always)]
pub fn words_of(body: &PrintBody) -> [u64; 3] {
    let (words, _) = body.as_chunks();
    std::array::from_fn(|at| u64::from_le_bytes(words[at]))
}

/// In how many of its bits a body differs from a print.
#[inline(always)]
pub fn distance(body: &PrintBody, print: &Print) -> u32 {
    let ([a, b, c], [_, d, e, f]) = (words_of(body), print.0);
    (a ^ d).count_ones() + (b ^ e).count_ones() + (c ^ f).count_ones()
}

/// In how many of its bits a head differs from a print.
#[inline(always)]
pub fn head_distance(head: PrintHead, print: &Print) -> u32 {
    (u64::from_le_bytes(head) ^ print.0[0]).count_ones()
}

/// All bodies in a row.
#[inline(always)]
pub fn bodies(bytes: &[u8]) -> &[PrintBody] {
    bytes.as_chunks().0
}
