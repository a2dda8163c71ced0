//! A print in two: body and head. The body, three quarters of the bits, rules out nearly all prints
//! of a search, so only bodies stay in memory; the head, the first quarter, is read if the body
//! does not rule a print out.

use crate::text::stream::Print;

pub const BODY_BYTES: usize = 24;
pub const HEAD_BYTES: usize = 8;
pub type PrintBody = [u8; BODY_BYTES];
pub type PrintHead = [u8; HEAD_BYTES];

pub fn split_print(print: &Print) -> (PrintHead, PrintBody) {
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
pub fn join_print(head: PrintHead, body: &PrintBody) -> Print {
    let [a, b, c] = body_words(body);
    Print([u64::from_le_bytes(head), a, b, c])
}

#[inline(always)]
pub fn body_words(body: &PrintBody) -> [u64; 3] {
    let (words, _) = body.as_chunks();
    std::array::from_fn(|at| u64::from_le_bytes(words[at]))
}

/// The number of differing bits of a body.
#[inline(always)]
pub fn body_distance(body: &PrintBody, print: &Print) -> u32 {
    let ([a, b, c], [_, d, e, f]) = (body_words(body), print.0);
    (a ^ d).count_ones() + (b ^ e).count_ones() + (c ^ f).count_ones()
}

/// The number of differing bits of a head.
#[inline(always)]
pub fn head_distance(head: PrintHead, print: &Print) -> u32 {
    (u64::from_le_bytes(head) ^ print.0[0]).count_ones()
}

/// Bytes as bodies.
#[inline(always)]
pub fn as_bodies(bytes: &[u8]) -> &[PrintBody] {
    bytes.as_chunks().0
}
