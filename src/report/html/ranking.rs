//! Which source accounts for which words of a document, each word once.

use crate::align::WordRange;
use crate::base::num::ToU32;
use std::{cmp::Reverse, collections::BinaryHeap};

/// The order of sources, and how many words are credited to each: the first is the source that has the most words of the document, the next the one
/// that has the most of what is left, and so on. Among equal sources, the first given one.
///
/// `is_taken` has a place for each word of the document, true for those that do not count. `stretches` are the words of the document that each source has. With a document of ten words, one source that has the words 0..6 and another that has
/// 4..9: the first is credited with 6, the second with 3, together 9 of 10, although 6 + 5 would be 11.
///
/// A credit can only shrink as others are given, so that most sources are looked at once or twice. Memory: a byte a word.
pub fn ranked(mut is_taken: Vec<bool>, stretches: &[&[WordRange]]) -> Vec<(usize, u32)> {
    let mut waiting: BinaryHeap<(u32, Reverse<usize>)> = stretches
        .iter()
        .enumerate()
        .map(|(source, stretches)| (free(&is_taken, stretches), Reverse(source)))
        .collect();
    let mut order = Vec::with_capacity(stretches.len());
    while let Some((_, Reverse(source))) = waiting.pop() {
        let credit = free(&is_taken, stretches[source]);
        if waiting
            .peek()
            .is_some_and(|&next| next > (credit, Reverse(source)))
        {
            waiting.push((credit, Reverse(source)));
            continue;
        }
        stretches[source]
            .iter()
            .for_each(|&words| slice_mut(&mut is_taken, words).fill(true));
        order.push((source, credit));
    }
    order
}

/// How many words of some stretches, which may overlap, are not taken.
fn free(is_taken: &[bool], stretches: &[WordRange]) -> u32 {
    let mut sorted = stretches.to_vec();
    sorted.sort_unstable_by_key(|words| words.start);
    let (mut free, mut end) = (0, 0);
    for words in sorted {
        let rest = WordRange {
            start: words.start.max(end),
            end: words.end.max(end),
        };
        free += slice(is_taken, rest)
            .iter()
            .filter(|&&is_taken| !is_taken)
            .count()
            .to_u32();
        end = rest.end;
    }
    free
}

fn slice(words: &[bool], range: WordRange) -> &[bool] {
    words.get(range.range()).unwrap_or_default()
}

fn slice_mut(words: &mut [bool], range: WordRange) -> &mut [bool] {
    words.get_mut(range.range()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(start: u32, end: u32) -> WordRange {
        WordRange { start, end }
    }

    #[test]
    fn each_word_is_credited_once() {
        let sources: [&[WordRange]; 5] = [
            &[words(4, 9)],
            &[words(0, 6)],
            &[words(0, 5)],
            &[words(9, 10), words(4, 6), words(5, 7)],
            &[],
        ];
        assert_eq!(
            ranked(vec![false; 10], &sources),
            [(1, 6), (0, 3), (3, 1), (2, 0), (4, 0)]
        );
        let is_out = (0..10).map(|word| word < 5).collect();
        assert_eq!(
            ranked(is_out, &sources),
            [(0, 4), (3, 1), (1, 0), (2, 0), (4, 0)]
        );
        assert_eq!(ranked(Vec::new(), &[]), []);
    }
}
